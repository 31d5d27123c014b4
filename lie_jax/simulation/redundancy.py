"""Results of runs whose constraints depend on each other."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from lie_jax import checks, index1
from lie_jax.simulation.trajectory import Result, Trajectory
from lie_jax.system import AbstractSystem


def minimize_multipliers(
    system: AbstractSystem, redundant: Bool[Array, ""] | np.ndarray, trajectory: Trajectory
) -> Trajectory:
    """The trajectory with multipliers of minimum norm and a result that says so, if redundant."""
    if not checks.traced(redundant):
        return _changed(system, trajectory) if bool(redundant) else trajectory
    return jax.lax.cond(redundant, lambda run: _changed(system, run), lambda run: run, trajectory)


@eqx.filter_jit
def _changed(system: AbstractSystem, trajectory: Trajectory) -> Trajectory:
    # Instants that were not reached are NaN, and would be in derivatives of the others.
    reached = ~jnp.isnan(jnp.sum(trajectory.q, axis=1) + trajectory.t)[:, None]
    q = jnp.where(reached, trajectory.q, trajectory.q[:1])
    t = jnp.where(reached[:, 0], trajectory.t, 0.0)
    multipliers = jnp.where(reached, trajectory.multipliers, 0.0)
    smallest = jax.vmap(index1.smallest_multipliers, (None, 0, 0, 0))(system, t, q, multipliers)
    result = trajectory.result
    return dataclasses.replace(
        trajectory,
        multipliers=jnp.where(reached, smallest, jnp.nan),
        result=Result.where(result == Result.successful, Result.redundant, result),
    )
