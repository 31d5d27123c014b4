"""The rotation group SO(3): elements are matrices (3, 3), algebra elements vectors (3,).

A matrix maps body to inertial components. `dexp` and `dcay` are right-trivialised: with R = exp(x),
(D exp)(u) Rᵀ = hat(dexp(x) u). The body-fixed angular velocity of R = R₀ exp(x) is therefore
dexp(-x) ẋ. All functions take one element; use `jax.vmap` for batches.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import algebra, series
from lie_jax.groups import quaternion

Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]


def identity(dtype=float) -> Matrix:
    """The unit rotation."""
    return jnp.eye(3, dtype=dtype)


def hat(x: Vector) -> Matrix:
    """Skew matrix of a vector (3,): hat(x) y = x × y."""
    return algebra.hat(x)


def vee(x: Matrix) -> Vector:
    """Vector of the skew part of a matrix (3, 3); inverse of `hat`."""
    return -0.5 * algebra.axial(x)


def compose(a: Matrix, b: Matrix) -> Matrix:
    """Product of two rotations."""
    return algebra.matmul(a, b)


def inverse(a: Matrix) -> Matrix:
    """Inverse rotation."""
    return a.T


def act(a: Matrix, y: Vector) -> Vector:
    """The rotated vector."""
    return algebra.matvec(a, y)


def _with_square(x: Vector) -> tuple[Matrix, Matrix, Float[Array, ""]]:
    # x̃² = x xᵀ - t I; the outer product has no cancellation on the off-diagonal.
    t = algebra.dot(x, x)
    return hat(x), algebra.outer(x, x) - t * jnp.eye(3, dtype=x.dtype), t


def exp(x: Vector) -> Matrix:
    """Rotation by |x| radians about x. [S4] (2.6)"""
    skew, square, t = _with_square(x)
    return jnp.eye(3, dtype=x.dtype) + series.c1(t) * skew + series.c2(t) * square


def log(r: Matrix) -> Vector:
    """Principal rotation vector, |log(r)| <= π, of a rotation matrix (3, 3).

    At exactly π both signs are right; which one comes out depends on rounding.
    """
    return quaternion.log(quaternion.from_matrix(r))


def dexp(x: Vector) -> Matrix:
    """Right-trivialised differential of exp. [S4] (2.12), corrected"""
    skew, square, t = _with_square(x)
    return jnp.eye(3, dtype=x.dtype) + series.c2(t) * skew + series.c3(t) * square


def dexp_apply(x: Vector, y: Vector) -> Vector:
    """dexp(x) y without forming the matrix."""
    t = algebra.dot(x, x)
    xy = algebra.cross(x, y)
    return y + series.c2(t) * xy + series.c3(t) * algebra.cross(x, xy)


def dexp_inv(x: Vector) -> Matrix:
    """Inverse of dexp(x), for |x| < 2π. [S4] (2.14)"""
    skew, square, t = _with_square(x)
    return jnp.eye(3, dtype=x.dtype) - 0.5 * skew + series.e(t) * square


def dexp_inv_apply(x: Vector, y: Vector) -> Vector:
    """dexp_inv(x) y without forming the matrix, for |x| < 2π."""
    xy = algebra.cross(x, y)
    return y - 0.5 * xy + series.e(algebra.dot(x, x)) * algebra.cross(x, xy)


def ddexp(x: Vector, u: Vector) -> Matrix:
    """Directional derivative of the matrix dexp at x along u. [S4] (2.33)"""
    return jax.jvp(dexp, (x,), (u,))[1]


def ddexp_inv(x: Vector, u: Vector) -> Matrix:
    """Directional derivative of the matrix dexp_inv at x along u, |x| < 2π. [S4] (2.40)"""
    return jax.jvp(dexp_inv, (x,), (u,))[1]


def cay(x: Vector) -> Matrix:
    """Unscaled Cayley map (I - x̃)⁻¹(I + x̃): rotation by 2 arctan|x| about x. [S4] (3.7)"""
    skew, square, t = _with_square(x)
    return jnp.eye(3, dtype=x.dtype) + 2.0 / (1.0 + t) * (skew + square)


def cay_inv(r: Matrix) -> Vector:
    """Rodrigues vector of a rotation by less than π; not finite at π."""
    q = quaternion.from_matrix(r)
    return q[1:] / q[0]


def dcay(x: Vector) -> Matrix:
    """Right-trivialised differential of cay; dcay(0) = 2 I. [S4] (3.10)"""
    return 2.0 / (1.0 + algebra.dot(x, x)) * (jnp.eye(3, dtype=x.dtype) + hat(x))


def dcay_inv(x: Vector) -> Matrix:
    """Inverse of dcay(x). [S4] (3.11)"""
    return 0.5 * (jnp.eye(3, dtype=x.dtype) - hat(x) + algebra.outer(x, x))


def ddcay(x: Vector, u: Vector) -> Matrix:
    """Directional derivative of the matrix dcay at x along u. [S4] (3.20)"""
    return jax.jvp(dcay, (x,), (u,))[1]


def ddcay_inv(x: Vector, u: Vector) -> Matrix:
    """Directional derivative of the matrix dcay_inv at x along u. [S4] (3.21)"""
    return jax.jvp(dcay_inv, (x,), (u,))[1]


def ad(x: Vector) -> Matrix:
    """Adjoint representation of the algebra: ad(x) y = x × y."""
    return hat(x)


def Ad(r: Matrix) -> Matrix:
    """Adjoint representation of the group: hat(Ad(r) y) = r hat(y) rᵀ."""
    return r


def bch(x1: Vector, x2: Vector) -> Vector:
    """log(exp(x1) exp(x2)), the principal rotation vector of two in sequence. [S0] (74)"""
    return quaternion.log(quaternion.multiply(quaternion.exp(x1), quaternion.exp(x2)))
