"""Angles of hinges that count whole turns: what springs and controllers about an axis measure.

Poses alone give an angle between -π and π. In a run in absolute coordinates the element remembers
the angle and its rate at the last instant; the turns are those that bring the angle nearest to
where the two rates lead. In joint coordinates the turns are those of the joint's coordinate.
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics.forces.base import AbstractForce, turning_rate
from lie_jax.mechanics.joints.base import (
    BodyPose,
    Winding,
    angle_about,
    nearest_turn,
    predicted,
    turned,
)

# An angle that is this far from where its rates lead (rad) may have any number of turns.
_DOUBT = 0.5 * np.pi


class AbstractWinding(AbstractForce):
    """A force that depends on a hinge's angle, any number of turns."""

    parent: eqx.AbstractVar[str]
    child: eqx.AbstractVar[str]
    axis: eqx.AbstractVar[Float[Array, "..."]]
    last: eqx.AbstractVar[Any]

    @property
    @abc.abstractmethod
    def home(self) -> Float[Array, "4"]:
        """Orientation of the child in the parent at φ = 0: a unit quaternion."""

    @abc.abstractmethod
    def _first(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """The angle (rad) from which less than half a turn is counted without a past."""

    def principal(self, poses: tuple[BodyPose, ...]) -> Float[Array, ""]:
        """The angle φ between -π and π (rad): the part about the axis of any rotation."""
        parent, child = poses
        return angle_about(self.axis, turned(parent, child, self.home))

    def counted(self, t, poses, rate) -> Float[Array, ""]:
        """The angle φ with its turns (rad) at a time, where it changes with this rate (rad/s)."""
        near = self._first(t) if self.last is None else predicted(self.last, t, rate)
        return nearest_turn(self.principal(poses), near)

    def remember(self, t, poses, velocities):
        """The angle and its rate."""
        rate = turning_rate(self.axis, poses, velocities)
        return Winding(t, self.counted(t, poses, rate), rate)

    def departed(self, t, poses, velocities):
        """Whether the angle is more than a quarter turn from where its rates lead."""
        rate = turning_rate(self.axis, poses, velocities)
        near = predicted(self.last, t, rate)
        return jnp.abs(self.counted(t, poses, rate) - near) > _DOUBT
