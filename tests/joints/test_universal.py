"""The universal joint between two shafts: closed forms at any bend, and crosses of any angle."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.mechanics.joints.base import BodyPose
from tests.mechanisms import quaternion

# Rounding in products of a few numbers of the order one, over the smallest cosine of a bend, 0.02.
ROUNDING = 1e-13 / 0.02
X, Y, Z = np.eye(3)
T = jnp.zeros(())


def _out_angle(theta, bend, angle):
    """Angle of the shaft out for that of the shaft in, from the spherical triangle of the arms.

    The shaft in turns about z from where its arm is x; the shaft out about z bent by `bend` about
    x, from where its arm is the bent y.
    """
    # With the arms (cos θ, sin θ, 0) and (-sin φ, cos φ cos β, cos φ sin β): a·b = cos(angle).
    cosine, sine = jnp.sin(theta) * jnp.cos(bend), -jnp.cos(theta)
    size = jnp.hypot(cosine, sine)
    return jnp.arctan2(sine, cosine) + jnp.arccos(jnp.cos(angle) / size)


@functools.cache
def _shafts(angle):
    """Program for turns at any bend: constraint, power, ratio of rates, readings, rotation."""
    joint = lie_jax.UniversalJoint("in", "out", X, Y, angle=angle)
    held = 0.5 * np.pi if angle is None else angle

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, None))
    def evaluated(theta, bend):
        phi, ratio = jax.jvp(lambda x: _out_angle(x, bend, held), (theta,), (1.0,))
        tilt = lie_jax.groups.so3.exp(bend * jnp.asarray(X))
        poses = [
            BodyPose(rotation, jnp.zeros(3))
            for rotation in (
                lie_jax.groups.so3.exp(theta * jnp.asarray(Z)),
                tilt @ lie_jax.groups.so3.exp(phi * jnp.asarray(Z)),
            )
        ]
        on_in, on_out = joint.reaction(T, *poses, jnp.asarray([0.0, 0.0, 0.0, 1.0]))
        return (
            joint.constraint(T, *poses),
            on_in.torque[2] + on_out.torque[2] * ratio,
            ratio,
            joint.coordinates(*poses),
            poses[1].rotation,
        )

    return evaluated


@pytest.mark.parametrize("bend", [0.0, 0.5, 1.2, 1.55])
@pytest.mark.parametrize("angle", [None, 1.1])
def test_shafts_turn_as_the_spherical_triangle_has_it(bend, angle):
    """Pose and ratio of the rates for turns all around, at bends of nearly a right angle, too."""
    along = np.asarray([0.0, -np.sin(bend), np.cos(bend)])
    theta = jnp.linspace(-3.0, 3.0, 13)
    if angle is not None:
        # A skew cross of this angle does not reach turns where cos θ is small at large bends.
        theta = theta[np.abs(np.cos(theta)) > 0.5]
    constraint, power, ratio, readings, rotation = map(np.asarray, _shafts(angle)(theta, bend))
    assert_allclose(rotation[:, :, 2], np.broadcast_to(along, (len(theta), 3)), atol=1e-15)
    assert_allclose(constraint, 0.0, atol=ROUNDING)
    # No work at rates in this ratio, relative to the rates.
    assert_allclose(power / (1.0 + np.abs(ratio)), 0.0, atol=ROUNDING)
    if angle is None:
        # tan φ = cos β tan θ with arms along x and y; the ratio of the rates from there.
        expected = np.cos(bend) / (1.0 - np.sin(bend) ** 2 * np.sin(theta) ** 2)
        assert_allclose(ratio, expected, rtol=ROUNDING)
        first, second = readings.T
        turns = Rotation.from_euler("XY", np.stack([first, second], axis=1)).as_matrix()
        relative = (
            Rotation.from_rotvec(np.outer(theta, Z)).as_matrix().transpose(0, 2, 1) @ rotation
        )
        assert_allclose(turns, relative, atol=ROUNDING)


@pytest.mark.full
def test_a_skew_cross_moves_alike_in_both_coordinates():
    """Accelerations of a body on a cross of 1.1 rad, held at rest, and its readings."""
    angle, rng = 1.1, np.random.default_rng(3)
    axis, other = X, np.asarray([np.cos(angle), np.sin(angle), 0.0])
    turns = [Rotation.from_rotvec(x * a) for x, a in ((0.7, axis), (-0.4, other))]
    rotation = turns[0] * turns[1]
    point = rng.normal(size=3)
    body = lie_jax.Body(
        "b", 2.0, np.diag([0.1, 0.2, 0.15]), (0.3, -0.2, 0.1), -rotation.apply(point),
        rotation.as_quat(scalar_first=True),
    )  # fmt: skip
    joint = lie_jax.UniversalJoint("ground", "b", axis, other, child_point=point, angle=angle)
    mechanism = lie_jax.Mechanism([body], [joint])
    moved = []
    for formulation in (lie_jax.Minimal(), lie_jax.R3SO3()):
        system, state = lie_jax.assemble(mechanism, formulation)

        @jax.jit
        def at(q, v, system=system):
            rates = system.acceleration(0.0, q, v)
            return system.twists(q, rates), system.joint_coordinates(q)["ground", "b"]

        acceleration, readings = at(state.q, state.v)
        assert_allclose(readings, [0.7, -0.4], atol=1e-12)
        moved.append(acceleration)
    assert np.max(np.abs(moved[0])) > 1.0
    assert_allclose(moved[0], moved[1], atol=1e-11)


def test_the_right_angle_is_the_default():
    """The same constraint; a given right angle differs by the rounding of its cosine alone."""
    rng = np.random.default_rng(1)
    poses = [
        BodyPose(jnp.asarray(Rotation.from_rotvec(r).as_matrix()), jnp.zeros(3))
        for r in rng.normal(size=(2, 3))
    ]
    numbers = {"orientation": quaternion(rng.normal(size=3))}
    values = [
        lie_jax.UniversalJoint("a", "b", X, Y, **numbers, **given).constraint(T, *poses)
        for given in ({}, {"angle": 0.5 * np.pi})
    ]
    assert_allclose(values[0], values[1], atol=1e-15)
