"""Angles of hinges that count whole turns, for springs and controllers about an axis.

Poses alone give an angle between -π and π. In a run in absolute coordinates the element remembers
the angle and its rate at the last instant; the turns bring the angle nearest to its extrapolation
by the two rates. In joint coordinates they are the turns of the joint's coordinate.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.forces.base import AbstractPairForce
from lie_jax.mechanics.joints.base import Poses
from lie_jax.mechanics.joints.geometry import (
    DOUBT,
    Winding,
    angle_about,
    nearest_turn,
    predicted,
    turned,
    turning,
)
from lie_jax.numerics import small


class AbstractWinding(AbstractPairForce):
    """A force that depends on a hinge's angle φ, any number of turns; φ = 0 at `orientation`."""

    axis: eqx.AbstractVar[Parameter]
    orientation: eqx.AbstractVar[Parameter]

    def _first(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """Angle (rad) within half a turn of which φ is taken without a past."""
        return jnp.zeros_like(t)

    def principal(self, poses: Poses) -> Float[Array, ""]:
        """Angle φ between -π and π (rad): the part about the axis of any rotation."""
        parent, child = poses
        return angle_about(self.axis, turned(parent, child, self.orientation))

    def rate(self, poses, velocities) -> Float[Array, ""]:
        """Rate of φ (rad/s)."""
        return small.dot(self.axis, turning(poses, velocities))

    def counted(self, t, poses, rate) -> Float[Array, ""]:
        """Angle φ with its turns (rad) at a time, given its rate there (rad/s)."""
        near = self._first(t) if self.last is None else predicted(self.last, t, rate)
        return nearest_turn(self.principal(poses), near)

    @override
    def remember(self, t, poses, velocities):
        """The angle and its rate."""
        rate = self.rate(poses, velocities)
        return Winding(t, self.counted(t, poses, rate), rate)

    @override
    def departed(self, t, poses, velocities):
        """Whether the angle is more than a quarter turn from its extrapolation."""
        rate = self.rate(poses, velocities)
        near = predicted(self.last, t, rate)
        return jnp.abs(self.counted(t, poses, rate) - near) > DOUBT
