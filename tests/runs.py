"""Runs of the heavy top in several numbers of steps, by one program for each kind of run.

The number of steps is traced, and JAX keeps programs by the structure of their arguments. All tests
of a process that march the same formulation with the same integrator share one program.
"""

import functools

import equinox as eqx
import numpy as np
from scipy.integrate import solve_ivp

from lie_jax import Result
from lie_jax.simulation.march import march
from models import heavy_top

# Slack of observed orders: lines of the error over the step are straight to this ([S3] Fig. 3).
ORDER_SLACK = 0.05
# A top that coarse steps resolve: when it is compared (s), and a tenth of the benchmark's spin.
SLOW_DURATION = 0.5
SLOW_SPIN = np.asarray([0.0, 15.0, -4.61538])


@eqx.filter_jit
def _center_of_mass(system, q):
    return heavy_top.center_of_mass(system, q)


def top_states(formulation, integrator, counts, duration, constrained=False):
    """The heavy top, and its states after a duration (s) in each number of steps."""
    system, state = heavy_top.build(formulation, constrained=constrained)
    ends = [march(system, integrator, state, duration / n, n) for n in counts]
    assert all(bool(end.result == Result.successful) for end in ends)
    return system, [end.state for end in ends]


def top_centers(formulation, integrator, counts, duration, constrained=False):
    """Centres of mass (m) of the heavy top after a duration (s) in each number of steps."""
    system, states = top_states(formulation, integrator, counts, duration, constrained)
    return np.asarray([_center_of_mass(system, state.q) for state in states])


def top_errors(formulation, integrator, counts, duration=0.1, constrained=False):
    """Errors (m) of `top_centers` against 20 digits."""
    reference = np.asarray(heavy_top.REFERENCE[duration])
    centers = top_centers(formulation, integrator, counts, duration, constrained)
    return np.linalg.norm(centers - reference, axis=1)


def orders(errors):
    """Orders that errors of runs show, each with twice the steps of the one before."""
    return np.log2(errors[:-1] / errors[1:])


@functools.cache
def slow_top():
    """Rotation, angular velocity (rad/s) and reaction (N) of the ground on the slow top at the end,
    by Euler's equations in NumPy.
    """
    about_point = np.diag(heavy_top.INERTIA) + heavy_top.MASS * np.diag([1.0, 0.0, 1.0])
    weight = heavy_top.MASS * np.asarray(heavy_top.GRAVITY)
    arm = np.asarray(heavy_top.CENTER_OF_MASS)

    def angular(rotation, omega):
        torque = np.cross(arm, rotation.T @ weight) - np.cross(omega, about_point @ omega)
        return np.linalg.solve(about_point, torque)

    def rate(_, z):
        rotation, omega = z[:9].reshape(3, 3), z[9:]
        return np.concatenate(
            [np.cross(rotation, omega, axisb=0).ravel(), angular(rotation, omega)]
        )

    start = np.concatenate([np.eye(3).ravel(), SLOW_SPIN])
    end = solve_ivp(rate, (0, SLOW_DURATION), start, "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    rotation, omega = end[:9].reshape(3, 3), end[9:]
    moved = np.cross(angular(rotation, omega), arm) + np.cross(omega, np.cross(omega, arm))
    return rotation, omega, heavy_top.MASS * rotation @ moved - weight
