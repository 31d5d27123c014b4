"""Constraints that depend on each other: whether there are any, and their smallest multipliers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax import checks
from lie_jax.numerics import rules
from lie_jax.simulation.trajectory import Result, Trajectory
from lie_jax.system import AbstractSystem


def redundant(
    system: AbstractSystem, t: Float[Array, ""], q: Float[Array, " nq"]
) -> Bool[Array, ""]:
    """Whether the rows of the constraint Jacobian depend on each other at q."""
    if not system.nc:
        return jnp.zeros((), bool)
    if system.nc > system.nv:
        return jnp.ones((), bool)
    return _redundant(*rules.held((system, t, q)))


@eqx.filter_jit
def _redundant(system: AbstractSystem, t: Array, q: Array) -> Array:
    tree = system.saddle_tree(t, q)
    if tree is not None:
        return tree.smallest_row() < _dependent(q.dtype)
    b = system.constraint_jacobian(t, q)
    # Columns and rows of one length: the rank must not depend on units and sizes.
    columns = _unit(b.T).T
    smallest = jnp.linalg.svd(_unit(columns), compute_uv=False)[-1]
    return smallest < _dependent(q.dtype)


def redundant_under_tracing(
    system: AbstractSystem, t: Float[Array, ""], q: Float[Array, " nq"]
) -> Bool[Array, ""] | np.ndarray:
    """The same inside JAX transformations, where what it leads to is compiled beforehand.

    Many bodies without loops count as not redundant there: the smallest multipliers need full
    matrices, and only a joint that is singular by itself would ask for them.
    """
    if system.saddle_tree(t, q) is not None:
        return np.zeros((), bool)
    return redundant(system, t, q)


def _unit(rows: Array) -> Array:
    square = jnp.sum(rows * rows, axis=1, keepdims=True)
    return rows / jnp.sqrt(jnp.where(square > 0.0, square, 1.0))


def _dependent(dtype) -> Any:
    """Singular values below this, relative to the largest, are zero."""
    return jnp.finfo(dtype).eps ** 0.5


def smallest_multipliers(
    system: AbstractSystem,
    t: Float[Array, ""],
    q: Float[Array, " nq"],
    multipliers: Float[Array, " nc"],
) -> Float[Array, " nc"]:
    """Multipliers λ of minimum 2-norm among those with the same reactions Bᵀλ."""
    # Scaled velocities change neither the solutions nor their norm.
    forces = _unit(system.constraint_jacobian(t, q).T)
    wanted = forces @ multipliers
    return jnp.linalg.pinv(forces, rtol=_dependent(q.dtype)) @ wanted


def with_smallest_multipliers(
    system: AbstractSystem, redundant: Bool[Array, ""] | np.ndarray, trajectory: Trajectory
) -> Trajectory:
    """The trajectory with multipliers of minimum norm and a result that says so, if redundant."""
    if not checks.traced(redundant):
        return _changed(system, trajectory) if bool(redundant) else trajectory
    return jax.lax.cond(redundant, lambda own: _changed(system, own), lambda own: own, trajectory)


@eqx.filter_jit
def _changed(system: AbstractSystem, trajectory: Trajectory) -> Trajectory:
    # Instants that were not reached are NaN, and would be in derivatives of the others.
    reached = ~jnp.isnan(jnp.sum(trajectory.q, axis=1) + trajectory.t)[:, None]
    q = jnp.where(reached, trajectory.q, trajectory.q[:1])
    t = jnp.where(reached[:, 0], trajectory.t, 0.0)
    multipliers = jnp.where(reached, trajectory.multipliers, 0.0)
    smallest = jax.vmap(smallest_multipliers, (None, 0, 0, 0))(system, t, q, multipliers)
    result = trajectory.result
    return eqx.tree_at(
        lambda trajectory: (trajectory.multipliers, trajectory.result),
        trajectory,
        (
            jnp.where(reached, smallest, jnp.nan),
            Result.where(result == Result.successful, Result.redundant, result),
        ),
    )
