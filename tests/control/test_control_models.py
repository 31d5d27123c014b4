"""Models for optimal control rest under holding inputs and move under others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from models import double_pendulum, puma560, quadrotor
from tests.golden import assert_close

# Rounding in accelerations of some ten units.
ROUNDING = 1e-12


def test_hover_is_an_equilibrium():
    """Level, turned about the vertical and moving on: equal thrusts leave all velocities alone."""
    thrusts = np.asarray([[0.0] * 4, *np.eye(4)])

    @jax.jit
    @jax.vmap
    def acceleration(change):
        yaw = lie_jax.groups.quaternion.exp(jnp.asarray([0.0, 0.0, 0.8]))
        system, state = quadrotor.build(orientation=yaw, velocity=(1.0, -2.0, 0.5))
        u = quadrotor.hover_thrusts() + change
        return system.acceleration(0.0, state.q, state.v, u)

    accelerations = acceleration(thrusts)
    assert_close(accelerations[0], np.zeros(6), atol=ROUNDING)
    # A newton more: upwards, about the arm by right-hand rule, and against the propeller's turn.
    arm = quadrotor.ARM
    drag = quadrotor.DRAG
    torques = np.asarray(
        [[0.0, -arm, -drag], [arm, 0.0, drag], [0.0, arm, -drag], [-arm, 0.0, drag]]
    )
    expected = np.zeros((4, 6))
    expected[:, 2], expected[:, 3:] = 1.0 / quadrotor.MASS, torques / np.asarray(quadrotor.INERTIA)
    assert_close(accelerations[1:], expected, atol=ROUNDING)


# Digits of the reference, relative to torques of some ten N m, through the whole chain.
TORQUES = 1e-12


def test_motors_of_the_puma_are_its_inverse_dynamics():
    data = {name: jnp.asarray(values) for name, values in puma560.INVERSE_DYNAMICS.items()}

    @jax.jit
    def left_over(u):
        system, _ = puma560.build(lie_jax.Minimal(), motors=True)
        assert system.nu == 6
        return system.residual(
            0.0, data["angles"], data["rates"], data["accelerations"], jnp.zeros(0), u
        )

    assert_close(left_over(data["torques"]), np.zeros(6), atol=TORQUES)
    # The torques enter one to one.
    assert_close(left_over(data["torques"] + jnp.arange(1.0, 7.0)), -np.arange(1, 7), atol=TORQUES)


@pytest.mark.full
def test_torques_on_the_pendulum_hold_it():
    """Statics: both links level, held by the moments of their weights about the two joints."""
    forces = [lie_jax.Torque("link 0", axis, input=k) for k, axis in enumerate(np.eye(3))]
    forces += [
        lie_jax.Torque(name, sign * np.eye(3)[0], input=3)
        for name, sign in (("link 1", 1.0), ("link 0", -1.0))
    ]
    level = ((0.5**0.5, 0.5**0.5, 0.0, 0.0),) * 2
    # The links hang along +y: 2 kg at 0.5 m, 1 kg at 1 m and 0.4 m.
    elbow = 9.81 * 0.4
    shoulder = 9.81 * (2.0 * 0.5 + 1.4)
    u = jnp.asarray([shoulder, 0.0, 0.0, elbow])

    @jax.jit
    def acceleration(u):
        system, state = double_pendulum.build(
            lie_jax.Minimal(), orientation=level, omega_body=np.zeros((2, 3)), forces=forces
        )
        return system.acceleration(0.0, state.q, state.v, u)

    assert_close(acceleration(u), np.zeros(6), atol=10 * ROUNDING)
