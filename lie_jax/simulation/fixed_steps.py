"""Saved runs with steps of one size.

Reverse mode needs a scan over a fixed number of steps, in blocks that it recomputes. A run that
nothing differentiates loops over a traced number of steps, in arrays with room for more: one
program serves many lengths.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from tqdm import tqdm

from lie_jax import checks, index1
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import checkpointing, jax_internals, newton, padding, programs, rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import checks as preflight
from lie_jax.simulation import fingerprints, limits
from lie_jax.simulation.march import Loop, Run, Sample
from lie_jax.simulation.trajectory import INSTANTS, Restart, Result, Statistics, Trajectory
from lie_jax.system import AbstractSystem, State


class Schedule(NamedTuple):
    """Number of steps, steps from one saved instant to the next, and checkpoint blocks."""

    steps: Any
    save_every: Any
    blocks: Blocks

    @property
    def rows(self) -> Any:
        """Number of saved instants after the first."""
        return self.steps // self.save_every


class Room(NamedTuple):
    """Numbers of instants and of steps that the arrays of a run have room for, and whether each
    step is saved.
    """

    instants: int
    steps: int
    saves_each: bool


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
) -> tuple[Trajectory, Any]:
    """Trajectory of `schedule.steps` steps of size dt from time 0, or from the end of a run.

    Returns it with unused rows beyond the end, for `cut`, and whether constraints depend on each
    other, None if it is unknown. Raises `ValueError` for a start that violates constraints.
    """
    restarts = isinstance(start, Restart)
    # NumPy's number compiles nothing.
    first_step: Any = start.steps if restarts else np.zeros((), np.int32)
    previous_input = start.inputs if restarts else None
    origin = fingerprints.checksums(integrator=integrator, system=system)
    if not jax_internals.traces_nothing():
        run = Run(system, integrator, dt, inputs, first_step)
        if not restarts and not checks.traced(system, start):
            preflight.check_violations(system, start)
        return _compiled_as_one(run, start, schedule, previous_input, origin), None
    room = _room(start.state if restarts else start, schedule)
    if room and inputs is not None:
        inputs = padding.lengthened(inputs, room.steps)
    run = Run(system, integrator, dt, inputs, first_step)
    first, sample, violations, redundant = _begin(run, start, previous_input)
    if not restarts:
        preflight.check_violations(system, start, violations)
    if progress:
        last, samples, counts = _with_bar(run, first, sample, schedule)
    else:
        last, samples, counts = _saved(run, first, sample, _traced(schedule, room), room)
    every = np.asarray(schedule.save_every, np.int32)
    return record(run, last, samples, counts, every, origin), redundant


def cut(trajectory: Trajectory, schedule: Schedule) -> Trajectory:
    """The trajectory without the rows beyond its end."""
    instants = {name: getattr(trajectory, name) for name in (*INSTANTS, "memory")}
    counts = padding.shortened(trajectory.stats.newton_iterations, schedule.steps)
    stats = dataclasses.replace(trajectory.stats, newton_iterations=counts)
    instants = padding.shortened(instants, schedule.rows + 1)
    return dataclasses.replace(trajectory, stats=stats, **instants)


def _room(state: State, schedule: Schedule) -> Room | None:
    """Room of a run; None where shortening its arrays would copy them between devices."""
    devices = state.q.devices()
    if len(devices) > 1 or any(device.platform != "cpu" for device in devices):
        return None
    steps, save_every, _ = schedule
    # A row for the first instant, one for steps after the last saved instant.
    instants = padding.roomy(schedule.rows + 2)
    return Room(instants, padding.roomy(steps), save_every == 1)


def _traced(schedule: Schedule, room: Room | None) -> Schedule:
    if room is None:
        return schedule
    steps, save_every = (np.asarray(x, np.int32) for x in schedule[:2])
    return Schedule(steps, save_every, Blocks(None, None))


def _with_bar(
    run: Run, loop: Loop, sample: Sample, schedule: Schedule
) -> tuple[Loop, Sample, Array]:
    """`_saved` in pieces, with a progress bar and without rows beyond the end."""
    steps, save_every, blocks = schedule
    piece = max(1, -(-schedule.rows // _PROGRESS_UPDATES)) * save_every
    parts = []
    with tqdm(total=steps, unit="step", desc="simulate") as bar:
        for done in range(0, steps, piece):
            part = Schedule(min(piece, steps - done), save_every, blocks)
            room = _room(loop.state, part)
            loop, rows, counts = _saved(run, loop, sample, _traced(part, room), room)
            counts = padding.shortened(counts, part.steps)
            rows = padding.shortened(jax.block_until_ready(rows), part.rows + 1)
            if parts:
                # The first row is the last one of the piece before.
                rows = jax.tree.map(lambda x: x[1:], rows)
            parts.append((rows, counts))
            if not done:
                # The first piece waits for compilation, which would spoil the estimate.
                bar.unpause()
            bar.update(part.steps)
    return loop, *jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


@programs.run_once
def _begin(
    run: Run, start: State | Restart, previous_input: Array | None
) -> tuple[Loop, Sample, Any, Any]:
    """Loop and sample before the first step, violations of the start, dependence of constraints."""
    loop, sample = first(run, start, previous_input)
    t, system = run.time(run.first_step), run.system
    violations = preflight.violations(system, loop.state) if system.nc else None
    return loop, sample, violations, index1.has_dependent_rows(system, t, loop.state.q)


def first(run: Run, start: State | Restart, previous_input: Array | None) -> tuple[Loop, Sample]:
    """Loop and sample before the first step.

    `previous_input` belongs to the step before the first, if there was one.
    """
    loop = run.begin(start)
    u = run.input(run.first_step) if previous_input is None else previous_input
    return loop, run.sample(loop, u)


@eqx.filter_jit
def _compiled_as_one(run, start, schedule, previous_input, origin) -> Trajectory:
    saved = _saved(run, *first(run, start, previous_input), schedule, None)
    return record(run, *saved, schedule.save_every, origin)


@eqx.filter_jit
def _saved(
    run: Run, first: Loop, start: Sample, schedule: Schedule, room: Room | None
) -> tuple[Loop, Sample, Array]:
    """Last loop, all saved instants, and the Newton iterations of each step."""
    if room is not None:
        return _counted(run, first, start, schedule, room)
    last, samples, counts = _scan(run, first, schedule)
    samples = jax.tree.map(lambda x, others: jnp.concatenate([x[None], others]), start, samples)
    return last, samples, counts


def _counted(
    run: Run, loop: Loop, start: Sample, schedule: Schedule, room: Room
) -> tuple[Loop, Sample, Array]:
    """`_saved` for traced numbers of steps and of steps from one saved instant to the next."""
    begin, end = loop.taken, loop.taken + schedule.steps

    def written(rows, x, number):
        return jax.lax.dynamic_update_index_in_dim(rows, x, number, 0)

    def step(carry):
        loop, counts = carry
        after, iterations = run.step(loop)
        return after, written(counts, iterations, loop.taken - begin)

    def until_sample(carry):
        loop, rows, row, counts = carry
        now = loop, counts
        if room.saves_each:
            loop, counts = step(now)
        else:
            some = jnp.minimum(schedule.save_every, end - loop.taken)
            loop, counts = jax.lax.fori_loop(0, some, lambda _, now: step(now), now)
        sample = run.sample(loop, run.input(loop.taken - 1))
        rows = jax.tree.map(lambda rows, x: written(rows, x, row), rows, sample)
        return loop, rows, row + 1, counts

    # Unused rows hold the start: whatever is computed of them is finite.
    rows = jax.tree.map(lambda x: jnp.broadcast_to(x, (room.instants, *x.shape)), start)
    carry = loop, rows, jnp.ones((), jnp.int32), jnp.zeros(room.steps, jnp.int32)
    loop, rows, _, counts = jax.lax.while_loop(
        lambda carry: carry[0].taken < end, until_sample, carry
    )
    return loop, rows, counts


def _scan(run: Run, loop: Loop, schedule: Schedule) -> tuple[Loop, Sample, Array]:
    """Last loop, all saved instants after the first, and the Newton iterations of each step."""
    steps, save_every, blocks = schedule
    loop = loop._replace(state=rules.alike(loop.state, (run.system, run.dt, run.inputs)))
    step = jax.checkpoint(
        run.step,
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(newton.FOUND),
    )

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def sample(loop):
        return run.sample(loop, run.input(loop.taken - 1))

    def until_sample(loop):
        loop, counts = checkpointing.scan(step, loop, save_every, blocks)
        return loop, (sample(loop), counts)

    size = None if blocks.size is None else max(1, blocks.size // save_every)
    saves, tail = divmod(steps, save_every)
    sample_blocks = Blocks(size, blocks.side_by_side)
    loop, (samples, counts) = checkpointing.scan(until_sample, loop, saves, sample_blocks)
    counts = counts.reshape(-1)
    if tail:
        loop, tail_counts = checkpointing.scan(step, loop, tail, blocks)
        counts = jnp.concatenate([counts, tail_counts])
    return loop, samples, counts


@programs.run_once
def record(
    run: Run,
    last: Loop,
    samples: Sample,
    counts: Array,
    save_every: Any,
    origin: Array | np.ndarray,
) -> Trajectory:
    """Trajectory of a run from its last loop and its samples; `origin` are checksums."""
    index = jnp.arange(samples.state.q.shape[0], dtype=jnp.int32)
    index = run.first_step + index * save_every
    noted = last.residuals != newton.NONE
    is_last = jnp.arange(noted.shape[0]) == jnp.sum(noted) - 1
    history = jnp.where(noted, last.residuals, jnp.nan)
    result, bad = limits.outcome(last.result, samples.accelerations, index <= last.completed)
    completed = jnp.append(index, last.completed)[bad]
    return Trajectory(
        t=run.time(index),
        q=samples.state.q,
        v=samples.state.v,
        acceleration=samples.accelerations.acceleration,
        multipliers=samples.accelerations.multipliers,
        stats=Statistics(
            newton_iterations=counts,
            completed_steps=completed - run.first_step,
            rejected_steps=jnp.zeros((), jnp.int32),
            end_time=run.time(completed),
            residual=jnp.max(jnp.where(is_last, last.residuals, 0.0)),
            residual_history=jnp.where(last.result == Result.successful, 0.0, history),
            worst_equation=last.worst,
            stability=jax.lax.stop_gradient(last.stability) ** 0.25,
        ),
        result=result,
        restart=Restart(
            state=last.state,
            carry=last.carry,
            steps=last.taken,
            dt=run.dt,
            memory=last.memory,
            inputs=run.input(last.taken - 1),
            origin=jnp.asarray(origin),
        ),
        memory=samples.memory,
    )
