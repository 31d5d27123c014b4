"""S4: exponential and Cayley map on SE(3). Twists are (ω, v)."""

from functools import cache, partial
from typing import Any

import mpmath
import numpy as np

from experiments._errata.erratum import Erratum, deviation
from experiments._errata.reference import (
    SAMPLES,
    Array,
    Sample,
    ad,
    cayley,
    derivative,
    differential,
    exponential,
    eye,
    hat,
    inverse,
    mp,
    norm,
    parameters,
    sinc,
    vector,
    zeros,
)

START = exponential(hat(vector("0.4", "-0.2", "0.9", "0.3", "1.1", "-0.6")))
DOUBLE: Any = mpmath.MPContext()
DOUBLE.prec = 53


def pairs(a: Array, b: Array) -> Array:
    """Anticommutator of skew matrices."""
    return hat(a) @ hat(b) + hat(b) @ hat(a)


def body_twist(s: Sample) -> Array:
    """`C⁻¹ Ċ` of `C = exp(X(t)) C(0)`."""
    motion = partial(_motion, s)
    return inverse(motion(mp.mpf(0))) @ derivative(motion, mp.mpf(0))


def _motion(s: Sample, t: Any) -> Array:
    return exponential(hat(s.X + t * s.U)) @ START


def eq_1_2(s: Sample, printed: bool) -> Array:
    twist = hat(differential(exponential, s.X, left=True) @ s.U)
    return twist if printed else inverse(START) @ twist @ START


def dexp(s: Sample) -> Array:
    """Right-trivialised differential on SO(3)."""
    return differential(exponential, s.x)


def eq_2_12(s: Sample, printed: bool) -> Array:
    half, factor = norm(s.x) / 2, mp.mpf("0.5") if printed else 1
    square = (1 - factor * sinc(half) * mp.cos(half)) / norm(s.x) ** 2
    return eye(3) + sinc(half) ** 2 / 2 * hat(s.x) + square * hat(s.x) @ hat(s.x)


def exp_translation(s: Sample) -> Array:
    """Translation of exp on SE(3)."""
    return exponential(hat(s.X))[:3, 3]


def eq_2_26(s: Sample, printed: bool) -> Array:
    square = norm(s.x) ** 2
    along = s.y if printed else s.x
    turned = (eye(3) - exponential(hat(s.x))) @ hat(s.x) @ s.y
    return turned / square + (s.x @ s.y) / square * along


def power(s: Sample) -> Array:
    """Directional derivative of the fourth power."""
    return derivative(partial(np.linalg.matrix_power, n=4), hat(s.x), hat(s.y))


def eq_2_35(s: Sample, printed: bool) -> Array:
    x, y = hat(s.x), hat(s.y)
    last = x @ y @ y @ y if printed else y @ x @ x @ x
    return x @ x @ x @ y + x @ x @ y @ x + x @ y @ x @ x + last


@cache
def second(s: Sample, inverted: bool) -> Array:
    """Second derivative of dexp, or of its inverse, off the diagonal."""

    def block(X: Array) -> Array:
        matrix = differential(exponential, X)
        return (inverse(matrix) if inverted else matrix)[3:, :3]

    return derivative(block, s.X, s.U)


def eq_2_49(s: Sample, printed: bool) -> Array:
    a, b, _, d = parameters(s.x)
    t, xu, xy = norm(s.x) ** 2, s.x @ s.u, s.x @ s.y
    mixed = s.x @ s.v + s.y @ s.u
    outer = d * (pairs(s.x, s.v) + pairs(s.y, s.u))
    linear = (a - b) * mixed - b / 2 * xu * xy + (1 - 5 * a + 4 * b) / t * xy * xu
    quadratic = (b / 2 - 3 * d) * mixed + (a - 7 * b / 2 + 15 * d) / t * xy * xu
    return (
        b / 2 * hat(s.v)
        + (a - b) / t * (xu * hat(s.y) + (0 if printed else xy) * hat(s.u))
        + (b / 2 - 3 * d) / t * (xu * pairs(s.x, s.y) + xy * pairs(s.x, s.u))
        + ((b / 2 - 3 * d) / t if printed else 1) * outer
        + linear / t * hat(s.x)
        + quadratic / t * hat(s.x) @ hat(s.x)
    )


