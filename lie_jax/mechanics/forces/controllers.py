"""Controllers: actuators that make a joint follow a reference."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.mechanics.forces.base import (
    AbstractForce,
    as_signal,
    check_signal,
    point_velocity,
    torques_about,
    turning_rate,
    value_at,
)
from lie_jax.mechanics.forces.windings import AbstractWinding
from lie_jax.mechanics.joints.base import (
    as_direction,
    between_points_in_parent,
    check_direction,
    check_orientation,
    check_points,
    force_in_parent,
    named,
)
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float


class AbstractController(AbstractForce):
    """What controllers have in common: reference and gains."""

    parent: eqx.AbstractVar[str]
    child: eqx.AbstractVar[str]
    axis: eqx.AbstractVar[Float[Array, "..."]]
    reference: eqx.AbstractVar[Float[Array, "..."] | Callable]
    proportional: eqx.AbstractVar[Float[Array, "..."]]
    derivative: eqx.AbstractVar[Float[Array, "..."]]

    @property
    def bodies(self):
        """Parent and child."""
        return (self.parent, self.child)

    def _check(self, unit: str, load: str):
        check_direction(self)
        check_signal(f"{named(self)}.reference", self.reference, (), unit)
        for field, of in (("proportional", f"{load}/{unit}"), ("derivative", f"{load} s/{unit}")):
            checks.non_negative(f"{named(self)}.{field}", getattr(self, field), of)

    def _reference_and_rate(self, t: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda t: value_at(self.reference, t), (t,), (jnp.ones_like(t),))


class PDController(AbstractController, AbstractWinding):
    """Proportional-derivative controller of a hinge's angle.

    When the child is turned by φ about the axis, the torque on it about the axis is
    P (φ_d - φ) + D (φ̇_d - φ̇), and the parent gets its opposite. φ counts whole turns: in
    `Minimal()` it follows the hinge's coordinate; in absolute coordinates a run counts from its
    initial state, where φ is taken within half a turn of φ_d, as it is for functions of the system
    that are called outside of a run. What the controller does is work, it has no potential energy.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis`, `orientation`: as in
    the `RevoluteJoint`; `reference`: φ_d, rad, a constant or a differentiable function of the time
    (s) that returns one number; an `equinox.Module` with `__call__`, or a `jax.tree_util.Partial`,
    is not compiled anew when its parameters change; `proportional`: P, N m/rad; `derivative`: D,
    N m s/rad, neither negative. Raises `ValueError` for other shapes and values. Source: [S3] 4.4.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    reference: Float[Array, "..."] | Callable = eqx.field(converter=as_signal)
    proportional: Float[Array, "..."] = eqx.field(converter=as_float)
    derivative: Float[Array, "..."] = eqx.field(converter=as_float, default=0.0)
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))
    last: Any = eqx.field(init=False, default_factory=lambda: None)

    def __check_init__(self):
        self._check("rad", "N m")
        check_orientation(self)

    @property
    def home(self):
        """The `orientation`."""
        return self.orientation

    def _first(self, t):
        return value_at(self.reference, t)

    def wrenches(self, t, poses, velocities, u):
        """The torque on the child, its opposite on the parent, and no force."""
        reference, wanted_rate = self._reference_and_rate(t)
        rate = turning_rate(self.axis, poses, velocities)
        error = reference - self.counted(t, poses, rate)
        torque = self.proportional * error + self.derivative * (wanted_rate - rate)
        return torques_about(self.axis, poses, torque)


class PrismaticPDController(AbstractController):
    """Proportional-derivative controller of a slider's distance.

    At the distance s along the axis, the force on the child's point along the axis is
    P (s_d - s) + D (ṡ_d - ṡ), and the parent gets its opposite in the same place. It has no
    potential energy.

    **Arguments:** `parent`, `child`, `axis`, `parent_point`, `child_point`: as in the
    `PrismaticJoint`; `reference`: s_d, m, as for `PDController`; `proportional`: P, N/m;
    `derivative`: D, N s/m, neither negative. Raises `ValueError` for other shapes and values.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    reference: Float[Array, "..."] | Callable = eqx.field(converter=as_signal)
    proportional: Float[Array, "..."] = eqx.field(converter=as_float)
    derivative: Float[Array, "..."] = eqx.field(converter=as_float, default=0.0)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))

    def __check_init__(self):
        self._check("m", "N")
        check_points(self)

    def wrenches(self, t, poses, velocities, u):
        """The force at the child's point, and its opposite on the parent in the same place."""
        parent, child = poses
        reference, rate = self._reference_and_rate(t)
        between = between_points_in_parent(self, parent, child)
        place = self.parent_point + between
        moving = point_velocity(child, velocities[1], self.child_point) - point_velocity(
            parent, velocities[0], place
        )
        error = reference - small.dot(self.axis, between)
        error_rate = rate - small.dot(self.axis, small.matvec(parent.rotation.T, moving))
        force = self.proportional * error + self.derivative * error_rate
        return force_in_parent(self, parent, child, force * self.axis)
