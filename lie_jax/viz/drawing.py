"""Nodes of a scene: bodies, joints, beams, springs, contacts, traces, the clock."""

from typing import Any, NamedTuple

import numpy as np
import viser
from numpy.typing import NDArray

from lie_jax.viz import painting, parts, solids, tubes
from lie_jax.viz.frames import Frames

_JOINT = (40, 40, 40)
# Field of view of the camera, from below to above (rad), its width over its height at the least,
# and the distance over the one at which the motion fills it.
_FIELD, _ASPECT, _MARGIN = 0.8, 1.2, 1.15


class Drawn(NamedTuple):
    """Nodes that move: of each run its bodies and then its lines; the label with the time."""

    runs: list[list[Any]]
    clock: Any


def draw(server: viser.ViserServer, scenes: list[Frames], names: bool, view: str) -> Drawn:
    """Draw all runs at their first instant."""
    points = np.concatenate([parts.reached_points(scene, i) for i, scene in enumerate(scenes)])
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    middle, size = 0.5 * (low + high), float(np.max(high - low))
    server.scene.set_up_direction("+z")
    server.scene.add_grid(
        "/grid", width=4.0 * size, height=4.0 * size, cell_size=0.25 * size,
        position=(middle[0], middle[1], low[2] - 0.1 * size),
    )  # fmt: skip
    above = np.asarray([middle[0], middle[1], high[2] + 0.1 * size])
    _look(server.initial_camera, np.concatenate([points, above[None]]), view)
    clock = server.scene.add_label("/time", clock_text(scenes, 0), position=above)
    return Drawn([_run(server, i, scene, names) for i, scene in enumerate(scenes)], clock)


def _look(camera: Any, points: NDArray, view: str) -> None:
    """Place the camera where it sees all points (n, 3)."""
    axes = painting.camera(view)
    seen = points @ axes.T
    middle = 0.5 * (seen.min(axis=0) + seen.max(axis=0))
    right, up, towards = (seen - middle).T
    across = np.maximum(np.abs(up), np.abs(right) / _ASPECT) / np.tan(0.5 * _FIELD)
    away = _MARGIN * float(np.max(towards + across))
    camera.fov, camera.near, camera.far = _FIELD, 1e-2 * away, 1e2 * away
    camera.look_at = middle @ axes
    camera.position = (middle + away * np.asarray([0.0, 0.0, 1.0])) @ axes


def clock_text(scenes: list[Frames], frame: int) -> str:
    """Time of the motion, in the run with the most frames."""
    longest = max((scene.t for scene in scenes), key=len)
    return f"t = {longest[min(frame, len(longest) - 1)]:.3f} s"


def _run(server: viser.ViserServer, number: int, scene: Frames, names: bool) -> list[Any]:
    """Draw a run; nodes of its bodies and of its lines, for `move`."""
    root = f"/run {number + 1}"
    server.scene.add_frame(root, position=scene.offset, show_axes=False)
    bodies, on_beams = solids.solids(scene.system), tubes.nodes(scene.system)
    length = parts.marks_size(scene)
    nodes = []
    for k, name in enumerate(scene.system.names):
        # A slash in a name would make a child node.
        path = f"{root}/{k} {name.replace('/', ' ')}"
        # Tubes show where nodes of beams are; the trace is that of their ends.
        node = server.scene.add_frame(
            path,
            axes_length=parts.FRAME * length,
            axes_radius=0.02 * length,
            show_axes=not on_beams[k],
        )
        nodes.append(node)
        if names:
            server.scene.add_label(f"{path}/name", name, position=bodies[k].center)
        trace = np.stack([scene.center[:-1, k], scene.center[1:, k]], axis=1)
        if len(trace) and name in scene.traces and on_beams[k] < 2:
            _segments(server, f"{root}/trace {k}", trace, parts.body_color(number, k), 1.5)
    for k in range(len(nodes), len(scene.system.frame_slots)):
        # Frames to which joints and forces attach as to bodies.
        nodes.append(server.scene.add_frame(f"{root}/frame {k}", show_axes=False))
    paths = [node.name for node in nodes] + [root]
    shapes = parts.of_shapes(scene, number, reach=2.0 * parts.size(scene))
    for i, part in enumerate((*parts.of_solids(scene, number), *shapes)):
        server.scene.add_mesh_simple(
            f"{paths[part.body]}/shape {i}",
            np.asarray(part.surface.vertices),
            np.asarray(part.surface.faces),
            color=part.color,
            opacity=part.opacity if part.opacity != 1.0 else None,
            side="double",
        )
    for k, arms in parts.arms(scene):
        _segments(server, f"{paths[k]}/arms", arms, parts.body_color(number, k), 4.0)
    for k, axes in solids.joint_axes(scene.system, parts.AXIS * length).items():
        _segments(server, f"{paths[k]}/axes", axes, _JOINT, 3.0)
    for k, points in solids.joint_points(scene.system).items():
        for i, point in enumerate(points):
            server.scene.add_icosphere(
                f"{paths[k]}/joint {i}", radius=parts.BALL * length, color=_JOINT, position=point
            )
    for line in scene.lines:
        nodes.append(
            server.scene.add_line_segments(
                f"{root}/{line.name}", line.points[0], colors=parts.rgb(line.color),
                thickness=line.thickness, thickness_units=line.units,
            )
        )  # fmt: skip
    return nodes


def _segments(
    server: viser.ViserServer, path: str, ends: NDArray, color: parts.Color, width: float
) -> None:
    """Lines between ends (n, 2, 3), of a width in pixels."""
    server.scene.add_line_segments(
        path, ends, colors=color, thickness=width, thickness_units="screen"
    )


def move(drawn: Drawn, scenes: list[Frames], frames: list[int]) -> None:
    """Move all nodes to frames of their runs."""
    drawn.clock.text = clock_text(scenes, max(frames))
    for nodes, scene, frame in zip(drawn.runs, scenes, frames, strict=True):
        now = min(frame, len(scene.t) - 1)
        bodies = scene.position.shape[1]
        for body, node in enumerate(nodes[:bodies]):
            node.position = scene.position[now, body]
            node.wxyz = scene.orientation[now, body]
        for node, line in zip(nodes[bodies:], scene.lines, strict=True):
            node.points = line.points[now].astype(np.float32)
