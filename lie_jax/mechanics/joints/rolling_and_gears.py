"""Joints that constrain velocities: rolling without slip, and gears."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.mechanics.forces.base import point_velocity
from lie_jax.mechanics.joints.base import (
    AbstractJoint,
    Wrench,
    as_direction,
    between_points_in_parent,
    check_direction,
    check_points,
    force_at,
    in_parent,
    named,
    perpendicular,
)
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float


class RollingDisc(AbstractJoint):
    """A thin disc, fixed to the child, rolls without slip on a plane that is fixed to the parent.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `radius`: of the disc,
    positive, m; `child_axis`: (3,), normal to the disc, in the child's frame; `normal`: (3,),
    normal to the plane, in the parent's frame, towards the side where the disc is; both of any
    length but zero; `parent_point`: (3,), a point of the plane in the parent's frame;
    `child_point`: (3,), the disc's centre in the child's frame (m).

    The position constraint is the height of the disc's lowest point over the plane (m). The two
    velocity constraints are the velocities (m/s) of the disc's material there relative to the
    plane's, along two directions in the plane. The multipliers are the contact force (N) by which
    the disc acts on the plane, along the normal and those directions; the joint pulls as well as it
    pushes. A disc that lies in the plane touches it in no single point: everything is NaN. Raises
    `ValueError` for other shapes and values. Source: [S0] (3).
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    radius: Float[Array, "..."] = eqx.field(converter=as_float)
    child_axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    normal: Float[Array, "..."] = eqx.field(converter=as_direction, default=(0.0, 0.0, 1.0))
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))

    def __check_init__(self):
        check_points(self)
        checks.positive(f"{named(self)}.radius", self.radius, "m")
        check_direction(self, "child_axis", "child's")
        check_direction(self, "normal")

    @property
    def rows(self):
        """One."""
        return 1

    @property
    def velocity_rows(self):
        """Two."""
        return 2

    def _contact(self, parent, child):
        """The disc's lowest point, in the parent's and in the child's frame."""
        axis = in_parent(parent, child, self.child_axis)
        # The normal's part along the disc; its length is the sine of the angle between the two.
        up = self.normal - small.dot(self.normal, axis) * axis
        down = -self.radius / jnp.sqrt(small.dot(up, up)) * up
        center = self.parent_point + between_points_in_parent(self, parent, child)
        return center + down, self.child_point + in_parent(child, parent, down)

    def constraint(self, t, parent, child):
        """Height of the lowest point."""
        place, _ = self._contact(parent, child)
        return small.dot(self.normal, place - self.parent_point)[None]

    def velocity_constraint(self, t, parent, child, parent_velocity, child_velocity):
        """Slip velocity at the lowest point."""
        place, own = self._contact(parent, child)
        slip = point_velocity(child, child_velocity, own) - point_velocity(
            parent, parent_velocity, place
        )
        return small.matvec(perpendicular(self.normal), small.matvec(parent.rotation.T, slip))

    def reaction(self, t, parent, child, multipliers):
        """The multipliers as a force at the lowest point, and its opposite on the parent."""
        # The rim is level at its lowest point: the height's rate is the normal velocity there.
        place, own = self._contact(parent, child)
        along = small.matvec(perpendicular(self.normal).T, multipliers[1:])
        force = small.matvec(parent.rotation, multipliers[0] * self.normal + along)
        return force_at(parent, place, -force), force_at(child, own, force)


class GearJoint(AbstractJoint):
    """A pair of gears: the child turns `ratio` times as fast as the parent.

    Both bodies hang on hinges of the ground, which are other joints. The velocity constraint is
    ω_child·child_axis - ratio ω_parent·axis (rad/s) with angular velocities against the inertial
    frame. It holds the rates and not the angles, for angles have no value beyond a full turn; an
    integrator therefore lets their relation drift by its error.

    **Arguments:** `parent`, `child`: names of bodies; `axis`: (3,), that of the parent's hinge in
    the parent's frame; `child_axis`: (3,), that of the child's in the child's frame, both of any
    length but zero; `ratio`: rate of the child over that of the parent: minus the parent's number
    of teeth over the child's, if outer gears turn about axes of one direction.

    The multiplier is a torque (N m): the gear acts on the child with minus the multiplier about its
    axis, on the parent with `ratio` times the multiplier. Raises `ValueError` for other shapes, a
    zero axis and a zero ratio. Source: [S0] (3).
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    child_axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    ratio: Float[Array, "..."] = eqx.field(converter=as_float)

    def __check_init__(self):
        check_direction(self)
        check_direction(self, "child_axis", "child's")
        checks.scalar(f"{named(self)}.ratio", self.ratio, "rate of the child over the parent's")
        checks.finite(f"{named(self)}.ratio", self.ratio)
        if not checks.traced(self.ratio) and not float(self.ratio):
            raise ValueError(
                f"{named(self)}.ratio is 0.0; it must not be zero, for then the child would not "
                "turn at all: give minus the parent's number of teeth over the child's."
            )

    @property
    def rows(self):
        """None."""
        return 0

    @property
    def velocity_rows(self):
        """One."""
        return 1

    def constraint(self, t, parent, child):
        """Nothing: gears may be mounted at any angle."""
        return jnp.zeros(0, child.position.dtype)

    def velocity_constraint(self, t, parent, child, parent_velocity, child_velocity):
        """Rate of the child less what the parent asks for."""
        rate = small.dot(self.child_axis, child_velocity.omega_body)
        return (rate - self.ratio * small.dot(self.axis, parent_velocity.omega_body))[None]

    def reaction(self, t, parent, child, multipliers):
        """The multiplier as torques about both axes."""
        none = jnp.zeros_like(self.axis)
        return (
            Wrench(none, -self.ratio * multipliers[0] * self.axis),
            Wrench(none, multipliers[0] * self.child_axis),
        )
