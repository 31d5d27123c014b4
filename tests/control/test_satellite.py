"""The satellite with wheels obeys the equation of a gyrostat, and without them Euler's."""

import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import lie_jax
from models import satellite

DT, STEPS = 0.02, 50
OMEGA = (0.3, -0.5, 0.4)
INPUTS = 0.05 * np.sin(np.arange(STEPS)[:, None] + np.asarray([0.3, 1.9, 4.0, 2.5]))
# Steps of RKMK4 are exact to some 1e-12 here; wheels turn at 260 rad/s, with 1e-13 of rounding.
EXACT = 1e-10


def _gyrostat_inertia(axes):
    """Of all bodies about their common centre of mass, without the wheels' axial inertias."""
    eye, mass, radius = np.eye(3), satellite.WHEEL_MASS, satellite.WHEEL_RADIUS
    center = mass * radius * axes.sum(axis=0)
    across = sum(eye - np.outer(a, a) for a in axes)
    total = satellite.MASS + mass * len(axes)
    return (
        np.asarray(satellite.INERTIA)
        + (satellite.WHEEL_TRANSVERSE_INERTIA + mass * radius**2) * across
        - (center @ center * eye - np.outer(center, center)) / total
    )


def _integrated(inertia, axes, momenta):
    """Angular velocities (steps + 1, 3) of J ω̇ + ω × (J ω + Aᵀh) = -Aᵀu, ḣ = u."""

    def rate(_, y, u):
        omega, h = y[:3], y[3:]
        torque = -np.cross(omega, inertia @ omega + h @ axes) - u @ axes
        return np.concatenate([np.linalg.solve(inertia, torque), u])

    y, rows = np.concatenate([OMEGA, momenta]), [np.asarray(OMEGA)]
    for u in INPUTS[:, : len(axes)]:
        y = solve_ivp(rate, (0, DT), y, "DOP853", args=(u,), rtol=1e-12, atol=1e-13).y[:, -1]
        rows.append(y[:3])
    return np.asarray(rows)


def _gyro(system, state, wheels):
    inputs = jnp.asarray(INPUTS[:, :wheels])
    trajectory = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=DT, steps=STEPS, inputs=inputs
    )
    return np.asarray(satellite.gyro(trajectory))


def test_wheels_turn_the_satellite_as_a_gyrostat():
    axes, n = np.asarray(satellite.PYRAMID), 4
    inertias, speeds = np.linspace(5e-4, 7e-4, n), np.linspace(260.0, -200.0, n)
    momenta = inertias * (speeds + axes @ np.asarray(OMEGA))
    expected = _integrated(_gyrostat_inertia(axes), axes, momenta)
    got = satellite.build(axes=axes, wheel_inertias=inertias, wheel_speeds=speeds, omega_body=OMEGA)
    assert_allclose(_gyro(*got, n), expected, atol=EXACT)


def test_torques_turn_the_rigid_satellite():
    """Torques about the body axes are a gyrostat's with empty wheels, but for the sign."""
    inertia = np.asarray(satellite.INERTIA)

    def rate(_, omega, u):
        return np.linalg.solve(inertia, u - np.cross(omega, inertia @ omega))

    omega = np.asarray(OMEGA)
    for u in INPUTS[:, :3]:
        omega = solve_ivp(rate, (0, DT), omega, "DOP853", args=(u,), rtol=1e-12, atol=1e-13)
        omega = omega.y[:, -1]
    got = _gyro(*satellite.build_rigid(omega_body=OMEGA), 3)
    assert_allclose(got[-1], omega, atol=EXACT)
