"""Linearised equations of motion of bodies, joint by joint and force by force.

Each element gives blocks (6, 6) for hybrid wrenches and velocities of its own bodies, so that the
cost grows with the number of elements. A formulation with other velocities v pulls them back by
the frames F of its bodies: hybrid velocities are F v. The blocks are summed in a matrix of full
size, or along the forest of bodies and joints. Arrays have bodies or elements on their last axis.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.linearization import AbstractLinearization, MatrixLinearization
from lie_jax.mechanics import body as rigid
from lie_jax.mechanics import stacking
from lie_jax.mechanics.absolute.elimination import Order
from lie_jax.mechanics.body import MassProperties, MotionMatrices
from lie_jax.mechanics.coordinates.base import AbstractCoordinates
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench
from lie_jax.mechanics.stacking import Connected
from lie_jax.numerics import gather, small
from lie_jax.numerics.block_matrix import BlockTree
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.spaces.products import Power

Matrices = Float[Array, "rows columns count"]
# Tangent operators (nv, nv, N) of bodies, (3, 3, N) for those that keep translations, or None.
Operators = Matrices | None


class Motion(NamedTuple):
    """Coordinates, velocities and accelerations of all bodies (N, ...), and their poses and hybrid
    velocities.
    """

    q: Float[Array, "bodies nq"]
    v: Float[Array, "bodies nv"]
    acceleration: Float[Array, "bodies nv"]
    pose: BodyPose
    velocity: BodyVelocity


class Blocks(NamedTuple):
    """Blocks (nv, nv, count) of a matrix of bodies, and the bodies of their rows and columns.

    Blocks of the same two bodies add up; -1 stands for the ground, whose blocks do not count.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    values: Matrices


class JointColumns(NamedTuple):
    """Columns (nv, rows, count) of Bᵀ of a group of joints, for the bodies at each slot."""

    bodies: tuple[tuple[int, ...], ...]
    values: tuple[Matrices, ...]
    velocity_rows: int


class ElementLinearization(AbstractLinearization):
    """Linearization in blocks: M (nv, nv, N), parts of K and C, and the columns of Bᵀ.

    `coordinate_columns` (nv, rows, N) are those of the constraints among coordinates. With an
    `order` of elimination the step's matrix follows the forest of bodies and joints.
    """

    formulation: AbstractCoordinates
    order: Order | None = eqx.field(static=True)
    residual: Float[Array, " nv"]
    mass: Matrices
    stiffness: Sequence[Blocks]
    damping: Sequence[Blocks]
    joints: tuple[JointColumns, ...]
    coordinate_columns: Matrices

    @override
    def dense(self):
        matrices = (
            full(blocks, self.mass)
            for blocks in ([diagonal(self.mass)], self.stiffness, self.damping)
        )
        space = Power(self.formulation, self.mass.shape[2])
        return MatrixLinearization(space, self.residual, self._constraints(None), *matrices)

    @override
    def step_matrix(self, x, stiffness, damping):
        operators = None if x is None else tangent_operators(self.formulation, x)
        if self.order is not None:
            mass, by_velocity, by_position = (
                _sums(self.order, blocks, self.mass)
                for blocks in ((diagonal(self.mass),), self.damping, self.stiffness)
            )
            dynamic = mass.plus(by_velocity, damping)
            dynamic = dynamic.plus(by_position.times(self.order, operators), stiffness)
            return block_tree(self.order, dynamic, self.joints, operators)
        direct = [blocks._replace(values=damping * blocks.values) for blocks in self.damping]
        dynamic = full([diagonal(self.mass), *direct], self.mass)
        dynamic = dynamic + stiffness * full(self.stiffness, self.mass, operators)
        columns = self._constraints(None).T
        rows = self._constraints(operators)
        none = jnp.zeros((rows.shape[0], rows.shape[0]), rows.dtype)
        return DenseMatrix(jnp.block([[dynamic, columns], [rows, none]]), rows.shape[0])

    def _constraints(self, operators: Operators) -> Float[Array, "nc nv"]:
        return constraint_rows(self.joints, self.coordinate_columns, operators)


