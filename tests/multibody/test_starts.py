"""Starts: every joint closes on its right side, from any turn and from far; others are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from tests import mechanisms
from tests.messages import check_message, simulate
from tests.suites import cases

# Rounding of poses of some metres after Gauss-Newton steps.
ROUNDING = 1e-9
X, Z = np.eye(3)[0], np.eye(3)[2]
HOME = np.asarray([0.5, 0.5, -0.5, 0.5])
ALL = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")
AXIS = np.asarray([1.0, 2.0, -2.0]) / 3.0
FORMULATIONS = {
    "R3SO3": lie_jax.R3SO3(),
    "SE3": lie_jax.SE3(),
    "rotation vectors": lie_jax.R3SO3(coordinates="rotation_vector"),
    "EulerParameters": lie_jax.EulerParameters(),
    "UnifiedVelocity": lie_jax.UnifiedVelocity(),
}


def _along(axis):
    """Function that is zero where the child's axis points along the parent's."""
    home = Rotation.from_quat(HOME, scalar_first=True)
    return lambda turn: np.linalg.norm(turn.apply(home.inv().apply(axis)) - axis)


def _turned(words):
    """Function that is zero where components of the rotation vector from home vanish."""
    home = Rotation.from_quat(HOME, scalar_first=True)
    return lambda turn: np.abs((turn * home.inv()).as_rotvec()[list(words)]).max()


# Joints with two places for one value of their constraints, and what is zero in the right one.
KINDS = {
    "rigid": (lambda *e: lie_jax.RigidJoint(*e, X, -Z, HOME), _turned((0, 1, 2))),
    "slider": (lambda *e: lie_jax.PrismaticJoint(*e, AXIS, X, -Z, HOME), _turned((0, 1, 2))),
    "hinge": (lambda *e: lie_jax.RevoluteJoint(*e, AXIS, X, -Z, HOME), _along(AXIS)),
    "sleeve": (lambda *e: lie_jax.CylindricalJoint(*e, AXIS, X, -Z, HOME), _along(AXIS)),
    "plane": (lambda *e: lie_jax.PlanarJoint(*e, AXIS, X, -Z, HOME), _along(AXIS)),
    "generic weld": (
        lambda *e: lie_jax.GenericJoint(*e, ALL, orientation=HOME), _turned((0, 1, 2))),
    "generic hinge": (
        lambda *e: lie_jax.GenericJoint(*e, ("y", "rotation_x", "rotation_y"), orientation=HOME),
        _along(Z),
    ),
    "coordinates": (
        lambda *e: lie_jax.CoordinateJoint(*e, ALL, orientation=HOME), _turned((0, 1, 2))),
    "two rotations": (
        lambda *e: lie_jax.CoordinateJoint(*e, ("x", "rotation_x", "rotation_z"), orientation=HOME),
        _turned((0, 2)),
    ),
    "one rotation": (
        lambda *e: lie_jax.CoordinateJoint(*e, ("rotation_y",), orientation=HOME), _turned((1,))),
}  # fmt: skip


def _pair(joints, formulation):
    """Bodies a, on a hinge of the ground, and b, free but for the joints."""
    inertia = np.diag([0.1, 0.2, 0.25])
    bodies = [lie_jax.Body("a", 1.3, inertia, (0.1, 0.2, 0.3)), lie_jax.Body("b", 0.7, inertia)]
    hinge = lie_jax.RevoluteJoint("ground", "a", Z)
    return lie_jax.assemble(lie_jax.Mechanism(bodies, [hinge, *joints]), formulation)


def _starts(count, seed):
    """Positions of b, and its turns from small ones to half a turn."""
    rng = np.random.default_rng(seed)
    axes = rng.normal(size=(count, 3))
    axes /= np.linalg.norm(axes, axis=1)[:, None]
    angles = np.linspace(0.2, np.pi, count)
    home = Rotation.from_quat(HOME, scalar_first=True)
    turns = [Rotation.from_rotvec(a * n) * home for a, n in zip(angles, axes, strict=True)]
    return rng.normal(size=(count, 3)), np.stack([t.as_quat(scalar_first=True) for t in turns])


@pytest.mark.parametrize(
    ("kind", "formulation"),
    cases(
        [(kind, formulation) for kind in KINDS for formulation in FORMULATIONS],
        [],
    ),
)
def test_a_joint_closes_on_its_right_side_from_any_turn(kind, formulation):
    """Inside compiled functions, from where Gauss-Newton steps on sines end half a turn away."""
    make, error = KINDS[kind]
    system, state = _pair([make("a", "b")], FORMULATIONS[formulation])
    positions, orientations = _starts(24, seed=1)
    here = jax.vmap(system.formulation.configuration)(positions, orientations)
    start = jnp.tile(state.q, (len(here), 1)).at[:, -here.shape[1] :].set(here)

    @jax.jit
    @jax.vmap
    def projected(q):
        end = lie_jax.project(system, lie_jax.State(q, state.v))
        return system.constraint(0.0, end.q), system.poses(end.q)[0]

    gaps, rotations = projected(start)
    assert_allclose(gaps, 0.0, atol=ROUNDING)
    first, second = (Rotation.from_matrix(x) for x in np.moveaxis(np.asarray(rotations), 1, 0))
    for turn in first.inv() * second:
        assert error(turn) < ROUNDING


@pytest.mark.full
def test_a_weld_of_joint_coordinates_closes_on_its_right_side():
    """A ball joint in the tree, and rotations that are held in a cut joint."""
    body = lie_jax.Body("b", 1.0, np.eye(3), orientation=mechanisms.quaternion(3.0 * AXIS))
    turns = lie_jax.GenericJoint("ground", "b", ALL[3:])
    mechanism = lie_jax.Mechanism([body], [lie_jax.SphericalJoint("ground", "b"), turns])
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    assert_allclose(np.abs(lie_jax.project(system, state).q), [1, 0, 0, 0], atol=ROUNDING)
    placed = lie_jax.place(mechanism)
    assert_allclose(np.abs(placed.bodies[0].orientation), [1, 0, 0, 0], atol=ROUNDING)


def _five_bar():
    """Two chains of two bars, one upright and one hanging: singular, with a gap of two metres."""
    bars = [
        lie_jax.Body(
            name, 1.0, np.diag([0.02, 0.02, 0.001]), position=(0, 0, sign * (0.25 + 0.5 * k))
        )
        for sign, pair in ((1.0, "ab"), (-1.0, "cd"))
        for k, name in enumerate(pair)
    ]
    y = (0.0, 1.0, 0.0)
    joints = [
        lie_jax.RevoluteJoint("ground", "a", y, (0, 0, 0), (0, 0, -0.25)),
        lie_jax.RevoluteJoint("a", "b", y, (0, 0, 0.25), (0, 0, -0.25)),
        lie_jax.RevoluteJoint("ground", "c", y, (0, 0, 0), (0, 0, 0.25)),
        lie_jax.RevoluteJoint("c", "d", y, (0, 0, -0.25), (0, 0, 0.25)),
        lie_jax.GenericJoint("b", "d", ("x", "z"), (0, 0, 0.25), (0, 0, -0.25)),
    ]
    return lie_jax.Mechanism(bars, joints)


def _gap(mechanism):
    """Distance of the ends of both chains."""
    ends = []
    for body, height in zip(mechanism.bodies[1::2], (0.25, -0.25), strict=True):
        turn = Rotation.from_quat(np.asarray(body.orientation), scalar_first=True)
        ends.append(np.asarray(body.position) + turn.apply([0, 0, height]))
    return np.linalg.norm(ends[0] - ends[1])


@pytest.mark.full
def test_a_loop_that_is_far_open_closes_from_another_start():
    mechanism = _five_bar()
    assert _gap(mechanism) == 2.0
    placed = lie_jax.place(mechanism)
    assert _gap(placed) < ROUNDING
    # The same starts each time.
    again = lie_jax.place(mechanism)
    assert np.array_equal(placed.bodies[3].position, again.bodies[3].position)
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    closed = lie_jax.project(system, state)
    assert_allclose(system.constraint(0.0, closed.q), 0.0, atol=ROUNDING)


class Upright(lie_jax.extend.AbstractJoint):
    """A joint of one's own, which holds upside down as well and knows no way to the right side."""

    rows = 2

    def constraint(self, t, parent, child):
        return child.rotation[:2, 2]

    def side(self, t, parent, child):
        return child.rotation[2, 2]


