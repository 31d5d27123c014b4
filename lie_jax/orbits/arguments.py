"""Checks of the arguments of a search for a periodic motion."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax import checks
from lie_jax.multibody.arguments import check_state, check_system
from lie_jax.orbits.return_map import Point, ReturnMap
from lie_jax.orbits.tangents import Rows
from lie_jax.simulation import checks as preflight
from lie_jax.simulation import events as events_of_runs
from lie_jax.simulation.events import Event
from lie_jax.statics.linear import independent_constraints
from lie_jax.systems.projection import project
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import closures, snapshots


def prepare(
    system: Any,
    integrator: Any,
    state: Any,
    period: Any,
    steps: Any,
    free_period: Any,
    *,
    until: Any,
    events: Any,
    symmetry: Any,
    condition: Any,
    t0: Any,
) -> tuple[ReturnMap, Point]:
    """Return map of checked arguments, and the start of the search on the constraints.

    Raises `ValueError` for wrong ones.
    """
    check_system("periodic_orbit(system=)", system)
    check_state("periodic_orbit(state=)", state)
    if system.nu:
        raise ValueError(
            f"periodic_orbit(system=) reads {system.nu} inputs, and a periodic motion has none: "
            "let forces depend on time or on the state in place of them, such as "
            "lie_jax.Torque(body, lambda t: ...) or lie_jax.JointController."
        )
    checks.positive("periodic_orbit(period=)", period, "s")
    checks.positive_integer("periodic_orbit(steps=)", steps, "the number of steps of a period")
    checks.one_of("periodic_orbit(free_period=)", free_period, (True, False))
    checks.scalar("periodic_orbit(t0=)", t0, "s")
    if until is not None and not isinstance(until, Event):
        raise ValueError(
            f"periodic_orbit(until=) is {until!r}; it must be the lie_jax.Event with which the "
            "motion ends: make one, lie_jax.Event(function, 'stop'), or leave it out."
        )
    if until is not None and free_period:
        raise ValueError(
            "periodic_orbit(free_period=) is True with until=, whose event ends the motion at "
            "whatever time it comes: leave free_period out."
        )
    system, integrator = snapshots.freeze((system, integrator))
    system, state, _ = preflight.as_jax(system, state, None)
    preflight.check_start(system, integrator, state, 1.0)
    t0, period = (jnp.asarray(x, state.q.dtype) for x in (t0, period))
    state = project(system, state, t0)
    preflight.check(system, integrator, state, 1.0, int(steps), None, t0=t0)
    watched = (*events, until) if isinstance(events, tuple | list) and until else events
    watched = events_of_runs.prepare(watched, system, state)
    if until is not None:
        *others, until = watched
        watched = tuple(others)
    problem = ReturnMap(
        *(system, integrator, t0, period, int(steps), bool(free_period)),
        rows=_rows(system, t0, state),
        events=watched,
        until=until,
        symmetry=_function("symmetry", symmetry, state, is_state=True),
        condition=_function("condition", condition, state),
    )
    return problem, Point(state, period)


def _rows(system: AbstractSystem, t: Array, state: State) -> Rows:
    everything = independent_constraints(system, t, state.q)
    positions = system.nc - system.velocity_rows
    rows = Rows(tuple(row for row in everything if row < positions), everything)
    if system.nv <= len(everything):
        raise ValueError(
            f"periodic_orbit(system=) has {len(everything)} independent constraints for "
            f"{system.nv} velocities, which leave nothing free to move: leave some out."
        )
    return rows


def _function(option: str, function: Any, state: State, is_state: bool = False) -> Any:
    """The function frozen, values that JAX traces around the call as its parameters."""
    if function is None:
        return None
    where = f"periodic_orbit({option}=)"
    checks.function(where, function, "q", "v")
    function = snapshots.freeze(snapshots.watch(function))
    value = closures.shapes(where, function, {"q": state.q, "v": state.v})
    if is_state:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise ValueError(
                f"{where} returns a value of type {type(value).__name__}; it must return the pair "
                "(q, v), the end as it is compared with the start."
            )
        for name, part, expected in zip("qv", value, (state.q, state.v), strict=True):
            checks.shape(f"{where}: its {name}", part, expected.shape, "as the state's")
    elif not hasattr(value, "shape") or not np.issubdtype(value.dtype, np.floating):
        raise ValueError(
            f"{where} returns a value of type {type(value).__name__}; it must return a number or "
            "an array of them, zero at the start: compute it with jax.numpy from q and v."
        )
    return closures.convert(function, state.q, state.v)
