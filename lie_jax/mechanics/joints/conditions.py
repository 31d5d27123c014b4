"""Conditions between two bodies, of which joints are composed.

A condition is a few equations between the poses of a parent and a child. Each has its reaction, the
transpose of its derivative times multipliers, and its stiffness, the derivative of the reaction
along the hybrid velocities ṙ (inertial) and ω (body), in closed form. With A and B the rotations
of parent and child, A changes by A ω̃, and R = AᵀB by -ω̃ R along the parent's and by R ω̃ along
the child's ω. Haug, "Computer Aided Kinematics and Dynamics of Mechanical Systems" (1989), ch. 9.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.groups import quaternion, so3
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.joints.base import (
    BodyPose,
    Matrix,
    Multipliers,
    Stiffness,
    Vector,
    Wrench,
    Wrenches,
)
from lie_jax.mechanics.joints.geometry import (
    Quaternion,
    between_points,
    between_points_in_parent,
    child_point_in_parent,
    force_between_points,
    force_in_parent,
    in_parent,
    perpendicular,
    relative_rotation,
)
from lie_jax.numerics import small

Directions = Float[Array, "rows 3"]


class AbstractCondition(eqx.Module):
    """Equations between the poses of parent and child."""

    # Directions of the parent along which the condition holds; None for all three.
    directions = None

    @property
    def rows(self) -> int:
        """Number of equations."""
        return 3 if self.directions is None else self.directions.shape[0]

    @abc.abstractmethod
    def constraint(self, parent: BodyPose, child: BodyPose) -> Float[Array, " rows"]:
        """Values that are zero when the condition holds."""

    @abc.abstractmethod
    def reaction(self, parent: BodyPose, child: BodyPose, multipliers: Multipliers) -> Wrenches:
        """Wrenches Bᵀλ on parent and child."""

    @abc.abstractmethod
    def stiffness(self, parent: BodyPose, child: BodyPose, multipliers: Multipliers) -> Stiffness:
        """Derivatives of the reaction along the hybrid velocities."""

    def side(self, parent: BodyPose, child: BodyPose) -> Float[Array, ""] | None:
        """Number whose sign no motion changes, as `AbstractJoint.side`."""
        return None

    def error(self, parent: BodyPose, child: BodyPose) -> Float[Array, " rows"]:
        """Values that are zero on the right side alone and grow up to half a turn, with the
        derivatives of `constraint` where they are zero.
        """
        return self.constraint(parent, child)


class Coincide(AbstractCondition):
    """Two points coincide: the inertial vector between them is zero (m, N)."""

    parent_point: Parameter
    child_point: Parameter

    @override
    def constraint(self, parent, child):
        return between_points(self, parent, child)

    @override
    def reaction(self, parent, child, multipliers):
        return force_between_points(self, multipliers, parent, child)

    @override
    def stiffness(self, parent, child, multipliers):
        """Each body turns the arm of a force that does not turn."""

        def turning(pose, point, force):
            force_in_body = small.hat(small.matvec(pose.rotation.T, force))
            return _torques(small.matmul(small.hat(point), force_in_body))

        on_parent = turning(parent, self.parent_point, -multipliers)
        return Stiffness(on_parent, None, None, turning(child, self.child_point, multipliers))


class HeldPoint(AbstractCondition):
    """The vector between two points has no components along directions of the parent (m, N).

    With the two that are perpendicular to an axis the child's point stays on a line, with the
    normal alone it stays on a plane.
    """

    parent_point: Parameter
    child_point: Parameter
    directions: Directions

    @override
    def constraint(self, parent, child):
        return small.matvec(self.directions, between_points_in_parent(self, parent, child))

    @override
    def reaction(self, parent, child, multipliers):
        force = small.matvec(self.directions.T, multipliers)
        return force_in_parent(self, force, parent, child)

    @override
    def stiffness(self, parent, child, multipliers):
        """The force turns with the parent. It acts on both bodies at the child's point: its arm on
        the parent changes as the point moves, its arm on the child does not.
        """
        force = small.matvec(self.directions.T, multipliers)
        relative = small.matmul(parent.rotation.T, child.rotation)
        child_point = child_point_in_parent(self, parent, child)
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


class HeldDirection(AbstractCondition):
    """A direction of the child keeps its angles to directions of the parent (1, N m).

    `cosines` (rows,) are those of the angles, None for right angles.
    """

    child_direction: Vector
    directions: Directions
    cosines: Float[Array, " rows"] | None = None

    @override
    def constraint(self, parent, child):
        values = small.matvec(self.directions, in_parent(parent, child, self.child_direction))
        return values if self.cosines is None else values - self.cosines

    @override
    def reaction(self, parent, child, multipliers):
        across = small.matvec(self.directions.T, multipliers)
        along = in_parent(parent, child, self.child_direction)
        across_in_child = in_parent(child, parent, across)
        return (
            _torque(small.cross(across, along)),
            _torque(small.cross(self.child_direction, across_in_child)),
        )

    @override
    def stiffness(self, parent, child, multipliers):
        """Each torque changes as the other body's direction turns, seen from its own body."""
        across, along = small.matvec(self.directions.T, multipliers), self.child_direction
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


