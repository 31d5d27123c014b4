"""S1: exponential map and tableaux. Twists are (v, ω)."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from experiments._errata.erratum import Erratum, deviation
from experiments._errata.integration import convergence, exp, runge_kutta
from experiments._errata.reference import (
    Array,
    Sample,
    exponential,
    eye,
    hat,
    mp,
    norm,
)

Rows = Sequence[Sequence[float]]


def rotation(s: Sample) -> Array:
    """Exponential on SO(3)."""
    return exponential(hat(s.x))


def eq_11(s: Sample, printed: bool) -> Array:
    angle = norm(s.x)
    square = (1 if printed else 2) * mp.sin(angle / 2) ** 2 / angle**2
    return eye(3) + mp.sin(angle) / angle * hat(s.x) + square * hat(s.x) @ hat(s.x)


def velocity(t: float, Y: Array) -> Array:
    """A field on SO(3) that depends on time and on place: Ẏ = velocity~ Y as in (26)."""
    return np.array([np.cos(2 * t) + Y[0, 1], 1.5 * Y[2, 0] - t, 0.8 + Y[1, 1] * Y[0, 2]])


def rate(state: Array) -> Array:
    """Flat equation for (Y, t)."""
    Y = state[:9].reshape(3, 3)
    return np.append(np.stack([np.cross(velocity(state[9], Y), c) for c in Y.T], axis=1), 1.0)


@cache
def rotation_end() -> Array:
    """Y at t = 1."""
    start = np.append(np.eye(3), 0.0)
    return runge_kutta(rate, start, 4000)[:9].reshape(3, 3)


def crouch_grossman(
    nodes: Sequence[float], rows: Rows, weights: Sequence[float], steps: int
) -> Array:
    """(28) from t = 0 to 1."""
    Y, h = np.eye(3), 1.0 / steps
    for n in range(steps):
        stages: list[Array] = []
        for node, row in zip(nodes, rows, strict=True):
            stages.append(velocity((n + node) * h, _move(Y, row, stages, h)))
        Y = _move(Y, weights, stages, h)
    return Y


def _move(Y: Array, weights: Sequence[float], stages: Sequence[Array], h: float) -> Array:
    for weight, stage in zip(weights, stages, strict=True):
        Y = exp(h * weight * stage) @ Y
    return Y


def cg3(steps: int, printed: bool) -> Array:
    """Table I(a)."""
    first = 3 / 24 if printed else 3 / 4
    rows = [[], [first], [119 / 216, 17 / 108]]
    return crouch_grossman([0, 3 / 4, 17 / 24], rows, [13 / 51, -2 / 3, 24 / 17], steps)


def cg4(steps: int, printed: bool) -> Array:
    """Table I(b)."""
    return crouch_grossman(*(CG4_PRINTED if printed else CG4), steps)


CG4_PRINTED = (
    [0, 1458 / 1783, 743 / 1925, 368 / 1135, 406 / 463],
    [
        [],
        [1458 / 1783],
        [1039 / 3247, 97 / 1470],
        [997 / 1082, 1167 / 2335, -475 / 433],
        [173 / 487, 751 / 3141, 547 / 393, -680 / 613],
    ],
    [407 / 2969, -135 / 7349, 543 / 734, -267 / 1400, 696 / 2095],
)
# Jackiewicz, Marthinsen and Owren (2000)
CG4_ROWS = (
    [],
    [0.8177227988124852],
    [0.3199876375476427, 0.0659864263556022],
    [0.9214417194464946, 0.4997857776773573, -1.0969984448371582],
    [0.3552358559023322, 0.2390958372307326, 1.3918565724203246, -1.1092979392113465],
)
CG4_WEIGHTS = [
    0.1370831520630755,
    -0.0183698531564020,
    0.7397813985370780,
    -0.1907142565505889,
    0.3322195591068374,
]
CG4 = ([sum(row) for row in CG4_ROWS], CG4_ROWS, CG4_WEIGHTS)
PROBLEM = "A time-dependent field on SO(3) from t = 0 to 1, distance of rotation matrices"

ERRATA = (
    Erratum(
        "(11)",
        "`sin²(‖ω‖/2)/‖ω‖² [ω]²`",
        "`2 sin²(‖ω‖/2)/‖ω‖² [ω]²`",
        "(12) is right. The text available to us may have lost a 2 below ‖ω‖².",
        deviation(rotation, eq_11),
    ),
    Erratum(
        "Table I(a), CG3",
        "`a₂₁ = 3/24`",
        "`a₂₁ = 3/4 = c₂`",
        f"{PROBLEM}. Perhaps only the text available to us has 3/24: row sums require 3/4, and "
        "the caption states order 3.",
        convergence(rotation_end, cg3, 3),
    ),
    Erratum(
        "Table I(b), CG4",
        "rational coefficients",
        "decimals of Jackiewicz, Marthinsen and Owren, `a₂₁ = 0.8177227988124852`, …",
        f"{PROBLEM}. The rational numbers are approximations: errors stop falling. "
        "The fractions were reconstructed from a corrupted text.",
        convergence(rotation_end, cg4, 4, (64, 128)),
        "inaccurate",
    ),
    Erratum(
        "(39d)",
        "sum to `i - 1`",
        "sum to `s`",
        "",
        kind="typo",
    ),
    Erratum(
        "(44c), (44d)",
        "`q̇ = q̇`, `q̇ = K_q`",
        "`d/dt q = q̇`, `q̈ = K_q`",
        "A dot may be lost in the text available to us.",
        kind="typo",
    ),
)
