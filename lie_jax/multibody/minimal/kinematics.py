"""Kinematics along a tree: poses, twists and drifts of its frames, as `recursions` has them."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics.joints.base import BodyPose
from lie_jax.multibody.minimal.joints import TreeJoints
from lie_jax.multibody.minimal.tree import Tree
from lie_jax.numerics import gather, small
from lie_jax.numerics.forest import scan_down, total

# Twists or wrenches of all frames.
SpatialVectors = Float[Array, "6 frames"]


class Kinematics(NamedTuple):
    """Rotations and world positions (m) of bases and links, and their twists.

    `arm`: from the reference point to the frame's origin (m); `drift`: rates of the twists while
    all joint velocities are constant; `columns`: twists of the links for unit joint velocities.
    """

    rotation: Float[Array, "3 3 frames"]
    position: Float[Array, "3 frames"]
    arm: Float[Array, "3 frames"]
    twist: SpatialVectors
    drift: SpatialVectors
    columns: Float[Array, "nv 6 links"]


def kinematics(
    tree: Tree,
    joints: TreeJoints,
    base_poses: BodyPose,
    base_twists: Float[Array, "bases 6"],
    coordinates: Float[Array, "links nq"],
    rates: Float[Array, "links nv"],
    beyond_joints: Callable | None = None,
) -> Kinematics:
    """Motion of all frames. `base_twists` are body-fixed, `base_poses` stacked.

    `beyond_joints`: function of the rotations (3, 3, frames) and arms (3, frames) that returns
    twists (6, links) by which links move beyond their joints, and their rates (6, links) seen from
    the nearer frame.
    """
    relative, bases = joints.poses(coordinates), tree.bases
    dtype, held = rates.dtype, np.asarray(tree.is_grounded, bool)
    base_rotation = jnp.moveaxis(base_poses.rotation, 0, -1)

    # Passed outwards: the pose (rotation, arm) of a frame, inertial axes, from the reference point.
    # Joints on the ground start at that point, bases at their origin. A frame's pose is the nearer
    # frame's times the relative one, so that the nearer one must be known.
    offset = relative.position + jnp.asarray(~held, dtype)[:, None] * joints.parent_point
    last_row = jnp.broadcast_to(jnp.asarray([[[0.0, 0.0, 0.0, 1.0]]], dtype), (len(held), 1, 4))
    relative = jnp.concatenate([relative.rotation, offset[:, :, None]], axis=2)
    relative = jnp.concatenate([relative, last_row], axis=1)
    grounds = jnp.broadcast_to(jnp.eye(3, 4, dtype=dtype), (int(held.sum()), 3, 4))
    first = jnp.concatenate([base_poses.rotation, jnp.zeros((bases, 3, 1), dtype)], axis=2)
    poses, _ = scan_down(
        tree.forest,
        lambda nearer, relative: (jnp.sum(nearer[:, :, None] * relative[None], axis=1), None),
        jnp.concatenate([first, grounds]),
        relative,
    )
    poses = jnp.moveaxis(poses, 0, -1)
    columns = joints.columns(poses[:, :3], poses[:, 3])

    # Passed outwards: twist and drift of a frame, about the reference point. The twist grows by the
    # joint's, S q̇; the drift by ad(V) S q̇, since the joint's axes turn with the frame. V may be the
    # nearer frame's twist, which is at hand, because ad(S q̇) S q̇ vanishes.
    def faster(nearer, link):
        joint_twist, *own_rates = link
        (v, omega), (linear, angular) = nearer[:6].reshape(2, 3), joint_twist.reshape(2, 3)
        drift = small.cross(omega, linear) + small.cross(v, angular)
        grown = jnp.concatenate([joint_twist, drift, small.cross(omega, angular)])
        return total(nearer, grown, *own_rates), None

    base_twists = rotate(base_rotation, base_twists.T)
    zeros = jnp.zeros((6, bases), dtype)
    start = jnp.concatenate([base_twists, zeros]).T
    start = jnp.concatenate([start, jnp.zeros((len(grounds), 12), dtype)])
    joint_twists = jnp.sum(columns * rates.T[:, None], axis=0).T
    nodes: tuple[Array, ...] = (joint_twists,)
    if beyond_joints is not None:
        frames = join(base_rotation, poses[:, :3]), join(zeros[:3], poses[:, 3])
        more, own_rates = beyond_joints(*frames)
        nodes = joint_twists + more.T, jnp.concatenate([jnp.zeros_like(own_rates), own_rates]).T
    twists = scan_down(tree.forest, faster, start, nodes)[0].T

    held_links = tuple(np.flatnonzero(held).tolist())
    origins = [base_poses.position, gather.pick(held_links, joints.parent_point)]
    origin = jnp.concatenate(origins).T
    if tree.forest.roots > 1:
        origin = gather.pick((*range(bases), *tree.forest.root_of), origin, axis=1)
    arm = join(zeros[:3], poses[:, 3])
    return Kinematics(
        join(base_rotation, poses[:, :3]),
        arm + origin,
        arm,
        join(base_twists, twists[:6]),
        join(zeros, twists[6:]),
        columns,
    )


def join(
    bases: Float[Array, "*size bases"], links: Float[Array, "*size links"]
) -> Float[Array, "*size frames"]:
    """Values of bases, then of links."""
    return jnp.concatenate([bases, links], axis=-1) if bases.shape[-1] else links


def rotate(rotation: Float[Array, "3 3 n"], pairs: Float[Array, "6 n"]) -> Float[Array, "6 n"]:
    """Pairs of vectors turned by rotations."""
    return jnp.sum(rotation[None] * pairs.reshape(2, 1, 3, -1), axis=2).reshape(6, -1)
