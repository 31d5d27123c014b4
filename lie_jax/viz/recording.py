"""Videos of motions, drawn by matplotlib."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FFMpegWriter, PillowWriter
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from lie_jax import checks
from lie_jax.numerics import waits
from lie_jax.sweeps import unfinished
from lie_jax.viz import painting, parts
from lie_jax.viz.arguments import check, written
from lie_jax.viz.drawing import clock_text
from lie_jax.viz.frames import Run, Shape
from lie_jax.viz.style import literal

# A GIF counts hundredths of a second.
FRAMES_PER_SECOND = 20
# Longest and shortest edge of the picture in inches, points in a inch, dots in an inch.
_LONG, _SHORT, _POINTS, _DOTS = 5.0, 3.0, 72.0, 100.0
# Edge around all that moves, over the longest edge of the picture.
_MARGIN = 0.05


@waits.announce("the pictures of the video")
def video(
    path: str | os.PathLike,
    *runs: Run,
    speed: float = 1.0,
    shapes: Sequence[Shape] = (),
    traces: Sequence[str] | None = None,
    names: bool = False,
    view: str = "oblique",
) -> None:
    """Write a video of the scene that `viz.export` draws, 20 frames a second.

    All frames of a GIF are in memory until it is written, 0.7 MB each.

    **Arguments:**

    - `path`: of a `.gif` file, or of a `.mp4` file, for which ffmpeg must be installed.
    - `runs`: pairs (system, trajectory), drawn side by side.
    - `speed`: seconds of the motion in a second, 0.1 for slow motion.
    - `shapes`: `lie_jax.contact` shapes and `viz.Mesh`es, which name their bodies, in place of the
      solids with the bodies' inertia.
    - `traces`: names of bodies whose centres of mass leave a line; by default all.
    - `names`: whether bodies have their names beside them.
    - `view`: where the camera stands first, `"oblique"`, `"front"`, `"side"` or `"top"`.
    Raises `ValueError` for other values and a path that cannot be written.
    """
    checks.path("viz.video(path=)", path)
    checks.positive("viz.video(speed=)", speed, "seconds of motion in a second")
    writer = _writer(Path(path))
    scenes = check("viz.video", runs, speed / FRAMES_PER_SECOND, shapes, traces, view)
    fixed = [painting.attach_parts(scene, run) for run, scene in enumerate(scenes)]
    camera = painting.camera(view)
    frames = max(len(scene.t) for scene in scenes)
    # The picture that bodies, joints and lines never leave, with a margin.
    points = np.concatenate([parts.reached_points(scene, i) for i, scene in enumerate(scenes)])
    flat = points @ camera[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = _MARGIN * np.max(high - low)
    low, high = low - margin, high + margin
    scale = _LONG / float(np.max(high - low))
    width, height = np.maximum(scale * (high - low), _SHORT)
    figure = plt.figure(figsize=(width, height), layout="none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), aspect="equal")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_axis_off()
    clock = axes.text(0.03, 0.97, "", transform=axes.transAxes, va="top", size=10)
    picture = axes.add_collection(PolyCollection([]))
    labels = [
        [axes.text(0, 0, literal(name), ha="center") for name in s.system.names] if names else []
        for s in scenes
    ]
    # The axes fill the figure: a layout that users set for theirs would warn at each frame.
    fixed_layout = plt.rc_context({"figure.constrained_layout.use": False})
    with (
        written("viz.video", path),
        unfinished.replacing(path) as new,
        fixed_layout,
        _closing(figure),
        writer.saving(figure, os.fspath(new), _DOTS),
    ):
        for frame in range(frames):
            polygons = []
            for run, scene in enumerate(scenes):
                now = min(frame, len(scene.t) - 1)
                polygons.append(painting.polygons_at(fixed[run], scene, now))
                polygons.append(painting.lines(scene, run, now, scale * _POINTS))
                for label, center in zip(labels[run], scene.center[now], strict=False):
                    label.set_position((camera @ (center + scene.offset))[:2])
            picture.set(**painting.seen(painting.together(polygons), camera))
            clock.set_text(clock_text(scenes, frame))
            writer.grab_frame()


@contextlib.contextmanager
def _closing(figure: Figure) -> Iterator[None]:
    try:
        yield
    finally:
        plt.close(figure)


def _writer(path: Path) -> PillowWriter | FFMpegWriter:
    if path.suffix.lower() == ".gif":
        return PillowWriter(fps=FRAMES_PER_SECOND)
    if path.suffix.lower() != ".mp4":
        raise ValueError(f"viz.video(path=) is {str(path)!r}; it must end with .gif or .mp4.")
    if not FFMpegWriter.isAvailable():
        raise ValueError(
            f"viz.video(path=) is {str(path)!r}, which ffmpeg would write, and ffmpeg is not "
            f"installed: take {str(path.with_suffix('.gif'))!r}, which needs nothing more, or "
            "install it (apt-get install ffmpeg, brew install ffmpeg)."
        )
    return FFMpegWriter(fps=FRAMES_PER_SECOND, codec="h264")
