"""Forces along each coordinate of each kind of joint: in joint coordinates they are that number."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.extend import Motion
from lie_jax.systems.system import accelerations_and_multipliers
from tests import mechanisms
from tests.suites import cases

# Rounding of forces of some ten units.
ROUNDING = 1e-12
X, Y, Z = np.eye(3)
T = jnp.asarray(0.3)


class Crane(lie_jax.extend.AbstractJoint):
    """A slide along x, then a turn about z."""

    rows = 4
    coordinate_units = ("m", "rad")

    def _relative(self, parent, child):
        relative = parent.rotation.T
        return relative @ (child.position - parent.position), relative @ child.rotation

    def motions(self):
        return Motion("slide", X), Motion("turn", Z)

    def coordinates(self, parent, child):
        between, turn = self._relative(parent, child)
        return jnp.stack([between[0], jnp.arctan2(turn[1, 0], turn[0, 0])])

    def constraint(self, t, parent, child):
        between, turn = self._relative(parent, child)
        return jnp.concatenate([between[1:], turn[:2, 2]])


def _joints(rng):
    """Of each kind between the trunk and a body of its own, by name."""

    def numbers(*names):
        drawn = {"parent_point": rng.normal(size=3), "child_point": rng.normal(size=3)}
        turns = [*names, "orientation"]
        return drawn | {name: mechanisms.quaternion(rng.normal(size=3)) for name in turns}

    def cross(angle):
        """Arms at an angle where the child has the orientation."""
        home, first = mechanisms.quaternion(rng.normal(size=3)), rng.normal(size=3)
        first /= np.linalg.norm(first)
        across = np.cross(first, rng.normal(size=3))
        second = np.cos(angle) * first + np.sin(angle) * across / np.linalg.norm(across)
        on_child = lie_jax.groups.quaternion.rotate(
            lie_jax.groups.quaternion.conjugate(home), second
        )
        options = {"axis": first, "child_axis": on_child, **numbers(), "orientation": home}
        return options if angle == 0.5 * np.pi else {**options, "angle": angle}

    def held(*words):
        return {"held": words, **numbers("parent_orientation")}

    kinds = {
        "hinge": (lie_jax.RevoluteJoint, {"axis": rng.normal(size=3), **numbers()}),
        "hinge backwards": (lie_jax.RevoluteJoint, {"axis": rng.normal(size=3), **numbers()}),
        "slider": (lie_jax.PrismaticJoint, {"axis": rng.normal(size=3), **numbers()}),
        "shaft": (lie_jax.CylindricalJoint, {"axis": rng.normal(size=3), **numbers()}),
        "plane": (lie_jax.PlanarJoint, {"normal": rng.normal(size=3), **numbers()}),
        "cross": (lie_jax.UniversalJoint, cross(0.5 * np.pi)),
        "skew cross": (lie_jax.UniversalJoint, cross(1.1)),
        "three slides and two turns": (lie_jax.GenericJoint, held("rotation_y")),
        "two slides and one turn": (lie_jax.GenericJoint, held("y", "rotation_x", "rotation_z")),
        "crane": (Crane, {}),
    }
    joints = {}
    for name, (kind, options) in kinds.items():
        ends = ("trunk", name)[:: -1 if "backwards" in name else 1]
        joints[name] = kind(*ends, **options, name=name)
    return joints


def _forces(joint, k, number):
    """A motor along a coordinate, and one of the forces that depend on it and its rate."""
    law = lie_jax.contact.HuntCrossley(20.0, 2.0, 0.3)
    gains = {"proportional": 2.0 + number, "derivative": 0.3}
    others = (
        lie_jax.JointSpring(joint, k, stiffness=3.0 + number, damping=0.2, relaxed=0.1),
        lie_jax.JointController(joint, k, reference=jnp.sin, **gains),
        lie_jax.JointStop(joint, k, lower=-0.2, upper=0.2, law=law),
        lie_jax.JointFriction(joint, k, limit=0.7),
    )
    return [lie_jax.JointMotor(joint, k, input=number), others[number % 4]]


class Both(NamedTuple):
    """One mechanism in joint and in absolute coordinates; coordinates, rates and inputs."""

    tree: Any
    system: Any
    q: jax.Array
    v: jax.Array
    u: jax.Array

    def velocities(self, v):
        """Of the bodies, as R³ × SO(3) has them."""
        twists, (rotations, _) = self.tree.twists(self.q, v), self.tree.poses(self.q)
        linear = jnp.einsum("nij,nj->ni", rotations, twists[:, :3])
        return jnp.concatenate([linear, twists[:, 3:]], axis=1).reshape(-1)

    def state(self):
        """In absolute coordinates."""
        rotations, positions = self.tree.poses(self.q)
        turns = jax.vmap(lie_jax.groups.quaternion.from_matrix)(rotations)
        return jnp.concatenate([positions, turns], axis=1).reshape(-1), self.velocities(self.v)


# Each law of a force is in the first set, each other way to compute a coordinate in the second, and
# each of the others in the third.
SETS = {
    "first": ("hinge backwards", "plane"),
    "second": ("skew cross", "two slides and one turn", "crane"),
    "third": ("hinge", "slider", "shaft", "cross", "three slides and two turns"),
}


@pytest.fixture(scope="module", params=cases(SETS, ["first"]))
def both(request):
    """A trunk on a hinge of the ground, and a body on a joint of each kind to it."""
    rng = np.random.default_rng(8)
    joints = {name: joint for name, joint in _joints(rng).items() if name in SETS[request.param]}
    coordinates = [(j, k) for j in joints.values() for k in range(len(j.coordinate_units))]
    forces = [
        force
        for number, coordinate in enumerate(coordinates)
        for force in _forces(*coordinate, number)
    ]
    neck = lie_jax.RevoluteJoint("ground", "trunk", rng.normal(size=3))
    bodies = [mechanisms.random_body(name, rng) for name in ("trunk", *joints)]
    places = [np.eye(4), *map(_at_zero, joints.values())]
    bodies = [
        dataclasses.replace(
            body, position=place[:3, 3], velocity=np.zeros(3), omega_body=np.zeros(3),
            orientation=Rotation.from_matrix(place[:3, :3]).as_quat(scalar_first=True),
        )
        for body, place in zip(bodies, places, strict=True)
    ]  # fmt: skip
    mechanism = lie_jax.Mechanism(bodies, [neck, *joints.values()], forces)
    (tree, start), (system, _) = (
        lie_jax.assemble(mechanism, formulation)
        for formulation in (lie_jax.Minimal(), lie_jax.R3SO3())
    )
    assert_allclose(start.q, np.zeros(tree.nq), atol=ROUNDING)
    q, v, u = rng.uniform(-1.3, 1.3, tree.nq), rng.normal(size=tree.nv), rng.normal(size=tree.nu)
    return Both(tree, system, *map(jnp.asarray, (q, v, u)))


def _at_zero(joint):
    """Pose (4, 4) of a joint's own body where its coordinates are zero and the trunk is at home."""
    pose = np.eye(4)
    if not isinstance(joint, Crane):
        turn = Rotation.from_quat(joint.orientation, scalar_first=True).as_matrix()
        pose[:3, :3] = turn
        pose[:3, 3] = joint.parent_point - turn @ np.asarray(joint.child_point)
    return pose if joint.parent == "trunk" else np.linalg.inv(pose)