def diagonal(values: Matrices) -> Blocks:
    """Blocks (nv, nv, N) of each body with itself."""
    bodies = tuple(range(values.shape[2]))
    return Blocks(bodies, bodies, values)


def full(
    blocks: Sequence[Blocks], like: Matrices, operators: Operators = None
) -> Float[Array, "nv nv"]:
    """The matrix with these blocks, its columns times the operators of their bodies."""
    size, _, n = like.shape
    if not blocks:
        return jnp.zeros((n * size, n * size), like.dtype)
    places: dict[tuple[int, int], list[int]] = {}
    rows, columns = (sum(bodies, ()) for bodies in zip(*(b[:2] for b in blocks), strict=True))
    for k, place in enumerate(zip(rows, columns, strict=True)):
        if min(place) >= 0:
            places.setdefault(place, []).append(k)
    # Each place of the full matrix looks up its blocks, as many as the busiest place has. A sum
    # over all blocks for each place, as a product with 0 and 1, would grow with the cube of n. One
    # gather serves all blocks: XLA would repeat the computation of its operand for each of many.
    table = np.full((max(map(len, places.values())), n, n), len(rows))
    for (row, column), sources in places.items():
        table[: len(sources), row, column] = sources
    values = jnp.concatenate([b.values for b in blocks] + [jnp.zeros_like(like[..., :1])], axis=2)
    summed = jnp.sum(values[:, :, table], axis=2)
    if operators is not None:
        summed = _times(summed, operators[:, :, None, :])
    return summed.transpose(2, 0, 3, 1).reshape(n * size, n * size)


def _times(blocks: Matrices, operators: Operators) -> Matrices:
    """Columns of blocks times operators."""
    if operators is None:
        return blocks
    if operators.shape[0] == blocks.shape[1]:
        return small.matmul(blocks, operators)
    return jnp.concatenate([blocks[:, :3], small.matmul(blocks[:, 3:], operators)], axis=1)


class Sums(NamedTuple):
    """Blocks (nv, nv, N) along a forest: of each body, of its rows by its parent's columns, and of
    its parent's rows by its columns; None where all are zero.
    """

    own: Matrices
    by_parent: Matrices | None = None
    by_child: Matrices | None = None

    def plus(self, other: "Sums", factor: Array | float) -> "Sums":
        """Sum with the blocks of another one, times a factor."""

        def sum_of(a, b):
            return a if b is None else factor * b if a is None else a + factor * b

        return Sums(*(sum_of(a, b) for a, b in zip(self, other, strict=True)))

    def times(self, order: Order, operators: Operators) -> "Sums":
        """Columns of each body times its operator."""
        own, by_parent, by_child = self
        if by_parent is not None:
            by_parent = _times(by_parent, _of_bodies(order.forest.parent_of, operators))
        if by_child is not None:
            by_child = _times(by_child, operators)
        return Sums(_times(own, operators), by_parent, by_child)


def _of_bodies(bodies: tuple[int, ...], values: Operators) -> Operators:
    """Entries of the last axis at these bodies, zeros for the ground; None for None."""
    return None if values is None else gather.pick(bodies, values, axis=values.ndim - 1)


def _sums(order: Order, blocks: Sequence[Blocks], like: Matrices) -> Sums:
    n, parent_of = like.shape[2], order.forest.parent_of
    sums: list = [None, None, None]
    for rows, columns, values in blocks:
        pairs = list(zip(rows, columns, strict=True))
        places = (
            tuple(a if a == b else -1 for a, b in pairs),
            tuple(a if a >= 0 and b >= 0 and parent_of[a] == b else -1 for a, b in pairs),
            tuple(b if a >= 0 and b >= 0 and parent_of[b] == a else -1 for a, b in pairs),
        )
        for k, bodies in enumerate(places):
            if max(bodies, default=-1) >= 0:
                added = gather.add_up(bodies, values, n, axis=2)
                sums[k] = added if sums[k] is None else sums[k] + added
    own = jnp.zeros_like(like) if sums[0] is None else sums[0]
    return Sums(own, *sums[1:])


