"""What joints are made of: constraints between two bodies, written once on poses and velocities.

The names of a joint's `parent` and `child` are those of bodies, or `"ground"`. Its constraint is a
function of the two poses, its velocity constraint, if it has one that follows from no function of
the poses, is affine in the two velocities. `reaction` gives the generalised forces Bᵀλ that belong
to both, as hybrid wrenches (inertial force, body torque about the body frame's origin). With the
equations of motion M v̇ + Bᵀλ = f, the joint acts on the child with minus that wrench.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.numerics import conversion, small
from lie_jax.numerics.conversion import as_float

Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]
Quaternion = Float[Array, "4"]
GROUND = "ground"


class BodyPose(NamedTuple):
    """Rotation matrix (3, 3), body to inertial, and position (3,) of a body frame (m)."""

    rotation: Matrix
    position: Vector


class BodyVelocity(NamedTuple):
    """Velocity ṙ of the body frame's origin, inertial (m/s), and ω, body components (rad/s)."""

    linear: Vector
    omega_body: Vector


class Wrench(NamedTuple):
    """Force, inertial (N), and torque about the body frame's origin, body components (N m)."""

    force: Vector
    torque: Vector


class Stiffness(NamedTuple):
    """Derivatives (6, 6) of the wrench on parent or child along the velocities of parent or child;
    None for zero.
    """

    parent_by_parent: Float[Array, "6 6"]
    parent_by_child: Float[Array, "6 6"] | None
    child_by_parent: Float[Array, "6 6"] | None
    child_by_child: Float[Array, "6 6"]


def force_at(pose: BodyPose, point: Vector, force: Vector) -> Wrench:
    """Wrench of an inertial force that acts at a body-fixed point."""
    return Wrench(force, small.cross(point, small.matvec(pose.rotation.T, force)))


class AbstractJoint(eqx.Module):
    """A joint between a parent and a child."""

    parent: eqx.AbstractVar[str]
    child: eqx.AbstractVar[str]

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Number of position constraints."""

    @property
    def velocity_rows(self) -> int:
        """Number of velocity constraints."""
        return 0

    @abc.abstractmethod
    def constraint(
        self, t: Float[Array, ""], parent: BodyPose, child: BodyPose
    ) -> Float[Array, " rows"]:
        """Values that are zero when the joint holds."""

    def side(
        self, t: Float[Array, ""], parent: BodyPose, child: BodyPose
    ) -> Float[Array, ""] | None:
        """A number whose sign tells where the constraint holds, if it holds in several places that
        no motion connects; None for most joints.

        A step that changes the sign has met the joint turned over.
        """
        return None

    def velocity_constraint(
        self,
        t: Float[Array, ""],
        parent: BodyPose,
        child: BodyPose,
        parent_velocity: BodyVelocity,
        child_velocity: BodyVelocity,
    ) -> Float[Array, " velocity_rows"]:
        """Values, affine in the velocities, that are zero when the joint holds."""
        return jnp.zeros(0, child.position.dtype)

    @abc.abstractmethod
    def reaction(
        self,
        t: Float[Array, ""],
        parent: BodyPose,
        child: BodyPose,
        multipliers: Float[Array, " all_rows"],
    ) -> tuple[Wrench, Wrench]:
        """Bᵀλ on parent and child, λ of the position and then of the velocity constraints."""

    def stiffness(
        self,
        t: Float[Array, ""],
        parent: BodyPose,
        child: BodyPose,
        multipliers: Float[Array, " all_rows"],
    ) -> "Stiffness":
        """Derivatives of the reactions on parent and child along their hybrid velocities.

        None for what is zero whatever the poses.
        """

        def reaction(parent, child):
            return self.reaction(t, parent, child, multipliers)

        return reaction_stiffness(reaction, parent, child)

    def motions(self) -> tuple[Motion, ...] | None:
        """Elementary motions of the child against the parent, from the parent outwards; their
        coordinates are those of the joint in `lie_jax.Minimal()`. None for a joint without.
        """
        return None

    @property
    def coordinate_units(self) -> tuple[str, ...]:
        """`"rad"` or `"m"` for each coordinate, if the joint has angles or distances."""
        return ()

    def coordinates(self, parent: BodyPose, child: BodyPose) -> Float[Array, " coordinates"]:
        """Angles, between -π and π, and distances at poses that the joint allows."""
        return jnp.zeros(0, child.position.dtype)


def reaction_stiffness(reaction: Callable, parent: BodyPose, child: BodyPose) -> Stiffness:
    """The derivatives of a joint's `stiffness`, by forward mode."""

    def moved(direction):
        v, omega = direction[:, :3], direction[:, 3:]
        tangents = tuple(
            BodyPose(small.matmul(pose.rotation, small.hat(omega[k])), v[k])
            for k, pose in enumerate((parent, child))
        )
        wrenches = jax.jvp(reaction, (parent, child), tangents)[1]
        return jnp.stack([jnp.concatenate([*wrench]) for wrench in wrenches])

    directions = jnp.eye(12, dtype=child.position.dtype).reshape(12, 2, 6)
    on_parent, on_child = jax.vmap(moved, out_axes=2)(directions)
    return Stiffness(on_parent[:, :6], on_parent[:, 6:], on_child[:, :6], on_child[:, 6:])


