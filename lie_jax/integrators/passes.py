"""A step of a Runge-Kutta method as a loop over its evaluations of the equations of motion.

Each pass solves the equations of motion with constraints once: for the accelerations of a stage,
for the smallest change of positions or velocities after the step, or for the accelerations at its
end. They are by far the most code of a step, and a loop compiles and differentiates them once.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax.integrators import tableaux
from lie_jax.numerics import native, rules
from lie_jax.systems.demands import Demand
from lie_jax.systems.system import (
    AbstractSystem,
    Accelerations,
    State,
    accelerations_and_multipliers,
)


class Carry(NamedTuple):
    """Accelerations and multipliers at the end of a step, and whether they are `known`: before the
    first step they are not, so that no other code than the loop's computes them.
    """

    solution: Accelerations
    known: Bool[Array, ""]


class Pass(NamedTuple):
    """Rows of a table of passes.

    `number`: place among the stages, beyond the last for passes that are none; `weights` (stages,)
    of the stages so far and `node`, the time in parts of the step. `moved`: whether the state
    follows from stages, else from the pass before. `demand`: on the solution, as `Demand`.
    `changes`: whether the solution is added to positions, or to velocities.
    """

    number: Any
    weights: Any
    node: Any
    moved: Any
    demand: Any
    changes: Any


class Outcome(NamedTuple):
    """Rates of displacements and accelerations of all stages, the state at the end, accelerations
    and multipliers there, and the largest violation of position constraints.
    """

    rates: Float[Array, "stages nv"]
    accelerations: Float[Array, "stages nv"]
    end: State
    solution: Accelerations
    violation: Float[Array, ""]


def table(method: tableaux.Tableau, corrections: int, dtype: Any) -> Pass:
    """All passes of a step: stages, corrections of positions, then one of velocities if there is
    any, and the end, unless the last stage is there.
    """
    size = len(method.b)

    def row(number, weights, node):
        weights = tableaux.pad(weights, size)
        return Pass(number, weights, float(node), True, (1, 0, 0), (0, 0))

    passes = [row(i, *of_stage) for i, of_stage in enumerate(zip(method.a, method.c, strict=True))]
    end = row(size, method.b, 1.0)
    if corrections:
        first = end._replace(demand=(0, 0, 1), changes=(1, 0))
        again, end = (x._replace(moved=False) for x in (first, end))
        velocities = end._replace(demand=(0, 1, 0), changes=(0, 1))
        passes += [first, *[again] * (corrections - 1), velocities, end]
    elif not method.first_same_as_last:
        passes.append(end)
    number, weights, node, moved, demand, changes = map(np.stack, zip(*passes, strict=True))
    weights, node, demand = (x.astype(dtype) for x in (weights, node, demand))
    return Pass(number.astype(np.int32), weights, node, moved, demand, changes.astype(bool))


def begin(system: AbstractSystem, state: State) -> Carry:
    """Carry before the first step."""
    none = Accelerations(jnp.zeros_like(state.v), jnp.zeros(system.nc, state.v.dtype))
    return Carry(none, jnp.zeros((), bool))


def run(
    method: Any,
    system: AbstractSystem,
    t: Array,
    dt: Array,
    state: State,
    carry: Carry | None,
    u: Array | None,
) -> Outcome:
    """All passes of a step, without the first one if the `carry` of the last step has it.

    Inputs change from step to step, and with them the accelerations of the first stage.
    """
    size, dtype = len(method.method.b), state.v.dtype
    inputs = table(method.method, method.stabilization.corrections if system.nc else 0, dtype)
    rate = method.move_with_rate(system.space, state.q, None, state.v)[1]
    # The last row takes what passes beyond the stages write.
    rates, accelerations = (jnp.zeros((size + 1, *x.shape), dtype) for x in (rate, state.v))
    none = begin(system, state)
    solution, known = none if carry is None else carry
    known = known if u is None and carry is not None else None
    start = Outcome(rates, accelerations, state, solution, jnp.zeros((), dtype))
    start = rules.with_tangents_of(start, (method, system, t, dt, state, u, solution))

    def add(outcome, inputs):
        return _pass(method, system, t, dt, state, u, known, inputs, outcome), ()

    outcome, _ = jax.lax.scan(add, start, inputs)
    return outcome._replace(rates=outcome.rates[:size], accelerations=outcome.accelerations[:size])


@native.part
def _pass(
    method: Any,
    system: AbstractSystem,
    t: Array,
    dt: Array,
    state: State,
    u: Array | None,
    known: Array | None,
    now: Pass,
    outcome: Outcome,
) -> Outcome:
    size = outcome.rates.shape[0] - 1
    tables = outcome.rates, outcome.accelerations
    x, v = (dt * jnp.sum(now.weights[:, None] * table[:size], axis=0) for table in tables)
    v = state.v + v
    q, rate = method.move_with_rate(system.space, state.q, x, v)
    at = jax.tree.map(lambda a, b: jnp.where(now.moved, a, b), State(q, v), outcome.end)
    time = t + now.node * dt

    def solve():
        return _solve(method, system, time, at, u, now.demand)

    if known is None:
        solution = solve()
    else:
        solution = jax.lax.cond(known & (now.number == 0), lambda: outcome.solution, solve)
    added = zip(tables, (rate, solution.acceleration), strict=True)
    rates, accelerations = (
        jax.lax.dynamic_update_index_in_dim(table, x, now.number, 0) for table, x in added
    )
    if not system.nc:
        return Outcome(rates, accelerations, at, solution, outcome.violation)
    in_positions, in_velocities = now.changes
    change = jnp.where(in_positions, solution.acceleration, 0.0)
    end = State(
        jnp.where(in_positions, system.space.flow(at.q, change), at.q),
        at.v + jnp.where(in_velocities, solution.acceleration, 0.0),
    )
    violation = jnp.max(jnp.abs(system.constraint(time, at.q)), initial=0.0)
    return Outcome(rates, accelerations, end, solution, violation)


def _solve(
    method: Any, system: AbstractSystem, t: Array, state: State, u: Array | None, demand: Array
) -> Accelerations:
    if not system.nc:
        none = jnp.zeros(0, state.q.dtype)
        return Accelerations(system.acceleration(t, state.q, state.v, u), none)
    wanted = Demand(*demand)
    if not method.stabilization.corrections:
        wanted = Demand(1.0, *method.stabilization.feedback(system, state.q.dtype))
    return accelerations_and_multipliers(system, t, state.q, state.v, u, wanted)
