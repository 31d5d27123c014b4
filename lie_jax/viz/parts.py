"""Surfaces in a scene, each on a body: solids, shapes from the user, shapes of contacts."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import trimesh
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from lie_jax.io.visuals import Mesh
from lie_jax.viz import contacts, solids, surfaces, tubes
from lie_jax.viz.deformed import Deformed
from lie_jax.viz.frames import Frames, extent
from lie_jax.viz.solids import GROUND
from lie_jax.viz.style import COLORS
from lie_jax.viz.surfaces import Surface

Color = tuple[int, int, int]

_GROUND: Color = (190, 190, 180)
# Length of frames' axes, half the length of joints' axes, and the radius of their points, over the
# size of marks.
FRAME, AXIS, BALL = 0.5, 0.5, 0.1
# Opacity of solids with the inertia of bodies and of shapes of contacts, through which joints show.
_TRANSLUCENT = 0.25


class Part(NamedTuple):
    """A surface on a body, by its number, or on the ground, -1, in its frame (m)."""

    body: int
    surface: Surface | Mesh
    color: Color
    opacity: float


def rgb(color: str) -> Color:
    """Red, green and blue, 0 to 255, of a color `"#rrggbb"`."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def body_color(run: int, body: int) -> Color:
    """Color of a body, or of the ground, in a run by its number."""
    return _GROUND if body == GROUND else rgb(COLORS[(run + body) % (len(COLORS) - 1)])


def of_solids(scene: Frames, run: int) -> Iterator[Part]:
    """Solids with the inertia of bodies, of which no shape from the user or beam is drawn."""
    on_beams, shaped = tubes.nodes(scene.system), {shape.body for shape in scene.shapes}
    for k, solid in enumerate(solids.solids(scene.system)):
        if not on_beams[k] and scene.system.names[k] not in shaped:
            yield Part(k, surfaces.of_solid(solid), body_color(run, k), _TRANSLUCENT)


def arms(scene: Frames) -> Iterator[tuple[int, NDArray]]:
    """Lines (joints, 2, 3) from the centre of mass of a body to its joints, in its frame (m)."""
    on_beams, points = tubes.nodes(scene.system), solids.joint_points(scene.system)
    for k, solid in enumerate(solids.solids(scene.system)):
        if k in points and not on_beams[k]:
            yield k, np.stack(np.broadcast_arrays(solid.center, points[k]), axis=1)


def size(scene: Frames) -> float:
    """Longest edge (m) of the space that the bodies reach."""
    low, high = extent(scene.system, scene.center)
    return float(np.max(high - low))


def marks_size(scene: Frames) -> float:
    """Length (m) to which axes of frames and marks of joints are in proportion."""
    on_beams = tubes.nodes(scene.system)
    bodies = solids.solids(scene.system)
    sizes = [float(np.max(body.sizes)) for k, body in enumerate(bodies) if not on_beams[k]]
    return max(0.3 * float(np.median(sizes)) if sizes else 0.0, 0.03 * size(scene))


def of_shapes(scene: Frames, run: int, reach: float) -> Iterator[Part]:
    """Shapes from the user, and those of contacts, which one sees through.

    Planes and fields are drawn as far as `reach` (m).
    """
    number = {"ground": GROUND} | {name: k for k, name in enumerate(scene.system.names)}
    for shape in scene.shapes:
        if shape.body not in number or isinstance(shape, Deformed):
            # Of a body of another run, or drawn as lines.
            continue
        k = number[shape.body]
        color, opacity = body_color(run, k), 1.0
        if isinstance(shape, Mesh):
            surface = shape
            if shape.color is not None:
                red, green, blue, opacity = (float(x) for x in shape.color)
                color = round(255 * red), round(255 * green), round(255 * blue)
        else:
            surface = surfaces.of_shape(shape, reach)
        yield Part(k, surface, color, opacity)
    for k, surface in contacts.surfaces(scene.system, reach):
        yield Part(k, surface, body_color(run, k), _TRANSLUCENT)


def reached_points(scene: Frames, run: int) -> NDArray:
    """Points (n, 3) of the scene between which bodies, joints and lines stay in all frames (m).

    Of the ground meshes count, as far as they are near, and neither planes nor fields.
    """
    pieces = {body: [points] for body, points in solids.joint_points(scene.system).items()}
    for part in (*of_solids(scene, run), *of_shapes(scene, run, reach=size(scene))):
        if part.body != GROUND or isinstance(part.surface, Mesh):
            pieces.setdefault(part.body, []).append(np.asarray(part.surface.vertices))
    points = [scene.center.reshape(-1, 3), *(line.points.reshape(-1, 3) for line in scene.lines)]
    for body in pieces.keys() - {GROUND}:
        outer = _outermost(np.concatenate(pieces[body]))
        turned = Rotation.from_quat(scene.orientation[:, body], scalar_first=True).as_matrix()
        moved = scene.position[:, None, body] + np.einsum("tij,nj->tni", turned, outer)
        points.append(moved.reshape(-1, 3))
    together = np.concatenate(points)
    if GROUND in pieces:
        low, high = together.min(axis=0), together.max(axis=0)
        near = 0.5 * np.max(high - low)
        outer = _outermost(np.concatenate(pieces[GROUND]))
        together = np.concatenate([together, np.clip(outer, low - near, high + near)])
    return together + scene.offset


def _outermost(points: NDArray) -> NDArray:
    """The farthest ones of points (n, 3) in some directions."""
    directions = trimesh.creation.icosphere(subdivisions=1).vertices
    return points[np.unique(np.argmax(points @ directions.T, axis=0))]
