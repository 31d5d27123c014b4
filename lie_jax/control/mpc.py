"""Model predictive control: controllers of phases, with their first plans."""

import dataclasses
from typing import Any

from lie_jax import checks
from lie_jax.control import arguments, beginning
from lie_jax.control.controller import Controller, Fixed, Plan, first_plan
from lie_jax.control.phase import Phase
from lie_jax.control.points import Problem
from lie_jax.numerics import waits
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import snapshots


@waits.announce("the model predictive control")
def mpc(
    problem: Phase, state: State, *, guess: Any = None, iterations: int = 1
) -> tuple[Controller, Plan]:
    """A controller that improves its plan of the steps ahead at each measured state.

    Each call is the same compiled program, warm-started with the plan of the call before: Newton
    iterations of `solve` with Gauss-Newton Hessians (curvatures of the costs alone), its barriers,
    and a line search by steps side by side. Calls follow each other by the length of a step.

    **Arguments:**

    - `problem`: a `Phase` of one system, with a fixed duration, the horizon: for example 20 steps
      in 1 s for a call every 0.05 s. The time of its functions is that of the plan, `Plan.t`.
    - `state`: the `State` at which the first plan starts, at time 0.
    - `guess`: a `Guess`, or the `Optimum` that `solve` finds for the problem.
    - `iterations`: of each call, one or more. More bring the plan nearer to the optimum.

    **Returns** a `Controller` and the first `Plan`:

        u, plan = controller(state, plan)

    gives the inputs (nu,) at a measured state, to be held until the next call, and the plan for it.
    Both are arrays: `jax.vmap` makes controllers of a batch, `jax.lax.scan` closed loops.
    `controller.feedback(state, plan)` gives `u` at once, `controller.prepare(state, plan)` the
    next plan afterwards; together they are a call with one iteration.

    A plan that is not optimal shows by its `violation` and `part` alone. Inputs keep their limits
    always, other conditions as far as the plan has converged. Raises `ValueError` for what `solve`
    refuses, and for free durations and systems of parameters. Source: Diehl, Bock and Schlöder, A
    real-time iteration scheme, SIAM J. Control Optim. 43 (2005).
    """
    checks.positive_integer("mpc(iterations=)", iterations, "iterations of each call")
    phases = [problem]
    arguments.check_phases(phases)
    if problem.is_free or not isinstance(problem.system, AbstractSystem):
        raise ValueError(
            "control.mpc: its phase has a free duration or a system of parameters; give duration= "
            "as one number of seconds and the system itself, and what control.solve found for both."
        )
    checks.one_precision([("state", state), ("system", problem.system)])
    given = arguments.guesses_of(guess, phases, is_alone=True)
    dtype = state.q.dtype
    layout, p, limits = arguments.parameters_of(phases, given, None, None, dtype)
    start = arguments.start_of(state, layout, p)
    (part,) = arguments.parts_of(phases, given, layout, p)
    part = dataclasses.replace(part, curvature="costs", has_past=True)
    parts, unknowns, given = beginning.stretches(phases, [part], (), given, start, p, problem.steps)
    whole = snapshots.freeze(Problem(tuple(parts), (), start, None, None, False, limits))
    at = beginning.first_point(whole, unknowns, start, p, given)
    at, barrier = beginning.with_slacks(whole, at, given)
    (chunk,) = at.stretches[0].chunks
    held = chunk.u[0] if part.has_rates else chunk.u[0, :0]
    fixed = Fixed(whole)
    plan = first_plan(fixed, fixed.arrays, at, barrier, held)
    return Controller(fixed, iterations), plan
