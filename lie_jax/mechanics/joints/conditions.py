"""Six conditions between two bodies, of which joints are composed.

A condition is a few equations between the poses of a parent and a child. Each has its reaction, the
transpose of its derivative times multipliers, and its stiffness, the derivative of the reaction
along the hybrid velocities ṙ (inertial) and ω (body), in closed form. With A and B the rotations
of parent and child, A changes by A ω̃, and R = AᵀB by -ω̃ R along the parent's and by R ω̃ along
the child's ω. Haug, "Computer Aided Kinematics and Dynamics of Mechanical Systems" (1989), ch. 9.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.groups import quaternion
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.joints.base import BodyPose, Matrix, Stiffness, Vector, Wrench
from lie_jax.mechanics.joints.geometry import (
    between_points,
    between_points_in_parent,
    force_between_points,
    force_in_parent,
    in_parent,
    perpendicular,
    turned,
)
from lie_jax.numerics import small

Directions = Float[Array, "rows 3"]
Multipliers = Float[Array, " rows"]


class AbstractCondition(eqx.Module):
    """Equations between the poses of parent and child."""

    # Number of equations.
    rows: ClassVar[int]

    @abc.abstractmethod
    def constraint(self, parent: BodyPose, child: BodyPose) -> Float[Array, " rows"]:
        """Values that are zero when the condition holds."""

    @abc.abstractmethod
    def reaction(
        self, parent: BodyPose, child: BodyPose, multipliers: Multipliers
    ) -> tuple[Wrench, Wrench]:
        """Wrenches Bᵀλ on parent and child."""

    @abc.abstractmethod
    def stiffness(self, parent: BodyPose, child: BodyPose, multipliers: Multipliers) -> Stiffness:
        """Derivatives of the reaction along the hybrid velocities."""

    def side(self, parent: BodyPose, child: BodyPose) -> Float[Array, ""] | None:
        """Number whose sign no motion changes, as `AbstractJoint.side`."""
        return None


class Coincide(AbstractCondition):
    """Two points coincide: the inertial vector between them is zero (m, N)."""

    rows: ClassVar[int] = 3
    parent_point: Parameter
    child_point: Parameter

    @override
    def constraint(self, parent, child):
        return between_points(self, parent, child)

    @override
    def reaction(self, parent, child, multipliers):
        return force_between_points(self, parent, child, multipliers)

    @override
    def stiffness(self, parent, child, multipliers):
        on_parent = turning_arm(parent, self.parent_point, -multipliers)
        on_child = turning_arm(child, self.child_point, multipliers)
        return Stiffness(on_parent, None, None, on_child)


def turning_arm(pose: BodyPose, point: Vector, force: Vector) -> Float[Array, "6 6"]:
    """Stiffness of a constant inertial force at a body-fixed point."""
    force_in_body = small.matvec(pose.rotation.T, force)
    return _torques(small.matmul(small.hat(point), small.hat(force_in_body)))


class StayAt(AbstractCondition):
    """A point of the child stays at the parent's point; the vector in parent's components (m, N).

    Subclasses constrain the vector along fewer directions of the parent.
    """

    rows: ClassVar[int] = 3
    parent_point: Parameter
    child_point: Parameter

    def _directions(self) -> Directions:
        return jnp.eye(3, dtype=self.parent_point.dtype)

    @override
    def constraint(self, parent, child):
        return small.matvec(self._directions(), between_points_in_parent(self, parent, child))

    @override
    def reaction(self, parent, child, multipliers):
        force = small.matvec(self._directions().T, multipliers)
        return force_in_parent(self, parent, child, force)

    @override
    def stiffness(self, parent, child, multipliers):
        """The force turns with the parent. Both bodies feel it at the child's point: its arm on the
        parent changes as the point moves, its arm on the child does not.
        """
        force = small.matvec(self._directions().T, multipliers)
        relative = small.matmul(parent.rotation.T, child.rotation)
        child_point = self.parent_point + between_points_in_parent(self, parent, child)
        force_hat, arm_hat = small.hat(force), small.hat(self.child_point)
        turning = small.matmul(parent.rotation, force_hat)
        swing = small.matmul(small.matmul(force_hat, relative), arm_hat)
        force_in_child = small.hat(small.matvec(relative.T, force))
        none = jnp.zeros_like(turning)
        return Stiffness(
            small.block_2x2(
                none, turning, turning.T, small.matmul(force_hat, small.hat(child_point))
            ),
            small.block_2x2(none, none, -turning.T, -swing),
            small.block_2x2(none, -turning, none, -swing.T),
            _torques(small.matmul(arm_hat, force_in_child)),
        )


class StayAcross(StayAt):
    """A point of the child stays on the line through the parent's point along an axis."""

    rows: ClassVar[int] = 2
    axis: Parameter

    @override
    def _directions(self):
        return perpendicular(self.axis)


