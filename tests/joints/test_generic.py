"""The generic joint: as the named joints, in joint coordinates, and in plane loops."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.mechanics.joints.base import BodyPose
from lie_jax.systems.index1 import redundant
from models import loops
from tests import mechanisms
from tests.suites import cases

WORDS = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")
# Rounding in products of a few numbers of the order one.
ROUNDING = 1e-13
# Rounding in accelerations of some ten m/s², through the solution for the multipliers.
ACCELERATION_ROUNDING = 1e-10
# Error of a step of generalized-alpha of 1 ms in a motion at some rad/s, after 50 steps.
METHOD_ERROR = 1e-5
T = jnp.zeros(())


def _turn(rotation_vector):
    return Rotation.from_rotvec(rotation_vector).as_matrix()


def _matrix(quaternion):
    return Rotation.from_quat(quaternion, scalar_first=True).as_matrix()


def _numbers(rng):
    return {
        "parent_point": rng.normal(size=3),
        "child_point": rng.normal(size=3),
        "orientation": mechanisms.quaternion(rng.normal(size=3)),
    }


def _allowed(joint, rng):
    """A pose of the child in the parent's frame from the docstring of the generic joint."""
    axes, home = _matrix(joint.parent_orientation).T, _matrix(joint.orientation)
    free = [k for k, word in enumerate(WORDS) if word not in joint.held]
    turns = [k - 3 for k in free if k >= 3]
    along = sum((rng.normal() * axes[k] for k in free if k < 3), np.zeros(3))
    rotation = np.eye(3)
    for k in turns:
        rotation = rotation @ _turn(rng.normal() * axes[k])
    rotation = rotation @ home
    return BodyPose(rotation, joint.parent_point + along - rotation @ joint.child_point)


def _named(rng):
    """Named joints, and generic ones that allow the same."""
    turn = mechanisms.quaternion(rng.normal(size=3))
    x, y, z = _matrix(turn).T
    for kind, held, directions in (
        (lie_jax.SphericalJoint, WORDS[:3], {}),
        (lie_jax.RevoluteJoint, WORDS[:5], {"axis": z}),
        (lie_jax.RevoluteJoint, (*WORDS[:4], WORDS[5]), {"axis": y}),
        (lie_jax.PrismaticJoint, WORDS[1:], {"axis": x}),
        (lie_jax.CylindricalJoint, (*WORDS[:2], *WORDS[3:5]), {"axis": z}),
        (lie_jax.PlanarJoint, WORDS[2:5], {"normal": z}),
        (lie_jax.UniversalJoint, (*WORDS[:3], WORDS[4]), {"axis": x, "child_axis": z}),
        (lie_jax.RigidJoint, WORDS, {}),
    ):
        numbers = _numbers(rng)
        generic = lie_jax.GenericJoint("a", "b", held, parent_orientation=turn, **numbers)
        if kind is lie_jax.SphericalJoint:
            del numbers["orientation"]
        if kind is lie_jax.UniversalJoint:
            directions["child_axis"] = _matrix(numbers["orientation"]).T @ z
        yield kind("a", "b", **directions, **numbers), generic


SETS = {
    "first": (lie_jax.CylindricalJoint, lie_jax.UniversalJoint),
    "second": (
        *(lie_jax.SphericalJoint, lie_jax.RevoluteJoint, lie_jax.PrismaticJoint),
        *(lie_jax.PlanarJoint, lie_jax.RigidJoint),
    ),
}


@pytest.mark.parametrize("name", cases(SETS, ["first"]))
def test_it_is_the_named_joints(name):
    """The same violation at any pose; the same reactions at allowed ones, a basis aside."""
    rng = np.random.default_rng(4)
    pairs = list(_named(rng))
    parent, anywhere = (
        BodyPose(jnp.asarray(_turn(rng.normal(size=3))), jnp.asarray(rng.normal(size=3)))
        for _ in range(2)
    )
    placed = []
    for _, generic in pairs:
        relative = _allowed(generic, rng)
        place = parent.position + parent.rotation @ relative.position
        placed.append(BodyPose(parent.rotation @ relative.rotation, place))
    chosen = [k for k, (named, _) in enumerate(pairs) if isinstance(named, SETS[name])]
    pairs, placed = [pairs[k] for k in chosen], [placed[k] for k in chosen]

    @jax.jit
    def evaluated(pairs, placed):
        def at(joint, child):
            def wrenches(row):
                return jnp.concatenate(
                    [x for w in joint.reaction(T, parent, child, row) for x in w]
                )

            return (
                joint.constraint(T, parent, anywhere),
                joint.constraint(T, parent, child),
                jax.vmap(wrenches)(jnp.eye(joint.rows)),
                joint.coordinates(parent, child),
            )

        return [[at(joint, c) for joint in pair] for pair, c in zip(pairs, placed, strict=True)]

    for (named, _), values in zip(pairs, evaluated(pairs, placed), strict=True):
        (far, at, jacobian, readings), (far_2, at_2, jacobian_2, readings_2) = values
        assert_allclose(
            np.linalg.norm(far_2), np.linalg.norm(far), rtol=10 * ROUNDING, err_msg=str(type(named))
        )
        assert np.linalg.norm(far) > 0.1
        assert_allclose(at, 0.0, atol=10 * ROUNDING)
        assert_allclose(at_2, 0.0, atol=10 * ROUNDING)
        if not isinstance(named, lie_jax.PlanarJoint):
            # A shaft in a sleeve has its angle first; a plane has directions of its choice.
            assert_allclose(sorted(readings_2), sorted(readings), atol=10 * ROUNDING)
        first, second = (np.linalg.pinv(j) @ j for j in (jacobian, jacobian_2))
        assert_allclose(second, first, atol=100 * ROUNDING, err_msg=str(type(named)))


