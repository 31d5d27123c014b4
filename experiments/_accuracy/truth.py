"""Maps of SO(3) and SE(3) and their first two derivatives in multiple-precision arithmetic.

Everything is built on the power series of the Stumpff functions, which converge for every angle,
so that no formula changes its form anywhere. Vectors and matrices are NumPy arrays of `mpf`; they
stand to the left of scalars because `mpf` looks at an array at length before it leaves the product
to NumPy.
"""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

MP: Any = mpmath.mp.clone()
MP.dps = 100
# Forward differences of first and second order are off by O(STEP); their rounding errors are
# 1e-100 divided by STEP and STEP².
STEP = MP.mpf("1e-30")

Maps = dict[str, np.ndarray]


def vector(values: Any) -> np.ndarray:
    """The floating-point numbers as they are, without rounding."""
    return np.asarray([MP.mpf(float(v)) for v in np.ravel(values)], dtype=object)


def _stumpff_4_and_5(t: Any) -> tuple[Any, Any]:
    """c_k(t) = Σ (-t)ʲ / (2j + k)! for k = 4, 5."""
    sums = []
    for k in (4, 5):
        total = term = MP.one / MP.factorial(k)
        j = 0
        while abs(term) > MP.eps * abs(total):
            j += 1
            term = -term * t / ((2 * j + k - 1) * (2 * j + k))
            total += term
        sums.append(total)
    return sums[0], sums[1]


def _hat(x: np.ndarray) -> np.ndarray:
    zero = MP.zero
    return np.asarray([[zero, -x[2], x[1]], [x[2], zero, -x[0]], [-x[1], x[0], zero]], dtype=object)


_EYE = np.asarray([[MP.mpf(i == j) for j in range(3)] for i in range(3)], dtype=object)
_ZERO = _EYE * MP.zero


class _Rotation:
    """The maps of SO(3) at a rotation vector, and what those of SE(3) need of them."""

    def __init__(self, x: np.ndarray):
        t = x @ x
        c4, c5 = _stumpff_4_and_5(t)
        self.x, self.c2, self.c3 = x, MP.one / 2 - t * c4, MP.one / 6 - t * c5
        # d c_k / dt = (k c_(k+2) - c_(k+1)) / 2
        self.dc2, self.dc3 = (2 * c4 - self.c3) / 2, (3 * c5 - c4) / 2
        self.skew = _hat(x)
        self.square = np.outer(x, x) - _EYE * t
        self.exp = _EYE + self.skew * (1 - t * self.c3) + self.square * self.c2
        self.dexp = _EYE + self.skew * self.c2 + self.square * self.c3
        ratio = (self.c3 - 2 * c4) / (2 * self.c2)
        self.dexp_inv = _EYE - self.skew / 2 + self.square * ratio

    def ddexp(self, y: np.ndarray) -> np.ndarray:
        """Derivative of dexp along y: the coupling of translation and rotation in SE(3)."""
        xy = self.x @ y
        mixed = np.outer(self.x, y) + np.outer(y, self.x) - _EYE * (2 * xy)
        change = self.skew * self.dc2 + self.square * self.dc3
        return _hat(y) * self.c2 + mixed * self.c3 + change * (2 * xy)


def maps(twist: np.ndarray) -> Maps:
    """All maps at a twist (translation first), flattened; those of SO(3) at its rotation."""
    y, rotation = twist[:3], _Rotation(twist[3:])
    coupling = rotation.ddexp(y)
    dexp_inv = rotation.dexp_inv
    position = rotation.dexp @ y
    return {
        "SO(3) exp": rotation.exp.ravel(),
        "SO(3) dexp": rotation.dexp.ravel(),
        "SO(3) dexp⁻¹": dexp_inv.ravel(),
        "SE(3) exp": np.concatenate([rotation.exp.ravel(), position]),
        "SE(3) dexp": _upper(rotation.dexp, coupling),
        "SE(3) dexp⁻¹": _upper(dexp_inv, -dexp_inv @ coupling @ dexp_inv),
        "SE(3) Ad exp": _upper(rotation.exp, _hat(position) @ rotation.exp),
    }


def inverse_maps_past_pi(twist: np.ndarray) -> Maps:
    """dexp⁻¹ at the other logarithm of exp(twist), with the rotation angle 2π - θ."""
    y, x = twist[:3], twist[3:]
    other = _Rotation(x * (1 - 2 * MP.pi / MP.sqrt(x @ x)))
    moved = np.concatenate([other.dexp_inv @ (_Rotation(x).dexp @ y), other.x])
    return {name: value for name, value in maps(moved).items() if "dexp⁻¹" in name}


