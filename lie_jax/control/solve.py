"""Optimal control of phases by an interior-point method on the states and inputs of all steps."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import PyTree

from lie_jax import checks
from lie_jax.control import arguments, beginning, optimum, search, verdict
from lie_jax.control.guess import Guess
from lie_jax.control.optimum import Optimum
from lie_jax.control.phase import Phase
from lie_jax.control.points import Point, Problem
from lie_jax.control.search import Rules, Search
from lie_jax.numerics import waits
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
    on them. Compiled once for all numbers of steps and iterations; not to be traced by JAX.

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
      default, 1e-4 in float32; relative to costs above one alone: choose units in which costs and
      places are not much smaller than that. `max_iterations`: at most so many.

    **Returns** an `Optimum`, and warns if it has not converged, with what is left, or ends at a
    saddle or a maximum. It is a local optimum: others may be found from other guesses. Second
    derivatives of steps are differences of exact first ones; they change the way, not the optimum.
    Raises `ValueError` for wrong shapes, limits that cross, systems and methods that do not go
    together. Source: Wächter and Biegler, Math. Program. 106 (2006); Rawlings, Mayne and Diehl,
    Model Predictive Control (2017), ch. 8.
    """
    phases = list(problem) if isinstance(problem, Sequence) else [problem]
    arguments.check_phases(phases)
    if checks.has_tracers(phases, state, parameters, guess):
        raise ValueError(
            "control.solve is not to be traced by JAX: call it outside of jax.jit, jax.vmap and "
            "jax.grad, or take lie_jax.control.ilqr, which works in them."
        )
    if isinstance(state, State):
        systems = [(f"system of phase {j}", phase.system) for j, phase in enumerate(phases)]
        checks.one_precision([("state", state), *systems])
    given = arguments.guesses_of(guess, phases, isinstance(problem, Phase))
    changes = arguments.links_of(links, phases, parameters)
    dtype = state.q.dtype if isinstance(state, State) else jnp.zeros(()).dtype
    tolerance = _TOLERANCES[dtype.itemsize] if tolerance is None else tolerance
    checks.positive("solve(tolerance=)", tolerance, "error of the conditions of an optimum")
    checks.positive_integer("solve(max_iterations=)", max_iterations, "steps of the search")
    layout, p, limits = arguments.parameters_of(phases, given, parameters, parameter_limits, dtype)
    start = arguments.start_of(state, layout, p)
    parts = arguments.parts_of(phases, given, layout, p)
    given_start, condition, symmetry = arguments.functions_of(state, begin, periodic, layout)
    parts, unknowns, given = beginning.stretches(phases, parts, changes, given, start, p)
    last = unknowns[-1].last().state
    arguments.check_start(condition, symmetry, start, last, parts[0], p)
    is_free = periodic is not False or begin is not None
    whole = snapshots.freeze(
        Problem(
            tuple(parts), changes, None if is_free else given_start, condition, symmetry,
            periodic is not False, limits,
        )
    )  # fmt: skip
    at = beginning.first_point(whole, unknowns, start, p, given)
    found, is_least = verdict.check(whole, _search(whole, at, given, tolerance, max_iterations))
    result = optimum.collect(whole, phases, found, layout)
    verdict.warn_unless_converged(whole, found, tolerance, max_iterations, is_least)
    return optimum.alone(result) if isinstance(problem, Phase) else result


def _search(
    problem: Problem, at: Point, given: list[Guess], tolerance: float, max_iterations: int
) -> Search:
    dtype = at.p.dtype
    rules = Rules(jnp.asarray(tolerance, dtype), jnp.asarray(max_iterations))
    at, barrier = beginning.with_slacks(problem, at, given)
    return search.run(problem, rules, search.look(problem, at), barrier, max_iterations)