class StayOnPlane(StayAt):
    """A point of the child stays on the plane through the parent's point across a normal."""

    rows: ClassVar[int] = 1
    normal: Parameter

    @override
    def _directions(self):
        return self.normal[None]


class AbstractHeldDirection(AbstractCondition):
    """Components of a direction of the child along directions of the parent (1, N m)."""

    @abc.abstractmethod
    def _directions(self) -> tuple[Directions, Vector]:
        """Directions, parent's components, and the direction of the child, its components."""

    @override
    def constraint(self, parent, child):
        directions, along = self._directions()
        return small.matvec(directions, in_parent(parent, child, along))

    @override
    def reaction(self, parent, child, multipliers):
        directions, along = self._directions()
        across = small.matvec(directions.T, multipliers)
        return (
            _torque(small.cross(across, in_parent(parent, child, along))),
            _torque(small.cross(along, in_parent(child, parent, across))),
        )

    @override
    def stiffness(self, parent, child, multipliers):
        """Each torque changes as the other body's direction turns, seen from its own body."""
        directions, along = self._directions()
        across = small.matvec(directions.T, multipliers)
        relative = small.matmul(parent.rotation.T, child.rotation)
        across_hat, along_hat = small.hat(across), small.hat(along)
        along_in_parent = small.hat(small.matvec(relative, along))
        across_in_child = small.hat(small.matvec(relative.T, across))
        coupling = small.matmul(small.matmul(across_hat, relative), along_hat)
        return Stiffness(
            _torques(small.matmul(across_hat, along_in_parent)),
            _torques(-coupling),
            _torques(-coupling.T),
            _torques(small.matmul(along_hat, across_in_child)),
        )


class Parallel(AbstractHeldDirection):
    """An axis of the child, which lies along the parent's at the orientation, stays along it."""

    rows: ClassVar[int] = 2
    axis: Parameter
    orientation: Parameter

    @override
    def _directions(self):
        along = quaternion.rotate(quaternion.conjugate(self.orientation), self.axis)
        return perpendicular(self.axis), along

    @override
    def side(self, parent, child):
        """Cosine of the angle between the axes, which are parallel in opposite directions, too."""
        _, along = self._directions()
        return small.dot(self.axis, in_parent(parent, child, along))


class Perpendicular(AbstractHeldDirection):
    """An axis of the child stays perpendicular to an axis of the parent."""

    rows: ClassVar[int] = 1
    axis: Parameter
    child_axis: Parameter

    @override
    def _directions(self):
        return self.axis[None], self.child_axis


class SameOrientation(AbstractCondition):
    """The child keeps its orientation: sin(φ) n of its turn by φ about n, parent's components."""

    rows: ClassVar[int] = 3
    orientation: Parameter

    @override
    def constraint(self, parent, child):
        return -0.5 * small.axial(turned(parent, child, self.orientation))

    @override
    def reaction(self, parent, child, multipliers):
        rotation, skew = turned(parent, child, self.orientation), small.hat(multipliers)
        on_child = -0.5 * small.axial(small.matmul(skew, rotation))
        back = quaternion.conjugate(self.orientation)
        return (
            _torque(0.5 * small.axial(small.matmul(rotation, skew))),
            _torque(quaternion.rotate(back, on_child)),
        )

    @override
    def stiffness(self, parent, child, multipliers):
        """With Q the turn and S = λ̃, the axial vector of ω̃ M is (tr M - M) ω / 2, M = Q S."""
        home = quaternion.to_matrix(self.orientation)
        relative = small.matmul(parent.rotation.T, child.rotation)
        rotation, skew = small.matmul(relative, home.T), small.hat(multipliers)
        by_parent = _half_of_trace_less(small.matmul(rotation, skew))
        at_home = _half_of_trace_less(small.matmul(skew, rotation).T)
        by_child = small.matmul(small.matmul(home.T, at_home), home)
        return Stiffness(
            _torques(by_parent),
            _torques(-small.matmul(by_parent, relative)),
            _torques(-small.matmul(by_child, relative.T)),
            _torques(by_child),
        )

    @override
    def side(self, parent, child):
        """Cosine of the turn: its sine vanishes half a turn away, too."""
        rotation = turned(parent, child, self.orientation)
        return 0.5 * (rotation[0, 0] + rotation[1, 1] + rotation[2, 2] - 1.0)


def _half_of_trace_less(matrix: Matrix) -> Matrix:
    identity = jnp.eye(3, dtype=matrix.dtype)
    return 0.5 * (jnp.sum(matrix * identity) * identity - matrix)


def _torque(torque: Vector) -> Wrench:
    return Wrench(jnp.zeros_like(torque), torque)


def _torques(by_omega: Matrix) -> Float[Array, "6 6"]:
    # Torques that change with angular velocities alone.
    return jnp.pad(by_omega, ((3, 0), (3, 0)))