def block_tree(
    order: Order, dynamic: Sums, joints: Sequence[JointColumns], operators: Operators
) -> BlockTree:
    """The matrix [[dynamic, Bᵀ], [B T, 0]] along the forest.

    A joint belongs to its body that is farther from the root; its other body is the parent.
    """
    size, _, n = dynamic.own.shape
    most = order.rows
    own = parent = jnp.zeros((size, most, n), dynamic.own.dtype)
    if most:
        # First bodies of all joints, then second ones.
        slots = [
            jnp.pad(group.values[slot], ((0, 0), (0, most - group.values[slot].shape[1]), (0, 0)))
            for slot in range(2)
            for group in joints
        ]
        stacked = jnp.concatenate(slots, axis=2)
        count = stacked.shape[2] // 2
        own = gather.pick(order.own(count), stacked, axis=2)
        parent = gather.pick(order.parents(count), stacked, axis=2)
    missing = np.asarray(order.multipliers, int).reshape(n, most).T < 0
    return BlockTree(
        dynamic.own,
        own,
        _times(own.swapaxes(0, 1), operators),
        jnp.asarray(missing, dynamic.own.dtype),
        parent,
        _times(parent.swapaxes(0, 1), _of_bodies(order.forest.parent_of, operators)),
        dynamic.by_parent,
        dynamic.by_child,
        order.forest,
        order.multipliers,
    )


def constraint_rows(
    joints: Sequence[JointColumns], coordinate_columns: Matrices, operators: Operators
) -> Float[Array, "nc nv"]:
    """B T of all bodies from the columns of Bᵀ, T the operators of bodies or the identity.

    Rows are in the order of `RigidBodySystem`: position constraints of joints, then those among
    coordinates, then velocity constraints of joints.
    """
    n = coordinate_columns.shape[2]
    dtype = coordinate_columns.dtype
    positions, velocities = [], []

    def placed(bodies, values, operators):
        # A product with 0 and 1, whose reverse needs no scatter.
        rows = _times(values.swapaxes(0, 1), operators).transpose(2, 0, 1)
        at = jnp.asarray(np.asarray(bodies)[:, None] == np.arange(n), dtype)
        return rows[:, :, None, :] * at[:, None, :, None]

    for group in joints:
        total = sum(
            placed(bodies, values, _of_bodies(bodies, operators))
            for bodies, values in zip(group.bodies, group.values, strict=True)
        )
        last = total.shape[1] - group.velocity_rows
        for part, rows in ((positions, total[:, :last]), (velocities, total[:, last:])):
            part.append(rows.reshape(-1, n * rows.shape[3]))
    coordinates = placed(tuple(range(n)), coordinate_columns, operators)
    flat = coordinates.reshape(-1, n * coordinates.shape[3])
    return jnp.concatenate([*positions, flat, *velocities])


def joint_columns(
    joints: Sequence[Connected], t: Array, pose: BodyPose, frames: Matrices | None
) -> tuple[JointColumns, ...]:
    """Columns of Bᵀ: reactions of joints to unit multipliers, pulled back by frames."""

    def unit_reactions(element, poses):
        def wrenches(multipliers):
            return [jnp.concatenate(w) for w in element.reaction(t, *poses, multipliers)]

        units = jnp.eye(element.rows + element.velocity_rows, dtype=pose.position.dtype)
        return jax.vmap(wrenches, out_axes=1)(units)

    groups = []
    for group in joints:
        columns = jax.vmap(unit_reactions, out_axes=-1)(group.element, stacking.poses(group, *pose))
        pulled = (
            _pulled_back(frames, bodies, values)
            for bodies, values in zip(group.bodies, columns, strict=True)
        )
        groups.append(JointColumns(group.bodies, tuple(pulled), group.element.velocity_rows))
    return tuple(groups)


def _pulled_back(frames: Matrices | None, bodies: tuple[int, ...], wrenches: Array) -> Array:
    """Fᵀ of bodies times columns of hybrid wrenches."""
    if frames is None:
        return wrenches
    return small.matmul(gather.pick(bodies, frames, axis=2).swapaxes(0, 1), wrenches)


