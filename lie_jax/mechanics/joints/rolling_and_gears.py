"""Joints that constrain velocities: rolling without slip, and gears."""

from typing import Any

import jax.numpy as jnp
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.joints.base import GROUND, AbstractJoint, Wrench
from lie_jax.mechanics.joints.generic import GenericJoint
from lie_jax.mechanics.joints.geometry import (
    child_point_in_parent,
    force_at,
    in_parent,
    perpendicular,
    slip,
)
from lie_jax.mechanics.joints.pairs import RigidJoint
from lie_jax.numerics import small


class RollingDisc(AbstractJoint):
    """A thin disc, fixed to the child, rolls without slip on a plane that is fixed to the parent.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `radius`: of the disc, positive, m.
    - `child_axis`: (3,), normal to the disc, in the child's frame, of any length but zero.
    - `normal`: (3,), normal to the plane, towards the side where the disc is, in the parent's
      frame.
    - `parent_point`, `child_point`: (3,), a point of the plane and the disc's centre, in the
      bodies' frames, m.

    The position constraint is the height of the disc's lowest point over the plane (m). The two
    velocity constraints are the velocities (m/s) of the disc's material there relative to the
    plane's, along two directions in the plane. The multipliers are the contact force (N) by which
    the disc acts on the plane, along the normal and those directions; the joint pulls as well as it
    pushes. A disc that lies in the plane touches it in no single point: everything is NaN.
    Source: [S0] (3).
    """

    rows = 1
    velocity_rows = 2
    radius: Parameter = fields.positive("m")
    child_axis: Parameter = fields.direction("child's")
    normal: Parameter = fields.direction(default=(0.0, 0.0, 1.0))
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()

    def _contact(self, parent, child):
        """The disc's lowest point, in the parent's and in the child's frame."""
        axis = in_parent(parent, child, self.child_axis)
        # The normal's part along the disc; its length is the sine of the angle between the two.
        up = self.normal - small.dot(self.normal, axis) * axis
        down = -self.radius / jnp.sqrt(small.dot(up, up)) * up
        center = child_point_in_parent(self, parent, child)
        return center + down, self.child_point + in_parent(child, parent, down)

    @override
    def constraint(self, t, parent, child):
        """Height of the lowest point."""
        point_in_parent, _ = self._contact(parent, child)
        return small.dot(self.normal, point_in_parent - self.parent_point)[None]

    @override
    def velocity_constraint(self, t, parent, child, parent_velocity, child_velocity):
        """Slip velocity at the lowest point."""
        point_in_parent, point_in_child = self._contact(parent, child)
        velocities = parent_velocity, child_velocity
        velocity = slip((parent, child), velocities, point_in_parent, point_in_child)
        return small.matvec(perpendicular(self.normal), small.matvec(parent.rotation.T, velocity))

    @override
    def reaction(self, t, parent, child, multipliers):
        """Multipliers as a force at the lowest point, and its opposite on the parent."""
        # The rim is level at its lowest point: the height's rate is the normal velocity there.
        point_in_parent, point_in_child = self._contact(parent, child)
        along = small.matvec(perpendicular(self.normal).T, multipliers[1:])
        force = small.matvec(parent.rotation, multipliers[0] * self.normal + along)
        return force_at(parent, point_in_parent, -force), force_at(child, point_in_child, force)


def _check_ratio(where: str, value: Any) -> None:
    checks.scalar(where, value, "rate of the child over the parent's")
    checks.finite(where, value)
    if not checks.has_tracers(value) and not float(value):
        raise ValueError(
            f"{where} is 0.0; it must not be zero, for then the child would not turn at all: give "
            "minus the parent's number of teeth over the child's."
        )


class GearJoint(AbstractJoint):
    """A pair of gears: the child turns `ratio` times as fast as the parent.

    Both bodies hang on hinges of the ground, which are other joints: a mechanism with others raises
    `ValueError`, and wheels on a carrier that moves take a `CouplingJoint`. The velocity constraint
    is ω_child·child_axis - ratio ω_parent·axis (rad/s) with angular velocities against the inertial
    frame. It holds the rates and not the angles, for angles have no value beyond a full turn; an
    integrator therefore lets their relation drift by its error.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `axis`, `child_axis`: (3,), those of the hinges of parent and child, in the frames of parent
      and child, of any length but zero.
    - `ratio`: rate of the child over that of the parent, not zero: minus the parent's number of
      teeth over the child's, if outer gears turn about axes of one direction.

    The multiplier is a torque (N m): the gear acts on the child with minus the multiplier about its
    axis, on the parent with `ratio` times the multiplier. Source: [S0] (3).
    """

    rows = 0
    velocity_rows = 1
    axis: Parameter = fields.direction()
    child_axis: Parameter = fields.direction("child's")
    ratio: Parameter = fields.parameter(_check_ratio)

    @override
    def objection(self, joints):
        # Bodies that are welded to each other are one part.
        welded: dict[str, str] = {}

        def part(name: str) -> str:
            while name in welded:
                name = welded[name]
            return name

        hinged = []
        for joint in joints:
            if isinstance(joint, RigidJoint | GenericJoint) and joint.rows == 6:
                one, other = sorted((part(joint.parent), part(joint.child)), key=GROUND.__eq__)
                if one != other:
                    welded[one] = other
            elif joint.coordinate_units.count("rad") == 1:
                hinged.append((joint.parent, joint.child))
        on_ground = [{part(a), part(b)} for a, b in hinged]
        for name in (self.parent, self.child):
            if {part(name), part(GROUND)} not in on_ground:
                return (
                    f"needs hinges of both bodies on the ground, and {name!r} has none there: its "
                    "rates are those against the inertial frame, and no tooth force would reach a "
                    "carrier that moves. Couple the hinges of both wheels on their carrier by "
                    "lie_jax.CouplingJoint(hinge_of_child, hinge_of_parent, (0.0, ratio))."
                )
        return None

    @override
    def constraint(self, t, parent, child):
        """Nothing: gears may be mounted at any angle."""
        return jnp.zeros(0, child.position.dtype)

    @override
    def velocity_constraint(self, t, parent, child, parent_velocity, child_velocity):
        """Excess of the child's rate over `ratio` times the parent's."""
        rate = small.dot(self.child_axis, child_velocity.omega_body)
        return (rate - self.ratio * small.dot(self.axis, parent_velocity.omega_body))[None]

    @override
    def reaction(self, t, parent, child, multipliers):
        """Multiplier as torques about both axes."""
        none = jnp.zeros_like(self.axis)
        return (
            Wrench(none, -self.ratio * multipliers[0] * self.axis),
            Wrench(none, multipliers[0] * self.child_axis),
        )
