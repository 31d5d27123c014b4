"""Springs and dampers between two bodies, or a body and the ground."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.mechanics.forces.base import (
    AbstractForce,
    point_position,
    point_velocity,
    torques_about,
    turning_rate,
)
from lie_jax.mechanics.forces.windings import AbstractWinding
from lie_jax.mechanics.joints.base import (
    as_direction,
    check_direction,
    check_orientation,
    force_at,
    named,
    nearest_turn,
)
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float

# A line whose middle is this short beside its ends in a step has passed through zero; a line that
# turns by less than 2.9 rad has not.
_THROUGH = 0.1


class AbstractPointSpring(AbstractForce):
    """What such elements have in common: the two points and how far apart they are."""

    parent: eqx.AbstractVar[str]
    child: eqx.AbstractVar[str]
    parent_point: eqx.AbstractVar[Float[Array, "..."]]
    child_point: eqx.AbstractVar[Float[Array, "..."]]

    @property
    def bodies(self):
        """Parent and child."""
        return (self.parent, self.child)

    @property
    def _where(self) -> str:
        return f"{type(self).__name__}({self.parent!r}, {self.child!r})"

    def _check_points(self):
        for field in ("parent_point", "child_point"):
            checks.shape(f"{self._where}.{field}", getattr(self, field), (3,), "m, body components")
            checks.finite(f"{self._where}.{field}", getattr(self, field))

    def _displacement(self, poses):
        parent, child = poses
        return point_position(child, self.child_point) - point_position(parent, self.parent_point)

    def _rate(self, poses, velocities):
        return point_velocity(poses[1], velocities[1], self.child_point) - point_velocity(
            poses[0], velocities[0], self.parent_point
        )

    def _pair(self, poses, force):
        return (
            force_at(poses[0], self.parent_point, -force),
            force_at(poses[1], self.child_point, force),
        )


class CartesianSpringDamper(AbstractPointSpring):
    """Springs and dampers along the three inertial axes.

    With e the inertial vector from the parent's to the child's point, the force on the child's
    point is -k (e - offset) - d ė, axis by axis, and its opposite acts at the parent's point.
    Between two bodies whose points are apart this pair has a moment; against the ground it stands
    for a support.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `parent_point`, `child_point`:
    (3,), in each body's frame (m); `stiffness`: k (3,), N/m; `damping`: d (3,), N s/m, neither
    negative; `offset`: (3,), e at rest, inertial components (m). Raises `ValueError` for other
    shapes and values. Source: [S3] 4.2, Table 6.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    stiffness: Float[Array, "..."] = eqx.field(converter=as_float)
    damping: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    offset: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))

    def __check_init__(self):
        self._check_points()
        checks.shape(f"{self._where}.offset", self.offset, (3,), "m, inertial components")
        checks.finite(f"{self._where}.offset", self.offset)
        for field, unit in (("stiffness", "N/m"), ("damping", "N s/m")):
            value = getattr(self, field)
            checks.shape(f"{self._where}.{field}", value, (3,), f"{unit}, along inertial axes")
            for i, number in enumerate(value):
                checks.non_negative(f"{self._where}.{field}[{i}]", number, unit)

    def wrenches(self, t, poses, velocities, u):
        """The force at the child's point, and its opposite at the parent's."""
        stretch = self._displacement(poses) - self.offset
        rate = self._rate(poses, velocities)
        return self._pair(poses, -self.stiffness * stretch - self.damping * rate)

    def potential_energy(self, poses):
        """½ k (e - offset)², summed over the axes."""
        stretch = self._displacement(poses) - self.offset
        return 0.5 * small.dot(self.stiffness, stretch * stretch)


