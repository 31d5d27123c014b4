"""Orientation of a body as a quaternion, read alike in all formulations."""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax


def quaternion(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"], body: int = 0
) -> Float[Array, "4"]:
    """Unit quaternion of a body, given by its number, with a scalar part that is not negative."""
    rotation, _ = system.poses(q)
    orientation = lie_jax.groups.quaternion.from_matrix(rotation[body])
    return jnp.where(orientation[0] < 0.0, -orientation, orientation)
