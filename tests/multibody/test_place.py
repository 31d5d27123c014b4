"""Bodies placed by the coordinates of joints, and loops closed from rough poses."""

import dataclasses

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.multibody import stacking
from models import bricard
from tests import mechanisms
from tests.messages import check_message
from tests.suites import cases

# Rounding of poses of some metres, through a dozen products.
ROUNDING = 1e-12
# Errors of central differences with steps of 1e-5, relative to derivatives of the order one.
DIFFERENCES = 1e-8
UP, X = (0.0, 0.0, 1.0), np.eye(3)[0]
GROUND, CRANK, COUPLER, ROCKER = 1.0, 0.3, 1.1, 0.8


def _poses(mechanism):
    position, orientation, *_ = map(np.asarray, stacking.initial_motion(mechanism.bodies))
    rotation = Rotation.from_quat(orientation, scalar_first=True).as_matrix()
    return np.concatenate([rotation, position[:, :, None]], axis=2)


def _scattered(mechanism, keep):
    """The mechanism with its bodies at the origin, except those to keep."""
    bodies = [
        body
        if body.name in keep
        else dataclasses.replace(
            body, position=np.zeros(3), orientation=np.asarray([1.0, 0.0, 0.0, 0.0])
        )
        for body in mechanism.bodies
    ]
    return dataclasses.replace(mechanism, bodies=bodies)


@pytest.mark.full
@pytest.mark.parametrize("name", ["forest", "compound_forest"])
def test_bodies_stand_where_their_coordinates_put_them(name):
    """Trees on the ground and on a floating base, with joints in both directions."""
    mechanism = getattr(mechanisms, name)()
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    coordinates = {k: np.asarray(x) for k, x in system.joint_coordinates(state.q).items()}
    rotations = dict(zip(mechanism.names, _poses(mechanism)[:, :, :3], strict=True))
    rotations["ground"] = np.eye(3)
    for joint in mechanism.joints:
        if isinstance(joint, lie_jax.SphericalJoint):
            relative = rotations[joint.parent].T @ rotations[joint.child]
            coordinates[joint.parent, joint.child] = mechanisms.quaternion(
                Rotation.from_matrix(relative).as_rotvec()
            )
    # The first body that is no joint's child stays.
    placed = lie_jax.place(_scattered(mechanism, keep=["ear"]), coordinates)
    assert_allclose(_poses(placed), _poses(mechanism), atol=ROUNDING)
    # Named joints alone move: the others stay where the poses put them.
    again = lie_jax.place(placed)
    assert_allclose(_poses(again), _poses(placed), atol=ROUNDING)


def _four_bar(closing="hinge"):
    """Bars that all lie at the origin, along x of their frames."""
    bodies = [
        lie_jax.Body(name, 1.0, np.diag([0.01, 0.1, 0.1]), (0.5 * length, 0.0, 0.0))
        for name, length in (("crank", CRANK), ("coupler", COUPLER), ("rocker", ROCKER))
    ]
    joints = [
        lie_jax.RevoluteJoint("ground", "crank", UP),
        lie_jax.RevoluteJoint("crank", "coupler", UP, CRANK * X),
        lie_jax.RevoluteJoint("ground", "rocker", UP, GROUND * X),
    ]
    points = (COUPLER * X, ROCKER * X)
    if closing == "hinge":
        joints.append(lie_jax.RevoluteJoint("coupler", "rocker", UP, *points))
    else:
        joints.append(lie_jax.GenericJoint("coupler", "rocker", ("x", "y"), *points))
    return lie_jax.Mechanism(bodies, joints)


def _rocker_angle(crank):
    """Angle of the rocker from the cosine theorem, with the coupler above the crank (rad)."""
    tip = CRANK * jnp.stack([jnp.cos(crank), jnp.sin(crank)])
    between = tip - jnp.stack([GROUND, 0.0])
    square = jnp.dot(between, between)
    cosine = (ROCKER**2 + square - COUPLER**2) / (2.0 * ROCKER * jnp.sqrt(square))
    return jnp.arctan2(between[1], between[0]) - jnp.arccos(cosine)


