"""Joints of one's own have joint coordinates as soon as they name their elementary motions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.mechanics.joints.base import AbstractJoint
from lie_jax.mechanics.joints.geometry import (
    angle_about,
    between_points_in_parent,
    perpendicular,
    relative_rotation,
)
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.numerics import small
from tests import mechanisms

# Rounding in accelerations of some ten m/s².
ROUNDING = 1e-11
T = 0.0


class OwnHinge(AbstractJoint):
    """A hinge with field names of its own."""

    pin: jax.Array
    place: jax.Array

    rows = 5
    coordinate_units = ("rad",)

    def constraint(self, t, parent, child):
        """Points and axes coincide."""
        between = child.position - parent.position - small.matvec(parent.rotation, self.place)
        axis = small.matvec(parent.rotation.T, small.matvec(child.rotation, self.pin))
        return jnp.concatenate([between, small.matvec(perpendicular(self.pin), axis)])

    def motions(self):
        """A turn about the pin."""
        return (Motion("turn", self.pin, self.place),)

    def coordinates(self, parent, child):
        """The angle of this turn."""
        relative = small.matmul(parent.rotation.T, child.rotation)
        return angle_about(self.pin, relative)[None]


class Table(AbstractJoint):
    """Two slides: the child moves along a plane of the parent without turning."""

    normal: jax.Array
    parent_point: jax.Array
    child_point: jax.Array
    home: jax.Array

    rows = 4

    def constraint(self, t, parent, child):
        """Height over the plane, and the turn."""
        height = small.dot(self.normal, between_points_in_parent(self, parent, child))
        return jnp.concatenate(
            [height[None], small.axial(relative_rotation(parent, child, self.home))]
        )

    def motions(self):
        """Slides along two directions that are not perpendicular."""
        first, second = perpendicular(self.normal)
        skewed = (first + second) / np.sqrt(2.0)
        return (
            Motion("slide", first, self.parent_point),
            Motion("slide", skewed, None, self.child_point, self.home),
        )


class BallInSlot(Table):
    """A ball that slides along an axis: a slide and a swivel."""

    rows = 2

    def constraint(self, t, parent, child):
        """Vector between the points across the axis."""
        between = between_points_in_parent(self, parent, child)
        return small.matvec(perpendicular(self.normal), between)

    def motions(self):
        """A slide along the axis, then a swivel."""
        return (
            Motion("slide", self.normal, self.parent_point),
            Motion("swivel", None, None, self.child_point),
        )


NORMAL = jnp.asarray([0.36, 0.48, 0.8])


def _assembled(kind, formulation, backwards=False):
    """An arm on a hinge, and a load on a joint of this kind, away from home and in motion."""
    rng = np.random.default_rng(2)
    home = lie_jax.groups.quaternion.exp(jnp.asarray([0.4, -0.3, 0.5]))
    on_arm, on_load = jnp.asarray(rng.normal(size=(2, 3)))
    along = NORMAL if kind is BallInSlot else perpendicular(NORMAL)[0] + perpendicular(NORMAL)[1]
    bodies = [
        lie_jax.Body("arm", 2.0, mechanisms.inertia(rng), rng.normal(size=3) * 0.3),
        lie_jax.Body(
            "load",
            1.5,
            mechanisms.inertia(rng),
            rng.normal(size=3) * 0.3,
            position=on_arm + 0.3 * along - lie_jax.groups.quaternion.rotate(home, on_load),
            orientation=home,
            velocity=-0.7 * along,
        ),
    ]
    ends = kind("arm", "load", NORMAL, on_arm, on_load, home)
    if backwards:
        back = lie_jax.groups.quaternion.conjugate(home)
        normal = lie_jax.groups.quaternion.rotate(back, NORMAL)
        ends = kind("load", "arm", normal, on_load, on_arm, back)
    joints = [lie_jax.RevoluteJoint("ground", "arm", (0.0, 0.6, 0.8)), ends]
    forces = [lie_jax.PointForce("load", (3.0, -2.0, 1.0), point=(0.1, 0.2, 0.3))]
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints, forces), formulation)


def test_a_hinge_of_ones_own_moves_as_the_built_in_one():
    axis, point = jnp.asarray([0.6, 0.0, 0.8]), jnp.asarray([0.1, 0.2, 0.3])
    joints = (
        lie_jax.RevoluteJoint("ground", "arm", axis, point),
        OwnHinge("ground", "arm", axis, point),
    )
    accelerations = []
    for joint in joints:
        body = lie_jax.Body("arm", 2.0, np.diag([0.1, 0.2, 0.25]), (0.1, 0.0, -0.2), point)
        spring = lie_jax.JointSpring(joint, stiffness=3.0)
        mechanism = lie_jax.Mechanism([body], [joint], [spring])
        system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
        # More than a turn: the spring follows the coordinate.
        q, v = jnp.asarray([7.7]), jnp.asarray([1.3])
        accelerations.append(eqx.filter_jit(system.acceleration)(T, q, v))
        assert list(system.joint_coordinates(q)) == [("ground", "arm")]
    assert_allclose(*accelerations, rtol=1e-14)


# `make test` has a hinge that is listed backwards, with its forces.
@pytest.mark.full
def test_coordinates_of_a_joint_listed_backwards_are_those_of_its_child():
    """The ground turns in the arm and slides along the table, not they on the ground."""
    axis, angle = np.asarray([0.6, 0.0, 0.8]), 0.7
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in ("arm", "slide")]
    none, home = jnp.zeros(3), jnp.asarray([1.0, 0.0, 0.0, 0.0])
    joints = [
        OwnHinge("arm", "ground", jnp.asarray(axis), none),
        Table("slide", "ground", NORMAL, none, none, home),
    ]
    system, _ = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.Minimal())
    slides = np.asarray([0.2, -0.5])
    rotation, position = jax.jit(lambda q: system.poses(q))(jnp.asarray([angle, *slides]))
    assert_allclose(rotation[0], Rotation.from_rotvec(-angle * axis).as_matrix(), atol=ROUNDING)
    first, second = np.asarray(perpendicular(NORMAL))
    expected = -slides[0] * first - slides[1] * (first + second) / np.sqrt(2.0)
    assert_allclose(position[1], expected, atol=ROUNDING)


# Ball joints swivel, too, and the hinge above stands forwards in its tree.
KINDS = [(Table, True), (BallInSlot, False), (Table, False), (BallInSlot, True)]


@pytest.mark.full
@pytest.mark.parametrize(("kind", "backwards"), KINDS)
def test_a_new_joint_moves_as_its_constraint_says(kind, backwards):
    system, state = _assembled(kind, lie_jax.Minimal(), backwards)
    maximal, everything = _assembled(kind, lie_jax.SE3(), backwards)
    assert (system.nq, system.nv) == ((3, 3) if kind is Table else (6, 5))
    away = jnp.asarray(np.random.default_rng(4).normal(size=system.nv))

    @jax.jit
    def compare(q, v):
        rotation, position = system.poses(q)
        orientation = jax.vmap(lie_jax.groups.quaternion.from_matrix)(rotation)
        all_q = jnp.concatenate([position, orientation], axis=1).reshape(-1)
        all_v = system.twists(q, v).reshape(-1)
        acceleration = system.acceleration(T, q, v)
        rate = jax.jvp(system.twists, (q, v), (system.space.lift(q, v), acceleration))[1]
        constraint = maximal.constraint(jnp.asarray(T), all_q)
        expected = maximal.acceleration(jnp.asarray(T), all_q, all_v)
        return (position, all_v), (constraint, rate.reshape(-1) - expected)

    (position, twists), left = compare(state.q, state.v)
    assert_allclose(position, maximal.poses(everything.q)[1], atol=ROUNDING)
    assert_allclose(twists, everything.v, atol=ROUNDING)
    _, left_away = compare(system.space.retract(state.q, away), state.v + away[::-1])
    for value in (*left, *left_away):
        assert float(jnp.max(jnp.abs(value))) < ROUNDING


def test_motions_that_cannot_be_are_refused():
    for arguments, message in [
        (("turn",), "needs an axis"),
        (("weld", (0.0, 0.0, 1.0)), "has no axis"),
        (("turn", (0.0, 0.0, 2.0)), "axis has length 2"),
        (("slide", (0.0, 1.0)), "must have shape"),
        (("swivel", None, None, None, (1.0, 0.0, 0.0, 0.0)), "leave orientation= out"),
    ]:
        with pytest.raises(ValueError, match=message):
            Motion(*arguments)


def test_members_of_joints_are_no_names_of_fields():
    with pytest.raises(TypeError, match="field 'side' of Leaning has the name of a member"):

        class Leaning(OwnHinge):
            side: jax.Array


def test_units_of_coordinates_are_listed_one_by_one():
    class Measured(OwnHinge):
        coordinate_units = "rad"

    with pytest.raises(ValueError, match="tuple with 'rad' or 'm' for each coordinate"):
        Measured("ground", "body", jnp.eye(3)[2], jnp.zeros(3))


class Locked(OwnHinge):
    """A hinge whose rate is held as well."""

    velocity_rows = 1

    def velocity_constraint(self, t, parent, child, parent_velocity, child_velocity):
        """Rate about the pin."""
        return small.dot(self.pin, child_velocity.omega_body - parent_velocity.omega_body)[None]


def test_velocity_constraints_hold_in_joint_coordinates():
    """The joint has no coordinates then: the body floats, and joint and rate are constraints."""
    body = lie_jax.Body("b", 1.0, np.eye(3), center_of_mass=(1.0, 0.0, 0.0))
    joint = Locked("ground", "b", jnp.asarray([0.0, 1.0, 0.0]), jnp.zeros(3))
    mechanism = lie_jax.Mechanism([body], [joint])
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    assert (system.nv, system.nc, system.velocity_rows) == (6, 6, 1)
    # Gravity would turn the body about the hinge, whose rate is held.
    acceleration = jax.jit(lambda q, v: system.acceleration(0.0, q, v))(state.q, state.v)
    assert_allclose(acceleration, 0.0, atol=1e-12)
