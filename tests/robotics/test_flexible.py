"""Frames at interfaces, and momentum, of mechanisms with flexible bodies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax import robotics
from lie_jax.groups import so3
from tests.meshes import lattice

MODES = 8
# Of numbers of one, through some hundred operations.
ROUNDING = 1e-12
# Of central differences by 1e-6: their own rounding.
SLOPE = 1e-9
MOVING = {"velocity": (0.3, -0.2, 0.5), "omega_body": (0.4, 1.0, 0.7), "position": (0.2, 0.1, 0.4)}


def _flying():
    draw = np.random.default_rng(3)
    mesh = lattice()
    body = lie_jax.FlexibleBody.from_matrices(
        "bar",
        mesh.nodes,
        mesh.mass,
        mesh.stiffness,
        interfaces=mesh.ends,
        modes=MODES,
        amplitudes=1e-2 * draw.normal(size=MODES),
        amplitude_rates=1e-1 * draw.normal(size=MODES),
        orientation=lie_jax.groups.quaternion.exp(jnp.asarray([0.3, -0.2, 0.5])),
        **MOVING,
    )
    ball = lie_jax.Body("ball", 0.3, 0.01 * np.eye(3), position=(0, 1, 0), velocity=(0, 0, 1))
    system, state = lie_jax.assemble(lie_jax.Mechanism([body, ball]), lie_jax.R3SO3())
    return mesh, body, system, state


MESH, BODY, SYSTEM, STATE = _flying()


def _nodes(state):
    """Inertial places and velocities (n, 3) of all nodes, from frame and modes."""
    q, v = np.asarray(state.q), np.asarray(state.v)
    rotation, position = (np.asarray(x[0]) for x in SYSTEM.poses(state.q))
    omega, modes = v[3:6], np.asarray(BODY.modes)
    places = MESH.nodes + modes @ q[-MODES:]
    rates = np.cross(omega, places) + modes @ v[-MODES:]
    return position + places @ rotation.T, v[:3] + rates @ rotation.T


def test_momentum_is_the_sum_over_the_nodes():
    places, rates = _nodes(STATE)
    # The mass of each ball and node; the matrix couples nodes.
    ball = np.asarray([0.0, 1.0, 0.0]), np.asarray([0.0, 0.0, 1.0])
    mass = MESH.mass.sum() + 0.3
    center = ((MESH.mass @ places).sum(axis=0) + 0.3 * ball[0]) / mass
    linear = (MESH.mass @ rates).sum(axis=0) + 0.3 * ball[1]
    angular = np.cross(places - center, MESH.mass @ rates).sum(axis=0)
    angular += np.cross(ball[0] - center, 0.3 * ball[1])

    @jax.jit
    def readings(q, v):
        return (
            robotics.center_of_mass(SYSTEM, q),
            robotics.centroidal_momentum(SYSTEM, q, v),
            robotics.centroidal_momentum_matrix(SYSTEM, q) @ v,
            robotics.center_of_mass_jacobian(SYSTEM, q) @ v,
        )

    momentum = [*linear, *angular]
    expected = center, momentum, momentum, linear / mass
    for got, value in zip(readings(STATE.q, STATE.v), expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=0, atol=ROUNDING)


def test_frames_are_fixed_to_interfaces():
    arm = np.asarray([0.02, -0.03, 0.05])
    tip = robotics.Frame("bar.right", position=arm)
    places, rates = _nodes(STATE)
    bare, step = robotics.Frame("bar.right"), 1e-6

    @jax.jit
    def readings(q, v):
        poses = [tip.pose(SYSTEM, SYSTEM.space.flow(q, x * v)) for x in (0.0, step, -step)]
        return poses, tip.twist(SYSTEM, q, v), bare.twist(SYSTEM, q, v), tip.jacobian(SYSTEM, q) @ v

    found = jax.tree.map(np.asarray, readings(STATE.q, STATE.v))
    (pose, after, before), twist, at_interface, product = found
    # The frame of an interface is at the mean of its nodes, and moves as these do in the mean.
    rotation, right = pose[:3, :3], MESH.ends["right"]
    center, rate = (x[right].mean(axis=0) for x in (places, rates))
    np.testing.assert_allclose(pose[:3, 3] - rotation @ arm, center, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(rotation @ at_interface[:3], rate, rtol=0, atol=ROUNDING)
    # Rates of the pose are those of the twist.
    slope = rotation.T @ (after - before)[:3] / (2.0 * step)
    np.testing.assert_allclose(slope[:, 3], twist[:3], rtol=0, atol=SLOPE)
    np.testing.assert_allclose(slope[:, :3], so3.hat(twist[3:]), rtol=0, atol=SLOPE)
    np.testing.assert_allclose(product, twist, rtol=0, atol=ROUNDING)
    with pytest.raises(
        ValueError, match=r"its bodies are 'bar', 'ball', 'bar\.left', 'bar\.right'"
    ):
        robotics.Frame("bar.middle").pose(SYSTEM, STATE.q)


def test_what_flexible_bodies_have_not_is_refused():
    tip = robotics.Frame("bar.right")
    with pytest.raises(ValueError, match="which would bend to reach a target"):
        robotics.inverse_kinematics(SYSTEM, [(tip, jnp.zeros(3))], STATE.q)
    with pytest.raises(ValueError, match="of which ten numbers each do not tell"):
        jax.eval_shape(robotics.torque_regressor, SYSTEM, STATE.q, STATE.v, STATE.v)


def test_mass_between_bodies_is_refused():
    section = lie_jax.beams.rectangle(0.01, 0.01, 2.1e11, 8e10, 7800.0)
    line = lie_jax.beams.line("beam", section, 1.0, 1, order=4)
    mechanism = lie_jax.Mechanism(line.nodes, [], line.elements, inertias=line.inertias)
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    for reading in (
        lambda: robotics.center_of_mass(system, state.q),
        lambda: robotics.centroidal_momentum(system, state.q, state.v),
    ):
        with pytest.raises(ValueError, match=r"mass between its bodies, inertias="):
            reading()