class Parallel(HeldDirection):
    """The child's axis stays parallel to the parent's; `orientation` gives it in the child."""

    axis: Vector = eqx.field(kw_only=True)

    def __init__(self, axis: Vector, orientation: Quaternion):
        self.axis, self.cosines = axis, None
        self.directions = perpendicular(axis)
        self.child_direction = quaternion.rotate(quaternion.conjugate(orientation), axis)

    @override
    def side(self, parent, child):
        """Cosine of the angle between the axes, which are parallel in opposite directions, too."""
        return small.dot(self.axis, in_parent(parent, child, self.child_direction))

    @override
    def error(self, parent, child):
        """Angle φ between the axes along the components of sin φ across the axis."""
        across, cosine = self.constraint(parent, child), self.side(parent, child)
        # Opposite axes meet by a turn about any direction across them: one is taken.
        aside = jnp.finfo(across.dtype).eps ** 0.5 * jnp.asarray([1.0, 0.0], across.dtype)
        across = jnp.where(cosine < 0.0, across + aside, across)
        square = small.dot(across, across)
        apart = square > 0.0
        sine = jnp.sqrt(jnp.where(apart, square, 1.0))
        return jnp.where(apart, jnp.arctan2(sine, cosine) / sine, 1.0) * across


class SameOrientation(AbstractCondition):
    """The child keeps its orientation: sin(φ) n of its turn by φ about n, parent's components.

    With `directions` of the parent its components along these vanish alone.
    """

    orientation: Parameter
    directions: Directions | None = None

    def _skew(self, multipliers: Multipliers) -> Matrix:
        along = self.directions
        return small.hat(multipliers if along is None else small.matvec(along.T, multipliers))

    @override
    def constraint(self, parent, child):
        ahead = -0.5 * small.axial(relative_rotation(parent, child, self.orientation))
        return ahead if self.directions is None else small.matvec(self.directions, ahead)

    @override
    def reaction(self, parent, child, multipliers):
        rotation, skew = relative_rotation(parent, child, self.orientation), self._skew(multipliers)
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
        rotation, skew = small.matmul(relative, home.T), self._skew(multipliers)
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
        """w² - |x|² of the turn's quaternion (w, v), x the part of v along the directions.

        sin φ n = 2 w v vanishes where x does, and half a turn away, where w does. The two places
        meet in half turns about other axes: rounding there changes no sign.
        """
        rotation = relative_rotation(parent, child, self.orientation)
        identity = jnp.eye(3, dtype=rotation.dtype)
        along = identity if self.directions is None else self.directions
        trace = jnp.sum(rotation * identity)
        stretched = jnp.sum(along * small.matmul(along, rotation.T))
        squares = 0.25 * (self.rows * (1.0 - trace) + 2.0 * stretched)
        return 0.25 * (1.0 + trace) - squares + jnp.finfo(rotation.dtype).eps ** 0.5

    @override
    def error(self, parent, child):
        """Components of the rotation vector of the turn, at most half a turn."""
        ahead = so3.log(relative_rotation(parent, child, self.orientation))
        return ahead if self.directions is None else small.matvec(self.directions, ahead)


def _half_of_trace_less(matrix: Matrix) -> Matrix:
    identity = jnp.eye(3, dtype=matrix.dtype)
    return 0.5 * (jnp.sum(matrix * identity) * identity - matrix)


def _torque(torque: Vector) -> Wrench:
    return Wrench(jnp.zeros_like(torque), torque)


def _torques(by_omega: Matrix) -> Float[Array, "6 6"]:
    # Torques that change with angular velocities alone.
    return jnp.pad(by_omega, ((3, 0), (3, 0)))
