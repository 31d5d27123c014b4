"""The satellite with wheels obeys the equation of a gyrostat, and without them Euler's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import lie_jax
from models import satellite

DT, STEPS = 0.02, 50
OMEGA = (0.3, -0.5, 0.4)
INPUTS = 0.05 * np.sin(np.arange(STEPS)[:, None] + np.asarray([0.3, 1.9, 4.0]))
# Steps of RKMK4 are exact to some 1e-12 here; wheels turn at 200 rad/s, with 1e-13 of rounding.
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


def test_wheels_turn_the_satellite_as_a_gyrostat():
    axes, n = np.asarray(satellite.PYRAMID), 4
    rng, inertias = np.random.default_rng(1), np.linspace(5e-4, 7e-4, n)
    system, state = satellite.build(axes=axes, wheel_inertias=inertias)
    omegas, speeds, torques = (
        size * rng.normal(size=(6, k)) for size, k in ((0.5, 3), (200.0, n), (0.05, n))
    )
    v = np.concatenate([np.zeros((6, 3)), omegas, speeds], axis=1)
    got = np.asarray(
        jax.jit(jax.vmap(lambda v, u: system.acceleration(0.0, state.q, v, u)))(v, torques)
    )
    inertia = _gyrostat_inertia(axes)
    momenta = inertias * (speeds + omegas @ axes.T)
    torque = -np.cross(omegas, omegas @ inertia + momenta @ axes) - torques @ axes
    expected = np.linalg.solve(inertia, torque.T).T
    assert_allclose(got[:, 3:6], expected, atol=EXACT)
    # Each wheel's momentum about its axis changes by its motor's torque alone.
    assert_allclose((got[:, 6:] + expected @ axes.T) * inertias, torques, atol=EXACT)


@pytest.mark.full
def test_torques_turn_the_rigid_satellite():
    """Torques about the body axes are a gyrostat's with empty wheels, but for the sign."""
    inertia = np.asarray(satellite.INERTIA)

    def rate(_, omega, u):
        return np.linalg.solve(inertia, u - np.cross(omega, inertia @ omega))

    omega = np.asarray(OMEGA)
    for u in INPUTS:
        omega = solve_ivp(rate, (0, DT), omega, "DOP853", args=(u,), rtol=1e-12, atol=1e-13)
        omega = omega.y[:, -1]
    system, state = satellite.build_rigid(omega_body=OMEGA)
    inputs = jnp.asarray(INPUTS)
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=DT, steps=STEPS, inputs=inputs)
    assert_allclose(satellite.gyro(run)[-1], omega, atol=EXACT)
