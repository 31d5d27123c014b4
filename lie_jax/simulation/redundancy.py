"""Results of runs whose constraints depend on each other."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from lie_jax import checks
from lie_jax.simulation.trajectory import Result, Trajectory
from lie_jax.systems import index1
from lie_jax.systems.system import AbstractSystem


def minimize_multipliers(
    system: AbstractSystem, redundant: Bool[Array, ""] | np.ndarray, trajectory: Trajectory
) -> Trajectory:
    """The trajectory with multipliers of minimum norm and a result that says so, if redundant."""
    multipliers, result = trajectory.multipliers, trajectory.result

    def smallest():
        return _smallest(system, trajectory.t, trajectory.q, multipliers)

    if checks.has_tracers(redundant):
        # XLA removes this branch from programs that do not read the multipliers.
        multipliers = jax.lax.cond(redundant, smallest, lambda: multipliers)
    elif bool(redundant):
        # Nothing waits for this program but who reads the multipliers.
        multipliers = smallest()
    else:
        return trajectory
    renamed = Result.where(redundant & (result == Result.successful), Result.redundant, result)
    return dataclasses.replace(trajectory, multipliers=multipliers, result=renamed)


@eqx.filter_jit
def _smallest(system: AbstractSystem, t: Array, q: Array, multipliers: Array) -> Array:
    # Instants that were not reached are NaN, and would be in derivatives of the others.
    reached = ~jnp.isnan(jnp.sum(q, axis=1) + t)
    rows = reached[:, None]
    smallest = jax.vmap(index1.smallest_multipliers, (None, 0, 0, 0))(
        system,
        jnp.where(reached, t, 0.0),
        jnp.where(rows, q, q[:1]),
        jnp.where(rows, multipliers, 0.0),
    )
    return jnp.where(rows, smallest, jnp.nan)
