"""Runs with steps of automatic size: a bounded loop that finds the sizes, and their derivatives.

The loop that finds step sizes is not differentiated. A scan repeats the accepted steps with their
sizes held constant: its derivatives, in either mode and to any order, are those of the run.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.integrators import step_size
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.integrators.step_size import Adaptive
from lie_jax.numerics import checkpointing, rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import limits
from lie_jax.simulation.trajectory import Result, Statistics, Trajectory
from lie_jax.system import AbstractSystem, State

# A step that would end this close before a stop, relative to its size, is extended to the stop.
_REACH = 1.01


class _Rows(NamedTuple):
    # Saved instants: time, state, number of the accepted step before, memory of the forces.
    t: Array
    state: State
    step: Array
    memory: Any


class _Loop(NamedTuple):
    state: State
    carry: Any
    memory: Any
    # Size that the first step was to have.
    first: Array
    # Largest fourth power of h |λ| relative to the limit of stability, number of the velocity,
    # force or joint that left the model, sides of the joints when the run began.
    stability: Array
    worst: Array
    sides: Array
    t: Array
    dt: Array
    error: Array
    after_rejection: Array
    attempts: Array
    accepted: Array
    stops: Array
    saved: Array
    finished: Array
    result: Result
    # Starts and sizes of the accepted steps, the size zero for steps that were not taken.
    steps: tuple[Array, Array]
    rows: _Rows


@eqx.filter_jit
def trajectory(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: State,
    dt: Array,
    adaptive: Adaptive,
    steps: int,
    blocks: Blocks,
) -> tuple[Trajectory, Array]:
    """Trajectory from time 0 with at most `steps` attempted steps, and which instants were reached.

    Instants that were not reached hold the initial configuration.
    """
    saved, loop = _integrate(system, integrator, state, dt, adaptive, steps, blocks)
    reached = jnp.arange(loop.rows.t.shape[0] + 1, dtype=jnp.int32) <= loop.saved

    none = jnp.zeros_like(loop.t)
    t, states, memory = jax.tree.map(
        lambda first, others: jnp.concatenate([first[None], others]),
        (none, state, rules.held(system.remember(none, state.q, state.v))),
        (loop.rows.t, saved, loop.rows.memory),
    )

    def accelerations_at(t, state, memory):
        return integrator.accelerations(system.recalling(memory), t, state, loop.carry, None)

    accelerations = jax.vmap(accelerations_at)(t, states, memory)
    residual = jnp.where(loop.result == Result.successful, 0.0, loop.error)
    result, bad = limits.outcome(loop.result, accelerations, reached)
    record = Trajectory(
        t=t,
        q=states.q,
        v=states.v,
        acceleration=accelerations.acceleration,
        multipliers=accelerations.multipliers,
        stats=Statistics(
            newton_iterations=jnp.zeros(steps, jnp.int32),
            completed_steps=loop.accepted,
            rejected_steps=loop.attempts - loop.accepted,
            end_time=jnp.append(t, loop.t)[bad],
            residual=residual,
            residual_history=residual[None],
            worst_equation=loop.worst,
            stability=loop.stability**0.25,
        ),
        result=result,
        memory=memory,
    )
    return record, reached


def _integrate(system, integrator, state, dt, adaptive, steps, blocks) -> tuple[State, _Loop]:
    parameters = system, integrator, state
    system, integrator, state, dt, adaptive = rules.held((system, integrator, state, dt, adaptive))
    growth = jnp.minimum(adaptive.max_increase, integrator.largest_growth)
    adaptive = dataclasses.replace(adaptive, max_increase=growth)
    loop = jax.lax.while_loop(
        lambda loop: ~loop.finished,
        lambda loop: _attempt(system, integrator, adaptive, steps, loop),
        _begin(system, integrator, state, dt, adaptive, steps),
    )

    # Derivatives do not go through the loop.
    return rules.value_as(loop.rows.state, partial(_replay, blocks), (*parameters, loop)), loop


def _replay(blocks: Blocks, parameters: tuple[Any, ...]) -> State:
    system, integrator, state, loop = parameters

    def step(carry):
        now, number = carry
        t, dt = (x[number] for x in loop.steps)

        def move(state, carry, memory):
            recalling = system.recalling(memory)
            state, carry, *_ = integrator.step(recalling, t, dt, state, carry, None)
            return state, carry, rules.held(recalling.remember(t + dt, state.q, state.v))

        now = jax.lax.cond(dt > 0.0, move, lambda *now: now, *now)
        return (now, number + 1), now[0]

    recomputed = jax.checkpoint(step, prevent_cse=False)
    state = rules.alike(state, system)
    none = jnp.zeros_like(loop.t)
    memory = rules.held(system.remember(none, state.q, state.v))
    carry = integrator.init(system.recalling(memory), none, loop.first, state, None)
    first = (state, carry, memory), jnp.zeros((), jnp.int32)
    _, states = checkpointing.scan(recomputed, first, len(loop.steps[0]), blocks)
    return jax.tree.map(lambda x: x[loop.rows.step], states)


def _begin(system, integrator, state, dt, adaptive: Adaptive, steps) -> _Loop:
    zero, none = jnp.zeros((), jnp.int32), jnp.zeros_like(dt)
    dt = jnp.clip(dt, adaptive.smallest(), adaptive.dt_max)
    rows = steps if adaptive.times is None else adaptive.stops.shape[0]
    memory = system.remember(none, state.q, state.v)
    return _Loop(
        state=state,
        carry=integrator.init(system.recalling(memory), none, dt, state, None),
        memory=memory,
        first=dt,
        stability=none,
        worst=zero - 1,
        sides=limits.sides(system, none, state.q),
        t=none,
        dt=dt,
        error=jnp.ones_like(dt),
        after_rejection=jnp.zeros((), bool),
        attempts=zero,
        accepted=zero,
        stops=zero,
        saved=zero,
        finished=jnp.zeros((), bool),
        # It stays if nothing else ends the run.
        result=Result.step_bound,
        steps=(jnp.zeros(steps, dt.dtype), jnp.zeros(steps, dt.dtype)),
        # Rows that stay unused hold a configuration, so that their accelerations are finite.
        rows=jax.tree.map(
            lambda x: jnp.broadcast_to(x, (rows, *x.shape)), _Rows(none, state, zero, memory)
        ),
    )


def _attempt(system, integrator, adaptive: Adaptive, steps: int, loop: _Loop) -> _Loop:
    stop = adaptive.stops[loop.stops]
    remaining = stop - loop.t
    lands = remaining <= _REACH * loop.dt
    dt = jnp.where(lands, remaining, jnp.minimum(loop.dt, 0.5 * remaining))
    system = system.recalling(loop.memory)
    step = integrator.step(system, loop.t, dt, loop.state, loop.carry, None)
    verdict = limits.verdict(system, loop.t + dt, dt, loop.state, step, loop.sides)
    error = step_size.error(adaptive, system.space, loop.state, step.state, step.error)
    error = jnp.where(jnp.isnan(error), jnp.inf, error)

    accepted = verdict.valid & (error <= 1.0)
    at_end = accepted & lands & (loop.stops + 1 == adaptive.stops.shape[0])
    too_small = ~accepted & (jnp.minimum(dt, loop.dt) <= adaptive.smallest())
    exhausted = loop.attempts + 1 == steps
    # A step shortened to hit a stop says nothing about the planned size: keep that size and the
    # previous error.
    shortened = dt < loop.dt
    judged = jnp.where(verdict.valid, error, jnp.inf)
    growth = step_size.factor(
        adaptive, integrator.embedded_order, judged, loop.error, loop.after_rejection
    )
    # A search that failed says less about the next size than an error does.
    growth = jnp.where(step.converged, growth, 0.5)
    planned = jnp.where(growth >= 1.0, jnp.maximum(growth * dt, loop.dt), growth * dt)

    def if_accepted(new, old):
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)

    state, carry, memory = if_accepted(
        (step.state, step.carry, verdict.memory), (loop.state, loop.carry, loop.memory)
    )
    stability = loop.stability
    if step.stability is not None:
        larger = accepted & (step.stability > stability)
        stability = jnp.where(larger, step.stability, stability)
    t = jnp.where(accepted, jnp.where(lands, stop, loop.t + dt), loop.t)
    saves = accepted & (lands | (adaptive.times is None))
    # Beside its end, a run ends with the smallest step or the bound on attempts.
    failure = Result.where(verdict.valid, Result.minimum_step, verdict.reason)
    result = Result.where(too_small, failure, Result.step_bound)
    # A row that does not count yet is written anyway; the next step overwrites it.
    row = _Rows(t, state, loop.accepted, memory)
    taken = loop.t, jnp.where(accepted, dt, 0.0)

    def write(rows, x, number):
        return jax.lax.dynamic_update_index_in_dim(rows, x, number, 0)

    return loop._replace(
        state=state,
        carry=carry,
        memory=memory,
        stability=stability,
        worst=jnp.where(too_small, verdict.worst, -1),
        t=t,
        dt=jnp.clip(planned, adaptive.smallest(), adaptive.dt_max),
        error=jnp.where((accepted & ~shortened) | too_small | exhausted, error, loop.error),
        after_rejection=~accepted,
        attempts=loop.attempts + 1,
        accepted=loop.accepted + accepted.astype(jnp.int32),
        stops=loop.stops + (accepted & lands & ~at_end).astype(jnp.int32),
        saved=loop.saved + saves.astype(jnp.int32),
        finished=at_end | too_small | exhausted,
        result=Result.where(at_end, Result.successful, result),
        steps=jax.tree.map(lambda rows, x: write(rows, x, loop.accepted), loop.steps, taken),
        rows=jax.tree.map(lambda rows, x: write(rows, x, loop.saved), loop.rows, row),
    )