def eq_2_52(s: Sample, printed: bool) -> Array:
    a, b, c, _ = parameters(s.x)
    t, xu, xy = norm(s.x) ** 2, s.x @ s.u, s.x @ s.y
    mixed, product = s.x @ s.v + s.y @ s.u, xy * xu / 4
    square = mixed * (2 + product - c - 1 / b) if printed else mixed * (2 - c - 1 / b) + product
    return (
        -hat(s.v) / 2
        + (1 - c) / t * (pairs(s.x, s.v) + pairs(s.y, s.u))
        + (1 - c if printed else 1) / t * xu / 4 * pairs(s.x, s.y)
        - (1 - c) * xu * (2 + c) / t**2 * pairs(s.x, s.y)
        - (2 - c - 1 / b) * xy / t**2 * pairs(s.x, s.u)
        - square / t**2 * hat(s.x) @ hat(s.x)
        + xy * xu * (8 - 3 * c - c**2 - 2 / b**2 * (a + b)) / t**3 * hat(s.x) @ hat(s.x)
    )


def eq_2_53(s: Sample, printed: bool) -> Array:
    a, b, c, _ = parameters(s.x)
    t, xu, xy = norm(s.x) ** 2, s.x @ s.u, s.x @ s.y
    mixed, quarter = s.x @ s.v + s.y @ s.u, mp.mpf("0.25")
    inner = (1 - c) * (quarter - (2 + c) / t) if printed else quarter - (1 - c) * (2 + c) / t
    last = (mixed if printed else 1) * quarter + (c * (3 + c) + 2 / b**2 * (a + b) - 8) / t
    return (
        -hat(s.v) / 2
        + (1 - c) / t * (pairs(s.x, s.v) + pairs(s.y, s.u))
        + xu / t * inner * pairs(s.x, s.y)
        + (c + 1 / b - 2) * xy / t**2 * pairs(s.x, s.u)
        + ((c + 1 / b - 2) * mixed - xy * xu * last) / t**2 * hat(s.x) @ hat(s.x)
    )


def coefficient(s: Sample) -> Any:
    """Directional derivative of the last coefficient of (2.40)."""

    def value(X: Array) -> Any:
        _, b, c, _ = parameters(X[:3])
        return X[:3] @ X[3:] / norm(X[:3]) ** 4 * (1 / b + c - 2)

    return derivative(value, s.X, s.U)


def eq_2_55(s: Sample, printed: bool) -> Any:
    a, b, c, _ = parameters(s.x)
    t, xu, xy = norm(s.x) ** 2, s.x @ s.u, s.x @ s.y
    mixed, product = s.x @ s.v + s.y @ s.u, xy * xu / 4
    first = mixed * (c + 1 / b - 2 - product) if printed else mixed * (c + 1 / b - 2) - product
    rest = c * (1 - c) + 2 / b**2 * (b - a) - 4 * (c + 1 / b - 2)
    return first / t**2 + xy * xu / t**3 * rest


def rotation(s: Sample) -> Array:
    """Exponential on SO(3)."""
    return exponential(hat(s.x))


def eq_3_9(s: Sample, printed: bool) -> Array:
    n, tangent = hat(s.x / norm(s.x)), mp.tan(norm(s.x) / 2)
    terms = n + n @ n if printed else tangent * n + tangent**2 * n @ n
    return eye(3) + 2 / (1 + tangent**2) * terms


def cay_adjoint(s: Sample) -> Array:
    """Lower left block of the Cayley map of `ad`."""
    return cayley(ad(s.X))[3:, :3]


def eq_3_30(s: Sample, printed: bool) -> Array:
    matrix = differential(cayley, s.x)
    first = hat(s.y) @ (hat(matrix @ s.y) if printed else matrix)
    return first + 2 / (1 + s.x @ s.x) * hat(s.x) @ hat(s.y) @ cayley(hat(s.x))


def eq_3_33(s: Sample, printed: bool) -> Array:
    minus, plus = eye(3) - hat(s.x), eye(3) + hat(s.x)
    return (minus if printed else inverse(minus)) @ hat(s.y) @ (eye(3) + inverse(minus) @ plus)


