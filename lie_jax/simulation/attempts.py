"""One step of a run with stops: it ends at a stop, at an event before it, or earlier.

Steps of one size have stops at the multiples of dt. Automatic steps have the times that a run must
hit, and sizes that an error estimate controls; a step that is not accurate enough is taken again.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.numerics import rules
from lie_jax.simulation import crossings, watching
from lie_jax.simulation.events import Event
from lie_jax.simulation.march import Loop, Run, Sample
from lie_jax.simulation.sizes import Sizes, Tried
from lie_jax.simulation.trajectory import Control, Result
from lie_jax.simulation.watching import End, Move, StepStart, Watch
from lie_jax.systems.system import AbstractSystem, Accelerations, State

# An event this close before a given time, in roundings of it, happens there.
_ROUNDINGS = 8.0


class Progress(NamedTuple):
    """Loop of the march, whose `taken` counts stops, and the time `elapsed` (s) since the last one.

    `control` of automatic sizes and `watch` of events, None without. `stale`: the carry belongs to
    a step of another size, or to the state before an action. `begun`: a policy holds its inputs
    over the steps to the next stop already. `attempts`, `accepted`, `saved`: numbers of steps that
    were tried and that count, and of instants that were saved before the run `finished`. `error` of
    the last step that was tried, in units of the tolerance.
    """

    loop: Loop
    elapsed: Float[Array, ""]
    control: Control | None
    watch: Watch | None
    stale: Bool[Array, ""]
    begun: Bool[Array, ""]
    attempts: Int[Array, ""]
    accepted: Int[Array, ""]
    saved: Int[Array, ""]
    error: Float[Array, ""]
    finished: Bool[Array, ""]
    stopped: Bool[Array, ""]

    @property
    def event_count(self) -> Array:
        """Number of events so far."""
        return jnp.zeros((), jnp.int32) if self.watch is None else self.watch.event_count


class Row(NamedTuple):
    """End of a step: its time (s), what is kept of it, numbers so far, and the state before an
    event.

    `steps`: steps of one size, or accepted ones; `iterations` of Newton's method; `saved` instants,
    `event_count` events, `event` the index of the one that happens here. `inputs`: those that a
    policy held, or None.
    """

    t: Float[Array, ""]
    kept: Any
    before: State
    steps: Int[Array, ""]
    iterations: Int[Array, ""]
    saved: Int[Array, ""]
    event_count: Int[Array, ""]
    event: Int[Array, ""]
    inputs: Array | None


class Known(NamedTuple):
    """Accepted step of automatic size: its size (s), whether it `lands` at a stop, whether an event
    of an index `happens` at its end and has `stopped` the run, and the size (s) that was `planned`.
    """

    size: Float[Array, ""]
    lands: Bool[Array, ""]
    happens: Bool[Array, ""]
    event: Int[Array, ""]
    stopped: Bool[Array, ""]
    planned: Float[Array, ""]


class Plan(NamedTuple):
    """Constants of a run with at most `max_events` events.

    Without `sizes`: `steps` of one size, of which every `every`-th is saved. With it: at most
    `steps` attempts; each stop of `run.times` is saved, or each `every`-th accepted step and the
    end if `free`. `rows`: number of saved instants after the first. Numbers are traced where
    one program serves many of them.
    """

    run: Run
    events: tuple[Event, ...]
    max_events: int
    steps: Any
    every: Any
    rows: Any
    sizes: Sizes | None = None
    free: bool = False

    @property
    def stops(self) -> Any:
        """Number of stops."""
        return self.steps if self.run.times is None else self.run.times.shape[0] - 1

    def step_start(
        self, system: AbstractSystem, t: Array, now: Progress, loop: Loop, planned: Array
    ) -> StepStart:
        """Start of a step; `system` recalls the memory of the forces there."""
        run, u = self.run, self.run.input(loop.taken, loop.held)
        start = t, planned, loop.state, u, loop.carry
        automatic = self.sizes is not None
        return StepStart(system, run.integrator, self.events, *start, now.stale, automatic)

    def begin(self, loop: Loop, control: Control | None) -> Progress:
        """Progress before the first step."""
        run, no, zero = self.run, jnp.zeros((), bool), jnp.zeros((), jnp.int32)
        result = loop.result
        if run.times is not None:
            # Times that JAX traces may lie in the wrong order.
            late = ~jnp.all(jnp.diff(run.times) > 0.0) & (result == Result.successful)
            loop = loop._replace(result=Result.where(late, Result.times_not_increasing, result))
        now = Progress(
            loop=loop,
            elapsed=jnp.zeros_like(run.dt),
            control=control,
            watch=None,
            stale=no,
            begun=no,
            attempts=zero,
            accepted=zero,
            saved=zero,
            error=jnp.ones_like(run.dt),
            finished=loop.result != Result.successful,
            stopped=no,
        )
        if not self.events:
            return now
        system, t = run.system.with_memory(loop.memory), run.time(loop.taken)
        planned = run.dt if control is None else control.planned
        return now._replace(watch=watching.begin(self.step_start(system, t, now, loop, planned)))

    def skip(self, now: Progress) -> tuple[Progress, Row]:
        """Nothing, after the end of the run."""
        loop = now.loop
        u = self.run.input(loop.taken, loop.held)
        kept = jax.eval_shape(self.run.keep, loop, u)
        unread = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), kept)
        row = Row(
            t=jnp.zeros_like(now.elapsed),
            kept=unread,
            before=jax.tree.map(jnp.zeros_like, loop.state),
            steps=self.count_steps(now),
            iterations=loop.iterations,
            saved=now.saved,
            event_count=now.event_count,
            event=now.event_count,
            inputs=None if loop.held is None else u,
        )
        return now, row

    def attempt(self, now: Progress, known: Known | None = None) -> tuple[Progress, Row, Known]:
        """Progress after one more step, accepted or not, and the row of its end.

        A `known` step has been accepted before; its derivatives are taken.
        """
        run, sizes, loop = self.run, self.sizes, now.loop
        if loop.held is not None:
            held = jax.lax.cond(now.begun, lambda: loop.held, lambda: run.hold_inputs(loop).held)
            loop = loop._replace(held=held)
        system, first = run.system.with_memory(loop.memory), run.time(loop.taken)
        t = first + now.elapsed
        width = run.dt if run.times is None else run.time(loop.taken + 1) - first
        remaining, planned = width - now.elapsed, run.dt
        size, lands = remaining, jnp.ones((), bool)
        if known is not None:
            planned, lands = known.planned, known.lands
            size = jnp.where(lands & ~known.happens, remaining, known.size)
        elif now.control is not None and sizes is not None:
            planned = now.control.planned
            size, lands = sizes.propose(planned, remaining)
        problem = self.step_start(system, t, now, loop, planned)
        move, error = self._move(problem, size, now, known)
        h = move.size
        after, end, valid = self._end(problem, move, error, now, loop, known)
        if self.sizes is None:
            lands = ~end.happens
        elif known is None and self.events:
            stop = first + width
            near = stop - (t + h) <= _ROUNDINGS * jnp.finfo(t.dtype).eps * jnp.abs(stop)
            lands = jnp.where(end.happens, near, lands)
        reached = end.fine & lands
        taken = loop.taken + reached.astype(jnp.int32)
        at_end = reached & (taken - run.first_step == self.stops)
        attempts = now.attempts + 1
        control, result = now.control, after.result
        ends = ~end.fine
        if control is not None and sizes is not None and known is None:
            tried = Tried(size, error, valid, end.fine, move)
            control, too_small = sizes.after(control, run.integrator, tried)
            exhausted = ~(at_end | end.stopped) & (attempts == self.steps)
            reason = Result.where(valid, Result.minimum_step, after.result)
            result = Result.where(exhausted, Result.step_bound, Result.successful)
            result = Result.where(too_small, reason, result)
            ends = too_small | exhausted
        result = Result.where(end.failed, end.reason, result)
        # A run that fails stays where it was, as does one that takes a step again.
        same = loop._replace(
            iterations=after.iterations, residuals=after.residuals, worst=after.worst
        )
        moved = after._replace(
            state=end.state, memory=end.memory, taken=taken, completed=taken, worst=loop.worst
        )
        following = jax.tree.map(lambda a, b: jnp.where(end.fine, a, b), moved, same)
        accepted = now.accepted + end.fine.astype(jnp.int32)
        saves = reached & ((taken - run.first_step) % self.every == 0)
        if self.free:
            saves = end.fine & ((accepted % self.every == 0) | at_end)
        watch = now.watch
        if watch is not None:
            watch = jax.tree.map(lambda a, b: jnp.where(end.fine, a, b), end.watch, watch)
        # In automatic steps the carry serves any size.
        stale = end.happens
        if self.sizes is None:
            stale = stale | (now.elapsed > 0.0)
        # Zero, with the derivatives of the instant of an event at a stop.
        late = jnp.where(end.happens, (t + h) - rules.stop_gradient(t + h), 0.0)
        elapsed = jnp.where(reached, late, now.elapsed + h)
        progress = Progress(
            loop=following._replace(result=result),
            elapsed=jnp.where(end.fine, elapsed, now.elapsed),
            control=control,
            watch=watch,
            stale=jnp.where(end.fine, stale, now.stale),
            begun=~reached,
            attempts=attempts,
            accepted=accepted,
            saved=now.saved + (saves & ~end.stopped).astype(jnp.int32),
            error=error,
            finished=ends | end.stopped | end.failed | at_end,
            stopped=end.stopped,
        )
        # A recording has the stop itself, derivatives are those of the event.
        at_stop = reached if known is None else reached & ~known.happens
        instant = jnp.where(at_stop, run.time(taken), t + h)
        row = self._row(progress, instant, after, end, move, problem.u, saves | end.stopped)
        taken_step = Known(h, lands, end.happens, move.event, end.stopped, planned)
        return progress, row, taken_step

    def _move(
        self, problem: StepStart, size: Array, now: Progress, known: Known | None
    ) -> tuple[Move, Array]:
        """Step, at most of a size (s), and the error of the whole in units of the tolerance."""
        none, sizes = jnp.zeros_like(size), self.sizes
        if not self.events:
            start = problem.system, problem.t, size, problem.state, problem.carry, problem.u
            step = problem.integrator.step(*start)
            error = none
            if sizes is not None and known is None:
                error = sizes.error(problem, step)
            no, empty = jnp.zeros((), bool), jnp.zeros(0, size.dtype)
            return Move(size, step, no, jnp.zeros((), jnp.int32), empty, empty), error
        if known is not None:
            return crossings.repeat(problem, size, known.happens, known.event), none
        assert now.watch is not None
        judge = None if sizes is None else sizes.error
        return crossings.move(problem, size, now.watch, judge)

    def _end(
        self,
        problem: StepStart,
        move: Move,
        error: Array,
        now: Progress,
        loop: Loop,
        known: Known | None,
    ) -> tuple[Loop, End, Array]:
        """Loop after a step and before an action, the end of the step, and whether limits hold."""
        system, t, h = problem.system, problem.t, move.size
        yes, no = jnp.ones((), bool), jnp.zeros((), bool)
        if known is not None:
            state = move.step.state
            memory = rules.stop_gradient(system.memory_after(t + h, state.q, state.v))
            after = loop._replace(state=state, carry=move.step.carry, memory=memory)
            there, none = problem.after(h, state, memory), jnp.zeros_like(h)
            if self.events:
                state, memory = jax.lax.cond(
                    known.happens,
                    lambda: there.act(known.event, none, state),
                    lambda: (state, memory),
                )
            happens = known.happens
            stopped, fine = known.stopped, Result.successful
            end = End(yes, happens, stopped, no, fine, state, memory, now.watch)
            return after, end, yes
        after, iterations = self.run.judge(loop, system, t, h, move.step)
        after = after._replace(iterations=loop.iterations + iterations)
        valid = after.completed == after.taken
        accepted = valid if self.sizes is None else valid & (error <= 1.0)
        if now.watch is not None:
            watch, most = now.watch, self.max_events
            end = watching.end(problem, move, watch, accepted, after.memory, most)
        else:
            state = move.step.state
            end = End(accepted, no, no, no, Result.successful, state, after.memory, now.watch)
        return after, end, valid

    def count_steps(self, now: Progress) -> Array:
        """Number of steps that count."""
        if self.sizes is not None:
            return now.accepted
        return now.loop.taken - self.run.first_step

    def _row(
        self,
        now: Progress,
        t: Array,
        after: Loop,
        end: End,
        move: Move,
        u: Array | None,
        saved: Array,
    ) -> Row:
        """Row of a step's end; what is kept of it is zero if it is not saved."""
        run, loop = self.run, now.loop

        def keep():
            if run.observe is not None:
                return run.values(t, end.state)
            accelerations = self.accelerations(t, end.state, end.memory, after.carry, u)
            return Sample(end.state, accelerations, end.memory, u)

        none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(keep))
        return Row(
            t=t,
            kept=jax.lax.cond(saved, keep, lambda: none),
            before=move.step.state,
            steps=self.count_steps(now),
            iterations=loop.iterations,
            saved=now.saved,
            event_count=now.event_count,
            event=move.event,
            inputs=None if loop.held is None else u,
        )

    def accelerations(
        self, t: Array, state: State, memory: Any, carry: Any, u: Array | None
    ) -> Accelerations:
        """Accelerations at the end of a step that left a carry."""
        # Steps of one size keep accelerations in their carry; an action leaves others.
        carry = carry if self.sizes is None else None
        run = self.run
        return run.integrator.accelerations(run.system.with_memory(memory), t, state, carry, u)
