"""Record of a run's events between its steps, and the actions at the end of a step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.numerics import rules
from lie_jax.simulation import events as events_of_runs
from lie_jax.simulation.events import Event
from lie_jax.simulation.trajectory import Result
from lie_jax.systems.system import AbstractSystem, State

# Event functions near zero right after an event are rounding, until this part of dt has passed.
SETTLED = 1e-6


class StepStart(NamedTuple):
    """Start of a step at the time t (s) in a run with events and steps of size dt (s).

    `system` recalls the memory of the forces at that time. `carry` of the integrator; `stale`: it
    belongs to a step of another size, or to the state before an action. In a run with automatic
    steps (`adaptive`) dt is the planned size, and the carry serves steps of any size.
    """

    system: AbstractSystem
    integrator: AbstractIntegrator
    events: tuple[Event, ...]
    t: Float[Array, ""]
    dt: Float[Array, ""]
    state: State
    u: Array | None
    carry: Any
    stale: Bool[Array, ""]
    adaptive: bool

    def values(self, h: Array, state: State) -> Float[Array, " events"]:
        """Functions of all events after a time h (s)."""
        return events_of_runs.values(self.events, self.t + h, state)

    def step(self, h: Array, anew: Array, branch: bool = True) -> Step:
        """Step of size h, anything from zero to dt; with a new carry if it starts `anew`.

        Without `branch` the new carry is computed in any case.
        """
        start, carry = (self.system, self.t), self.carry
        shortest = self.integrator.shortest
        short = h < shortest * self.dt
        # A step that is not taken is computed in batches: with a size that the method resolves.
        resolved = jnp.where(short, self.dt, h) if shortest else h
        if jax.tree.leaves(carry):

            def fresh_carry():
                return self.integrator.init(*start, resolved, self.state, self.u)

            fresh = self.stale if self.adaptive else anew | self.stale
            if branch:
                carry = jax.lax.cond(fresh, fresh_carry, lambda: self.carry)
            else:
                carry = jax.tree.map(lambda a, b: jnp.where(fresh, a, b), fresh_carry(), carry)
        step = self.integrator.step(*start, resolved, self.state, carry, self.u)
        step = self.in_loops(step)
        if not shortest:
            return step

        # A new carry holds the acceleration at the start.
        v = self.state.v
        change = h * self.integrator.accelerations(*start, self.state, carry, self.u).acceleration
        taylor = State(self.system.space.flow(self.state.q, h * (v + 0.5 * change)), v + change)
        state = jax.tree.map(lambda a, b: jnp.where(short, a, b), taylor, step.state)
        return step._replace(state=state, converged=short | step.converged)

    def in_loops(self, step: Step) -> Step:
        """A step with its numbers of Python, which mark constants, as arrays; without an estimate
        of its error where nothing reads that.
        """
        dtypes = {int: jnp.int32, float: self.t.dtype}
        step = step if self.adaptive else step._replace(error=None)
        return jax.tree.map(lambda x: jnp.asarray(x, dtypes.get(type(x))), step)

    def after(self, h: Array, state: State, memory: Any) -> "StepStart":
        """Start of a step from a state after a time h (s)."""
        system = self.system.with_memory(memory)
        return self._replace(system=system, t=self.t + h, state=state)

    def act(self, index: Int[Array, ""], h: Array, state: State) -> tuple[State, Any]:
        """State, and memory of the forces, after the action of the event with an index."""
        t = self.t + h
        state = events_of_runs.apply_action(self.events, index, t, state)
        return state, rules.stop_gradient(self.system.memory_after(t, state.q, state.v))


def sides(problem: StepStart) -> Float[Array, " events"]:
    """Sign of each function at the start of the step, where it is zero that of its rate."""
    problem = rules.stop_gradient(problem)
    values = problem.values(jnp.zeros_like(problem.t), problem.state)
    return jnp.sign(jnp.where(values == 0.0, _rates(problem), values))


def sides_after(
    problem: StepStart, index: Int[Array, ""], before: Float[Array, " events"], scale: Array
) -> Float[Array, " events"]:
    """Sides of the functions after the action of an event, at the start of the next step.

    The event's own function is still at zero, relative to its `scale` in a step (events,), or the
    action has moved it. A function at zero goes to the side of its rate; one without a rate stays
    on its side `before`, so that a crossing that nothing has turned back is met again. Functions of
    other events have not crossed.
    """
    problem = rules.stop_gradient(problem)
    values, rates = problem.values(jnp.zeros_like(problem.t), problem.state), _rates(problem)
    scale = jnp.maximum(scale, problem.dt * jnp.abs(rates))
    zero = jnp.abs(values) <= jnp.finfo(values.dtype).eps ** 0.5 * scale
    side = jnp.sign(jnp.where(zero, rates, values))
    side = jnp.where(side == 0.0, before, side)
    return jnp.where(jnp.arange(len(before), dtype=jnp.int32) == index, side, before)


def _rates(problem: StepStart) -> Float[Array, " events"]:
    system, t, (q, v) = problem.system, problem.t, (problem.state.q, problem.state.v)
    tangents = jnp.ones_like(t), system.space.lift(q, v), system.acceleration(t, q, v, problem.u)

    def values(t, q, v):
        return events_of_runs.values(problem.events, t, State(q, v))

    return jax.jvp(values, (t, q, v), tangents)[1]


class Move(NamedTuple):
    """Step that was taken: its size (s), whether an event happens at its end, the event's index.

    Of the functions (events,), the sides at the end and the largest absolute values in the step
    that was tried first. The step's `newton_iterations` are those of all steps that were tried.
    """

    size: Float[Array, ""]
    step: Step
    happens: Bool[Array, ""]
    event: Int[Array, ""]
    sides: Float[Array, " events"]
    scale: Float[Array, " events"]


class Watch(NamedTuple):
    """Record of the events between two steps.

    `sides` (events,) of their functions, 0 where unknown; `departing` (events,): those that have
    just happened; `latest`: index of the last one of them or -1; `event_count`: number of
    events so far.
    """

    sides: Float[Array, " events"]
    departing: Bool[Array, " events"]
    latest: Int[Array, ""]
    event_count: Int[Array, ""]


def begin(problem: StepStart) -> Watch:
    """Watch at the start of a run."""
    return Watch(
        sides=sides(problem),
        departing=jnp.zeros(len(problem.events), bool),
        latest=jnp.full((), -1, jnp.int32),
        event_count=jnp.zeros((), jnp.int32),
    )


class End(NamedTuple):
    """End of a step in a run with events.

    `fine`: the step counts; an event then `happens` at its end, or not. `state` and `memory` of the
    forces are those from which the run goes on, unless an event `stopped` it or it failed for a
    `reason`.
    """

    fine: Bool[Array, ""]
    happens: Bool[Array, ""]
    stopped: Bool[Array, ""]
    failed: Bool[Array, ""]
    reason: Result
    state: State
    memory: Any
    watch: Watch | None


def end(
    problem: StepStart,
    move: Move,
    watch: Watch,
    valid: Bool[Array, ""],
    memory: Any,
    max_events: int,
) -> End:
    """End of a step that leads from its start to a state with a memory of the forces.

    A step that is not `valid` has no events.
    """
    h, state = move.size, move.step.state
    finite = jnp.all(jnp.isfinite(rules.stop_gradient(problem.values(h, state))))
    # A sequence of ever shorter flights ends when a flight falls below rounding.
    resolved = h > jnp.finfo(h.dtype).eps ** 0.5 * problem.dt
    hidden = (move.event == watch.latest) & ~resolved
    many = finite & move.happens & (hidden | (watch.event_count == max_events))
    fine = valid & finite & ~many
    happens = fine & move.happens
    there = problem.after(h, state, memory)

    def act():
        none = jnp.zeros_like(h)
        after, memory = there.act(move.event, none, state)
        from_here = there.after(none, after, memory)
        turned = sides_after(from_here, move.event, watch.sides, move.scale)
        number = jnp.all(jnp.isfinite(rules.stop_gradient(jnp.concatenate([after.q, after.v]))))
        consistent = _keeps_constraints(from_here.system, there.t, state, after)
        return after, memory, turned, number, consistent

    yes = jnp.ones((), bool)
    after, memory, turned, number, consistent = jax.lax.cond(
        happens, act, lambda: (state, memory, move.sides, yes, yes)
    )
    this = jnp.arange(len(problem.events), dtype=jnp.int32) == move.event
    stops = jnp.asarray([event.stops for event in problem.events])
    departing = watch.departing & (h <= SETTLED * problem.dt) | (happens & this)
    latest = jnp.where(jnp.any(departing), watch.latest, -1)
    reason = Result.where(finite, Result.too_many_events, Result.event_not_finite)
    of_action = Result.where(number, Result.action_off_constraints, Result.non_finite)
    sound = number & consistent
    return End(
        fine=fine,
        happens=happens,
        stopped=happens & jnp.any(this & stops),
        failed=valid & ~fine | ~sound,
        reason=Result.where(sound, reason, of_action),
        state=after,
        memory=memory,
        watch=Watch(
            sides=turned,
            departing=departing,
            latest=jnp.where(happens, move.event, latest),
            event_count=watch.event_count + happens.astype(jnp.int32),
        ),
    )


def _keeps_constraints(system: AbstractSystem, t: Array, before: State, after: State) -> Array:
    """Whether an action left the constraints of positions and velocities as it met them.

    Methods of index 3 satisfy those of velocities up to their own error.
    """
    if not system.nc:
        return jnp.ones((), bool)
    system, t, before, after = rules.stop_gradient((system, t, before, after))

    def violations(state):
        both = system.constraint(t, state.q), system.constraint_rate(t, state.q, state.v)
        return jnp.stack([jnp.max(jnp.abs(x), initial=0.0) for x in both])

    met, left = violations(before), violations(after)
    scale = 1.0 + jnp.max(jnp.abs(after.q)) + jnp.max(jnp.abs(after.v))
    return jnp.all(left <= jnp.finfo(scale.dtype).eps ** 0.5 * scale + 2.0 * met)
