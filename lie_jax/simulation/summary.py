"""Trajectory of a run from its last loop and what was kept of its instants."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.numerics import newton
from lie_jax.simulation import limits
from lie_jax.simulation.march import Loop, Run, Sample
from lie_jax.simulation.trajectory import Restart, Result, Statistics, Trajectory


class Instants(NamedTuple):
    """Times of saved instants (s), numbers of steps up to them, and whether they were reached."""

    t: Array
    steps: Array
    reached: Array


def shortly_unstable(last: Loop) -> Array:
    """Whether a run that reached its end is too short to have failed by a mode that grows."""
    return last.growth.shortly_unstable() & (last.result == Result.successful)


def trajectory(
    run: Run,
    last: Loop,
    samples: Sample,
    instants: Instants,
    completed: Array,
    end_time: Array,
    origin: Array | np.ndarray,
) -> Trajectory:
    """Trajectory of a run from its last loop, its number of steps and the time of its end (s)."""
    found = last.residuals != newton.NONE
    is_last = jnp.arange(found.shape[0]) == jnp.sum(found) - 1
    history = jnp.where(found, last.residuals, jnp.nan)
    ended = Result.where(shortly_unstable(last), Result.unstable, last.result)
    result, bad = limits.outcome(ended, samples.accelerations, instants.reached)
    return Trajectory(
        t=instants.t,
        q=samples.state.q,
        v=samples.state.v,
        acceleration=samples.accelerations.acceleration,
        multipliers=samples.accelerations.multipliers,
        stats=Statistics(
            newton_iterations=last.iterations,
            completed_steps=jnp.append(instants.steps, completed)[bad],
            rejected_steps=jnp.zeros((), jnp.int32),
            end_time=jnp.append(instants.t, end_time)[bad],
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
            t0=jnp.asarray(run.t0, run.dt.dtype),
            memory=last.memory,
            inputs=run.input(last.taken - 1, last.held),
            origin=jnp.asarray(origin),
            policy=() if last.held is None else last.held.state,
            growth=last.growth,
        ),
        memory=samples.memory,
        u=samples.u,
    )


def ends(first: Sample, last: Sample) -> Sample:
    """Rows of the start and the end of a run."""
    return jax.tree.map(lambda x, y: jnp.stack([x, y]), first, last)
