"""A phase of an optimal control problem: a system, its steps, what they cost and must meet."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.integrators import one_step
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.systems.system import AbstractSystem
from lie_jax.user_functions import snapshots

# Names of the functions of a phase, with their arguments.
FUNCTIONS = {
    "running": ("t", "q", "v", "u"),
    "final": ("q", "v"),
    "end": ("q", "v"),
    "path": ("t", "q", "v", "u"),
}


class Phase(eqx.Module):
    """A number of steps of one system, with their cost, conditions and limits, for `solve`.

    **Arguments:**

    - `system`: with or without constraints, or a function of the parameters of
      `solve(parameters=)` that returns one. `method`: a one-step method, such as
      `lie_jax.RKMK("rk4")`.
    - `steps`: their number, of equal length. `duration`: s, a positive number, or a pair (shortest,
      longest) between which it is free; `numpy.inf` as the longest for none.
    - `running(t, q, v, u)`: cost per second, at the start of each step; without it, the cost of a
      free duration is the duration itself. `final(q, v)`: cost of the last state. Both smooth.
    - `end(q, v)`: an array that must be zero at the last state.
    - `path(t, q, v, u)`: an array that must not be positive after each step, with the time and the
      state at its end.
    - `limits`: (lower, upper) of the inputs, numbers or (nu,), `numpy.inf` for none. An input
      between equal limits is held there.
    - `rates`: (lower, upper) of the change of the inputs from one step to the next over its length,
      1/s, numbers or (nu,), `numpy.inf` for none.

    With `solve(parameters=)` each function takes the parameters as its last argument. A function
    with numbers of its own is an `equinox.Module` or a `jax.tree_util.Partial`. Raises `ValueError`
    for arguments that break a rule above, and methods that need more than the state of the step
    before.
    """

    system: Any
    method: AbstractIntegrator
    steps: int = eqx.field(static=True)
    duration: Any
    running: Callable | None
    final: Callable | None
    end: Callable | None
    path: Callable | None
    limits: tuple[Any, Any] | None
    rates: tuple[Any, Any] | None

    def __init__(
        self,
        system: Any,
        method: AbstractIntegrator,
        *,
        steps: int,
        duration: Any,
        running: Callable | None = None,
        final: Callable | None = None,
        end: Callable | None = None,
        path: Callable | None = None,
        limits: tuple[Any, Any] | None = None,
        rates: tuple[Any, Any] | None = None,
    ):
        checks.positive_integer("Phase(steps=)", steps, "the number of steps")
        if isinstance(duration, tuple | list):
            duration = _interval(duration)
        else:
            checks.positive("Phase(duration=)", duration, "s, or a pair (shortest, longest)")
        one_step.check_method("Phase(method=)", method)
        if not isinstance(system, AbstractSystem):
            checks.function("Phase(system=)", system, "parameters")
            system = snapshots.watch(system)
        self.system, self.method, self.steps, self.duration = system, method, int(steps), duration
        for name, function in zip(FUNCTIONS, (running, final, end, path), strict=True):
            watched = snapshots.watch(function) if callable(function) else function
            setattr(self, name, watched)
        self.limits = _pair("Phase(limits=)", limits)
        self.rates = _pair("Phase(rates=)", rates)

    @property
    def is_free(self) -> bool:
        """Whether the duration is free."""
        return isinstance(self.duration, tuple)


def _interval(duration: Any) -> tuple[Array, Array]:
    where = "Phase(duration=)"
    if len(duration) != 2:
        raise ValueError(
            f"{where} has {len(duration)} entries; it must be one number of seconds, or a pair "
            "(shortest, longest): give both."
        )
    for value in duration:
        checks.real(where, value)
        checks.shape(where, value, (), "numbers of seconds")
    shortest, longest = (jnp.asarray(x, float) for x in duration)
    if not checks.has_tracers(shortest, longest) and not 0.0 <= shortest < longest:
        raise ValueError(
            f"{where} is ({shortest}, {longest}); the shortest must not be negative and be less "
            "than the longest: look for a wrong order, give one number for a fixed duration."
        )
    return shortest, longest


def _pair(where: str, pair: Any) -> tuple[Any, Any] | None:
    if pair is None:
        return None
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        raise ValueError(
            f"{where} is {pair!r}; it must be a pair (lower, upper) of numbers or of arrays with "
            "one for each input."
        )
    for side, value in zip(("lower", "upper"), pair, strict=True):
        checks.real(f"{where}: {side}", value)
        if np.ndim(value) > 1:
            raise ValueError(
                f"{where}: {side} has shape {np.shape(value)}; it must be one number or have one "
                "for each input."
            )
    return tuple(pair)


def bounds(
    where: str, pair: tuple[Any, Any] | None, size: int, dtype: Any
) -> tuple[Float[Array, " nu"], Float[Array, " nu"]]:
    """Lower and upper bounds (size,); raises `ValueError` for other shapes, and crossed ones."""
    if pair is None:
        none = jnp.full(size, jnp.inf, dtype)
        return -none, none
    for side, value in zip(("lower", "upper"), pair, strict=True):
        if np.shape(value) not in ((), (size,)):
            raise ValueError(
                f"{where}: {side} has shape {np.shape(value)}; it must be one number or have shape "
                f"({size},): one for each input."
            )
    lower, upper = (jnp.broadcast_to(jnp.asarray(x, dtype), (size,)) for x in pair)
    some = (lower <= upper) & (lower < jnp.inf) & (upper > -jnp.inf)
    if not checks.has_tracers(lower, upper) and not np.all(np.asarray(some)):
        raise ValueError(
            f"{where} are {lower.tolist()} and {upper.tolist()}; no lower one may be above the "
            "upper one: look for a wrong sign, use -numpy.inf below and numpy.inf above for none."
        )
    return lower, upper