def joint_blocks(
    joints: Sequence[Connected],
    multipliers: Sequence[Array],
    t: Array,
    pose: BodyPose,
    frames: Matrices | None,
) -> list[Blocks]:
    """Stiffness of the joints under their multipliers (count, rows)."""
    blocks = []
    for group, joint_multipliers in zip(joints, multipliers, strict=True):
        stiffness = jax.vmap(
            lambda element, poses, multipliers: element.stiffness(t, *poses, multipliers),
            out_axes=-1,
        )(group.element, stacking.poses(group, *pose), joint_multipliers)
        pairs = [(rows, columns) for rows in group.bodies for columns in group.bodies]
        for (rows, columns), values in zip(pairs, stiffness, strict=True):
            if values is not None and max(rows) >= 0 and max(columns) >= 0:
                if frames is not None:
                    pulled = _pulled_back(frames, rows, values)
                    values = small.matmul(pulled, gather.pick(columns, frames, axis=2))
                blocks.append(Blocks(rows, columns, values))
    return blocks


class ForceBlocks(NamedTuple):
    """Stiffness and damping of forces in the residual, which has minus the forces."""

    stiffness: list[Blocks]
    damping: list[Blocks]


def force_blocks(
    forces: Sequence[Connected],
    t: Array,
    u: Array | None,
    motion: Motion,
    frames: Matrices | None,
    turning: Matrices | None,
) -> ForceBlocks:
    """Stiffness and damping of the forces; `turning` are the frames' derivatives."""
    stiffness, damping = [], []
    for group in forces:
        free = [slot for slot, bodies in enumerate(group.bodies) if max(bodies) >= 0]
        by_position, by_velocity = jax.vmap(
            lambda *args, free=free: _force_derivatives(free, t, *args), out_axes=-1
        )(
            group.element,
            stacking.own_inputs(group, u),
            stacking.poses(group, *motion.pose),
            stacking.velocities(group, *motion.velocity),
        )
        for (i, row), (j, column) in itertools.product(enumerate(free), repeat=2):
            rows, columns = group.bodies[row], group.bodies[column]
            along, rates = (
                _pulled_back(frames, rows, -part[i, j]) for part in (by_position, by_velocity)
            )
            if frames is not None and turning is not None:
                frame, change = (gather.pick(columns, x, axis=2) for x in (frames, turning))
                # Hybrid velocities change with q, too, while v is constant.
                along = small.matmul(along, frame) + small.matmul(rates, change)
                rates = small.matmul(rates, frame)
            stiffness.append(Blocks(rows, columns, along))
            damping.append(Blocks(rows, columns, rates))
    return ForceBlocks(stiffness, damping)


def _force_derivatives(free, t, element, u, poses, velocities):
    """Derivatives (free, free, 6, 6) of the wrenches on the free slots of an element.

    The first are along hybrid velocities of the free slots, at constant hybrid velocities, the
    second by these velocities.
    """

    def wrenches(poses, velocities):
        acting = element.wrenches(t, poses, velocities, u)
        return jnp.stack([jnp.concatenate(acting[slot]) for slot in free])

    def change(direction):
        moved = tuple(
            BodyPose(small.matmul(pose.rotation, small.hat(turn)), shift)
            for pose, shift, turn in zip(poses, direction[:, :3], direction[:, 3:], strict=True)
        )
        faster = tuple(BodyVelocity(part[:3], part[3:]) for part in direction)
        still, at_rest = jax.tree.map(jnp.zeros_like, (moved, faster))
        return tuple(
            jax.jvp(wrenches, (poses, velocities), tangents)[1]
            for tangents in ((moved, at_rest), (still, faster))
        )

    size, slots = len(free), len(poses)
    directions = np.eye(6 * slots).reshape(slots, 6, slots, 6)[free].reshape(-1, slots, 6)
    changes = jax.vmap(change, out_axes=-1)(jnp.asarray(directions, poses[0].position.dtype))
    return tuple(part.reshape(size, 6, size, 6).swapaxes(1, 2) for part in changes)


