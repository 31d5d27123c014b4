"""Times of a run: where it starts, where it ends, and how many steps lie between."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.integrators.step_size import Adaptive
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import saving
from lie_jax.simulation.trajectory import Restart

# Part of a step by which the end of whole steps may miss the given one, beside their rounding.
_ROUNDING = 1e-6
# Part of a step below which rounding of the time must stay, or forces of time stand still.
_RESOLUTION = 0.1
# Passes that repeat others take a smaller part of the steps than one over this number.
_PART = 32


class Schedule(NamedTuple):
    """Number of steps, steps from one kept instant to the next, and checkpoint blocks.

    `picked` (n,): numbers of the kept instants that a trajectory has, the start first; None for all
    of them.
    """

    steps: Any
    every: Any
    blocks: Blocks
    picked: np.ndarray | None = None

    @property
    def rows(self) -> Any:
        """Number of kept instants after the first."""
        return self.steps // self.every

    def rows_of(self, passes: int) -> int:
        """Number of rows in which the time loop completes the integrator's carry, zero if that
        comes before the loop: where the rows would take long or be a loop of their own.
        """
        every, size = self.every, self.blocks.size
        rows = -(-passes // every)
        long = _PART * (rows * every - passes) > self.steps
        divides = size is not None and self.rows % max(1, size // every) == 0
        return 0 if long or divides else rows


def start_time(start: Any, t0: Any, dt: Any) -> Any:
    """Time (s) at which a run begins, 0 by default; raises `ValueError` for a restart with t0."""
    if isinstance(start, Restart):
        if t0 is not None:
            raise ValueError(
                "simulate(t0=) is given with a Restart, which goes on at the time of its run: "
                "leave t0 out, or start anew from the restart's `state`."
            )
        dtype = jnp.result_type(start.dt)
        return start.t0 + jnp.asarray(start.steps).astype(dtype) * start.dt
    if t0 is None:
        return 0.0
    checks.scalar("simulate(t0=)", t0, "s")
    checks.finite("simulate(t0=)", t0)
    if not checks.has_tracers(t0, dt):
        spacing = float(np.finfo(start.q.dtype).eps) * abs(float(t0))
        if spacing > _RESOLUTION * float(dt):
            raise ValueError(
                f"simulate(t0=) is {float(t0)!r} s, where numbers of the state's precision are "
                f"{spacing:.3g} s apart, more than a tenth of dt={float(dt)!r}: times would "
                "stand still; count the time from a nearer instant."
            )
    return t0


def number_of_steps(
    steps: Any, t0: Any, dt: Any, t_end: Any, adaptive: Any, times: Any = None
) -> Any:
    """Number of steps, given or from the end of a run; the bound on those of automatic size.

    A run that saves `times` (n,), s, ends at the last one.
    """
    if t_end is not None:
        checks.scalar("simulate(t_end=)", t_end, "s")
        checks.finite("simulate(t_end=)", t_end)
        if not checks.has_tracers(t0, t_end) and not float(t_end) > float(t0):
            raise ValueError(
                f"simulate(t_end=) is {float(t_end)!r}, and the run starts at {float(t0)!r} s; it "
                "must be later."
            )
    if times is not None:
        _check_end(times, t0, t_end)
    if adaptive is not None:
        _check_adaptive(adaptive)
        return _bound(steps, t_end, times)
    if times is not None:
        return saving.rows_of_steps(times, t0, dt, steps)[2]
    if (steps is None) == (t_end is None):
        given = "neither is" if steps is None else "both are"
        raise ValueError(
            f"simulate() needs steps= or t_end=, and {given} given: give the number of steps, or "
            "the time (s) at which they end."
        )
    if t_end is None:
        return steps
    if checks.has_tracers(t0, dt, t_end):
        raise ValueError(
            "simulate(t_end=), dt= or t0= is traced by JAX, and the number of steps is part of the "
            "program: give steps=, or numbers that JAX does not trace."
        )
    duration = float(t_end) - float(t0)
    number = duration / float(dt)
    whole = max(1, round(number))
    rounding = saving.coarsest_eps(t0, dt, t_end) * (
        number + (abs(float(t_end)) + abs(float(t0))) / float(dt)
    )
    if abs(number - whole) > min(0.25, _ROUNDING + 4.0 * rounding):
        raise ValueError(
            f"simulate(t_end=) is {number:.6g} steps of dt={float(dt)!r} s after the start at "
            f"{float(t0)!r} s; it must be a whole number of steps: take "
            f"dt={duration / float(np.ceil(number))!r}, or another end."
        )
    return whole


def _check_end(times: Any, t0: Any, t_end: Any) -> None:
    if checks.has_tracers(times, t0, t_end):
        return
    first, last = float(times[0]), float(times[-1])
    if not first > float(t0):
        raise ValueError(
            f"simulate(save=) begins with {first!r} s, and the run starts at {float(t0)!r} s; all "
            "times must be later: the initial state is saved anyway."
        )
    if t_end is None:
        return
    slack = 8.0 * saving.coarsest_eps(times, t_end, t0) * max(abs(last), abs(float(t_end)))
    if abs(float(t_end) - last) > slack:
        raise ValueError(
            f"simulate(save=) ends at {last!r} s, and simulate(t_end=) is {float(t_end)!r} s; the "
            "last time is the end of the run: leave t_end out, or make it the last time."
        )


def _check_adaptive(adaptive: Any) -> None:
    if not isinstance(adaptive, Adaptive):
        raise ValueError(
            f"simulate(adaptive=) is {adaptive!r}; it must be automatic step sizes, such as "
            "lie_jax.Adaptive(rtol=1e-8), or None for steps of one size."
        )


def _bound(steps: Any, t_end: Any, times: Any) -> Any:
    if t_end is None and times is None:
        raise ValueError(
            "simulate(adaptive=) needs an end, t_end= or save=times, and neither is given: give "
            "the time (s) at which the run ends, or the times to save, the last one of which ends "
            "it."
        )
    if steps is None:
        raise ValueError(
            "simulate(adaptive=) needs steps=, the largest number of steps, rejected ones "
            "included: the trajectory has room for them."
        )
    return steps


class Automatic(NamedTuple):
    """Automatic sizes, and the times (s) at which steps must end, the last one that of the run.

    `free`: accepted steps are saved, and not the stops alone.
    """

    adaptive: Adaptive
    stops: Float[Array, " n"]
    free: bool


def automatic(adaptive: Adaptive, t0: Float[Array, ""], t_end: Any, times: Any) -> Automatic:
    """Automatic sizes of a run from a time t0 to a time t_end, s, or to the last of some times."""
    if times is None:
        return Automatic(adaptive, jnp.asarray(t_end, t0.dtype)[None], True)
    return Automatic(adaptive, jnp.asarray(times, t0.dtype), False)
