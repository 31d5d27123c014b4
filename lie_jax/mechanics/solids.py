"""Inertias of solids of constant density, for `Body(inertia=)`.

Each is (3, 3), about the centre of mass, in body axes, kg m². Masses and sizes may be traced, so
that a size can be a parameter. Raises `ValueError` for masses and sizes that are not positive.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.mechanics.fields import as_direction
from lie_jax.numerics.conversion import as_float

Matrix = Float[Array, "3 3"]
Numbers = ArrayLike | Sequence[ArrayLike]


def box(mass: ArrayLike, sides: Numbers) -> Matrix:
    """Inertia of a box with edges along the body axes; `mass` in kg, `sides` (3,) in m."""
    checks.positive("box: mass", mass, "kg")
    lengths = as_float(sides)
    checks.shape("box: sides", lengths, (3,), "the lengths along the body's x, y and z axes, m")
    for side in lengths:
        checks.positive("box: a side", side, "m")
    return _box(as_float(mass), lengths)


def sphere(mass: ArrayLike, radius: ArrayLike) -> Matrix:
    """Inertia of a solid ball; `mass` in kg, `radius` in m."""
    checks.positive("sphere: mass", mass, "kg")
    checks.positive("sphere: radius", radius, "m")
    return _sphere(as_float(mass), as_float(radius))


def cylinder(
    mass: ArrayLike,
    radius: ArrayLike,
    length: ArrayLike,
    axis: Numbers = (0.0, 0.0, 1.0),
) -> Matrix:
    """Inertia of a cylinder, of a rod where it is thin and of a disc where it is short.

    `mass` in kg, `radius` and `length` in m; `axis` (3,) is a direction in the body's frame, of any
    length but zero.
    """
    checks.positive("cylinder: mass", mass, "kg")
    checks.positive("cylinder: radius", radius, "m")
    checks.positive("cylinder: length", length, "m")
    along = as_direction(axis)
    checks.direction("cylinder: axis", along, "body's")
    return _cylinder(as_float(mass), as_float(radius), as_float(length), along)


# Compiled as a whole: one by one their operations cost a first run a program each.
@jax.jit
def _box(mass: Array, sides: Array) -> Matrix:
    return _inertia_from_second_moments(mass * jnp.diag(sides**2) / 12.0)


@jax.jit
def _sphere(mass: Array, radius: Array) -> Matrix:
    return 0.4 * mass * radius**2 * jnp.eye(3, dtype=radius.dtype)


@jax.jit
def _cylinder(mass: Array, radius: Array, length: Array, axis: Array) -> Matrix:
    along = jnp.outer(axis, axis)
    across = jnp.eye(3, dtype=axis.dtype) - along
    return _inertia_from_second_moments(
        mass * (radius**2 / 4.0 * across + length**2 / 12.0 * along)
    )


def _inertia_from_second_moments(moments: Matrix) -> Matrix:
    """Inertia of the second moments of mass ∫ x xᵀ dm."""
    return jnp.trace(moments) * jnp.eye(3, dtype=moments.dtype) - moments
