"""The algebra so(3) of rotation vectors (3,) and the differentials of the maps from it.

`so3` and `quaternion` re-export them: both have this algebra. With ψ = `exp`, `cay` or `cay2`
and R = ψ(x), the right-trivialised dψ has (D ψ)(u) R⁻¹ = hat(dψ(x) u); the body-fixed angular
velocity of R = R₀ ψ(x) is dψ(-x) ẋ.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import series
from lie_jax.numerics import small

Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]


def with_square(x: Vector) -> tuple[Matrix, Matrix, Float[Array, ""]]:
    """x̃, its square x xᵀ - t I without cancellation on the off-diagonal, and t = |x|²."""
    t = small.dot(x, x)
    return small.hat(x), small.outer(x, x) - t * jnp.eye(3, dtype=x.dtype), t


def _cross(x: Vector, y: Vector) -> Vector:
    # The differentials make up the columns of Newton's matrix: see `small.cross`.
    return small.matvec(small.hat(x), y)


def directional_derivative(d: Callable[..., Array], note: str = "") -> Callable[..., Array]:
    """Function dd(x, u) of a differential d(x): derivative of the matrix at x along u."""

    def derivative(x, u):
        return jax.jvp(d, (x,), (u,))[1]

    types = d.__annotations__
    derivative.__annotations__ = {"x": types["x"], "u": types["x"], "return": types["return"]}
    derivative.__name__, derivative.__module__ = f"d{d.__name__}", d.__module__
    derivative.__doc__ = f"Directional derivative of the matrix {d.__name__} at x along u. {note}"
    return derivative


def ad(x: Vector) -> Matrix:
    """Adjoint representation of the algebra: ad(x) y = x × y."""
    return small.hat(x)


def dexp(x: Vector) -> Matrix:
    """Right-trivialised differential of exp. [S4] (2.11)"""
    # x̃² = x xᵀ - t I is resolved: I - c₃ t I would lose digits where c₃ t is close to one.
    t = small.dot(x, x)
    symmetric = series.c1(t) * jnp.eye(3, dtype=x.dtype) + series.c3(t) * small.outer(x, x)
    return symmetric + series.c2(t) * small.hat(x)


def dexp_apply(x: Vector, y: Vector) -> Vector:
    """dexp(x) y without forming the matrix."""
    t = small.dot(x, x)
    symmetric = series.c1(t) * y + series.c3(t) * small.dot(x, y) * x
    return symmetric + series.c2(t) * _cross(x, y)


def dexp_inv(x: Vector) -> Matrix:
    """Inverse of dexp(x), for |x| < 2π. [S4] (2.14)

    At |x| = 2π, where dexp has no inverse, a large number, infinite or NaN; meaningless beyond.
    """
    skew, square, t = with_square(x)
    return jnp.eye(3, dtype=x.dtype) - 0.5 * skew + series.e(t) * square


def dexp_inv_apply(x: Vector, y: Vector) -> Vector:
    """dexp_inv(x) y without forming the matrix, for |x| < 2π."""
    xy = small.cross(x, y)
    return y - 0.5 * xy + series.e(small.dot(x, x)) * small.cross(x, xy)


def _sigma(x: Vector) -> Float[Array, ""]:
    return 2.0 / (1.0 + small.dot(x, x))


def dcay(x: Vector) -> Matrix:
    """Right-trivialised differential of cay; dcay(0) = 2 I. [S4] (3.10)"""
    return _sigma(x) * (jnp.eye(3, dtype=x.dtype) + small.hat(x))


def dcay_apply(x: Vector, y: Vector) -> Vector:
    """dcay(x) y without forming the matrix."""
    return _sigma(x) * (y + _cross(x, y))


def dcay_inv(x: Vector) -> Matrix:
    """Inverse of dcay(x), for every x. [S4] (3.11)"""
    return 0.5 * (jnp.eye(3, dtype=x.dtype) - small.hat(x) + small.outer(x, x))


def dcay_inv_apply(x: Vector, y: Vector) -> Vector:
    """dcay_inv(x) y without forming the matrix."""
    return 0.5 * (y - _cross(x, y) + small.dot(x, y) * x)


def dcay2(x: Vector) -> Matrix:
    """Right-trivialised differential of cay2: 2 σ cay(x), σ = 2 / (1 + |x|²); dcay2(0) = 4 I."""
    skew, square, _ = with_square(x)
    sigma = _sigma(x)
    return 2.0 * sigma * (jnp.eye(3, dtype=x.dtype) + sigma * (skew + square))


def dcay2_apply(x: Vector, y: Vector) -> Vector:
    """dcay2(x) y without forming the matrix."""
    sigma = _sigma(x)
    xy = _cross(x, y)
    return 2.0 * sigma * (y + sigma * (xy + _cross(x, xy)))


def dcay2_inv(x: Vector) -> Matrix:
    """Inverse of dcay2(x): cay(-x) / (2 σ), for every x."""
    skew, square, t = with_square(x)
    return 0.25 * (1.0 + t) * jnp.eye(3, dtype=x.dtype) + 0.5 * (square - skew)


def dcay2_inv_apply(x: Vector, y: Vector) -> Vector:
    """dcay2_inv(x) y without forming the matrix."""
    xy = _cross(x, y)
    return 0.25 * (1.0 + small.dot(x, x)) * y + 0.5 * (_cross(x, xy) - xy)


ddexp = directional_derivative(dexp, "[S4] (2.33)")
ddexp_inv = directional_derivative(dexp_inv, "For |x| < 2π. [S4] (2.40)")
ddcay = directional_derivative(dcay, "[S4] (3.20)")
ddcay_inv = directional_derivative(dcay_inv, "[S4] (3.21)")
ddcay2 = directional_derivative(dcay2)
ddcay2_inv = directional_derivative(dcay2_inv)

checks.take_one_element(globals())
