"""Steps of one size: a scan over steps, in blocks that reverse mode recomputes."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array
from tqdm import tqdm

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import checkpointing, newton, rules
from lie_jax.numerics.checkpointing import Blocks
from lie_jax.simulation import fingerprints, limits
from lie_jax.simulation.trajectory import Restart, Result, Statistics, Trajectory
from lie_jax.system import AbstractSystem, Accelerations, State


class Schedule(NamedTuple):
    """How many steps, every how many of them are saved, and what reverse mode recomputes."""

    steps: int
    save_every: int
    blocks: Blocks


# As many steps in a row beyond the limit of stability are no chance: a mode that they let grow by a
# tenth each has grown by a factor of seven.
PATIENCE = 20


class _Loop(NamedTuple):
    state: State
    carry: Any
    memory: Any
    taken: Array
    completed: Array
    result: Result
    residuals: Array
    worst: Array
    # The fourth power of the largest h |λ| next to the limit of stability, and how many last steps
    # were beyond it.
    stability: Array
    beyond: Array
    # Which joints the run has found turned over.
    over: Array


class _Sample(NamedTuple):
    state: State
    accelerations: Accelerations
    memory: Any


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
    run = _run_with_progress if progress and not checks.traced(first, dt, inputs) else _run
    loop, samples, counts = run(system, integrator, first, dt, inputs, schedule, first.taken)
    before = start.inputs if isinstance(start, Restart) else None
    origin = fingerprints.checksums(integrator=integrator, system=system)
    return _trajectory(
        system, integrator, first, before, dt, inputs, schedule, loop, samples, counts, origin
    )


@eqx.filter_jit
def begin(system, integrator, start, dt, inputs) -> _Loop:
    """Before the first step: with initial values of what the integrator keeps, or with those that
    another run has left.
    """
    if isinstance(start, Restart):
        state, carry, memory, taken = start.state, start.carry, start.memory, start.steps
    else:
        state, taken, t = start, jnp.zeros((), jnp.int32), jnp.zeros((), start.q.dtype)
        memory = rules.held(system.remember(t, state.q, state.v))
        carry = integrator.init(system.recalling(memory), t, dt, state, _input(inputs, 0))
    return _Loop(
        state=state,
        carry=carry,
        memory=memory,
        taken=taken,
        completed=taken,
        result=Result.successful,
        residuals=jnp.full(integrator.history, newton.NONE, state.q.dtype),
        worst=jnp.full((), -1, jnp.int32),
        stability=jnp.zeros((), state.q.dtype),
        beyond=jnp.zeros((), jnp.int32),
        over=limits.turned_over(system, taken.astype(dt.dtype) * dt, state.q),
    )


def _input(inputs: Array | None, index) -> Array | None:
    return None if inputs is None else jax.lax.dynamic_index_in_dim(inputs, index, keepdims=False)


def _step(system, integrator, dt, inputs, begun, loop: _Loop) -> tuple[_Loop, Array]:
    t = loop.taken.astype(dt.dtype) * dt
    u = _input(inputs, loop.taken - begun)
    system = system.recalling(loop.memory)
    step = integrator.step(system, t, dt, loop.state, loop.carry, u)
    left = limits.of_step(system, t + dt, dt, loop.state, step.state, loop.over)
    regular = system.regular(step.state.q)
    kept = left.inside & regular
    # Where nothing can be left, these are constants, which XLA folds.
    state = jax.tree.map(lambda x: jnp.where(kept, x, jnp.nan), step.state)
    # The sum is finite only if every number is: one reduction instead of a test of each.
    finite = jnp.isfinite(jnp.sum(step.state.q) + jnp.sum(step.state.v))
    stability, beyond = loop.stability, loop.beyond
    if step.stability is not None:
        stability = jnp.where(step.stability > stability, step.stability, stability)
        beyond = jnp.where(step.stability > 1.0, beyond + 1, 0)
    fine = step.converged & finite & kept & (beyond < PATIENCE)
    reason = Result.where(kept, Result.unstable, left.reason)
    reason = Result.where(jnp.asarray(regular), reason, Result.singular)
    reason = Result.where(finite, reason, Result.non_finite)
    reason = Result.where(step.converged, reason, Result.newton_failed)
    healthy = loop.completed == loop.taken
    first_failure = healthy & ~fine
    worst = jnp.where(step.converged & finite & ~kept, left.worst, step.worst)
    return (
        _Loop(
            state,
            step.carry,
            left.memory,
            loop.taken + 1,
            loop.completed + (healthy & fine).astype(jnp.int32),
            Result.where(first_failure, reason, loop.result),
            jnp.where(first_failure, jax.lax.stop_gradient(step.residuals), loop.residuals),
            jnp.where(first_failure, worst, loop.worst),
            stability,
            beyond,
            loop.over,
        ),
        step.newton_iterations,
    )


def _sample(system, integrator, dt, u, loop: _Loop) -> _Sample:
    """An instant, with the inputs u of the step that ended there."""
    t = loop.taken.astype(dt.dtype) * dt
    system = system.recalling(loop.memory)
    accelerations = integrator.accelerations(system, t, loop.state, loop.carry, u)
    return _Sample(loop.state, accelerations, loop.memory)


@eqx.filter_jit
def _run(system, integrator, loop, dt, inputs, schedule, begun):
    """All saved instants after the first, and the Newton iterations of each step."""
    steps, save_every, blocks = schedule
    loop = loop._replace(state=rules.alike(loop.state, (system, dt, inputs)))
    step = jax.checkpoint(
        lambda loop: _step(system, integrator, dt, inputs, begun, loop),
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(newton.FOUND),
    )

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def sample(loop):
        u = _input(inputs, loop.taken - begun - 1)
        return _sample(system, integrator, dt, u, loop)

    def until_sample(loop):
        loop, counts = checkpointing.scan(step, loop, save_every, blocks)
        return loop, (sample(loop), counts)

    size = None if blocks.size is None else max(1, blocks.size // save_every)
    saves, rest = divmod(steps, save_every)
    of_saves = Blocks(size, blocks.side_by_side)
    loop, (samples, counts) = checkpointing.scan(until_sample, loop, saves, of_saves)
    counts = counts.reshape(-1)
    if rest:
        loop, tail = checkpointing.scan(step, loop, rest, blocks)
        counts = jnp.concatenate([counts, tail])
    return loop, samples, counts


# How many pieces a run with a progress bar is cut into.
_PROGRESS_UPDATES = 50


def _run_with_progress(system, integrator, loop, dt, inputs, schedule, begun):
    """The same as `_run` in pieces, between which a bar is moved."""
    steps, save_every, blocks = schedule
    piece = max(1, -(-(steps // save_every) // _PROGRESS_UPDATES)) * save_every
    parts = []
    with tqdm(total=steps, unit="step", desc="simulate") as bar:
        done = 0
        while done < steps:
            now = min(piece, steps - done)
            of_part = Schedule(now, save_every, blocks)
            part = _run(system, integrator, loop, dt, inputs, of_part, begun)
            loop = jax.block_until_ready(part[0])
            parts.append(part[1:])
            done += now
            bar.update(now)
    return loop, *jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


@eqx.filter_jit
def _trajectory(
    system, integrator, first, before, dt, inputs, schedule, loop, samples, counts, origin
) -> Trajectory:
    # The inputs of the step before the first one, if it is known that there was one.
    before = _input(inputs, 0) if before is None else before
    samples = jax.tree.map(
        lambda start, rest: jnp.concatenate([start[None], rest]),
        _sample(system, integrator, dt, before, first),
        samples,
    )
    index = jnp.arange(schedule.steps // schedule.save_every + 1, dtype=jnp.int32)
    index = first.taken + index * schedule.save_every
    made = loop.residuals != newton.NONE
    last = jnp.arange(made.shape[0]) == jnp.sum(made) - 1
    history = jnp.where(made, loop.residuals, jnp.nan)
    acceleration, multipliers = samples.accelerations
    bad = limits.first_not_finite(acceleration, multipliers, index <= loop.completed)
    known = (bad < len(index)) & (loop.result == Result.successful)
    completed = jnp.where(known, index[jnp.minimum(bad, len(index) - 1)], loop.completed)
    return Trajectory(
        t=index.astype(dt.dtype) * dt,
        q=samples.state.q,
        v=samples.state.v,
        acceleration=acceleration,
        multipliers=multipliers,
        stats=Statistics(
            newton_iterations=counts,
            completed_steps=completed - first.taken,
            rejected_steps=jnp.zeros((), jnp.int32),
            end_time=completed.astype(dt.dtype) * dt,
            residual=jnp.max(jnp.where(last, loop.residuals, 0.0)),
            residual_history=jnp.where(loop.result == Result.successful, 0.0, history),
            worst_equation=loop.worst,
            stability=jax.lax.stop_gradient(loop.stability) ** 0.25,
        ),
        result=Result.where(known, Result.acceleration_not_finite, loop.result),
        restart=Restart(
            state=loop.state,
            carry=loop.carry,
            steps=loop.taken,
            dt=dt,
            memory=loop.memory,
            inputs=_input(inputs, schedule.steps - 1),
            origin=jnp.asarray(origin),
        ),
        memory=samples.memory,
    )
