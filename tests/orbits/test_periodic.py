"""Periodic motions, their multipliers and derivatives have the values of closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.special

import lie_jax
from tests.orbits.small import Circle, Driven, Swing, VanDerPol, Wheel

RK4 = lie_jax.RKMK("rk4")
ONE = jnp.asarray(1.0)
# The errors of the method, some h⁴ a period with the steps of these tests.
ACCURACY = 1e-7


def start(q, v=0.0):
    return lie_jax.State([q], [v])


def test_a_limit_cycle_has_its_period_and_multipliers():
    orbit = lie_jax.periodic_orbit(
        Circle(ONE), RK4, start(0.8, 0.3), period=6.0, steps=200, free_period=True
    )
    q, v = orbit.trajectory.q, orbit.trajectory.v
    np.testing.assert_allclose(orbit.period, 2.0 * np.pi, atol=ACCURACY)
    np.testing.assert_allclose(q**2 + v**2, 1.0, atol=ACCURACY)
    np.testing.assert_allclose(orbit.multipliers, [1.0, np.exp(-2.0 * np.pi)], atol=ACCURACY)
    assert orbit.converged and orbit.stable and orbit.freedom == 1
    assert orbit.residual < 1e-12
    assert orbit.residual == orbit.residual_history[orbit.iterations - 1]


@pytest.mark.full
def test_a_pendulum_keeps_its_start_and_has_its_period():
    orbit = lie_jax.periodic_orbit(
        Swing(ONE), RK4, start(1.0), period=6.0, steps=200, free_period=True
    )
    period = 4.0 * scipy.special.ellipk(np.sin(0.5) ** 2)
    np.testing.assert_allclose(orbit.period, period, atol=ACCURACY)
    # Starts next to it, along the motion and of other energies, close as well.
    assert orbit.freedom == 2 and not orbit.stable
    # The first step of the period is one of the square of its change.
    np.testing.assert_allclose([orbit.state.q[0], orbit.state.v[0]], [1.0, 0.0], atol=1e-3)


@pytest.mark.full
def test_a_driven_motion_has_its_amplitude_and_monodromy():
    damping, rate = 0.1, 2.0
    period = 2.0 * np.pi / rate

    def find(d):
        system = Driven(d, jnp.asarray(rate))
        return lie_jax.periodic_orbit(system, RK4, start(1.0), period=period, steps=100)

    orbit = find(jnp.asarray(damping))
    # Of the complex amplitude 1 / (1 - ω² + i ω d).
    stiff = 1.0 - rate**2
    whole = stiff**2 + (rate * damping) ** 2
    exact = [stiff / whole, damping * rate**2 / whole]
    np.testing.assert_allclose([orbit.state.q[0], orbit.state.v[0]], exact, atol=ACCURACY)
    flow = scipy.linalg.expm(period * np.array([[0.0, 1.0], [-1.0, -damping]]))
    np.testing.assert_allclose(orbit.monodromy, flow, atol=ACCURACY)
    assert orbit.stable and orbit.freedom == 0
    slope = jax.jacfwd(lambda d: find(d).state.v[0])(jnp.asarray(damping))
    exact = rate**2 * (stiff**2 - (rate * damping) ** 2) / whole**2
    np.testing.assert_allclose(slope, exact, atol=ACCURACY)


# Half an angle between spokes, and the slope, rad.
HALF, SLOPE = 0.3, 0.08


def roll(slope, **options):
    """Rolling of a wheel of spokes; the spoke that strikes begins to carry."""

    def strike(t, q, v):
        return q[0] - slope - HALF

    def swap(t, q, v):
        return q - 2.0 * HALF, v * jnp.cos(2.0 * HALF)

    begin = lie_jax.State(jnp.atleast_1d(slope - HALF), jnp.asarray([0.7]))
    event = lie_jax.Event(strike, swap, direction=1)
    return lie_jax.periodic_orbit(Wheel(), RK4, begin, period=3.0, steps=100, until=event)


@pytest.mark.full
def test_a_wheel_of_spokes_rolls_as_its_impacts_want():
    orbit = roll(jnp.asarray(SLOPE))
    kept = np.cos(2.0 * HALF) ** 2
    gained = 2.0 * (np.cos(SLOPE - HALF) - np.cos(SLOPE + HALF))
    rate = np.sqrt(kept * gained / (1.0 - kept))
    np.testing.assert_allclose(orbit.state.v, [rate], atol=ACCURACY)
    np.testing.assert_allclose(orbit.multipliers, [kept, 0.0], atol=ACCURACY)
    time, _ = scipy.integrate.quad(
        lambda q: 1.0 / np.sqrt(rate**2 + 2.0 * (np.cos(SLOPE - HALF) - np.cos(q))),
        SLOPE - HALF,
        SLOPE + HALF,
    )
    np.testing.assert_allclose(orbit.period, time, atol=ACCURACY)
    np.testing.assert_allclose(orbit.trajectory.t[-1], time, atol=ACCURACY)


@pytest.mark.full
def test_a_wheel_of_spokes_has_derivatives_in_both_modes():
    def rate(slope):
        return roll(slope).state.v[0]

    kept = np.cos(2.0 * HALF) ** 2
    # 2 (cos(γ - α) - cos(γ + α)) = 4 sin γ sin α.
    exact = np.sqrt(kept * np.sin(HALF) / (1.0 - kept) / np.sin(SLOPE)) * np.cos(SLOPE)
    for derivative in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(derivative(rate)(jnp.asarray(SLOPE)), exact, atol=1e-5)


def swing_period(gravity, amplitude):
    def condition(q, v):
        return jnp.concatenate([q - amplitude, v])

    return lie_jax.periodic_orbit(
        *(Swing(gravity), RK4, start(1.0)),
        **{"period": 6.5, "steps": 200, "free_period": True, "condition": condition},
    ).period


@pytest.mark.full
def test_a_period_has_derivatives_to_second_order():
    """T = 4 K(m) / √g, m = sin²(a/2): derivatives by g and, through a condition, by a."""
    m = np.sin(0.5) ** 2
    k, e = scipy.special.ellipk(m), scipy.special.ellipe(m)
    by_m = (e - (1.0 - m) * k) / (2.0 * m * (1.0 - m))
    by_amplitude = 4.0 * by_m * 0.5 * np.sin(1.0)
    exact = [-2.0 * k, by_amplitude]
    for derivative in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(derivative(swing_period, (0, 1))(ONE, ONE), exact, atol=1e-6)
    second = jax.jacfwd(jax.grad(swing_period, (0, 1)))(ONE, ONE)
    np.testing.assert_allclose(second, [3.0 * k, -0.5 * by_amplitude], atol=1e-5)


@pytest.mark.full
def test_a_batch_in_a_compiled_function_has_the_periods_of_its_members():
    gravities = jnp.asarray([1.0, 1.2])
    periods = jax.jit(jax.vmap(swing_period, (0, None)))(gravities, ONE)
    exact = 4.0 * scipy.special.ellipk(np.sin(0.5) ** 2) / np.sqrt(gravities)
    np.testing.assert_allclose(periods, exact, atol=ACCURACY)


@pytest.mark.full
def test_van_der_pols_cycle_agrees_with_another_program():
    orbit = lie_jax.periodic_orbit(
        VanDerPol(), lie_jax.RKMK("rk67"), start(2.0), period=6.5, steps=400, free_period=True,
        condition=lambda q, v: v,
    )  # fmt: skip

    def rates(t, y):
        q, v, *columns = y
        flow = np.array([[0.0, 1.0], [-1.0 - 2.0 * q * v, 1.0 - q * q]])
        return np.concatenate(
            [[v, -q + (1.0 - q * q) * v], (flow @ np.reshape(columns, (2, 2))).ravel()]
        )

    top = np.concatenate([orbit.state.q, orbit.state.v, np.eye(2).ravel()])
    end = scipy.integrate.solve_ivp(
        rates, (0.0, float(orbit.period)), top, method="DOP853", rtol=1e-13, atol=1e-13
    ).y[:, -1]
    np.testing.assert_allclose(end[:2], top[:2], atol=1e-10)
    np.testing.assert_allclose(orbit.monodromy, end[2:].reshape(2, 2), atol=1e-9)
    # Published: the period of μ = 1, and its amplitude.
    np.testing.assert_allclose(orbit.period, 6.66328685932313, atol=1e-10)
    np.testing.assert_allclose(orbit.state.q, [2.00861986087484], atol=1e-10)
