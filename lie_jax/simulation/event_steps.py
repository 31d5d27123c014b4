"""Runs with events: a loop over steps, each of which ends at a multiple of dt or at an event.

Reverse mode needs a scan that keeps a row of each step. A run that nothing differentiates keeps the
rows of saved instants and events alone, and its numbers of steps are values of the program.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import checkpointing, jax_internals, newton, padding, programs, rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import crossings, fixed_steps, watching
from lie_jax.simulation.events import Event
from lie_jax.simulation.march import Loop, Noted, Run, Sample
from lie_jax.simulation.policy import Feedback
from lie_jax.simulation.trajectory import Events, Restart, Result, Trajectory
from lie_jax.simulation.watching import Problem, Watch
from lie_jax.systems.system import AbstractSystem, State


class _Loop(NamedTuple):
    """Loop of the march, the time `elapsed` (s) since the last multiple of dt, and the events.

    `stale`: the carry belongs to a step of another size, or to the state before an action. `begun`:
    a policy holds its inputs over the steps to the next multiple of dt already.
    """

    loop: Loop
    elapsed: Float[Array, ""]
    watch: Watch
    stale: Bool[Array, ""]
    begun: Bool[Array, ""]
    finished: Bool[Array, ""]
    stopped: Bool[Array, ""]


class _Row(NamedTuple):
    """End of a step: time, sample, and how many steps of dt and events there were so far.

    The sample of an event is that before its action. `inputs`: those that a policy held, or None.
    """

    t: Float[Array, ""]
    sample: Sample
    taken: Int[Array, ""]
    iterations: Int[Array, ""]
    happened: Int[Array, ""]
    event: Int[Array, ""]
    inputs: Array | None


class _Run(NamedTuple):
    """Constants of a run; `steps` and `save_every` are traced where a room is given for them."""

    run: Run
    events: tuple[Event, ...]
    steps: Any
    save_every: Any
    max_events: int

    def problem(
        self, system: AbstractSystem, t: Array, loop: Loop, stale: Array | bool = False
    ) -> Problem:
        run, u = self.run, self.run.input(loop.taken, loop.held)
        stale = jnp.asarray(stale)
        start = t, run.dt, loop.state, u, loop.carry
        return Problem(system, run.integrator, self.events, *start, stale)

    def begin(self, loop: Loop) -> _Loop:
        system = self.run.system.recalling(loop.memory)
        no = jnp.zeros((), bool)
        return _Loop(
            loop=loop,
            elapsed=jnp.zeros_like(self.run.dt),
            watch=watching.begin(self.problem(system, self.run.time(loop.taken), loop)),
            stale=no,
            begun=no,
            finished=loop.result != Result.successful,
            stopped=no,
        )

    def skip(self, now: _Loop) -> tuple[_Loop, _Row]:
        """Nothing, after the end of the run."""
        loop = now.loop
        u = self.run.input(loop.taken, loop.held)
        sample = jax.eval_shape(self.run.sample, loop, u)
        unread = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), sample)
        taken = loop.taken - self.run.first_step
        none, happened = jnp.zeros_like(now.elapsed), now.watch.happened
        inputs = None if loop.held is None else u
        return now, _Row(none, unread, taken, loop.iterations, happened, happened, inputs)

    def step(self, now: _Loop) -> tuple[_Loop, _Row]:
        """Loop after one step."""
        run, loop = self.run, now.loop
        if loop.held is not None:
            held = jax.lax.cond(now.begun, lambda: loop.held, lambda: run.sampled(loop).held)
            loop = loop._replace(held=held)
        system = run.system.recalling(loop.memory)
        t = run.time(loop.taken) + now.elapsed
        problem = self.problem(system, t, loop, now.stale)
        move = crossings.move(problem, run.dt - now.elapsed, now.watch)
        h = move.size
        after, iterations = run.judged(loop, system, t, h, move.step)
        after = after._replace(iterations=loop.iterations + iterations)
        valid = after.completed == after.taken
        end = watching.end(problem, move, now.watch, valid, after.memory, self.max_events)
        reached = end.fine & ~end.happens
        taken = loop.taken + reached.astype(jnp.int32)
        after = after._replace(taken=taken, completed=taken)
        result = Result.where(end.failed, end.reason, after.result)
        # A run that fails stays where it was.
        failed = loop._replace(
            iterations=after.iterations,
            result=result,
            residuals=after.residuals,
            worst=after.worst,
        )
        moved = after._replace(state=end.state, memory=end.memory, result=result)
        following = _Loop(
            loop=jax.tree.map(lambda a, b: jnp.where(end.fine, a, b), moved, failed),
            elapsed=jnp.where(end.fine, jnp.where(reached, 0.0, now.elapsed + h), now.elapsed),
            watch=end.watch,
            stale=end.happens | (now.elapsed > 0.0),
            begun=~reached,
            finished=~end.fine
            | end.stopped
            | end.failed
            | reached & (taken == run.first_step + self.steps),
            stopped=end.stopped,
        )
        saved = (reached & ((taken - run.first_step) % self.save_every == 0)) | end.stopped
        return following, self._row(following, t + h, after, problem.u, move.event, saved)

    def _row(
        self, now: _Loop, t: Array, after: Loop, u: Array | None, index: Array, saved: Array
    ) -> _Row:
        """Row of a step's end, with accelerations if it is saved."""
        run, loop = self.run, now.loop
        system = run.system.recalling(after.memory)

        def accelerations():
            return run.integrator.accelerations(system, t, after.state, after.carry, u)

        shapes = jax.eval_shape(accelerations)
        none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        found = jax.lax.cond(saved, accelerations, lambda: none)
        sample = Sample(after.state, found, after.memory, u)
        taken, happened = loop.taken - run.first_step, now.watch.happened
        inputs = None if loop.held is None else u
        return _Row(t, sample, taken, loop.iterations, happened, index, inputs)


