"""Nodes of beams and shells: frames in the bodies whose poses move them."""

from typing import NamedTuple

from jaxtyping import Array, Float

from lie_jax.groups import quaternion, se3
from lie_jax.mechanics.beams import screw
from lie_jax.mechanics.beams.screw import Matrix6, Twist
from lie_jax.mechanics.joints.base import BodyPose, Wrench
from lie_jax.numerics import small


class Node(NamedTuple):
    """Frame of a node in that of its body: origin `point` (3,), m, and axes `turn` (3, 3)."""

    point: Float[Array, "3"]
    turn: Float[Array, "3 3"]

    def frame(self, pose: BodyPose) -> BodyPose:
        """Inertial frame of the node."""
        position = pose.position + small.matvec(pose.rotation, self.point)
        return BodyPose(small.matmul(pose.rotation, self.turn), position)

    @property
    def offset(self) -> Matrix6:
        """Matrix (6, 6) from the twist of the body to that of the node, both in their axes."""
        back = self.turn.T
        return se3.upper(back, -small.matmul(back, small.hat(self.point)), back)

    def carry(self, pose: BodyPose) -> Matrix6:
        """Matrix (6, 6) from the hybrid velocity of the body to the twist of the node."""
        return screw.carry(self.offset, pose.rotation)

    def wrench(self, pose: BodyPose, on_node: Twist) -> Wrench:
        """Wrench on the body that a wrench on the node, in its axes, amounts to."""
        on_body = small.matvec(self.offset.T, on_node)
        return Wrench(small.matvec(pose.rotation, on_body[:3]), on_body[3:])


def node_at(point: Float[Array, "3"], orientation: Float[Array, "4"]) -> Node:
    """Node at a point (m) with a unit quaternion, both in the frame of its body."""
    return Node(point, quaternion.to_matrix(orientation))