GUESS = {("crank", "coupler"): 0.3, ("ground", "rocker"): 1.2}


@pytest.mark.full
@pytest.mark.parametrize("closing", ["hinge", "pin"])
def test_a_four_bar_closes_with_its_crank_held(closing):
    """From a rough pose, with and without redundant constraints, against the cosine theorem."""
    rough = lie_jax.place(_four_bar(closing), GUESS, close=False)
    for crank in (0.5, 1.0):
        placed = lie_jax.place(rough, {("ground", "crank"): crank})
        angles = np.arctan2(*_poses(placed)[:, [1, 0], 0].T)
        assert_allclose(angles[0], crank, atol=ROUNDING)
        assert_allclose(angles[2], _rocker_angle(crank), atol=ROUNDING)
        system, state = lie_jax.assemble(placed, lie_jax.R3SO3())
        assert float(jnp.max(jnp.abs(system.constraint(0.0, state.q)))) < ROUNDING


@pytest.mark.full
def test_all_but_named_joints_give_way_by_the_least_change():
    """Guesses of all joints: with none named all three angles change."""
    guesses = GUESS | {("ground", "crank"): 0.6}
    rough = lie_jax.place(_four_bar(), guesses, close=False)
    before, after = (np.arctan2(*_poses(m)[:, [1, 0], 0].T) for m in (rough, lie_jax.place(rough)))
    assert_allclose(before, [0.6, 0.9, 1.2], atol=ROUNDING)
    assert np.min(np.abs(after - before)) > 1e-3
    assert_allclose(after[2], _rocker_angle(after[0]), atol=ROUNDING)


@pytest.mark.full
def test_places_have_derivatives_and_are_compiled():
    """The rate of the rocker for that of the crank."""
    rough = lie_jax.place(_four_bar(), GUESS, close=False)

    def heading(crank):
        placed = lie_jax.place(rough, {("ground", "crank"): crank})
        along = lie_jax.groups.quaternion.to_matrix(placed.bodies[2].orientation)[:, 0]
        return jnp.arctan2(along[1], along[0])

    crank, step = jnp.asarray(0.7), 1e-5
    value, rate = jax.jit(jax.value_and_grad(heading))(crank)
    assert_allclose(value, _rocker_angle(crank), atol=ROUNDING)
    assert_allclose(rate, jax.grad(_rocker_angle)(crank), rtol=1e-10)
    ahead, behind = (_rocker_angle(crank + h) for h in (step, -step))
    assert_allclose(rate, (ahead - behind) / (2.0 * step), rtol=DIFFERENCES)


@pytest.mark.full
def test_a_floating_body_moves_to_its_constraints():
    """A body on a rod, without a joint that has coordinates: the shortest way, along the rod."""
    body = lie_jax.Body("b", 2.0, np.eye(3), position=(3.0, 0.0, 4.0))
    rod = lie_jax.DistanceJoint("ground", "b", 2.0)
    placed = lie_jax.place(lie_jax.Mechanism([body], [rod]))
    assert_allclose(placed.bodies[0].position, [1.2, 0.0, 1.6], atol=ROUNDING)


def test_everything_named_leaves_nothing_to_move():
    """A slider and a ball; then a loop without any freedom."""
    turn = mechanisms.quaternion([0.2, -0.5, 0.3])
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in "ab"]
    joints = [
        lie_jax.PrismaticJoint("ground", "a", (0.0, 3.0, 4.0)),
        lie_jax.SphericalJoint("a", "b", X, -X),
    ]
    coordinates = {("ground", "a"): 0.5, ("a", "b"): turn}
    placed = lie_jax.place(lie_jax.Mechanism(bodies, joints), coordinates)
    first, second = _poses(placed)
    assert_allclose(first[:, 3], [0.0, 0.3, 0.4], atol=ROUNDING)
    rotation = Rotation.from_quat(turn, scalar_first=True).as_matrix()
    assert_allclose(second[:, :3], rotation, atol=ROUNDING)
    assert_allclose(second[:, 3], first[:, 3] + X + rotation @ X, atol=ROUNDING)
    rod = lie_jax.DistanceJoint("ground", "b", 1.0)
    check_message(
        lambda: lie_jax.place(lie_jax.Mechanism(bodies, [*joints, rod]), coordinates),
        "leaves a gap of", "DistanceJoint('ground', 'b')", "leave out",
    )  # fmt: skip


