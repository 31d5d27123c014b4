"""Blocks of flexible bodies in the matrices of a step.

A flexible body couples the node of its frame with those of its amplitudes. Hybrid matrices of
`mechanics.flexible` have the body first, then its amplitudes; a formulation with other velocities
v pulls them back by the frame F of the body. Arrays have bodies or interfaces on their last axis.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.mechanics.flexible import deformation, interfaces
from lie_jax.mechanics.flexible.deformation import ForceMatrices
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench
from lie_jax.multibody.absolute.attachments import Attachments, Matrices
from lie_jax.multibody.absolute.elements import Motion
from lie_jax.multibody.absolute.layout import Layout
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.multibody.flexible import BodyMotions, Flexibility, FlexibleGroup
from lie_jax.numerics import gather, small
from lie_jax.numerics.block_graph import Blocks
from lie_jax.spaces import derivatives


class Frames(NamedTuple):
    """Derivatives (6, nv, bodies) of hybrid velocities F v and accelerations of bodies.

    `frames` F; `velocity` along q at constant v; `acceleration` along q, and `rates` by v, which
    flexible bodies and inertia elements ask for.
    """

    frames: Matrices
    velocity: Matrices
    acceleration: Matrices | None
    rates: Matrices | None


def frames_of(space: AbstractCoordinates, q: Array, v: Array, acceleration: Array) -> Frames:
    """Derivatives of the hybrid motion of all bodies, at (bodies, ...) coordinates."""

    def at(q, v, dv):
        def motion(q, v):
            rotation, _ = space.pose(q)
            velocity = space.hybrid_velocity(rotation, q, v)
            return jnp.concatenate([*velocity, *space.hybrid_acceleration(rotation, q, v, dv)])

        by_velocity = jax.jacfwd(lambda v: motion(q, v))(v)
        along = derivatives.jacobian_along(space, lambda q: motion(q, v), q)
        return Frames(by_velocity[:6], along[:6], along[6:], by_velocity[6:])

    return jax.vmap(at, out_axes=-1)(q, v, acceleration)


def body_motions(
    space: AbstractCoordinates,
    gravity: Float[Array, "3"],
    motion: Motion,
    amplitudes: tuple[Array, Array, Array],
) -> BodyMotions:
    """Motion of all bodies as flexible ones need it; `amplitudes` are e, ė and ë."""
    rotation, (_, omega) = motion.pose.rotation, motion.velocity
    linear, angular = jax.vmap(space.hybrid_acceleration)(rotation, *motion[:3])
    # Gravity equals an upward acceleration of the frame.
    return BodyMotions(rotation, omega, linear - gravity[None], angular, *amplitudes)


def table(flexibility: Flexibility, layout: Layout) -> tuple | None:
    """Nodes and parts of all slots, see `Attachments`; None without flexible bodies."""
    if not flexibility.groups:
        return None
    slots: list[tuple[tuple[int, int], ...]] = [((k, k),) for k in range(layout.bodies)]
    flexible, part = 0, layout.bodies
    for group in flexibility.groups:
        for body in group.bodies:
            nodes = (body, *layout.nodes_of(flexible))
            flexible += 1
            for _ in range(group.interfaces):
                slots.append(tuple(zip(nodes, range(part, part + len(nodes)), strict=True)))
                part += len(nodes)
    return tuple(slots)


def _bodies(group: FlexibleGroup, values: tuple) -> tuple:
    return tuple(map(group.of_bodies, values))


def attach(
    flexibility: Flexibility,
    layout: Layout,
    pose: BodyPose,
    amplitudes: Array,
    frames: Matrices | None,
) -> Attachments:
    """Attachments of all slots at poses of the bodies; `frames` of these, None for hybrid ones."""
    if not flexibility.groups:
        return Attachments(frames)
    parts = [_of_bodies(frames, layout, amplitudes.dtype)]
    for group, e in zip(flexibility.groups, flexibility.split(amplitudes), strict=True):
        body = BodyPose(*_bodies(group, pose))
        columns = group.at_interfaces(interfaces.columns, body, e)
        parts.append(_parts(group, layout, jnp.moveaxis(columns, (2, 3), (0, 1)), frames))
    return Attachments(jnp.concatenate(parts, axis=2), None, table(flexibility, layout))


def _of_bodies(frames: Matrices | None, layout: Layout, dtype) -> Matrices:
    if frames is not None:
        return frames
    identity = jnp.eye(6, dtype=dtype)[:, :, None]
    return jnp.repeat(identity, layout.bodies, axis=2)


def _parts(
    group: FlexibleGroup,
    layout: Layout,
    columns: Float[Array, "6 columns count interfaces"],
    frames: Matrices | None,
    turned: Float[Array, "6 nv count interfaces"] | None = None,
) -> Matrices:
    """Parts of interfaces from columns for a body and its amplitudes, with `turned` added to those
    for the body.
    """
    of_body, of_amplitudes = columns[:, :6], columns[:, 6:]
    if frames is not None:
        own = gather.pick(group.bodies, frames, axis=2)[..., None]
        of_body = small.matmul(of_body, own)
    if turned is not None:
        of_body = of_body + turned
    size, (_, modes, count, number) = layout.size, of_amplitudes.shape
    padded = jnp.pad(of_amplitudes, ((0, 0), (0, -modes % size), (0, 0), (0, 0)))
    nodes = padded.shape[1] // size
    padded = padded.reshape(6, nodes, size, count, number)
    every = jnp.concatenate([of_body[:, None], padded], axis=1)
    return every.transpose(0, 2, 3, 4, 1).reshape(6, size, count * number * (1 + nodes))


def with_changes(
    at: Attachments,
    flexibility: Flexibility,
    layout: Layout,
    pose: BodyPose,
    velocity: BodyVelocity,
    amplitudes: Array,
    rates: Array,
    frames: Frames | None,
) -> Attachments:
    """Attachments with the derivatives of F v; `frames` of the bodies, None for hybrid ones."""
    if not flexibility.groups:
        return at if frames is None else at._replace(changes=frames.velocity)
    none = jnp.zeros((6, layout.size, layout.bodies), amplitudes.dtype)
    parts = [none if frames is None else frames.velocity]
    split = map(flexibility.split, (amplitudes, rates))
    for group, e, rate in zip(flexibility.groups, *split, strict=True):
        body, moving = BodyPose(*_bodies(group, pose)), BodyVelocity(*_bodies(group, velocity))
        change = group.at_interfaces(interfaces.change_of_velocity, body, moving, e, rate)
        change, turned, own = jnp.moveaxis(change, (2, 3), (0, 1)), None, None
        if frames is not None:
            columns = group.at_interfaces(interfaces.columns, body, e)
            columns = jnp.moveaxis(columns, (2, 3), (0, 1))[:, :6]
            turning = gather.pick(group.bodies, frames.velocity, axis=2)[..., None]
            turned, own = small.matmul(columns, turning), frames.frames
        parts.append(_parts(group, layout, change, own, turned))
    return at._replace(changes=jnp.concatenate(parts, axis=2))


class BlockMatrices(NamedTuple):
    """Blocks of M, K and C of flexible bodies, without those of their undeformed shapes."""

    mass: list[Blocks]
    stiffness: list[Blocks]
    damping: list[Blocks]


def mass_blocks(
    flexibility: Flexibility,
    layout: Layout,
    pose: BodyPose,
    amplitudes: Array,
    frames: Matrices | None,
) -> list[Blocks]:
    """Blocks of the mass matrix of flexible bodies, without those of their undeformed shapes."""
    blocks, first = [], 0
    for group, e in zip(flexibility.groups, flexibility.split(amplitudes), strict=True):
        rotation = group.of_bodies(pose.rotation)
        mass = jax.vmap(deformation.mass_matrix, out_axes=-1)(group.deformation, rotation, e)
        own = _wide(group, frames)
        if own is not None:
            mass = small.matmul(small.matmul(small.transpose(own), mass), own)
        blocks.append(_blocks(group, layout, first, mass))
        first += len(group.bodies)
    return blocks


def matrices(
    flexibility: Flexibility,
    layout: Layout,
    pose: BodyPose,
    moving: BodyMotions,
    wrench: Wrench,
    frames: Frames | None,
) -> BlockMatrices:
    """Blocks of inertia and elastic forces, and of constant wrenches on all slots.

    What the wrenches change is what carries them from interfaces to bodies and amplitudes.
    """
    result, number, slot = BlockMatrices([], [], []), 0, layout.bodies
    for group, motion in zip(flexibility.groups, flexibility.motions(moving), strict=True):
        hybrid = jax.vmap(deformation.matrices, out_axes=-1)(group.deformation, motion)
        acting = flexibility.of_interfaces(group, wrench, slot)
        slot += len(group.bodies) * group.interfaces
        body = BodyPose(*_bodies(group, pose))
        pulled = jax.vmap(jax.vmap(interfaces.pull_back_change, (0, None, None, 0)))(
            group.at, body, motion.amplitudes, acting
        )
        carried = jnp.moveaxis(jnp.sum(pulled, axis=1), 0, -1)
        of_velocities = _in_velocities(group, hybrid, carried, frames)
        for blocks, values in zip(result, of_velocities, strict=True):
            blocks.append(_blocks(group, layout, number, values))
        number += len(group.bodies)
    return result


def _in_velocities(
    group: FlexibleGroup, hybrid: ForceMatrices, carried: Matrices, frames: Frames | None
) -> ForceMatrices:
    """Matrices for velocities v from those for hybrid velocities.

    Wrenches on bodies are pulled back by Fᵀ, whose change is that of `elements.body_matrices`.
    """
    mass, stiffness, damping = hybrid
    stiffness = stiffness + carried
    if frames is None:
        return ForceMatrices(mass, stiffness, damping)
    wide = _wide(group, frames.frames)
    # `frames_of` gives all of them for flexible bodies.
    assert wide is not None and frames.acceleration is not None and frames.rates is not None
    velocity, acceleration, rates = (
        _pad(gather.pick(group.bodies, x, axis=2), mass.shape[0] - 6)
        for x in (frames.velocity, frames.acceleration, frames.rates)
    )
    back = small.transpose(wide)
    along = small.matmul(stiffness, wide) + small.matmul(damping, velocity)
    along = along + small.matmul(mass, acceleration)
    by_velocity = small.matmul(damping, wide) + small.matmul(mass, rates)
    return ForceMatrices(
        *(small.matmul(back, x) for x in (small.matmul(mass, wide), along, by_velocity))
    )


def _pad(values: Float[Array, "6 nv count"], modes: int) -> Matrices:
    return jnp.pad(values, ((0, modes), (0, modes), (0, 0)))


def _wide(group: FlexibleGroup, frames: Matrices | None) -> Matrices | None:
    """F of the group's bodies, with the identity for their amplitudes."""
    if frames is None:
        return None
    own = _pad(gather.pick(group.bodies, frames, axis=2), group.modes)
    size = own.shape[1] - group.modes
    identity = jnp.eye(group.modes, dtype=own.dtype)
    return own + jnp.pad(identity, ((6, 0), (size, 0)))[:, :, None]


def _blocks(group: FlexibleGroup, layout: Layout, first: int, values: Matrices) -> Blocks:
    """Blocks of nodes from matrices (nv + m, nv + m, count) of the group's bodies, the first of
    which is the flexible body number `first`.
    """
    size, count = layout.size, values.shape[2]
    more = -group.modes % size
    padded = jnp.pad(values, ((0, more), (0, more), (0, 0)))
    parts = padded.shape[0] // size
    cut = padded.reshape(parts, size, parts, size, count).transpose(1, 3, 0, 2, 4)
    nodes = [(body, *layout.nodes_of(first + k)) for k, body in enumerate(group.bodies)]
    pairs = [
        (of_body[i], of_body[j]) for i in range(parts) for j in range(parts) for of_body in nodes
    ]
    rows, columns = zip(*pairs, strict=True)
    return Blocks(rows, columns, cut.reshape(size, size, -1))
