"""A moving scene in the browser: bodies as boxes of their inertia, joints, beams, contacts, traces.

Drawn by viser. `export` writes one file that needs neither Python nor a network; `show` serves the
same scene with more controls.
"""

import contextlib
import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import viser
from numpy.typing import NDArray

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics.multibody import AbstractMultibodySystem
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.viz import contacts, plots, shapes, tubes
from lie_jax.viz.look import COLORS

# Colours of ground and of forces, and the length of the largest force over that of the scene.
_GROUND, _FORCE, _LONGEST = (190, 190, 180), (200, 30, 30), 0.4

Run = tuple[AbstractMultibodySystem, Trajectory]


class _Lines(NamedTuple):
    """Line segments (frames, segments, 2, 3), m, of a color, and a thickness in pixels or m."""

    name: str
    points: NDArray
    color: tuple[int, int, int]
    thickness: float
    units: Literal["screen", "world"]


class _Frames(NamedTuple):
    """Times (frames,), poses of the bodies at them, and the position of a run in the scene.

    `lines`: forces of contacts, from their places along the forces on the first bodies, and beams.
    """

    system: Any
    t: NDArray
    position: NDArray
    orientation: NDArray
    center: NDArray
    offset: NDArray
    lines: tuple[_Lines, ...]


def export(
    path: str | os.PathLike, *runs: Run, speed: float = 1.0, frames_per_second: float = 30.0
) -> None:
    """Write a page with a moving scene, buttons to stop it and a slider for the time.

    **Arguments:** `path`: of the HTML file; `runs`: pairs (system, trajectory), drawn side by side;
    `speed`: seconds of the motion in a second, 0.1 for slow motion; `frames_per_second`: of the
    page. Raises `ValueError` for other values and a path that cannot be written.
    """
    checks.path("viz.export(path=)", path)
    checks.positive("viz.export(speed=)", speed, "seconds of motion in a second")
    checks.positive("viz.export(frames_per_second=)", frames_per_second, "1/s")
    scenes = _prepared("viz.export", runs, speed / frames_per_second)
    with _served(0, scenes) as (server, moving):
        recording = server.get_scene_serializer()
        for frame in range(max(len(scene.t) for scene in scenes)):
            _move(moving, scenes, [frame] * len(scenes))
            recording.insert_sleep(1.0 / frames_per_second)
        page = recording.as_html()
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"viz.export(path=) is {str(path)!r}, which cannot be written ({error.strerror}); it "
            "must be a file in a folder that exists and that you may write to: take another."
        ) from error


@contextlib.contextmanager
def _served(port: int, scenes: list[_Frames]) -> Iterator[tuple[viser.ViserServer, list[Any]]]:
    """Server of the drawn scenes, and for each of them the nodes of its bodies."""
    # viser prints a table of its addresses.
    with contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host="127.0.0.1", port=port, verbose=False)
    try:
        moving = [_drawn(server, i, scene) for i, scene in enumerate(scenes)]
        _look(server, scenes)
        yield server, moving
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()


def show(*runs: Run, speed: float = 1.0, port: int = 8080) -> None:
    """Serve the scene, at http://localhost:8080, until Ctrl-C.

    With play and pause, a slider for the time and a field for the speed. **Arguments:** those of
    `export`; `port`: where to serve, the next free one if it is taken.
    """
    checks.positive("viz.show(speed=)", speed, "seconds of motion in a second")
    scenes = _prepared("viz.show", runs, None)
    with _served(port, scenes) as (server, moving), contextlib.suppress(KeyboardInterrupt):
        print(f"the scene is at http://localhost:{server.get_port()} until Ctrl-C", flush=True)
        _play(server, moving, scenes, speed)


