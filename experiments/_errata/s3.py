"""S3: R³×SO(3) and rotation vectors. Tangent operators are left-trivialised."""

from functools import partial
from typing import Any

import mpmath
import numpy as np

from experiments._errata.erratum import Erratum, deviation
from experiments._errata.reference import (
    Array,
    Sample,
    derivative,
    differential,
    exponential,
    eye,
    hat,
    inverse,
    mp,
    norm,
    sinc,
    vector,
    vee,
    zeros,
)

MASSES = vector("1", "2", "0.7")
POINTS = np.array(
    [vector("0.3", "-0.2", "0.5"), vector("-0.4", "0.6", "0.1"), vector("0.2", "0.5", "-0.9")]
)
INERTIA = sum(m * hat(p) @ hat(p).T for m, p in zip(MASSES, POINTS, strict=True))
ANCHOR = vector("0.5", "-1.2", "0.3")
ATTITUDE = vector("0.4", "-0.2", "0.9")
NOW = mp.mpf(0)
DOUBLE: Any = mpmath.MPContext()
DOUBLE.prec = 53


def path(s: Sample, t: Any) -> Array:
    """Rotation vector in time."""
    return s.x + t * s.u + t**2 / 2 * s.v


def rotation(s: Sample, t: Any) -> Array:
    return exponential(hat(path(s, t)))


def spin(s: Sample, t: Any) -> Array:
    """Body-fixed angular velocity from the rotation matrix."""
    return vee(rotation(s, t).T @ derivative(partial(rotation, s), t))


def angular_momentum(s: Sample, t: Any) -> Array:
    """Of point masses that turn about the origin, inertial."""
    places = [rotation(s, t) @ p for p in POINTS]
    rates = derivative(partial(rotation, s), t)
    moments = [hat(place) @ rates @ p for place, p in zip(places, POINTS, strict=True)]
    return MASSES @ np.array(moments)


def torque(s: Sample) -> Array:
    """The body-fixed torque that this motion needs, by Newton and Euler."""
    return rotation(s, NOW).T @ derivative(partial(angular_momentum, s), NOW)


def gyroscopic(s: Sample) -> Array:
    """Equation (1) needs J ω̇ = t + g."""
    return INERTIA @ derivative(partial(spin, s), NOW) - torque(s)


def eq_11(s: Sample, printed: bool) -> Array:
    omega = spin(s, NOW)
    return (1 if printed else -1) * hat(omega) @ INERTIA @ omega


def tangent(s: Sample, t: Any) -> Array:
    """G(ρ) for the rotation vector."""
    return differential(exponential, path(s, t), left=True)


def gyroscopic_2(s: Sample) -> Array:
    """Equation (12) needs Gᵀ J G ρ̈ = Gᵀ (t + g)."""
    return INERTIA @ tangent(s, NOW) @ s.v - torque(s)


def eq_14(s: Sample, printed: bool) -> Array:
    G, turning = tangent(s, NOW), hat(spin(s, NOW)) @ INERTIA
    if printed:
        return (INERTIA @ G + turning @ G) @ s.u
    return -(INERTIA @ derivative(partial(tangent, s), NOW) + turning @ G) @ s.u


def pose(s: Sample, t: Any) -> Array:
    """Q of (20)."""
    matrix = eye(7)
    matrix[:3, :3], matrix[3:6, 6] = rotation(s, t), s.y + t * s.v
    return matrix


def pose_velocity(s: Sample) -> Array:
    """`Q⁻¹ Q̇`."""
    return inverse(pose(s, NOW)) @ derivative(partial(pose, s), NOW)


def eq_20(s: Sample, printed: bool) -> Array:
    matrix = zeros(7, 7)
    matrix[:3, :3], matrix[3:6, 6] = hat(spin(s, NOW)), s.v
    matrix[3:6, 3:6] = (1 if printed else 0) * eye(3)
    return matrix


def ball_joint(q: Array) -> Array:
    """Φ of a point of the body held fast, in position and rotation vector."""
    return q[:3] + exponential(hat(q[3:])) @ ANCHOR


def constraint_gradient(s: Sample) -> Array:
    """Jacobian of the constraint in the coordinates."""
    return np.stack([derivative(ball_joint, np.append(s.y, s.x), e) for e in eye(6)], axis=1)


def eq_35(s: Sample, printed: bool) -> Array:
    B = np.concatenate([eye(3), -exponential(hat(s.x)) @ hat(ANCHOR)], axis=1)
    H = eye(6)
    H[3:, 3:] = differential(exponential, s.x, left=True)
    return H @ B if printed else B @ H


