"""Instants that a run keeps, and values that it keeps of them: `simulate(save=)`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax import checks
from lie_jax.numerics.conversion import real_shape
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import closures, snapshots

# Part of a step by which a time may miss the step's end, beside the rounding of both.
_ROUNDING = 1e-6
# Times that a message lists.
_SHOWN = 6


class Saving(NamedTuple):
    """Number of steps from one saved instant to the next, or times (n,), s, and a function of
    (t, q, v) whose values are kept in place of states, or None.
    """

    every: int = 1
    times: Any = None
    function: Callable | None = None


EACH_STEP = Saving()


def parse(save: Any, system: AbstractSystem, state: State) -> Saving:
    """What a run from a state keeps; the function is frozen for the time of the call.

    Traced values that the function closes over become parameters. Raises `ValueError` for anything
    but a number of steps, times, a function, or a pair of one of them and a function.
    """
    function, instants = None, save
    if callable(save):
        function, instants = save, 1
    elif isinstance(save, tuple) and len(save) == 2 and callable(save[1]):
        instants, function = save
    if function is not None:
        function = _function(function, state)
    if isinstance(instants, int | np.integer) and not isinstance(instants, bool):
        checks.positive_integer("simulate(save=)", instants, "steps between saved instants")
        return Saving(int(instants), None, function)
    if not _may_be_times(instants):
        raise ValueError(
            f"simulate(save=) is {save!r}; it must be a number of steps, such as 10, times in s, "
            "such as [0.5, 1.0], a function of (t, q, v), or a pair (10, function)."
        )
    return Saving(1, _times(instants), function)


def _may_be_times(value: Any) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray | jax.Array):
        return False
    return not isinstance(value, Sequence) or not any(map(callable, value))


def _times(times: Any) -> Any:
    checks.real("simulate(save=)", times)
    shape = real_shape(times) or ()
    if len(shape) != 1 or not shape[0]:
        raise ValueError(
            f"simulate(save=) has shape {shape}; it must be times of shape (n,), n at least 1, "
            "or an integer, the number of steps from one saved instant to the next."
        )
    if checks.has_tracers(times):
        return jnp.asarray(times)
    known = np.asarray(times, None if hasattr(times, "dtype") else float)
    if not (np.all(np.diff(known) > 0.0) and np.all(np.isfinite(known))):
        shown = ", ".join(f"{x!r}" for x in known.tolist()[:_SHOWN])
        more = ", ..." if len(known) > _SHOWN else ""
        raise ValueError(
            f"simulate(save=) is [{shown}{more}]; the times must be finite and increasing: sort "
            "them; the initial state is saved anyway."
        )
    return known


def _function(function: Any, state: State) -> Callable:
    name = "simulate(save=): its function"
    checks.function(name, function, "t", "q", "v")
    frozen = snapshots.freeze(snapshots.watch(function))
    at = {"t": jnp.zeros((), state.q.dtype), "q": state.q, "v": state.v}
    values = closures.shapes(name, frozen, at)
    if not jax.tree.leaves(values):
        raise ValueError(
            f"{name}(t, q, v) returns {values!r}, which holds no number; it must return the values "
            "to keep: an array, or a tuple or dictionary of arrays."
        )
    return closures.convert(frozen, *at.values())


def rows_of_steps(times: Any, t0: Any, dt: Any, steps: Any) -> tuple[int, np.ndarray, int]:
    """Instants of steps of size dt (s) from a time t0 at known times (n,), s.

    **Returns** a number of steps from one instant to the next, of these instants those at the
    times, the start first, and the number of steps to the last one. Raises `ValueError` for times
    between steps, or another number of `steps`.
    """
    if checks.has_tracers(times, t0, dt):
        raise ValueError(
            "simulate(save=) has times, and they, dt= or t0= are traced by JAX; steps of one size "
            "that end there are part of the program: give a number of steps, save=10, or numbers "
            "that JAX does not trace."
        )
    start, size = float(t0), float(dt)
    known = np.asarray(times, float)
    eps = coarsest_eps(times, dt)
    numbers = (known - start) / size
    whole = np.rint(numbers)
    slack = _ROUNDING + 4.0 * eps * (np.abs(numbers) + (np.abs(known) + abs(start)) / size)
    off = (np.abs(numbers - whole) > np.minimum(0.25, slack)) | (whole < 1)
    if off.any():
        k = int(np.argmax(off))
        nearest = start + max(1.0, float(whole[k])) * size
        raise ValueError(
            f"simulate(save=) holds {float(known[k])!r} s, and steps of dt={size!r} s from "
            f"{start!r} s end at others; the nearest is {nearest:.9g} s: take that time, a dt of "
            "which all times are multiples, or adaptive=, whose steps end at any times."
        )
    ends = whole.astype(int)
    if steps is not None and int(steps) != ends[-1]:
        raise ValueError(
            f"simulate(save=) ends at {float(known[-1])!r} s, in step {ends[-1]}, and the run has "
            f"{int(steps)} steps; the last time is the end of the run: leave steps= and t_end= "
            f"out, or add the time {start + int(steps) * size:.9g}."
        )
    every = int(np.gcd.reduce(ends))
    return every, np.concatenate([[0], ends // every]), int(ends[-1])


def coarsest_eps(*values: Any) -> float:
    """Relative rounding of the coarsest of these numbers."""
    kinds = [x.dtype for x in values if hasattr(x, "dtype")]
    floats = [kind for kind in kinds if np.issubdtype(kind, np.floating)]
    return max([float(np.finfo(float).eps), *(float(np.finfo(kind).eps) for kind in floats)])
