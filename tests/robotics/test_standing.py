"""Free mechanisms are put on planes of the ground, in every formulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import contact, robotics
from tests.messages import check_message
from tests.suites import cases

ROUNDING = 1e-14
LAW = lie_jax.contact.HuntCrossley(1e4)
RADIUS, HALF = 0.02, 0.1
FLOOR = contact.Plane("ground")
SLOPE = contact.Plane("ground", (0.1, 0.2, 0.7), (0.3, -0.2, 1.0))
FORMULATIONS = {
    "Minimal": lie_jax.Minimal(),
    "R3SO3": lie_jax.R3SO3(),
    "SE3": lie_jax.SE3(coordinates="rotation_vector"),
    "EulerParameters": lie_jax.EulerParameters(),
    "TaitBryan": lie_jax.TaitBryan(),
    "UnifiedVelocity": lie_jax.UnifiedVelocity(),
}


def _walker(ground, *others, joints=()):
    """A trunk with a leg below it, in the ground, and a box that belongs to neither, above it."""
    bodies = [
        lie_jax.Body("trunk", 3.0, 0.1 * np.eye(3)),
        lie_jax.Body("leg", 1.0, 0.01 * np.eye(3)),
        lie_jax.Body("box", 1.0, 0.01 * np.eye(3), position=(2.0, 1.0, 4.0)),
    ]
    hip = lie_jax.RevoluteJoint("trunk", "leg", (0.0, 1.0, 0.0))
    shapes = contact.Sphere("leg", RADIUS, (0, 0, -0.4)), contact.Box("box", (2 * HALF,) * 3)
    touching = [
        lie_jax.contact.Contact(s, plane, LAW) for plane in (ground, *others) for s in shapes
    ]
    return lie_jax.Mechanism(bodies, [hip, *joints], touching)


@pytest.mark.parametrize("name", cases(FORMULATIONS, ["R3SO3"]))
def test_the_lowest_shapes_touch_planes_in_general_position(name):
    for plane in (FLOOR, SLOPE):
        system, state = lie_jax.assemble(_walker(plane), FORMULATIONS[name])
        standing = robotics.stand(system, state)
        (before, at), (after, there) = (
            map(np.asarray, system.poses(s.q)) for s in (state, standing)
        )
        assert_allclose(after, before, atol=ROUNDING)
        normal, point = np.asarray(plane.normal), np.asarray(plane.point)
        foot, middle = there[1] - [0.0, 0.0, 0.4], there[2]
        assert_allclose(normal @ (foot - point), RADIUS, atol=ROUNDING)
        # A cube's corner is lowest by half its edge times the sum of the normal's components.
        assert_allclose(normal @ (middle - point), HALF * np.abs(normal).sum(), atol=ROUNDING)
        for move in there - at:
            assert_allclose(np.cross(move, normal), 0.0, atol=ROUNDING)
        assert_allclose(there[0], there[1], atol=ROUNDING)
        assert np.array_equal(standing.v, state.v)


@pytest.mark.full
def test_standing_has_derivatives():
    """Of the trunk's height by the angle of the leg: 0.4 cos of it."""
    system, state = lie_jax.assemble(_walker(FLOOR), lie_jax.Minimal())
    place = int(np.flatnonzero(np.asarray(state.q) == 0.0)[-1])

    def height(angle):
        start = lie_jax.State(state.q.at[place].set(angle), state.v)
        return system.poses(robotics.stand(system, start).q)[1][0, 2]

    value, slope = jax.jit(jax.value_and_grad(height))(0.3)
    assert_allclose([value, slope], [RADIUS + 0.4 * np.cos(0.3), -0.4 * np.sin(0.3)], rtol=1e-12)


@pytest.mark.parametrize("name", cases(["Minimal", "R3SO3"], []))
def test_what_cannot_stand_is_named(name):
    def assembled(*arguments, **others):
        return lie_jax.assemble(_walker(*arguments, **others), FORMULATIONS[name])

    slide = lie_jax.PrismaticJoint("ground", "trunk", (0, 0, 1))
    weld = lie_jax.RigidJoint("ground", "box", (2.0, 1.0, 4.0))
    check_message(
        lambda: robotics.stand(*assembled(FLOOR, joints=[slide, weld])),
        "joints hold 'leg', 'box' to the ground", "floating_base=True",
    )  # fmt: skip
    # What is free stands beside it.
    system, state = assembled(FLOOR, joints=[slide])
    heights = np.asarray(system.poses(robotics.stand(system, state).q)[1])[:, 2]
    assert_allclose(heights, [0.0, 0.0, HALF], atol=ROUNDING)
    system, state = assembled(FLOOR, SLOPE)
    check_message(lambda: robotics.stand(system, state), "several planes", "give ground=")
    chosen = robotics.stand(system, state, FLOOR)
    assert_allclose(system.poses(chosen.q)[1][2, 2], HALF, atol=ROUNDING)
    check_message(lambda: robotics.stand(system, state, contact.Plane("trunk")), "must be a plane")
    bare = lie_jax.assemble(lie_jax.Mechanism([lie_jax.Body("b", 1.0, jnp.eye(3))]), lie_jax.SE3())
    check_message(
        lambda: robotics.stand(*bare), "no contact with a plane", "lie_jax.contact.Contact("
    )
