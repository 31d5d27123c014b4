"""The vector space Rⁿ as a group under addition: every map is linear.

As the group of translations, with matrices (I, x; 0, 1), it has exp(x) = x and cay(x) = 2 x, so
that dcay(0) = 2 I as on the other groups.
"""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from lie_jax import checks

Vector = Float[Array, " n"]
Matrix = Float[Array, "n n"]


def identity(n: int, dtype: DTypeLike = float) -> Vector:
    """The zero vector."""
    return jnp.zeros(n, dtype)


def compose(a: Vector, b: Vector) -> Vector:
    """The sum a + b; as an action the translated point."""
    return a + b


def inverse(a: Vector) -> Vector:
    """The negative -a."""
    return -a


def lift(a: Vector, v: Vector) -> Vector:
    """Time derivative of an element for the velocity v: v."""
    return v


def exp(x: Vector) -> Vector:
    """The vector x itself; so is its logarithm."""
    return x


def cay(x: Vector) -> Vector:
    """The vector 2 x."""
    return 2.0 * x


def cay_inv(a: Vector) -> Vector:
    """The vector a / 2."""
    return 0.5 * a


def dexp(x: Vector) -> Matrix:
    """The unit matrix; so is Ad, for the group is commutative."""
    return jnp.eye(x.shape[0], dtype=x.dtype)


def dcay(x: Vector) -> Matrix:
    """Twice the unit matrix."""
    return 2.0 * dexp(x)


def dcay_inv(x: Vector) -> Matrix:
    """Half the unit matrix."""
    return 0.5 * dexp(x)


def ddexp(x: Vector, u: Vector) -> Matrix:
    """Zero, as all derivatives of the constant differentials."""
    return ad(x)


def ad(x: Vector) -> Matrix:
    """Zero: the group is commutative."""
    return jnp.zeros((x.shape[0], x.shape[0]), x.dtype)


act = compose
log = exp
dexp_inv = Ad = dexp
ddexp_inv = ddcay = ddcay_inv = ddexp

checks.take_one_element(globals())
