"""Checks of what moving pictures are given, and frames from it."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np

from lie_jax import checks
from lie_jax.io.visuals import Mesh
from lie_jax.viz import deformed
from lie_jax.viz.deformed import Deformed
from lie_jax.viz.frames import Frames, Run, prepare
from lie_jax.viz.style import VIEWS


@contextlib.contextmanager
def written(where: str, path: str | os.PathLike) -> Iterator[None]:
    """Raise `ValueError` if the file that is written inside cannot be written."""
    try:
        yield
    # ffmpeg ends as a process.
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"{where}(path=) is {str(path)!r}, which cannot be written ({reason}); it "
            "must be a file in a folder that exists and that you may write to: take another."
        ) from error


def check(where: str, runs: tuple[Run, ...], spacing: float | None, *look: Any) -> list[Frames]:
    """Frames of runs, at instants `spacing` (s) apart or at all saved; shapes, traces and the view
    are checked.
    """
    shapes, traces, view = look
    checks.one_of(f"{where}(view=)", view, tuple(VIEWS))
    for mesh in (shape for shape in shapes if isinstance(shape, Mesh)):
        _check_mesh(f"the mesh of {mesh.body!r} in {where}(shapes=)", mesh)
    for shape in (shape for shape in shapes if isinstance(shape, Deformed)):
        deformed.check(f"{where}(shapes=)", shape)
    scenes = prepare(where, runs, spacing, shapes, traces)
    known = {name for scene in scenes for name in scene.system.names}
    for argument, bodies in (("shapes", [s.body for s in shapes]), ("traces", traces or ())):
        for body in bodies:
            if body not in known | ({"ground"} if argument == "shapes" else set()):
                raise ValueError(
                    f"{where}({argument}=) names the body {body!r}; the bodies are "
                    f"{', '.join(sorted(known))}: take one of these."
                )
    return scenes


def _check_mesh(where: str, mesh: Mesh) -> None:
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    for name, value in (("vertices", vertices), ("faces", faces)):
        if value.ndim != 2 or value.shape[1] != 3:
            raise ValueError(f"{where} has {name} of shape {value.shape}; it must be (n, 3).")
    checks.finite(f"vertices of {where}", vertices)
    if faces.size and not (faces.min() >= 0 and faces.max() < len(vertices)):
        raise ValueError(
            f"{where} has faces with the vertices {faces.min()} to {faces.max()} of "
            f"{len(vertices)}; they must be numbers counted from 0: subtract 1 if the file counts "
            "from 1."
        )
    color = (0.0,) * 4 if mesh.color is None else tuple(mesh.color)
    if len(color) != 4 or not all(0.0 <= x <= 1.0 for x in color):
        raise ValueError(
            f"{where} has the color {color}; it must be red, green, blue and opacity, between 0 "
            "and 1: divide by 255, or append 1.0."
        )
