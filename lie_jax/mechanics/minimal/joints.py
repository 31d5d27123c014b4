"""Joints with coordinates: where they put bodies, and along which twists they move them.

Pose and twists are those of the body farther from the base against the one nearer to it, both in
the farther body's frame; there the twists of all these joints are constant.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.groups import quaternion, se3
from lie_jax.mechanics import stacking
from lie_jax.mechanics.joints.base import AbstractJoint, BodyPose
from lie_jax.mechanics.joints.pairs import (
    PrismaticJoint,
    RevoluteJoint,
    RigidJoint,
    SphericalJoint,
)
from lie_jax.numerics import small

Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]


class Size(NamedTuple):
    """Numbers of coordinates and velocities of a joint."""

    nq: int
    nv: int


SIZES: dict[type, Size] = {
    RevoluteJoint: Size(1, 1),
    PrismaticJoint: Size(1, 1),
    SphericalJoint: Size(4, 3),
    RigidJoint: Size(0, 0),
}


class JointParameters(eqx.Module):
    """Of one joint or many stacked: `axis` and `parent_point` (3,) in the nearer body's frame,
    `child_point` (3,) in the farther one's, `home` (3, 3) from farther to nearer at zero;
    `armature`: inertia added to its coordinates (kg m², kg), or None where no joint has it.
    """

    axis: Float[Array, "..."]
    parent_point: Float[Array, "..."]
    child_point: Float[Array, "..."]
    home: Float[Array, "..."]
    armature: Float[Array, "..."] | None


class TreeJoints(eqx.Module):
    """The joints in the slots of a tree, stacked, with coordinates and velocities of equal size.

    `kinds[i]` is the type of joint i, None in an empty slot. Coordinates are an angle (rad), a
    distance (m), or the quaternion of the farther body in the nearer one's frame; velocities their
    rates, or the angular velocity relative to the nearer body, farther body's components.
    """

    parameters: JointParameters
    kinds: tuple[type | None, ...] = eqx.field(static=True)

    @property
    def size(self) -> Size:
        """Sizes of the widest joint, at least one."""
        sizes = [SIZES[kind] for kind in self.kinds if kind is not None] + [Size(1, 1)]
        return Size(*map(max, zip(*sizes, strict=True)))

    def _are(self, kind: type, dtype: Any) -> Float[Array, " joints"]:
        return jnp.asarray([k is kind for k in self.kinds], dtype)

    def poses(self, x: Float[Array, "joints nq"]) -> BodyPose:
        """Rotations (joints, 3, 3) and positions (joints, 3) of the farther bodies' frames."""
        angle = self._are(RevoluteJoint, x.dtype) * x[:, 0]
        distance = self._are(PrismaticJoint, x.dtype) * x[:, 0]
        rotation = jax.vmap(_rotation_about)(self.parameters.axis, angle)
        if SphericalJoint in self.kinds:
            free = jax.vmap(quaternion.to_matrix)(x)
            swivels = self._are(SphericalJoint, x.dtype)[:, None, None]
            rotation = jnp.where(swivels > 0.0, free, rotation)
        return jax.vmap(_pose)(self.parameters, rotation, distance)

    def twists(self) -> Float[Array, "joints 6 nv"]:
        """Twists of the farther bodies for unit velocities; zero where a joint has fewer."""
        return jax.vmap(self._twists_of)(self.parameters, *self.masks())

    def masks(self) -> tuple[Array, Array, Array]:
        """1 for each revolute, prismatic, spherical joint (joints,), otherwise 0."""
        turns, slides, swivels = (
            self._are(kind, self.parameters.axis.dtype)
            for kind in (RevoluteJoint, PrismaticJoint, SphericalJoint)
        )
        return turns, slides, swivels

    def _twists_of(
        self, joint: JointParameters, turns: Array, slides: Array, swivels: Array
    ) -> Array:
        axis = small.matvec(joint.home.T, joint.axis)
        about = jnp.concatenate([small.cross(joint.child_point, axis), axis])
        along = jnp.concatenate([axis, jnp.zeros(3, axis.dtype)])
        first = (turns * about + slides * along)[:, None]
        if self.size.nv == 1:
            return first
        any_axis = jnp.concatenate(
            [small.hat(joint.child_point), jnp.eye(3, dtype=axis.dtype)], axis=0
        )
        rest = jnp.zeros((6, 2), axis.dtype)
        return jnp.concatenate([first, rest], axis=1) + swivels * any_axis

    def armature(self) -> Float[Array, "joints nv"]:
        """Inertia added to each coordinate; 1 for one that a joint does not have."""
        sizes = [0 if kind is None else SIZES[kind].nv for kind in self.kinds]
        unused = np.arange(self.size.nv)[None, :] >= np.asarray(sizes, int)[:, None]
        unused = jnp.asarray(unused, self.parameters.axis.dtype)
        own = self.parameters.armature
        # Without any this stays a constant, which XLA folds.
        return unused if own is None else jnp.where(unused > 0.0, unused, own[:, None])


