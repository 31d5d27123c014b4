"""A moving scene in the browser, drawn by viser.

`export` writes one file that needs neither Python nor a network; `show` serves the same scene with
more controls.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import rich
import viser

from lie_jax import checks
from lie_jax.numerics import waits
from lie_jax.sweeps import unfinished
from lie_jax.viz import drawing
from lie_jax.viz.arguments import check, written
from lie_jax.viz.drawing import Drawn
from lie_jax.viz.frames import Frames, Run, Shape


@waits.announce("the pictures of the scene")
def export(
    path: str | os.PathLike,
    *runs: Run,
    speed: float = 1.0,
    frames_per_second: float = 30.0,
    shapes: Sequence[Shape] = (),
    traces: Sequence[str] | None = None,
    names: bool = False,
    view: str = "oblique",
) -> None:
    """Write a page with a moving scene, buttons to stop it and a slider for the time.

    **Arguments:**

    - `path`: of the HTML file.
    - `runs`: pairs (system, trajectory), drawn side by side.
    - `speed`: seconds of the motion in a second, 0.1 for slow motion; the scene shows the time t of
      the motion, and the bar of the page its own.
    - `frames_per_second`: of the page.
    - `shapes`: `lie_jax.contact` shapes and `viz.Mesh`es, which name their bodies, in place of the
      solids with the bodies' inertia.
    - `traces`: names of bodies whose centres of mass leave a line; by default all.
    - `names`: whether bodies have their names beside them.
    - `view`: where the camera stands first, `"oblique"`, `"front"`, `"side"` or `"top"`.

    Raises `ValueError` for other values and a path that cannot be written.
    """
    checks.path("viz.export(path=)", path)
    checks.positive("viz.export(speed=)", speed, "seconds of motion in a second")
    checks.positive("viz.export(frames_per_second=)", frames_per_second, "1/s")
    scenes = check("viz.export", runs, speed / frames_per_second, shapes, traces, view)
    with _serve(0, scenes, names, view) as (server, drawn):
        recording = server.get_scene_serializer()
        for frame in range(max(len(scene.t) for scene in scenes)):
            drawing.move(drawn, scenes, [frame] * len(scenes))
            recording.insert_sleep(1.0 / frames_per_second)
        page = recording.as_html()
    with written("viz.export", path), unfinished.replacing(path) as new:
        new.write_text(page, encoding="utf-8")


@waits.announce("the pictures of the scene")
def show(
    *runs: Run,
    speed: float = 1.0,
    port: int = 8080,
    shapes: Sequence[Shape] = (),
    traces: Sequence[str] | None = None,
    names: bool = False,
    view: str = "oblique",
) -> None:
    """Serve the scene, at http://localhost:8080, until Ctrl-C.

    With play and pause, a slider for the time and a field for the speed.

    **Arguments:**

    - `runs`: pairs (system, trajectory), drawn side by side.
    - `speed`: seconds of the motion in a second, 0.1 for slow motion.
    - `port`: where to serve, the next free one if it is taken.
    - `shapes`: `lie_jax.contact` shapes and `viz.Mesh`es, which name their bodies, in place of the
      solids with the bodies' inertia.
    - `traces`: names of bodies whose centres of mass leave a line; by default all.
    - `names`: whether bodies have their names beside them.
    - `view`: where the camera stands first, `"oblique"`, `"front"`, `"side"` or `"top"`.
    Raises `ValueError` for other values.
    """
    checks.positive("viz.show(speed=)", speed, "seconds of motion in a second")
    scenes = check("viz.show", runs, None, shapes, traces, view)
    with (
        _serve(port, scenes, names, view) as (server, drawn),
        contextlib.suppress(KeyboardInterrupt),
    ):
        print(f"the scene is at http://localhost:{server.get_port()} until Ctrl-C", flush=True)
        _play(server, drawn, scenes, speed)


@contextlib.contextmanager
def _serve(
    port: int, scenes: list[Frames], names: bool, view: str
) -> Iterator[tuple[viser.ViserServer, Drawn]]:
    """Server of the drawn scenes, and the nodes of all that moves."""
    with _silence():
        server = viser.ViserServer(host="127.0.0.1", port=port, verbose=False)
    try:
        yield server, drawing.draw(server, scenes, names, view)
    finally:
        with _silence():
            server.stop()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    # viser prints a table of its addresses by rich, which shows it in notebooks past `stdout`.
    console = rich.get_console()
    quiet, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = quiet


def _play(server: viser.ViserServer, drawn: Drawn, scenes: list[Frames], speed: float) -> None:
    end = max(float(scene.t[-1]) for scene in scenes)
    playing = server.gui.add_checkbox("Play", True)
    chosen = server.gui.add_slider("t / s", 0.0, end, end / 1000.0, 0.0)
    pace = server.gui.add_number("Speed", speed, min=1e-3, step=0.1)

    @chosen.on_update
    def _(_: Any) -> None:
        now = [int(np.searchsorted(scene.t, chosen.value)) for scene in scenes]
        drawing.move(drawn, scenes, now)

    last = time.monotonic()
    while True:
        time.sleep(1.0 / 30.0)
        now = time.monotonic()
        if playing.value:
            chosen.value = (chosen.value + (now - last) * pace.value) % end
        last = now
