"""Coefficients of implicit Runge-Kutta methods: Gauss, Radau IIA and a diagonally implicit one.

Sources: Hairer and Wanner, "Solving Ordinary Differential Equations II" (1996), IV.5 for Gauss and
Radau IIA, IV.6 Table 6.5 for the diagonally implicit one, IV.8 for the estimate of Radau IIA's
error.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Coefficients = Float[np.ndarray, "s"]


class Estimate(NamedTuple):
    """Error h (start k₀ + Σ weights_i k_i) of a method, by the rates k₀ at the start of the step
    and k_i of the stages, and the lower order of the two methods.

    With a `start` the error is multiplied by (1 - h start J)⁻¹, J the Jacobian of the rates at the
    start: without, stiff components would dominate it.
    """

    weights: Coefficients
    order: int
    start: float = 0.0


class Tableau(NamedTuple):
    """Coefficients a (s, s), weights b and nodes c, order, and the estimate of the error if any.

    A method whose last row of `a` is b ends at its last stage, where constraints hold exactly.
    """

    a: Float[np.ndarray, "s s"]
    b: Coefficients
    c: Coefficients
    order: int
    estimate: Estimate | None = None

    @property
    def stiffly_accurate(self) -> bool:
        """Whether the method ends at its last stage."""
        return bool(np.all(self.a[-1] == self.b))

    @property
    def diagonal(self) -> float | None:
        """The diagonal of a lower triangular `a`, whose stages follow one after the other."""
        return None if np.any(np.triu(self.a, 1)) else float(self.a[0, 0])


def _collocation(c: Coefficients) -> np.ndarray:
    """Row i integrates every polynomial of degree below s from 0 to c_i exactly."""
    powers = np.arange(len(c))
    return (c[:, None] ** (powers + 1) / (powers + 1)) @ np.linalg.inv(c[:, None] ** powers)


def _gauss(stages: int) -> Tableau:
    nodes, weights = np.polynomial.legendre.leggauss(stages)
    c = (nodes + 1.0) / 2.0
    return Tableau(_collocation(c), weights / 2.0, c, 2 * stages)


def _radau(c: Coefficients, start: float) -> Tableau:
    a, s = _collocation(c), len(c)
    # With the start as another node of this weight, and the order s.
    powers = np.arange(s)
    moments = 1.0 / (powers + 1) - start * (powers == 0)
    weights = np.linalg.solve((c[:, None] ** powers).T, moments)
    return Tableau(a, a[-1], c, 2 * s - 1, Estimate(weights - a[-1], s, start))


def _diagonally_implicit() -> Tableau:
    a = np.array(
        [
            [1 / 4, 0, 0, 0, 0],
            [1 / 2, 1 / 4, 0, 0, 0],
            [17 / 50, -1 / 25, 1 / 4, 0, 0],
            [371 / 1360, -137 / 2720, 15 / 544, 1 / 4, 0],
            [25 / 24, -49 / 48, 125 / 16, -85 / 12, 1 / 4],
        ]
    )
    embedded = np.array([59 / 48, -17 / 96, 225 / 32, -85 / 12, 0])
    return Tableau(a, a[-1], np.sum(a, axis=1), 4, Estimate(embedded - a[-1], 3))


_ROOT = math.sqrt(6.0)
TABLEAUX = {
    "gauss2": _gauss(1),
    "gauss4": _gauss(2),
    "gauss6": _gauss(3),
    # The moduli of the eigenvalues of `a`; for three stages its real one.
    "radau3": _radau(np.array([1.0 / 3.0, 1.0]), 1.0 / _ROOT),
    "radau5": _radau(
        np.array([(4.0 - _ROOT) / 10.0, (4.0 + _ROOT) / 10.0, 1.0]),
        1.0 / (3.0 + 3.0 ** (2.0 / 3.0) - 3.0 ** (1.0 / 3.0)),
    ),
    "sdirk4": _diagonally_implicit(),
}
