"""States and inputs by names of joints."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.robotics import joint_state
from tests import robots
from tests.messages import body, check_message


def test_joints_of_a_file_are_set_by_name():
    model = robots.robot("walker").model
    system, start = lie_jax.assemble(model.mechanism, lie_jax.Minimal())
    state = model.state(system, start, {"left_knee": 0.5, "right_hip": -0.2}, {"left_hip": 2.0})
    assert_allclose(state.q, [*start.q[:7], 0.0, 0.5, -0.2, 0.0], atol=1e-15)
    assert_allclose(state.v, [0.0] * 6 + [2.0, 0.0, 0.0, 0.0])
    moved = system.joint_coordinates(state.q)
    assert_allclose(moved["left_knee"], [0.5])
    assert_allclose(model.inputs({"right_knee": 3.0}), [0.0, 0.0, 0.0, 3.0])
    check_message(lambda: model.state(system, start, {"knee": 1.0}), "'knee'", "'left_knee'")
    check_message(lambda: model.state(system, start, {"left_hip": [1, 2]}), "shape (2,)")
    check_message(lambda: model.inputs({"knee": 1.0}), "no actuator", "'left_knee'")
    absolute = lie_jax.assemble(model.mechanism, lie_jax.SE3())
    check_message(lambda: model.state(*absolute, {"left_hip": 1.0}), "lie_jax.Minimal()")


def test_coordinates_count_from_the_zero_of_the_file():
    model = robots.robot("arm").model
    joints = [
        joint._replace(zero=0.25) if joint.name == "lift" else joint for joint in model.joints
    ]
    system, start = lie_jax.assemble(model.mechanism, lie_jax.Minimal())
    state = model._replace(joints=tuple(joints)).state(system, start, {"lift": 1.0})
    assert_allclose(state.q, [0.0, 0.75, 0.0, 0.0, 0.0], atol=1e-15)


@pytest.mark.full
def test_joints_with_several_coordinates_are_set_by_their_bodies():
    ball = lie_jax.SphericalJoint("ground", "a")
    cylinder = lie_jax.CylindricalJoint("a", "b", (0.0, 0.0, 1.0))
    mechanism = lie_jax.Mechanism([body("a"), body("b")], [ball, cylinder], gravity=(0, 0, 0))
    system, start = lie_jax.assemble(mechanism, lie_jax.Minimal())
    turned = np.asarray([0.5, 0.5, 0.5, 0.5])
    positions = {("ground", "a"): turned, ("a", "b"): (0.3, 0.1)}
    state = joint_state(system, start, positions, {("ground", "a"): (1.0, 2.0, 3.0)})
    expected = lie_jax.place(mechanism, positions)
    rotation, position = system.poses(state.q)
    for k, placed in enumerate(expected.bodies):
        assert_allclose(position[k], placed.position, atol=1e-14)
        assert_allclose(
            lie_jax.groups.quaternion.to_matrix(placed.orientation), rotation[k], atol=1e-14
        )
    assert_allclose(system.twists(state.q, state.v)[0, 3:], [1.0, 2.0, 3.0], atol=1e-14)
    check_message(lambda: joint_state(system, start, {("ground", "b"): 1.0}), "('a', 'b')")
    check_message(
        lambda: joint_state(system, start, {("ground", "a"): 2.0 * turned}), "unit quaternion"
    )
