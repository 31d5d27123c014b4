"""Springs and dampers between two bodies, or a body and the ground."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.forces.base import AbstractPairForce
from lie_jax.mechanics.joints.geometry import (
    between_points,
    force_between_points,
    slip,
)
from lie_jax.numerics import small

# A line whose middle is this short beside its ends in a step has passed through zero; a line that
# turns by less than 2.9 rad has not.
_THROUGH = 0.1


def passes_through(last: Float[Array, "3"], now: Float[Array, "3"]) -> Bool[Array, ""]:
    """Whether the way from the last line between two points to this one leads next to zero."""
    shorter = jnp.minimum(small.dot(last, last), small.dot(now, now))
    return small.least_square_between(last, now) < _THROUGH**2 * shorter


def _along_axes(unit: str, **default: Any) -> Any:
    """Field with three numbers along the inertial axes, not negative."""

    def check(where: str, value: Any) -> None:
        checks.shape(where, value, (3,), f"{unit}, along inertial axes")
        for i, component in enumerate(value):
            checks.non_negative(f"{where}[{i}]", component, unit)

    return fields.parameter(check, **default)


class CartesianSpringDamper(AbstractPairForce):
    """Springs and dampers along the three inertial axes.

    With e the inertial vector from the parent's to the child's point, the force on the child's
    point is -k (e - offset) - d ė, axis by axis, and its opposite acts at the parent's point.
    Between two bodies whose points are apart this pair has a moment; against the ground it stands
    for a support.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `stiffness`: k (3,), N/m; `damping`: d (3,), N s/m; neither negative.
    - `parent_point`, `child_point`: (3,), points that it connects, in the bodies' frames, m.
    - `offset`: (3,), e at rest, inertial components, m.

    Raises `ValueError` for values that break these rules.
    Source: [S3] 4.2, Table 6.
    """

    stiffness: Parameter = _along_axes("N/m")
    damping: Parameter = _along_axes("N s/m", default=(0.0, 0.0, 0.0))
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    offset: Parameter = fields.vector("m, inertial components")

    @override
    def wrenches(self, t, poses, velocities, u):
        stretch = between_points(self, *poses) - self.offset
        rate = slip(poses, velocities, self.parent_point, self.child_point)
        force = -self.stiffness * stretch - self.damping * rate
        return force_between_points(self, force, *poses)

    @override
    def potential_energy(self, poses):
        """½ k (e - offset)², summed over the axes."""
        stretch = between_points(self, *poses) - self.offset
        return 0.5 * small.dot(self.stiffness, stretch * stretch)


def _check_length(where: str, value: Any) -> None:
    checks.scalar(where, value, "m")
    if not checks.has_tracers(value) and float(value) == 0.0:
        raise ValueError(
            f"{where} is 0.0; it must be positive, for a line between points that meet has no "
            "direction: take lie_jax.CartesianSpringDamper(parent, child, (k, k, k), (d, d, d)), "
            "which pulls the points together from every side."
        )
    checks.positive(where, value, "m")


class LinearSpringDamper(AbstractPairForce):
    """A spring and damper along the line between the two points.

    At the distance ℓ it pulls the points together by k (ℓ - length) + d ℓ̇. The points must not
    meet: the line has no direction there and the force is NaN. A run in which one point passes
    through the other in a step ends with `Result.departed`.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `stiffness`: k, N/m; `damping`: d, N s/m; neither negative.
    - `length`: the relaxed distance, positive, m; for none take a `CartesianSpringDamper`.
    - `parent_point`, `child_point`: (3,), its ends, in the bodies' frames, m.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    is_smooth = True
    stiffness: Parameter = fields.non_negative("N/m")
    damping: Parameter = fields.non_negative("N s/m")
    length: Parameter = fields.parameter(_check_length)
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()

    @override
    def wrenches(self, t, poses, velocities, u):
        line = between_points(self, *poses)
        distance = jnp.sqrt(small.dot(line, line))
        direction = line / distance
        rate = small.dot(direction, slip(poses, velocities, self.parent_point, self.child_point))
        tension = self.stiffness * (distance - self.length) + self.damping * rate
        return force_between_points(self, -tension * direction, *poses)

    @override
    def potential_energy(self, poses):
        """½ k (ℓ - length)²."""
        line = between_points(self, *poses)
        stretch = jnp.sqrt(small.dot(line, line)) - self.length
        return 0.5 * self.stiffness * stretch * stretch

    @override
    def memory_after(self, t, poses, velocities):
        """The line between the points."""
        return between_points(self, *poses)

    @override
    def leaves_range(self, t, poses, velocities):
        """Whether one point has passed through the other."""
        return passes_through(self.last, between_points(self, *poses))