_begin = programs.run_once(_Run.begin)
_first = programs.run_once(fixed_steps.first)


class _Kept(NamedTuple):
    """Last loop, rows in which each saved instant and each event is, and records of all steps.

    `iterations` (n,) of Newton's method up to the end of each step of dt, `inputs` (n, nu) that a
    policy held at this end, or None.
    """

    last: _Loop
    rows: _Row
    iterations: Array
    inputs: Array | None


@eqx.filter_jit
def _count(whole: _Run, loop: Loop, first: Sample, room: fixed_steps.Room) -> _Kept:
    """Run of a traced number of steps."""
    begun, start = whole.begin(loop), whole.run.first_step
    shapes: _Row = jax.eval_shape(whole.step, begun)[1]

    def empty(x, size):
        return jnp.zeros((size, *x.shape), x.dtype)

    # Unused rows come last in the order of steps and events, and hold the start, which is finite.
    size = room.instants + whole.max_events + 1
    last = jnp.full(size, jnp.iinfo(jnp.int32).max, jnp.int32)
    rows = jax.tree.map(lambda x: empty(x, size), shapes)._replace(
        sample=jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), first),
        taken=last,
        happened=last,
    )
    of_steps = jax.tree.map(lambda x: empty(x, room.steps), (shapes.iterations, shapes.inputs))

    def written(rows, row, number):
        return jax.tree.map(
            lambda rows, x: jax.lax.dynamic_update_index_in_dim(rows, x, number, 0), rows, row
        )

    def step(carry):
        now, rows, kept, of_steps = carry
        after, row = whole.step(now)
        taken = now.loop.taken - start
        of_steps = written(of_steps, (row.iterations, row.inputs), taken)
        saved = (row.taken > taken) & (row.taken % whole.save_every == 0)
        keeps = saved | (row.happened > now.watch.happened)
        # A row that is not kept is overwritten by the next one.
        return after, written(rows, row, kept), kept + keeps.astype(jnp.int32), of_steps

    carry = begun, rows, jnp.zeros((), jnp.int32), of_steps
    now, rows, kept, (iterations, inputs) = jax.lax.while_loop(
        lambda carry: ~carry[0].finished, step, carry
    )
    used = jnp.arange(size, dtype=jnp.int32) < kept
    rows = rows._replace(
        taken=jnp.where(used, rows.taken, last), happened=jnp.where(used, rows.happened, last)
    )
    # Steps that were not finished end where the run ends.
    finished = jnp.arange(room.steps, dtype=jnp.int32) < now.loop.taken - start
    return _Kept(now, rows, jnp.where(finished, iterations, now.loop.iterations), inputs)


@eqx.filter_jit
def _scan(whole: _Run, loop: Loop, blocks: Blocks) -> _Kept:
    """Run of a known number of steps, with a row for each, taken or not."""
    run = whole.run
    begun = _begin(whole, loop)
    parameters = run.system, run.integrator, run.dt, run.inputs, run.policy, loop.held, whole.events
    state, held, elapsed = rules.alike((loop.state, loop.held, begun.elapsed), parameters)
    begun = begun._replace(loop=loop._replace(state=state, held=held), elapsed=elapsed)
    step = jax.checkpoint(
        lambda now: jax.lax.cond(now.finished, whole.skip, whole.step, now),
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(newton.FOUND),
    )
    # Each event makes two steps of one.
    last, rows = checkpointing.scan(step, begun, whole.steps + whole.max_events, blocks)
    numbers = jnp.arange(1, whole.steps + 1, dtype=jnp.int32)
    ends = jnp.searchsorted(rows.taken, numbers)
    inputs = None if rows.inputs is None else rows.inputs[ends]
    return _Kept(last, rows, rows.iterations[ends], inputs)


