"""Euler parameters p (4,), scalar first: unit quaternions as coordinates of an orientation.

The body-fixed angular velocity is ω = H(p) ṗ with H linear in p, and ṗ = H(p)⁺ ω. [S3]'s
formulation 2; see `quaternion` for the group.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.numerics import small

Parameters = Float[Array, "4"]


def velocity_matrix(p: Parameters) -> Float[Array, "3 4"]:
    """H(p) of ω = H ṗ, body components: the vector part of 2 p̄ ṗ."""
    left = p[0] * jnp.eye(3, dtype=p.dtype) - small.hat(p[1:])
    return 2.0 * jnp.concatenate([-p[1:, None], left], axis=1)


def velocity_matrix_inv(p: Parameters) -> Float[Array, "4 3"]:
    """Right inverse H⁺ = Hᵀ/4 of H for unit p: ṗ = H⁺ ω keeps the norm."""
    return 0.25 * velocity_matrix(p).T


def velocity_matrix_rate(p: Parameters, dp: Parameters) -> Float[Array, "3 4"]:
    """Time derivative of H(p) for the rates ṗ: H(ṗ). For unit p, ω̇ = H p̈, as H(ṗ) ṗ = 0."""
    return velocity_matrix(dp)


checks.take_one_element(globals())
