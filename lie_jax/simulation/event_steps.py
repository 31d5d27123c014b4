"""Runs with events: a scan over steps, each of which ends at a multiple of dt or at an event."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import checkpointing, newton, programs, rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import crossings, fingerprints, fixed_steps
from lie_jax.simulation import events as events_of_runs
from lie_jax.simulation.crossings import Problem
from lie_jax.simulation.events import Event
from lie_jax.simulation.march import Loop, Run, Sample
from lie_jax.simulation.trajectory import Events, Restart, Result, Trajectory
from lie_jax.system import AbstractSystem, State


class _Loop(NamedTuple):
    """Loop of the march, the time `elapsed` (s) since the last multiple of dt, and the events.

    `sides` (events,) of the event functions, `departing` (events,) those that have just happened,
    `latest` the index of the last one of them or -1, `happened` the number of events so far.
    `stale`: the carry belongs to a step of another size, or to the state before an action.
    """

    loop: Loop
    elapsed: Float[Array, ""]
    sides: Float[Array, " events"]
    departing: Bool[Array, " events"]
    latest: Int[Array, ""]
    happened: Int[Array, ""]
    stale: Bool[Array, ""]
    finished: Bool[Array, ""]
    stopped: Bool[Array, ""]


class _Row(NamedTuple):
    """End of a step: time, sample, and how many steps of dt and events there were so far.

    The sample of an event is that before its action.
    """

    t: Float[Array, ""]
    sample: Sample
    taken: Int[Array, ""]
    iterations: Int[Array, ""]
    happened: Int[Array, ""]
    event: Int[Array, ""]


class _Run(NamedTuple):
    run: Run
    events: tuple[Event, ...]
    steps: int
    save_every: int
    max_events: int

    def problem(
        self, system: AbstractSystem, t: Array, loop: Loop, stale: Array | bool = False
    ) -> Problem:
        run, u = self.run, self.run.input(loop.taken)
        stale = jnp.asarray(stale)
        start = t, run.dt, loop.state, u, loop.carry
        return Problem(system, run.integrator, self.events, *start, stale)

    def begin(self, loop: Loop) -> _Loop:
        system = self.run.system.recalling(loop.memory)
        no, none = jnp.zeros((), bool), jnp.zeros(len(self.events), bool)
        return _Loop(
            loop=loop,
            elapsed=jnp.zeros_like(self.run.dt),
            sides=crossings.sides(self.problem(system, self.run.time(loop.taken), loop)),
            departing=none,
            latest=jnp.full((), -1, jnp.int32),
            happened=jnp.zeros((), jnp.int32),
            stale=no,
            finished=no,
            stopped=no,
        )

    def skip(self, now: _Loop) -> tuple[_Loop, _Row]:
        """Nothing, after the end of the run."""
        loop = now.loop
        sample = jax.eval_shape(self.run.sample, loop, self.run.input(loop.taken))
        unread = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), sample)
        taken = loop.taken - self.run.first_step
        none = jnp.zeros_like(now.elapsed)
        return now, _Row(none, unread, taken, loop.iterations, now.happened, now.happened)

    def step(self, now: _Loop) -> tuple[_Loop, _Row]:
        """Loop after one step."""
        run, loop = self.run, now.loop
        system = run.system.recalling(loop.memory)
        t = run.time(loop.taken) + now.elapsed
        problem = self.problem(system, t, loop, now.stale)
        move = crossings.move(problem, run.dt - now.elapsed, now.sides, now.departing)
        h, index = move.size, move.event
        after, iterations = run.judged(loop, system, t, h, move.step)
        after = after._replace(iterations=loop.iterations + iterations)

        finite = jnp.all(jnp.isfinite(rules.held(problem.values(h, move.step.state))))
        valid = after.completed == after.taken
        # Flights that become ever shorter end where rounding hides them.
        hidden = (index == now.latest) & (h <= jnp.finfo(h.dtype).eps ** 0.5 * run.dt)
        many = valid & finite & move.happens & (hidden | (now.happened == self.max_events))
        fine = valid & finite & ~many
        happens, reached = fine & move.happens, fine & ~move.happens
        taken = loop.taken + reached.astype(jnp.int32)
        after = after._replace(taken=taken, completed=taken)
        state, memory, sides, consistent = jax.lax.cond(
            happens,
            lambda: self._acted(t + h, after, now.sides, move),
            lambda: (after.state, after.memory, move.sides, jnp.ones((), bool)),
        )
        result = Result.where(valid & ~finite, Result.event_not_finite, after.result)
        result = Result.where(many, Result.too_many_events, result)
        result = Result.where(consistent, result, Result.action_off_constraints)
        # A run that fails stays where it was.
        failed = loop._replace(
            iterations=after.iterations,
            result=result,
            residuals=after.residuals,
            worst=after.worst,
        )
        moved = after._replace(state=state, memory=memory, result=result)
        end = jax.tree.map(lambda a, b: jnp.where(fine, a, b), moved, failed)
        this = jnp.arange(len(self.events), dtype=jnp.int32) == index
        stopped = happens & jnp.any(this & jnp.asarray([event.stops for event in self.events]))
        at_end = reached & (taken == run.first_step + self.steps)
        departing = now.departing & (h <= crossings.SETTLED * run.dt) | (happens & this)
        latest = jnp.where(happens, index, jnp.where(jnp.any(departing), now.latest, -1))
        following = _Loop(
            loop=end,
            elapsed=jnp.where(fine, jnp.where(reached, 0.0, now.elapsed + h), now.elapsed),
            sides=sides,
            departing=departing,
            latest=latest,
            happened=now.happened + happens.astype(jnp.int32),
            stale=happens | (now.elapsed > 0.0),
            finished=~fine | stopped | ~consistent | at_end,
            stopped=stopped,
        )
        saved = (reached & ((taken - run.first_step) % self.save_every == 0)) | stopped
        return following, self._row(following, t + h, after, problem.u, index, saved)

    def _acted(
        self, t: Array, after: Loop, before: Array, move: crossings.Move
    ) -> tuple[State, Any, Array, Array]:
        """State after the action of an event, memory of the forces and sides of the functions
        there, and whether the state satisfies the constraints.
        """
        system = self.run.system.recalling(after.memory)
        state = events_of_runs.acted(self.events, move.event, t, after.state)
        memory = rules.held(system.remember(t, state.q, state.v))
        system = self.run.system.recalling(memory)
        from_here = self.problem(system, t, after._replace(state=state))
        sides = crossings.sides_after(from_here, move.event, before, move.scale)
        return state, memory, sides, _consistent(system, t, after.state, state)

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
        sample = Sample(after.state, found, after.memory)
        return _Row(t, sample, loop.taken - run.first_step, loop.iterations, now.happened, index)


def _consistent(system: AbstractSystem, t: Array, before: State, after: State) -> Array:
    """Whether an action left the constraints of positions and velocities as it met them.

    Methods of index 3 satisfy those of velocities up to their own error.
    """
    if not system.nc:
        return jnp.ones((), bool)
    system, t, before, after = rules.held((system, t, before, after))

    def violations(state):
        both = system.constraint(t, state.q), system.constraint_rate(t, state.q, state.v)
        return jnp.stack([jnp.max(jnp.abs(x), initial=0.0) for x in both])

    met, left = violations(before), violations(after)
    scale = 1.0 + jnp.max(jnp.abs(after.q)) + jnp.max(jnp.abs(after.v))
    return jnp.all(left <= jnp.finfo(scale.dtype).eps ** 0.5 * scale + 2.0 * met)


_begin = programs.run_once(_Run.begin)
_first = programs.run_once(fixed_steps.first)


@eqx.filter_jit
def _scan(whole: _Run, loop: Loop, blocks: Blocks) -> tuple[_Loop, _Row]:
    """Last loop, and a row for each step, taken or not."""
    run = whole.run
    begun = _begin(whole, loop)
    parameters = run.system, run.integrator, run.dt, run.inputs, whole.events
    state, elapsed = rules.alike((loop.state, begun.elapsed), parameters)
    begun = begun._replace(loop=loop._replace(state=state), elapsed=elapsed)
    step = jax.checkpoint(
        lambda now: jax.lax.cond(now.finished, whole.skip, whole.step, now),
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(newton.FOUND),
    )
    # Each event makes two steps of one.
    return checkpointing.scan(step, begun, whole.steps + whole.max_events, blocks)


def trajectory(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: State | Restart,
    dt: Array,
    inputs: Array | None,
    schedule: fixed_steps.Schedule,
    events: tuple[Event, ...],
    max_events: int,
) -> tuple[Trajectory, Bool[Array, " n"]]:
    """Trajectory of `schedule.steps` steps of size dt with events, and the rows that were reached.

    Rows that were not reached hold the initial state.
    """
    restarts = isinstance(start, Restart)
    first_step = start.steps if restarts else jnp.zeros((), jnp.int32)
    run = Run(system, integrator, dt, inputs, first_step)
    previous_input = start.inputs if restarts else None
    first, sample = _first(run, start, previous_input)
    steps, save_every, blocks = schedule
    last, rows = _scan(_Run(run, events, steps, save_every, max_events), first, blocks)
    origin = jnp.asarray(fingerprints.checksums(integrator=integrator, system=system))
    return _collected(run, sample, last, rows, schedule, max_events, origin)


@programs.run_once
def _collected(
    run: Run,
    first: Sample,
    last: _Loop,
    rows: _Row,
    schedule: fixed_steps.Schedule,
    max_events: int,
    origin: Array,
) -> tuple[Trajectory, Bool[Array, " n"]]:
    """Trajectory of the last loop and all rows, and the instants that were reached."""
    steps, save_every, _ = schedule
    end = last.loop
    happened = jnp.searchsorted(rows.happened, jnp.arange(1, max_events + 1, dtype=jnp.int32))
    stop = jnp.searchsorted(rows.happened, last.happened)
    saved = jnp.arange(1, steps // save_every + 1, dtype=jnp.int32) * save_every
    places = jnp.searchsorted(rows.taken, saved)
    reached = saved <= end.completed - run.first_step
    is_stop = last.stopped & (saved == saved[-1])
    places, reached = jnp.where(is_stop, stop, places), reached | is_stop

    def taken(x, start):
        there = reached.reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.concatenate([start[None], jnp.where(there, x[places], start)])

    samples = jax.tree.map(taken, rows.sample, first)
    iterations = rows.iterations[
        jnp.searchsorted(rows.taken, jnp.arange(1, steps + 1, dtype=jnp.int32))
    ]
    counts = jnp.diff(iterations, prepend=0)
    end = end._replace(carry=_renewed(run, last))
    record = fixed_steps.record(run, end, samples, counts, save_every, origin)
    t = jnp.where(jnp.append(False, is_stop), jnp.append(record.t[:1], rows.t[places]), record.t)
    end_time = run.time(end.completed) + last.elapsed
    by_accelerations = record.result == Result.acceleration_not_finite
    end_time = jnp.where(by_accelerations, record.stats.end_time, end_time)
    there = jnp.arange(max_events, dtype=jnp.int32) < last.happened
    record = dataclasses.replace(
        record,
        t=t,
        stats=dataclasses.replace(record.stats, end_time=end_time),
        restart=dataclasses.replace(record.restart, steps=jnp.where(last.stopped, -1, end.taken)),
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
    system, t, u = run.system.recalling(loop.memory), run.time(loop.taken), run.input(loop.taken)

    def begun():
        return run.integrator.init(system, t, run.dt, loop.state, u)

    return jax.lax.cond(last.stale, begun, lambda: loop.carry)
