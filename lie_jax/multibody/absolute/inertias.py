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
        for i, j in _pairs(group):
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

    Hybrid accelerations change with q and v, too, while v̇ is constant.
    """
    result = BlockMatrices([], [], [])
    if not groups:
        return result
    moving = (*motion.pose, *motion.velocity)
    accelerations = hybrid_accelerations(space, motion)
    for group in groups:
        ends = _ends(group, moving, accelerations)
        mass = jax.vmap(lambda e, poses: e.mass_matrix(poses), out_axes=-1)(group.element, ends[0])
        along, by_velocity = jax.vmap(lambda e, *x: e.derivatives(*x, gravity), out_axes=-1)(
            group.element, *ends
        )
        for i, j in _pairs(group):
            rows, columns = group.bodies[i], group.bodies[j]
            block = mass[i, :, j]
            rates = by_velocity[i, :, j]
            result.mass.append(at.between(rows, columns, block))
            result.stiffness.append(at.between(rows, columns, along[i, :, j], rates))
            result.damping.append(at.between(rows, columns, rates))
            if frames is not None:
                for blocks, changes in (
                    (result.stiffness, frames.acceleration),
                    (result.damping, frames.rates),
                ):
                    turning = at._replace(changes=changes)
                    blocks.append(turning.between(rows, columns, jnp.zeros_like(block), block))
    return result


def hybrid_accelerations(space: AbstractCoordinates, motion: Motion) -> tuple[Array, Array]:
    """r̈ and ω̇ of bodies."""
    rotation = motion.pose.rotation[: len(motion.q)]
    return jax.vmap(space.hybrid_acceleration)(rotation, *motion[:3])


def _ends(group: Connected, motion: Moving, accelerations: tuple[Array, Array]) -> list[tuple]:
    """Poses, velocities and accelerations at the slots of a group, stacked."""
    poses, velocities = stacking.ends(group, motion)
    return [poses, velocities, stacking.ends(group, (*motion[:2], *accelerations))[1]]


def _pairs(group: Connected) -> list[tuple[int, int]]:
    """Pairs of slots that are not always the ground."""
    free = [slot for slot, bodies in enumerate(group.bodies) if max(bodies) >= 0]
    return list(itertools.product(free, free))
