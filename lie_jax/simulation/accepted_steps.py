"""The accepted steps of a run with automatic sizes, once more: what derivatives go through."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import checkpointing, rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import crossings
from lie_jax.simulation.events import Event
from lie_jax.simulation.trajectory import Events
from lie_jax.simulation.watching import Problem
from lie_jax.systems.system import AbstractSystem, State

# Ends of accepted steps: at an instant of the method's choice, at a given time, or at an event,
# whose index counts from here.
FREE, LANDS, EVENT = 0, 1, 2


class Taken(NamedTuple):
    """Accepted steps: start (s), size (s), zero for steps that were not taken, the kind of their
    end, and the size (s) that was planned for the next one.
    """

    t: Array
    dt: Array
    kind: Array
    planned: Array


class Row(NamedTuple):
    """Saved instant: time (s), state, number of the accepted step before, memory of the forces."""

    t: Array
    state: State
    step: Array
    memory: Any


class Happened(NamedTuple):
    """Event: time (s), index, state before the action, number of the accepted step before."""

    t: Array
    event: Array
    state: State
    step: Array

    def events(self, count: Int[Array, ""]) -> Events:
        """All of them but the last row, of which `count` have happened."""
        t, index, (q, v) = self.t[:-1], self.event[:-1], (self.state.q[:-1], self.state.v[:-1])
        there = jnp.arange(len(t), dtype=jnp.int32) < count
        return Events(t=t, index=jnp.where(there, index, -1), q=q, v=v)


class Record(NamedTuple):
    """Record of a run: its first instant (s), the size (s) that the first step was to have, and
    rows of the accepted steps, the saved instants, and events, None in a run without any.
    """

    t0: Float[Array, ""]
    first: Float[Array, ""]
    taken: Taken
    rows: Row
    happened: Happened | None

    def written(self, taken: Taken, step: Array, row: Row, number: Array) -> "Record":
        """Record with a step and a saved instant at the given places."""
        taken, rows = _written(self.taken, taken, step), _written(self.rows, row, number)
        return self._replace(taken=taken, rows=rows)

    def happening(self, event: Happened, number: Array) -> "Record":
        """Record with an event at the given place."""
        return self._replace(happened=_written(self.happened, event, number))

    def moving(self) -> tuple:
        """Times and states of the saved instants and of the events, which have derivatives."""
        rows, events = self.rows, self.happened
        return (rows.t, rows.state), events and (events.t, events.state)


def begin(
    t0: Float[Array, ""],
    first: Float[Array, ""],
    state: State,
    memory: Any,
    steps: int,
    rows: int,
    events: int | None,
) -> Record:
    """Record at the start of a run, with room for steps, instants, and events if there are any.

    Rows that stay unused hold a configuration, so that their accelerations are finite. Events have
    one row more, for what is written and does not count.
    """
    none, zero = jnp.zeros_like(first), jnp.zeros((), jnp.int32)
    happened = None
    if events is not None:
        happened = _filled(Happened(none, zero - 1, state, zero), events + 1)
    return Record(
        t0=t0,
        first=first,
        taken=_filled(Taken(none, none, zero, none), steps),
        rows=_filled(Row(none, state, zero, memory), rows),
        happened=happened,
    )


def _filled(row: Any, rows: int) -> Any:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (rows, *x.shape)), row)


def _written(rows: Any, row: Any, number: Array) -> Any:
    return jax.tree.map(
        lambda rows, x: jax.lax.dynamic_update_index_in_dim(rows, x, number, 0), rows, row
    )


class _After(NamedTuple):
    """After each step: state, how late its instant is (s), and the state before an event."""

    state: State
    late: Array
    end: State | None


class Motion(NamedTuple):
    """A system, a method for it, and its events, in a run with automatic steps."""

    system: AbstractSystem
    integrator: AbstractIntegrator
    events: tuple[Event, ...]

    def problem(
        self, system: AbstractSystem, t: Array, planned: Array, state: State, carry: Any
    ) -> Problem:
        """Start of a step; `system` recalls the memory of the forces there."""
        return Problem(
            system, self.integrator, self.events, t, planned, state, None, carry, adaptive=True
        )

    def carried(self, happens: Array, start: Problem, planned: Array, carry: Any) -> Any:
        """Carry after a step; after an event that of a first step from the new start."""
        if not jax.tree.leaves(carry):
            return carry

        def begun():
            return self.integrator.init(start.system, start.t, planned, start.state, None)

        return jax.lax.cond(happens, begun, lambda: carry)

    def _replayed(
        self, state: State, taken: Taken, t0: Array, first: Float[Array, ""], blocks: Blocks
    ) -> _After:
        """The accepted steps again, each with its row.

        Their starts and sizes are known. `late` is by how much the instant of the last event and
        all that is counted from it are late: zero, with the derivatives of these instants.
        """
        system, integrator = self.system, self.integrator

        def move(now, row):
            state, carry, memory, late = now
            start = self.problem(system.recalling(memory), row.t + late, row.planned, state, carry)
            if not self.events:
                step = integrator.step(start.system, start.t, row.dt, state, carry, None)
                end = step.state
                memory = rules.held(start.system.remember(row.t + row.dt, end.q, end.v))
                return (end, step.carry, memory, late), end
            happens, lands = row.kind >= EVENT, row.kind == LANDS
            h = jnp.where(lands, row.dt - late, row.dt)
            index = jnp.maximum(row.kind - EVENT, 0)
            done = crossings.repeated(start, h, happens, index)
            h, end = done.size, done.step.state
            memory = rules.held(start.system.remember(start.t + h, end.q, end.v))
            there = start.after(h, end, memory)
            none = jnp.zeros_like(h)
            after, memory = jax.lax.cond(
                happens, lambda: there.acted(index, none, end), lambda: (end, memory)
            )
            carry = self.carried(
                happens, there.after(none, after, memory), row.planned, done.step.carry
            )
            late = jnp.where(lands, 0.0, late + h - rules.held(h))
            return (after, carry, memory, late), end

        def step(carry):
            now, number = carry
            row = jax.tree.map(lambda x: x[number], taken)
            now, end = jax.lax.cond(row.dt > 0.0, move, lambda now, _: (now, now[0]), now, row)
            return (now, number + 1), _After(now[0], now[3], end if self.events else None)

        recomputed = jax.checkpoint(step, prevent_cse=False)
        state = rules.alike(state, system)
        none = jnp.zeros_like(first)
        memory = rules.held(system.remember(t0, state.q, state.v))
        carry = integrator.init(system.recalling(memory), t0, first, state, None)
        start = (state, carry, memory, none), jnp.zeros((), jnp.int32)
        return checkpointing.scan(recomputed, start, len(taken.t), blocks)[1]

    def differentiated(self, state: State, record: Record, blocks: Blocks) -> Record:
        """Record of a run from a state, with the derivatives of the accepted steps."""
        values = rules.value_as(record.moving(), partial(_moved, blocks), (self, state, record))
        (t, states), of_events = values
        rows, events = record.rows._replace(t=t, state=states), record.happened
        if events is not None:
            events = events._replace(t=of_events[0], state=of_events[1])
        return record._replace(rows=rows, happened=events)


def _moved(blocks: Blocks, parameters: tuple[Motion, State, Record]) -> tuple:
    """`Record.moving` of the accepted steps, taken again."""
    motion, state, record = parameters
    after = motion._replayed(state, record.taken, record.t0, record.first, blocks)
    rows, events = record.rows, record.happened

    def at(tree, steps):
        return jax.tree.map(lambda x: x[steps], tree)

    moved = rows.t + after.late[rows.step], at(after.state, rows.step)
    if events is None:
        return moved, None
    return moved, (events.t + after.late[events.step], at(after.end, events.step))