def _rotation_about(axis: Vector, angle: Float[Array, ""]) -> Matrix:
    skew = small.hat(axis)
    half = jnp.sin(0.5 * angle)
    identity = jnp.eye(3, dtype=axis.dtype)
    return identity + jnp.sin(angle) * skew + 2.0 * half * half * small.matmul(skew, skew)


def _pose(joint: JointParameters, rotation: Matrix, distance: Float[Array, ""]) -> BodyPose:
    whole = small.matmul(rotation, joint.home)
    place = joint.parent_point + distance * joint.axis
    return BodyPose(whole, place - small.matvec(whole, joint.child_point))


def stack(joints: list[AbstractJoint | None], backwards: list[bool], dtype: Any) -> TreeJoints:
    """The joints in the slots; one listed backwards has its parent farther from the base."""
    kinds = tuple(None if joint is None else type(joint) for joint in joints)
    if not joints:
        empty = stacking.stack([_given(None, dtype, False)])
        return TreeJoints(_parameters(jax.tree.map(lambda x: x[:0], empty), np.zeros(0)), kinds)
    armed = any(getattr(joint, "armature", None) is not None for joint in joints)
    given = stacking.stack([_given(joint, dtype, armed) for joint in joints])
    return TreeJoints(_parameters(given, np.asarray(backwards, dtype)), kinds)


class _Given(NamedTuple):
    axis: Any
    parent_point: Any
    child_point: Any
    orientation: Any
    armature: Any


def _given(joint: Any, dtype: Any, armed: bool) -> _Given:
    zero, straight = np.zeros(3, dtype), np.asarray([1.0, 0.0, 0.0, 0.0], dtype)
    none = np.zeros((), dtype) if armed else None
    if joint is None:
        return _Given(zero, zero, zero, straight, none)
    armature = getattr(joint, "armature", None)
    return _Given(
        getattr(joint, "axis", zero),
        joint.parent_point,
        joint.child_point,
        getattr(joint, "orientation", straight),
        none if armature is None else armature,
    )


# One program takes less time to compile than its operations one by one.
@jax.jit
def _parameters(given: _Given, backwards: Any) -> JointParameters:
    @jax.vmap
    def of_one(joint: _Given, backwards: Array) -> JointParameters:
        home = quaternion.to_matrix(joint.orientation)
        # The same motion seen from the child, with the same coordinate.
        own = -small.matvec(home.T, joint.axis)
        forwards = JointParameters(
            joint.axis, joint.parent_point, joint.child_point, home, joint.armature
        )
        seen = JointParameters(own, joint.child_point, joint.parent_point, home.T, joint.armature)
        return jax.tree.map(lambda a, b: jnp.where(backwards > 0.0, b, a), forwards, seen)

    return of_one(given, backwards)


def from_nearer(pose: BodyPose) -> Float[Array, "6 6"]:
    """Matrix from components of twists in the nearer body's frame to those in the farther one's."""
    back = pose.rotation.T
    return se3.upper(back, -small.matmul(back, small.hat(pose.position)), back)