def composed(s: Sample) -> Array:
    """Rotation `R(ψ₀) R(Δψ)`."""
    return exponential(hat(ATTITUDE)) @ exponential(hat(s.x))


def eq_A10(s: Sample, printed: bool) -> Array:
    def quaternion(x: Array) -> tuple[Any, Array]:
        return mp.cos(norm(x) / 2), x / 2 * sinc(norm(x) / 2)

    (e0, e), (n0, n) = quaternion(ATTITUDE), quaternion(s.x)
    cross = hat(n) @ e if printed else hat(e) @ n
    factor = mp.mpf("0.5") if printed else 2
    angle = mp.acos(n0 * e0 - n @ e)
    return exponential(hat(factor * (n0 * e + e0 * n + cross) / sinc(angle)))


SMALL = tuple(mp.mpf(size) for size in ("1.01e-4", "1.3e-4", "2e-4", "1e-3", "9e-3", "1.1e-2"))


def f2(x: Any) -> Any:
    """(x - sin x) / x³ by its series."""
    return sum((-(x**2)) ** j / mp.factorial(2 * j + 3) for j in range(40))


def eq_A8(x: Any, printed: bool) -> Any:
    x = DOUBLE.mpf(x)
    if x < (1e-4 if printed else 1e-2):
        return 1 / DOUBLE.mpf(6) - x**2 / 120 + x**4 / 5040
    return (x - DOUBLE.sin(x)) / x**3


def embedded_pair(h: Any) -> Any:
    """Error estimate (B16) of one step of orders p = 2 and 1 (Heun and Euler) for ẏ = t + y²."""
    y = mp.mpf("0.7")
    k1 = y**2
    k2 = h + (y + h * k1) ** 2
    return abs(h * (k1 + k2) / 2 - h * k1)


def growth(h: Any) -> Any:
    """Power of h in the estimate."""
    return mp.log(embedded_pair(2 * h) / embedded_pair(h), 2)


def eq_B19(h: Any, printed: bool) -> Any:
    order = 2
    return mp.mpf(order + 1 if printed else order)


ERRATA = (
    Erratum(
        "(11)",
        "`g_gyr = [0; ω̃Jω]`",
        "`g_gyr = [0; -ω̃Jω]`",
        "On the right side of (1). Reference: angular momentum of point masses.",
        deviation(gyroscopic, eq_11),
    ),
    Erratum(
        "(14)",
        "`ĝ_gyr = [0; (JG + ω̃JG) ρ̇]`",
        "`ĝ_gyr = -[0; (JĠ + ω̃JG) ρ̇]`",
        "The dot may be lost in the text available to us, the sign is as in (11). Evaluated for "
        "the rotation vector.",
        deviation(gyroscopic_2, eq_14),
    ),
    Erratum(
        "(20)",
        "middle block of ṽ: `I`",
        "`0`",
        "",
        deviation(pose_velocity, eq_20),
    ),
    Erratum(
        "(35)",
        "lower left block `H B`",
        "`B H`",
        "Hats are omitted. Evaluated for a ball joint.",
        deviation(constraint_gradient, eq_35),
    ),
    Erratum("Algorithm 4, line 1", "`q_{n+1} := 0`", "`q̈_{n+1} := 0`", "", kind="typo"),
    Erratum("(A5)", "label `f₃`", "`f₂`", "(A2) and (A8) have it.", kind="typo"),
    Erratum(
        "(A8)",
        "closed form of `f₂` for `‖Δψ‖ ≥ 1e-4`, relative error about 1e-10",
        "the polynomial up to `‖Δψ‖ = 1e-2`, as for `f₁` and `f₃`",
        "Coefficients are right. In double precision.",
        deviation(f2, eq_A8, SMALL, 1e-10),
        "misleading",
    ),
    Erratum(
        "(A10)-(A14)",
        "`(ν₀η + η₀ν + ν × η)/(2 sinc φ)`",
        "`2 (ν₀η + η₀ν + η × ν)/sinc φ`",
        "A factor of 4, and the order of the composition: (18) requires `R(ψ₀) R(Δψ)`. Where "
        "`ν₀η₀ - ν·η = -1` it is 0/0, contrary to the text.",
        deviation(composed, eq_A10),
    ),
    Erratum(
        "(B19)",
        "exponent `1/(p + 1)`",
        "`1/p`",
        "The estimate of a pair of orders p and p - 1 is proportional to `hᵖ`; the printed "
        "exponent only makes the control more cautious. Power of h in the estimate of Heun and "
        "Euler, p = 2.",
        deviation(growth, eq_B19, (mp.mpf("1e-30"),)),
        "doubtful",
    ),
)
