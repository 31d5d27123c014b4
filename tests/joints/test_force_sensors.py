"""Reactions of joints, those of joint coordinates among them, are those of Newton and Euler.

A hub turns about y on the ground and carries a tool, whose centre of mass lies beside the plane of
the motion, on a weld: a sensor of force and torque. A motor and friction act on the hub.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.systems.system import accelerations_and_multipliers
from tests import mechanisms
from tests.suites import cases

Y, G = np.asarray([0.0, 1.0, 0.0]), np.asarray([0.0, 0.0, -9.81])
HUB_MASS, HUB_INERTIA = 3.0, 0.05
MASS, INERTIA, CENTER = 2.0, np.asarray([0.02, 0.03, 0.04]), np.asarray([0.6, 0.1, 0.0])
WELD, FRICTION = np.asarray([0.25, 0.0, 0.05]), 0.4
# Angle, rate and torque of the motor at three instants.
ANGLES, RATES, MOTOR = (
    np.asarray([0.0, 0.7, -2.1]),
    np.asarray([0.0, 3.0, -1.5]),
    np.asarray([-1.0, 5.0, 0.0]),
)
# Equations are regularised by 2e-12 of their size (`AbstractMatrix.regularize`), of some 50 N;
# the rows of Euler parameters are larger.
REGULARISATION = 1e-8
FORMULATIONS = {
    "R3SO3": lie_jax.R3SO3(),
    "Minimal": lie_jax.Minimal(),
    "EulerParameters": lie_jax.EulerParameters(),
    "weld as constraint": lie_jax.Minimal(cut=[("hub", "tool")]),
    "backwards, Minimal": lie_jax.Minimal(),
    "backwards, R3SO3": lie_jax.R3SO3(),
    "hinge as constraint": lie_jax.Minimal(cut=[("ground", "hub")]),
}


def turn(angle):
    return np.asarray(
        [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    )


def turning_tool(angle, rate, backwards=False, armature=None, mass=MASS):
    bodies = [
        lie_jax.Body(
            name, m, inertia, center_of_mass=center,
            orientation=(np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0),
            position=turn(angle) @ place,
            velocity=np.cross(rate * Y, turn(angle) @ place), omega_body=rate * Y,
        )
        for name, m, inertia, center, place in (
            ("hub", HUB_MASS, HUB_INERTIA * np.eye(3), np.zeros(3), np.zeros(3)),
            ("tool", mass, np.diag(INERTIA), CENTER - WELD, WELD),
        )
    ]  # fmt: skip
    hinge, weld, axis = ("ground", "hub"), ("hub", "tool"), Y
    points = {"parent_point": WELD, "child_point": np.zeros(3)}
    if backwards:
        # The ground turns about the opposite axis in the hub by the same angle.
        hinge, weld, axis = hinge[::-1], weld[::-1], -Y
        points = dict(zip(points, reversed(points.values()), strict=True))
    joints = [
        lie_jax.RevoluteJoint(*hinge, axis=axis, armature=armature),
        lie_jax.RigidJoint(*weld, **points),
    ]
    forces = [
        lie_jax.JointMotor(joints[0], input=0),
        lie_jax.ViscousFriction("ground", "hub", FRICTION),
    ]
    return lie_jax.Mechanism(bodies, joints, forces, gravity=G)


def expected(angle, rate, motor, armature=0.0):
    """Forces and torques about their points of the hinge on the hub, of the weld on the tool."""
    r, weld = turn(angle) @ CENTER, turn(angle) @ WELD
    about_axis = HUB_INERTIA + INERTIA[1] + MASS * (CENTER[0] ** 2 + CENTER[2] ** 2)
    on_axis = motor - FRICTION * rate + MASS * np.cross(r, G)[1]
    growth = on_axis / (about_axis + armature)
    acceleration = growth * np.cross(Y, r) + rate**2 * np.cross(Y, np.cross(Y, r))
    of_weld = MASS * (acceleration - G)
    on_tool = INERTIA[1] * growth * Y + np.cross(r - weld, of_weld)
    on_hub = on_tool + np.cross(weld, of_weld) + HUB_INERTIA * growth * Y
    return {
        "hinge": (of_weld - HUB_MASS * G, on_hub - (motor - FRICTION * rate) * Y),
        "weld": (of_weld, on_tool),
    }


def reactions(formulation, **options):
    """Reactions at the three instants, in one call."""
    assembled = [
        lie_jax.assemble(turning_tool(angle, rate, **options), formulation)
        for angle, rate in zip(ANGLES, RATES, strict=True)
    ]
    system = assembled[0][0]
    q, v = (jnp.stack([getattr(state, name) for _, state in assembled]) for name in "qv")
    t, u = jnp.zeros(len(ANGLES)), jnp.asarray(MOTOR)[:, None]

    @jax.jit
    def evaluated(q, v, u):
        found = jax.vmap(lambda *x: accelerations_and_multipliers(system, t[0], *x))(q, v, u)
        return system.reactions(t, q, v, *found, u)

    return evaluated(q, v, u)


# The next test has joint coordinates backwards in `make test`, `test_joints.py` multipliers.
@pytest.mark.parametrize("name", cases(FORMULATIONS, quick=[]))
def test_hinge_and_weld_have_their_closed_forms(name):
    backwards = name.startswith("backwards")
    found = reactions(FORMULATIONS[name], backwards=backwards)
    labels = {"hinge": ("ground", "hub"), "weld": ("hub", "tool")}
    assert set(found) == {label[::-1] if backwards else label for label in labels.values()}
    sign = -1.0 if backwards else 1.0
    for k, instant in enumerate(zip(ANGLES, RATES, MOTOR, strict=True)):
        for joint, (force, torque) in expected(*instant).items():
            label = labels[joint][::-1] if backwards else labels[joint]
            assert_allclose(found[label].force[k], sign * force, atol=REGULARISATION)
            assert_allclose(found[label].torque[k], sign * torque, atol=REGULARISATION)


def test_an_armature_acts_about_its_axis():
    """Its inertia slows the tool down; the hinge acts with the torque that this takes. Joints are
    listed backwards: reactions on the other body.
    """
    armature = 0.2
    found = reactions(lie_jax.Minimal(), armature=armature, backwards=True)
    hinge, weld = found["hub", "ground"], found["tool", "hub"]
    for k, instant in enumerate(zip(ANGLES, RATES, MOTOR, strict=True)):
        of_closed_form = expected(*instant, armature)
        force, torque = of_closed_form["hinge"]
        assert_allclose(hinge.force[k], -force, atol=REGULARISATION)
        assert_allclose(hinge.torque[k], -torque, atol=REGULARISATION)
        assert_allclose(weld.torque[k], -of_closed_form["weld"][1], atol=1e-12)
    assert np.abs(hinge.torque[0] @ Y) > 0.1


@pytest.mark.full
@pytest.mark.parametrize("make", [mechanisms.compound_forest, mechanisms.forest])
def test_joint_coordinates_have_the_reactions_of_absolute_ones(make):
    """Trees with all kinds of joints, in both directions, on the ground and floating."""
    found = []
    for formulation in (lie_jax.Minimal(), lie_jax.R3SO3()):
        system, state = lie_jax.assemble(make(), formulation)

        @jax.jit
        def evaluated(q, v, system=system):
            t = jnp.asarray(0.3)
            return system.reactions(t, q, v, *accelerations_and_multipliers(system, t, q, v))

        found.append(evaluated(state.q, state.v))
    assert set(found[0]) == set(found[1])
    for label, wanted in found[1].items():
        size = np.max(np.abs(np.concatenate(wanted)))
        assert_allclose(found[0][label].force, wanted.force, atol=1e-9 * size, err_msg=str(label))
        assert_allclose(found[0][label].torque, wanted.torque, atol=1e-9 * size)
    assert len(found[0]) >= 7


@pytest.mark.full
def test_reading_of_a_sensor_has_derivatives():
    """Of the weld's force at rest by the mass: -g, whatever the formulation does for it."""

    def vertical(mass, formulation):
        system, state = lie_jax.assemble(turning_tool(0.0, 0.0, mass=mass), formulation)
        t, u = jnp.zeros(()), jnp.asarray([-mass * np.cross(CENTER, G)[1]])
        found = accelerations_and_multipliers(system, t, state.q, state.v, u)
        return system.reactions(t, state.q, state.v, *found, u)["hub", "tool"].force[2]

    for formulation in (lie_jax.Minimal(), lie_jax.R3SO3()):
        for derivative in (jax.grad, jax.jacfwd):
            slope = jax.jit(derivative(vertical), static_argnums=1)(MASS, formulation)
            assert_allclose(slope, -G[2], atol=REGULARISATION)
