"""Derivatives of functions of a configuration, taken along velocities.

A derivative along q·v is a forward-mode derivative with the tangent q̇ = lift(q, v). It never goes
through the retraction, so no exponential map is differentiated at zero.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.spaces.base import AbstractSpace, Configuration, Velocity

Time = Float[Array, ""]


def derivative_along(
    space: AbstractSpace, function: Callable, q: Configuration, v: Velocity
) -> Array:
    """Derivative of function(q) along the velocity v."""
    return jax.jvp(function, (q,), (space.lift(q, v),))[1]


def jacobian_along(space: AbstractSpace, function: Callable, q: Configuration) -> Array:
    """Matrix (..., nv) of the derivatives of function(q) along the nv unit velocities."""
    basis = jnp.eye(space.nv, dtype=q.dtype)
    return jax.vmap(lambda v: derivative_along(space, function, q, v), out_axes=-1)(basis)


def time_derivative(
    space: AbstractSpace, function: Callable, t: Time, q: Configuration, v: Velocity
) -> Array:
    """Total derivative of function(t, q) on a motion with velocity v."""
    return jax.jvp(function, (t, q), (jnp.ones_like(t), space.lift(q, v)))[1]
