"""Runs with steps of automatic size: a bounded loop that finds the sizes, and their derivatives.

The loop that finds step sizes is not differentiated. A scan repeats the accepted steps with their
sizes held constant: its derivatives, in either mode and to any order, are those of the run. Only
the instants of events have derivatives, and with them the sizes of the steps that lead to them and
of those that lead from there to a given time.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.integrators import step_size
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.integrators.step_size import Adaptive
from lie_jax.numerics import rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import accepted_steps, crossings, limits, watching
from lie_jax.simulation.accepted_steps import (
    EVENT,
    FREE,
    LANDS,
    Happened,
    Motion,
    Record,
    Row,
    Taken,
)
from lie_jax.simulation.events import Event
from lie_jax.simulation.trajectory import Result, Statistics, Trajectory
from lie_jax.systems.system import AbstractSystem, State

# A step that would end this close before a stop, relative to its size, is extended to the stop.
_REACH = 1.01
# An event this close before a given time, in roundings of it, happens there.
_ROUNDINGS = 8.0


class _Loop(NamedTuple):
    """The run after some attempts.

    `stability`: largest fourth power of h |λ| relative to the limit of stability, `worst`: number
    of the velocity, force or joint that left the model, `sides` of the joints when the run began.
    `watch`, a `Watch`, is None without events.
    """

    state: State
    carry: Any
    memory: Any
    stability: Float[Array, ""]
    worst: Int[Array, ""]
    sides: Array
    t: Float[Array, ""]
    dt: Float[Array, ""]
    error: Float[Array, ""]
    after_rejection: Bool[Array, ""]
    attempts: Int[Array, ""]
    accepted: Int[Array, ""]
    stops: Int[Array, ""]
    saved: Int[Array, ""]
    finished: Bool[Array, ""]
    stopped: Bool[Array, ""]
    result: Result
    record: Record
    watch: Any


class _Attempt(NamedTuple):
    """Step of size dt (s) that was tried, and whether it is accepted; an event shortens it.

    `lands`: it ends at a given time. `event`: index of the one at its end, or -1; it led from the
    step's end to `state`, with which the run goes on, and has `stopped` it, or it `failed` for a
    `reason`. `worst` and `stability` of the step.
    """

    accepted: Bool[Array, ""]
    lands: Bool[Array, ""]
    dt: Float[Array, ""]
    end: State
    worst: Int[Array, ""]
    stability: Array | None
    state: State
    carry: Any
    memory: Any
    event: Int[Array, ""]
    failed: Bool[Array, ""]
    stopped: Bool[Array, ""]
    reason: Result
    watch: Any


class _Run(NamedTuple):
    """Constants of a run with at most `bound` attempted steps and `max_events` events.

    `t0` and `stops`: times (s) of the start, and at which steps must end, the last one that of the
    run.
    """

    motion: Motion
    adaptive: Adaptive
    t0: Float[Array, ""]
    stops: Float[Array, " n"]
    bound: int
    max_events: int

    def smallest(self) -> Float[Array, ""]:
        """Smallest step size, s."""
        if self.adaptive.dt_min is not None:
            return self.adaptive.dt_min
        latest = jnp.maximum(jnp.abs(self.t0), jnp.abs(self.stops[-1]))
        return 10.0 * jnp.finfo(latest.dtype).eps * latest

    def begin(self, state: State, dt: Array, judged: bool) -> _Loop:
        adaptive, t0, (system, integrator, events) = self.adaptive, self.t0, self.motion
        no, zero, none = jnp.zeros((), bool), jnp.zeros((), jnp.int32), jnp.zeros_like(dt)
        dt = jnp.clip(dt, self.smallest(), adaptive.dt_max)
        rows = self.bound if adaptive.times is None else self.stops.shape[0]
        most_events = self.max_events if events else None
        memory = system.remember(t0, state.q, state.v)
        recalling = system.recalling(memory)
        carry = integrator.init(recalling, t0, dt, state, None)
        watch, refused, worst = None, no, zero - 1
        # It stays if nothing else ends the run.
        result = Result.step_bound
        if judged:
            reason, worst = limits.start(system, t0, state)
            refused = reason != Result.successful
            result = Result.where(refused, reason, result)
        # Times that JAX traces may lie in the wrong order.
        late = ~(self.stops[0] > t0) & ~refused
        result, refused = Result.where(late, Result.minimum_step, result), refused | late
        if events:
            watch = watching.begin(self.motion.problem(recalling, t0, dt, state, carry))
        return _Loop(
            state=state,
            carry=carry,
            memory=memory,
            stability=none,
            worst=worst,
            sides=limits.sides(system, t0, state.q),
            t=t0,
            dt=dt,
            error=jnp.ones_like(dt),
            after_rejection=no,
            attempts=zero,
            accepted=zero,
            stops=zero,
            saved=zero,
            finished=refused,
            stopped=no,
            result=result,
            record=accepted_steps.begin(t0, dt, state, memory, self.bound, rows, most_events),
            watch=watch,
        )

    def tried(self, loop: _Loop, stop: Array) -> tuple[_Attempt, Step, limits.Verdict, Array]:
        """A step without events, its verdict, and its error in units of the tolerance."""
        remaining = stop - loop.t
        lands = remaining <= _REACH * loop.dt
        dt = jnp.where(lands, remaining, jnp.minimum(loop.dt, 0.5 * remaining))
        system = self.motion.system.recalling(loop.memory)
        step = self.motion.integrator.step(system, loop.t, dt, loop.state, loop.carry, None)
        verdict = limits.verdict(system, loop.t + dt, dt, loop.state, step, loop.sides)
        assert step.error is not None
        error = step_size.error(self.adaptive, system.space, loop.state, step.state, step.error)
        error = jnp.where(jnp.isnan(error), jnp.inf, error)
        no = jnp.zeros((), bool)
        attempt = _Attempt(
            accepted=verdict.valid & (error <= 1.0),
            lands=lands,
            dt=dt,
            end=step.state,
            worst=verdict.worst,
            stability=None if step.stability is None else step.stability.rate,
            state=step.state,
            carry=step.carry,
            memory=verdict.memory,
            event=jnp.full((), -1, jnp.int32),
            failed=no,
            stopped=no,
            reason=Result.successful,
            watch=loop.watch,
        )
        return attempt, step, verdict, error

    def watched(
        self, loop: _Loop, stop: Array, planned: Array, attempt: _Attempt, step: Step
    ) -> _Attempt:
        """An accepted step, or one to the first event in it."""
        system = self.motion.system.recalling(loop.memory)
        problem = self.motion.problem(system, loop.t, loop.dt, loop.state, loop.carry)
        move = crossings.search(problem, attempt.dt, loop.watch, step)
        h, step, t = move.size, move.step, loop.t + move.size
        verdict = limits.verdict(system, t, h, loop.state, step, loop.sides)
        end = watching.end(
            problem, move, loop.watch, verdict.valid, verdict.memory, self.max_events
        )
        near = stop - t <= _ROUNDINGS * jnp.finfo(t.dtype).eps * stop
        start = problem.after(h, end.state, end.memory)
        return _Attempt(
            accepted=end.fine,
            lands=jnp.where(end.happens, near, attempt.lands),
            dt=h,
            end=step.state,
            worst=verdict.worst,
            stability=None if step.stability is None else step.stability.rate,
            state=end.state,
            carry=self.motion.carried(end.happens, start, planned, step.carry),
            memory=end.memory,
            event=jnp.where(end.happens, move.event, -1),
            failed=end.failed,
            stopped=end.stopped,
            reason=end.reason,
            watch=end.watch,
        )

    def attempt(self, loop: _Loop) -> _Loop:
        """The run after one more attempt."""
        adaptive, stop = self.adaptive, self.stops[loop.stops]
        tried, step, verdict, error = self.tried(loop, stop)
        dt, valid = tried.dt, verdict.valid
        too_small = ~tried.accepted & (jnp.minimum(dt, loop.dt) <= self.smallest())
        exhausted = loop.attempts + 1 == self.bound
        # A step shortened to hit a stop says nothing about the planned size: keep that size and the
        # previous error.
        shortened = dt < loop.dt
        judged = jnp.where(valid, error, jnp.inf)
        order = self.motion.integrator.embedded_order
        assert order is not None
        growth = step_size.factor(
            adaptive,
            order,
            judged,
            loop.error,
            loop.after_rejection,
        )
        # A search that failed says less about the next size than an error does.
        growth = jnp.where(step.converged, growth, 0.5)
        planned = jnp.where(growth >= 1.0, jnp.maximum(growth * dt, loop.dt), growth * dt)
        planned = jnp.clip(planned, self.smallest(), adaptive.dt_max)
        # Beside its end, a run ends with the smallest step or the bound on attempts.
        failure = Result.where(valid, Result.minimum_step, verdict.reason)
        result = Result.where(too_small, failure, Result.step_bound)
        end = tried
        if self.motion.events:
            end = jax.lax.cond(
                tried.accepted,
                lambda: self.watched(loop, stop, planned, tried, step),
                lambda: tried,
            )
            result = Result.where(end.failed, end.reason, result)
            # The step to the event may fail though the whole one has not.
            planned = jnp.where(tried.accepted & ~end.accepted, 0.5 * planned, planned)
        accepted, lands = end.accepted, end.lands
        at_end = accepted & lands & (loop.stops + 1 == self.stops.shape[0])

        def if_accepted(new, old):
            return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)

        state, carry, memory = if_accepted(
            (end.state, end.carry, end.memory), (loop.state, loop.carry, loop.memory)
        )
        stability = loop.stability
        if end.stability is not None:
            larger = accepted & (end.stability > stability)
            stability = jnp.where(larger, end.stability, stability)
        t = jnp.where(accepted, jnp.where(lands, stop, loop.t + end.dt), loop.t)
        saves = accepted & (lands | end.stopped | (adaptive.times is None))
        # A row that does not count yet is written anyway; the next step overwrites it.
        number = loop.saved
        if adaptive.times is not None:
            number = jnp.where(end.stopped, len(self.stops) - 1, number)
        kind = jnp.where(lands, LANDS, FREE)
        kind = jnp.where(end.event >= 0, EVENT + end.event, kind).astype(jnp.int32)
        taken = Taken(loop.t, jnp.where(accepted, end.dt, 0.0), kind, planned)
        row = Row(t, state, loop.accepted, memory)
        record = loop.record.written(taken, loop.accepted, row, number)
        if self.motion.events:
            event = Happened(t, end.event, end.end, loop.accepted)
            record = record.happening(event, loop.watch.happened)
        return loop._replace(
            state=state,
            carry=carry,
            memory=memory,
            stability=stability,
            worst=jnp.where(too_small, end.worst, -1),
            t=t,
            dt=planned,
            error=jnp.where((accepted & ~shortened) | too_small | exhausted, error, loop.error),
            after_rejection=~accepted,
            attempts=loop.attempts + 1,
            accepted=loop.accepted + accepted.astype(jnp.int32),
            stops=loop.stops + (accepted & lands & ~at_end).astype(jnp.int32),
            saved=loop.saved + saves.astype(jnp.int32),
            finished=at_end | too_small | exhausted | end.failed | end.stopped,
            stopped=end.stopped,
            result=Result.where((at_end | end.stopped) & ~end.failed, Result.successful, result),
            record=record,
            watch=end.watch,
        )


@eqx.filter_jit
def trajectory(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: State,
    t0: Array,
    stops: Array,
    dt: Array,
    adaptive: Adaptive,
    steps: int,
    blocks: Blocks,
    events: tuple[Event, ...] = (),
    max_events: int = 0,
    judged: bool = False,
) -> tuple[Trajectory, Array]:
    """Trajectory from the time t0 to the last of the `stops` (s) with at most `steps` attempted
    steps, and which instants were reached.

    Instants that were not reached hold the initial configuration. `judged`: whether the start may
    be none, which then ends the run.
    """
    growth = jnp.minimum(adaptive.max_increase, integrator.largest_growth)
    adaptive = rules.held(dataclasses.replace(adaptive, max_increase=growth))
    # Derivatives with respect to times are zero.
    t0, stops = rules.held((t0, stops))
    motion = Motion(system, integrator, events)
    run = _Run(motion, adaptive, t0, stops, steps, max_events)
    held, start, first = rules.held((run, state, dt))
    begun = held.begin(start, first, judged)
    loop = jax.lax.while_loop(lambda x: ~x.finished, held.attempt, begun)
    # Derivatives do not go through the loop.
    record = run.motion.differentiated(state, loop.record, blocks)
    rows, events_there = record.rows, None
    if record.happened is not None:
        events_there = record.happened.events(loop.watch.happened)

    number = jnp.arange(rows.t.shape[0] + 1, dtype=jnp.int32)
    reached = number <= loop.saved
    if adaptive.times is not None:
        # The row of an event that stops a run is the last one; it counts among those saved.
        reached = jnp.where(loop.stopped, (number < loop.saved) | (number == number[-1]), reached)
    t, states, memory = jax.tree.map(
        lambda first, others: jnp.concatenate([first[None], others]),
        (t0, state, rules.held(system.remember(t0, state.q, state.v))),
        (rows.t, rows.state, rows.memory),
    )

    def accelerations_at(t, state, memory):
        return integrator.accelerations(system.recalling(memory), t, state, None, None)

    accelerations = jax.vmap(accelerations_at)(t, states, memory)
    residual = jnp.where(loop.result == Result.successful, 0.0, loop.error)
    result, bad = limits.outcome(loop.result, accelerations, reached)
    result = Trajectory(
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
        events=events_there,
    )
    return result, reached