def _play(
    server: viser.ViserServer, moving: list[Any], scenes: list[_Frames], speed: float
) -> None:
    end = max(float(scene.t[-1]) for scene in scenes)
    playing = server.gui.add_checkbox("Play", True)
    chosen = server.gui.add_slider("t / s", 0.0, end, end / 1000.0, 0.0)
    pace = server.gui.add_number("Speed", speed, min=1e-3, step=0.1)

    @chosen.on_update
    def _(_: Any) -> None:
        _move(moving, scenes, [int(np.searchsorted(scene.t, chosen.value)) for scene in scenes])

    last = time.monotonic()
    while True:
        time.sleep(1.0 / 30.0)
        now = time.monotonic()
        if playing.value:
            chosen.value = (chosen.value + (now - last) * pace.value) % end
        last = now


def _prepared(where: str, runs: tuple[Run, ...], spacing: float | None) -> list[_Frames]:
    if not runs:
        raise ValueError(f"{where} was given no run; give at least one pair (system, trajectory).")
    scenes, edge = [], 0.0
    for run in runs:
        if not isinstance(run, tuple | list) or len(run) != 2:
            raise ValueError(
                f"{where}(runs=) holds a {type(run).__name__}; each run is a pair (system, "
                "trajectory): put the two in parentheses."
            )
        system, trajectory = run
        plots.check_run(where, system, trajectory)
        t, q, v = _at_even_times(trajectory, spacing)
        rotation, position = jax.jit(jax.vmap(lambda q, s=system: s.poses(q)))(q)
        orientation = jax.jit(jax.vmap(jax.vmap(quaternion.from_matrix)))(rotation)
        center = shapes.centers(system, q)
        low, high = _extent(system, center)
        offset = np.asarray([edge - low[0], 0.0, 0.0]) if scenes else np.zeros(3)
        edge = high[0] + offset[0] + 0.3 * (high[0] - low[0]) + 0.2 * float(np.max(high - low))
        poses = np.asarray(position), np.asarray(orientation)
        pushes = contacts.forces(system, t, q, v)
        longest = np.max(np.linalg.norm(pushes[:, :, 1], axis=-1), initial=0.0)
        pushes[:, :, 1] *= _LONGEST * float(np.max(high - low)) / (longest or 1.0)
        pushes[:, :, 1] += pushes[:, :, 0]
        color = _rgb(COLORS[len(scenes) % len(COLORS)])
        drawn = (
            _Lines("forces", pushes, _FORCE, 3.0, "screen"),
            _Lines("beams", tubes.lines(system, q), color, tubes.thickness(system), "world"),
        )
        lines = tuple(line for line in drawn if line.points.shape[1])
        scenes.append(_Frames(system, t, *poses, center, offset, lines))
    return scenes


def _at_even_times(trajectory: Trajectory, spacing: float | None) -> tuple[NDArray, ...]:
    # The nearest saved instants: configurations cannot be averaged.
    t, q, v = (np.asarray(x) for x in (trajectory.t, trajectory.q, trajectory.v))
    finite = np.isfinite(t) & np.all(np.isfinite(np.concatenate([q, v], axis=1)), axis=1)
    t, q, v = t[finite], q[finite], v[finite]
    if spacing is None or len(t) < 2:
        return t, q, v
    wanted = t[0] + np.arange(int((t[-1] - t[0]) / spacing) + 1) * spacing
    middle = 0.5 * (t[1:] + t[:-1])
    nearest = np.searchsorted(middle, wanted)
    return wanted, q[nearest], v[nearest]


def _extent(system: AbstractMultibodySystem, center: NDArray) -> tuple[NDArray, NDArray]:
    """Corners of the space that the bodies reach, in every orientation."""
    # Nodes of beams are not drawn as boxes.
    on_beams, solids = tubes.nodes(system), shapes.boxes(system)
    sizes = [float(np.linalg.norm(box.sizes)) for k, box in enumerate(solids) if not on_beams[k]]
    reach = 0.5 * max(sizes, default=tubes.thickness(system))
    points = center.reshape(-1, 3)
    return points.min(axis=0) - reach, points.max(axis=0) + reach


