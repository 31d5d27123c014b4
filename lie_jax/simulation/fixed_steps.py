"""Saved runs with steps of one size: a scan over steps, in blocks that reverse mode recomputes."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from tqdm import tqdm

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import checkpointing, newton, programs, rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import fingerprints, limits, march
from lie_jax.simulation.march import Loop, Run, Sample
from lie_jax.simulation.trajectory import Restart, Result, Statistics, Trajectory
from lie_jax.system import AbstractSystem, State


class Schedule(NamedTuple):
    """Number of steps, steps from one saved instant to the next, and checkpoint blocks."""

    steps: int
    save_every: int
    blocks: Blocks


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
) -> Trajectory:
    """Trajectory of `schedule.steps` steps of size dt from time 0, or from the end of a run."""
    restarts = isinstance(start, Restart)
    first_step = start.steps if restarts else jnp.zeros((), jnp.int32)
    run = Run(system, integrator, dt, inputs, first_step)
    first = march.begin(run, start)
    shown = progress and not checks.traced(first, dt, inputs)
    steps, save_every, blocks = schedule
    piece = steps
    if shown:
        piece = max(1, -(-(steps // save_every) // _PROGRESS_UPDATES)) * save_every
    last, parts = first, []
    with tqdm(total=steps, unit="step", desc="simulate", disable=not shown) as bar:
        for done in range(0, steps, piece):
            size = min(piece, steps - done)
            last, *part = _scan(run, last, Schedule(size, save_every, blocks))
            parts.append(jax.block_until_ready(part) if shown else part)
            bar.update(size)
    samples, counts = parts[0]
    if len(parts) > 1:
        samples, counts = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
    previous_input = start.inputs if restarts else None
    origin = fingerprints.checksums(integrator=integrator, system=system)
    return _record(run, first, last, samples, counts, schedule, previous_input, origin)


@eqx.filter_jit
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
def _record(
    run: Run,
    first: Loop,
    last: Loop,
    samples: Sample,
    counts: Array,
    schedule: Schedule,
    previous_input: Array | None,
    origin: Array | np.ndarray,
) -> Trajectory:
    """Trajectory of a run from its first and last loop and the samples after the first.

    `previous_input` belongs to the step before the first, if there was one; `origin` are checksums.
    """
    if previous_input is None:
        previous_input = run.input(run.first_step)
    samples = jax.tree.map(
        lambda start, others: jnp.concatenate([start[None], others]),
        run.sample(first, previous_input),
        samples,
    )
    index = jnp.arange(schedule.steps // schedule.save_every + 1, dtype=jnp.int32)
    index = run.first_step + index * schedule.save_every
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
