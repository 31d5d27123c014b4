"""Saved runs with steps of one size.

Reverse mode needs a scan over a fixed number of steps, in blocks that it recomputes. A run that
nothing differentiates loops over a traced number of steps, piece by piece, in arrays with room for
more: one program serves all numbers of steps.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import (
    checkpointing,
    interrupts,
    jax_internals,
    newton,
    padding,
    pieces,
    programs,
    rules,
)
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.numerics.progress import progress_bar
from lie_jax.simulation import checks as preflight
from lie_jax.simulation import summary
from lie_jax.simulation.march import Beginning, Loop, Noted, Run, Sample
from lie_jax.simulation.policy import Feedback
from lie_jax.simulation.schedules import Schedule
from lie_jax.simulation.trajectory import (
    INSTANTS,
    Restart,
    Saved,
    Trajectory,
)
from lie_jax.systems import index1
from lie_jax.systems.system import AbstractSystem, State


class Room(NamedTuple):
    """Numbers of instants and of steps that the arrays of a piece of a run have room for."""

    instants: int
    steps: int


# Steps of a piece, unless saved instants are further from each other. To start a piece takes some
# 2 ms with its rows, a twentieth of the time of so many of the fastest steps.
MOST_STEPS = 2**17
# Number of pieces into which a run with a progress bar is cut.
_PROGRESS_UPDATES = 50


def trajectory(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: State | Restart,
    dt: Array,
    inputs: Array | None,
    schedule: Schedule,
    progress: bool,
    policy: Feedback | None,
    origin: np.ndarray,
    t0: Array,
    observe: Callable | None,
) -> tuple[Trajectory, Any]:
    """Trajectory of `schedule.steps` steps of size dt from the time t0, or from the end of a run.

    `origin`: checksums for a restart.

    Returns it with unused rows beyond the end, for `cut`, and whether constraints depend on each
    other, None if it is unknown. Raises `ValueError` for a start that violates constraints.
    """
    restarts = isinstance(start, Restart)
    # NumPy's number compiles nothing.
    first_step: Any = start.steps if restarts else np.zeros((), np.int32)
    previous_input = start.inputs if restarts else None
    if not jax_internals.traces_nothing():
        run = Run(system, integrator, dt, inputs, first_step, policy, t0, None, observe)
        if not restarts and not checks.has_tracers(system, start, t0):
            preflight.check_violations(system, start, t0)
        judged = not restarts and checks.has_tracers(system, start, t0)
        return _run_as_one_program(run, start, schedule, previous_input, origin, judged), None
    # Programs before and after the loop read one input: others would make them depend on steps.
    some: Any = None if inputs is None else np.asarray(inputs)
    given = None if some is None else some[:1]
    run = Run(system, integrator, dt, given, first_step, policy, t0, None, observe)
    begun, violations, redundant = _begin(run, start, previous_input)
    if not restarts:
        preflight.check_violations(system, start, t0, violations)
    last, rows, noted = _in_pieces(run._replace(inputs=inputs), begun, schedule, progress)
    # JAX takes an index beyond the end of an array for that of its last row.
    run = run._replace(inputs=None if some is None else some[-1:])
    every = np.asarray(schedule.every, np.int32)
    return record(run, last, begun.sample, rows, noted, every, origin), redundant


def cut(trajectory: Trajectory, schedule: Schedule) -> Trajectory:
    """The trajectory without the rows beyond its end, and with those alone that are picked."""
    noted = Noted(trajectory.stats.newton_iterations, trajectory.inputs)
    noted = padding.first_rows(noted, schedule.steps)
    stats = dataclasses.replace(trajectory.stats, newton_iterations=noted.iterations)
    trajectory = dataclasses.replace(trajectory, stats=stats, inputs=noted.inputs)

    def pick(rows):
        rows = padding.first_rows(rows, schedule.rows + 1)
        return rows if schedule.picked is None else padding.take_rows(rows, schedule.picked)

    if trajectory.saved is not None:
        return dataclasses.replace(trajectory, saved=pick(trajectory.saved))
    instants = {name: getattr(trajectory, name) for name in (*INSTANTS, "memory")}
    return dataclasses.replace(trajectory, **pick(instants))


def _in_pieces(
    run: Run, begun: Beginning, schedule: Schedule, progress: bool
) -> tuple[Loop, Any, Noted]:
    """`_run_steps` with unused rows beyond the end, for a schedule of Python's numbers."""
    steps, every, blocks, _ = schedule
    loop, start = begun.loop, begun.kept
    rows = -(-schedule.rows // _PROGRESS_UPDATES) if progress else schedule.rows
    room = room_of(loop.state, min(rows, MOST_STEPS), 2 * every)
    if room is not None:
        # Less than another row: steps after the last saved instant belong to the last piece.
        rows = min(rows, max(1, MOST_STEPS // every - 1))
    parts = []
    with (
        interrupts.watch() as check_interrupts,
        progress_bar("simulate", "step", steps, progress) as update,
    ):
        for row in range(0, schedule.rows, rows):
            done, is_last = row * every, row + rows >= schedule.rows
            part = Schedule(steps - done if is_last else rows * every, every, blocks)
            piece = _piece(run, done, part, room)
            loop, samples, noted = _run_steps(piece, loop, start, trace_numbers(part, room), room)
            if part.steps == steps:
                if progress:
                    jax.block_until_ready(samples)
                    update(steps)
                return loop, samples, noted
            # Views: each copy of so many rows would cost a fifth of the fastest steps.
            parts.append((_views(samples, part.rows + 1), _views(noted, part.steps)))
            update(part.steps)
            check_interrupts()
    rows = padding.roomy(schedule.rows + 2) if room else schedule.rows + 1
    samples, noted = zip(*parts, strict=True)
    # The first row of a piece is the last one of the piece before.
    joined = padding.concatenate(samples, rows, loop, shared=1)
    return loop, joined, padding.concatenate(noted, steps, loop)


def _views(rows: Any, size: int) -> Any:
    return jax.tree.map(lambda x: np.asarray(x)[:size], rows)


def room_of(state: State, rows: int, steps: int) -> Room | None:
    """Room for at least so many saved instants and steps, in sizes that serve many runs.

    None where shortening its arrays would copy them between devices. A piece has room for the
    instants of its whole run: the number of steps between them then changes no size.
    """
    devices = state.q.devices()
    if len(devices) > 1 or any(device.platform != "cpu" for device in devices):
        return None
    # A row for the first instant, one for steps after the last saved instant.
    return Room(padding.roomy(rows + 2), max(MOST_STEPS, padding.roomy(steps)))


def _piece(run: Run, done: int, part: Schedule, room: Room | None) -> Run:
    """Run with the inputs of a piece alone, in an array with room for more."""
    if run.inputs is None or room is None:
        return run
    some = np.asarray(run.inputs)[done : done + part.steps]
    first_step: Any = np.asarray(run.first_step) + np.int32(done)
    return run._replace(inputs=padding.pad(some, room.steps), first_step=first_step)


def trace_numbers(schedule: Schedule, room: Room | None) -> Schedule:
    """Schedule whose numbers are values of a program, if there is a room for them."""
    if room is None:
        return schedule
    steps, every = (np.asarray(x, np.int32) for x in schedule[:2])
    return Schedule(steps, every, Blocks(None, None))


@programs.run_once
def _begin(
    run: Run, start: State | Restart, previous_input: Array | None
) -> tuple[Beginning, Any, Any]:
    """Beginning of a run, violations of the start, dependence of constraints."""
    begun = first(run, start, previous_input)
    t, system, state = run.time(run.first_step), run.system, begun.loop.state
    violations = preflight.violations(system, state, t)
    return begun, violations, index1.has_dependent_rows(system, t, state.q)


def first(
    run: Run,
    start: State | Restart,
    previous_input: Array | None,
    judged: bool = False,
    passes: int = 0,
) -> Beginning:
    """Beginning of a run, before the first step or before so many `passes`.

    `previous_input` belongs to the step before the first, if there was one. `judged`: whether the
    loop fails if the start is none, which nobody has checked.
    """
    loop = run.begin(start, passes)
    u = run.input(run.first_step, loop.held) if previous_input is None else previous_input
    sample = run.sample(loop, u, first=True)
    kept = sample if run.observe is None else run.keep(loop, u)
    return Beginning(run.judge_start(loop) if judged else loop, sample, kept)


@eqx.filter_jit
def _run_as_one_program(run, start, schedule, previous_input, origin, judged) -> Trajectory:
    restarts = isinstance(start, Restart)
    # Values of a function do not hold the accelerations of the start, which passes find.
    before = restarts or run.observe is not None
    passes = schedule.rows_of(0 if before else run.integrator.passes(run.system))
    begun = first(run, start, previous_input, judged, passes * schedule.every)
    last, rows, noted = _run_steps(run, begun.loop, begun.kept, schedule, None, passes)
    return record(run, last, begun.sample, rows, noted, schedule.every, origin)


@programs.time_loop
def _run_steps(
    run: Run, first: Loop, start: Any, schedule: Schedule, room: Room | None, passes: int = 0
) -> tuple[Loop, Any, Noted]:
    """Last loop, what is kept of all instants, `start` first, and what is noted of each step, after
    rows of `passes`.
    """
    if room is not None:
        return _count(run, first, start, schedule, room)
    last, samples, noted = _scan(run, first, schedule, passes)
    if passes:
        accelerations = jax.tree.map(lambda x: x[passes - 1], samples.accelerations)
        start = start._replace(accelerations=accelerations)
        samples = jax.tree.map(lambda x: x[passes:], samples)
        noted = jax.tree.map(lambda x: x[passes * schedule.every :], noted)
    samples = jax.tree.map(lambda x, others: jnp.concatenate([x[None], others]), start, samples)
    return last, samples, noted


def _count(
    run: Run, loop: Loop, start: Any, schedule: Schedule, room: Room
) -> tuple[Loop, Any, Noted]:
    """`_run_steps` for traced numbers of steps and of steps from one kept instant to the next."""
    begin, end = loop.taken, loop.taken + schedule.steps

    def write(rows, row, number):
        return jax.tree.map(
            lambda rows, x: jax.lax.dynamic_update_index_in_dim(rows, x, number, 0), rows, row
        )

    def step(carry):
        loop, noted = carry
        after, row = pieces.cut_around(run.step)(loop)
        return after, write(noted, row, loop.taken - begin)

    def until_sample(carry):
        loop, rows, row, noted = carry
        now = loop, noted
        some = jnp.minimum(schedule.every, end - loop.taken)
        loop, noted = jax.lax.fori_loop(0, some, lambda _, now: step(now), now)
        kept = run.keep(loop, run.input(loop.taken - 1, loop.held))
        return loop, write(rows, kept, row), row + 1, noted

    def fill(row, size):
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), row)

    # Unused rows hold the start: whatever is computed of them is finite.
    none = Noted(jnp.zeros((), jnp.int32), None if loop.held is None else loop.held.u)
    rows, noted = fill(start, room.instants), fill(none, room.steps)
    carry = loop, rows, jnp.ones((), jnp.int32), noted
    loop, rows, _, noted = jax.lax.while_loop(
        lambda carry: carry[0].taken < end, until_sample, carry
    )
    return loop, rows, noted


def _scan(run: Run, loop: Loop, schedule: Schedule, passes: int = 0) -> tuple[Loop, Any, Noted]:
    """Last loop, rows of `passes` and all that are kept after the first, and what is noted."""
    steps, every, blocks, _ = schedule
    parameters = run.system, run.dt, run.inputs, run.policy, loop.held
    moved = rules.with_tangents_of((loop.state, loop.held, loop.carry), parameters)
    state, held, carry = moved
    loop = loop._replace(state=state, held=held, carry=carry)
    step = jax.checkpoint(
        pieces.cut_around(run.step),
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(newton.FOUND),
    )

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def sample(loop):
        return run.keep(loop, run.input(loop.taken - 1, loop.held))

    def until_sample(loop):
        loop, noted = checkpointing.scan(step, loop, every, blocks)
        return loop, (sample(loop), noted)

    size = None if blocks.size is None else max(1, blocks.size // every)
    saves, tail = divmod(steps, every)
    sample_blocks = Blocks(size, blocks.side_by_side)
    rows = saves + passes
    loop, (samples, noted) = checkpointing.scan(until_sample, loop, rows, sample_blocks)
    noted = jax.tree.map(lambda x: x.reshape(rows * every, *x.shape[2:]), noted)
    loop = loop._replace(carry=run.integrator.ready(loop.carry))
    if tail:
        loop, tail_noted = checkpointing.scan(step, loop, tail, blocks)
        noted = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), noted, tail_noted)
    return loop, samples, noted


