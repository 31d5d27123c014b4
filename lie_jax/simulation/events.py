"""Events of a run: what happens where a function of the motion crosses zero."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lie_jax import checks
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import closures, snapshots

STOP = "stop"


def _watch(value: Any) -> Any:
    return snapshots.watch(value) if callable(value) else value


class Event(eqx.Module):
    """Something that happens where a function crosses zero: `simulate(..., events=[Event(...)])`.

    **Arguments:**

    - `function(t, q, v)`: one number, of the time (s), the configuration (nq,) and the velocity
      (nv,); the event happens where it reaches zero from either side.
    - `action`: `"stop"`, which ends the run, or a function `(t, q, v) -> (q, v)` that returns the
      state from which the run goes on: an impact, a reset, or the unchanged state to note the time.
    - `direction`: 1 for zeros at which the function rises, -1 for those at which it falls, 0 for
      both.

    Functions are pure, of `jax.numpy`; an `equinox.Module` with `__call__`, or a
    `jax.tree_util.Partial`, has parameters with derivatives, as have values of JAX that a function
    closes over. Raises `ValueError` for anything else.
    """

    function: Callable = eqx.field(converter=_watch)
    action: str | Callable = eqx.field(converter=_watch)
    direction: int = eqx.field(static=True, default=0)

    def __check_init__(self):
        checks.function("Event(function=)", self.function, "t", "q", "v")
        if self.action != STOP and not callable(self.action):
            raise ValueError(
                f"Event(action=) is {self.action!r}; it must be 'stop', or a function (t, q, v) -> "
                "(q, v) that returns the state after the event."
            )
        if not self.stops:
            checks.function("Event(action=)", self.action, "t", "q", "v")
        if type(self.direction) is not int or self.direction not in (-1, 0, 1):
            raise ValueError(
                f"Event(direction=) is {self.direction!r}; it must be 1 for zeros at which the "
                "function rises, -1 where it falls, or 0 for both."
            )

    @property
    def stops(self) -> bool:
        """Whether the run ends at the event."""
        return isinstance(self.action, str)


def values(events: tuple[Event, ...], t: Float[Array, ""], state: State) -> Float[Array, " events"]:
    """Values of the functions of all events at an instant."""
    numbers = [event.function(t, state.q, state.v) for event in events]
    return jnp.stack([jnp.asarray(x, state.q.dtype) for x in numbers])


def apply_action(
    events: tuple[Event, ...], index: Int[Array, ""], t: Float[Array, ""], state: State
) -> State:
    """State after the action of the event with that index."""

    def branch(event):
        def act(state):
            if event.stops:
                return state
            q, v = event.action(t, state.q, state.v)
            return State(jnp.asarray(q, state.q.dtype), jnp.asarray(v, state.v.dtype))

        return act

    return jax.lax.switch(index, [branch(event) for event in events], state)


def prepare(events: Any, system: AbstractSystem, state: State) -> tuple[Event, ...]:
    """Events for a run that begins at a state, their functions frozen for the time of the call.

    Traced values that functions close over become parameters. Raises `ValueError` for what is no
    sequence of events, and for functions whose results are not those that a run needs.
    """
    if not isinstance(events, Sequence) or not all(isinstance(x, Event) for x in events):
        raise ValueError(
            f"simulate(events=) is {events!r}; it must be a list of lie_jax.Event(function, "
            "action): put a single one in brackets."
        )
    t = jnp.zeros((), state.q.dtype)
    return snapshots.freeze(
        tuple(_prepare(f"simulate(events=)[{i}]", x, t, state) for i, x in enumerate(events))
    )


def _prepare(where: str, event: Event, t: Array, state: State) -> Event:
    at = {"t": t, "q": state.q, "v": state.v}
    value = closures.shapes(f"{where}.function", event.function, at)
    checks.shape(f"{where}.function(t, q, v)", value, (), "one number")
    if not checks.has_tracers(event, state):
        now = event.function(*at.values())
        checks.finite(f"{where}.function(t, q, v) at the initial state", now)
    function, action = closures.convert(event.function, *at.values()), event.action
    if not event.stops:
        pair = closures.shapes(f"{where}.action", action, at)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(
                f"{where}.action(t, q, v) returns a value of type {type(pair).__name__}; it must "
                "return the pair (q, v), the state after the event."
            )
        for name, part, expected in zip("qv", pair, (state.q, state.v), strict=True):
            checks.shape(
                f"{where}.action(t, q, v): its {name}", part, expected.shape, "as the state's"
            )
        action = closures.convert(action, *at.values())
    return Event(function, action, event.direction)


def directions(events: tuple[Event, ...], dtype: Any) -> np.ndarray:
    """Direction of each event (events,), in the dtype of the functions' signs."""
    return np.asarray([event.direction for event in events], dtype)