# `make test` has the same at the start of a run.
@pytest.mark.full
def test_a_second_position_is_refused_by_name():
    """Also where only a joint of one's own knows that it is wrong."""
    flipped = lie_jax.Body("b", 1.0, np.eye(3), orientation=(0.0, 1.0, 0.0, 0.0))
    weld = lie_jax.RigidJoint("ground", "b", orientation=flipped.orientation)
    mechanism = lie_jax.Mechanism([flipped], [weld, Upright("ground", "b")])
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    check_message(
        lambda: lie_jax.project(system, state),
        "ends with Upright('ground', 'b') turned over, half a turn", "also from 12 starts",
        "lie_jax.place(mechanism)",
    )  # fmt: skip
    check_message(
        lambda: lie_jax.place(mechanism),
        "ends with Upright('ground', 'b') turned over, half a turn",
        "nearly fit",
    )


def _half_a_turn_off(kind):
    """A body on a joint of the ground, in the joint's second position; at rest."""
    # Across the axis of every hinge, and with a part of every rotation that is held.
    across = X if kind == "generic hinge" else np.asarray([0.0, 1.0, 1.0]) / np.sqrt(2.0)
    turn = lie_jax.groups.quaternion.multiply(mechanisms.quaternion(np.pi * across), HOME)
    joint = KINDS[kind][0]("ground", "b")
    position = joint.parent_point - lie_jax.groups.quaternion.rotate(turn, joint.child_point)
    body = lie_jax.Body("b", 1.0, np.eye(3), position=position, orientation=turn)
    mechanism = lie_jax.Mechanism([body], [joint])
    return *lie_jax.assemble(mechanism, lie_jax.R3SO3()), type(joint).__name__


@pytest.mark.parametrize("kind", cases(KINDS, ["one rotation"]))
def test_a_start_half_a_turn_off_is_refused_by_name(kind):
    system, state, name = _half_a_turn_off(kind)
    assert_allclose(system.constraint(0.0, state.q), 0.0, atol=ROUNDING)
    check_message(
        lambda: simulate(system, state, lie_jax.RKMK("euler")),
        f"has {name}('ground', 'b') turned over", "half a turn", "lie_jax.project",
    )  # fmt: skip


@pytest.mark.full
def test_an_equilibrium_is_not_sought_half_a_turn_off():
    system, state, _ = _half_a_turn_off("rigid")
    with pytest.raises(lie_jax.EquilibriumError, match=r"RigidJoint\('ground', 'b'\) more than"):
        lie_jax.equilibrium(system, state)