@pytest.mark.full
def test_every_choice_holds_on_its_motions_and_on_no_others():
    """Constraints vanish on the motions of all 63 choices; their rows are independent."""
    rng, parent = np.random.default_rng(7), BodyPose(jnp.eye(3), jnp.zeros(3))
    choices = [held for n in range(1, 7) for held in itertools.combinations(WORDS, n)]
    joints = [
        lie_jax.GenericJoint(
            "a", "b", held, parent_orientation=mechanisms.quaternion(rng.normal(size=3)),
            **_numbers(rng),
        )
        for held in choices
    ]  # fmt: skip
    placed = [BodyPose(*map(jnp.asarray, _allowed(joint, rng))) for joint in joints]
    for joint, child in zip(joints, placed, strict=True):
        assert_allclose(joint.constraint(T, parent, child), 0.0, atol=10 * ROUNDING)
        wrenches = [joint.reaction(T, parent, child, row) for row in jnp.eye(joint.rows)]
        jacobian = np.asarray([np.concatenate(on_child) for _, on_child in wrenches])
        # Singular values of directions of length one; turns of some rad reduce those of rotations.
        assert np.linalg.svd(jacobian, compute_uv=False)[-1] > 0.03, joint.held
        assert len(joint.coordinates(parent, child)) == len(joint.coordinate_units)


TREES = (
    (("y", "z", "rotation_x", "rotation_y"), "ground", "a"),
    (("x", "rotation_y"), "a", "b"),
    (("x", "z", "rotation_x", "rotation_y", "rotation_z"), "c", "b"),
    (("z",), "c", "d"),
    (WORDS[:3], "d", "e"),
    (WORDS, "e", "f"),
)


@pytest.mark.full
def test_it_has_joint_coordinates():
    """Accelerations and readings in joint coordinates and in absolute ones."""
    rng = np.random.default_rng(11)
    joints, poses = [], {"ground": (np.eye(3), np.zeros(3))}
    for held, parent, child in TREES:
        turn = mechanisms.quaternion(rng.normal(size=3))
        joint = lie_jax.GenericJoint(parent, child, held, parent_orientation=turn, **_numbers(rng))
        rotation, position = (np.asarray(x) for x in _allowed(joint, rng))
        if parent in poses:
            turned, at = poses[parent]
            poses[child] = turned @ rotation, at + turned @ position
        else:
            turned, at = poses[child]
            home = turned @ rotation.T
            poses[parent] = home, at - home @ position
        joints.append(joint)
    bodies = [
        lie_jax.Body(
            name, rng.uniform(1, 3), mechanisms.inertia(rng), rng.normal(size=3) * 0.3,
            poses[name][1], Rotation.from_matrix(poses[name][0]).as_quat(scalar_first=True),
        )
        for name in "abcdef"
    ]  # fmt: skip
    mechanism = lie_jax.Mechanism(bodies, joints)
    tree, start = lie_jax.assemble(mechanism, lie_jax.Minimal())
    free, at = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    assert (tree.nv, tree.nc) == (36 - free.nc, 0)

    @jax.jit
    def evaluated(q, v, q_free, v_free):
        acceleration = tree.acceleration(0.0, q, v)
        # At rest: accelerations of bodies are their velocities for these rates.
        return (
            tree.twists(q, acceleration),
            free.twists(q_free, free.acceleration(0.0, q_free, v_free)),
            tree.joint_coordinates(q),
            free.joint_coordinates(q_free),
        )

    moved, expected, readings, expected_readings = evaluated(start.q, start.v, at.q, at.v)
    assert_allclose(moved, expected, atol=ACCELERATION_ROUNDING)
    for label, value in expected_readings.items():
        assert_allclose(readings[label], value, atol=100 * ROUNDING)
    assert len(expected_readings) == len(TREES) - 2


