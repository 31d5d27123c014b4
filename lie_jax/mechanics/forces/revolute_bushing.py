"""A bushing about a free axis: springs and dampers in the place of a hinge."""

import jax
import jax.numpy as jnp
from typing_extensions import override

from lie_jax.mechanics import fields
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.forces.base import AbstractPairForce
from lie_jax.mechanics.joints.geometry import (
    between_points_in_parent,
    force_in_parent,
    relative_rotation,
    slip_in_parent,
    torque_in_parent,
    turning,
)
from lie_jax.numerics import small


class RevoluteBushing(AbstractPairForce):
    """Springs and dampers that hold a point and an axis of the child to those of the parent.

    The compliant twin of `RevoluteJoint`: the child turns freely about the axis, by any number of
    turns. With e the vector from the parent's to the child's point, and a and b the axes of parent
    and child, unit vectors, all in the parent's components, the potential energy is
    ½ e·K e + ½ c |b - a|². The force on the child, at its point, is -K e - D ė, and the torque on
    it b × (c a - d ḃ), where ė and ḃ are seen from the parent: none about the axes. The parent gets
    the opposite of both at the same place. The torque of the spring grows with the sine of the
    angle between the axes: it is largest at a right angle, and vanishes where they are opposite.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `axis`: (3,), in the parent's frame, of any length but zero.
    - `stiffness`: K, N/m, and `damping`: D, N s/m, each (3,) along the parent's axes, or a
      symmetric positive semidefinite matrix (3, 3).
    - `rotational_stiffness`: c, N m/rad, and `rotational_damping`: d, N m s/rad, numbers, not
      negative.
    - `parent_point`, `child_point`: (3,), points of the axis in the bodies' frames, m.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where its axis is the parent's.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    axis: Parameter = fields.direction()
    stiffness: Parameter = fields.semidefinite("N/m")
    rotational_stiffness: Parameter = fields.non_negative("N m/rad")
    damping: Parameter = fields.semidefinite("N s/m", default=(0.0, 0.0, 0.0))
    rotational_damping: Parameter = fields.non_negative("N m s/rad", default=0.0)
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def wrenches(self, t, poses, velocities, u):
        e, rate = between_points_in_parent(self, *poses), slip_in_parent(self, poses, velocities)
        force = -small.matvec(self.stiffness, e) - small.matvec(self.damping, rate)
        axis = self._axis_of_child(poses)
        axis_rate = small.cross(turning(poses, velocities), axis)
        pull = self.rotational_stiffness * self.axis - self.rotational_damping * axis_rate
        forces = force_in_parent(self, force, *poses)
        return jax.tree.map(jnp.add, forces, torque_in_parent(poses, small.cross(axis, pull)))

    @override
    def potential_energy(self, poses):
        """½ e·K e + ½ c |b - a|²."""
        e, apart = between_points_in_parent(self, *poses), self._axis_of_child(poses) - self.axis
        pull = small.matvec(self.stiffness, e)
        return 0.5 * (small.dot(e, pull) + self.rotational_stiffness * small.dot(apart, apart))

    def _axis_of_child(self, poses):
        """Axis of the child, parent's components."""
        parent, child = poses
        return small.matvec(relative_rotation(parent, child, self.orientation), self.axis)
