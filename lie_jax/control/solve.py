"""Optimal control of phases by an interior-point method on the states and inputs of all steps."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from lie_jax import checks
from lie_jax.control import arguments, beginning, optimum, search, sensitivity, verdict
from lie_jax.control.guess import Guess
from lie_jax.control.optimum import Optimum
from lie_jax.control.parts import Layout, Part
from lie_jax.control.phase import Phase
from lie_jax.control.points import Point, Problem
from lie_jax.control.search import Rules, Search
from lie_jax.numerics import rules, waits
from lie_jax.systems.system import State
from lie_jax.user_functions import snapshots

# Tolerances by the bytes of a number.
_TOLERANCES = {4: 1e-4, 8: 1e-9}


@waits.announce("the optimal control of phases")
def solve(
    problem: Phase | Sequence[Phase],
    state: State | Callable,
    *,
    links: Sequence[Callable | None] | None = None,
    begin: Callable | None = None,
    periodic: bool | Callable = False,
    parameters: PyTree = None,
    parameter_limits: tuple[PyTree, PyTree] | None = None,
    guess: Any = None,
    tolerance: float | None = None,
    max_iterations: int = 300,
) -> Optimum:
    """Find the inputs, durations and parameters that minimise the cost of one phase or several.

    An interior-point method on the states and inputs of all steps: every node between steps is
    unknown and meets the end of the step before it at the optimum alone, so that unstable motions
    and guesses of states are welcome. Systems with constraints, closed loops too, keep their nodes
    on them. Compiled once for all numbers of steps and iterations.

    **Arguments:**

    - `problem`: a `Phase`, or a list of them, one after the other.
    - `state`: the `State` from which the motion starts, or a function of the parameters that
      returns it; where `begin` or `periodic` is given, where the search starts.
    - `links`: between phases, functions (q, v) -> (q, v) from the last state of one to the first of
      the next, such as an impact; None for the same state. By default nothing changes.
    - `begin(q, v)`: an array that must be zero at the first state, which is free otherwise.
    - `periodic`: whether the last state is the first one again, or a symmetry (q, v) -> (q, v)
      that maps the last state to the first, as in `lie_jax.periodic_orbit`; the first state is
      free. Velocities and positions count, not the time.
    - `parameters`: pytree of start values of numbers that are optimised, too, and that the systems
      and all functions take as their last argument. `parameter_limits`: (lower, upper), pytrees
      like them.
    - `guess`: a `Guess` or an `Optimum`, for a list of phases a list of guesses or its `Optimum`.
    - `tolerance`: on the gradient norm, the violation and the barriers' share of the cost; 1e-9 by
      default, 1e-4 in float32; relative to costs, those below one as the largest that the search
      met. Violations are in the units of conditions and local coordinates: scale inequalities so
      that 1e-6 is small. A gradient of a hundred tolerances may hide in their rounding.
      `max_iterations`: at most so many.

    **Returns** an `Optimum`, and warns if it has not converged, with what is left, or ends at a
    saddle or a maximum. It is a local optimum: others may be found from other guesses. Second
    derivatives of steps are differences of exact first ones; they change the way, not the optimum.
    Raises `ValueError` for wrong shapes, limits that cross, systems and methods that do not go
    together. Source: Wächter and Biegler, Math. Program. 106 (2006); Rawlings, Mayne and Diehl,
    Model Predictive Control (2017), ch. 8; Nocedal and Wright, Numerical Optimization (2006), ch.
    17, for inequalities, which the search may exceed at a price before it keeps them.
    """
    phases = list(problem) if isinstance(problem, Sequence) else [problem]
    arguments.check_phases(phases)
    checks.positive_integer("solve(max_iterations=)", max_iterations, "steps of the search")
    given = _Given(
        phases, isinstance(problem, Phase), state, links, begin, periodic, parameters,
        parameter_limits, guess,
    )  # fmt: skip
    is_traced = checks.has_tracers(given)
    # The derivative is that of the optimum, not of the way to it.
    held = _pose(rules.stop_gradient(given) if is_traced else given)
    if tolerance is None:
        tolerance = _TOLERANCES[held.at.p.dtype.itemsize]
    checks.positive("solve(tolerance=)", tolerance, "error of the conditions of an optimum")
    found, swept, is_least = verdict.check(held.whole, _search(held, tolerance, max_iterations))
    verdict.warn_unless_converged(held.whole, found, tolerance, max_iterations, is_least)
    whole, at = held.whole, found.look.at
    if is_traced:
        whole = snapshots.freeze(_problem(given, whole.parts)[0])
        # Limits are met to the barrier, equations solved to rounding over it: 1e-7 of both at this.
        size, limits = search.cost_size(found), found.look.errors.limits
        last = search.last_barrier(size, limits, 10.0 * _TOLERANCES[at.p.dtype.itemsize])
        barrier = jnp.maximum(found.barrier, last)
        at = sensitivity.optimum_of(whole, found.look, barrier, found.converged)
    result = optimum.collect(whole, phases, found, swept, at, held.layout)
    return optimum.alone(result) if isinstance(problem, Phase) else result


class _Given(NamedTuple):
    """Arguments of `solve`."""

    phases: list[Phase]
    is_alone: bool
    state: Any
    links: Any
    begin: Any
    periodic: Any
    parameters: Any
    parameter_limits: Any
    guess: Any


class _Posed(NamedTuple):
    """Problem, first point, guesses and layout of the parameters."""

    whole: Problem
    at: Point
    given: list[Guess]
    layout: Layout


def _pose(given: _Given) -> _Posed:
    phases = given.phases
    if isinstance(given.state, State):
        systems = [(f"system of phase {j}", phase.system) for j, phase in enumerate(phases)]
        checks.one_precision([("state", given.state), *systems])
    whole, guess, start, p = _problem(given, None)
    parts, unknowns, guess = beginning.stretches(
        phases, list(whole.parts), whole.links, guess, start, p
    )
    last = unknowns[-1].last().state
    arguments.check_start(whole.begin, whole.symmetry, start, last, parts[0], p)
    whole = snapshots.freeze(dataclasses.replace(whole, parts=tuple(parts)))
    at = beginning.first_point(whole, unknowns, start, p, guess)
    return _Posed(whole, at, guess, parts[0].layout)


def _problem(
    given: _Given, known: Sequence[Part] | None
) -> tuple[Problem, list[Guess], State, Array]:
    """Problem of the arguments, with what may not depend on traced numbers from `known` parts, and
    guesses, first state and parameters.
    """
    phases, state, periodic = given.phases, given.state, given.periodic
    guess = arguments.guesses_of(given.guess, phases, given.is_alone)
    changes = arguments.links_of(given.links, phases, given.parameters)
    dtype = state.q.dtype if isinstance(state, State) else jnp.zeros(()).dtype
    layout, p, limits = arguments.parameters_of(
        phases, guess, given.parameters, given.parameter_limits, dtype
    )
    start = arguments.start_of(state, layout, p)
    parts = arguments.parts_of(phases, guess, layout, p, known)
    first, condition, symmetry = arguments.functions_of(state, given.begin, periodic, layout)
    is_free = periodic is not False or given.begin is not None
    whole = Problem(
        tuple(parts), changes, None if is_free else first, condition, symmetry,
        periodic is not False, limits,
    )  # fmt: skip
    return whole, guess, start, p


def _search(posed: _Posed, tolerance: float, max_iterations: int) -> Search:
    dtype = posed.at.p.dtype
    limits = Rules(jnp.asarray(tolerance, dtype), jnp.asarray(max_iterations))
    at, barrier = beginning.with_slacks(posed.whole, posed.at, posed.given, has_price=True)
    return search.run(posed.whole, limits, at, barrier, max_iterations)
