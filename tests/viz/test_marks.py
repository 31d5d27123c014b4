"""Axes of joints, cables, and the camera's place."""

import types

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.viz import drawing, frames, painting, parts, springs

QUARTER = (0.5**0.5, 0.5**0.5, 0.0, 0.0)


def _mechanism():
    """A shaft in a sleeve on the ground, a cross on it, and a turned slider with a hinge."""
    inertia = np.diag([0.02, 0.03, 0.04])
    bodies = [lie_jax.Body(name, 1.0, inertia) for name in ("a", "b", "c", "d")]
    joints = [
        lie_jax.CylindricalJoint("ground", "a", (0, 0, 1), (0.1, 0, 0), (0, 0, -0.2)),
        lie_jax.UniversalJoint("a", "b", (1, 0, 0), (0, 1, 0), (0, 0, 0.3), (0, 0, -0.3)),
        lie_jax.PrismaticJoint("b", "c", (0, 0, 1), orientation=QUARTER),
        lie_jax.RevoluteJoint("c", "d", (0, 1, 0), (0, 0.2, 0), (0, 0, 0.1), QUARTER),
    ]
    mechanism = lie_jax.Mechanism(bodies, joints)
    pairs = ("ground", "a"), ("a", "b"), ("b", "c"), ("c", "d")
    moved = (0.4, 0.2), (0.3, -0.5), 0.1, 0.7
    return lie_jax.place(mechanism, dict(zip(pairs, moved, strict=True)))


def _lines(system, state):
    """Axes in inertial components, with the distance of the line from the origin."""
    rotation, position = (np.asarray(x) for x in system.poses(state.q))
    lines = []
    for body, point, axis in system.joint_axes():
        turn, origin = (np.eye(3), np.zeros(3)) if body < 0 else (rotation[body], position[body])
        along, through = turn @ axis, origin + turn @ point
        lines.append(np.concatenate([along, np.cross(through, along)]))
    return np.asarray(lines)


@pytest.mark.full
def test_axes_of_joints_are_where_the_joints_are():
    mechanism = _mechanism()
    absolute = _lines(*lie_jax.assemble(mechanism, lie_jax.R3SO3()))
    tree = _lines(*lie_jax.assemble(mechanism, lie_jax.Minimal()))
    # The shaft and the cross have one on each of their bodies.
    assert absolute.shape == tree.shape == (6, 6)
    for line in tree:
        assert np.abs(absolute - line).max(axis=1).min() < 1e-6
    # Shaft: z through x = 0.1 m, on both bodies.
    shaft = np.asarray([0.0, 0.0, 1.0, 0.0, -0.1, 0.0])
    assert np.sum(np.abs(absolute - shaft).max(axis=1) < 1e-6) == 2


@pytest.mark.full
def test_axes_of_a_joint_that_closes_a_loop_are_drawn():
    inertia = np.diag([0.01, 0.01, 0.01])
    bodies = [
        lie_jax.Body(name, 1.0, inertia, position=place)
        for name, place in (("left", (0, 0, 0)), ("bar", (0.5, 0, 0.5)), ("right", (1, 0, 0)))
    ]
    y = (0.0, 1.0, 0.0)
    joints = [
        lie_jax.RevoluteJoint("ground", "left", y),
        lie_jax.RevoluteJoint("left", "bar", y, (0, 0, 0.5), (-0.5, 0, 0)),
        lie_jax.RevoluteJoint("bar", "right", y, (0.5, 0, 0), (0, 0, 0.5)),
        lie_jax.RevoluteJoint("ground", "right", y, (1, 0, 0)),
    ]
    mechanism = lie_jax.Mechanism(bodies, joints)
    lines = _lines(*lie_jax.assemble(mechanism, lie_jax.Minimal()))
    # Axes along y at x, z have the moment (-z, 0, x).
    places = sorted(map(tuple, np.round(np.abs(lines[:, [5, 3]]), 6).tolist()))
    assert places == [(0.0, 0.0), (0.0, 0.5), (1.0, 0.0), (1.0, 0.5)]


@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.R3SO3(), lie_jax.Minimal()], ids=repr)
def test_cables_and_rods_are_lines_between_their_points(formulation):
    body = lie_jax.Body("load", 1.0, np.eye(3), position=(0.6, 0.0, 0.8))
    cable = lie_jax.PathForce(
        [("ground", (0, 0, 2)), ("ground", (1, 0, 2)), ("load", (0, 0.1, 0))], stiffness=10.0
    )
    rod = lie_jax.DistanceJoint("ground", "load", 1.0)
    mechanism = lie_jax.Mechanism([body], [rod], [cable])
    system, state = lie_jax.assemble(mechanism, formulation)
    lines = springs.cables(system, state.q[None])[0]
    expected = [
        [[0, 0, 2], [1, 0, 2]],
        [[1, 0, 2], [0.6, 0.1, 0.8]],
        [[0, 0, 0], [0.6, 0, 0.8]],
    ]
    assert_allclose(lines, expected, atol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("view", ["oblique", "front", "side", "top"])
def test_the_camera_sees_all_of_the_motion_and_little_more(view):
    rod = lie_jax.solids.cylinder(1.0, 0.02, 1.0)
    body = lie_jax.Body("rod", 1.0, rod, velocity=(3.0, 0.0, 1.0), omega_body=(4.0, 0.0, 0.0))
    mechanism = lie_jax.Mechanism([body], gravity=(0.0, 0.0, 0.0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=0.02, steps=50)
    (scene,) = frames.prepare("test", ((system, run),), None, (), None)
    points = parts.reached_points(scene, 0)
    camera = types.SimpleNamespace()
    drawing._look(camera, points, view)
    # Ends of the rod in every frame, as the camera sees them.
    rotation, position = (np.asarray(x)[:, 0] for x in jax.vmap(system.poses)(run.q))
    ends = np.concatenate([position + 0.5 * side * rotation[:, :, 2] for side in (1, -1)])
    right, up, towards = ((ends - camera.position) @ painting.camera(view).T).T
    assert np.all((-towards > camera.near) & (-towards < camera.far))
    half = np.tan(0.5 * camera.fov)
    most = np.max([np.abs(up / towards) / half, np.abs(right / towards) / half / drawing._ASPECT])
    assert 0.7 < most < 1.0
