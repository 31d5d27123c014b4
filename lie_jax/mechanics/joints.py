"""Joints: position constraints between two bodies, written once on poses.

The names of a joint's `parent` and `child` are those of bodies, or `"ground"`. Its constraint is a
function of the two poses, and `reaction` gives the generalised forces Bᵀλ that belong to it, as
hybrid wrenches (inertial force, body torque about the body frame's origin). With the equations of
motion M v̇ + Bᵀλ = f, the joint acts on the child with minus that wrench.
"""

import abc
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from lie_jax import algebra, checks
from lie_jax.algebra import as_float

Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]
GROUND = "ground"


class BodyPose(NamedTuple):
    """Rotation matrix (3, 3), body to inertial, and position (3,) of a body frame (m)."""

    rotation: Matrix
    position: Vector


class Wrench(NamedTuple):
    """Force, inertial (N), and torque about the body frame's origin, body components (N m)."""

    force: Vector
    torque: Vector


def force_at(pose: BodyPose, point: Vector, force: Vector) -> Wrench:
    """Wrench of an inertial force that acts at a body-fixed point."""
    return Wrench(force, algebra.cross(point, algebra.matvec(pose.rotation.T, force)))


class AbstractJoint(eqx.Module):
    """A joint between a parent and a child."""

    parent: eqx.AbstractVar[str]
    child: eqx.AbstractVar[str]

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Number of constraints."""

    @abc.abstractmethod
    def constraint(
        self, t: Float[Array, ""], parent: BodyPose, child: BodyPose
    ) -> Float[Array, " rows"]:
        """Values that are zero when the joint holds."""

    @abc.abstractmethod
    def reaction(
        self,
        t: Float[Array, ""],
        parent: BodyPose,
        child: BodyPose,
        multipliers: Float[Array, " rows"],
    ) -> tuple[Wrench, Wrench]:
        """Bᵀλ on the parent and on the child."""


class SphericalJoint(AbstractJoint):
    """Ball joint: a point of the parent and a point of the child coincide.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `parent_point`, `child_point`:
    (3,), the joint's place in each body's frame (m). The constraint is the inertial vector from the
    parent's to the child's point; its multipliers are the force (N, inertial) by which the child
    pulls at the parent. Raises `ValueError` for points of another shape.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))

    def __check_init__(self):
        where = f"SphericalJoint({self.parent!r}, {self.child!r})"
        for field in ("parent_point", "child_point"):
            checks.shape(f"{where}.{field}", getattr(self, field), (3,), "m, body components")
            checks.finite(f"{where}.{field}", getattr(self, field))

    @property
    def rows(self):
        """Three."""
        return 3

    def constraint(self, t, parent, child):
        """Inertial vector from the parent's to the child's point (m)."""
        return (
            child.position
            + algebra.matvec(child.rotation, self.child_point)
            - parent.position
            - algebra.matvec(parent.rotation, self.parent_point)
        )

    def reaction(self, t, parent, child, multipliers):
        """The multipliers as a force at the child's point, and its opposite at the parent's."""
        return (
            force_at(parent, self.parent_point, -multipliers),
            force_at(child, self.child_point, multipliers),
        )
