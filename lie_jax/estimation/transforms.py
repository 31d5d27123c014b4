"""Unconstrained coordinates for physical parameters, for `identify`.

A transform takes the start `value` of a parameter and returns its coordinates z, an array without
constraints, and the function from coordinates to the parameter. `identify` accepts every such one.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion

Coordinates = Float[Array, "..."]
Chart = tuple[Coordinates, Callable[[Coordinates], Array]]


def free(value: Array) -> Chart:
    """The `value` of a parameter as its own coordinates, without constraint."""
    return value, lambda z: z


def positive(value: Array) -> Chart:
    """Logarithms, for positive numbers: masses, stiffnesses, friction coefficients.

    Raises `ValueError` for a start value that is not positive.
    """
    for number in jnp.ravel(value):
        checks.positive("the start value of a positive parameter", number, "its logarithm is used")
    return jnp.log(value), jnp.exp


def interval(lower: float, upper: float) -> Callable[[Array], Chart]:
    """Numbers strictly between two bounds; `upper` may be infinite for a bound from below only.

    The coordinate is the logarithm of the ratio of the distances to both bounds; with one bound, of
    the distance to it. Raises `ValueError` unless lower < start value < upper.
    """
    checks.scalar("interval(lower=)", lower, "the unit of the parameter")
    checks.scalar("interval(upper=)", upper, "the unit of the parameter")
    if not (np.isfinite(lower) and lower < upper):
        raise ValueError(
            f"interval({lower!r}, {upper!r}): the lower bound must be finite and below the upper "
            "one; for a bound from above only, seek the negative."
        )

    def chart(value: Array) -> Chart:
        # In NumPy: inside `jax.jit` a comparison of constant arrays would be a tracer.
        known = None if checks.has_tracers(value) else np.asarray(value)
        if known is not None and not np.all((lower < known) & (known < upper)):
            raise ValueError(
                f"the start value of a bounded parameter is {value.tolist()}; it must lie strictly "
                f"between {lower!r} and {upper!r}."
            )
        if np.isinf(upper):
            return jnp.log(value - lower), lambda z: lower + jnp.exp(z)
        z = jnp.log(value - lower) - jnp.log(upper - value)
        return z, lambda z: lower + (upper - lower) * jax.nn.sigmoid(z)

    return chart


def inertia(value: Float[Array, "3 3"]) -> Chart:
    """Log-Cholesky coordinates (6,) of an inertia matrix about the centre of mass.

    With the second moments of mass Σ = ½ tr(J) I - J = L Lᵀ: the logarithms of the diagonal of L
    and its three other entries. Every z gives an inertia that is symmetric, positive definite and
    within the triangle inequality: a distribution of mass has it. Raises `ValueError` for a start
    value that breaks one of these rules, or just meets the inequality.
    """
    checks.inertia("the start value of an inertia", value)
    eye = jnp.eye(3, dtype=value.dtype)
    second_moments = 0.5 * jnp.trace(value) * eye - value
    factor = jnp.linalg.cholesky(second_moments)
    if not checks.has_tracers(factor) and not bool(jnp.all(jnp.isfinite(factor))):
        raise ValueError(
            f"the start value of an inertia is {value.tolist()}, a body that is flat; its "
            "principal moments must obey the triangle inequality strictly: start a little inside."
        )
    rows, columns = jnp.tril_indices(3, -1)

    def matrix(z):
        lower = jnp.diag(jnp.exp(z[:3])).at[rows, columns].set(z[3:])
        moments = lower @ lower.T
        return jnp.trace(moments) * eye - moments

    return jnp.concatenate([jnp.log(jnp.diagonal(factor)), factor[rows, columns]]), matrix


def orientation(value: Float[Array, "4"]) -> Chart:
    """Rotation vector (3,) from the start orientation, for a unit quaternion.

    Raises `ValueError` for a start value that is not a unit quaternion.
    """
    checks.unit_quaternion("the start value of an orientation", value)
    return jnp.zeros(3, value.dtype), lambda z: quaternion.multiply(value, quaternion.exp(z))
