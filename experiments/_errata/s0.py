"""S0: local-global transition maps. Twists are (ω, v)."""

from functools import cache, partial
from typing import Any

import numpy as np

from experiments._errata import integration
from experiments._errata.erratum import Erratum, deviation
from experiments._errata.integration import convergence
from experiments._errata.reference import (
    SAMPLES,
    Array,
    Sample,
    cayley,
    derivative,
    differential,
    exponential,
    eye,
    hamilton,
    hat,
    inverse,
    mp,
    norm,
    quaternion,
    rotated,
    sinc,
    vector,
    vee,
    zeros,
)

START = exponential(hat(vector("0.4", "-0.2", "0.9", "0.3", "1.1", "-0.6")))
ATTITUDE = vector("0.4", "-0.2", "0.9")


def rotation(s: Sample) -> Array:
    """Exponential on SO(3)."""
    return exponential(hat(s.x))


def eq_31(s: Sample, printed: bool) -> Array:
    angle, n = norm(s.x), hat(s.x / norm(s.x))
    factor = mp.mpf("0.5") if printed else 2
    return eye(3) + mp.sin(angle) * n + factor * mp.sin(angle / 2) ** 2 * n @ n


def cayley_rotation(s: Sample) -> Array:
    """Cayley map on SO(3)."""
    return cayley(hat(s.x))


def rodrigues(c: Array, printed: bool) -> Array:
    """Quaternion of Rodrigues parameters as in (41)."""
    sigma = 2 / (1 + c @ c)
    scalar = mp.sqrt(sigma / 2)
    return np.concatenate([[scalar], (mp.sqrt(1 - sigma / 2) if printed else scalar) * c])


def eq_41(s: Sample, printed: bool) -> Array:
    return rotated(rodrigues(s.x, printed))


def eq_41_norm(s: Sample, printed: bool) -> Any:
    return norm(rodrigues(s.x, printed))


def motion(s: Sample, t: Any) -> Array:
    """A curve in SE(3) through a fixed pose, `C = C₀ exp(X(t))`."""
    return START @ exponential(hat(s.X + t * s.U))


def linear_velocity(s: Sample) -> Array:
    """Linear part of `C⁻¹ Ċ`."""
    curve = partial(motion, s)
    return vee(inverse(curve(mp.mpf(0))) @ derivative(curve, mp.mpf(0)))[3:]


def eq_velocity(s: Sample, printed: bool) -> Array:
    curve = partial(motion, s)
    R, rate = curve(mp.mpf(0))[:3, :3], derivative(curve, mp.mpf(0))[:3, 3]
    return (R if printed else R.T) @ rate


def dcay_inverse(s: Sample) -> Array:
    """Inverse of the differential of cay on SE(3)."""
    return inverse(differential(cayley, s.X))


def eq_49(s: Sample, printed: bool) -> Array:
    sigma, c, d = 2 / (1 + s.x @ s.x), hat(s.x), s.y if printed else hat(s.y)
    upper = eye(3) / sigma + (c @ c - c) / 2
    return np.block([[upper, zeros(3, 3)], [_column((c - eye(3)) @ d / 2), (eye(3) - c) / 2]])


def _column(block: Array) -> Array:
    return block.reshape(3, -1)


def cayley_twist(s: Sample) -> Array:
    """`C⁻¹ Ċ` of `C = cay(X(t))`."""

    def curve(t: Any) -> Array:
        return cayley(hat(s.X + t * s.U))

    return vee(inverse(curve(mp.mpf(0))) @ derivative(curve, mp.mpf(0)))


def eq_after_49(s: Sample, printed: bool) -> Array:
    return (dcay_inverse(s) if printed else differential(cayley, -s.X)) @ s.U


def composed(s: Sample) -> Array:
    """Quaternion of two rotations."""
    return hamilton(quaternion(ATTITUDE), quaternion(s.x))


