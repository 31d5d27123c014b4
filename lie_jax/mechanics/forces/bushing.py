"""A bushing: springs and dampers between two frames along and about all axes."""

import jax
import jax.numpy as jnp
from typing_extensions import override

from lie_jax.groups import so3
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


class Bushing(AbstractPairForce):
    """Springs and dampers that pull a frame of the child to a frame of the parent, in six axes.

    With e the vector from the parent's to the child's point and θ the rotation vector of the child
    against the parent from where it has the `orientation`, both in the parent's components, the
    potential energy is ½ e·K e + ½ θ·C θ. The force on the child, at its point, is -K e - D ė, and
    the torque on it -dexp⁻¹(θ)ᵀ C θ - B ω, where ė is seen from the parent and ω is the angular
    velocity of the child against it; the torque is -C θ - B ω if θ is small or all axes are alike.
    The parent gets the opposite of both at the same place. θ jumps where its length is π: the child
    must not be turned that far.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `stiffness`: K, N/m; `rotational_stiffness`: C, N m/rad; `damping`: D, N s/m;
      `rotational_damping`: B, N m s/rad; each (3,) along the parent's axes, or a symmetric positive
      semidefinite matrix (3, 3).
    - `parent_point`, `child_point`: (3,), places of the frames in the bodies' frames, m.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where the bushing is at rest.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    is_smooth = True
    stiffness: Parameter = fields.semidefinite("N/m")
    rotational_stiffness: Parameter = fields.semidefinite("N m/rad")
    damping: Parameter = fields.semidefinite("N s/m", default=(0.0, 0.0, 0.0))
    rotational_damping: Parameter = fields.semidefinite("N m s/rad", default=(0.0, 0.0, 0.0))
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def wrenches(self, t, poses, velocities, u):
        e, theta = self._displacement(poses)
        rate, omega = slip_in_parent(self, poses, velocities), turning(poses, velocities)
        force = -small.matvec(self.stiffness, e) - small.matvec(self.damping, rate)
        # dexp⁻¹(θ)ᵀ = dexp⁻¹(-θ): the rate of θ is dexp⁻¹(θ) ω.
        spring = so3.dexp_inv_apply(-theta, small.matvec(self.rotational_stiffness, theta))
        torque = -spring - small.matvec(self.rotational_damping, omega)
        forces = force_in_parent(self, force, *poses)
        return jax.tree.map(jnp.add, forces, torque_in_parent(poses, torque))

    @override
    def potential_energy(self, poses):
        """½ e·K e + ½ θ·C θ."""
        e, theta = self._displacement(poses)
        pull = small.matvec(self.stiffness, e)
        turn = small.matvec(self.rotational_stiffness, theta)
        return 0.5 * (small.dot(e, pull) + small.dot(theta, turn))

    def _displacement(self, poses):
        """Displacements e and θ."""
        parent, child = poses
        theta = so3.log(relative_rotation(parent, child, self.orientation))
        return between_points_in_parent(self, parent, child), theta
