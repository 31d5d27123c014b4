"""Joints that are pairs of conditions: the definition of each is its `conditions`."""

import jax.numpy as jnp
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import named
from lie_jax.mechanics.fields import OptionalParameter, Parameter
from lie_jax.mechanics.joints.composed import AbstractComposedJoint
from lie_jax.mechanics.joints.conditions import (
    Coincide,
    Parallel,
    Perpendicular,
    SameOrientation,
    StayAcross,
    StayOnPlane,
)
from lie_jax.mechanics.joints.geometry import (
    angle_about,
    angle_between,
    between_points_in_parent,
    in_parent,
    perpendicular,
    turned,
)
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.numerics import small


class SphericalJoint(AbstractComposedJoint):
    """Ball joint: a point of the parent and a point of the child coincide.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `parent_point`, `child_point`:
    (3,), the joint's place in each body's frame (m); `armature`: as for `RevoluteJoint`, about
    every axis. The constraint is the inertial vector from the parent's to the child's point; its
    multipliers are the force (N, inertial) by which the child pulls at the parent. Raises
    `ValueError` for points of another shape and a negative inertia.
    """

    rows = 3
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    armature: OptionalParameter = fields.armature("kg m²")

    @override
    def motions(self):
        points = self.parent_point, self.child_point
        return (Motion("swivel", None, *points, armature=self.armature),)

    @override
    def conditions(self, t):
        return (Coincide(self.parent_point, self.child_point),)


class RevoluteJoint(AbstractComposedJoint):
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

    rows = 5
    coordinate_units = ("rad",)
    axis: Parameter = fields.direction()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()
    armature: OptionalParameter = fields.armature("kg m²")

    @override
    def motions(self):
        points = self.parent_point, self.child_point
        return (Motion("turn", self.axis, *points, self.orientation, self.armature),)

    @override
    def conditions(self, t):
        return Coincide(self.parent_point, self.child_point), Parallel(self.axis, self.orientation)

    @override
    def coordinates(self, parent, child):
        return angle_about(self.axis, turned(parent, child, self.orientation))[None]


class UniversalJoint(AbstractComposedJoint):
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

    rows = 4
    coordinate_units = ("rad", "rad")
    axis: Parameter = fields.direction()
    child_axis: Parameter = fields.direction("child's")
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

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

    @override
    def conditions(self, t):
        return (
            Coincide(self.parent_point, self.child_point),
            Perpendicular(self.axis, self.child_axis),
        )

    @override
    def coordinates(self, parent, child):
        child_axis_at_zero = quaternion.rotate(self.orientation, self.child_axis)
        child_axis = in_parent(parent, child, self.child_axis)
        about_parents = angle_between(self.axis, child_axis_at_zero, child_axis)
        axis_at_zero = quaternion.rotate(quaternion.conjugate(self.orientation), self.axis)
        axis = in_parent(child, parent, self.axis)
        about_childs = angle_between(self.child_axis, axis, axis_at_zero)
        return jnp.stack([about_parents, about_childs])


class RigidJoint(AbstractComposedJoint):
    """Weld: the child is fixed to the parent.

    **Arguments:** as for `RevoluteJoint`, without axis and armature; there is no coordinate. The
    six constraints are the inertial vector between the points (m) and the turn of the child against
    the parent, parent's components (rad if small); multipliers are in N and N m. Raises
    `ValueError` for other shapes and an orientation that is no unit quaternion.
    """

    rows = 6
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def motions(self):
        return (Motion("weld", None, self.parent_point, self.child_point, self.orientation),)

    @override
    def conditions(self, t):
        return Coincide(self.parent_point, self.child_point), SameOrientation(self.orientation)


class PrismaticJoint(AbstractComposedJoint):
    """Slider: the child moves along an axis of the parent without turning.

    **Arguments:** as for `RevoluteJoint`; the axis runs through the parent's point, and the
    armature is in kg. The coordinate is the distance (m) of the child's point from the parent's
    along the axis.

    The five constraints are the two components of the vector between the points across the axis
    (m), and the turn of the child against the parent, parent's components (its rotation vector if
    small, rad); multipliers are in N and N m. Raises `ValueError` as `RevoluteJoint`.
    """

    rows = 5
    coordinate_units = ("m",)
    axis: Parameter = fields.direction()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()
    armature: OptionalParameter = fields.armature("kg")

    @override
    def motions(self):
        points = self.parent_point, self.child_point
        return (Motion("slide", self.axis, *points, self.orientation, self.armature),)

    @override
    def conditions(self, t):
        return (
            StayAcross(self.parent_point, self.child_point, self.axis),
            SameOrientation(self.orientation),
        )

    @override
    def coordinates(self, parent, child):
        return small.dot(self.axis, between_points_in_parent(self, parent, child))[None]


class CylindricalJoint(AbstractComposedJoint):
    """Shaft in a sleeve: the child turns about an axis of the parent and slides along it.

    **Arguments:** as for `RevoluteJoint` but for the armature; the axis runs through both points.
    The coordinates are the angle (rad) by which the child is turned about the axis and the distance
    (m) of the child's point from the parent's along it.

    The four constraints are the components across the axis of the vector between the points (m) and
    of the child's axis; multipliers are in N and N m. Raises `ValueError` as `RevoluteJoint`.
    """

    rows = 4
    coordinate_units = ("rad", "m")
    axis: Parameter = fields.direction()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def motions(self):
        return (
            Motion("turn", self.axis, self.parent_point),
            Motion("slide", self.axis, None, self.child_point, self.orientation),
        )

    @override
    def conditions(self, t):
        return (
            StayAcross(self.parent_point, self.child_point, self.axis),
            Parallel(self.axis, self.orientation),
        )

    @override
    def coordinates(self, parent, child):
        angle = angle_about(self.axis, turned(parent, child, self.orientation))
        distance = small.dot(self.axis, between_points_in_parent(self, parent, child))
        return jnp.stack([angle, distance])


class PlanarJoint(AbstractComposedJoint):
    """A plane of the child slides and turns on a plane of the parent.

    **Arguments:** `normal`: (3,), the planes' normal in the parent's frame, of any length but zero;
    the planes run through `parent_point` and `child_point`. Others as for `RevoluteJoint`, but
    for the armature. The coordinates are the two components of the vector between the points along
    the plane (m), in the directions x and y if the normal is z, and the angle (rad) by which the
    child is turned about the normal.

    The three constraints are the vector between the points along the normal (m) and the two
    components of the child's normal across the parent's; multipliers are in N and N m. Raises
    `ValueError` for other shapes, a zero normal and an orientation that is no unit quaternion.
    """

    rows = 3
    coordinate_units = ("m", "m", "rad")
    normal: Parameter = fields.direction()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def motions(self):
        first_axis, second_axis = perpendicular(self.normal)
        return (
            Motion("slide", first_axis, self.parent_point),
            Motion("slide", second_axis),
            Motion("turn", self.normal, None, self.child_point, self.orientation),
        )

    @override
    def conditions(self, t):
        return (
            StayOnPlane(self.parent_point, self.child_point, self.normal),
            Parallel(self.normal, self.orientation),
        )

    @override
    def coordinates(self, parent, child):
        between = between_points_in_parent(self, parent, child)
        angle = angle_about(self.normal, turned(parent, child, self.orientation))
        along = small.matvec(perpendicular(self.normal), between)
        return jnp.concatenate([along, angle[None]])