def _upper(diagonal: np.ndarray, corner: np.ndarray) -> np.ndarray:
    return np.block([[diagonal, corner], [_ZERO, diagonal]]).ravel()


def rotation_of(x: np.ndarray) -> np.ndarray:
    """Rotation matrix (3, 3) of a rotation vector."""
    return _Rotation(x).exp


def nearest_rotation(matrix: np.ndarray) -> np.ndarray:
    """Orthogonal polar factor of a matrix that is a rotation up to rounding."""
    r = matrix
    # Newton's iteration doubles the digits; the first start has at least six.
    for _ in range(6):
        cofactors = np.asarray([np.cross(r[i - 2], r[i - 1]) for i in range(3)], dtype=object)
        r = (r + cofactors / (r[0] @ cofactors[0])) / 2
    return r


def quaternion_of(rotation: np.ndarray) -> np.ndarray:
    """A unit quaternion of a rotation matrix, scalar first."""
    r = rotation
    trace = r[0, 0] + r[1, 1] + r[2, 2]
    axial = np.asarray([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]], dtype=object)
    block = r + r.T + _EYE * (1 - trace)
    rows = [np.concatenate([[1 + trace], axial])]
    rows += [np.concatenate([[axial[i]], block[i]]) for i in range(3)]
    return unit(max((row for row in rows), key=lambda row: row @ row))


def unit(q: np.ndarray) -> np.ndarray:
    """The vector divided by its norm."""
    return q / MP.sqrt(q @ q)


def log_maps(q: np.ndarray, p: np.ndarray, other_sheet: bool) -> Callable[[np.ndarray], Maps]:
    """The function d ↦ log(T exp d) for the pose T of a unit quaternion and a position.

    The rotation vector is the principal one or, on the other sheet, that of 2π minus the angle.
    """
    rotation = _rotation_of_quaternion(q)
    sign = -1 if (q[0] < 0) != other_sheet else 1

    def evaluate(d: np.ndarray) -> Maps:
        y, x = d[:3], d[3:]
        half = MP.sqrt(x @ x) / 2
        increment = np.concatenate([[MP.cos(half)], x * (MP.sinc(half) / 2)])
        v = sign * _multiply(q, increment)
        norm = MP.sqrt(v[1:] @ v[1:])
        ratio = MP.atan2(norm, v[0]) / norm if norm else 1 / v[0]
        log = v[1:] * (2 * ratio)
        moved = p + rotation @ (_Rotation(x).dexp @ y)
        return {
            "SO(3) log": log,
            "SE(3) log": np.concatenate([_Rotation(log).dexp_inv @ moved, log]),
        }

    return evaluate


def _multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    vector_part = b[1:] * a[0] + a[1:] * b[0] + _hat(a[1:]) @ b[1:]
    return np.concatenate([[a[0] * b[0] - a[1:] @ b[1:]], vector_part])


def _rotation_of_quaternion(q: np.ndarray) -> np.ndarray:
    skew = _hat(q[1:])
    return _EYE + 2 * (skew * q[0] + skew @ skew)


def with_derivatives(function: Callable[[np.ndarray], Maps], x: np.ndarray) -> dict[str, list]:
    """Value (m,), Jacobian (m, n) and Hessian (m, n, n) of each map; n = 3 on SO(3)."""
    n = len(x)

    def at(*directions: int) -> Maps:
        moved = x.copy()
        for i in directions:
            moved[i] = moved[i] + STEP
        return function(moved)

    centre, ahead = function(x), [at(i) for i in range(n)]
    pairs = {(i, j): at(i, j) for i in range(n) for j in range(i, n)}
    result = {}
    for name, value in centre.items():
        first = np.stack([(ahead[i][name] - value) / STEP for i in range(n)], axis=-1)
        second = np.empty((len(value), n, n), dtype=object)
        for (i, j), both in pairs.items():
            change = both[name] - ahead[i][name] - ahead[j][name] + value
            second[:, i, j] = second[:, j, i] = change / STEP**2
        rotation = slice(3, 6) if name.startswith("SO(3)") else slice(0, 6)
        result[name] = [value, first[:, rotation], second[:, rotation, rotation]]
    return result