def add_torques(
    wrenches: tuple[Wrench, Wrench], torques: tuple[Vector, Vector]
) -> tuple[Wrench, Wrench]:
    """Wrenches on parent and child with torques added, each in its body's components."""
    (parent, child), (on_parent, on_child) = wrenches, torques
    return (
        Wrench(parent.force, parent.torque + on_parent),
        Wrench(child.force, child.torque + on_child),
    )


def as_direction(value: Any) -> Any:
    """The unit vector along a vector (3,); anything else as it is, for the checks to refuse."""
    vector = as_float(value)
    if conversion.real_shape(vector) != (3,):
        return vector
    if checks.traced(vector):
        return _unit(vector)
    with jax.ensure_compile_time_eval():
        return _unit(vector)


@jax.jit
def _unit(vector: Vector) -> Vector:
    # No derivative depends on the factor, for the direction does not.
    scaled = small.reciprocal_size(jnp.max(jnp.abs(vector))) * vector
    square = small.dot(scaled, scaled)
    sound = (square > 0.0) & (square < jnp.inf)
    return jnp.where(sound, scaled / jnp.sqrt(jnp.where(sound, square, 1.0)), vector)


def named(joint: Any) -> str:
    """How messages call a joint or another element between a parent and a child."""
    return f"{type(joint).__name__}({joint.parent!r}, {joint.child!r})"


def float_or_none(value: Any) -> Any:
    """As `as_float`, and None as it is."""
    return None if value is None else as_float(value)


def check_points(joint: Any) -> None:
    """Raise unless `parent_point` and `child_point` are points."""
    for field in ("parent_point", "child_point"):
        where = f"{named(joint)}.{field}"
        checks.shape(where, getattr(joint, field), (3,), "m, body components")
        checks.finite(where, getattr(joint, field))


def check_direction(joint: Any, field: str = "axis", frame: str = "parent's") -> None:
    """Raise unless a field, made by `as_direction`, is a direction."""
    checks.direction(f"{named(joint)}.{field}", getattr(joint, field), frame)


def check_orientation(joint: Any) -> None:
    """Raise unless `orientation` is a unit quaternion."""
    checks.unit_quaternion(f"{named(joint)}.orientation", joint.orientation)


def check_armature(joint: Any, unit: str) -> None:
    """Raise unless `armature` is None or one number, not negative."""
    where, value = f"{named(joint)}.armature", joint.armature
    if value is not None:
        checks.non_negative(where, value, unit)


def between_points(joint: Any, parent: BodyPose, child: BodyPose) -> Vector:
    """Inertial vector from the parent's to the child's point (m)."""
    return (
        child.position
        + small.matvec(child.rotation, joint.child_point)
        - parent.position
        - small.matvec(parent.rotation, joint.parent_point)
    )


def force_between_points(
    joint: Any, parent: BodyPose, child: BodyPose, force: Vector
) -> tuple[Wrench, Wrench]:
    """Bᵀλ of `between_points`."""
    return force_at(parent, joint.parent_point, -force), force_at(child, joint.child_point, force)


def between_points_in_parent(joint: Any, parent: BodyPose, child: BodyPose) -> Vector:
    """Vector from the parent's to the child's point, parent's components (m)."""
    return small.matvec(parent.rotation.T, between_points(joint, parent, child))


def force_in_parent(
    joint: Any, parent: BodyPose, child: BodyPose, force: Vector
) -> tuple[Wrench, Wrench]:
    """Bᵀλ of `between_points_in_parent`: both forces act at the child's point."""
    inertial = small.matvec(parent.rotation, force)
    place = joint.parent_point + between_points_in_parent(joint, parent, child)
    return force_at(parent, place, -inertial), force_at(child, joint.child_point, inertial)


def in_parent(parent: BodyPose, child: BodyPose, vector: Vector) -> Vector:
    """Components in the first frame of a vector that is given in the second."""
    return small.matvec(parent.rotation.T, small.matvec(child.rotation, vector))


def in_child_at_zero(joint: Any, vector: Vector) -> Vector:
    """Child's components of a vector given in the parent's when the coordinates are zero."""
    return quaternion.rotate(quaternion.conjugate(joint.orientation), vector)


