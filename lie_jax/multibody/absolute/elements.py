"""Derivatives of what bodies, joints and forces add to the equations of motion.

Each element gives blocks (6, 6) for hybrid wrenches and velocities of its own bodies, so that the
cost grows with the number of elements. A formulation with other velocities v pulls them back by
the frames F of its bodies: hybrid velocities are F v. Arrays have bodies or elements on their last
axis.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics import body as rigid
from lie_jax.mechanics.body import MassProperties, MotionMatrices
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench
from lie_jax.multibody import constraints, stacking
from lie_jax.multibody.absolute.attachments import Attachments, Matrices
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.multibody.stacking import Groups
from lie_jax.numerics import small
from lie_jax.numerics.block_graph import Blocks
from lie_jax.spaces import derivatives

# Frames F of bodies; None for hybrid velocities.
Frames = Matrices | None


class Motion(NamedTuple):
    """Coordinates, velocities and accelerations of all bodies (N, ...), and their poses and hybrid
    velocities.
    """

    q: Float[Array, "bodies nq"]
    v: Float[Array, "bodies nv"]
    acceleration: Float[Array, "bodies nv"]
    pose: BodyPose
    velocity: BodyVelocity


class JointColumns(eqx.Module):
    """Columns (nv, rows, count) of Bᵀ of a group of joints, for the bodies at each slot.

    The last `velocity_rows` columns are those of velocity constraints.
    """

    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    values: tuple[Matrices, ...]
    velocity_rows: int = eqx.field(static=True)

    @property
    def number(self) -> int:
        """Number of joints."""
        return len(self.bodies[0])


def diagonal(values: Matrices) -> Blocks:
    """Blocks (nv, nv, N) of each body with itself."""
    bodies = tuple(range(values.shape[2]))
    return Blocks(bodies, bodies, values)


def body_frames(space: AbstractCoordinates, q: Float[Array, "bodies nq"]) -> Matrices:
    """Hybrid velocities F (6, nv, N) of the unit velocities of all bodies."""
    basis = jnp.eye(space.nv, dtype=q.dtype)
    return jax.vmap(
        lambda q: jax.vmap(lambda v: _hybrid_velocity(space, q, v), out_axes=1)(basis), out_axes=2
    )(q)


def frame_derivatives(space: AbstractCoordinates, motion: Motion) -> Matrices:
    """Derivatives (6, nv, N) of F v along unit velocities, at constant v."""

    def derivative(q, v):
        return derivatives.jacobian_along(space, lambda q: _hybrid_velocity(space, q, v), q)

    return jax.vmap(derivative, out_axes=2)(motion.q, motion.v)


def _hybrid_velocity(space: AbstractCoordinates, q: Array, v: Array) -> Float[Array, "6"]:
    return jnp.concatenate(space.hybrid_velocity(space.pose(q)[0], q, v))


def masses(bodies: MassProperties, rotation: Array, frames: Frames) -> Matrices:
    """Mass matrices (nv, nv, N) of bodies."""
    hybrid = jax.vmap(rigid.mass_matrix, out_axes=2)(bodies, rotation)
    if frames is None:
        return hybrid
    return small.matmul(small.matmul(frames.swapaxes(0, 1), hybrid), frames)


def hybrid_matrices(
    bodies: MassProperties, gravity: Float[Array, "3"], motion: Motion
) -> MotionMatrices:
    """M, K and C of bodies with hybrid velocities under gravity."""
    linear, angular = motion.acceleration[:, :3], motion.acceleration[:, 3:]
    omega = motion.velocity.omega_body
    return rigid.motion_matrices(
        bodies, motion.pose.rotation, omega, linear - gravity[None], angular
    )


def body_matrices(
    space: AbstractCoordinates,
    bodies: MassProperties,
    gravity: Float[Array, "3"],
    wrenches: Wrench,
    multipliers: Float[Array, "bodies rows"],
    motion: Motion,
) -> MotionMatrices:
    """M, K and C of bodies under gravity and constant hybrid wrenches, by derivatives.

    `multipliers` are those of the constraints among coordinates.
    """

    def matrices(body, q, v, acceleration, wrench, multipliers):
        def force(q, v, acceleration):
            rotation, _ = space.pose(q)
            _, omega = space.hybrid_velocity(rotation, q, v)
            linear, angular = space.hybrid_acceleration(rotation, q, v, acceleration)
            # Gravity equals an upward acceleration of the frame.
            inertial, torque = rigid.inverse_dynamics(
                body, rotation, omega, linear - gravity, angular
            )
            pulled = space.generalized_force(
                rotation, q, inertial + wrench.force, torque + wrench.torque
            )
            return pulled + space.reaction(q, multipliers) if space.rows else pulled

        damping, mass = jax.jacfwd(force, (1, 2))(q, v, acceleration)
        along = derivatives.jacobian_along(space, lambda q: force(q, v, acceleration), q)
        return MotionMatrices(mass, along, damping)

    return jax.vmap(matrices, out_axes=-1)(bodies, *motion[:3], wrenches, multipliers)


def joint_columns(joints: Groups, t: Array, pose: BodyPose, at: Attachments) -> list[JointColumns]:
    """Columns of Bᵀ: reactions of joints to unit multipliers, pulled back to nodes."""
    groups, all_columns = [], constraints.unit_reactions(joints, t, pose)
    for group, columns in zip(joints, all_columns, strict=True):
        pulled = itertools.chain(*map(at.pull, group.bodies, columns))
        nodes, values = zip(*pulled, strict=True)
        groups.append(JointColumns(nodes, values, group.element.velocity_rows))
    return groups


def joint_rates(
    joints: Groups, t: Array, motion: Motion, at: Attachments
) -> list[tuple[Matrices, ...]]:
    """Transposed derivatives (nv, rows, count) of the constraints' rates along the velocities of
    the nodes of `joint_columns`.
    """
    groups = []
    for group in joints:
        changes = stacking.each(
            lambda *args: _rate_derivatives(t, *args),
            group,
            (*motion.pose, *motion.velocity),
            out_axes=-1,
        )
        # Hybrid velocities change with q, too, while v is constant.
        pulled = itertools.chain(*map(at.pull, group.bodies, *changes))
        groups.append(tuple(values for _, values in pulled))
    return groups


def coordinate_rates(space: AbstractCoordinates, motion: Motion) -> Matrices:
    """Transposed derivatives (nv, rows, N) of the rates of constraints among coordinates along
    velocities.
    """

    def derivative(q, v):
        def rates(q):
            return derivatives.derivative_along(space, space.constraint, q, v)

        return derivatives.jacobian_along(space, rates, q).T

    return jax.vmap(derivative, out_axes=2)(motion.q, motion.v)


def _rate_derivatives(t, element, poses, velocities):
    """Derivatives (slots, 6, rows) of the rates of an element's constraints: along hybrid
    velocities, which stay constant, and by hybrid velocities.
    """

    def rates(directions, changes):
        moved, faster = [], []
        for pose, velocity, (shift, turn), (linear, omega) in zip(
            poses, velocities, directions, changes, strict=True
        ):
            turned = small.matmul(pose.rotation, small.hat(turn))
            moved.append(BodyPose(pose.rotation + turned, pose.position + shift))
            faster.append(BodyVelocity(velocity.linear + linear, velocity.omega_body + omega))
        return constraints.joint_rates(element, t, tuple(moved), tuple(faster))

    none = jnp.zeros((len(poses), 2, 3), poses[0].position.dtype)
    changes = jax.jacfwd(rates, (0, 1))(none, none)
    return tuple(x.reshape(-1, len(poses), 6).transpose(1, 2, 0) for x in changes)


def joint_blocks(
    joints: Groups, multipliers: list[Array], t: Array, pose: BodyPose, at: Attachments
) -> list[Blocks]:
    """Stiffness of the joints under their multipliers (count, rows)."""

    def stiffness_of(element, poses, multipliers):
        return element.stiffness(t, *poses, multipliers)

    blocks = []
    for group, joint_multipliers in zip(joints, multipliers, strict=True):
        stiffness = stacking.each(stiffness_of, group, pose, joint_multipliers, out_axes=-1)
        pairs = itertools.product(group.bodies, repeat=2)
        for (rows, columns), values in zip(pairs, stiffness, strict=True):
            if values is not None and max(rows) >= 0 and max(columns) >= 0:
                blocks.append(at.between(rows, columns, values))
    return blocks


def force_blocks(
    forces: Groups, t: Array, u: Array | None, motion: Motion, at: Attachments
) -> tuple[list[Blocks], list[Blocks]]:
    """Stiffness and damping of minus the forces."""
    stiffness, damping = [], []
    for group in forces:
        free = [slot for slot, bodies in enumerate(group.bodies) if max(bodies) >= 0]
        changes = _written(free, t, group, motion, u)
        if changes is None:
            changes = stacking.each(
                lambda *args, free=free: _force_derivatives(free, t, *args),
                group,
                (*motion.pose, *motion.velocity),
                stacking.own_inputs(group, u),
                out_axes=-1,
            )
        for (i, row), (j, column) in itertools.product(enumerate(free), repeat=2):
            rows, columns = group.bodies[row], group.bodies[column]
            along, rates = (-change[i, j] for change in changes)
            # Hybrid velocities change with q, too, while v is constant.
            stiffness.append(at.between(rows, columns, along, rates))
            damping.append(at.between(rows, columns, rates))
    return stiffness, damping


def _written(
    free: Sequence[int],
    t: Array,
    group: stacking.Connected,
    motion: Motion,
    u: Array | None,
) -> tuple[Array, Array] | None:
    """Derivatives (free, free, 6, 6, count) of a group that has written-out ones."""
    acting = stacking.ends(group, (*motion.pose, *motion.velocity))
    written = group.element.derivatives(t, *acting, stacking.own_inputs(group, u))
    if written is None:
        return None
    slots = np.asarray(free)
    along, by_velocity = (x.transpose(0, 2, 1, 3, 4)[slots][:, slots] for x in written)
    return along, by_velocity


def _force_derivatives(free, t, element, poses, velocities, u):
    """Derivatives (free, free, 6, 6) of the wrenches on the free slots of an element: along hybrid
    velocities, which stay constant, and by hybrid velocities.
    """

    def wrenches(directions, rates):
        moved, faster = list(poses), list(velocities)
        for slot, (shift, turn), (linear, omega) in zip(free, directions, rates, strict=True):
            turned = small.matmul(poses[slot].rotation, small.hat(turn))
            moved[slot] = BodyPose(poses[slot].rotation + turned, poses[slot].position + shift)
            velocity = velocities[slot]
            faster[slot] = BodyVelocity(velocity.linear + linear, velocity.omega_body + omega)
        acting = element.wrenches(t, tuple(moved), tuple(faster), u)
        return jnp.stack([jnp.concatenate(acting[slot]) for slot in free])

    size = len(free)
    none = jnp.zeros((size, 2, 3), poses[0].position.dtype)
    changes = jax.jacfwd(wrenches, (0, 1))(none, none)
    return tuple(x.reshape(size, 6, size, 6).swapaxes(1, 2) for x in changes)
