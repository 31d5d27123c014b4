"""Bodies, joints, forces and mechanisms that cannot be: each message names value, rule and fix."""

import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from models import chain
from tests.messages import EYE, body, check_message, simulate
from tests.suites import cases


def _tree(joints, **first):
    bodies = [body("a", **first), body("b"), body("c")]
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.Minimal())


def _off_joint():
    system, state = _tree([_ball("a", "b")])
    # The bases are the bodies a and c.
    return simulate(system, lie_jax.State(state.q.at[14].set(1.5), state.v), lie_jax.RKMK())


def _simulated(joints, formulation=None):
    bodies = [body("a"), body("b")]
    mechanism = lie_jax.Mechanism(bodies, joints)
    return simulate(
        *lie_jax.assemble(mechanism, formulation or lie_jax.R3SO3()), lie_jax.GeneralizedAlpha()
    )


def _open_loop(formulation):
    """Three joints between the ground and two bodies; the last one misses by 0.25 m."""
    joints = [_ball("ground", "a"), _ball("a", "b"), _ball("b", "ground", (0.25, 0, 0))]
    return _simulated(joints, formulation)


def _contradictory():
    """Two hinges between the same bodies, about axes a right angle apart."""
    hinge = lie_jax.RevoluteJoint
    across = hinge("a", "b", (1.0, 0.0, 0.0), orientation=(0.5**0.5, 0.0, 0.5**0.5, 0.0))
    return _simulated([hinge("ground", "a", (0.0, 0.0, 1.0)), _ball("a", "b"), across])


_ball = lie_jax.SphericalJoint
HINGE = lie_jax.RevoluteJoint("a", "b", EYE[0])
SHAFT = lie_jax.CylindricalJoint("a", "b", EYE[0], name="shaft")
# A turn by 0.2 rad.
_TURN = (np.cos(0.1), np.sin(0.1), 0.0, 0.0)


