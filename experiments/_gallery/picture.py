"""One picture of an entry: its poses, with points and axes of its joints and forces."""

from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import trimesh
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from numpy.typing import NDArray
from PIL import Image

import lie_jax
from experiments import _plots
from experiments._gallery.entries import Entry
from lie_jax.viz import frames, painting, parts, surfaces
from lie_jax.viz.solids import GROUND
from lie_jax.viz.surfaces import Surface

# Size in inches, dots in an inch; half the width of what is seen, its middle (m).
_SIZE, _DOTS, _HALF, _MIDDLE = (4.0, 3.0), 100, 0.52, (0.0, 0.0, 0.13)
_POINTS_PER_METRE = 72.0 * _SIZE[0] / (2.0 * _HALF)
# Opacity of the first pose, and of the last but one.
_FADED = 0.2, 0.45
# Half the length of axes, their dashes and the gaps between, radius of points, length
# of arrows (m).
_REACH, _DASH, _GAP, _BALL, _ARROW = 0.22, 0.035, 0.02, 0.016, 0.2


_AXES = ("parent", ("axis", "normal")), ("child", ("child_axis",))


def save(entry: Entry, path: Path) -> None:
    """Draw an entry as a PNG."""
    system, t, q, v = entry.motion()
    scene = frames.at_instants(system, t, q, v, 0, entry.ground, ())
    fixed = painting.attach_parts(scene, 0)
    last = len(t) - 1
    on_ground = fixed.bodies == GROUND
    # Planes without end, which are translucent, are not drawn.
    still, moving = (
        painting.Attached(*jax.tree.map(lambda x, chosen=chosen: x[chosen], tuple(fixed)))
        for chosen in (on_ground & (fixed.polygons.colors[:, 3] == 1.0), ~on_ground)
    )
    layers = [painting.polygons_at(still, scene, last)]
    for pose, strength in enumerate([*np.linspace(*_FADED, last), 1.0]):
        bodies = painting.polygons_at(moving, scene, pose)
        lines = painting.lines(scene, 0, pose, _POINTS_PER_METRE)
        for layer in (bodies, lines):
            # Paler, and opaque.
            colors = np.clip(1.0 - (1.0 - layer.colors) * strength, [0.0, 0.0, 0.0, 1.0], 1.0)
            # Solids were translucent, without edges that hide the seams of opaque ones.
            widths = np.maximum(layer.widths, painting.SEAM)
            layers.append(layer._replace(colors=colors, widths=widths))
    layers.append(_marks(entry, scene, last))
    camera = painting.camera("oblique")
    x, y, _ = camera @ np.asarray(_MIDDLE)
    high = _HALF * _SIZE[1] / _SIZE[0]
    figure = plt.figure(figsize=_SIZE, dpi=_DOTS, layout="none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(x - _HALF, x + _HALF), ylim=(y - high, y + high))
    axes.set_axis_off()
    for layer in layers:
        axes.add_collection(PolyCollection([])).set(**painting.seen(layer, camera))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    # Few colors make small files.
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    image.quantize(64).save(path, optimize=True)
    plt.close(figure)


def _marks(entry: Entry, scene: frames.Frames, frame: int) -> painting.Polygons:
    """Points and axes of the joints and forces, loads, and rods between points that are apart."""
    red = parts.rgb(_plots.RED)
    pieces = [painting.segments(np.zeros((0, 2, 3)), red, 0.0)]
    for element in {id(x): x for x in (*entry.mechanism.joints, entry.element)}.values():
        points, path = [], []
        for side, names in _AXES:
            point = getattr(element, f"{side}_point", None)
            rotation, position = _pose(scene, frame, getattr(element, side, "ground"))
            points.append(position + rotation @ (np.zeros(3) if point is None else point))
            for axis in (getattr(element, name, None) for name in names):
                # The normal of a contact is a law; others without points act on joints.
                if isinstance(axis, jax.Array) and hasattr(element, "child_point"):
                    dashes = _dashed(points[-1], rotation @ axis)
                    pieces.append(painting.segments(dashes, red, 1.6))
            if point is not None:
                ball = trimesh.creation.icosphere(2, _BALL)
                moved = Surface(ball.vertices + points[-1], ball.faces)
                pieces.append(painting.triangles(moved, red, 1.0, _BALL))
        if isinstance(element, lie_jax.PathForce):
            for name, point in zip(element.ends, element.places, strict=True):
                rotation, position = _pose(scene, frame, name)
                path.append(position + rotation @ np.asarray(point))
            ends = np.stack([path[:-1], path[1:]], axis=1)
            pieces.append(painting.segments(ends, red, 2.0))
        if isinstance(element, lie_jax.DistanceJoint):
            pieces.append(painting.segments(np.asarray(points)[None], red, 2.0))
    if isinstance(entry.element, lie_jax.PointForce | lie_jax.Torque):
        pieces.append(_arrow(entry.element, scene, frame))
    return painting.together(pieces)


def _arrow(load: Any, scene: frames.Frames, frame: int) -> painting.Polygons:
    """A force from its point, or a torque from the body's frame, along it."""
    rotation, position = _pose(scene, frame, load.body)
    force = load.force if isinstance(load, lie_jax.PointForce) else load.torque
    direction = rotation @ force if load.frame == "body" else np.asarray(force)
    direction = direction / np.linalg.norm(direction)
    start = position + rotation @ getattr(load, "point", np.zeros(3))
    tip = start + _ARROW * direction
    cone = trimesh.creation.cone(0.025, 0.07)
    turned = cone.vertices @ surfaces.from_z(direction).T
    head = Surface(turned + tip - 0.02 * direction, cone.faces)
    red = parts.rgb(_plots.RED)
    return painting.together(
        [
            painting.segments(np.stack([start, tip])[None], red, 3.0),
            painting.triangles(head, red, 1.0, _ARROW),
        ]
    )


def _pose(scene: frames.Frames, frame: int, name: str) -> tuple[NDArray, NDArray]:
    if name == "ground":
        return np.eye(3), np.zeros(3)
    k = scene.system.names.index(name)
    return painting.rotations(scene, frame)[k], scene.position[frame, k]


def _dashed(middle: NDArray, direction: NDArray) -> NDArray:
    direction = direction / np.linalg.norm(direction)
    starts = np.arange(-_REACH, _REACH, _DASH + _GAP)
    ends = np.stack([starts, starts + _DASH], axis=1)
    return middle + ends[:, :, None] * direction