def _drawn(server: viser.ViserServer, number: int, scene: _Frames) -> list[Any]:
    """Draw a run; nodes of its bodies and the forces of its contacts, for `_move`."""
    root = f"/run {number + 1}"
    server.scene.add_frame(root, position=scene.offset, show_axes=False)
    points, solids = shapes.joint_points(scene.system), shapes.boxes(scene.system)
    moving, on_beams = [], tubes.nodes(scene.system)
    low, high = _extent(scene.system, scene.center)
    drawn = [float(np.max(box.sizes)) for k, box in enumerate(solids) if not on_beams[k]]
    length = 0.3 * max(drawn, default=0.1 * float(np.max(high - low)))
    for body, (name, box) in enumerate(zip(scene.system.names, solids, strict=True)):
        color = _rgb(COLORS[(number + body) % (len(COLORS) - 1)])
        # A slash in a name would make a child node.
        path = f"{root}/{body} {name.replace('/', ' ')}"
        # Tubes show where nodes of beams are; the trace is that of their ends.
        node = server.scene.add_frame(
            path,
            axes_length=length,
            axes_radius=0.03 * length,
            show_axes=not on_beams[body],
        )
        turn = np.asarray(quaternion.from_matrix(jax.numpy.asarray(box.axes)))
        if not on_beams[body]:
            server.scene.add_box(
                f"{path}/body", color=color, dimensions=tuple(box.sizes), wxyz=turn,
                position=box.center, opacity=0.7,
            )  # fmt: skip
        on_body = points.get(body)
        if on_body is not None:
            ends = np.stack([np.broadcast_to(box.center, on_body.shape), on_body], axis=1)
            server.scene.add_line_segments(
                f"{path}/links", ends, colors=color, thickness=4.0, thickness_units="screen"
            )
            for i, point in enumerate(on_body):
                server.scene.add_icosphere(
                    f"{path}/joint {i}", radius=0.08 * length, color=(40, 40, 40), position=point
                )
        trace = np.stack([scene.center[:-1, body], scene.center[1:, body]], axis=1)
        if len(trace) and on_beams[body] < 2:
            server.scene.add_line_segments(
                f"{root}/trace {body}", trace, colors=color, thickness=1.5, thickness_units="screen"
            )
        moving.append(node)
    paths = [node.name for node in moving]
    for i, (body, mesh) in enumerate(
        contacts.meshes(scene.system, reach=2.0 * float(np.max(high - low)))
    ):
        ground = body == shapes.GROUND
        server.scene.add_mesh_simple(
            f"{root if ground else paths[body]}/shape {i}", mesh.vertices, mesh.faces,
            color=_GROUND if ground else _rgb(COLORS[(number + body) % (len(COLORS) - 1)]),
            opacity=0.4, side="double",
        )  # fmt: skip
    for lines in scene.lines:
        moving.append(
            server.scene.add_line_segments(
                f"{root}/{lines.name}",
                lines.points[0],
                colors=lines.color,
                thickness=lines.thickness,
                thickness_units=lines.units,
            )
        )
    for i, point in enumerate(points.get(shapes.GROUND, ())):
        server.scene.add_icosphere(
            f"{root}/ground {i}", radius=0.12 * length, color=(0, 0, 0), position=point
        )
    return moving


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _look(server: viser.ViserServer, scenes: list[_Frames]) -> None:
    corners = [corner + s.offset for s in scenes for corner in _extent(s.system, s.center)]
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    middle, size = 0.5 * (low + high), float(np.max(high - low))
    server.scene.set_up_direction("+z")
    server.scene.add_grid(
        "/grid", width=4.0 * size, height=4.0 * size, cell_size=0.25 * size,
        position=(middle[0], middle[1], low[2] - 0.1 * size),
    )  # fmt: skip
    server.initial_camera.position = middle + size * np.asarray([0.5, -0.75, 0.4])
    server.initial_camera.look_at = middle


def _move(moving: list[list[Any]], scenes: list[_Frames], frames: list[int]) -> None:
    for nodes, scene, frame in zip(moving, scenes, frames, strict=True):
        now = min(frame, len(scene.t) - 1)
        bodies = scene.position.shape[1]
        for body, node in enumerate(nodes[:bodies]):
            node.position = scene.position[now, body]
            node.wxyz = scene.orientation[now, body]
        for node, lines in zip(nodes[bodies:], scene.lines, strict=True):
            node.points = lines.points[now].astype(np.float32)
