"""The directional derivatives of dexp, dcay and their inverses as written-out formulas.

`so3.ddexp` and its relatives differentiate automatically. Here are the formulas of [S4], corrected
and rearranged so that none divides by θ; both give the same numbers. With
A(x) = I + p(t) x̃ + q(t) x̃², t = |x|², p₁ = 2p', p₂ = 4p'' (q likewise), of dexp p = `series.c2`
and q = `series.c3`, of its inverse p = -1/2 and q = `series.e`,

    (D A)(y)    = p ỹ + p₁ (x·y) x̃ + q {x, y} + q₁ (x·y) x̃²
    (D² A)(y,u) = p₁ [(x·y) ũ + (x·u) ỹ + (y·u) x̃] + p₂ (x·y)(x·u) x̃ + q {y, u}
                  + q₁ [(x·u) {x, y} + (x·y) {x, u} + (y·u) x̃²] + q₂ (x·y)(x·u) x̃²

where {a, b} = ãb̃ + b̃ã. The coupling block of dexp on SE(3) at X = (y, x) is (D A)(y), so that its
derivative along U = (v, u) is (D² A)(y, u) + (D A)(v).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import se3, series, so3
from lie_jax.groups.rotation_algebra import Matrix, Vector
from lie_jax.groups.se3 import Matrix6, Twist
from lie_jax.numerics import small

Scalar = Float[Array, ""]


# (p, p₁, p₂) and (q, q₁, q₂).
_Coefficients = tuple[tuple[Scalar, Scalar, Scalar], tuple[Scalar, Scalar, Scalar]]


def _dexp_coefficients(x: Vector) -> _Coefficients:
    t = small.dot(x, x)
    p, q = series.stumpff_rates(t)
    return (series.c2(t), *p), (series.c3(t), *q)


def _dexp_inv_coefficients(x: Vector) -> _Coefficients:
    t = small.dot(x, x)
    zero = jnp.zeros_like(t)
    return (zero - 0.5, zero, zero), (series.e(t), *series.e_rates(t))


def _anticommutator(a: Vector, b: Vector) -> Matrix:
    ab = small.outer(a, b)
    return ab + ab.T - 2.0 * small.dot(a, b) * jnp.eye(3, dtype=a.dtype)


def _first(coefficients: _Coefficients, x: Vector, y: Vector) -> Matrix:
    (p, p1, _), (q, q1, _) = coefficients
    xy = small.dot(x, y)
    return small.hat(p * y + p1 * xy * x) + _anticommutator(x, q * y + 0.5 * q1 * xy * x)


def _second(coefficients: _Coefficients, x: Vector, y: Vector, u: Vector) -> Matrix:
    (_, p1, p2), (q, q1, q2) = coefficients
    xy, xu, yu = small.dot(x, y), small.dot(x, u), small.dot(y, u)
    skew = p1 * (xy * u + xu * y + yu * x) + p2 * xy * xu * x
    with_x = q1 * (xu * y + xy * u + 0.5 * yu * x) + 0.5 * q2 * xy * xu * x
    return small.hat(skew) + _anticommutator(x, with_x) + q * _anticommutator(y, u)


def _on_se3(c: _Coefficients, x: Twist, u: Twist) -> Matrix6:
    diagonal = _first(c, x[3:], u[3:])
    coupling = _second(c, x[3:], x[:3], u[3:]) + _first(c, x[3:], u[:3])
    return se3.upper(diagonal, coupling, diagonal)


def so3_ddexp(x: Vector, u: Vector) -> Matrix:
    """(D_x dexp)(u). [S4] (2.33)"""
    return _first(_dexp_coefficients(x), x, u)


def so3_ddexp_inv(x: Vector, u: Vector) -> Matrix:
    """(D_x dexp⁻¹)(u), |x| < 2π. [S4] (2.40)"""
    return _first(_dexp_inv_coefficients(x), x, u)


def so3_d2dexp(x: Vector, y: Vector, u: Vector) -> Matrix:
    """Second directional derivative (D²_x dexp)(y, u)."""
    return _second(_dexp_coefficients(x), x, y, u)


def so3_d2dexp_inv(x: Vector, y: Vector, u: Vector) -> Matrix:
    """Second directional derivative (D²_x dexp⁻¹)(y, u), |x| < 2π."""
    return _second(_dexp_inv_coefficients(x), x, y, u)


def se3_ddexp(x: Twist, u: Twist) -> Matrix6:
    """(D_X dexp)(U). [S4] (2.47), (2.48)"""
    return _on_se3(_dexp_coefficients(x[3:]), x, u)


def se3_ddexp_inv(x: Twist, u: Twist) -> Matrix6:
    """(D_X dexp⁻¹)(U), for a rotation below 2π. [S4] (2.51), (2.52) corrected"""
    return _on_se3(_dexp_inv_coefficients(x[3:]), x, u)


def so3_ddcay(x: Vector, u: Vector) -> Matrix:
    """(D_x dcay)(u). [S4] (3.20)"""
    sigma = 2.0 / (1.0 + small.dot(x, x))
    change = sigma * small.dot(x, u)
    return sigma * (small.hat(u - change * x) - change * jnp.eye(3, dtype=x.dtype))


def so3_ddcay_inv(x: Vector, u: Vector) -> Matrix:
    """(D_x dcay⁻¹)(u). [S4] (3.21)"""
    xu = small.outer(x, u)
    return 0.5 * (xu + xu.T - small.hat(u))


def so3_ddcay2_inv(x: Vector, u: Vector) -> Matrix:
    """(D_x dcay2⁻¹)(u)."""
    return so3_ddcay_inv(x, u) - 0.5 * small.dot(x, u) * jnp.eye(3, dtype=x.dtype)


def se3_ddcay(x: Twist, u: Twist) -> Matrix6:
    """(D_X dcay)(U). [S4] (3.22)"""
    y, x, v, u = x[:3], x[3:], u[:3], u[3:]
    d, rotation = so3.dcay(x), so3_ddcay(x, u)
    translation = small.matmul(small.hat(small.matvec(d, u)), so3.cay(x))
    coupling = small.matmul(small.hat(v), d) + small.matmul(small.hat(y), rotation)
    return se3.upper(translation, coupling, rotation)


def se3_ddcay_inv(x: Twist, u: Twist) -> Matrix6:
    """(D_X dcay⁻¹)(U). [S4] (3.23)"""
    y, x, v, u = x[:3], x[3:], u[:3], u[3:]
    products = small.matmul(small.hat(x), small.hat(v)) + small.matmul(small.hat(u), small.hat(y))
    return se3.upper(-0.5 * small.hat(u), 0.5 * (products - small.hat(v)), so3_ddcay_inv(x, u))


checks.take_one_element(globals())