def trajectory(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: State | Restart,
    dt: Array,
    inputs: Array | None,
    schedule: fixed_steps.Schedule,
    events: tuple[Event, ...],
    max_events: int,
    policy: Feedback | None,
    origin: np.ndarray,
    t0: Array,
) -> tuple[Trajectory, Bool[Array, " n"]]:
    """Trajectory of `schedule.steps` steps of size dt with events, and the rows that were reached.

    Rows that were not reached hold the initial state; outside of transformations there are more of
    them than the schedule has, for `fixed_steps.cut`. `origin`: checksums for a restart.
    """
    restarts = isinstance(start, Restart)
    first_step = start.steps if restarts else jnp.zeros((), jnp.int32)
    room = None
    if jax_internals.traces_nothing():
        state = start.state if isinstance(start, Restart) else start
        room = fixed_steps.room_of(state, schedule.rows, schedule.steps)
    if room is not None and inputs is not None:
        inputs = padding.lengthened(inputs, room.steps)
    run = Run(system, integrator, dt, inputs, first_step, policy, t0)
    previous_input = start.inputs if restarts else None
    judged = not restarts and checks.traced(system, start, t0)
    first, sample = _first(run, start, previous_input, judged)
    steps, save_every, blocks = fixed_steps.traced(schedule, room)
    whole = _Run(run, events, steps, save_every, max_events)
    if room is None:
        kept, sizes = _scan(whole, first, blocks), (schedule.rows, steps)
    else:
        kept, sizes = _count(whole, first, sample, room), (room.instants - 1, room.steps)
    return _collected(whole, sample, kept, sizes, jnp.asarray(origin))


@programs.run_once
def _collected(
    whole: _Run, first: Sample, kept: _Kept, sizes: tuple[int, int], origin: Array
) -> tuple[Trajectory, Bool[Array, " n"]]:
    """Trajectory of what was kept, and the instants that were reached.

    `sizes`: numbers of saved instants after the first, and of steps, in the trajectory's arrays.
    """
    run, save_every, max_events = whole.run, whole.save_every, whole.max_events
    last, rows = kept.last, kept.rows
    instants, steps = sizes
    end = last.loop
    happened = jnp.searchsorted(rows.happened, jnp.arange(1, max_events + 1, dtype=jnp.int32))
    stop = jnp.searchsorted(rows.happened, last.watch.happened)
    saved = jnp.arange(1, instants + 1, dtype=jnp.int32) * save_every
    places = jnp.searchsorted(rows.taken, saved)
    reached = saved <= end.completed - run.first_step
    is_stop = last.stopped & (saved == whole.steps // save_every * save_every)
    places, reached = jnp.where(is_stop, stop, places), reached | is_stop

    def taken(x, start):
        there = reached.reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.concatenate([start[None], jnp.where(there, x[places], start)])

    samples = jax.tree.map(taken, rows.sample, first)
    numbers = jnp.arange(1, steps + 1, dtype=jnp.int32)
    counts = jnp.diff(kept.iterations, prepend=0)
    inputs = kept.inputs
    if inputs is not None and end.held is not None:
        # The last step may be a part of one, to the event that stops the run.
        finished = end.taken - run.first_step
        inputs = jnp.where((numbers > finished)[:, None], end.held.u, inputs)
        inputs = jnp.where(
            (numbers > finished + last.begun.astype(jnp.int32))[:, None], jnp.nan, inputs
        )
    end = end._replace(carry=_renewed(run, last))
    noted = Noted(counts, inputs)
    record = fixed_steps.record(run, end, samples, noted, save_every, origin)
    t = jnp.where(jnp.append(False, is_stop), jnp.append(record.t[:1], rows.t[places]), record.t)
    end_time = run.time(end.completed) + last.elapsed
    by_accelerations = record.result == Result.acceleration_not_finite
    end_time = jnp.where(by_accelerations, record.stats.end_time, end_time)
    there = jnp.arange(max_events, dtype=jnp.int32) < last.watch.happened
    restart: Any = record.restart
    record = dataclasses.replace(
        record,
        t=t,
        stats=dataclasses.replace(record.stats, end_time=end_time),
        restart=dataclasses.replace(restart, steps=jnp.where(last.stopped, -1, end.taken)),
        events=Events(
            t=rows.t[happened],
            index=jnp.where(there, rows.event[happened], -1),
            q=rows.sample.state.q[happened],
            v=rows.sample.state.v[happened],
        ),
    )
    return record, jnp.append(True, reached)


def _renewed(run: Run, last: _Loop) -> Any:
    """Carry of the integrator for the step that a restart takes first."""
    loop = last.loop
    if not jax.tree.leaves(loop.carry):
        return loop.carry
    system, t = run.system.recalling(loop.memory), run.time(loop.taken)
    u = run.input(loop.taken, loop.held)

    def begun():
        return run.integrator.init(system, t, run.dt, loop.state, u)

    return jax.lax.cond(last.stale, begun, lambda: loop.carry)
