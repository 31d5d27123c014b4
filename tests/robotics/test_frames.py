"""Frames in every formulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests import robots
from tests.messages import check_message
from tests.suites import cases

ROUNDING = 1e-13
TOOL = lie_jax.robotics.Frame("left_shank", (0.1, -0.2, 0.3), (0.5, 0.5, -0.5, 0.5), name="tool")
FORMULATIONS = {
    "minimal": lie_jax.Minimal(),
    "R3SO3": lie_jax.R3SO3(),
    "SE3": lie_jax.SE3(chart="cayley"),
    "TaitBryan": lie_jax.TaitBryan(),
    "EulerParameters": lie_jax.EulerParameters(),
    "UnifiedVelocity": lie_jax.UnifiedVelocity(),
}


@pytest.mark.parametrize("formulation", cases(list(FORMULATIONS), quick=["minimal"]))
def test_twists_are_rates_of_poses(formulation):
    """Ċ = C hat(V) and V = J v, and the acceleration is the rate of V."""
    mechanism = robots.robot("walker").model.mechanism
    system, start = lie_jax.assemble(mechanism, FORMULATIONS[formulation])
    rng = np.random.default_rng(2)
    x, v, acceleration = 0.3 * jnp.asarray(rng.normal(size=(3, system.nv)))

    @jax.jit
    def evaluate(x):
        q = system.space.retract(start.q, x)
        pose, rate = jax.jvp(lambda q: TOOL.pose(system, q), (q,), (system.space.lift(q, v),))
        twist, jacobian = TOOL.twist(system, q, v), TOOL.jacobian(system, q)
        turned = jax.jvp(lambda q: TOOL.jacobian(system, q) @ v, (q,), (system.space.lift(q, v),))[
            1
        ]
        change = TOOL.acceleration(system, q, v, acceleration)
        return pose, rate, twist, jacobian, turned + jacobian @ acceleration, change

    pose, rate, twist, jacobian, expected, change = evaluate(x)
    if formulation != "EulerParameters":
        # A quaternion that is not unit, as after a free velocity, is no rotation.
        assert_allclose(rate, pose @ lie_jax.groups.se3.hat(twist), atol=ROUNDING)
    assert_allclose(jacobian @ v, twist, atol=ROUNDING)
    assert_allclose(change, expected, atol=ROUNDING)


@pytest.mark.full
def test_frames_of_the_ground_stand_still():
    system, (q, v, _) = robots.robot("arm").system, robots.state("arm")
    table = lie_jax.robotics.Frame("ground", (1.0, 2.0, 3.0), (0.5, 0.5, 0.5, 0.5))
    expected = [[0, 0, 1, 1], [1, 0, 0, 2], [0, 1, 0, 3], [0, 0, 0, 1]]
    assert_allclose(table.pose(system, q), expected, atol=ROUNDING)
    assert_allclose(table.twist(system, q, v), np.zeros(6))
    assert_allclose(table.jacobian(system, q), np.zeros((6, 5)))


def test_bad_frames_are_refused():
    system, (q, _, _) = robots.robot("arm").system, robots.state("arm")
    nowhere = lie_jax.robotics.Frame("hand", name="tip")
    check_message(lambda: nowhere.pose(system, q), "Frame('hand', name='tip')", "'shoulder'")
    check_message(
        lambda: lie_jax.robotics.Frame("hand", (0.0, 1.0)), "Frame('hand').position", "(3,)"
    )
    check_message(
        lambda: lie_jax.robotics.Frame("hand", orientation=(1, 1, 0, 0)),
        "Frame('hand').orientation",
    )