def record(
    run: Run,
    last: Loop,
    sample: Sample,
    rows: Any,
    noted: Noted,
    every: Any,
    origin: Array | np.ndarray,
) -> Trajectory:
    """Trajectory of a run from its last loop, the sample of its start, and what was kept of
    instants; `origin` are checksums.
    """
    trajectory = _record(run, last, sample, rows, every, origin)
    stats = dataclasses.replace(trajectory.stats, newton_iterations=noted.iterations)
    return dataclasses.replace(trajectory, stats=stats, inputs=noted.inputs)


@programs.run_once
def _record(
    run: Run, last: Loop, sample: Sample, rows: Any, every: Any, origin: Array | np.ndarray
) -> Trajectory:
    """`record` without what is noted of each step, whose number would be part of the program."""
    steps = jnp.arange(jax.tree.leaves(rows)[0].shape[0], dtype=jnp.int32) * every
    t, saved = run.time(run.first_step + steps), None
    if run.observe is not None:
        saved = Saved(t, rows)
        end = run.sample(last, run.input(last.taken - 1, last.held))
        rows = summary.ends(sample, end)
        steps = jnp.stack([jnp.zeros((), jnp.int32), last.taken - run.first_step])
        t = run.time(run.first_step + steps)
    completed = last.completed - run.first_step
    instants = summary.Instants(t, steps, steps <= completed)
    completed = completed - summary.shortly_unstable(last).astype(jnp.int32)
    end_time = run.time(run.first_step + completed)
    trajectory = summary.trajectory(run, last, rows, instants, completed, end_time, origin)
    return dataclasses.replace(trajectory, saved=saved)
