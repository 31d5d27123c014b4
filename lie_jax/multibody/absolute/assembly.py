"""Assembly of the linearised equations of motion from blocks of bodies, joints and forces."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench
from lie_jax.multibody.absolute import elements, flexible_blocks, inertias
from lie_jax.multibody.absolute.attachments import Attachments
from lie_jax.multibody.absolute.flexible_blocks import BlockMatrices, Frames, body_motions
from lie_jax.multibody.absolute.linearization import ElementLinearization
from lie_jax.multibody.system import Instant


def linearization(
    system: Any, t: Any, state: tuple[Array, Array, Array], multipliers: Array, u: Array | None
) -> ElementLinearization:
    """Linearization of a `RigidBodySystem` at q, v and v̇."""
    q, v, acceleration = state
    residual = system.residual(t, q, v, acceleration, multipliers, u)
    t = jnp.asarray(t, q.dtype)
    _, *slots = instant = system._instant(t, q, v)
    pose, velocity = BodyPose(*slots[:2]), BodyVelocity(*slots[2:])
    of_bodies = system.split(q), system.split(v), system.split(acceleration)
    motion = elements.Motion(*of_bodies, pose, velocity)
    reactions = system.reactions_on_slots(t, pose, multipliers)
    of_coordinates = system.coordinate_multipliers(multipliers)
    amplitudes = system.all_amplitudes(q), system.all_rates(v), system.all_rates(acceleration)
    constants = reactions, of_coordinates
    bodies, at = _body_blocks(system, instant, motion, amplitudes, constants, u)
    by_group = system.joint_multipliers(multipliers)
    joints = elements.joint_blocks(system.joints, by_group, t, pose, at)
    stiffness, damping = elements.force_blocks(system.forces, t, u, motion, at)
    columns, coordinate_columns = system.columns(t, q, pose, at)
    return ElementLinearization(
        layout=system.layout,
        order=system.algebra.order,
        stabilized=system.algebra.stabilized_order,
        residual=residual,
        mass=bodies.mass,
        stiffness=[*bodies.stiffness, *joints, *stiffness],
        damping=[*bodies.damping, *damping],
        joints=columns,
        coordinate_columns=coordinate_columns,
        joint_rates=lambda: elements.joint_rates(system.joints, t, motion, at),
        coordinate_rates=lambda: system.layout.with_amplitudes(
            elements.coordinate_rates(system.formulation, motion)
        ),
        rates=system.algebra.change_of_rates(t, q, v),
    )


class _BodyBlocks(NamedTuple):
    """Blocks of M, K and C of all bodies, and how velocities of nodes move all slots."""

    blocks: BlockMatrices
    attachments: Attachments


def _body_blocks(
    system: Any,
    instant: Instant,
    motion: elements.Motion,
    amplitudes: tuple[Array, Array, Array],
    multipliers: tuple[Wrench, Array],
    u: Array | None,
) -> _BodyBlocks:
    """Blocks of the bodies of a system at an instant.

    `motion`: coordinates of bodies, poses and velocities of all slots; `amplitudes`: e, ė and ë;
    `multipliers`: reactions of joints on all slots, and multipliers of the constraints among
    coordinates.
    """
    n, space = len(system.names), system.formulation
    flexibility, layout = system.flexibility, system.layout
    rigid, gravity = system.rigid_bodies, system.gravity
    pose = BodyPose(*(x[:n] for x in motion.pose))
    velocity = BodyVelocity(*(x[:n] for x in motion.velocity))
    own = motion._replace(pose=pose, velocity=velocity)
    frames, reactions = None if space.hybrid else _frames(system, own), multipliers[0]
    at = flexible_blocks.attach(
        flexibility, layout, pose, amplitudes[0], None if frames is None else frames.frames
    )
    at = flexible_blocks.with_changes(
        at, flexibility, layout, pose, velocity, *amplitudes[:2], frames
    )
    between = inertias.matrices(system.inertias, space, gravity, motion, at, frames)
    if space.hybrid and not flexibility.groups:
        rigid_blocks = _of_rigid(elements.hybrid_matrices(rigid, gravity, own))
        return _BodyBlocks(_sum(rigid_blocks, between), at)
    # Their weight is in the matrices of the bodies.
    weightless = dataclasses.replace(system, gravity=jnp.zeros_like(gravity))
    loads = weightless._applied_wrenches(instant, u)
    constant = Wrench(*map(jnp.subtract, reactions, loads))
    if system.inertias:
        accelerations = inertias.hybrid_accelerations(space, motion)
        slots = len(motion.pose.position)
        needed = inertias.wrenches(system.inertias, instant[1:], accelerations, gravity, slots)
        constant = Wrench(*map(jnp.add, constant, needed))
    flexible = BlockMatrices([], [], [])
    if flexibility.groups:
        moving = body_motions(space, gravity, own, amplitudes)
        flexible = flexible_blocks.matrices(flexibility, layout, pose, moving, constant, frames)
        pulled = flexibility.pull_back(pose, amplitudes[0], constant).wrench
        constant = Wrench(*map(jnp.add, pulled, flexibility.forces(moving).wrench))
    if space.hybrid:
        rigid_blocks = _of_rigid(elements.hybrid_matrices(rigid, gravity, own))
    else:
        rigid_blocks = _of_rigid(
            elements.body_matrices(space, rigid, gravity, constant, multipliers[1], own)
        )
    return _BodyBlocks(_sum(_sum(rigid_blocks, flexible), between), at)


def _sum(some: BlockMatrices, others: BlockMatrices) -> BlockMatrices:
    return BlockMatrices(*(a + b for a, b in zip(some, others, strict=True)))


def _of_rigid(matrices: Any) -> BlockMatrices:
    return BlockMatrices(*([elements.diagonal(x)] for x in matrices))


def _frames(system: Any, own: elements.Motion) -> Frames:
    space = system.formulation
    if system.flexibility.groups or system.inertias:
        return flexible_blocks.frames_of(space, own.q, own.v, own.acceleration)
    frames = elements.body_frames(space, own.q)
    return Frames(frames, elements.frame_derivatives(space, own), None, None)
