"""Instants that a run has reached, and its inputs between them."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from lie_jax import checks
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.systems.system import AbstractSystem

# Share of a step by which rounding moves an instant, in single precision after 1e5 steps.
_ROUNDING = 1e-2


class Instants(NamedTuple):
    """Rows (n, ...) of a trajectory."""

    t: NDArray
    q: NDArray
    v: NDArray
    acceleration: NDArray
    multipliers: NDArray
    memory: Any
    u: NDArray | None


def reached_instants(trajectory: Trajectory) -> Instants:
    """Instants that a trajectory has reached, with finite states."""
    rows = Instants(*(getattr(trajectory, name) for name in Instants._fields))
    rows = jax.tree.map(np.asarray, rows)
    finite = np.isfinite(np.column_stack([rows.t, rows.q, rows.v])).all(axis=1)
    return jax.tree.map(lambda x: x[finite], rows)


def of_run(
    where: str, system: AbstractSystem, run: Trajectory, inputs: ArrayLike | None
) -> "RunInputs | None":
    """Inputs that are given, or those that a policy held; None without any."""
    inputs = run.inputs if inputs is None else inputs
    return None if inputs is None else RunInputs(where, system, run, inputs)


class RunInputs:
    """Inputs (steps, nu) of a run by time; raises `ValueError` for those of no such run."""

    def __init__(self, where: str, system: AbstractSystem, run: Trajectory, inputs: ArrayLike):
        checks.real(f"{where}(inputs=)", inputs)
        self._rows = np.asarray(inputs)
        steps, shape = len(run.stats.newton_iterations), self._rows.shape
        # Automatic steps have other sizes than dt.
        restart = None if run.restart is None or run.restart.control else run.restart
        if restart is None or len(shape) != 2 or shape[0] != steps or shape[1] < system.nu:
            raise ValueError(
                f"{where}(inputs=) has shape {shape}; it must have shape ({steps}, {system.nu}): "
                "give the inputs that simulate(inputs=) had for this run."
            )
        self._start, self._dt = float(run.t[0]), float(restart.dt)

    def between(self, t: ArrayLike) -> NDArray:
        """Mean inputs (n - 1, nu) from each of n instants to the next."""
        begun = self._begun(t)
        first = np.minimum(begun[:-1], len(self._rows) - 1)
        last = np.maximum(begun[1:], first + 1)
        sums = np.concatenate([np.zeros_like(self._rows[:1]), np.cumsum(self._rows, axis=0)])
        return (sums[last] - sums[first]) / (last - first)[:, None]

    def _begun(self, t: ArrayLike) -> NDArray:
        """Numbers of steps that begin before instants."""
        return np.ceil((np.asarray(t) - self._start) / self._dt - _ROUNDING).astype(int)