CASES = {
    "loop that does not close": (
        lambda: _open_loop(lie_jax.R3SO3()), "position constraints by 0.25",
        "SphericalJoint('b', 'ground')", "lie_jax.project"),
    "loop that does not close in joint coordinates": (
        lambda: _open_loop(lie_jax.Minimal()), "position constraints by 0.25",
        "SphericalJoint('b', 'ground')", "lie_jax.project"),
    "contradictory joints": (
        _contradictory, "position constraints by 1", "RevoluteJoint('a', 'b')", "correct it"),
    "massless body": (lambda: body(mass=0.0), "Body('b').mass", "0.0", "positive", "kg"),
    "mass": (lambda: body(mass=-2.0), "Body('b').mass", "-2.0", "positive", "kg"),
    "mass is NaN": (lambda: body(mass=float("nan")), "mass is nan", "positive", "check sign"),
    "solid of negative size": (
        lambda: lie_jax.solids.sphere(1.0, -0.2), "sphere: radius", "-0.2", "positive", "m"),
    "solid with a flat side": (
        lambda: lie_jax.solids.box(1.0, (0.1, 0.0, 0.2)), "box: a side", "0.0", "positive"),
    "solid with too few sides": (
        lambda: lie_jax.solids.box(1.0, (0.1, 0.2)), "box: sides", "shape (2,)", "lengths"),
    "solid without axis": (
        lambda: lie_jax.solids.cylinder(1.0, 0.1, 0.2, (0, 0, 0)), "cylinder: axis", "direction",
        "(0, 0, 1)"),
    "mass has a shape": (lambda: body(mass=[1.0, 2.0]), "shape (2,)", "one number"),
    "inertia shape": (lambda: body(inertia=[1.0, 2.0, 3.0]), "shape (3,)", "(3, 3)"),
    "inertia not symmetric": (
        lambda: body(inertia=EYE + np.eye(3, k=1)), "inertia", "symmetric", "above and below"),
    "inertia not definite": (
        lambda: body(inertia=np.diag([1.0, 1.0, -1.0])), "-1.0", "positive definite",
        "small radius", "signs"),
    "triangle inequality": (
        lambda: body(inertia=np.diag([1.0, 1.0, 3.0])), "3.0", "triangle inequality",
        "about the centre of mass"),
    "orientation": (
        lambda: body(orientation=[1.0, 1.0, 0.0, 0.0]), "norm 1.41421356", "unit quaternion",
        "divide it by its norm"),
    "position": (lambda: body(position=[1.0, 2.0]), "position has shape (2,)", "(3,)"),
    "velocity not finite": (lambda: body(velocity=[0, np.inf, 0]), "velocity", "inf", "finite"),
    "no such body": (
        lambda: lie_jax.Mechanism([body()], [lie_jax.SphericalJoint("ground", "c")]),
        "SphericalJoint", "'c'", "does not exist", "'b'", "'ground'"),
    "force on no body": (
        lambda: lie_jax.Mechanism([body()], forces=[lie_jax.PointForce("x", (0.0, 0.0, 1.0))]),
        "PointForce('x')", "the names are 'b', 'ground'", "add the body"),
    "joint with itself": (
        lambda: lie_jax.Mechanism([body()], [lie_jax.SphericalJoint("b", "b")]),
        "'b' with itself", "two different bodies"),
    "name twice": (
        lambda: lie_jax.Mechanism([body(), body()]), "'b'",
        "that of another body", "rename it"),
    "name reserved": (
        lambda: lie_jax.Mechanism([body("ground")]), "'ground'", "inertial frame", "rename it"),
    "no bodies": (lambda: lie_jax.Mechanism([]), "empty", "at least one Body"),
    "gravity": (lambda: lie_jax.Mechanism([body()], gravity=9.81), "gravity", "(3,)"),
    "gravity of time": (
        lambda: lie_jax.Mechanism([body()], gravity=lambda t: t), "gravity=) is a function",
        "lie_jax.PointForce(body, lambda t: mass * g(t)"),
    "joint point": (
        lambda: lie_jax.SphericalJoint("a", "b", child_point=[1.0]), "child_point", "(3,)"),
    "zero axis": (
        lambda: lie_jax.RevoluteJoint("a", "b", (0.0, 0.0, 0.0)), "RevoluteJoint('a', 'b').axis",
        "(0, 0, 0)", "any length but zero"),
    "axis shape": (lambda: lie_jax.PrismaticJoint("a", "b", (1.0, 0.0)), "axis", "(2,)", "(3,)"),
    "joint orientation": (
        lambda: lie_jax.RigidJoint("a", "b", orientation=np.ones(4)), "RigidJoint", "norm 2",
        "divide"),
    "zero axis of the child": (
        lambda: lie_jax.UniversalJoint("a", "b", EYE[0], np.zeros(3)), "child_axis is (0, 0, 0)",
        "in the child's frame", "any length but zero"),
    "normal": (lambda: lie_jax.PlanarJoint("a", "b", (1.0, 0.0)), "normal", "(2,)", "(3,)"),
    "sleeve": (lambda: lie_jax.CylindricalJoint("a", "b", EYE[0], (0.0, 1.0)), "(2,)", "(3,)"),
    "rod": (
        lambda: lie_jax.DistanceJoint("a", "b", 0.0), "DistanceJoint('a', 'b').length is 0.0",
        "positive", "(m)"),
    "driver": (
        lambda: lie_jax.JointDriver(HINGE, value=lambda t: jnp.stack([t, t])),
        "JointDriver('a', 'b').value(t) has shape (2,)", "shape ()", "rad or m"),
    "driver returns a tuple": (
        lambda: lie_jax.JointDriver(HINGE, value=lambda t: (t,)), "tuple", "shape ()"),
    "disc": (
        lambda: lie_jax.RollingDisc("a", "b", -0.3, EYE[0]), "RollingDisc('a', 'b').radius is -0.3",
        "positive", "(m)"),
    "disc without axis": (
        lambda: lie_jax.RollingDisc("a", "b", 0.3, np.zeros(3)), "child_axis is (0, 0, 0)",
        "in the child's frame"),
    "gear": (
        lambda: lie_jax.GearJoint("a", "b", EYE[0], EYE[1], (1.0, 2.0)), "GearJoint('a', 'b')",
        "ratio", "one number"),
    "gear without rate": (
        lambda: lie_jax.GearJoint("a", "b", EYE[0], EYE[1], 0), "GearJoint('a', 'b').ratio is 0.0",
        "must not be zero", "number of teeth"),
    "body without name": (lambda: body(""), "Body(name=) is ''", "text, not empty"),
    "point mass": (
        lambda: body(inertia=np.zeros((3, 3))), "[0.0, 0.0, 0.0]", "positive definite",
        "lie_jax.solids.sphere(mass, radius)"),
    "driven slider": (
        lambda: lie_jax.JointDriver(SHAFT, 1, value=(1.0, 2.0)),
        "JointDriver('shaft').value has shape (2,)", "shape ()", "m"),
    "coordinate": (
        lambda: lie_jax.CoordinateJoint("a", "b", ("x", "rx")), "coordinates is 'rx'",
        "'rotation_x'"),
    "coordinates twice": (
        lambda: lie_jax.CoordinateJoint("a", "b", ("y", "x", "y")), "('y', 'x', 'y')",
        "each once and in this order"),
    "values of coordinates": (
        lambda: lie_jax.CoordinateJoint("a", "b", ("x", "y"), 0.0), "values has shape ()", "(2,)",
        "m or rad"),
    "held direction": (
        lambda: lie_jax.GenericJoint("a", "b", ("x", "rz")), "GenericJoint('a', 'b').held is 'rz'",
        "'rotation_z'"),
    "nothing held": (
        lambda: lie_jax.GenericJoint("a", "b", ()), "held is ()", "at least one of the words"),
    "order of held directions": (
        lambda: lie_jax.GenericJoint("a", "b", ("y", "x")), "('y', 'x')",
        "each once and in this order"),
    "axes of the generic joint": (
        lambda: lie_jax.GenericJoint("a", "b", ("x",), parent_orientation=np.ones(4)),
        "GenericJoint('a', 'b').parent_orientation", "norm 2", "divide"),
    "parallel arms of a cross": (
        lambda: lie_jax.UniversalJoint("a", "b", EYE[0], EYE[1], angle=0.0),
        "UniversalJoint('a', 'b').angle is 0.0", "between 0 and π", "RevoluteJoint"),
    "arms at another angle": (
        lambda: _tree([lie_jax.UniversalJoint("a", "b", EYE[0], EYE[1], angle=1.0)]),
        "cosine 0 ", "cosine 0.54", "orientation= or angle="),
    "axes that do not fit": (
        lambda: _tree([lie_jax.UniversalJoint("a", "b", EYE[0], EYE[1] + 0.1 * EYE[0])]),
        "UniversalJoint('a', 'b')", "cosine 0.0995", "perpendicular", "orientation="),
    "poses that do not fit": (
        lambda: _tree([_ball("a", "b", (0.0, 0.0, 0.1))]), "poses", "SphericalJoint('a', 'b')",
        "0.1 m", "position="),
    "orientations that do not fit": (
        lambda: _tree([lie_jax.PrismaticJoint("b", "a", (1.0, 0.0, 0.0), orientation=_TURN)]),
        "PrismaticJoint('b', 'a')", "0.2 rad", "orientation"),
    "half a turn that does not fit": (
        lambda: _tree([lie_jax.RigidJoint("a", "b", orientation=(0.0, 0.0, 1.0, 0.0))]),
        "RigidJoint('a', 'b')", "off by 0 m and 3.14 rad", "orientation"),
    "velocities that do not fit": (
        lambda: _tree([_ball("a", "b")], velocity=(0.0, 0.3, 0.0)), "velocities", "0.3 m/s",
        "velocity="),
    "nothing moves": (
        lambda: _tree([lie_jax.RigidJoint("ground", name) for name in "abc"]), "no joint coord",
        "Replace one"),
    "rotor with constraints": (
        lambda: lie_jax.assemble(
            lie_jax.Mechanism(
                [body("a")], [lie_jax.SphericalJoint("ground", "a", armature=0.1)]),
            lie_jax.R3SO3()),
        "SphericalJoint('ground', 'a') has an armature", "lie_jax.Minimal()"),
    "rotor": (
        lambda: lie_jax.RevoluteJoint("a", "b", EYE[0], armature=-0.1),
        "RevoluteJoint('a', 'b').armature is -0.1", "kg m²"),
    "joint's quaternion": (
        lambda: _off_joint(), "spherical joint 0", "norm 1.5", "divide it"),
    "force shape": (
        lambda: lie_jax.PointForce("b", lambda t: jnp.stack([t, t])), "shape (2,)", "(3,)"),
    "friction": (
        lambda: lie_jax.ViscousFriction("a", "b", -0.5), "coefficient is -0.5", "not negative"),
    "force frame": (
        lambda: lie_jax.PointForce("b", EYE[0], frame="inertial"), "'inertial'", "'world', 'body'"),
    "torque shape": (
        lambda: lie_jax.Torque("b", 3.0, frame="body"), "Torque('b').torque", "(3,)", "N m, body"),
    "torque returns a tuple": (
        lambda: lie_jax.Torque("b", lambda t: (0.0, 0.0, t)), "tuple", "N m, inertial"),
    "spring shape": (
        lambda: lie_jax.CartesianSpringDamper("a", "b", 5.0), "stiffness", "(3,)", "N/m"),
    "spring stiffness": (
        lambda: lie_jax.CartesianSpringDamper("a", "b", (1.0, -2.0, 0.0)), "stiffness[1] is -2.0",
        "not negative", "N/m"),
    "spring damping": (
        lambda: lie_jax.LinearSpringDamper("a", "b", 1.0, -2.0, 0.5), "damping is -2.0", "N s/m"),
    "spring length": (
        lambda: lie_jax.LinearSpringDamper("a", "b", 1.0, 2.0, 0.0), "length is 0.0", "positive",
        "lie_jax.CartesianSpringDamper("),
    "torsional spring": (
        lambda: lie_jax.JointSpring(HINGE, stiffness=-1.0),
        "JointSpring('a', 'b').stiffness is -1.0", "not negative", "N m/rad or N/m"),
    "angle at rest": (
        lambda: lie_jax.JointSpring(SHAFT, 0, stiffness=1.0, relaxed=EYE[0]),
        "JointSpring('shaft').relaxed", "one number (rad or m)"),
    "spring point": (
        lambda: lie_jax.LinearSpringDamper("a", "b", 1.0, 2.0, 0.5, child_point=(1.0,)),
        "LinearSpringDamper('a', 'b').child_point", "(3,)"),
    "spring offset": (
        lambda: lie_jax.CartesianSpringDamper("a", "b", (1.0, 1.0, 1.0), offset=(0, np.nan, 0)),
        "offset", "nan", "finite"),
    "bushing shape": (
        lambda: lie_jax.Bushing("a", "b", 5.0, EYE), "Bushing('a', 'b').stiffness has shape ()",
        "(3, 3)", "N/m; or three numbers"),
    "bushing pushes": (
        lambda: lie_jax.Bushing("a", "b", EYE, (1.0, -1.0, 0.0)), "rotational_stiffness",
        "-1.0", "negative eigenvalues", "N m/rad"),
    "bushing without potential": (
        lambda: lie_jax.Bushing("a", "b", EYE + np.eye(3, k=1), EYE), "stiffness", "symmetric",
        "below the diagonal"),
    "axis of a bushing": (
        lambda: lie_jax.RevoluteBushing("a", "b", np.zeros(3), EYE, 1.0),
        "RevoluteBushing('a', 'b').axis", "(0, 0, 0)", "any length but zero"),
    "bushing about an axis": (
        lambda: lie_jax.RevoluteBushing("a", "b", EYE[2], EYE, -2.0), "rotational_stiffness",
        "-2.0", "not negative", "N m/rad"),
    "chain of other joints": (
        lambda: chain.build(joint="prismatic"), "'prismatic'", "one of: 'spherical', 'revolute'"),
    "chain of no links": (lambda: chain.build(n=0), "n=", "at least 1"),
    "chain velocities": (
        lambda: chain.build(n=2, omega_relative=np.zeros((3, 3))), "omega_relative", "(2, 3)"),
}  # fmt: skip


@pytest.mark.parametrize(
    "force", [lambda t: np.array([np.sin(t), 0, 0]), lambda t: EYE[0] if t < 1.0 else EYE[1]]
)
def test_functions_that_need_numbers_are_refused_by_name(force):
    parts = "PointForce('b').force is ", "<lambda>", "one argument, the time (s)", "jax.lax.cond"
    check_message(lambda: lie_jax.PointForce("b", force), "under jax.jit", *parts)
    check_message(lambda: lie_jax.PointForce("b", lambda: 1), "called with (t)", parts[0])


# The same message as in absolute coordinates, and one of a search from many starts.
FULL = {"loop that does not close in joint coordinates", "contradictory joints"}


@pytest.mark.parametrize("case", cases(CASES, CASES.keys() - FULL))
def test_message(case):
    check_message(*CASES[case])