def hybrid_body_matrices(
    bodies: MassProperties, gravity: Float[Array, "3"], motion: Motion
) -> MotionMatrices:
    """M, K and C of bodies under gravity for hybrid velocities, in closed form."""
    linear, angular = motion.acceleration[:, :3], motion.acceleration[:, 3:]
    rotation, omega = motion.pose.rotation, motion.velocity.omega_body
    return rigid.motion_matrices(bodies, rotation, omega, linear - gravity[None], angular)


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

    def derivatives(body, q, v, acceleration, wrench, multipliers):
        def force(q, v, acceleration):
            rotation, _ = space.pose(q)
            _, omega = space.hybrid_velocity(rotation, q, v)
            linear, angular = space.hybrid_acceleration(rotation, q, v, acceleration)
            # A body at rest under gravity needs the force that accelerates it upwards without.
            inertial, torque = rigid.inverse_dynamics(
                body, rotation, omega, linear - gravity, angular
            )
            pulled = space.generalized_force(
                rotation, q, inertial + wrench.force, torque + wrench.torque
            )
            return pulled + space.reaction(q, multipliers) if space.rows else pulled

        def columns(argument, tangent):
            point = [q, v, acceleration]

            def at(value):
                return force(*point[:argument], value, *point[argument + 1 :])

            basis = jnp.eye(space.nv, dtype=q.dtype)
            return jax.vmap(
                lambda e: jax.jvp(at, (point[argument],), (tangent(e),))[1], out_axes=1
            )(basis)

        by_position = columns(0, lambda e: space.lift(q, e))
        return MotionMatrices(columns(2, lambda e: e), by_position, columns(1, lambda e: e))

    return jax.vmap(derivatives, out_axes=-1)(bodies, *motion[:3], wrenches, multipliers)


def masses(bodies: MassProperties, rotation: Array, frames: Matrices | None) -> Matrices:
    """Mass matrices (nv, nv, N) of bodies."""
    hybrid = jax.vmap(rigid.mass_matrix, out_axes=2)(bodies, rotation)
    if frames is None:
        return hybrid
    return small.matmul(small.matmul(frames.swapaxes(0, 1), hybrid), frames)


def body_frames(
    space: AbstractCoordinates, q: Float[Array, "bodies nq"], rotation: Float[Array, "bodies 3 3"]
) -> Matrices:
    """Hybrid velocities F (6, nv, N) of the unit velocities of all bodies."""
    basis = jnp.eye(space.nv, dtype=q.dtype)

    def frame(q, rotation):
        columns = jax.vmap(space.hybrid_velocity, (None, None, 0), 1)(rotation, q, basis)
        return jnp.concatenate(columns)

    return jax.vmap(frame, out_axes=2)(q, rotation)


def turning_frames(space: AbstractCoordinates, motion: Motion) -> Matrices:
    """Derivatives (6, nv, N) of hybrid velocities along unit velocities, at constant velocities."""

    def change(q, v):
        def hybrid(q):
            return jnp.concatenate(space.hybrid_velocity(space.pose(q)[0], q, v))

        basis = jnp.eye(space.nv, dtype=q.dtype)
        return jax.vmap(lambda e: jax.jvp(hybrid, (q,), (space.lift(q, e),))[1], out_axes=1)(basis)

    return jax.vmap(change, out_axes=2)(motion.q, motion.v)


def tangent_operators(space: AbstractCoordinates, x: Float[Array, " nv"]) -> Matrices:
    """Tangent operators of all bodies at their local coordinates."""
    basis = jnp.eye(space.nv, dtype=x.dtype)
    if space.hybrid:
        basis = basis[3:]

    def operator(x):
        return jax.vmap(
            lambda d: space.tangent_operator(x, space.rate_at_zero(d))[-len(basis) :], out_axes=1
        )(basis)

    return jax.vmap(operator, out_axes=2)(x.reshape(-1, space.nv))