def eq_3_34(s: Sample, printed: bool) -> Array:
    minus = eye(3) - hat(s.x)
    return (minus if printed else inverse(minus)) @ hat(s.y) @ (eye(3) + cayley(hat(s.x)))


def in_double(s: Sample, printed: bool) -> Array:
    """(2.13) by 53 bits."""
    x = np.array([DOUBLE.mpf(c) for c in s.x], dtype=object)
    angle, one = DOUBLE.norm(x.tolist()), np.eye(3).astype(object)
    if printed:
        n, half = hat(x / angle), DOUBLE.sin(angle / 2) / (angle / 2)
        alpha = half * DOUBLE.cos(angle / 2)
        return one + half**2 / 2 * hat(x) + (1 - alpha) * n @ n
    c2 = sum((-(angle**2)) ** j / DOUBLE.factorial(2 * j + 2) for j in range(20))
    c3 = sum((-(angle**2)) ** j / DOUBLE.factorial(2 * j + 3) for j in range(20))
    return one + c2 * hat(x) + c3 * hat(x) @ hat(x)


def dexp_inverse(s: Sample) -> Array:
    """Inverse of the differential on SE(3)."""
    return inverse(differential(exponential, s.X))


def in_double_2_46(s: Sample, printed: bool) -> Array:
    """(2.46) by 53 bits."""
    X = np.array([DOUBLE.mpf(c) for c in s.X], dtype=object)
    one, matrix, t = np.eye(6).astype(object), ad(X), sum(X[:3] ** 2)
    half = DOUBLE.sqrt(t) / 2
    if printed:
        a, b = DOUBLE.sin(2 * half) / (2 * half), (DOUBLE.sin(half) / half) ** 2
        c2, c4 = (2 - (1 + 3 * a) / (2 * b)) / t, (1 - (1 + a) / (2 * b)) / t**2
        square = matrix @ matrix
        return one - matrix / 2 + c2 * square + c4 * square @ square
    term = total = one
    for k in range(1, 120):
        term = term @ matrix / k
        total = total + DOUBLE.bernoulli(k) * term
    return total


ORIGIN = Sample(zeros(3), SAMPLES[0].y, SAMPLES[0].u, SAMPLES[0].v)

