"""Truths by definition at 120 digits: series, linear systems, products and differences.

Nothing here is a closed form of any of the papers. Twists are (ω, v) as in S0 and S4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

Array = np.ndarray
mp: Any = mpmath.MPContext()  # a context of our own: nobody else can change its precision
mp.dps = 120
STEP = mp.mpf("1e-35")
TERMS = 160


@dataclass(frozen=True, eq=False)
class Sample:
    """Arguments of a formula: x is a rotation (vector or Rodrigues parameters)."""

    x: Array
    y: Array
    u: Array
    v: Array

    @property
    def X(self) -> Array:
        """The twist (x, y)."""
        return np.concatenate([self.x, self.y])

    @property
    def U(self) -> Array:
        """The twist (u, v)."""
        return np.concatenate([self.u, self.v])


def vector(*components: str | int) -> Array:
    """Numbers written in decimals, exactly."""
    return np.array([mp.mpf(c) for c in components], dtype=object)


def eye(n: int) -> Array:
    """Identity."""
    return np.eye(n).astype(object) * mp.mpf(1)


def zeros(*shape: int) -> Array:
    """Zeros."""
    return np.zeros(shape).astype(object) * mp.mpf(1)


SAMPLES = tuple(
    Sample(
        mp.mpf(size) * vector("0.36", "-0.48", "0.8"),
        vector("0.7", "-1.1", "0.4"),
        vector("-0.3", "0.9", "1.2"),
        vector("1.3", "0.2", "-0.8"),
    )
    for size in ("1e-8", "1e-3", "0.5", "2", "3.1")
)


def norm(a: Any) -> Any:
    """Frobenius norm."""
    return mp.sqrt(sum(abs(entry) ** 2 for entry in np.ravel(np.asarray(a, dtype=object))))


def hat(x: Array) -> Array:
    """Matrix of a rotation vector (3,) or of a twist (6,)."""
    if len(x) == 6:
        return np.block([[hat(x[:3]), x[3:, None]], [zeros(1, 4)]])
    zero = 0 * x[0]
    return np.array([[zero, -x[2], x[1]], [x[2], zero, -x[0]], [-x[1], x[0], zero]])


def vee(matrix: Array) -> Array:
    """Inverse of `hat`."""
    rotation = np.array([matrix[2, 1], matrix[0, 2], matrix[1, 0]])
    return rotation if len(matrix) == 3 else np.concatenate([rotation, matrix[:3, 3]])


def ad(X: Array) -> Array:
    """Lie bracket with a twist as a matrix, column by column from commutators."""
    commutators = [hat(X) @ hat(e) - hat(e) @ hat(X) for e in eye(len(X))]
    return np.stack([vee(c) for c in commutators], axis=1)


def inverse(matrix: Array) -> Array:
    """Inverse by LU decomposition."""
    return np.array((mp.matrix(matrix.tolist()) ** -1).tolist(), dtype=object)


def exponential(matrix: Array, terms: int = TERMS) -> Array:
    """Power series; of floats, too."""
    term = total = np.eye(len(matrix)).astype(matrix.dtype)
    for k in range(1, terms):
        term = term @ matrix / k
        total = total + term
        if np.max(np.abs(term)) < 1e-130:
            break
    return total


def cayley(matrix: Array) -> Array:
    """(I - A)⁻¹ (I + A)."""
    return inverse(eye(len(matrix)) - matrix) @ (eye(len(matrix)) + matrix)


def derivative(function: Callable, x: Any, direction: Any = 1) -> Any:
    """Directional derivative by central differences."""
    forward, backward = function(x + STEP * direction), function(x - STEP * direction)
    return (forward - backward) / (2 * STEP)


def differential(function: Callable, X: Array, left: bool = False) -> Array:
    """Matrix of the right- or left-trivialised differential of a coordinate map."""
    at_x, columns = inverse(function(hat(X))), []
    for e in eye(len(X)):
        change = derivative(function, hat(X), hat(e))
        columns.append(vee(at_x @ change if left else change @ at_x))
    return np.stack(columns, axis=1)


def hamilton(p: Array, q: Array) -> Array:
    """Product of quaternions from ijk = -1."""
    table = {(1, 2): (3, 1), (2, 3): (1, 1), (3, 1): (2, 1)}
    table |= {(j, i): (k, -sign) for (i, j), (k, sign) in table.items()}
    table |= {(i, i): (0, -1) for i in (1, 2, 3)}
    table |= {(i, 0): (i, 1) for i in range(4)} | {(0, i): (i, 1) for i in range(4)}
    product = zeros(4)
    for (i, j), (k, sign) in table.items():
        product[k] += sign * p[i] * q[j]
    return product


def quaternion(x: Array) -> Array:
    """Exponential of the quaternion (0, x / 2) by its power series."""
    half = np.concatenate([zeros(1), x / 2])
    return exponential(np.stack([hamilton(half, e) for e in eye(4)], axis=1))[:, 0]


def rotated(q: Array) -> Array:
    """Rotation matrix of a quaternion of any length, from q v q⁻¹."""
    conjugate = q * vector(1, -1, -1, -1) / (q @ q)
    images = [hamilton(hamilton(q, np.concatenate([zeros(1), e])), conjugate) for e in eye(3)]
    return np.stack([image[1:] for image in images], axis=1)


def sinc(x: Any) -> Any:
    """sin(x) / x for x ≠ 0."""
    return mp.sin(x) / x


def parameters(x: Array) -> tuple[Any, Any, Any, Any]:
    """α, β, γ, δ of S4 (2.4), shared by S0, S1 and S4."""
    angle = norm(x)
    alpha, beta = sinc(angle), sinc(angle / 2) ** 2
    return alpha, beta, alpha / beta, (1 - alpha) / angle**2
