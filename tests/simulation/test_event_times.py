"""Times of events and return maps, with their derivatives, are those of closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.systems import OnALine

# Error of the fourth order in three steps of the wheel, each of some 200 steps of the method.
DIGITS = 1e-10
# Brackets end as narrow as rounding, in parts of a step.
ROUNDING = 1e-14


class Pendulum(OnALine):
    """A pendulum of an angle (rad): θ̈ = -k sin θ, standing where k is negative."""

    stiffness: jax.Array

    def force(self, t, q, v, u=None):
        return -self.stiffness * jnp.sin(q)


# A pendulum released at 1.2 rad with k = 9/s² passes 0.3 rad at this time: elliptic integrals in 30
# digits, with the derivatives by amplitude, k and the angle passed.
PASSES = 0.4853987941560034
BY_PENDULUM = 0.1607556827455783, -0.026966599675333522, -0.30608650885082309
# Integrator, steps in a second, error of the method in time and derivatives.
PASSING = {
    "order 4": (lie_jax.RKMK("rk4"), 80, 1e-7),
    "order 8": (lie_jax.RKMK("rkf78"), 20, 2e-12),
    "commutator-free": (lie_jax.CommutatorFree(4), 80, 1e-7),
    "Crouch-Grossman": (lie_jax.CrouchGrossman(4), 80, 1e-7),
    "Gauss": (lie_jax.ImplicitRKMK("gauss6"), 20, 1e-9),
    "generalized-α": (lie_jax.GeneralizedAlpha(0.9), 400, 2e-5),
}


@pytest.mark.full
@pytest.mark.parametrize("name", PASSING)
def test_the_time_at_which_a_pendulum_passes_has_right_derivatives(name):
    integrator, steps, error = PASSING[name]

    def time(pendulum):
        start, stiffness, angle = pendulum
        stop = lie_jax.Event(lambda t, q, v: q[0] - angle, "stop")
        options = {"dt": 1.0 / steps, "steps": steps, "events": [stop], "throw": False}
        state = lie_jax.State(start[None], jnp.zeros(1))
        return lie_jax.simulate(Pendulum(stiffness), integrator, state, **options).t[-1]

    value, derivative = jax.jit(jax.value_and_grad(time))(tuple(map(jnp.asarray, (1.2, 9.0, 0.3))))
    assert_allclose(value, PASSES, rtol=0, atol=error)
    assert_allclose(derivative, BY_PENDULUM, rtol=0, atol=error)


class Push(OnALine):
    """A unit mass under a force of 1 N."""

    def force(self, t, q, v, u=None):
        return jnp.ones_like(q)


@pytest.mark.parametrize("passed", [pytest.param(0.025, marks=pytest.mark.full), 0.15])
def test_steps_decide_where_their_dense_output_errs(passed):
    """Euler's speeds are exact here, and its positions contradict them inside of a step."""
    stop = lie_jax.Event(lambda t, q, v: v[0] - passed, "stop")
    state = lie_jax.State(jnp.zeros(1), jnp.zeros(1))
    run = lie_jax.simulate(Push(), lie_jax.RKMK("euler"), state, dt=0.1, steps=3, events=[stop])
    assert_allclose(run.t[-1], passed, rtol=0, atol=ROUNDING)
    assert_allclose(run.v[-1], passed, rtol=0, atol=ROUNDING)


@pytest.mark.full
def test_a_rimless_wheel_has_the_return_map_of_its_closed_form():
    half, slope, rate = 0.3, 0.08, 9.81

    def step(t, q, v):
        return q - 2.0 * half, jnp.cos(2.0 * half) * v

    leg = lie_jax.Event(lambda t, q, v: q[0] - slope - half, step, direction=1)

    def after_three(speed):
        state = lie_jax.State(jnp.asarray([slope - half]), speed[None])
        options = {"dt": 2e-3, "steps": 1000, "events": [leg], "throw": False}
        run = lie_jax.simulate(Pendulum(jnp.asarray(-rate)), lie_jax.RKMK("rk4"), state, **options)
        return jnp.cos(2.0 * half) * run.events.v[2, 0]

    def closed(speed):
        square = speed**2
        for _ in range(3):
            square = square + 4.0 * rate * np.sin(half) * np.sin(slope)
            square = np.cos(2.0 * half) ** 2 * square
        return jnp.sqrt(square)

    speed = jnp.asarray(1.6)
    value, derivative = jax.jit(jax.value_and_grad(after_three))(speed)
    expected = jax.value_and_grad(closed)(speed)
    assert_allclose((value, derivative), expected, rtol=0, atol=DIGITS)
