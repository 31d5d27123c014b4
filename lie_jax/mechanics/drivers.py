"""Drivers: constraints that move a joint as a function of the time."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import algebra
from lie_jax.algebra import as_float
from lie_jax.mechanics.forces import as_signal, check_signal, value_at
from lie_jax.mechanics.joint_parts import (
    AbstractJoint,
    Wrench,
    as_direction,
    check_direction,
    check_orientation,
    named,
    turn,
    turned_about,
    turning_torques,
)


class RevoluteDriver(AbstractJoint):
    """Turns the child about an axis of the parent by a given angle; the hinge is another joint.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis` (or normal) and
    `orientation`: those of the revolute, cylindrical or planar joint that it drives; `angle`: that
    joint's angle (rad), a function of the time (s) that returns one number, twice differentiable,
    or a constant that locks it. A function with parameters to be differentiated is an
    `equinox.Module` with `__call__`, or a `jax.tree_util.Partial`.

    The constraint is the sine of the error in the angle, which also holds half a turn away: start
    near the angle that is meant. The driver's torque on the child about the axis is minus the
    multiplier (N m). Raises `ValueError` for other shapes, a zero axis and an orientation that is
    no unit quaternion.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    angle: Float[Array, "..."] | Callable = eqx.field(converter=as_signal)
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        check_direction(self)
        check_orientation(self)
        check_signal(f"{named(self)}.angle", self.angle, (), "rad")

    @property
    def rows(self):
        """One."""
        return 1

    def _at(self, t: Array) -> Array:
        """The orientation that the child should have."""
        return turned_about(self.axis, value_at(self.angle, t), self.orientation)

    def constraint(self, t, parent, child):
        """Sine of the error in the angle, positive if the child is ahead."""
        return algebra.dot(self.axis, turn(parent, child, self._at(t)))[None]

    def reaction(self, t, parent, child, multipliers):
        """The multiplier as torques about the axis."""
        torques = turning_torques(parent, child, self._at(t), multipliers[0] * self.axis)
        none = jnp.zeros_like(self.axis)
        return Wrench(none, torques[0]), Wrench(none, torques[1])