BAD = {
    "no mechanism": (lambda: lie_jax.place(3), "place(mechanism=) is a int", "lie_jax.Mechanism("),
    "no dictionary": (
        lambda: lie_jax.place(_four_bar(), [0.3]), "place(coordinates=) is a list",
        "{('parent', 'child'): value}"),
    "no joint": (
        lambda: lie_jax.place(_four_bar(), {("crank", "rocker"): 0.3}), "('crank', 'rocker')",
        "the label of no joint", "('ground', 'crank')"),
    "number of coordinates": (
        lambda: lie_jax.place(_four_bar(), {("ground", "crank"): (0.3, 0.4)}),
        "place(coordinates=)[('ground', 'crank')]", "shape (2,)", "(1,)",
        "RevoluteJoint('ground', 'crank')"),
    "text": (
        lambda: lie_jax.place(_four_bar(), {("ground", "crank"): "up"}), "'up'", "real numbers"),
    "not finite": (
        lambda: lie_jax.place(_four_bar(), {("ground", "crank"): np.nan}), "nan", "finite"),
    "no coordinates": (
        lambda: lie_jax.place(
            lie_jax.Mechanism(
                [lie_jax.Body("b", 1.0, np.eye(3))], [lie_jax.DistanceJoint("ground", "b", 1.0)]
            ), {("ground", "b"): 0.3}),
        "DistanceJoint('ground', 'b') has no joint coordinates", "leave it out"),
    "no quaternion": (
        lambda: lie_jax.place(
            lie_jax.Mechanism(
                [lie_jax.Body("b", 1.0, np.eye(3))], [lie_jax.SphericalJoint("ground", "b")]
            ), {("ground", "b"): np.ones(4)}),
        "the quaternion in place(coordinates=)[('ground', 'b')]", "norm 2"),
    "whole loop": (
        lambda: lie_jax.place(
            _four_bar(), GUESS | {("ground", "crank"): 0.5, ("coupler", "rocker"): 0.1}),
        "closes a loop of joints that are all named", "leave it out"),
    "out of reach": (
        lambda: lie_jax.place(
            lie_jax.Mechanism(
                [lie_jax.Body("b", 1.0, np.eye(3))],
                [
                    lie_jax.RevoluteJoint("ground", "b", UP, X, X),
                    lie_jax.DistanceJoint("ground", "b", 2.5),
                ],
            )),
        "leaves a gap of", "DistanceJoint('ground', 'b')", "close=False"),
    "close": (lambda: lie_jax.place(_four_bar(), close=2), "place(close=) is 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", cases(BAD, BAD.keys() - {"out of reach"}))
def test_bad_values_are_named(case, monkeypatch):
    # Users' programs have no run-time checks of types, which would come first.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    check_message(*BAD[case])


@pytest.mark.full
def test_bricards_loop_in_space_closes():
    """Six hinges with one redundant constraint, from straight bars, against the model's poses."""
    bodies, joints, parent, end = [], [], "ground", np.zeros(3)
    for k, edge in enumerate(np.asarray(bricard.EDGES)):
        name = f"bar {k}"
        bodies.append(lie_jax.Body(name, 1.0, np.eye(3)))
        joints.append(lie_jax.RevoluteJoint(parent, name, bricard.AXES[k], end, -0.5 * edge))
        parent, end = name, 0.5 * edge
    joints.append(lie_jax.RevoluteJoint(parent, "ground", bricard.AXES[5], end, UP))
    linkage = lie_jax.Mechanism(bodies, joints)
    for angle in (0.3, 0.8):
        placed = lie_jax.place(linkage, {("ground", "bar 0"): angle})
        system, state = bricard.build(angle=angle)
        rotation, position = system.poses(state.q)
        assert_allclose(_poses(placed)[:, :, 3], position, atol=ROUNDING)
        assert_allclose(_poses(placed)[:, :, :3], rotation, atol=ROUNDING)
