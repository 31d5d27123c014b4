"""Constraints that depend on each other: whether there are any, and their smallest multipliers."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax import checks, linear
from lie_jax.system import AbstractSystem
from lie_jax.trajectory import Result, Trajectory


def redundant(
    system: AbstractSystem, t: Float[Array, ""], q: Float[Array, " nq"]
) -> Bool[Array, ""]:
    """Whether the rows of the constraint Jacobian depend on each other at q."""
    if not system.nc:
        return jnp.zeros((), bool)
    b = jax.lax.stop_gradient(system.constraint_jacobian(t, jax.lax.stop_gradient(q)))
    # Rows of one length: the rank must not depend on the units of constraints.
    length = jnp.sqrt(jnp.sum(b * b, axis=1, keepdims=True))
    rows = b / jnp.where(length > 0.0, length, 1.0)
    if system.nc > system.nv:
        return jnp.ones((), bool)
    return jnp.linalg.svd(rows, compute_uv=False)[-1] < jnp.finfo(q.dtype).eps ** 0.5


# Each corrects what the regularisation of the one before has changed.
_ITERATIONS = 3


def smallest_multipliers(
    system: AbstractSystem,
    t: Float[Array, ""],
    q: Float[Array, " nq"],
    multipliers: Float[Array, " nc"],
) -> Float[Array, " nc"]:
    """Multipliers λ of minimum 2-norm among those with the same reactions Bᵀλ."""
    b = system.constraint_jacobian(t, q)
    square = b @ b.T
    epsilon = jnp.finfo(q.dtype).eps ** 0.375 * jnp.max(jnp.abs(jnp.diagonal(square)))
    matrix = square + epsilon * jnp.eye(system.nc, dtype=q.dtype)
    wanted = square @ multipliers
    found = jnp.zeros_like(multipliers)
    for _ in range(_ITERATIONS):
        found = found + linear.solve(matrix, wanted - square @ found)
    return found


def with_smallest_multipliers(
    system: AbstractSystem, redundant: Bool[Array, ""], trajectory: Trajectory
) -> Trajectory:
    """The trajectory with multipliers of minimum norm and a result that says so, if redundant."""
    if not checks.traced(redundant):
        return _changed(system, trajectory) if bool(redundant) else trajectory
    return jax.lax.cond(redundant, _changed, lambda _, same: same, system, trajectory)


@eqx.filter_jit
def _changed(system: AbstractSystem, trajectory: Trajectory) -> Trajectory:
    def smallest(t, q, multipliers):
        # Instants that were not reached are NaN.
        return smallest_multipliers(system, jnp.nan_to_num(t), q, multipliers)

    result = trajectory.result
    return eqx.tree_at(
        lambda trajectory: (trajectory.multipliers, trajectory.result),
        trajectory,
        (
            jax.vmap(smallest)(trajectory.t, trajectory.q, trajectory.multipliers),
            Result.where(result == Result.successful, Result.redundant, result),
        ),
    )
