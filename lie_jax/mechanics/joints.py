"""Joints: position constraints between two bodies, written once on poses.

The names of a joint's `parent` and `child` are those of bodies, or `"ground"`. Its constraint is a
function of the two poses, and `reaction` gives the generalised forces Bᵀλ that belong to it, as
hybrid wrenches (inertial force, body torque about the body frame's origin). With the equations of
motion M v̇ + Bᵀλ = f, the joint acts on the child with minus that wrench.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import algebra, checks
from lie_jax.algebra import as_float
from lie_jax.groups import quaternion

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


def _direction(value: Any) -> Array:
    """The unit vector along a vector (3,); anything else as it is, for the checks to refuse."""
    vector = as_float(value)
    if vector.shape != (3,):
        return vector
    square = algebra.dot(vector, vector)
    return vector / jnp.sqrt(jnp.where(square > 0.0, square, 1.0))


def _where(joint: Any) -> str:
    return f"{type(joint).__name__}({joint.parent!r}, {joint.child!r})"


def _check_points(joint: Any) -> None:
    for field in ("parent_point", "child_point"):
        where = f"{_where(joint)}.{field}"
        checks.shape(where, getattr(joint, field), (3,), "m, body components")
        checks.finite(where, getattr(joint, field))


def _check_axis(joint: Any) -> None:
    where = f"{_where(joint)}.axis"
    checks.shape(where, joint.axis, (3,), "a direction, components of the parent's frame")
    checks.finite(where, joint.axis)
    if not checks.traced(joint.axis) and not bool(jnp.any(joint.axis != 0.0)):
        raise ValueError(
            f"{where} is (0, 0, 0); it must be a direction in the parent's frame, of any length "
            "but zero: give for example (0, 0, 1)."
        )


def _check_orientation(joint: Any) -> None:
    checks.unit_quaternion(f"{_where(joint)}.orientation", joint.orientation)


def _between_points(joint: Any, parent: BodyPose, child: BodyPose) -> Vector:
    """Inertial vector from the parent's to the child's point."""
    return (
        child.position
        + algebra.matvec(child.rotation, joint.child_point)
        - parent.position
        - algebra.matvec(parent.rotation, joint.parent_point)
    )


def _force_between_points(
    joint: Any, parent: BodyPose, child: BodyPose, force: Vector
) -> tuple[Wrench, Wrench]:
    """Bᵀλ of `_between_points`."""
    return force_at(parent, joint.parent_point, -force), force_at(child, joint.child_point, force)


def _in_parent(parent: BodyPose, child: BodyPose, vector: Vector) -> Vector:
    """Components in the first frame of a vector that is given in the second."""
    return algebra.matvec(parent.rotation.T, algebra.matvec(child.rotation, vector))


def _axis_in_child(joint: Any) -> Vector:
    return quaternion.rotate(quaternion.conjugate(joint.orientation), joint.axis)


def _perpendicular(axis: Vector) -> Float[Array, "2 3"]:
    """Two unit vectors that complete an axis to an orthonormal basis.

    Written so that it is differentiable wherever the third component is not zero, and divides by at
    least one. Duff et al., "Building an orthonormal basis, revisited" (2017).
    """
    x, y, z = axis
    sign = jnp.where(z < 0.0, -1.0, 1.0).astype(axis.dtype)
    a = -1.0 / (sign + z)
    b = x * y * a
    rows = [1.0 + sign * x * x * a, sign * b, -sign * x, b, sign + y * y * a, -y]
    return jnp.stack(rows).reshape(2, 3)


def _turned(joint: Any, parent: BodyPose, child: BodyPose) -> Matrix:
    """Rotation of the child against the parent from where its coordinate is zero."""
    relative = algebra.matmul(parent.rotation.T, child.rotation)
    return algebra.matmul(relative, quaternion.to_matrix(joint.orientation).T)


def _turn(joint: Any, parent: BodyPose, child: BodyPose) -> Vector:
    """sin(φ) n of that rotation by φ about n."""
    return -0.5 * algebra.axial(_turned(joint, parent, child))


def _torques_against_turning(
    joint: Any, parent: BodyPose, child: BodyPose, multipliers: Vector
) -> tuple[Vector, Vector]:
    """Torques Bᵀλ of `_turn` on the parent and on the child, each in its body's components."""
    turned, skew = _turned(joint, parent, child), algebra.hat(multipliers)
    on_child = -0.5 * algebra.axial(algebra.matmul(skew, turned))
    back = quaternion.conjugate(joint.orientation)
    return 0.5 * algebra.axial(algebra.matmul(turned, skew)), quaternion.rotate(back, on_child)


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
        _check_points(self)

    @property
    def rows(self):
        """Three."""
        return 3

    def constraint(self, t, parent, child):
        """Inertial vector from the parent's to the child's point (m)."""
        return _between_points(self, parent, child)

    def reaction(self, t, parent, child, multipliers):
        """The multipliers as a force at the child's point, and its opposite at the parent's."""
        return _force_between_points(self, parent, child, multipliers)


