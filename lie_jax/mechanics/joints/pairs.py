"""Joints that hold a point of the child to a point of the parent."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics.joints.base import (
    AbstractJoint,
    BodyPose,
    Stiffness,
    Vector,
    add_torques,
    angle_about,
    angle_between,
    as_direction,
    between_points,
    check_armature,
    check_direction,
    check_orientation,
    check_points,
    cosine_of_axes,
    cosine_of_turn,
    float_or_none,
    force_between_points,
    in_child_at_zero,
    in_parent,
    named,
    perpendicular,
    tilting_torques,
    turn,
    turned,
    turning_torques,
)
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float


class SphericalJoint(AbstractJoint):
    """Ball joint: a point of the parent and a point of the child coincide.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `parent_point`, `child_point`:
    (3,), the joint's place in each body's frame (m); `armature`: as for `RevoluteJoint`, about
    every axis. The constraint is the inertial vector from the parent's to the child's point; its
    multipliers are the force (N, inertial) by which the child pulls at the parent. Raises
    `ValueError` for points of another shape and a negative inertia.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    armature: Float[Array, "..."] | None = eqx.field(converter=float_or_none, default=None)

    def __check_init__(self):
        check_points(self)
        check_armature(self, "kg m²")

    @property
    def rows(self):
        """Three."""
        return 3

    @override
    def motions(self):
        points = self.parent_point, self.child_point
        return (Motion("swivel", None, *points, armature=self.armature),)

    def constraint(self, t, parent, child):
        """Inertial vector from the parent's to the child's point (m)."""
        return between_points(self, parent, child)

    def reaction(self, t, parent, child, multipliers):
        """The multipliers as a force at the child's point, and its opposite at the parent's."""
        return force_between_points(self, parent, child, multipliers)

    def stiffness(self, t, parent, child, multipliers):
        """The force is constant, its torque turns with the body; neither feels the other body."""
        on_parent = _turning(parent, self.parent_point, -multipliers)
        return Stiffness(on_parent, None, None, _turning(child, self.child_point, multipliers))


def _turning(pose: BodyPose, point: Vector, force: Vector) -> Float[Array, "6 6"]:
    own = small.hat(small.matvec(pose.rotation.T, force))
    return jnp.pad(small.matmul(small.hat(point), own), ((3, 0), (3, 0)))


