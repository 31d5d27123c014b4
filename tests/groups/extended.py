"""Formulas of the maps in NumPy's extended precision."""

from fractions import Fraction
from math import comb, factorial

import numpy as np

EXTENDED = np.longdouble
PI = 4 * np.arctan(EXTENDED(1))


def dot(a, b):
    return np.sum(a * b, axis=-1)


def hat(x):
    zero = np.zeros_like(x[..., 0])
    a, b, c = np.moveaxis(x, -1, 0)
    rows = [[zero, -c, b], [c, zero, -a], [-b, a, zero]]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def apply(a, x):
    return np.sum(a * x[..., None, :], axis=-1)


def _bernoulli(count):
    """The first Bernoulli numbers, exactly."""
    numbers = [Fraction(1)]
    for m in range(1, count):
        numbers.append(-sum(comb(m + 1, k) * b for k, b in enumerate(numbers)) / (m + 1))
    return numbers


def _extended(number: Fraction):
    return EXTENDED(str(number.numerator)) / EXTENDED(str(number.denominator))


# Of E in t: |B₂ₖ| / (2 k)!.
E_SERIES = [_extended(abs(b) / factorial(2 * k)) for k, b in enumerate(_bernoulli(62)[::2]) if k]


def _series(t, coefficients):
    total = np.zeros_like(t)
    for c in reversed(coefficients):
        total = total * t + c
    return total


def stumpff(t):
    """c₀ to c₅ of t = θ²."""
    small = t < 4
    near = np.where(small, t, 0)
    values = [
        _series(near, [EXTENDED((-1) ** j) / factorial(2 * j + k) for j in range(18)])
        for k in range(6)
    ]
    far = np.where(small, EXTENDED(4), t)
    theta = np.sqrt(far)
    # By half angles where a difference from one would cancel next to 2π.
    closed = [np.cos(theta), np.sin(theta) / theta, 2 * np.sin(theta / 2) ** 2 / far]
    closed.append((1 - closed[1]) / far)
    closed.append((EXTENDED(1) / 2 - closed[2]) / far)
    closed.append((EXTENDED(1) / 6 - closed[3]) / far)
    return [np.where(small, a, b) for a, b in zip(values, closed, strict=True)]


def e_and_rate(t):
    """E and 2 E' of t = θ²."""
    small = t < 4
    near = np.where(small, t, 0)
    first = [2 * k * c for k, c in enumerate(E_SERIES)][1:]
    far = np.where(small, EXTENDED(4), t)
    theta = np.sqrt(far)
    sine, cosine = np.sin(theta / 2), np.cos(theta / 2)
    gamma = theta / 2 * cosine / sine
    slope = (cosine / sine / 2 - theta / 4 / sine**2) / theta
    value = (1 - gamma) / far
    return (
        np.where(small, _series(near, E_SERIES), value),
        np.where(small, _series(near, first), -slope / far - 2 * value / far),
    )


def _square(x, y):
    # x̃ỹ + ỹx̃
    outer = x[..., :, None] * y[..., None, :]
    both = outer + np.swapaxes(outer, -1, -2)
    return both - 2 * dot(x, y)[..., None, None] * np.eye(3)


def _sum(*terms):
    return sum(c[..., None, None] * a if np.ndim(c) else c * a for c, a in terms)


def blocks(a, b, d):
    top = np.concatenate([a, b], -1)
    return np.concatenate([top, np.concatenate([np.zeros_like(a), d], -1)], -2)


def truth(x, y, u, z):
    """Values of the maps at the rotation vector x, the translation y, along u, and of z."""
    t = dot(x, x)
    _, c1, c2, c3, c4, c5 = stumpff(t)
    e, e1 = e_and_rate(t)
    eye, skew, square = np.eye(3, dtype=EXTENDED), hat(x), _square(x, x) / 2

    def dexp_along(y):
        rates = dot(x, y) * (2 * c4 - c3), dot(x, y) * (3 * c5 - c4)
        return _sum((c2, hat(y)), (rates[0], skew), (c3, _square(x, y)), (rates[1], square))

    def dexp_inv_along(y):
        return _sum((-0.5, hat(y)), (e, _square(x, y)), (dot(x, y) * e1, square))

    exp = eye + _sum((c1, skew), (c2, square))
    dexp = eye + _sum((c2, skew), (c3, square))
    dexp_inv = eye + _sum((-0.5, skew), (e, square))
    halves = stumpff(t / 4)
    scalar, ratio = np.cos(np.sqrt(t) / 2), halves[1] / 2
    s = 2 / (1 + t)
    cay = eye + _sum((s, skew + square))
    dcay = _sum((s, eye + skew))
    slope = -s * s * dot(x, u)
    unit = np.sqrt(1 + t)[..., None]
    return {
        "so3.exp": exp,
        "so3.dexp": dexp,
        "so3.dexp_inv": dexp_inv,
        "so3.dexp_apply": apply(dexp, z),
        "so3.dexp_inv_apply": apply(dexp_inv, z),
        "so3.ddexp": dexp_along(u),
        "so3.ddexp_inv": dexp_inv_along(u),
        "so3.cay": cay,
        "so3.dcay": dcay,
        "so3.dcay_inv": (eye - skew + x[..., :, None] * x[..., None, :]) / 2,
        "so3.ddcay": _sum((slope, eye + skew), (s, hat(u))),
        "so3.dcay2": _sum((2 * s, cay)),
        "so3.dcay2_inv": _sum((1 / (2 * s), np.swapaxes(cay, -1, -2))),
        "so3.cay2": cay @ cay,
        "quaternion.exp": np.concatenate([scalar[..., None], ratio[..., None] * x], -1),
        "quaternion.cay": np.concatenate([np.ones_like(t)[..., None], x], -1) / unit,
        "se3.exp": apply(dexp, y),
        "se3.dexp": dexp_along(y),
        "se3.dexp_inv": dexp_inv_along(y),
        "se3.dexp_apply": apply(dexp_along(y), z),
        "se3.dexp_inv_apply": apply(dexp_inv_along(y), z),
        "se3.cay": y + apply(cay, y),
        "se3.dcay": hat(y) @ dcay,
        "se3.dcay_inv": -(eye - skew) @ hat(y) / 2,
        "adjoint.cay": apply(dcay, y),
        "E": e,
    }
