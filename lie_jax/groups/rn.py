"""The vector space Rⁿ as a group under addition: every map is linear.

As the group of translations, with matrices (I, x; 0, 1), it has exp(x) = x and cay(x) = 2 x, so
that dcay(0) = 2 I as on the other groups.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

Vector = Float[Array, " n"]
Matrix = Float[Array, "n n"]


def identity(n: int, dtype=float) -> Vector:
    """The zero vector."""
    return jnp.zeros(n, dtype)


def compose(a: Vector, b: Vector) -> Vector:
    """The sum a + b."""
    return a + b


def inverse(a: Vector) -> Vector:
    """The negative -a."""
    return -a


def act(a: Vector, y: Vector) -> Vector:
    """The translated point y + a."""
    return y + a


def lift(a: Vector, v: Vector) -> Vector:
    """Time derivative of an element for the velocity v: v."""
    return v


def exp(x: Vector) -> Vector:
    """The vector x itself."""
    return x


def log(a: Vector) -> Vector:
    """The vector a itself."""
    return a


def cay(x: Vector) -> Vector:
    """The vector 2 x."""
    return 2.0 * x


def cay_inv(a: Vector) -> Vector:
    """The vector a / 2."""
    return 0.5 * a


def _eye(x: Vector) -> Matrix:
    return jnp.eye(x.shape[0], dtype=x.dtype)


def dexp(x: Vector) -> Matrix:
    """The unit matrix."""
    return _eye(x)


def dexp_inv(x: Vector) -> Matrix:
    """The unit matrix."""
    return _eye(x)


def dcay(x: Vector) -> Matrix:
    """Twice the unit matrix."""
    return 2.0 * _eye(x)


def dcay_inv(x: Vector) -> Matrix:
    """Half the unit matrix."""
    return 0.5 * _eye(x)


def _zero(x: Vector) -> Matrix:
    return jnp.zeros((x.shape[0], x.shape[0]), x.dtype)


def ddexp(x: Vector, u: Vector) -> Matrix:
    """Zero."""
    return _zero(x)


def ddexp_inv(x: Vector, u: Vector) -> Matrix:
    """Zero."""
    return _zero(x)


def ddcay(x: Vector, u: Vector) -> Matrix:
    """Zero."""
    return _zero(x)


def ddcay_inv(x: Vector, u: Vector) -> Matrix:
    """Zero."""
    return _zero(x)


def ad(x: Vector) -> Matrix:
    """Zero: the group is commutative."""
    return _zero(x)


def Ad(a: Vector) -> Matrix:
    """The unit matrix: the group is commutative."""
    return _eye(a)