def eq_62(s: Sample, printed: bool) -> Array:
    q, half = quaternion(ATTITUDE), norm(s.x) / 2
    turned = hat(q[1:]) @ s.x
    turned = hat(q[1:]) @ turned if printed else turned
    scalar = q[0] * mp.cos(half) - sinc(half) / 2 * (q[1:] @ s.x)
    return np.concatenate([[scalar], mp.cos(half) * q[1:] + sinc(half) / 2 * (q[0] * s.x + turned)])


def composed_cayley(s: Sample) -> Array:
    """A rotation vector, then Rodrigues parameters."""
    return exponential(hat(ATTITUDE)) @ cayley(hat(s.x))


def eq_1c(s: Sample, printed: bool) -> Array:
    return rotated(hamilton(quaternion(ATTITUDE), rodrigues(s.x, printed)))


def half_cosine(s: Sample) -> Any:
    """Scalar part of the composed quaternion."""
    return composed(s)[0]


def eq_cosine(s: Sample, printed: bool) -> Any:
    f1, f2, divisor = norm(ATTITUDE), norm(s.x), 1 if printed else 2
    product = sinc(f1 / divisor) * sinc(f2 / divisor)
    return mp.cos(f1 / 2) * mp.cos(f2 / 2) - product / 4 * (ATTITUDE @ s.x)


def eq_77(s: Sample, printed: bool) -> Array:
    sigma, half = 2 / (1 + s.x @ s.x), norm(ATTITUDE) / 2
    scalar = mp.sqrt(sigma / 2)
    other = mp.sqrt(1 - sigma / 2) if printed else scalar
    cosine = scalar * mp.cos(half) - other / 2 * sinc(half) * (ATTITUDE @ s.x)
    angle = 2 * mp.acos(cosine)
    along = scalar * sinc(half) * ATTITUDE + 2 * other * mp.cos(half) * s.x
    total = (along + other * sinc(half) * hat(ATTITUDE) @ s.x) / sinc(angle / 2)
    return exponential(hat(total))