class RevoluteJoint(AbstractJoint):
    """Hinge: a point and an axis of the parent coincide with a point and an axis of the child.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis`: (3,), a direction in
    the parent's frame, of any length but zero; `parent_point`, `child_point`: (3,), a point of the
    axis in each body's frame (m); `orientation`: (4,), the unit quaternion that rotates the child's
    components into the parent's when the joint's coordinate is zero; `armature`: inertia that is
    added to the joint's coordinate (kg m²), for a motor behind a gear of ratio n n² times the
    inertia of its rotor, in joint coordinates only. It adds half of it times the rate squared to
    the kinetic energy; gyroscopic torques and the momentum of the rotor are neglected.

    The coordinate is the angle (rad) by which the child is turned about the axis from `orientation`
    on.

    The five constraints are the inertial vector between the points (m) and the two components of
    the child's axis across the parent's; multipliers are in N and N m. Raises `ValueError` for
    other shapes, a zero axis, an orientation that is no unit quaternion and a negative inertia.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))
    armature: Float[Array, "..."] | None = eqx.field(converter=float_or_none, default=None)

    def __check_init__(self):
        check_points(self)
        check_direction(self)
        check_orientation(self)
        check_armature(self, "kg m²")

    @property
    def rows(self):
        """Five."""
        return 5

    @override
    def motions(self):
        points = self.parent_point, self.child_point
        return (Motion("turn", self.axis, *points, self.orientation, self.armature),)

    def constraint(self, t, parent, child):
        """Vector between the points, and the child's axis across the parent's."""
        axis = in_parent(parent, child, in_child_at_zero(self, self.axis))
        across = small.matvec(perpendicular(self.axis), axis)
        return jnp.concatenate([between_points(self, parent, child), across])

    def side(self, t, parent, child):
        """The cosine of the angle between the axes, which are parallel either way."""
        return cosine_of_axes(self, self.axis, parent, child)

    def reaction(self, t, parent, child, multipliers):
        """The first three multipliers as a force, the others as torques across the axis."""
        forces = force_between_points(self, parent, child, multipliers[:3])
        across = small.matvec(perpendicular(self.axis).T, multipliers[3:])
        own = in_child_at_zero(self, self.axis)
        return add_torques(forces, tilting_torques(parent, child, own, across))

    @property
    def coordinate_units(self):
        """An angle."""
        return ("rad",)

    def coordinates(self, parent, child):
        """The angle of the child about the axis."""
        return angle_about(self.axis, turned(parent, child, self.orientation))[None]


class UniversalJoint(AbstractJoint):
    """Cardan joint: points coincide, an axis of the parent is perpendicular to one of the child.

    The two axes are the arms of the joint's cross; the child turns about both.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis`: (3,), a direction in
    the parent's frame; `child_axis`: (3,), a direction in the child's frame, both of any length but
    zero; `parent_point`, `child_point`: (3,), the joint's place in each body's frame (m);
    `orientation`: (4,), the unit quaternion that rotates the child's components into the parent's
    when both coordinates are zero, where the axes are perpendicular; only coordinates need it. They
    are the angles (rad) by which the cross is turned about the parent's axis, and by which the
    child is turned about its own.

    The four constraints are the inertial vector between the points (m) and the cosine of the angle
    between the axes; multipliers are a force (N) and a torque about the third direction of the
    cross (N m). Raises `ValueError` for other shapes, a zero axis and an orientation that is no
    unit quaternion.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    child_axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        check_points(self)
        check_direction(self)
        check_direction(self, "child_axis", "child's")
        check_orientation(self)

    @property
    def rows(self):
        """Four."""
        return 4

    @override
    def motions(self):
        """Raises `ValueError` if the axes are not perpendicular at the joint's orientation."""
        second_axis = quaternion.rotate(self.orientation, self.child_axis)
        cosine = small.dot(self.axis, second_axis)
        if not checks.traced(cosine):
            limit = float(jnp.finfo(cosine.dtype).eps) ** 0.5
            if not abs(float(cosine)) <= limit:
                raise ValueError(
                    f"{named(self)}: the angle between its axes has the cosine "
                    f"{float(cosine):.3g} when the child has the orientation of the joint; they "
                    "must be perpendicular there, for that is where the joint's coordinates are "
                    "zero: correct orientation=."
                )
        return (
            Motion("turn", self.axis, self.parent_point),
            Motion("turn", second_axis, None, self.child_point, self.orientation),
        )

    def constraint(self, t, parent, child):
        """Vector between the points, and the cosine of the angle between the axes."""
        cosine = small.dot(self.axis, in_parent(parent, child, self.child_axis))
        return jnp.concatenate([between_points(self, parent, child), cosine[None]])

    def reaction(self, t, parent, child, multipliers):
        """The first three multipliers as a force, the last as a torque across both axes."""
        forces = force_between_points(self, parent, child, multipliers[:3])
        torques = tilting_torques(parent, child, self.child_axis, multipliers[3] * self.axis)
        return add_torques(forces, torques)

    @property
    def coordinate_units(self):
        """Two angles."""
        return ("rad", "rad")

    def coordinates(self, parent, child):
        """The angles about the parent's and about the child's axis."""
        home = quaternion.rotate(self.orientation, self.child_axis)
        about = angle_between(self.axis, home, in_parent(parent, child, self.child_axis))
        seen = in_parent(child, parent, self.axis)
        own = angle_between(self.child_axis, seen, in_child_at_zero(self, self.axis))
        return jnp.stack([about, own])


class RigidJoint(AbstractJoint):
    """Weld: the child is fixed to the parent.

    **Arguments:** as for `RevoluteJoint`, without axis and armature; there is no coordinate. The
    six constraints are the inertial vector between the points (m) and the turn of the child against
    the parent, parent's components (rad if small); multipliers are in N and N m. Raises
    `ValueError` for other shapes and an orientation that is no unit quaternion.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        check_points(self)
        check_orientation(self)

    @property
    def rows(self):
        """Six."""
        return 6

    @override
    def motions(self):
        return (Motion("weld", None, self.parent_point, self.child_point, self.orientation),)

    def constraint(self, t, parent, child):
        """Vector between the points, and the turn."""
        between = between_points(self, parent, child)
        return jnp.concatenate([between, turn(parent, child, self.orientation)])

    def side(self, t, parent, child):
        """The cosine of the turn, whose sine vanishes half a turn away, too."""
        return cosine_of_turn(parent, child, self.orientation)

    def reaction(self, t, parent, child, multipliers):
        """The first three multipliers as a force, the others as torques."""
        forces = force_between_points(self, parent, child, multipliers[:3])
        torques = turning_torques(parent, child, self.orientation, multipliers[3:])
        return add_torques(forces, torques)
