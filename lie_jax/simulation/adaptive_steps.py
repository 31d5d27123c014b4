"""Steps of automatic size: a bounded loop that finds them, and their derivatives.

The loop that looks for step sizes is not differentiated. Derivatives are those of the accepted
steps with their sizes held constant: a scan over the recorded sizes, in either mode and to any
order.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.integrators import step_size as control
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.integrators.step_size import Adaptive
from lie_jax.numerics import checkpointing, rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import limits
from lie_jax.simulation.trajectory import Result, Statistics, Trajectory
from lie_jax.system import AbstractSystem, State

# A step that would end this close before a stop, relative to its size, is extended to it.
_REACH = 1.01


class _Step(NamedTuple):
    # An accepted step: where it starts and its size, zero for steps that were not taken.
    t: Array
    dt: Array


class _Row(NamedTuple):
    # A saved instant, after which accepted step it lies, and what forces keep of it.
    t: Array
    state: State
    step: Array
    memory: Any


class _Loop(NamedTuple):
    state: State
    carry: Any
    memory: Any
    # The fourth power of the largest h |λ| next to the limit of stability, who left the model, and
    # which joints the run has found turned over.
    stability: Array
    worst: Array
    over: Array
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
    steps: _Step
    rows: _Row


@eqx.filter_jit
def run(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: State,
    dt: Array,
    adaptive: Adaptive,
    steps: int,
    blocks: Blocks,
) -> tuple[Trajectory, Array]:
    """The trajectory from time 0 with at most that many steps, rejected ones included, and which of
    its instants were reached. The others hold the initial configuration.
    """
    saved, loop = _integrate(system, integrator, state, dt, adaptive, steps, blocks)
    reached = jnp.arange(loop.rows.t.shape[0] + 1, dtype=jnp.int32) <= loop.saved

    def column(first, rest):
        return jnp.concatenate([first[None], rest])

    t = column(jnp.zeros_like(loop.t), loop.rows.t)
    q, v = column(state.q, saved.q), column(state.v, saved.v)
    start = rules.held(system.remember(jnp.zeros_like(loop.t), state.q, state.v))
    memory = jax.tree.map(column, start, loop.rows.memory)

    def accelerations_at(t, q, v, memory):
        own = system.recalling(memory)
        return integrator.accelerations(own, t, State(q, v), loop.carry, None)

    acceleration, multipliers = jax.vmap(accelerations_at)(t, q, v, memory)
    left = jnp.where(loop.result == Result.successful, 0.0, loop.error)
    bad = limits.first_not_finite(acceleration, multipliers, reached)
    known = (bad < reached.shape[0]) & (loop.result == Result.successful)
    trajectory = Trajectory(
        t=t,
        q=q,
        v=v,
        acceleration=acceleration,
        multipliers=multipliers,
        stats=Statistics(
            newton_iterations=jnp.zeros(steps, jnp.int32),
            completed_steps=loop.accepted,
            rejected_steps=loop.attempts - loop.accepted,
            end_time=jnp.where(known, t[jnp.minimum(bad, reached.shape[0] - 1)], loop.t),
            residual=left,
            residual_history=left[None],
            worst_equation=loop.worst,
            stability=loop.stability**0.25,
        ),
        result=Result.where(known, Result.acceleration_not_finite, loop.result),
        memory=memory,
    )
    return trajectory, reached


def _integrate(system, integrator, state, dt, adaptive, steps, blocks) -> tuple[State, _Loop]:
    differentiable = system, integrator, state
    system, integrator, state, dt, adaptive = rules.held((system, integrator, state, dt, adaptive))
    loop = jax.lax.while_loop(
        lambda loop: ~loop.finished,
        lambda loop: _attempt(system, integrator, adaptive, steps, loop),
        _start(system, integrator, state, dt, adaptive, steps),
    )

    def change(saved, parameters, tangents):
        loop = parameters[-1]

        def replay(system, integrator, state):
            return _replay(system, integrator, state, loop, blocks)

        return eqx.filter_jvp(replay, parameters[:-1], tangents[:-1])[1]

    # Derivatives do not go through the loop.
    return rules.by_rule(loop.rows.state, change, (*differentiable, loop)), loop


def _replay(system, integrator, state, loop: _Loop, blocks) -> State:
    def step(carry):
        state, memory, number = carry
        t, dt = loop.steps.t[number], loop.steps.dt[number]

        def move(state, memory):
            own = system.recalling(memory)
            state = integrator.step(own, t, dt, state, loop.carry, None).state
            return state, rules.held(own.remember(t + dt, state.q, state.v))

        state, memory = jax.lax.cond(
            dt > 0.0, move, lambda state, memory: (state, memory), state, memory
        )
        return (state, memory, number + 1), state

    recomputed = jax.checkpoint(step, prevent_cse=False)
    length = loop.steps.dt.shape[0]
    state = rules.alike(state, system)
    memory = rules.held(system.remember(jnp.zeros_like(loop.t), state.q, state.v))
    begin = state, memory, jnp.zeros((), jnp.int32)
    _, states = checkpointing.scan(recomputed, begin, length, blocks)
    return jax.tree.map(lambda x: x[loop.rows.step], states)


def _start(system, integrator, state, dt, adaptive: Adaptive, steps) -> _Loop:
    zero, none = jnp.zeros((), jnp.int32), jnp.zeros_like(dt)
    rows = steps if adaptive.times is None else adaptive.stops.shape[0]
    memory = system.remember(none, state.q, state.v)
    return _Loop(
        state=state,
        carry=integrator.init(system.recalling(memory), none, dt, state, None),
        memory=memory,
        stability=none,
        worst=zero - 1,
        over=limits.turned_over(system, none, state.q),
        t=none,
        dt=_within_bounds(adaptive, dt),
        error=jnp.ones_like(dt),
        after_rejection=jnp.zeros((), bool),
        attempts=zero,
        accepted=zero,
        stops=zero,
        saved=zero,
        finished=jnp.zeros((), bool),
        # What it is called if nothing else ends it.
        result=Result.step_bound,
        steps=_Step(jnp.zeros(steps, dt.dtype), jnp.zeros(steps, dt.dtype)),
        # Rows that stay unused hold a configuration, so that their accelerations are finite.
        rows=jax.tree.map(
            lambda x: jnp.broadcast_to(x, (rows, *x.shape)), _Row(none, state, zero, memory)
        ),
    )


def _within_bounds(adaptive: Adaptive, dt: Array) -> Array:
    dt = jnp.maximum(dt, adaptive.smallest())
    return dt if adaptive.dt_max is None else jnp.minimum(dt, adaptive.dt_max)


def _attempt(system, integrator, adaptive: Adaptive, steps: int, loop: _Loop) -> _Loop:
    stop = adaptive.stops[loop.stops]
    remaining = stop - loop.t
    lands = remaining <= _REACH * loop.dt
    dt = jnp.where(lands, remaining, jnp.minimum(loop.dt, 0.5 * remaining))
    system = system.recalling(loop.memory)
    step = integrator.step(system, loop.t, dt, loop.state, loop.carry, None)
    left = limits.of_step(system, loop.t + dt, dt, loop.state, step.state, loop.over)
    error = control.error(adaptive, system.space, loop.state, step.state, step.embedded)
    finite = jnp.isfinite(jnp.sum(step.state.q) + jnp.sum(step.state.v))
    error = jnp.where(step.converged & finite & ~jnp.isnan(error), error, jnp.inf)
    regular = jnp.asarray(system.regular(step.state.q))
    kept = left.inside & regular
    accepted = (error <= 1.0) & kept

    growth = control.factor(
        adaptive,
        integrator.embedded_order,
        jnp.where(kept, error, jnp.inf),
        loop.error,
        loop.after_rejection,
    )
    # A step that a stop has cut short tells nothing against the size that was planned, nor of the
    # error that such a step would have.
    cut_short = dt < loop.dt
    planned = jnp.where(growth >= 1.0, jnp.maximum(growth * dt, loop.dt), growth * dt)

    at_end = accepted & lands & (loop.stops + 1 == adaptive.stops.shape[0])
    too_small = ~accepted & (jnp.minimum(dt, loop.dt) <= adaptive.smallest())
    exhausted = loop.attempts + 1 == steps
    failure = Result.where(left.inside, Result.minimum_step, left.reason)
    failure = Result.where(regular, failure, Result.singular)
    failure = Result.where(finite, failure, Result.non_finite)
    failure = Result.where(step.converged, failure, Result.newton_failed)
    result = Result.where(too_small, failure, loop.result)
    result = Result.where(at_end, Result.successful, result)

    def kept_if_accepted(new, old):
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)

    state, memory = kept_if_accepted((step.state, left.memory), (loop.state, loop.memory))
    stability = loop.stability
    if step.stability is not None:
        larger = accepted & (step.stability > stability)
        stability = jnp.where(larger, step.stability, stability)
    t = jnp.where(accepted, jnp.where(lands, stop, loop.t + dt), loop.t)
    saves = accepted & (lands | (adaptive.times is None))
    # A row that does not count yet is written anyway, and again by the next step.
    row = _Row(t, state, loop.accepted, memory)
    number = _Step(loop.t, jnp.where(accepted, dt, 0.0))
    return _Loop(
        state=state,
        carry=loop.carry,
        memory=memory,
        stability=stability,
        worst=jnp.where(too_small & ~left.inside, left.worst, -1),
        over=loop.over,
        t=t,
        dt=_within_bounds(adaptive, planned),
        error=jnp.where((accepted & ~cut_short) | too_small | exhausted, error, loop.error),
        after_rejection=~accepted,
        attempts=loop.attempts + 1,
        accepted=loop.accepted + _count(accepted),
        stops=loop.stops + _count(accepted & lands & ~at_end),
        saved=loop.saved + _count(saves),
        finished=at_end | too_small | exhausted,
        result=result,
        steps=jax.tree.map(lambda rows, x: _write(rows, x, loop.accepted), loop.steps, number),
        rows=jax.tree.map(lambda rows, x: _write(rows, x, loop.saved), loop.rows, row),
    )


def _count(flag: Array) -> Array:
    return flag.astype(jnp.int32)


def _write(rows: Array, x: Array, place: Array) -> Array:
    return jax.lax.dynamic_update_index_in_dim(rows, x, place, 0)
