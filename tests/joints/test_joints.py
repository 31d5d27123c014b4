"""Joints as constraints: their reactions, and motions that have a closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.mechanics.joints.base import BodyPose
from lie_jax.spaces import derivatives
from lie_jax.systems.system import accelerations_and_multipliers
from tests import mechanisms
from tests.joints.kinds import KINDS, driven, drivers_of, joint_of, moved

FORMULATIONS = {"R3SO3": lie_jax.R3SO3(), "SE3": lie_jax.SE3()}
# Rounding of products of a few numbers of the order one.
ROUNDING = 1e-13
# The same in accelerations, through the solution for the multipliers.
ACCELERATION_ROUNDING = 1e-12


# `make test` compares the reactions of all joints with their inherited derivatives.
@pytest.mark.full
@pytest.mark.parametrize("name", FORMULATIONS)
def test_reactions_are_the_transposed_jacobian(name):
    """Next to poses that satisfy the joints and far from them; parents are bodies and ground."""
    rng = np.random.default_rng(8)
    joints = []
    for ends in (("a", "b"), ("ground", "a")):
        joints += [joint_of(kind, *ends, rng) for kind in KINDS]
        joints += drivers_of(joints[-len(KINDS) :])
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in "ab"]
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), FORMULATIONS[name])
    assert system.nc == 2 * (sum(KINDS.values()) + 2)
    moves = jnp.asarray(rng.normal(size=(4, 12)))

    @jax.jit
    @jax.vmap
    def defect(move):
        t, q = jnp.asarray(0.3), system.space.retract(state.q, move)
        expected = derivatives.jacobian_along(system.space, lambda q: system.constraint(t, q), q)
        return system.constraint_jacobian(t, q) - expected

    assert float(jnp.max(jnp.abs(defect(moves)))) < ROUNDING


@pytest.mark.full
def test_single_precision_stays_single():
    """Of all joints: constraints, reactions and coordinates; nothing is compiled for it."""
    rng = np.random.default_rng(8)
    joints = [joint_of(kind, "a", "b", rng) for kind in KINDS]
    joints += [
        *drivers_of(joints),
        lie_jax.RollingDisc("ground", "a", 0.3, (1.0, 0.0, 0.0)),
        mechanisms.LooseGear("a", "b", (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), 2.0),
    ]
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in "ab"]
    assembled = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.SE3())

    def evaluated(system, state):
        t, q, v = jnp.zeros((), state.q.dtype), state.q, state.v
        multipliers = jnp.zeros(system.nc, q.dtype)
        readings = system.joint_coordinates(q), system.reactions(t, q, v, v, multipliers)
        return system.constraint_rate(t, q, v), system.constraint_jacobian(t, q), readings

    single = jax.tree.map(lambda x: x.astype(jnp.float32), assembled)
    for value in jax.tree.leaves(jax.eval_shape(evaluated, *single)):
        assert value.dtype == jnp.float32


# `make test` has the same in the tests of joint coordinates, on SE(3).
@pytest.mark.full
def test_constraints_hold_on_the_motions_that_joints_allow():
    """A forest with every kind of joint, moved joint by joint: constraints and their rates."""
    system, state = lie_jax.assemble(mechanisms.forest(), lie_jax.R3SO3())
    t = jnp.zeros(())

    @jax.jit
    def values(q, v):
        constraint = system.constraint(t, q)
        return constraint, derivatives.time_derivative(system.space, system.constraint, t, q, v)

    for value in values(state.q, state.v):
        # Positions of a few metres, velocities of some ten.
        assert float(jnp.max(jnp.abs(value))) < 10 * ROUNDING


def _turn(rotation_vector):
    return Rotation.from_rotvec(rotation_vector).as_matrix()


def _allowed(joint, t, rng):
    """A pose of the child in the parent's frame that the joint's docstring allows."""
    kind, home, driven_coordinate = type(joint), np.eye(3), None
    if kind is lie_jax.JointDriver:
        # Of a shaft's angle or distance, whatever the others are.
        driven_coordinate, joint = joint.driven.number, joint.joints[0]
    rotation, along = _turn(rng.normal(size=3)), np.zeros(3)
    axis = getattr(joint, "axis", getattr(joint, "normal", None))
    axis = None if axis is None else np.asarray(axis)
    if hasattr(joint, "orientation"):
        home = Rotation.from_quat(joint.orientation, scalar_first=True).as_matrix()
        turn = _turn(rng.normal() * axis) if axis is not None else np.eye(3)
        rotation = turn @ home
    if kind is lie_jax.PrismaticJoint:
        rotation = home
    if driven_coordinate == 0:
        rotation, along = _turn(float(driven(t)) * axis) @ home, rng.normal(size=3)
    if driven_coordinate == 1:
        rotation = _turn(rng.normal(size=3))
        along = float(driven(t)) * axis + np.cross(axis, rng.normal(size=3))
    if kind is lie_jax.CoordinateJoint:
        height, *angles = np.asarray(moved(t))
        held = _turn([angles[0], 0.0, angles[1]])
        rotation = _turn(0.3 * np.eye(3)[1]) @ held @ home
        along = np.asarray([rng.normal(), height, rng.normal()])
    if kind is lie_jax.GenericJoint:
        x, y, z = Rotation.from_quat(joint.parent_orientation, scalar_first=True).as_matrix().T
        rotation = _turn(rng.normal() * x) @ _turn(rng.normal() * y) @ home
        along = rng.normal() * x + rng.normal() * z
    if kind in (lie_jax.PrismaticJoint, lie_jax.CylindricalJoint):
        along = rng.normal() * axis
    if kind is lie_jax.PlanarJoint:
        along = np.cross(axis, rng.normal(size=3))
    if kind is lie_jax.DistanceJoint:
        along = _turn(rng.normal(size=3))[0] * float(joint.length)
    if kind is lie_jax.UniversalJoint:
        # The child's arm is laid at its angle to the parent's, then the child turns about both.
        arms = []
        for arm in (axis, np.asarray(joint.child_axis)):
            across = np.cross(arm, rng.normal(size=3))
            across = across / np.linalg.norm(across)
            arms.append(np.column_stack([arm, across, np.cross(arm, across)]))
        rotation = arms[0] @ _turn([0.0, 0.0, float(joint.angle)]) @ arms[1].T
        rotation = _turn(rng.normal() * axis) @ rotation
        rotation = rotation @ _turn(rng.normal() * np.asarray(joint.child_axis))
    ends = [
        np.asarray(getattr(joint, name, np.zeros(3))) for name in ("parent_point", "child_point")
    ]
    return BodyPose(rotation, ends[0] + along - rotation @ ends[1])


def test_joints_allow_their_motions_and_no_others():
    """Constraints hold on them, and the rows of the Jacobian there are independent."""
    rng, t = np.random.default_rng(3), jnp.asarray(0.7)
    joints = [joint_of(kind, "a", "b", rng) for kind in KINDS]
    joints += [driver.attach(joints) for driver in drivers_of(joints)]
    placed = []
    for joint in joints:
        parent = BodyPose(_turn(rng.normal(size=3)), rng.normal(size=3))
        own = _allowed(joint, t, rng)
        place = parent.position + parent.rotation @ own.position
        placed.append((parent, BodyPose(parent.rotation @ own.rotation, place)))

    @jax.jit
    def evaluated(joints, placed):
        return [
            (
                joint.constraint(t, *poses),
                jax.vmap(lambda row, j=joint, p=poses: j.reaction(t, *p, row))(jnp.eye(joint.rows)),
            )
            for joint, poses in zip(joints, placed, strict=True)
        ]

    for joint, (constraint, wrenches) in zip(joints, evaluated(joints, placed), strict=True):
        # Drivers have one.
        rows = KINDS.get(type(joint), 1)
        assert_allclose(constraint, np.zeros(rows), atol=10 * ROUNDING, err_msg=str(type(joint)))
        jacobian = np.concatenate(jax.tree.leaves(wrenches), axis=1)
        # Singular values of directions and arms of the order one.
        assert np.linalg.svd(jacobian, compute_uv=False)[-1] > 0.1, type(joint)


def _both_formulations(bodies, joints, gravity):
    """World accelerations (ṙ, body ω̇ of the last body) of one mechanism, as constraints and not."""
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=gravity)
    for formulation in (lie_jax.R3SO3(), lie_jax.Minimal()):
        system, state = lie_jax.assemble(mechanism, formulation)
        acceleration = jax.jit(lambda q, v, system=system: system.acceleration(0.0, q, v))
        yield system, np.asarray(acceleration(state.q, state.v))


@pytest.mark.full
def test_a_hinged_body_is_a_physical_pendulum():
    """About a tilted axis: φ̈ = -m |c| g cos(tilt) sin φ / J, for the axis through the pivot."""
    mass, moment, length, tilt, angle, gravity = 2.0, 0.7, 0.4, 0.3, 0.8, 9.81
    axis = np.asarray([0.0, np.cos(tilt), np.sin(tilt)])
    turn = mechanisms.quaternion(angle * axis)
    # The centre of mass hangs across the axis, in the vertical plane that holds the axis.
    center = np.asarray([0.0, length * np.sin(tilt), -length * np.cos(tilt)])
    inertia = moment * np.eye(3)
    body = lie_jax.Body("b", mass, inertia, center_of_mass=center, orientation=turn)
    joint = lie_jax.RevoluteJoint("ground", "b", 5.0 * axis)
    own = moment + mass * length**2
    expected = -mass * length * gravity * np.cos(tilt) * np.sin(angle) / own
    (_, constrained), (system, free) = _both_formulations([body], [joint], (0.0, 0.0, -gravity))
    assert system.nv == 1
    assert_allclose(free, [expected], rtol=ACCELERATION_ROUNDING)
    assert_allclose(constrained[3:], expected * axis, atol=ACCELERATION_ROUNDING)


# `make test` has motors along a plane, in both coordinates.
@pytest.mark.full
def test_a_slider_falls_along_its_axis():
    axis = np.asarray([0.6, 0.0, -0.8])
    orientation = mechanisms.quaternion([0.3, -0.5, 0.2])
    body = lie_jax.Body("b", 3.0, np.eye(3), (0.1, 0.2, 0.3), orientation=orientation)
    joint = lie_jax.PrismaticJoint("ground", "b", axis, orientation=orientation)
    (_, constrained), (_, free) = _both_formulations([body], [joint], (0.0, 0.0, -10.0))
    assert_allclose(free, [8.0], rtol=ACCELERATION_ROUNDING)
    assert_allclose(constrained, [*(8.0 * axis), 0.0, 0.0, 0.0], atol=10 * ACCELERATION_ROUNDING)


# `make test` has the forces of a weld in joint coordinates.
@pytest.mark.full
def test_welded_bodies_move_as_one():
    """A dumbbell of two welded bodies: Euler's equations of the whole, about its centre of mass."""
    omega = np.asarray([0.3, -0.7, 1.1])
    ends = np.asarray([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    center = ends.mean(axis=0)
    bodies = [
        lie_jax.Body(
            name, 1.5, 0.2 * np.eye(3), position=end, omega_body=omega,
            velocity=np.cross(omega, end - center),
        )
        for name, end in zip("ab", ends, strict=True)
    ]  # fmt: skip
    joint = lie_jax.RigidJoint("a", "b", ends[1])
    across = 2 * 0.2 + 2 * 1.5 * 1.0
    whole = np.diag([across, across, 2 * 0.2])
    domega = -np.linalg.solve(whole, np.cross(omega, whole @ omega))
    arm = ends[1] - center
    linear = np.cross(domega, arm) + np.cross(omega, np.cross(omega, arm))
    (_, constrained), (system, free) = _both_formulations(bodies, [joint], np.zeros(3))
    assert_allclose(constrained[6:], [*linear, *domega], atol=10 * ACCELERATION_ROUNDING)
    assert system.nv == 6
    assert_allclose(free[3:], domega, atol=ACCELERATION_ROUNDING)


@pytest.mark.full
def test_multipliers_are_forces_and_torques():
    """A body welded to the ground: the weight, and its moment about the frame's origin."""
    body = lie_jax.Body("b", 2.0, np.eye(3), center_of_mass=(0.5, 0.0, 0.0))
    mechanism = lie_jax.Mechanism([body], [lie_jax.RigidJoint("ground", "b")])
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    _, multipliers = jax.jit(accelerations_and_multipliers)(system, 0.0, state.q, state.v)
    weight = 2.0 * 9.81
    expected = [0.0, 0.0, -weight, 0.0, 0.5 * weight, 0.0]
    assert_allclose(multipliers, expected, atol=1e-11)


@pytest.mark.full
def test_a_body_led_along_all_coordinates_feels_newton_and_euler():
    """Force and torque are those of the given motion in a plane; a driver leads one coordinate."""
    mass, inertia, gravity, t = 2.0, np.diag([0.3, 0.4, 0.5]), np.asarray([3.0, 0.0, -9.81]), 0.3
    home = mechanisms.quaternion([0.2, 0.5, -0.4])

    def values(t):
        turn = jnp.asarray([0.6, 0.0, 0.8]) * jnp.sin(2.0 * t)
        return jnp.concatenate([jnp.stack([0.0 * t, jnp.sin(3.0 * t), t**2 - t]), turn])

    def motion(t):
        x = values(t)
        return x[:3], lie_jax.groups.so3.exp(x[3:]) @ lie_jax.groups.quaternion.to_matrix(home)

    (place, turn), (velocity, turning), (acceleration, bending) = jax.jit(
        lambda t: (
            motion(t),
            jax.jvp(motion, (t,), (1.0,))[1],
            jax.jvp(lambda t: jax.jvp(motion, (t,), (1.0,))[1], (t,), (1.0,))[1],
        )
    )(t)
    turn, turning, bending = (np.asarray(x) for x in (turn, turning, bending))
    # The skew parts: the second derivative holds ω² besides.
    omega, domega = (
        0.5 * (m - m.T)[[2, 0, 1], [1, 2, 0]] for m in (turn.T @ turning, turn.T @ bending)
    )
    body = lie_jax.Body(
        "b", mass, inertia, position=place, velocity=velocity, omega_body=omega,
        orientation=Rotation.from_matrix(turn).as_quat(scalar_first=True),
    )  # fmt: skip
    words = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")
    plane = lie_jax.GenericJoint("ground", "b", words[:1])
    joints = [
        plane,
        # The plane's coordinates are the distances along y and z.
        lie_jax.JointDriver(plane, 0, value=lambda t: values(t)[1]),
        lie_jax.CoordinateJoint(
            "ground", "b", words[2:], lambda t: values(t)[2:], orientation=home
        ),
    ]
    mechanism = lie_jax.Mechanism([body], joints, gravity=gravity)
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())

    @jax.jit
    def evaluated(q, v):
        return (
            system.constraint_rate(jnp.asarray(t), q, v),
            system.constraint(t, q),
            accelerations_and_multipliers(system, t, q, v),
        )

    rate, constraint, (dv, multipliers) = evaluated(state.q, state.v)
    assert_allclose(constraint, np.zeros(6), atol=ROUNDING)
    assert_allclose(rate, np.zeros(6), atol=10 * ROUNDING)
    assert_allclose(dv[3:], domega, atol=ACCELERATION_ROUNDING)
    # The inertial axes are those of the joints; torques act where the given turn is.
    needed = mass * (np.asarray(acceleration) - gravity)
    assert_allclose(multipliers[:3], -needed, atol=10 * ACCELERATION_ROUNDING)
    torque = turn @ (inertia @ domega + np.cross(omega, inertia @ omega))
    assert_allclose(multipliers[3:], -torque, atol=10 * ACCELERATION_ROUNDING)


# Generalized-α errs by some (ωh)²/12 of the angle ωt: with ω = 4.9 rad/s, h = 1 ms and t = 20 ms on
# a circle of 0.28 m, 6e-8 m.
METHOD_ERROR = 1e-7


@pytest.mark.full
@pytest.mark.parametrize("moving", [False, True])
def test_a_driven_cardan_joint_and_a_conical_pendulum(moving):
    """Hooke's joint: shafts at the angle β turn by φ and ψ with tan ψ = cos β tan φ. Positions
    follow from the constraints alone, the driver's torque from the energy of the shafts. The
    pendulum is a body on a rod that goes round in a circle without turning. Accelerations and
    multipliers at the start, and positions after a run.
    """
    beta, moments = 0.5, (0.3, 0.7)
    length, opening, mass, gravity = 0.5, 0.6, 1.5, 9.81
    along = np.asarray([0.0, np.sin(beta), np.cos(beta)])
    home = _turn([-beta, 0.0, 0.0])

    def output(phi):
        return jnp.arctan2(jnp.cos(beta) * jnp.sin(phi), jnp.cos(phi))

    def shafts(t):
        phi = driven(t)
        turned = lie_jax.groups.so3.exp(phi * jnp.asarray([0.0, 0.0, 1.0]))
        return turned, lie_jax.groups.so3.exp(output(phi) * jnp.asarray(along)) @ home

    def rates(t):
        return jax.jvp(lambda t: jnp.stack([driven(t), output(driven(t))]), (t,), (1.0,))[1]

    speed = np.sqrt(gravity / (length * np.cos(opening)))
    radius, height = length * np.sin(opening), -length * np.cos(opening)

    def circle(t):
        angle = speed * t
        return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle), height + 0.0 * angle])

    omega, domega = jax.jit(lambda t: jax.jvp(rates, (t,), (1.0,)))(0.0)
    turns = jax.jit(lambda t: [lie_jax.groups.quaternion.from_matrix(r) for r in shafts(t)])(0.0)
    tip = np.asarray([0.1, -0.2, 0.3])
    bodies = [
        lie_jax.Body(
            "bob", mass, np.diag([0.1, 0.2, 0.15]), center_of_mass=tip,
            position=np.asarray([radius, 0.0, height]) - tip, velocity=(0.0, radius * speed, 0.0),
        ),
        lie_jax.Body(
            "in", 1.0, np.diag([0.2, 0.2, moments[0]]), orientation=turns[0],
            omega_body=(0.0, 0.0, omega[0]),
        ),
        lie_jax.Body(
            "out", 2.0, np.diag([0.5, 0.5, moments[1]]), orientation=turns[1],
            omega_body=(0.0, 0.0, omega[1]),
        ),
    ]  # fmt: skip
    flat = lie_jax.PlanarJoint("ground", "in", (0.0, 0.0, 1.0))
    joints = [
        lie_jax.DistanceJoint("ground", "bob", length, child_point=tip),
        flat,
        lie_jax.CylindricalJoint(
            "ground", "out", along, orientation=mechanisms.quaternion([-beta, 0.0, 0.0])
        ),
        lie_jax.UniversalJoint("in", "out", (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
        lie_jax.JointDriver(flat, 2, value=driven),
    ]  # fmt: skip
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.R3SO3())
    start, multipliers = jax.jit(accelerations_and_multipliers)(system, 0.0, state.q, state.v)
    start = np.asarray(start).reshape(3, 6)
    inward = -(speed**2) * np.asarray([radius, 0.0, 0.0])
    expected = np.zeros((3, 6))
    expected[0, :3], expected[1, 5], expected[2, 5] = inward, *domega
    assert_allclose(start, expected, atol=100 * ACCELERATION_ROUNDING)
    assert_allclose(multipliers[0], mass * gravity / np.cos(opening), rtol=1e-12)
    power = np.asarray(moments) @ (omega * domega)
    assert_allclose(multipliers[-1], -power / omega[0], rtol=1e-12)
    if not moving:
        return

    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=1e-3, steps=20, save=20)
    t = jnp.asarray(0.02)
    rotation, position = system.poses(run.q[-1])
    assert_allclose(rotation[1:], jnp.stack(shafts(t)), atol=10 * ACCELERATION_ROUNDING)
    assert_allclose(rotation[0], np.eye(3), atol=ACCELERATION_ROUNDING)
    assert_allclose(position[0] + tip, circle(t), atol=METHOD_ERROR)