class LinearSpringDamper(AbstractPointSpring):
    """A spring and damper along the line between the two points.

    At the distance ℓ it pulls the points together by k (ℓ - length) + d ℓ̇. The points must not
    meet: the line has no direction there and the force is NaN. A run in which one point passes
    through the other in a step ends with `Result.departed`.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `stiffness`: k, N/m;
    `damping`: d, N s/m, neither negative; `length`: the relaxed distance, positive, m;
    `parent_point`, `child_point`: (3,), in each body's frame (m). Raises `ValueError` for other
    shapes and values.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    stiffness: Float[Array, "..."] = eqx.field(converter=as_float)
    damping: Float[Array, "..."] = eqx.field(converter=as_float)
    length: Float[Array, "..."] = eqx.field(converter=as_float)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    last: Any = eqx.field(init=False, default_factory=lambda: None)

    def __check_init__(self):
        self._check_points()
        for field, unit in (("stiffness", "N/m"), ("damping", "N s/m")):
            checks.non_negative(f"{self._where}.{field}", getattr(self, field), unit)
        checks.positive(f"{self._where}.length", self.length, "m")

    def wrenches(self, t, poses, velocities, u):
        """The tension at the child's point, and its opposite at the parent's."""
        line = self._displacement(poses)
        distance = jnp.sqrt(small.dot(line, line))
        direction = line / distance
        rate = small.dot(direction, self._rate(poses, velocities))
        tension = self.stiffness * (distance - self.length) + self.damping * rate
        return self._pair(poses, -tension * direction)

    def potential_energy(self, poses):
        """½ k (ℓ - length)²."""
        line = self._displacement(poses)
        stretch = jnp.sqrt(small.dot(line, line)) - self.length
        return 0.5 * self.stiffness * stretch * stretch

    def remember(self, t, poses, velocities):
        """The line between the points."""
        return self._displacement(poses)

    def departed(self, t, poses, velocities):
        """Whether the way from the last line to this one leads next to zero."""
        last, now = self.last, self._displacement(poses)
        way = now - last
        square = small.dot(way, way)
        part = jnp.clip(-small.dot(last, way) / jnp.where(square > 0.0, square, 1.0), 0.0, 1.0)
        closest = last + part * way
        shorter = jnp.minimum(small.dot(last, last), small.dot(now, now))
        return small.dot(closest, closest) < _THROUGH**2 * shorter


class TorsionalSpringDamper(AbstractWinding):
    """A spring and damper about the axis of a hinge.

    When the child is turned by φ about the axis, the torque on it about the axis is
    -k (φ - angle) - d φ̇, and the parent gets its opposite. φ counts whole turns: in `Minimal()` it
    follows the hinge's coordinate; in absolute coordinates a run counts from its initial state,
    where φ lies between -π and π, as it does for functions of the system that are called outside of
    a run. It has its potential energy if the axes of parent and child are parallel, as the joints
    of such a mechanism see to.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis`, `orientation`: as in
    the `RevoluteJoint`; `stiffness`: k, N m/rad; `damping`: d, N m s/rad, neither negative;
    `angle`: φ at rest, rad. Raises `ValueError` for other shapes and values.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    stiffness: Float[Array, "..."] = eqx.field(converter=as_float)
    damping: Float[Array, "..."] = eqx.field(converter=as_float, default=0.0)
    angle: Float[Array, "..."] = eqx.field(converter=as_float, default=0.0)
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))
    last: Any = eqx.field(init=False, default_factory=lambda: None)

    def __check_init__(self):
        check_direction(self)
        check_orientation(self)
        for field, unit in (("stiffness", "N m/rad"), ("damping", "N m s/rad")):
            checks.non_negative(f"{named(self)}.{field}", getattr(self, field), unit)
        checks.scalar(f"{named(self)}.angle", self.angle, "rad")
        checks.finite(f"{named(self)}.angle", self.angle)

    @property
    def bodies(self):
        """Parent and child."""
        return (self.parent, self.child)

    @property
    def home(self):
        """The `orientation`."""
        return self.orientation

    def _first(self, t):
        return jnp.zeros_like(self.angle)

    def wrenches(self, t, poses, velocities, u):
        """The torque on the child, its opposite on the parent, and no force."""
        rate = turning_rate(self.axis, poses, velocities)
        stretch = self.counted(t, poses, rate) - self.angle
        return torques_about(self.axis, poses, -(self.stiffness * stretch + self.damping * rate))

    def potential_energy(self, poses):
        """½ k (φ - angle)², φ within half a turn of where it was last."""
        near = self._first(self.angle) if self.last is None else self.last.angle
        stretch = nearest_turn(self.principal(poses), near) - self.angle
        return 0.5 * self.stiffness * stretch * stretch
