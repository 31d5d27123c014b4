"""Runs with stops: steps of one size with events, and automatic steps with or without.

Three programs run the same step. A loop of a traced number of steps keeps the rows of saved
instants and events alone. Reverse mode through steps of one size needs a scan that keeps a row of
each step. The loop that finds automatic sizes has no derivatives: the scan repeats the accepted
steps with their sizes held constant, and its derivatives, in either mode and to any order, are
those of the run. Only the instants of events have derivatives, and with them the sizes of the steps
that lead to them and of those that lead from there to a stop.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import checkpointing, jax_internals, newton, padding, programs, rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import fixed_steps, summary
from lie_jax.simulation.attempts import Known, Plan, Progress
from lie_jax.simulation.events import Event
from lie_jax.simulation.march import Loop, Run, Sample
from lie_jax.simulation.policy import Feedback
from lie_jax.simulation.schedules import Automatic, Schedule
from lie_jax.simulation.sizes import Sizes
from lie_jax.simulation.trajectory import Events, Restart, Result, Saved, Trajectory
from lie_jax.systems.system import AbstractSystem, State


class _Kept(NamedTuple):
    """Last progress, and what a trajectory has of a run.

    Of saved instants (n,): times `t` (s), `rows` of what is kept, numbers of `steps` up to them,
    and whether they were `reached`. Of events: times, indices, states before actions. Of all steps:
    `iterations` of Newton's method up to the end of each, and `inputs` (n, nu) that a policy held,
    or None.
    """

    last: Progress
    t: Array
    rows: Any
    steps: Array
    reached: Array
    event_t: Array
    event: Array
    before: State
    iterations: Array
    inputs: Array | None


class Reached(NamedTuple):
    """Which rows of a trajectory were reached, and which of the values that it saved, or None."""

    instants: Bool[Array, " n"]
    saved: Bool[Array, " saved"] | None


class _Begun(NamedTuple):
    """Progress before the first step, the sample of the start, and what is kept of the start."""

    now: Progress
    sample: Sample
    kept: Any


@programs.run_once
def _begin(
    plan: Plan, start: State | Restart, previous_input: Array | None, judged: bool
) -> _Begun:
    control, run = None, plan.run
    if isinstance(start, Restart):
        control = start.control
    elif plan.sizes is not None:
        control = plan.sizes.begin(run.dt)
        run = run._replace(dt=control.planned)
    loop, sample, kept = fixed_steps.first(run, start, previous_input, judged)
    return _Begun(plan.begin(loop, control), sample, kept)


def _mark_reached(plan: Plan, last: Progress, size: int) -> tuple[Array, Array]:
    """Which of the saved instants after the first were reached, and which one is an event's that
    stopped the run: the next one of accepted steps, the last one of known instants.
    """
    number = jnp.arange(size, dtype=jnp.int32)
    is_stop = last.stopped & (number == (last.saved if plan.free else plan.rows - 1))
    return (number < last.saved) | is_stop, is_stop


def _write(rows: Any, row: Any, number: Array) -> Any:
    return jax.tree.map(
        lambda rows, x: jax.lax.dynamic_update_index_in_dim(rows, x, number, 0), rows, row
    )


def _broadcast(row: Any, rows: int) -> Any:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (rows, *x.shape)), row)


@eqx.filter_jit
def _count(
    plan: Plan, begun: _Begun, room: fixed_steps.Room, repeats: bool
) -> tuple[_Kept, Known | None]:
    """Run of a traced number of steps, and its accepted steps if something `repeats` them."""
    # Unused rows hold the start: accelerations there are finite. A row that does not count is
    # overwritten by the next one, or is the one row more at the end.
    now, zero = begun.now, jnp.zeros((), jnp.int32)
    none = jnp.zeros_like(now.elapsed)
    held = now.loop.held
    saved = _broadcast((none, begun.kept, zero), room.instants + 1)
    events = _broadcast((none, zero, now.loop.state), plan.max_events + 1)
    of_steps = _broadcast((zero, None if held is None else held.u), room.steps)
    no = jnp.zeros((), bool)
    known = _broadcast(Known(none, no, no, zero, no, none), plan.steps) if repeats else None

    def step(carry):
        now, saved, events, of_steps, known = carry
        after, row, taken = plan.attempt(now)
        place = now.saved
        if not plan.free:
            place = jnp.where(after.stopped, plan.rows - 1, place)
        saved = _write(saved, (row.t, row.kept, row.steps), place)
        if plan.events:
            events = _write(events, (row.t, row.event, row.before), now.event_count)
        this = plan.count_steps(now)
        of_steps = _write(of_steps, (row.iterations, row.inputs), this)
        if known is not None:
            fine = after.accepted > now.accepted
            taken = taken._replace(size=jnp.where(fine, taken.size, 0.0))
            known = _write(known, taken, now.accepted)
        return after, saved, events, of_steps, known

    carry = now, saved, events, of_steps, known
    last, saved, events, (iterations, inputs), known = jax.lax.while_loop(
        lambda carry: ~carry[0].finished, step, carry
    )
    t, rows, steps = jax.tree.map(lambda x: x[:-1], saved)
    event_t, event, before = jax.tree.map(lambda x: x[:-1], events)
    # Steps that were not finished end where the run ends.
    finished = jnp.arange(room.steps, dtype=jnp.int32) < plan.count_steps(last)
    iterations = jnp.where(finished, iterations, last.loop.iterations)
    reached, _ = _mark_reached(plan, last, room.instants)
    kept = _Kept(last, t, rows, steps, reached, event_t, event, before, iterations, inputs)
    return kept, known


@eqx.filter_jit
def _scan(
    plan: Plan, begun: _Begun, room: fixed_steps.Room, blocks: Blocks, known: Known | None
) -> _Kept:
    """Run of a known number of steps, with a row for each, taken or not; or of `known` steps."""
    run, now = plan.run, begun.now
    parameters = run.system, run.integrator, run.dt, run.inputs, run.policy, plan.events, now.loop
    loop = now.loop
    state, held, elapsed = rules.with_tangents_of((loop.state, loop.held, now.elapsed), parameters)
    now = now._replace(loop=loop._replace(state=state, held=held), elapsed=elapsed)

    def step(now):
        if known is None:
            return jax.lax.cond(now.finished, plan.skip, lambda now: plan.attempt(now)[:2], now)
        this = jax.tree.map(lambda x: x[now.attempts], known)
        again = this.size > 0.0
        return jax.lax.cond(again, lambda now: plan.attempt(now, this)[:2], plan.skip, now)

    step = jax.checkpoint(
        step,
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(newton.FOUND),
    )
    # Each event makes two steps of one of those of one size.
    number = plan.steps + (0 if known is not None else plan.max_events)
    last, rows = checkpointing.scan(step, now, number, blocks)
    reached, is_stop = _mark_reached(plan, last, room.instants)
    happened = jnp.searchsorted(
        rows.event_count, jnp.arange(1, plan.max_events + 1, dtype=jnp.int32)
    )
    places = jnp.searchsorted(rows.saved, jnp.arange(1, room.instants + 1, dtype=jnp.int32))
    if plan.events:
        stop = jnp.searchsorted(rows.event_count, last.event_count)
        places = jnp.where(is_stop, stop, places)
    ends = jnp.searchsorted(rows.steps, jnp.arange(1, room.steps + 1, dtype=jnp.int32))

    def pick(x, start):
        there = reached.reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.where(there, x[places], start)

    return _Kept(
        last=last,
        t=rows.t[places],
        rows=jax.tree.map(pick, rows.kept, begun.kept),
        steps=rows.steps[places],
        reached=reached,
        event_t=rows.t[happened],
        event=rows.event[happened],
        before=jax.tree.map(lambda x: x[happened], rows.before),
        iterations=rows.iterations[ends],
        inputs=None if rows.inputs is None else rows.inputs[ends],
    )


@eqx.filter_jit
def _automatic(plan: Plan, begun: _Begun, room: fixed_steps.Room, blocks: Blocks) -> _Kept:
    """Run with automatic sizes, with the derivatives of the accepted steps."""
    constants: Any = rules.stop_gradient((plan, begun))
    kept, known = _count(constants[0], constants[1], room, True)

    def moving(kept):
        loop = kept.last.loop
        parts = loop.state, loop.carry, loop.held, kept.last.elapsed
        return eqx.filter(
            (kept.t, kept.rows, kept.event_t, kept.before, kept.inputs, parts),
            eqx.is_inexact_array,
        )

    def again(parameters):
        plan, begun, known = parameters
        return moving(_scan(plan, begun, room, blocks, known))

    values = rules.value_as(moving(kept), again, (plan, begun, known))
    loop = kept.last.loop
    t, rows, event_t, before, inputs, (state, carry, held, elapsed) = values
    carry, held = eqx.combine(carry, loop.carry), eqx.combine(held, loop.held)
    loop = loop._replace(state=state, carry=carry, held=held)
    return kept._replace(
        last=kept.last._replace(loop=loop, elapsed=elapsed),
        t=t,
        rows=eqx.combine(rows, kept.rows),
        event_t=event_t,
        before=before,
        inputs=inputs,
    )


def trajectory(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: State | Restart,
    dt: Array,
    inputs: Array | None,
    schedule: Schedule,
    events: tuple[Event, ...],
    max_events: int,
    policy: Feedback | None,
    origin: np.ndarray,
    t0: Array,
    automatic: Automatic | None = None,
    observe: Callable | None = None,
) -> tuple[Trajectory, Reached]:
    """Trajectory of `schedule.steps` steps of size dt with events, or of `automatic` ones.

    Returns it with the rows that were reached; others hold those of the start. Outside of
    transformations there are more rows than the schedule has, for `fixed_steps.cut`. `origin`:
    checksums for a restart; `observe` computes the values that are kept in place of states.
    """
    restarts, most_events = isinstance(start, Restart), max_events if events else 0
    first_step: Any = jnp.zeros((), jnp.int32)
    room, times, sizes, free = None, None, None, False
    number, rows = schedule, schedule.rows
    if automatic is None:
        first_step = start.steps if isinstance(start, Restart) else first_step
        if jax_internals.traces_nothing():
            state = start.state if isinstance(start, Restart) else start
            room = fixed_steps.room_of(state, schedule.rows, schedule.steps)
        if room is not None and inputs is not None:
            inputs = padding.pad(inputs, room.steps)
        number = fixed_steps.trace_numbers(schedule, room)
        rows = number.rows
    else:
        adaptive, free = automatic.adaptive, automatic.free
        growth = jnp.minimum(adaptive.max_increase, integrator.largest_growth)
        adaptive = rules.stop_gradient(dataclasses.replace(adaptive, max_increase=growth))
        # Derivatives with respect to times are zero.
        times, dt = rules.stop_gradient((jnp.concatenate([t0[None], automatic.stops]), dt))
        sizes = Sizes.of(adaptive, times)
        rows = -(-schedule.steps // schedule.every) if free else len(automatic.stops)
    run = Run(system, integrator, dt, inputs, first_step, policy, t0, times, observe)
    plan = Plan(run, events, most_events, number.steps, number.every, rows, sizes, free)
    previous_input = start.inputs if isinstance(start, Restart) else None
    judged = not restarts and checks.has_tracers(system, start, t0)
    begun = _begin(plan, start, previous_input, judged)
    known = fixed_steps.Room(rows, schedule.steps)
    if room is not None:
        kept, _ = _count(plan, begun, room._replace(instants=room.instants - 1), False)
    elif automatic is not None:
        kept = _automatic(plan, begun, known, schedule.blocks)
    else:
        kept = _scan(plan, begun, known, schedule.blocks, None)
    return _collect(plan, begun, kept, dt, jnp.asarray(origin))


@programs.run_once
def _collect(
    plan: Plan, begun: _Begun, kept: _Kept, dt: Array, origin: Array
) -> tuple[Trajectory, Reached]:
    """Trajectory of what was kept, and the rows that were reached; `dt` as it was given, s."""
    run, last = plan.run, kept.last
    end, finished = last.loop, plan.count_steps(last)
    end_time = run.time(end.completed) + last.elapsed
    rows = jax.tree.map(lambda x, rows: jnp.concatenate([x[None], rows]), begun.kept, kept.rows)
    t = jnp.concatenate([run.time(run.first_step)[None], kept.t])
    steps, reached = jnp.append(0, kept.steps), jnp.append(True, kept.reached)
    saved, marks = None, Reached(reached, None)
    if run.observe is not None:
        saved, rows = Saved(t, rows), summary.ends(begun.sample, _last(plan, last, end_time))
        t, steps = jnp.stack([t[0], end_time]), jnp.stack([steps[0], finished])
        reached = jnp.stack([reached[0], end.result == Result.successful])
        marks = Reached(reached, marks.instants)
    counts = jnp.diff(kept.iterations, prepend=0)
    inputs = kept.inputs
    if inputs is not None and end.held is not None:
        # The last step may be a part of one, to the event that stops the run.
        numbers = jnp.arange(1, len(inputs) + 1, dtype=jnp.int32)
        inputs = jnp.where((numbers > finished)[:, None], end.held.u, inputs)
        partial = last.begun.astype(jnp.int32) if plan.sizes is None else 0
        inputs = jnp.where((numbers > finished + partial)[:, None], jnp.nan, inputs)
    end = end._replace(carry=_renew(run, last, plan))
    instants = summary.Instants(t, steps, reached)
    completed = finished - summary.shortly_unstable(end).astype(jnp.int32)
    record = summary.trajectory(run, end, rows, instants, completed, end_time, origin)
    restart: Any = record.restart
    stats = dataclasses.replace(record.stats, newton_iterations=counts)
    if plan.sizes is None:
        restart = dataclasses.replace(restart, steps=jnp.where(last.stopped, -1, end.taken))
    else:
        steps = jnp.where(last.stopped, -1, 0)
        restart = dataclasses.replace(
            restart, steps=steps, dt=dt, t0=end_time, control=last.control, growth=None
        )
        residual = jnp.where(end.result == Result.successful, 0.0, last.error)
        stats = dataclasses.replace(
            stats,
            rejected_steps=last.attempts - last.accepted,
            residual=residual,
            residual_history=residual[None],
        )
    events = None
    if plan.events:
        there = jnp.arange(plan.max_events, dtype=jnp.int32) < last.event_count
        index = jnp.where(there, kept.event, -1)
        events = Events(t=kept.event_t, index=index, q=kept.before.q, v=kept.before.v)
    others = {"stats": stats, "restart": restart, "events": events, "inputs": inputs}
    return dataclasses.replace(record, saved=saved, **others), marks


def _last(plan: Plan, last: Progress, t: Array) -> Sample:
    """Sample of the end of a run at the time t, s."""
    run, loop = plan.run, last.loop
    # An event may have ended the run within an interval between stops.
    interval = loop.taken - jnp.where(last.elapsed > 0.0, 0, 1)
    u = run.input(jnp.maximum(interval, run.first_step), loop.held)
    accelerations = plan.accelerations(t, loop.state, loop.memory, loop.carry, u)
    return Sample(loop.state, accelerations, loop.memory, u)


def _renew(run: Run, last: Progress, plan: Plan) -> Any:
    """Carry of the integrator for the step that a restart takes first."""
    loop: Loop = last.loop
    if not jax.tree.leaves(loop.carry):
        return loop.carry
    t = run.time(loop.taken) + last.elapsed
    system = run.system.with_memory(loop.memory)
    u = run.input(loop.taken, loop.held)
    size = run.dt if last.control is None else last.control.planned

    def new_carry():
        return run.integrator.init(system, t, size, loop.state, u)

    return jax.lax.cond(last.stale, new_carry, lambda: loop.carry)
