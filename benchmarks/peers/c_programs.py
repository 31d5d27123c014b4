"""Our own C programs of the heavy top, compiled on the spot: what the machine can do."""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.peers.cases import Missing, Program, run_of, spread
from models import heavy_top

SOURCE = Path(__file__).with_name("heavy_top.c")
LANES = 8
MASS_GRAVITY_LENGTH = -heavy_top.MASS * heavy_top.GRAVITY[2] * heavy_top.CENTER_OF_MASS[1]


def version() -> str:
    """The compiler."""
    done = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True)
    return f"gcc {done.stdout.strip()}"


def compiled(lanes: int) -> Callable[[np.ndarray, int, float], np.ndarray]:
    """`advance(start, steps, dt)`: states (7, batch), unit quaternions over body-fixed angular
    velocities, after some steps. `batch` must be a multiple of `lanes`.
    """
    if shutil.which("gcc") is None:
        raise Missing("there is no gcc")
    options = ["-O3", "-march=native", "-fPIC", "-shared", f"-DLANES={lanes}"]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "heavy_top.so"
        subprocess.run(["gcc", "-w", *options, str(SOURCE), "-o", str(library)], check=True)
        function = ctypes.CDLL(str(library)).heavy_top
    pointer = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    function.argtypes = [*[pointer] * 3, ctypes.c_long, ctypes.c_long, ctypes.c_double]
    function.restype = None
    x, y, z = heavy_top.INERTIA
    # About the fixed point, from which the centre of mass lies along y.
    across = heavy_top.MASS * heavy_top.CENTER_OF_MASS[1] ** 2
    parameters = np.array([MASS_GRAVITY_LENGTH, x + across, y, z + across])

    def advance(start: np.ndarray, steps: int, dt: float) -> np.ndarray:
        end = np.empty_like(start)
        function(parameters, start, end, start.shape[1], steps, dt)
        return end

    return advance


def states(omega: np.ndarray) -> np.ndarray:
    """(7, batch) at the start, for angular velocities (batch, 3)."""
    batch = len(omega)
    return np.ascontiguousarray(
        np.concatenate([np.ones((1, batch)), np.zeros((3, batch)), omega.T])
    )


def center_of_mass(state: np.ndarray) -> list[float]:
    """World position of the centre of mass of one state (7,), m."""
    w, x, y, z = state[:4]
    length = heavy_top.CENTER_OF_MASS[1]
    column = (2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x))
    return [length * float(c) for c in column]


def program(case: str, quick: bool) -> Program:
    """One trajectory, or a batch in lanes."""
    run = run_of(case, quick)
    if case not in ("top", "top batch"):
        raise Missing(f"no C program of {case}")
    start = states(spread(heavy_top.OMEGA_BODY, run.batch) if run.batch > 1 else np.array(
        [heavy_top.OMEGA_BODY]
    ))  # fmt: skip
    advance = compiled(LANES if run.batch > 1 else 1)
    end = advance(start, run.steps, run.dt)
    return Program(lambda: advance(start, run.steps, run.dt), run.units, center_of_mass(end[:, -1]))