@cache
def position(steps: int, printed: bool) -> Array:
    """RKMK4 on SO(3)×R³ with the velocity (ω, ṙ) of (34)."""
    R, r = integration.START[:9].reshape(3, 3), integration.START[9:12]
    velocity, h = integration.START[12:], 1.0 / steps
    for _ in range(steps):
        rate = partial(_local_rate, R=R, r=r, printed=printed)
        state = np.concatenate([np.zeros(6), velocity])
        k1 = rate(state)
        k2 = rate(state + h / 2 * k1)
        k3 = rate(state + h / 2 * k2)
        k4 = rate(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        R, r = _transition(R, r, state[:6], printed)
        velocity = state[6:]
    return r


def _local_rate(state: Array, R: Array, r: Array, printed: bool) -> Array:
    w, v = state[6:9], state[9:]
    turn = np.linalg.solve(integration.left_differential(integration.hat(state[:3])), w)
    now, here = _transition(R, r, state[:6], printed)
    return np.concatenate(
        [turn, v, integration.spin_up(now, w), integration.acceleration(now, here)]
    )


def _transition(R: Array, r: Array, local: Array, printed: bool) -> tuple[Array, Array]:
    return R @ integration.exp(local[:3]), r + (R @ local[3:] if printed else local[3:])


ERRATA = (
    Erratum(
        "(13), (17)",
        "`Ċ = T_L L_C V`",
        "`Ċ = T_I L_C V`, I the identity of G",
        "The index may be misread in the text available to us.",
        kind="typo",
    ),
    Erratum(
        "(31)",
        "`½ sin²(φ/2) ñ²`",
        "`2 sin²(φ/2) ñ²`",
        "(30) and S4 (2.8) are right.",
        deviation(rotation, eq_31),
    ),
    Erratum(
        "Sec. 5.2, text before (38)",
        "`‖Q‖ = p₀² + ‖p‖² = 1`",
        "`‖Q‖² = p₀² + ‖p‖² = 1`",
        "The square may be lost in the text available to us.",
        kind="typo",
    ),
    Erratum(
        "(41)",
        "`p = √(1 - σ/2) c`",
        "`p = √(σ/2) c = p₀ c`, or `√(1 - σ/2) c/‖c‖`",
        "Rotation of the normalised quaternion against `cay(c)`.",
        deviation(cayley_rotation, eq_41),
    ),
    Erratum(
        "(41), norm",
        "`‖(p₀, p)‖ = 1`",
        "as (41)",
        "The printed quaternion has unit norm only for c = 0 and ‖c‖ = 1.",
        deviation(lambda s: mp.mpf(1), eq_41_norm),
    ),
    Erratum(
        "text after (45)",
        "`ⁱv = R ṙ`",
        "`ⁱv = Rᵀ ṙ`",
        "A transpose may be lost in the text available to us.",
        deviation(linear_velocity, eq_velocity),
    ),
    Erratum(
        "(49)",
        "lower left block `½(c̃ - I) d`",
        "`½(c̃ - I) d̃`",
        "The printed block is a vector; the tilde may be lost in the text available to us. "
        "S4 (3.17) is right.",
        deviation(dcay_inverse, eq_49),
    ),
    Erratum(
        "text after (49)",
        "`V = dcay⁻¹_X Ẋ`",
        "`V = dcay_{-X} Ẋ`, `Ẋ = dcay⁻¹_{-X} V`",
        "For body-fixed twists, as in (19).",
        deviation(cayley_twist, eq_after_49),
    ),
    Erratum("(52)", "`ℝ⁶ⁿ × ℝ⁶ⁿ`", "`ℝ⁶ᴺ × ℝ⁶ᴺ`", "", kind="typo"),
    Erratum("text after (59)", "`τ_R` gives the position", "`τ_T`", "", kind="typo"),
    Erratum(
        "(62), last line",
        "`p₀ x + p̃² x`",
        "`p₀ x + p̃ x`",
        "The first two lines are right.",
        deviation(composed, eq_62),
    ),
    Erratum(
        "(66), combinations 1.b, 1.c",
        "`r′ = r + R(Q) Δr`",
        "`r′ = r + Δr`",
        "The product of SO(3)×ℝ³ (Sec. 5.1) adds positions, and its velocity (34) is `(ω, ṙ)`. "
        "RKMK4 for a body with thrust and spring, position after 1 s; `R Δr` is right on SE(3), "
        "(64) and (68), or if Δr is integrated from `R(Q)ᵀ ṙ`.",
        convergence(integration.body_end, position, 4),
    ),
    Erratum(
        "(70), combinations 2.b, 2.c",
        "`r′ = r + R(ρ) Δr`",
        "`r′ = r + Δr`",
        "As (66). 2.d uses (70) on SE(3), where it is right.",
        convergence(integration.body_end, position, 4),
    ),
    Erratum(
        "`τ_R` of 1.c, 1.d",
        "`ΔQ(c) = (√(σ/2), √(1 - σ/2) c)`",
        "`√(σ/2) (1, c)`",
        "From (41); rotation of the normalised product.",
        deviation(composed_cayley, eq_1c),
    ),
    Erratum(
        "App. A, `cos(φ/2)`, unnumbered",
        "`- ¼ sinc φ₁ sinc φ₂ x₁·x₂`",
        "`- ¼ sinc(φ₁/2) sinc(φ₂/2) x₁·x₂`",
        "(76) is right.",
        deviation(half_cosine, eq_cosine),
    ),
    Erratum(
        "(77)-(79), `τ_R` of 2.c, 2.d",
        "`√(1 - σ/2)` in β, γ and φ",
        "`√(σ/2)`",
        "From (41). ‖c‖ = 3.1 is omitted: the printed argument of arccos is outside [-1, 1].",
        deviation(composed_cayley, eq_77, SAMPLES[:4]),
    ),
)