class RevoluteJoint(AbstractJoint):
    """Hinge: a point and an axis of the parent coincide with a point and an axis of the child.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis`: (3,), a direction in
    the parent's frame, of any length but zero; `parent_point`, `child_point`: (3,), a point of the
    axis in each body's frame (m); `orientation`: (4,), the unit quaternion that rotates the child's
    components into the parent's when the joint's coordinate is zero. The coordinate is the angle
    (rad) by which the child is turned about the axis from there.

    The five constraints are the inertial vector between the points (m) and the two components of
    the child's axis across the parent's; multipliers are in N and N m. Raises `ValueError` for
    other shapes, a zero axis and an orientation that is no unit quaternion.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=_direction)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        _check_points(self)
        _check_axis(self)
        _check_orientation(self)

    @property
    def rows(self):
        """Five."""
        return 5

    def constraint(self, t, parent, child):
        """Vector between the points, and the child's axis across the parent's."""
        axis = _in_parent(parent, child, _axis_in_child(self))
        across = algebra.matvec(_perpendicular(self.axis), axis)
        return jnp.concatenate([_between_points(self, parent, child), across])

    def reaction(self, t, parent, child, multipliers):
        """The first three multipliers as a force, the others as torques across the axis."""
        on_parent, on_child = _force_between_points(self, parent, child, multipliers[:3])
        across = algebra.matvec(_perpendicular(self.axis).T, multipliers[3:])
        own = _axis_in_child(self)
        torque = algebra.cross(across, _in_parent(parent, child, own))
        opposite = algebra.cross(own, _in_parent(child, parent, across))
        return (
            Wrench(on_parent.force, on_parent.torque + torque),
            Wrench(on_child.force, on_child.torque + opposite),
        )


class PrismaticJoint(AbstractJoint):
    """Slider: the child moves along an axis of the parent without turning.

    **Arguments:** as for `RevoluteJoint`; the axis runs through the parent's point. The coordinate
    is the distance (m) of the child's point from the parent's along the axis.

    The five constraints are the two components of the vector between the points across the axis
    (m), and the turn of the child against the parent, parent's components (its rotation vector if
    small, rad); multipliers are in N and N m. Raises `ValueError` as `RevoluteJoint`.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=_direction)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        _check_points(self)
        _check_axis(self)
        _check_orientation(self)

    @property
    def rows(self):
        """Five."""
        return 5

    def constraint(self, t, parent, child):
        """Vector between the points across the axis, and the turn."""
        between = algebra.matvec(parent.rotation.T, _between_points(self, parent, child))
        across = algebra.matvec(_perpendicular(self.axis), between)
        return jnp.concatenate([across, _turn(self, parent, child)])

    def reaction(self, t, parent, child, multipliers):
        """The first two multipliers as a force at the child's point, the others as torques."""
        across = algebra.matvec(_perpendicular(self.axis).T, multipliers[:2])
        force = algebra.matvec(parent.rotation, across)
        between = algebra.matvec(parent.rotation.T, _between_points(self, parent, child))
        on_parent = force_at(parent, self.parent_point + between, -force)
        on_child = force_at(child, self.child_point, force)
        torque, opposite = _torques_against_turning(self, parent, child, multipliers[2:])
        return (
            Wrench(on_parent.force, on_parent.torque + torque),
            Wrench(on_child.force, on_child.torque + opposite),
        )


class RigidJoint(AbstractJoint):
    """Weld: the child is fixed to the parent.

    **Arguments:** as for `RevoluteJoint`, without an axis; there is no coordinate. The six
    constraints are the inertial vector between the points (m) and the turn of the child against the
    parent, parent's components (rad if small); multipliers are in N and N m. Raises `ValueError`
    for other shapes and an orientation that is no unit quaternion.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        _check_points(self)
        _check_orientation(self)

    @property
    def rows(self):
        """Six."""
        return 6

    def constraint(self, t, parent, child):
        """Vector between the points, and the turn."""
        between = _between_points(self, parent, child)
        return jnp.concatenate([between, _turn(self, parent, child)])

    def reaction(self, t, parent, child, multipliers):
        """The first three multipliers as a force, the others as torques."""
        on_parent, on_child = _force_between_points(self, parent, child, multipliers[:3])
        torque, opposite = _torques_against_turning(self, parent, child, multipliers[3:])
        return (
            Wrench(on_parent.force, on_parent.torque + torque),
            Wrench(on_child.force, on_child.torque + opposite),
        )