ERRATA = (
    Erratum(
        "(1.2), Vᵇ",
        "`Vᵇ = dexp_{-X}(Ẋ)` for `C = exp(X) C(0)`",
        "`Vᵇ = Ad⁻¹(C(0)) dexp_{-X}(Ẋ)`",
        "The printed form belongs to `C = C(0) exp(X)`. (1.5) has the same error for cay.",
        deviation(body_twist, eq_1_2),
    ),
    Erratum(
        "(2.3)",
        "`exp⁻¹`",
        "`dexp⁻¹`",
        "The d may be lost in the text available to us.",
        kind="typo",
    ),
    Erratum(
        "(2.12)",
        "last bracket `1 - ½ sinc(‖x‖/2) cos(‖x‖/2)`",
        "`1 - sinc(‖x‖/2) cos(‖x‖/2)`",
        "(2.9), (2.11) and (2.13) are right.",
        deviation(dexp, eq_2_12),
    ),
    Erratum(
        "text after (2.13), (2.27)",
        "with `n = x/‖x‖` the forms (2.11), (2.13), (2.27) are numerically stable",
        "series of `(1 - α)/‖x‖²` around 0",
        "True for x ≠ 0. At x = 0 it is 0/0; a branch there repairs the value, but not "
        "automatic derivatives. In double precision.",
        deviation(dexp, in_double, (*SAMPLES, ORIGIN), 1e-15, "0/0 at x = 0"),
        "misleading",
    ),
    Erratum(
        "(2.26)",
        "translation `(I - R) x̃y/‖x‖² + h y`",
        "`(I - R) x̃y/‖x‖² + h x`, `h = x·y/‖x‖²`",
        "(2.25), (2.27) and S1 (10b) are right.",
        deviation(exp_translation, eq_2_26),
    ),
    Erratum(
        "(2.35)",
        "last term `(x̃ + tỹ) ỹⁱ⁻¹`",
        "`ỹ (x̃ + tỹ)ⁱ⁻¹`",
        "Evaluated for i = 4. (2.34) is right.",
        deviation(power, eq_2_35),
    ),
    Erratum(
        "text after (2.46)",
        "(2.46) is numerically stable without separating x = 0",
        "series, e.g. (2.3), around 0",
        "0/0 at x = 0, and `1 - (1 + α)/(2β)` divided by `‖x‖⁴` loses digits near it. In double "
        "precision.",
        deviation(dexp_inverse, in_double_2_46, (*SAMPLES, ORIGIN), 1e-13, "0/0 at x = 0"),
        "misleading",
    ),
    Erratum(
        "(2.49)",
        "no term with `ũ`; `δ(x̃ṽ + ṽx̃ + ỹũ + ũỹ)` inside the bracket with factor `(β/2 - 3δ)/‖x‖²`",
        "`+ (α - β)/‖x‖² (x·y) ũ`; `δ(…)` outside that bracket",
        "(2.48), from which it is derived, is right.",
        deviation(partial(second, inverted=False), eq_2_49),
    ),
    Erratum(
        "(2.52)",
        "`(1 - γ)/‖x‖² · ¼(x·u)(x̃ỹ + ỹx̃)`; `(x·v + y·u)(2 + ¼(x·y)(x·u) - γ - 1/β) x̃²`",
        "`1/‖x‖² · ¼(x·u)(x̃ỹ + ỹx̃)`; `[(x·v + y·u)(2 - γ - 1/β) + ¼(x·y)(x·u)] x̃²`",
        "Two misplaced brackets; the second comes from (2.55).",
        deviation(partial(second, inverted=True), eq_2_52),
    ),
    Erratum(
        "(2.53)",
        "`(1 - γ)/‖x‖² (x·u)[¼ - (2 + γ)/‖x‖²]`; last bracket `¼(x·v + y·u) + …`",
        "`(x·u)/‖x‖² [¼ - (1 - γ)(2 + γ)/‖x‖²]`; last bracket `¼ + …`",
        "As (2.52).",
        deviation(partial(second, inverted=True), eq_2_53),
    ),
    Erratum(
        "(2.55)",
        "`(x·v + y·u)(γ + 1/β - 2 - ¼(x·y)(x·u))/‖x‖⁴`",
        "`[(x·v + y·u)(γ + 1/β - 2) - ¼(x·y)(x·u)]/‖x‖⁴`",
        "",
        deviation(coefficient, eq_2_55),
    ),
    Erratum("(2.58)", "dot and prime on `Ad_C`", "prime only", "", kind="typo"),
    Erratum("text after (3.8)", "`x = tan(φ/2) ñ`", "`x = tan(φ/2) n`", "", kind="typo"),
    Erratum(
        "(3.9), second equality",
        "`I + 2/(1 + tan²(φ/2)) (ñ + ñ²)`",
        "`I + 2/(1 + tan²(φ/2)) (tan(φ/2) ñ + tan²(φ/2) ñ²)`",
        "",
        deviation(rotation, eq_3_9),
    ),
    Erratum(
        "(3.30)",
        "`ỹ dcay_X(ỹ) + σ x̃ỹR`",
        "`ỹ dcay_x + σ x̃ỹR` with the 3×3 matrix `dcay_x = σ(I + x̃)`",
        "The last line of (3.35) is right.",
        deviation(cay_adjoint, eq_3_30),
    ),
    Erratum(
        "(3.32)",
        "`Σ` in front of the block matrix",
        "no sum",
        "",
        kind="typo",
    ),
    Erratum(
        "(3.33), second line",
        "`(I - x̃) ỹ (I + (I - x̃)⁻¹(I + x̃))`",
        "`(I - x̃)⁻¹ ỹ (I + (I - x̃)⁻¹(I + x̃))`",
        "The exponent may be lost in the text available to us.",
        deviation(cay_adjoint, eq_3_33),
    ),
    Erratum(
        "(3.34)",
        "`(I - x̃) ỹ (I + R)`",
        "`(I - x̃)⁻¹ ỹ (I + R)`",
        "As (3.33).",
        deviation(cay_adjoint, eq_3_34),
    ),
)
