"""Inverse kinematics: solutions, limits, batches, derivatives and failures."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests import robots
from tests.messages import check_message

# Errors of targets that count as none (m, rad), as the function promises: eps^(2/3).
SOLVED = 4e-11
# Part of random targets within reach that a search from 256 starts has to solve.
MOST = 0.99
# Solutions nearby, differenced with steps of 1e-3 in fourth order.
DIFFERENCES = 1e-8

WRIST = lie_jax.robotics.Frame("wrist", (0.02, -0.1, 0.15), (0.5, 0.5, 0.5, 0.5), name="grasp")
FINGER = lie_jax.robotics.Frame("finger")
GOOD = ((FINGER, np.zeros(3)),)


@functools.cache
def limits():
    lower, upper = np.asarray([joint.limits for joint in robots.robot("arm").model.joints]).T
    return lower, upper


def within_limits(count, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(*limits(), size=(count, 5)))


def solve(targets, starts, system=None):
    lower, upper = limits()
    system = system or robots.robot("arm").system
    lower, upper = (jnp.asarray(x, starts.dtype) for x in (lower, upper))
    return lie_jax.robotics.inverse_kinematics(system, targets, starts, lower=lower, upper=upper)


@functools.cache
def solved():
    """Poses of the wrist and positions of the finger at random, and their solutions."""
    system = robots.robot("arm").system
    there = within_limits(300, 1)
    poses, fingers = jax.jit(
        jax.vmap(lambda q: (WRIST.pose(system, q), FINGER.pose(system, q)[:3, 3]))
    )(there)
    batch = jax.jit(
        jax.vmap(
            lambda pose, point, starts: solve([(WRIST, pose), (FINGER, point)], starts),
            (0, 0, None),
        )
    )
    return poses, fingers, batch(poses, fingers, within_limits(256, 2))


@pytest.mark.full
def test_random_targets_are_reached_within_limits():
    poses, fingers, batch = solved()
    assert np.mean(batch.converged) >= MOST
    reached = np.asarray(batch.converged)
    system = robots.robot("arm").system
    got = jax.vmap(lambda q: (WRIST.pose(system, q), FINGER.pose(system, q)[:3, 3]))(batch.q)
    for values, expected in zip(got, (poses, fingers), strict=True):
        # A pose has errors in the frame's axes, three of them.
        assert_allclose(values[reached], expected[reached], atol=2.0 * SOLVED)
    lower, upper = limits()
    assert np.all((batch.q >= lower[None]) & (batch.q <= upper[None]))
    assert np.all(batch.residual[reached] <= SOLVED)
    assert np.all(np.max(batch.residual[~reached], axis=-1, initial=1.0) > SOLVED)


def test_positions_are_reached_from_one_start():
    system = robots.robot("arm").system
    there, start = within_limits(2, 3)
    target = jax.jit(lambda q: FINGER.pose(system, q)[:3, 3])(there)
    found = solve([(FINGER, target)], start)
    assert_allclose(FINGER.pose(system, found.q)[:3, 3], target, atol=2.0 * SOLVED)
    # Targets out of reach end with the nearest configuration, and name the frame.
    with pytest.raises(
        lie_jax.robotics.InverseKinematicsError, match="no solution from 1 start"
    ) as error:
        solve([(FINGER, [3.0, 0.0, 0.0])], start)
    assert "Frame('finger')" in str(error.value)
    assert not error.value.best.converged
    reach = np.linalg.norm(FINGER.pose(system, error.value.best.q)[:3, 3])
    assert reach > 1.0


@pytest.mark.full
def test_turns_by_pi_are_reached_from_zero():
    system = robots.robot("arm").system
    target = jax.jit(lambda q: WRIST.pose(system, q))(jnp.asarray([0.0, 0.0, 0.1, 2.7, 0.0]))
    start = jnp.asarray([0.0, 0.0, 0.1, 2.7 - np.pi + 1e-9, 0.0])
    found = solve([(WRIST, target)], start)
    assert_allclose(WRIST.pose(system, found.q), target, atol=2.0 * SOLVED)


@pytest.mark.full
def test_derivatives_are_those_of_solutions_nearby():
    """First and second ones of a pose within reach, along the joints; five joints, six errors."""
    system, start = robots.robot("arm").system, within_limits(1, 5)[0]
    along = jnp.asarray([0.3, -0.2, 0.1, 0.4, 0.0])

    def joints(s):
        moved = start + s * along + s**2 * along[::-1]
        targets = [(WRIST, WRIST.pose(system, moved)), (FINGER, FINGER.pose(system, moved)[:3, 3])]
        return lie_jax.robotics.inverse_kinematics(system, targets, start + 0.01).q

    zero = jnp.zeros(())
    first, second, reverse = jax.jit(
        lambda s: (
            jax.jacfwd(joints)(s),
            jax.jacfwd(jax.jacfwd(joints))(s),
            jax.grad(lambda s: joints(s) @ along)(s),
        )
    )(zero)
    # The joints are known.
    assert_allclose(first, along, atol=DIFFERENCES)
    assert_allclose(second, 2.0 * along[::-1], atol=DIFFERENCES)
    assert_allclose(reverse, along @ along, atol=DIFFERENCES)


@pytest.mark.full
def test_a_redundant_arm_moves_least():
    system, start = robots.robot("arm").system, within_limits(1, 6)[0]

    def joints(target):
        return lie_jax.robotics.inverse_kinematics(system, [(FINGER, target)], start).q

    pose = FINGER.pose(system, start)
    got = jax.jit(jax.jacrev(joints))(pose[:3, 3])
    expected = np.linalg.pinv(pose[:3, :3] @ FINGER.jacobian(system, start)[:3])
    assert_allclose(got, expected, atol=1e-9)


@pytest.mark.full
def test_failures_in_a_batch_are_marked():
    system, (there, start) = robots.robot("arm").system, within_limits(2, 7)
    targets = jnp.stack([FINGER.pose(system, there)[:3, 3], jnp.asarray([3.0, 0.0, 0.0])])

    def one(target):
        q = solve([(FINGER, target)], start).q
        return jnp.sum(q)

    batch = jax.jit(jax.vmap(lambda target: solve([(FINGER, target)], start)))(targets)
    assert batch.converged.tolist() == [True, False]
    slopes = jax.jit(jax.vmap(jax.grad(one)))(targets)
    assert np.all(np.isfinite(slopes[0])) and np.all(np.isnan(slopes[1]))


@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.R3SO3(), lie_jax.Minimal(cut=["roll"])])
def test_constraints_are_met(formulation):
    """Joints that are constraints give the pose of joint coordinates."""
    robot = robots.robot("arm")
    system, start = lie_jax.assemble(robot.model.mechanism, formulation)
    there = within_limits(1, 8)[0]
    target = WRIST.pose(robot.system, 0.3 * there)
    found = lie_jax.robotics.inverse_kinematics(system, [(WRIST, target)], start.q)
    assert found.residual.shape == (2,)
    assert_allclose(WRIST.pose(system, found.q), target, atol=1e-10)
    assert np.max(np.abs(system.constraint(0.0, found.q))) <= SOLVED


@pytest.mark.full
def test_feet_of_a_walker_are_placed_with_its_trunk():
    system = robots.robot("walker").system
    q, _, _ = robots.state("walker")
    feet = [
        lie_jax.robotics.Frame(f"{side}_shank", (0.0, 0.0, -0.25)) for side in ("left", "right")
    ]
    trunk = lie_jax.robotics.Frame("trunk")
    targets = [(foot, foot.pose(system, q)[:3, 3] + 0.02) for foot in feet]
    targets.append((trunk, trunk.pose(system, q)[:3, 3] + 0.03))
    found = lie_jax.robotics.inverse_kinematics(system, targets, q)
    for frame, target in targets:
        assert_allclose(frame.pose(system, found.q)[:3, 3], target, atol=2.0 * SOLVED)
    assert_allclose(np.linalg.norm(found.q[3:7]), 1.0, atol=1e-12)


@pytest.mark.full
def test_single_precision():
    system = robots.in_single(robots.robot("arm").system)
    there, *starts = robots.in_single(within_limits(17, 9))
    frame = lie_jax.robotics.Frame("finger")
    target = frame.pose(system, there)[:3, 3]
    found = solve([(frame, target)], jnp.stack(starts), system)
    assert found.q.dtype == np.float32
    assert_allclose(frame.pose(system, found.q)[:3, 3], target, atol=1e-4)


@pytest.mark.full
def test_bad_arguments_are_refused():
    system, start = robots.robot("arm").system, np.zeros(5)
    walker, (q, _, _) = robots.robot("walker").system, robots.state("walker")

    def refused(*parts, system=system, targets=GOOD, q=start, **others):
        check_message(
            lambda: lie_jax.robotics.inverse_kinematics(system, targets, q, **others), *parts
        )

    refused("targets=) is ()", "list of pairs", targets=())
    refused("target of Frame('finger')", "(4, 4)", targets=[(FINGER, np.zeros(4))])
    refused("(3, 3)", "position (3,)", "se3.pose", targets=[(FINGER, np.eye(3))])
    refused("(6,)", "rotation vector", "so3.exp", targets=[(FINGER, np.zeros(6))])
    refused("(7,)", "to_matrix", targets=[(FINGER, np.zeros(7))])
    refused("(9, 3)", "jax.vmap", targets=[(FINGER, np.zeros((9, 3)))])
    refused("is a pair", "se3.pose", targets=[(FINGER, (np.eye(3), np.zeros(3)))])
    refused("rotation matrix", targets=[(FINGER, np.ones((4, 4)))])
    refused("q=) has shape (4,)", "(n, 5)", q=np.zeros(4))
    refused("lower=", "(5,)", lower=np.zeros(2))
    refused("coordinate 1", "swap", lower=[0, 1, 0, 0, 0], upper=[1, 0, 1, 1, 1])
    walker_frame = ((lie_jax.robotics.Frame("trunk"), np.zeros(3)),)
    below = np.full(11, -np.inf)
    below[4] = 0.0
    refused("start 0", "quaternions", system=walker, targets=walker_frame, q=0.0 * q)
    refused("quaternion", "coordinate 4", system=walker, targets=walker_frame, q=q, lower=below)


@pytest.mark.full
def test_residuals_are_distances():
    """Of two links of 1 m and a point 3 m away no configuration is nearer than 1 m."""
    z, inertia = (0.0, 0.0, 1.0), 0.1 * np.eye(3)
    bodies = [
        lie_jax.Body("a", 1.0, inertia),
        lie_jax.Body("b", 1.0, inertia, position=(1.0, 0.0, 0.0)),
    ]
    joints = [
        lie_jax.RevoluteJoint("ground", "a", z),
        lie_jax.RevoluteJoint("a", "b", z, (1.0, 0.0, 0.0)),
    ]
    system, _ = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.Minimal())
    tip, target = lie_jax.robotics.Frame("b", (1.0, 0.0, 0.0)), np.asarray([3.0, 0.0, 0.0])
    starts = np.random.default_rng(0).uniform(-3.0, 3.0, (50, 2))
    with pytest.raises(lie_jax.robotics.InverseKinematicsError) as caught:
        lie_jax.robotics.inverse_kinematics(system, [(tip, target)], starts)
    best = caught.value.best
    assert f"leaves {best.residual[0]:.3g} m in the position of" in str(caught.value)
    distance = np.linalg.norm(tip.pose(system, best.q)[:3, 3] - target)
    np.testing.assert_allclose(best.residual[0], distance, rtol=1e-12)
    assert 1.0 <= distance < 1.1


@pytest.mark.full
def test_a_pose_that_is_not_reached_has_its_error_in_both_units():
    """The base stands on the ground, turned by 0.5 rad and 2 m away from its target."""
    system = robots.robot("arm").system
    pose = lie_jax.groups.se3.pose(
        lie_jax.groups.so3.exp(jnp.asarray([0.0, 0.3, 0.4])), jnp.asarray([0, 2, 0.0])
    )
    base = lie_jax.robotics.Frame("ground")
    with pytest.raises(lie_jax.robotics.InverseKinematicsError) as caught:
        lie_jax.robotics.inverse_kinematics(system, [(base, pose)], np.zeros(5))
    assert "2 m in the position and 0.5 rad in the orientation" in str(caught.value)
    assert "fixed to the ground" in str(caught.value)