def test_forces_are_those_of_absolute_coordinates(both):
    """An input adds to the generalised force of its coordinate in M v̇ = f, and to no other. All
    forces have the same power along what the joints allow as those in absolute coordinates.
    """
    tree, system = both.tree, both.system

    def acting(system, q, v, u):
        bare = eqx.tree_at(lambda s: s.forces, system, ())
        return system.force(T, q, v, u) - bare.force(T, q, v)

    @jax.jit
    def evaluated(both):
        inputs = jnp.stack([0.0 * both.u, both.u])
        forces = jax.vmap(lambda u: acting(tree, both.q, both.v, u))(inputs)
        _, back = jax.vjp(both.velocities, both.v)
        state = both.state()
        (power,) = back(acting(system, *state, both.u))
        coordinates = tree.joint_coordinates(both.q), system.joint_coordinates(state[0])
        return forces, power, *coordinates

    forces, power, *coordinates = evaluated(both)
    # The trunk's own coordinate comes first.
    assert_allclose(forces[1] - forces[0], [0.0, *both.u], atol=100 * ROUNDING)
    assert_allclose(power, forces[1], atol=100 * ROUNDING)
    for found in coordinates:
        # Angles are less than half a turn.
        assert_allclose(np.concatenate(list(found.values())), both.q, atol=ROUNDING)


# `make test` has the forces.
@pytest.mark.full
def test_accelerations_are_those_of_absolute_coordinates(both):
    @jax.jit
    def evaluated(both):
        """Rates of the bodies' twists."""
        tree, system, (q, v) = both.tree, both.system, both.state()
        acceleration = tree.acceleration(T, both.q, both.v, both.u)
        of_bodies, _ = accelerations_and_multipliers(system, T, q, v, both.u)
        moving = tree.space.lift(both.q, both.v), acceleration
        return (
            jax.jvp(tree.twists, (both.q, both.v), moving)[1],
            jax.jvp(system.twists, (q, v), (system.space.lift(q, v), of_bodies))[1],
        )

    found, expected = evaluated(both)
    # Accelerations of some hundred m/s², through the solution for the multipliers.
    assert_allclose(found, expected, atol=1e-9)


@pytest.mark.full
def test_the_axis_of_a_joint_is_that_of_its_spring_in_derivatives():
    """The end of a run by the axis, which is written once, against central differences."""

    def end(axis):
        hinge = lie_jax.RevoluteJoint("ground", "rod", axis)
        body = lie_jax.Body(
            "rod", 2.0, np.diag([0.3, 0.4, 0.5]), center_of_mass=(0.2, 0.1, -0.3),
            omega_body=3.0 * hinge.axis,
        )  # fmt: skip
        spring = lie_jax.JointSpring(hinge, stiffness=30.0, damping=0.5, relaxed=0.7)
        mechanism = lie_jax.Mechanism([body], [hinge], [spring])
        system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
        run = lie_jax.simulate(
            system, lie_jax.RKMK("midpoint"), state, dt=0.02, steps=5, throw=False
        )
        return run.v[-1] @ jnp.arange(1.0, 7.0)

    axis, step = np.asarray([0.2, 0.9, 0.3]), 1e-3
    shifts = step * np.concatenate([s * np.eye(3) for s in (0.0, 1.0, -1.0, 2.0, -2.0)])
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(end)))(jnp.asarray(axis + shifts))
    _, near, back, far, far_back = np.split(np.asarray(values), 5)
    differences = (8.0 * (near - back) - (far - far_back)) / (12.0 * step)
    # The fourth power of the step, and rounding over the step.
    assert_allclose(gradients[0], differences, atol=1e-8)
    assert np.linalg.norm(differences) > 1.0