def _four_bar(closing):
    """A plane linkage of three moving bars, that falls from rest."""
    corners = np.asarray([[0.0, 0.0], [0.2, 0.5], [1.1, 0.8], [1.0, 0.0]])
    bodies, joints, ends = [], [], []
    for k in range(3):
        along = np.append(corners[k + 1] - corners[k], 0.0)
        half, angle = 0.5 * np.linalg.norm(along), np.arctan2(along[1], along[0])
        bodies.append(
            lie_jax.Body(
                f"bar {k}", 1.0 + k, np.diag([0.01, 0.2, 0.2]),
                position=np.append(corners[k], 0.0) + 0.5 * along,
                orientation=mechanisms.quaternion([0.0, 0.0, angle]),
            )
        )  # fmt: skip
        ends.append((f"bar {k}", half * np.eye(3)[0]))
    up = (0.0, 0.0, 1.0)
    before = ("ground", np.zeros(3))
    for name, end in ends:
        joints.append(lie_jax.RevoluteJoint(before[0], name, up, before[1], -end))
        before = name, end
    if closing == "pin":
        last = lie_jax.GenericJoint(
            "ground", before[0], ("x", "y"), np.append(corners[3], 0.0), before[1]
        )
    else:
        last = lie_jax.RevoluteJoint("ground", before[0], up, np.append(corners[3], 0.0), before[1])
    return lie_jax.Mechanism(bodies, [*joints, last], gravity=(0.0, -9.81, 0.0))


def _rank(system, q):
    jacobian = system.constraint_jacobian(jnp.zeros(()), q)
    return system.nc, int(np.linalg.matrix_rank(jacobian, tol=1e-9))


# `make test` has the rows of the squeezer.
@pytest.mark.full
@pytest.mark.parametrize("name", ["R3SO3", "SE3", "TaitBryan", "EulerParameters", "Minimal"])
def test_a_plane_loop_has_no_redundant_rows(name):
    """One degree of freedom, three hinges and two translations; it moves as with four hinges."""
    formulation = getattr(lie_jax, name)()
    (pinned, start), (hinged, other) = (
        lie_jax.assemble(_four_bar(closing), formulation) for closing in ("pin", "hinge")
    )
    own = {"EulerParameters": 3}.get(name, 0)
    if name == "Minimal":
        assert (pinned.nv, pinned.nc) == (3, 2)
    else:
        assert _rank(pinned, start.q) == (17 + own, 17 + own)
        assert _rank(hinged, other.q) == (20 + own, 17 + own)
    assert not redundant(pinned, jnp.zeros(()), start.q)
    runs = [
        lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=1e-3, steps=50, save=50)
        for system, state in ((pinned, start), (hinged, other))
    ]
    ends = [system.poses(run.q[-1])[1] for system, run in zip((pinned, hinged), runs, strict=True)]
    assert np.max(np.abs(ends[0] - pinned.poses(start.q)[1])) > 1e-3
    assert_allclose(ends[0], ends[1], atol=METHOD_ERROR)


@pytest.mark.full
def test_the_squeezer_has_no_redundant_rows():
    """Seven hinges hold the plane, three pins close the loops: one degree of freedom of 42."""
    mechanism, closing = loops.mechanism("squeezer"), []
    for joint, tie in zip(mechanism.joints, loops.squeezer().ties, strict=True):
        pin = lie_jax.GenericJoint(joint.parent, joint.child, ("x", "y"), *joint.points)
        closing.append(pin if tie.closes else joint)
    pinned = lie_jax.Mechanism(mechanism.bodies, closing, mechanism.forces, mechanism.gravity)
    (system, state), (hinged, other) = (
        lie_jax.assemble(m, lie_jax.R3SO3()) for m in (pinned, mechanism)
    )
    assert _rank(system, state.q) == (41, 41)
    assert _rank(hinged, other.q) == (50, 41)
    accelerations = [
        np.asarray(jax.jit(lambda q, v, s=s: s.acceleration(0.0, q, v))(x.q, x.v))
        for s, x in ((system, state), (hinged, other))
    ]
    # Relative to the largest, some 1e4 rad/s².
    scale = np.max(np.abs(accelerations[1]))
    assert_allclose(accelerations[0], accelerations[1], atol=ACCELERATION_ROUNDING * scale)