def tilting_torques(
    parent: BodyPose, child: BodyPose, own: Vector, across: Vector
) -> tuple[Vector, Vector]:
    """Bᵀ of the component along `across`, fixed in the parent, of `own`, fixed in the child.

    Torques on the parent and on the child, each in its body's components.
    """
    return (
        small.cross(across, in_parent(parent, child, own)),
        small.cross(own, in_parent(child, parent, across)),
    )


def perpendicular(axis: Vector) -> Float[Array, "2 3"]:
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


def turned(parent: BodyPose, child: BodyPose, orientation: Quaternion) -> Matrix:
    """Rotation of the child against the parent from where it has this orientation."""
    relative = small.matmul(parent.rotation.T, child.rotation)
    return small.matmul(relative, quaternion.to_matrix(orientation).T)


def angle_between(axis: Vector, start: Vector, end: Vector) -> Float[Array, ""]:
    """The angle about an axis from one direction across it to another one, between -π and π."""
    return jnp.arctan2(small.dot(axis, small.cross(start, end)), small.dot(start, end))


def turn(parent: BodyPose, child: BodyPose, orientation: Quaternion) -> Vector:
    """sin(φ) n of that rotation by φ about n, parent's components."""
    return -0.5 * small.axial(turned(parent, child, orientation))


def cosine_of_axes(joint: Any, axis: Vector, parent: BodyPose, child: BodyPose) -> Float[Array, ""]:
    """Cosine of the angle between an axis of the parent and the child's, which lies along it when
    the coordinates are zero.
    """
    return small.dot(axis, in_parent(parent, child, in_child_at_zero(joint, axis)))


def cosine_of_turn(parent: BodyPose, child: BodyPose, orientation: Quaternion) -> Float[Array, ""]:
    """Cosine of the angle by which the child is turned away from this orientation."""
    rotation = turned(parent, child, orientation)
    return 0.5 * (rotation[0, 0] + rotation[1, 1] + rotation[2, 2] - 1.0)


def turned_about(axis: Vector, angle: Float[Array, ""], orientation: Quaternion) -> Quaternion:
    """An orientation of a child turned by an angle (rad) about an axis of the parent."""
    half = 0.5 * angle
    about = jnp.concatenate([jnp.cos(half)[None], jnp.sin(half) * axis])
    return quaternion.multiply(about, orientation)


def angle_about(axis: Vector, rotation: Matrix) -> Float[Array, ""]:
    """Angle between -π and π (rad) of the part of a rotation that is about an axis."""
    sine = -0.5 * small.dot(axis, small.axial(rotation))
    along = small.dot(axis, small.matvec(rotation, axis))
    trace = jnp.sum(rotation * jnp.eye(3, dtype=rotation.dtype))
    return jnp.arctan2(sine, 0.5 * (trace - along))


def angle_change(axis: Vector, rotation: Matrix) -> Vector:
    """Derivative of `angle_about` along rotations of the outer frame: the angle's rate is its
    product with the angular velocity by which the rotation R changes, Ṙ = ω̃ R.
    """
    along = small.matvec(rotation, axis)
    trace = jnp.sum(rotation * jnp.eye(3, dtype=rotation.dtype))
    ahead = -0.5 * small.axial(rotation)
    sine, cosine = small.dot(axis, ahead), 0.5 * (trace - small.dot(axis, along))
    of_sine = 0.5 * (trace * axis - small.matvec(rotation.T, axis))
    of_cosine = -ahead - 0.5 * small.cross(along, axis)
    return (cosine * of_sine - sine * of_cosine) / (sine * sine + cosine * cosine)


def turning_torques(
    parent: BodyPose, child: BodyPose, orientation: Quaternion, multipliers: Vector
) -> tuple[Vector, Vector]:
    """Torques Bᵀλ of `turn` on the parent and on the child, each in its body's components."""
    rotation, skew = turned(parent, child, orientation), small.hat(multipliers)
    on_child = -0.5 * small.axial(small.matmul(skew, rotation))
    back = quaternion.conjugate(orientation)
    return 0.5 * small.axial(small.matmul(rotation, skew)), quaternion.rotate(back, on_child)


class Winding(NamedTuple):
    """An angle (rad) that counts whole turns, and its rate (rad/s), at a time t (s)."""

    t: Float[Array, ""]
    angle: Float[Array, ""]
    rate: Float[Array, ""]


def predicted(last: Winding, t: Float[Array, ""], rate: Float[Array, ""]) -> Float[Array, ""]:
    """Where the angle of a winding should be at a time, given its rate there."""
    return last.angle + 0.5 * (t - last.t) * (last.rate + rate)


def nearest_turn(angle: Float[Array, ""], near: Float[Array, ""]) -> Float[Array, ""]:
    """The angle (rad) with the whole turns added that bring it nearest to another one."""
    return angle + 2.0 * jnp.pi * jnp.round((near - angle) / (2.0 * jnp.pi))
