"""Relative geometry of two bodies: points, directions and angles, and the wrenches that belong.

Functions of `points` take any element with a `parent_point` and a `child_point` (m), each in its
body's frame.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.groups import quaternion
from lie_jax.mechanics.joints.base import (
    BodyPose,
    Matrix,
    Poses,
    Vector,
    Velocities,
    Wrench,
    Wrenches,
)
from lie_jax.numerics import small

Quaternion = Float[Array, "4"]


def force_at(pose: BodyPose, point: Vector, force: Vector) -> Wrench:
    """Wrench of an inertial force that acts at a body-fixed point."""
    return Wrench(force, small.cross(point, small.matvec(pose.rotation.T, force)))


def between_points(points: Any, parent: BodyPose, child: BodyPose) -> Vector:
    """Inertial vector from the parent's to the child's point (m)."""
    return (
        child.position
        + small.matvec(child.rotation, points.child_point)
        - parent.position
        - small.matvec(parent.rotation, points.parent_point)
    )


def force_between_points(points: Any, force: Vector, parent: BodyPose, child: BodyPose) -> Wrenches:
    """Wrenches of an inertial force at the child's point, and of its opposite at the parent's."""
    return (
        force_at(parent, points.parent_point, -force),
        force_at(child, points.child_point, force),
    )


def between_points_in_parent(points: Any, parent: BodyPose, child: BodyPose) -> Vector:
    """Vector from the parent's to the child's point, parent's components (m)."""
    return small.matvec(parent.rotation.T, between_points(points, parent, child))


def child_point_in_parent(points: Any, parent: BodyPose, child: BodyPose) -> Vector:
    """The child's point in the parent's frame (m)."""
    return points.parent_point + between_points_in_parent(points, parent, child)


def force_in_parent(points: Any, force: Vector, parent: BodyPose, child: BodyPose) -> Wrenches:
    """Wrenches of a force, parent's components, and of its opposite, both at the child's point."""
    inertial = small.matvec(parent.rotation, force)
    return (
        force_at(parent, child_point_in_parent(points, parent, child), -inertial),
        force_at(child, points.child_point, inertial),
    )


def in_parent(parent: BodyPose, child: BodyPose, vector: Vector) -> Vector:
    """Components in the first frame of a vector given in the second."""
    return small.matvec(parent.rotation.T, small.matvec(child.rotation, vector))


def turning(poses: Poses, velocities: Velocities) -> Vector:
    """Angular velocity of the child against the parent, parent's components (rad/s)."""
    parent, child = poses
    return in_parent(parent, child, velocities[1].omega_body) - velocities[0].omega_body


def slip(poses: Poses, velocities: Velocities, parent_point: Vector, child_point: Vector) -> Vector:
    """Velocity of a point of the child against a point of the parent, inertial (m/s)."""
    points = parent_point, child_point
    at_parent, at_child = (
        velocity.linear + small.matvec(pose.rotation, small.cross(velocity.omega_body, point))
        for pose, velocity, point in zip(poses, velocities, points, strict=True)
    )
    return at_child - at_parent


def slip_in_parent(points: Any, poses: Poses, velocities: Velocities) -> Vector:
    """Velocity of the child's point as the parent sees it, parent's components (m/s)."""
    point_of_parent = child_point_in_parent(points, *poses)
    velocity = slip(poses, velocities, point_of_parent, points.child_point)
    return small.matvec(poses[0].rotation.T, velocity)


def torque_in_parent(poses: Poses, torque: Vector) -> Wrenches:
    """Wrenches of a torque on the child (N m), parent's components, and of its opposite."""
    parent, child = poses
    none = jnp.zeros_like(torque)
    return Wrench(none, -torque), Wrench(none, in_parent(child, parent, torque))


def perpendicular(axis: Vector) -> Float[Array, "2 3"]:
    """Two unit vectors that complete an axis to an orthonormal basis.

    Differentiable wherever the third component is not zero; divides by at least one. Duff et al.,
    "Building an orthonormal basis, revisited" (2017).
    """
    x, y, z = axis
    sign = jnp.where(z < 0.0, -1.0, 1.0).astype(axis.dtype)
    a = -1.0 / (sign + z)
    b = x * y * a
    rows = [1.0 + sign * x * x * a, sign * b, -sign * x, b, sign + y * y * a, -y]
    return jnp.stack(rows).reshape(2, 3)


def relative_rotation(parent: BodyPose, child: BodyPose, orientation: Quaternion) -> Matrix:
    """Rotation of the child against the parent, from the pose with this orientation."""
    relative = small.matmul(parent.rotation.T, child.rotation)
    return small.matmul(relative, quaternion.to_matrix(orientation).T)


def angle_between(axis: Vector, start: Vector, end: Vector) -> Float[Array, ""]:
    """Angle about an axis between the parts of two directions across it, from -π to π (rad)."""
    along = small.dot(axis, start) * small.dot(axis, end)
    return jnp.arctan2(small.dot(axis, small.cross(start, end)), small.dot(start, end) - along)


def turn_angles(
    first_axis: Vector, second_axis: Vector, rotation: Matrix
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Angles (rad) of a rotation that is a turn about the first axis after one about the second."""
    about_first = angle_between(first_axis, second_axis, small.matvec(rotation, second_axis))
    about_second = angle_between(second_axis, small.matvec(rotation.T, first_axis), first_axis)
    return about_first, about_second


def angle_about(axis: Vector, rotation: Matrix) -> Float[Array, ""]:
    """Angle of the part of a rotation that is about an axis, between -π and π (rad)."""
    sine = -0.5 * small.dot(axis, small.axial(rotation))
    along = small.dot(axis, small.matvec(rotation, axis))
    trace = jnp.sum(rotation * jnp.eye(3, dtype=rotation.dtype))
    return jnp.arctan2(sine, 0.5 * (trace - along))


def angle_change(axis: Vector, rotation: Matrix) -> Vector:
    """Gradient of `angle_about` by rotations of the outer frame.

    The angle's rate is the product of this gradient with the ω by which R changes, Ṙ = ω̃ R.
    """
    along = small.matvec(rotation, axis)
    trace = jnp.sum(rotation * jnp.eye(3, dtype=rotation.dtype))
    ahead = -0.5 * small.axial(rotation)
    sine, cosine = small.dot(axis, ahead), 0.5 * (trace - small.dot(axis, along))
    of_sine = 0.5 * (trace * axis - small.matvec(rotation.T, axis))
    of_cosine = -ahead - 0.5 * small.cross(along, axis)
    return (cosine * of_sine - sine * of_cosine) / (sine * sine + cosine * cosine)


# An angle this far (rad) from its extrapolation by the rates may have any number of turns.
DOUBT = 0.5 * np.pi


class Winding(NamedTuple):
    """An angle (rad) that counts whole turns, and its rate (rad/s), at a time t (s); or several."""

    t: Float[Array, "..."]
    angle: Float[Array, "..."]
    rate: Float[Array, "..."]


def extrapolate(
    last: Winding, t: Float[Array, "..."], rate: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Angle of a winding extrapolated to a time, given its rate there (trapezoidal rule)."""
    return last.angle + 0.5 * (t - last.t) * (last.rate + rate)


def nearest_turn(angle: Float[Array, "..."], near: Float[Array, "..."]) -> Float[Array, "..."]:
    """Angle (rad) plus the whole turns that bring the angle nearest to another angle."""
    return angle + 2.0 * jnp.pi * jnp.round((near - angle) / (2.0 * jnp.pi))
