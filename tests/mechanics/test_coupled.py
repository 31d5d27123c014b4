"""Couplings of joints that the mechanism does not have are refused, those that it has are taken."""

import jax
import numpy as np
import pytest

import lie_jax
from tests.messages import check_message

X, Y, Z = np.eye(3)
BODIES = [lie_jax.Body(name, 1.0, np.eye(3)) for name in ("p", "d")]
BASE = lie_jax.RevoluteJoint("ground", "p", Y)
# A quarter turn about x, which takes the child's z to the parent's -y.
QUARTER = (0.5**0.5, 0.5**0.5, 0.0, 0.0)
HINGE = lie_jax.RevoluteJoint("p", "d", Y, orientation=QUARTER)
SLIDER = lie_jax.PrismaticJoint("p", "d", X)


def _force(joint):
    return [], [lie_jax.CouplingForce([BASE, joint], [1.0, 2.0], stiffness=1.0)]


def _joint(joint):
    return [lie_jax.CouplingJoint(joint, BASE, [0.0, 1.0])], []


def _mechanism(real, coupling):
    joints, forces = coupling
    return lie_jax.Mechanism(BODIES, [BASE, real, *joints], forces)


@pytest.mark.parametrize("couple", [_force, _joint])
def test_couplings_about_another_axis_are_refused_by_name(couple):
    for real, wrong in (
        (HINGE, lie_jax.RevoluteJoint("p", "d", Z)),
        (SLIDER, lie_jax.PrismaticJoint("p", "d", Y)),
    ):
        parts = "(0, 1, 0)", "(0, 0, 1)" if real is HINGE else "(1, 0, 0)", "('p', 'd')"
        check_message(lambda r=real, w=wrong: _mechanism(r, couple(w)), "none of the", *parts)
        inside = jax.jit(lambda _, r=real, w=wrong: _mechanism(r, couple(w)).gravity)
        check_message(lambda inside=inside: inside(0.0), "none of the", *parts)


def test_forces_of_hinges_across_sliders_are_refused():
    check_message(lambda: _mechanism(SLIDER, _force(HINGE)), "PrismaticJoint('p', 'd')")


def test_hinges_and_sliders_that_connect_nothing_are_refused():
    for coupled in (HINGE, SLIDER, lie_jax.RevoluteJoint("ground", "d", Y)):
        name = f"{type(coupled).__name__}({coupled.parent!r}, 'd')"
        _, forces = _force(coupled)
        parts = "CouplingForce(", name, "no joint connects", "add it to joints="
        check_message(lambda f=forces: lie_jax.Mechanism(BODIES, [BASE], f), *parts)
    # Bodies that are not there are named first, and elastic hinges connect as joints do.
    other = lie_jax.RevoluteJoint("p", "other", Y)
    check_message(lambda: lie_jax.Mechanism(BODIES, [BASE], _force(other)[1]), "does not exist")
    elastic = lie_jax.RevoluteBushing("d", "p", Y, np.ones(3), 1.0)
    lie_jax.Mechanism(BODIES, [BASE], [elastic, *_force(HINGE)[1]])


def test_joints_of_the_mechanism_are_taken():
    for real, coupled in (
        (HINGE, HINGE),
        # Backwards, with another place for the angle of zero.
        (HINGE, lie_jax.RevoluteJoint("p", "d", -Y)),
        (SLIDER, SLIDER),
    ):
        for couple in (_force, _joint):
            _mechanism(real, couple(coupled))
    # Seen from the child, whose z is the axis; joints of other kinds.
    for real, coupled in (
        (HINGE, lie_jax.RevoluteJoint("d", "p", Z)),
        (lie_jax.SphericalJoint("p", "d"), HINGE),
        (lie_jax.UniversalJoint("p", "d", X, Y), HINGE),
        (lie_jax.DistanceJoint("p", "d", 1.0), HINGE),
    ):
        _mechanism(real, _force(coupled))
    with pytest.raises(ValueError, match="none of the"):
        _mechanism(HINGE, _force(lie_jax.RevoluteJoint("d", "p", Y)))
