"""A joint that keeps the distance of two points."""

import itertools

import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics import fields
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.joints.base import AbstractJoint, BodyPose, Stiffness, Vector, tree_sum
from lie_jax.mechanics.joints.conditions import Coincide
from lie_jax.mechanics.joints.geometry import between_points, force_between_points
from lie_jax.numerics import small


class DistanceJoint(AbstractJoint):
    """Massless rod: a point of the parent and a point of the child keep their distance.

    With d the vector between the points, the constraint is (d² - L²) / (2 L), for small errors
    that of the distance (m). Its multiplier is the force in the rod (N), positive if it pulls the
    points together.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `length`: L, positive, m.
    - `parent_point`, `child_point`: (3,), the rod's ends, in the bodies' frames, m.

    Raises `ValueError` for values that break these rules.
    """

    rows = 1
    length: Parameter = fields.positive("m")
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()

    @override
    def constraint(self, t, parent, child):
        d = between_points(self, parent, child)
        return (0.5 * (small.dot(d, d) / self.length - self.length))[None]

    @override
    def reaction(self, t, parent, child, multipliers):
        d = between_points(self, parent, child)
        return force_between_points(self, multipliers[0] / self.length * d, parent, child)

    @override
    def stiffness(self, t, parent, child, multipliers):
        """The force F = λ d / L acts as that of coinciding points, and changes by λ ḋ / L."""
        pull = multipliers[0] / self.length
        force = pull * between_points(self, parent, child)
        coinciding = Coincide(*self.points).stiffness(parent, child, force)
        # The wrench of a force is the transpose of the point's velocity.
        by_parent = -_point_velocity(parent, self.parent_point)
        by_child = _point_velocity(child, self.child_point)
        pairs = itertools.product((by_parent, by_child), repeat=2)
        changes = Stiffness(*(pull * small.matmul(a.T, b) for a, b in pairs))
        return tree_sum((coinciding, changes))


def _point_velocity(pose: BodyPose, point: Vector) -> Float[Array, "3 6"]:
    identity = jnp.eye(3, dtype=point.dtype)
    return jnp.concatenate([identity, -small.matmul(pose.rotation, small.hat(point))], axis=1)
