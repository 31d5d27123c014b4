"""Nodes of a scene: bodies, joints, beams, springs, contacts, traces, the clock."""

from typing import Any, NamedTuple

import numpy as np
import viser

from lie_jax.viz import parts, solids, surfaces, tubes
from lie_jax.viz.frames import Frames, extent
from lie_jax.viz.look import VIEWS

_JOINT, _JOINT_ON_GROUND = (40, 40, 40), (0, 0, 0)


class Drawn(NamedTuple):
    """Nodes that move: of each run its bodies and then its lines; the label with the time."""

    runs: list[list[Any]]
    clock: Any


def draw(server: viser.ViserServer, scenes: list[Frames], names: bool, view: str) -> Drawn:
    """Draw all runs at their first instant."""
    corners = [corner + s.offset for s in scenes for corner in extent(s.system, s.center)]
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    middle, size = 0.5 * (low + high), float(np.max(high - low))
    server.scene.set_up_direction("+z")
    server.scene.add_grid(
        "/grid", width=4.0 * size, height=4.0 * size, cell_size=0.25 * size,
        position=(middle[0], middle[1], low[2] - 0.1 * size),
    )  # fmt: skip
    server.initial_camera.position = middle + size * np.asarray(VIEWS[view])
    server.initial_camera.look_at = middle
    above = (middle[0], middle[1], high[2] + 0.1 * size)
    clock = server.scene.add_label("/time", clock_text(scenes, 0), position=above)
    return Drawn([_run(server, i, scene, names) for i, scene in enumerate(scenes)], clock)


def clock_text(scenes: list[Frames], frame: int) -> str:
    """Time of the motion, in the run with the most frames."""
    longest = max((scene.t for scene in scenes), key=len)
    return f"t = {longest[min(frame, len(longest) - 1)]:.3f} s"


def _run(server: viser.ViserServer, number: int, scene: Frames, names: bool) -> list[Any]:
    """Draw a run; nodes of its bodies and of its lines, for `move`."""
    root = f"/run {number + 1}"
    server.scene.add_frame(root, position=scene.offset, show_axes=False)
    points, bodies = solids.joint_points(scene.system), solids.solids(scene.system)
    drawn, on_beams = parts.drawn_solids(scene), tubes.nodes(scene.system)
    length = parts.axes_length(scene)
    nodes = []
    for k, (name, solid) in enumerate(zip(scene.system.names, drawn, strict=True)):
        color = parts.body_color(number, k)
        # A slash in a name would make a child node.
        path = f"{root}/{k} {name.replace('/', ' ')}"
        # Tubes show where nodes of beams are; the trace is that of their ends.
        node = server.scene.add_frame(
            path, axes_length=length, axes_radius=0.03 * length, show_axes=solid is not None
        )
        nodes.append(node)
        if solid is not None:
            _surface(server, f"{path}/body", surfaces.of_solid(solid), color, 0.7)
        if names:
            server.scene.add_label(f"{path}/name", name, position=bodies[k].center)
        _joints(server, path, points.get(k, ()), solid, color, length)
        trace = np.stack([scene.center[:-1, k], scene.center[1:, k]], axis=1)
        if len(trace) and name in scene.traces and on_beams[k] < 2:
            server.scene.add_line_segments(
                f"{root}/trace {k}", trace, colors=color, thickness=1.5, thickness_units="screen"
            )
    for i, part in enumerate(parts.of_shapes(scene, number, reach=2.0 * parts.size(scene))):
        path = root if part.body == solids.GROUND else nodes[part.body].name
        opacity = part.opacity if part.opacity != 1.0 else None
        _surface(server, f"{path}/shape {i}", part.surface, part.color, opacity)
    for line in scene.lines:
        nodes.append(
            server.scene.add_line_segments(
                f"{root}/{line.name}", line.points[0], colors=parts.rgb(line.color),
                thickness=line.thickness, thickness_units=line.units,
            )
        )  # fmt: skip
    for i, point in enumerate(points.get(solids.GROUND, ())):
        server.scene.add_icosphere(
            f"{root}/ground {i}", radius=0.12 * length, color=_JOINT_ON_GROUND, position=point
        )
    return nodes


def _surface(
    server: viser.ViserServer, path: str, surface: Any, color: Any, opacity: float | None
) -> None:
    server.scene.add_mesh_simple(
        path, np.asarray(surface.vertices), np.asarray(surface.faces),
        color=color, opacity=opacity, side="double",
    )  # fmt: skip


def _joints(
    server: viser.ViserServer, path: str, points: Any, solid: Any, color: Any, length: float
) -> None:
    """Balls at the joints of a body, with lines to the middle of its solid."""
    if len(points) and solid is not None:
        ends = np.stack([np.broadcast_to(solid.center, points.shape), points], axis=1)
        server.scene.add_line_segments(
            f"{path}/links", ends, colors=color, thickness=4.0, thickness_units="screen"
        )
    for i, point in enumerate(points):
        server.scene.add_icosphere(
            f"{path}/joint {i}", radius=0.08 * length, color=_JOINT, position=point
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
