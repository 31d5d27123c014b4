"""Nodes of a scene: bodies, joints, beams, springs, contacts, traces, the clock."""

from typing import Any, NamedTuple

import numpy as np
import viser

from lie_jax.io.visuals import Mesh
from lie_jax.viz import contacts, solids, surfaces, tubes
from lie_jax.viz.frames import Frames, extent
from lie_jax.viz.look import COLORS

# Directions from the middle of the scene to the camera, and lengths of the scene away.
VIEWS = {
    "oblique": (0.5, -0.75, 0.4),
    "front": (0.0, -1.2, 0.0),
    "side": (1.2, 0.0, 0.0),
    # Not quite, as the camera's up is z.
    "top": (0.0, -0.01, 1.2),
}
_GROUND, _JOINT, _JOINT_ON_GROUND = (190, 190, 180), (40, 40, 40), (0, 0, 0)


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
    clock = server.scene.add_label("/time", _time(scenes, 0), position=above)
    return Drawn([_run(server, i, scene, names) for i, scene in enumerate(scenes)], clock)


def _time(scenes: list[Frames], frame: int) -> str:
    longest = max((scene.t for scene in scenes), key=len)
    return f"t = {longest[min(frame, len(longest) - 1)]:.3f} s"


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _run(server: viser.ViserServer, number: int, scene: Frames, names: bool) -> list[Any]:
    """Draw a run; nodes of its bodies and of its lines, for `move`."""
    root = f"/run {number + 1}"
    server.scene.add_frame(root, position=scene.offset, show_axes=False)
    points, bodies = solids.joint_points(scene.system), solids.solids(scene.system)
    on_beams, shaped = tubes.nodes(scene.system), {shape.body for shape in scene.shapes}
    low, high = extent(scene.system, scene.center)
    drawn = [float(np.max(body.sizes)) for k, body in enumerate(bodies) if not on_beams[k]]
    length = 0.3 * max(drawn, default=0.1 * float(np.max(high - low)))
    nodes = []
    for k, (name, solid) in enumerate(zip(scene.system.names, bodies, strict=True)):
        color = _color(number, k)
        # A slash in a name would make a child node.
        path = f"{root}/{k} {name.replace('/', ' ')}"
        is_solid = not on_beams[k] and name not in shaped
        # Tubes show where nodes of beams are; the trace is that of their ends.
        node = server.scene.add_frame(
            path, axes_length=length, axes_radius=0.03 * length, show_axes=is_solid
        )
        nodes.append(node)
        if is_solid:
            _surface(server, f"{path}/body", surfaces.of_solid(solid), color, 0.7)
        if names:
            server.scene.add_label(f"{path}/name", name, position=solid.center)
        _joints(server, path, points.get(k, ()), solid if is_solid else None, color, length)
        trace = np.stack([scene.center[:-1, k], scene.center[1:, k]], axis=1)
        if len(trace) and name in scene.traces and on_beams[k] < 2:
            server.scene.add_line_segments(
                f"{root}/trace {k}", trace, colors=color, thickness=1.5, thickness_units="screen"
            )
    _shapes(server, root, nodes, number, scene, reach=2.0 * float(np.max(high - low)))
    for line in scene.lines:
        nodes.append(
            server.scene.add_line_segments(
                f"{root}/{line.name}", line.points[0], colors=_rgb(line.color),
                thickness=line.thickness, thickness_units=line.units,
            )
        )  # fmt: skip
    for i, point in enumerate(points.get(solids.GROUND, ())):
        server.scene.add_icosphere(
            f"{root}/ground {i}", radius=0.12 * length, color=_JOINT_ON_GROUND, position=point
        )
    return nodes


def _color(run: int, body: int) -> tuple[int, int, int]:
    return _rgb(COLORS[(run + body) % (len(COLORS) - 1)])


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


def _shapes(
    server: viser.ViserServer, root: str, nodes: list[Any], run: int, scene: Frames, reach: float
) -> None:
    """Shapes that the user gives, and those of contacts, which one sees through."""
    number = {"ground": solids.GROUND} | {name: k for k, name in enumerate(scene.system.names)}
    for i, shape in enumerate(scene.shapes):
        if shape.body not in number:
            # Of a body of another run.
            continue
        k = number[shape.body]
        path, color, opacity = _path(root, nodes, k), _body_color(run, k), None
        if isinstance(shape, Mesh):
            surface = shape
            if shape.color is not None:
                red, green, blue, alpha = (float(x) for x in shape.color)
                color, opacity = tuple(round(255 * x) for x in (red, green, blue)), alpha
        else:
            surface = surfaces.of_shape(shape, reach)
        _surface(server, f"{path}/shape {i}", surface, color, opacity if opacity != 1.0 else None)
    for i, (k, surface) in enumerate(contacts.surfaces(scene.system, reach)):
        path = _path(root, nodes, k)
        _surface(server, f"{path}/contact {i}", surface, _body_color(run, k), 0.4)


def _path(root: str, nodes: list[Any], body: int) -> str:
    return root if body == solids.GROUND else nodes[body].name


def _body_color(run: int, body: int) -> tuple[int, int, int]:
    return _GROUND if body == solids.GROUND else _color(run, body)


def move(drawn: Drawn, scenes: list[Frames], frames: list[int]) -> None:
    """Move all nodes to frames of their runs."""
    drawn.clock.text = _time(scenes, max(frames))
    for nodes, scene, frame in zip(drawn.runs, scenes, frames, strict=True):
        now = min(frame, len(scene.t) - 1)
        bodies = scene.position.shape[1]
        for body, node in enumerate(nodes[:bodies]):
            node.position = scene.position[now, body]
            node.wxyz = scene.orientation[now, body]
        for node, line in zip(nodes[bodies:], scene.lines, strict=True):
            node.points = line.points[now].astype(np.float32)
