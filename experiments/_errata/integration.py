"""Small integrations in double precision: where an error shows in the order of convergence."""

from collections.abc import Callable, Sequence

import numpy as np

from experiments._errata.erratum import Convergence
from experiments._errata.reference import exponential

Array = np.ndarray
INERTIA = np.diag([1.0, 1.7, 0.6])
TERMS = 25
# State of a body: rotation matrix (9), position, body-fixed angular velocity, velocity.
START = np.array([1.0, 0, 0, 0, 1, 0, 0, 0, 1, 0.2, -0.1, 0.3, 0.9, -0.5, 1.4, 0.4, 0.7, -0.2])


def hat(x: Array) -> Array:
    """Skew matrix."""
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


def exp(x: Array) -> Array:
    """Rotation matrix."""
    return exponential(hat(x), TERMS)


def left_differential(bracket: Array) -> Array:
    """Σ (-ad)ᵏ / (k + 1)!: velocity from the rate of the increment."""
    term = total = np.eye(len(bracket))
    for k in range(1, TERMS):
        term = -term @ bracket / (k + 1)
        total = total + term
    return total


def torque(R: Array) -> Array:
    """Of a weight on a lever, body-fixed."""
    return np.cross([0.3, -0.2, 0.5], R.T @ [0.0, 0.0, -4.0])


def acceleration(R: Array, r: Array) -> Array:
    """Of a body-fixed thrust and a spring, inertial."""
    return R @ [0.5, 1.0, -0.7] - 2.0 * r


def spin_up(R: Array, w: Array) -> Array:
    """Angular acceleration of the body from Euler's equation."""
    return np.linalg.solve(INERTIA, torque(R) - np.cross(w, INERTIA @ w))


def body_rate(y: Array) -> Array:
    """Derivative of the flat state: the equations themselves, without any Lie group."""
    R, r, w, v = y[:9].reshape(3, 3), y[9:12], y[12:15], y[15:]
    return np.concatenate([(R @ hat(w)).ravel(), v, spin_up(R, w), acceleration(R, r)])


def runge_kutta(rate: Callable, y: Array, steps: int) -> Array:
    """The classical method from t = 0 to 1."""
    h = 1.0 / steps
    for _ in range(steps):
        k1 = rate(y)
        k2 = rate(y + h / 2 * k1)
        k3 = rate(y + h / 2 * k2)
        k4 = rate(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def convergence(
    truth: Callable[[], Array],
    method: Callable[[int, bool], Array],
    order: int,
    steps: Sequence[int] = (10, 20, 40, 80),
) -> Callable[[], Convergence]:
    """Errors of `method(steps, printed)` for both values of `printed`."""

    def evaluate() -> Convergence:
        end = truth()
        errors = [
            tuple(float(np.linalg.norm(method(n, printed) - end)) for n in steps)
            for printed in (True, False)
        ]
        return Convergence(tuple(steps), errors[0], errors[1], order)

    return evaluate


def body_end() -> Array:
    """Position of the body at t = 1."""
    return runge_kutta(body_rate, START, 2000)[9:12]
