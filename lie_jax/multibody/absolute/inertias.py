"""Inertia elements in absolute coordinates: wrenches on slots, and blocks of M, K and C."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.mechanics.joints.base import BodyPose, Wrench
from lie_jax.multibody import stacking
from lie_jax.multibody.absolute.attachments import Attachments
from lie_jax.multibody.absolute.elements import Motion
from lie_jax.multibody.absolute.flexible_blocks import BlockMatrices, Frames
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.multibody.stacking import Connected, Groups
from lie_jax.numerics import gather
from lie_jax.numerics.block_graph import Blocks

# Rotation, position, ṙ and ω of slots.
Moving = Sequence[Array]
Vector = Float[Array, "3"]


def wrenches(
    groups: Groups, motion: Moving, accelerations: tuple[Array, Array], gravity: Vector, slots: int
) -> Wrench:
    """Hybrid wrenches (slots, 3) that the motion of all inertia elements needs, less their weight.

    `accelerations` are r̈ and ω̇ of bodies.
    """
    none = jnp.zeros((slots, 3), gravity.dtype)
    total = Wrench(none, none)
    for group in groups:
        acting = jax.vmap(lambda e, *parts: e.wrenches(*parts, gravity))(
            group.element, *_ends(group, motion, accelerations)
        )
        total = stacking.add_wrenches(total, group, acting)
    return total


def mass_blocks(groups: Groups, pose: BodyPose, at: Attachments) -> list[Blocks]:
    """Blocks of the mass matrix of all inertia elements."""
    blocks = []
    for group in groups:
        mass = stacking.each(lambda e, poses: e.mass_matrix(poses), group, pose, out_axes=-1)
        for i, j in itertools.product(_free(group), repeat=2):
            blocks.append(at.between(group.bodies[i], group.bodies[j], mass[i, :, j]))
    return blocks


def matrices(
    groups: Groups,
    space: AbstractCoordinates,
    gravity: Vector,
    motion: Motion,
    at: Attachments,
    frames: Frames | None,
) -> BlockMatrices:
    """Blocks of M, K and C of all inertia elements; `motion` has the poses of all slots.

    Of changes of q, v and v̇ hybrid motions follow first: one derivative of the wrenches then gives
    all three matrices, of which hybrid accelerations change with q and v, too.
    """
    result = BlockMatrices([], [], [])
    if not groups:
        return result
    moving, nv = (*motion.pose, *motion.velocity), space.nv
    accelerations, changes = hybrid_accelerations(space, motion), _changes(motion, frames)
    for group in groups:
        free = _free(group)
        each = jax.vmap(lambda e, x, *at: e.derivatives(*at, gravity, x), (0, -1, 0, 0, 0), -1)
        ends = _ends(group, moving, accelerations)
        columns = each(group.element, _of_slots(group, free, changes), *ends)
        for i in free:
            ((rows, values),) = at.pull(group.bodies[i], columns[i])
            parts = values.reshape(nv, len(free), 3, nv, group.count)
            for place, j in enumerate(free):
                for kind, blocks in enumerate((result.stiffness, result.damping, result.mass)):
                    blocks.append(Blocks(rows, group.bodies[j], parts[:, place, kind]))
    return result


def _of_slots(group: Connected, free: Sequence[int], changes: Array) -> Array:
    """Changes (slots, 18, n, count) at a group's slots: one slot after another moves."""
    picked = [gather.pick(bodies, changes, axis=2) for bodies in group.bodies]
    none = jnp.zeros_like(picked[0])
    rows = [[own if i == j else none for j in free] for i, own in enumerate(picked)]
    return jnp.stack([jnp.concatenate(row, axis=1) for row in rows])


def _changes(motion: Motion, frames: Frames | None) -> Array:
    """Changes (18, 3 nv, bodies) of poses, hybrid velocities and hybrid accelerations of bodies:
    along unit velocities, by unit velocities, by unit accelerations.
    """
    if frames is None:
        identity = jnp.eye(18, dtype=motion.q.dtype)
        return jnp.broadcast_to(identity[:, :, None], (18, 18, len(motion.q)))
    # `frames_of` gives all of them for inertia elements.
    assert frames.acceleration is not None and frames.rates is not None
    none = jnp.zeros_like(frames.frames)
    rows = (
        (frames.frames, none, none),
        (frames.velocity, frames.frames, none),
        (frames.acceleration, frames.rates, frames.frames),
    )
    return jnp.concatenate([jnp.concatenate(row, axis=1) for row in rows])


def hybrid_accelerations(space: AbstractCoordinates, motion: Motion) -> tuple[Array, Array]:
    """r̈ and ω̇ of bodies."""
    rotation = motion.pose.rotation[: len(motion.q)]
    return jax.vmap(space.hybrid_acceleration)(rotation, *motion[:3])


def _ends(group: Connected, motion: Moving, accelerations: tuple[Array, Array]) -> list[tuple]:
    """Poses, velocities and accelerations at the slots of a group, stacked."""
    poses, velocities = stacking.ends(group, motion)
    return [poses, velocities, stacking.ends(group, (*motion[:2], *accelerations))[1]]


def _free(group: Connected) -> list[int]:
    """Slots that are not always the ground."""
    return [slot for slot, bodies in enumerate(group.bodies) if max(bodies) >= 0]
