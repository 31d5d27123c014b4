"""Joints that let a point of the child move away from a point of the parent."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics.joints.base import (
    AbstractJoint,
    add_torques,
    angle_about,
    as_direction,
    between_points,
    between_points_in_parent,
    check_armature,
    check_direction,
    check_orientation,
    check_points,
    cosine_of_axes,
    cosine_of_turn,
    float_or_none,
    force_between_points,
    force_in_parent,
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


class PrismaticJoint(AbstractJoint):
    """Slider: the child moves along an axis of the parent without turning.

    **Arguments:** as for `RevoluteJoint`; the axis runs through the parent's point, and the
    armature is in kg. The coordinate is the distance (m) of the child's point from the parent's
    along the axis.

    The five constraints are the two components of the vector between the points across the axis
    (m), and the turn of the child against the parent, parent's components (its rotation vector if
    small, rad); multipliers are in N and N m. Raises `ValueError` as `RevoluteJoint`.
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
        check_armature(self, "kg")

    @property
    def rows(self):
        """Five."""
        return 5

    @override
    def motions(self):
        points = self.parent_point, self.child_point
        return (Motion("slide", self.axis, *points, self.orientation, self.armature),)

    def constraint(self, t, parent, child):
        """Vector between the points across the axis, and the turn."""
        between = between_points_in_parent(self, parent, child)
        across = small.matvec(perpendicular(self.axis), between)
        return jnp.concatenate([across, turn(parent, child, self.orientation)])

    def side(self, t, parent, child):
        """The cosine of the turn, whose sine vanishes half a turn away, too."""
        return cosine_of_turn(parent, child, self.orientation)

    def reaction(self, t, parent, child, multipliers):
        """The first two multipliers as a force at the child's point, the others as torques."""
        across = small.matvec(perpendicular(self.axis).T, multipliers[:2])
        forces = force_in_parent(self, parent, child, across)
        torques = turning_torques(parent, child, self.orientation, multipliers[2:])
        return add_torques(forces, torques)

    @property
    def coordinate_units(self):
        """A distance."""
        return ("m",)

    def coordinates(self, parent, child):
        """The distance along the axis."""
        return small.dot(self.axis, between_points_in_parent(self, parent, child))[None]


class CylindricalJoint(AbstractJoint):
    """Shaft in a sleeve: the child turns about an axis of the parent and slides along it.

    **Arguments:** as for `RevoluteJoint` but for the armature; the axis runs through both points.
    The coordinates are the angle (rad) by which the child is turned about the axis and the distance
    (m) of the child's point from the parent's along it.

    The four constraints are the components across the axis of the vector between the points (m) and
    of the child's axis; multipliers are in N and N m. Raises `ValueError` as `RevoluteJoint`.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        check_points(self)
        check_direction(self)
        check_orientation(self)

    @property
    def rows(self):
        """Four."""
        return 4

    @override
    def motions(self):
        return (
            Motion("turn", self.axis, self.parent_point),
            Motion("slide", self.axis, None, self.child_point, self.orientation),
        )

    def constraint(self, t, parent, child):
        """Vector between the points, and the child's axis, across the parent's axis."""
        between = between_points_in_parent(self, parent, child)
        axis = in_parent(parent, child, in_child_at_zero(self, self.axis))
        basis = perpendicular(self.axis)
        return jnp.concatenate([small.matvec(basis, between), small.matvec(basis, axis)])

    def side(self, t, parent, child):
        """The cosine of the angle between the axes, which are parallel either way."""
        return cosine_of_axes(self, self.axis, parent, child)

    def reaction(self, t, parent, child, multipliers):
        """The first two multipliers as a force at the child's point, the others as torques."""
        basis = perpendicular(self.axis).T
        forces = force_in_parent(self, parent, child, small.matvec(basis, multipliers[:2]))
        own, across = in_child_at_zero(self, self.axis), small.matvec(basis, multipliers[2:])
        return add_torques(forces, tilting_torques(parent, child, own, across))

    @property
    def coordinate_units(self):
        """An angle and a distance."""
        return ("rad", "m")

    def coordinates(self, parent, child):
        """The angle about the axis and the distance along it."""
        angle = angle_about(self.axis, turned(parent, child, self.orientation))
        distance = small.dot(self.axis, between_points_in_parent(self, parent, child))
        return jnp.stack([angle, distance])


class PlanarJoint(AbstractJoint):
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

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    normal: Float[Array, "..."] = eqx.field(converter=as_direction)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        check_points(self)
        check_direction(self, "normal")
        check_orientation(self)

    @property
    def rows(self):
        """Three."""
        return 3

    @override
    def motions(self):
        first_axis, second_axis = perpendicular(self.normal)
        return (
            Motion("slide", first_axis, self.parent_point),
            Motion("slide", second_axis),
            Motion("turn", self.normal, None, self.child_point, self.orientation),
        )

    def constraint(self, t, parent, child):
        """Vector between the points along the normal, and the child's normal across it."""
        height = small.dot(self.normal, between_points_in_parent(self, parent, child))
        normal = in_parent(parent, child, in_child_at_zero(self, self.normal))
        return jnp.concatenate([height[None], small.matvec(perpendicular(self.normal), normal)])

    def side(self, t, parent, child):
        """The cosine of the angle between the axes, which are parallel either way."""
        return cosine_of_axes(self, self.normal, parent, child)

    def reaction(self, t, parent, child, multipliers):
        """The first multiplier as a force along the normal, the others as torques across it."""
        forces = force_in_parent(self, parent, child, multipliers[0] * self.normal)
        across = small.matvec(perpendicular(self.normal).T, multipliers[1:])
        own = in_child_at_zero(self, self.normal)
        return add_torques(forces, tilting_torques(parent, child, own, across))

    @property
    def coordinate_units(self):
        """Two distances and an angle."""
        return ("m", "m", "rad")

    def coordinates(self, parent, child):
        """The distances along the plane and the angle about its normal."""
        between = between_points_in_parent(self, parent, child)
        angle = angle_about(self.normal, turned(parent, child, self.orientation))
        along = small.matvec(perpendicular(self.normal), between)
        return jnp.concatenate([along, angle[None]])


class DistanceJoint(AbstractJoint):
    """Massless rod: a point of the parent and a point of the child keep their distance.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `length`: L, positive, m;
    `parent_point`, `child_point`: (3,), the rod's ends in each body's frame (m).

    With d the vector between the points, the constraint is (d² - L²) / (2 L), for small errors
    that of the distance (m). Its multiplier is the force in the rod (N), positive if it pulls the
    points together. Raises `ValueError` for other shapes and values.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    length: Float[Array, "..."] = eqx.field(converter=as_float)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))

    def __check_init__(self):
        check_points(self)
        checks.positive(f"{named(self)}.length", self.length, "m")

    @property
    def rows(self):
        """One."""
        return 1

    def constraint(self, t, parent, child):
        """(d² - L²) / (2 L), smooth where the points meet too."""
        d = between_points(self, parent, child)
        return (0.5 * (small.dot(d, d) / self.length - self.length))[None]

    def reaction(self, t, parent, child, multipliers):
        """The multiplier along the rod at the child's point, and its opposite at the parent's."""
        d = between_points(self, parent, child)
        return force_between_points(self, parent, child, multipliers[0] / self.length * d)
