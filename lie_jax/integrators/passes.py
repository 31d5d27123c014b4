"""A step of a Runge-Kutta method as a loop over its evaluations of the equations of motion.

Each pass solves the equations of motion with constraints once: for the accelerations of a stage,
for the smallest change of positions or velocities after the step, or for the accelerations at its
end. They are by far the most code of a step, and a loop compiles and differentiates them once.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.integrators import tableaux
from lie_jax.numerics import native
from lie_jax.system import (
    AbstractSystem,
    Accelerations,
    Demand,
    State,
    accelerations_and_multipliers,
)


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


class Found(NamedTuple):
    """Rates of displacements and accelerations of all stages, the state at the end, accelerations
    and multipliers there, and the largest violation of position constraints.
    """

    rates: Float[Array, "stages nv"]
    accelerations: Float[Array, "stages nv"]
    end: State
    solution: Accelerations
    violation: Float[Array, ""]


def table(method: tableaux.Tableau, corrections: int, *, first: bool, dtype: Any) -> Pass:
    """All passes of a step: stages, corrections of positions, then one of velocities if there is
    any, and the end, unless the last stage is there. `first`: whether the first stage is among
    them.
    """
    size = len(method.b)
    stages = list(zip(method.a, method.c, strict=True))[0 if first else 1 :]
    stages = [
        Pass(
            size - len(stages) + i, tableaux.padded(row, size), float(node), True, (1, 0, 0), (0, 0)
        )
        for i, (row, node) in enumerate(stages)
    ]
    end = Pass(size, tableaux.padded(method.b, size), 1.0, False, (1, 0, 0), (0, 0))
    after = [end._replace(demand=(0, 0, 1), changes=(1, 0))] * corrections
    if corrections:
        after.append(end._replace(demand=(0, 1, 0), changes=(0, 1)))
    if corrections or not method.first_same_as_last:
        after.append(end)
        after[0] = after[0]._replace(moved=True)
    columns = map(np.stack, zip(*stages, *after, strict=True))
    number, weights, node, moved, demand, changes = columns
    return Pass(
        number.astype(np.int32),
        weights.astype(dtype),
        node.astype(dtype),
        moved,
        demand.astype(dtype),
        changes.astype(bool),
    )


def run(
    method: Any,
    system: AbstractSystem,
    t: Array,
    dt: Array,
    state: State,
    first: Array | None,
    u: Array | None,
) -> Found:
    """All passes of a step. `first`: acceleration of the first stage if it is known."""
    size, dtype = len(method.method.b), state.v.dtype
    corrections = method.stabilization.corrections if system.nc else 0
    inputs = table(method.method, corrections, first=first is None, dtype=dtype)
    _, rate = method.moved_with_rate(system.space, state.q, None, state.v)
    # The last row takes what passes beyond the stages write.
    rates, accelerations = (jnp.zeros((size + 1, *x.shape), dtype) for x in (rate, state.v))
    if first is not None:
        rates, accelerations = rates.at[0].set(rate), accelerations.at[0].set(first)
    none = Accelerations(jnp.zeros_like(state.v), jnp.zeros(system.nc, dtype))
    start = Found(rates, accelerations, state, none, jnp.zeros((), dtype))

    def add(found, inputs):
        return _pass(method, system, t, dt, state, u, inputs, found), ()

    found, _ = jax.lax.scan(add, start, inputs)
    return found._replace(rates=found.rates[:size], accelerations=found.accelerations[:size])


@native.part
def _pass(
    method: Any,
    system: AbstractSystem,
    t: Array,
    dt: Array,
    state: State,
    u: Array | None,
    now: Pass,
    found: Found,
) -> Found:
    size = found.rates.shape[0] - 1
    tables = found.rates, found.accelerations
    x, v = (dt * jnp.sum(now.weights[:, None] * table[:size], axis=0) for table in tables)
    v = state.v + v
    q, rate = method.moved_with_rate(system.space, state.q, x, v)
    at = jax.tree.map(lambda a, b: jnp.where(now.moved, a, b), State(q, v), found.end)
    time = t + now.node * dt
    solution = _solved(method, system, time, at, u, now.demand)
    violation = jnp.max(jnp.abs(system.constraint(time, at.q)), initial=0.0)
    added = zip(tables, (rate, solution.acceleration), strict=True)
    tables = (jax.lax.dynamic_update_index_in_dim(t, x, now.number, 0) for t, x in added)
    if system.nc:
        in_positions, in_velocities = now.changes
        change = jnp.where(in_positions, solution.acceleration, 0.0)
        q = jnp.where(in_positions, system.space.flow(at.q, change), at.q)
        at = State(q, at.v + jnp.where(in_velocities, solution.acceleration, 0.0))
    rates, accelerations = tables
    return Found(rates, accelerations, at, solution, violation)


def _solved(
    method: Any, system: AbstractSystem, t: Array, state: State, u: Array | None, demand: Array
) -> Accelerations:
    if not system.nc:
        none = jnp.zeros(0, state.q.dtype)
        return Accelerations(system.acceleration(t, state.q, state.v, u), none)
    wanted = Demand(*demand)
    if not method.stabilization.corrections:
        wanted = Demand(1.0, *method.stabilization.feedback(system, state.q.dtype))
    return accelerations_and_multipliers(system, t, state.q, state.v, u, wanted)
