"""Forces, drivers and couplings along joints that are not there are refused, with the fix."""

import jax
import jaxtyping
import numpy as np
import pytest

import lie_jax
from tests.messages import check_message

X, Y, Z = np.eye(3)
BODIES = [lie_jax.Body(name, 1.0, np.eye(3)) for name in ("p", "d")]
BASE = lie_jax.RevoluteJoint("ground", "p", Y)
HINGE = lie_jax.RevoluteJoint("p", "d", Y)
SLIDER = lie_jax.PrismaticJoint("p", "d", X)
SHAFT = lie_jax.CylindricalJoint("p", "d", X, name="shaft")
BALL = lie_jax.SphericalJoint("p", "d")


@pytest.fixture(autouse=True)
def unchecked_types(monkeypatch):
    """Users run without checks of types."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


# Elements along a coordinate of a joint, and those of them that are joints themselves.
FORCES = {
    "spring": lambda *joint: lie_jax.JointSpring(*joint, stiffness=1.0),
    "motor": lambda *joint: lie_jax.JointMotor(*joint, input=0),
    "controller": lambda *joint: lie_jax.JointController(*joint, reference=0.0, proportional=1.0),
    "stop": lambda *joint: lie_jax.JointStop(
        *joint, lower=-1.0, upper=1.0, law=lie_jax.contact.HuntCrossley(1.0)
    ),
    "friction": lambda *joint: lie_jax.JointFriction(*joint, limit=1.0),
    "force of a coupling": lambda *joint: lie_jax.CouplingForce(
        [BASE, joint if len(joint) > 1 else joint[0]], [1.0, 2.0], stiffness=1.0
    ),
}
JOINTS = {
    "driver": lambda *joint: lie_jax.JointDriver(*joint, value=0.0),
    "leader": lambda *joint: lie_jax.CouplingJoint(
        BASE, joint if len(joint) > 1 else joint[0], [0.0, 1.0]
    ),
    "follower": lambda *joint: lie_jax.CouplingJoint(
        joint if len(joint) > 1 else joint[0], BASE, [0.0, 1.0]
    ),
}


def _mechanism(name, joint, *others):
    """Bodies on a base and other joints, with the element of this name along the joint."""
    if name in FORCES:
        return lie_jax.Mechanism(BODIES, [BASE, *others], [FORCES[name](joint)])
    return lie_jax.Mechanism(BODIES, [BASE, *others, JOINTS[name](joint)])


@pytest.mark.parametrize("name", FORCES | JOINTS)
def test_joints_that_the_mechanism_does_not_have_are_refused(name):
    renamed = lie_jax.RevoluteJoint("p", "d", Y, name="elbow")
    for joint, others, called in (
        (HINGE, (), "RevoluteJoint('p', 'd')"),
        (HINGE, (SLIDER, BALL), "RevoluteJoint('p', 'd')"),
        # The same hinge with bodies exchanged, and with a name or without, is another one.
        (HINGE, (lie_jax.RevoluteJoint("d", "p", Y),), "RevoluteJoint('p', 'd')"),
        (HINGE, (renamed,), "RevoluteJoint('p', 'd')"),
        (renamed, (HINGE,), "RevoluteJoint('elbow')"),
    ):
        parts = f"acts along a coordinate of {called}", "none of the mechanism's joints", "joints="
        check_message(lambda j=joint, o=others: _mechanism(name, j, *o), *parts)
    inside = jax.jit(lambda _: _mechanism(name, HINGE).gravity)
    check_message(lambda: inside(0.0), "none of the mechanism's joints")
    # Bodies that are not there are named first.
    other = lie_jax.RevoluteJoint("p", "other", Y)
    check_message(lambda: _mechanism(name, other), "'other'", "does not exist")


@pytest.mark.parametrize("name", FORCES | JOINTS)
def test_joints_of_the_mechanism_are_taken(name):
    """Also ones with other numbers, as they are in a mechanism that was changed, and elastic."""
    elastic = lie_jax.RevoluteBushing("d", "p", Y, np.ones(3), 1.0)
    for joint in (HINGE, lie_jax.RevoluteJoint("p", "d", Z, (0.1, 0.2, 0.3))):
        mechanism = _mechanism(name, joint, HINGE)
        whole = lie_jax.Mechanism(BODIES, mechanism.joints, [elastic, *mechanism.forces])
        system, _ = lie_jax.assemble(whole, lie_jax.R3SO3())
        stacked = [group.element for group in (*system.joints, *system.forces)]
        axes = [joint.axis for own in stacked for joint in getattr(own, "joints", None) or ()]
        # Those of the mechanism, of one element.
        np.testing.assert_array_equal(axes, [Y[None]] * len(axes))
        assert axes


def test_twins_need_names():
    places = (0.0, 0.3, 0.0), (0.0, -0.3, 0.0)
    twins = [lie_jax.RevoluteJoint("p", "d", Y, place, place) for place in places]
    for name in FORCES | JOINTS:
        parts = "RevoluteJoint('p', 'd'), of which the mechanism has 2", "need names", "name="
        check_message(lambda name=name: _mechanism(name, twins[0], *twins), *parts)
    left, right = (
        lie_jax.RevoluteJoint("p", "d", Y, place, place, name=name)
        for name, place in zip(("left", "right"), places, strict=True)
    )
    mechanism = _mechanism("spring", right, left, right)
    (spring,) = mechanism.forces
    assert repr(spring.joint) == "RevoluteJoint('right')"
    (found,) = spring.attach(mechanism.joints).joints
    np.testing.assert_array_equal(found.parent_point, places[1])
    check_message(
        lambda: _mechanism("spring", left, left, SLIDER, lie_jax.RigidJoint("p", "d", name="left")),
        "2 joints with the name 'left'",
        "rename them",
    )
    for wrong in ("", 3):
        check_message(
            lambda wrong=wrong: lie_jax.RigidJoint("p", "d", name=wrong), f"name is {wrong!r}"
        )


@pytest.mark.parametrize("name", FORCES | JOINTS)
def test_coordinates_that_are_not_there_are_refused(name):
    make = (FORCES | JOINTS)[name]
    for without in (BALL, lie_jax.RigidJoint("p", "d"), lie_jax.DistanceJoint("p", "d", 1.0)):
        called = f"{type(without).__name__}('p', 'd') has no coordinates"
        check_message(lambda j=without: make(j), called, "lie_jax.RevoluteJoint", "Bushing")
    for wrong in (3, "p", None, BODIES[0]):
        check_message(lambda wrong=wrong: make(wrong), repr(wrong), "one of the mechanism's joints")
    for joint, numbers, listed in (
        (SHAFT, (2, -1, 1.0, True), "0 (rad), 1 (m)"),
        (HINGE, (1, -1), "which are 0 (rad)"),
        (lie_jax.PlanarJoint("p", "d", Z), (3,), "0 (m), 1 (m), 2 (rad)"),
    ):
        for number in numbers:
            parts = "coordinate= of", f"is {number!r}", listed, "choose one"
            check_message(lambda j=joint, n=number: make(j, n), *parts)
    # Which of several is to be said.
    check_message(lambda: make(SHAFT), "coordinate= of CylindricalJoint('shaft') is None")
    make(SHAFT, 0), make(SHAFT, 1), make(HINGE, 0), make(HINGE)


def test_couplings_are_of_two_coordinates():
    for follower, leader in ((HINGE, HINGE), (HINGE, (HINGE, 0)), ((SHAFT, 1), (SHAFT, 1))):
        check_message(
            lambda f=follower, j=leader: lie_jax.CouplingJoint(f, j, [0.0, 1.0]),
            "with itself",
            "two coordinates",
        )
    # A screw couples both of a shaft.
    screw = lie_jax.CouplingJoint((SHAFT, 1), (SHAFT, 0), [0.0, 0.01])
    assert screw.bodies == ("p", "d")
    for wrong in ((SHAFT,), (SHAFT, 0, 1), [SHAFT, 0, 1]):
        parts = "is given as", "a pair of a joint and the number", "(joint, 0)"
        check_message(lambda w=wrong: lie_jax.CouplingJoint(w, HINGE, [0.0, 1.0]), *parts)
    for wrong in (HINGE, [], "pd"):
        check_message(
            lambda w=wrong: lie_jax.CouplingForce(w, [1.0]), "CouplingForce(joints=)", "list of"
        )


def test_elements_that_know_no_joint_yet_say_so():
    poses = tuple(lie_jax.extend.BodyPose(np.eye(3), np.zeros(3)) for _ in range(2))
    spring = lie_jax.JointSpring(HINGE, stiffness=1.0)
    check_message(
        lambda: spring.potential_energy(poses), "JointSpring('p', 'd')", "lie_jax.assemble("
    )
    assert spring.attach([BASE, HINGE]).potential_energy(poses) == 0.0
