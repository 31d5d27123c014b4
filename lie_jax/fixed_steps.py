"""Steps of one size: a scan over steps, in blocks that reverse mode recomputes."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array
from tqdm import tqdm

from lie_jax import adjoints, checks, derivatives, newton
from lie_jax.adjoints import Blocks
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.system import AbstractSystem, Accelerations, State
from lie_jax.trajectory import Restart, Result, Statistics, Trajectory


class Schedule(NamedTuple):
    """How many steps, every how many of them are saved, and what reverse mode recomputes."""

    steps: int
    save_every: int
    blocks: Blocks


class _Loop(NamedTuple):
    state: State
    carry: Any
    taken: Array
    completed: Array
    result: Result
    residuals: Array
    worst: Array


class _Sample(NamedTuple):
    state: State
    accelerations: Accelerations


def run(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: State | Restart,
    dt: Array,
    inputs: Array | None,
    schedule: Schedule,
    progress: bool,
) -> Trajectory:
    """The trajectory of `schedule.steps` steps of size dt from time 0, or from the end of a run."""
    first = begin(system, integrator, start, dt, inputs)
    if progress and not checks.traced(first, dt, inputs):
        return _run_with_progress(system, integrator, first, dt, inputs, schedule)
    loop, samples, counts = _run(system, integrator, first, dt, inputs, schedule, first.taken)
    return _trajectory(system, integrator, first, dt, inputs, schedule, loop, samples, counts)


@eqx.filter_jit
def begin(system, integrator, start, dt, inputs) -> _Loop:
    """Before the first step: with initial values of what the integrator keeps, or with those that
    another run has left.
    """
    if isinstance(start, Restart):
        state, carry, taken = start.state, start.carry, start.steps
    else:
        state, taken, t = start, jnp.zeros((), jnp.int32), jnp.zeros((), start.q.dtype)
        carry = integrator.init(system, t, dt, state, _input(inputs, 0))
    return _Loop(
        state=state,
        carry=carry,
        taken=taken,
        completed=taken,
        result=Result.successful,
        residuals=jnp.full(integrator.history, jnp.nan, state.q.dtype),
        worst=jnp.full((), -1, jnp.int32),
    )


def _input(inputs: Array | None, index) -> Array | None:
    return None if inputs is None else jax.lax.dynamic_index_in_dim(inputs, index, keepdims=False)


def _step(system, integrator, dt, inputs, begun, loop: _Loop) -> tuple[_Loop, Array]:
    t = loop.taken.astype(dt.dtype) * dt
    u = _input(inputs, loop.taken - begun)
    step = integrator.step(system, t, dt, loop.state, loop.carry, u)
    state, regular = step.state, system.regular(step.state.q)
    # The sum is finite only if every number is: one reduction instead of a test of each.
    finite = jnp.isfinite(jnp.sum(state.q) + jnp.sum(state.v))
    if regular is not True:
        state = jax.tree.map(lambda x: jnp.where(regular, x, jnp.nan), state)
    fine = step.converged & finite & regular
    reason = Result.where(finite, Result.singular, Result.non_finite)
    reason = Result.where(step.converged, reason, Result.newton_failed)
    first_failure = ~fine & (loop.completed == loop.taken)
    return (
        _Loop(
            state,
            step.carry,
            loop.taken + 1,
            loop.completed + fine.astype(jnp.int32),
            Result.where(first_failure, reason, loop.result),
            jnp.where(first_failure, jax.lax.stop_gradient(step.residuals), loop.residuals),
            jnp.where(first_failure, step.worst, loop.worst),
        ),
        step.newton_iterations,
    )


def _sample(system, integrator, dt, inputs, begun, loop: _Loop) -> _Sample:
    t = loop.taken.astype(dt.dtype) * dt
    u = _input(inputs, jnp.maximum(loop.taken - begun - 1, 0))
    return _Sample(loop.state, integrator.accelerations(system, t, loop.state, loop.carry, u))


@eqx.filter_jit
def _run(system, integrator, loop, dt, inputs, schedule, begun):
    """All saved instants after the first, and the Newton iterations of each step."""
    steps, save_every, blocks = schedule
    loop = loop._replace(state=derivatives.alike(loop.state, (system, dt, inputs)))
    step = jax.checkpoint(
        lambda loop: _step(system, integrator, dt, inputs, begun, loop),
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(newton.FOUND),
    )
    sample = jax.checkpoint(
        lambda loop: _sample(system, integrator, dt, inputs, begun, loop), prevent_cse=False
    )

    def until_sample(loop):
        loop, counts = adjoints.scan(step, loop, save_every, blocks)
        return loop, (sample(loop), counts)

    size = None if blocks.size is None else max(1, blocks.size // save_every)
    saves, rest = divmod(steps, save_every)
    of_saves = Blocks(size, blocks.side_by_side)
    loop, (samples, counts) = adjoints.scan(until_sample, loop, saves, of_saves)
    counts = counts.reshape(-1)
    if rest:
        loop, tail = adjoints.scan(step, loop, rest, blocks)
        counts = jnp.concatenate([counts, tail])
    return loop, samples, counts


# How many pieces a run with a progress bar is cut into.
_PROGRESS_UPDATES = 50


def _run_with_progress(system, integrator, first, dt, inputs, schedule) -> Trajectory:
    steps, save_every, blocks = schedule
    piece = max(1, -(-(steps // save_every) // _PROGRESS_UPDATES)) * save_every
    loop, parts = first, []
    with tqdm(total=steps, unit="step", desc="simulate") as bar:
        done = 0
        while done < steps:
            now = min(piece, steps - done)
            of_part = Schedule(now, save_every, blocks)
            part = _run(system, integrator, loop, dt, inputs, of_part, first.taken)
            loop = jax.block_until_ready(part[0])
            parts.append(part[1:])
            done += now
            bar.update(now)
    samples, counts = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
    return _trajectory(system, integrator, first, dt, inputs, schedule, loop, samples, counts)


@eqx.filter_jit
def _trajectory(
    system, integrator, first, dt, inputs, schedule, loop, samples, counts
) -> Trajectory:
    samples = jax.tree.map(
        lambda start, rest: jnp.concatenate([start[None], rest]),
        _sample(system, integrator, dt, inputs, first.taken, first),
        samples,
    )
    index = jnp.arange(schedule.steps // schedule.save_every + 1, dtype=jnp.int32)
    index = first.taken + index * schedule.save_every
    noted = jnp.sum(~jnp.isnan(loop.residuals))
    last = jnp.arange(loop.residuals.shape[0]) == noted - 1
    return Trajectory(
        t=index.astype(dt.dtype) * dt,
        q=samples.state.q,
        v=samples.state.v,
        acceleration=samples.accelerations.acceleration,
        multipliers=samples.accelerations.multipliers,
        stats=Statistics(
            newton_iterations=counts,
            completed_steps=loop.completed - first.taken,
            rejected_steps=jnp.zeros((), jnp.int32),
            end_time=loop.completed.astype(dt.dtype) * dt,
            residual=jnp.max(jnp.where(last, loop.residuals, 0.0)),
            residual_history=loop.residuals,
            worst_equation=loop.worst,
        ),
        result=loop.result,
        restart=Restart(loop.state, loop.carry, loop.taken, dt),
    )
