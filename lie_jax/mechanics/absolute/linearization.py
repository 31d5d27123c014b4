"""Linearised equations of motion of bodies, placed in a full matrix, along a forest or a graph.

The blocks of bodies, joints and forces (see `elements`) are summed where they stand: anywhere in a
matrix of full size or of blocks along a graph, or, along the forest of bodies and joints, at a body
and between a body and its parent. Arrays have bodies or elements on their last axis.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.linearization import AbstractLinearization, MatrixLinearization, tangent_columns
from lie_jax.linearization import saddle as dense_saddle
from lie_jax.mechanics.absolute.elements import JointColumns, Matrices, diagonal
from lie_jax.mechanics.absolute.elimination import Order
from lie_jax.mechanics.coordinates.base import AbstractCoordinates
from lie_jax.numerics import gather, small
from lie_jax.numerics.block_graph import BlockGraph, Blocks, block_graph, summed
from lie_jax.numerics.block_matrix import BlockTree
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.numerics.graphs import Graph
from lie_jax.spaces.products import Power

# Tangent operators (nv, nv, N) of bodies, (3, 3, N) for those that keep translations, or None.
Operators = Matrices | None


class ElementLinearization(AbstractLinearization):
    """Linearization in blocks: M (nv, nv, N), parts of K and C, and the columns of Bᵀ.

    `coordinate_columns` (nv, rows, N) are those of the constraints among coordinates. `joint_rates`
    returns the derivatives of the constraints' rates as `elements.joint_rates`, `rates` is the same
    for a velocity as in `AbstractDenseLinearization`. With an `order` of elimination the step's
    matrix has blocks along the forest or the graph of bodies and joints.
    """

    formulation: AbstractCoordinates
    order: Order | Graph | None = eqx.field(static=True)
    residual: Float[Array, " nv"]
    mass: Matrices
    stiffness: Sequence[Blocks]
    damping: Sequence[Blocks]
    joints: Sequence[JointColumns]
    coordinate_columns: Matrices
    joint_rates: Callable
    rates: Callable

    @override
    def dense(self):
        return MatrixLinearization(
            space=Power(self.formulation, self.mass.shape[2]),
            residual=self.residual,
            constraints=self._constraints(None),
            rates=self.rates,
            velocity_rows=self._velocity_rows,
            mass=full([diagonal(self.mass)], self.mass),
            stiffness=full(self.stiffness, self.mass),
            damping=full(self.damping, self.mass),
        )

    @override
    def step_matrix(self, x, stiffness, damping):
        if self.order is None and self._velocity_rows:
            return self.dense().step_matrix(x, stiffness, damping)
        operators = None if x is None else tangent_operators(self.formulation, x)
        direct = [diagonal(self.mass), *_scaled(self.damping, damping)]
        if isinstance(self.order, Order):
            dynamic = _sums(self.order, direct, self.mass)
            by_position = _sums(self.order, self.stiffness, self.mass, operators)
            dynamic = dynamic.plus(by_position, stiffness)
            return block_tree(self.order, dynamic, self.joints, operators)
        if self.order is not None:
            by_position = summed(self.stiffness)
            moved = _times(by_position.values, _pick_bodies(by_position.columns, operators))
            dynamic = summed([*direct, by_position._replace(values=stiffness * moved)])
            rates = self.joint_rates() if self._velocity_rows else None
            columns = joint_blocks(self.order, self.joints, operators, rates, stiffness / damping)
            return block_graph(self.order, [dynamic, *columns])
        dynamic = full(direct, self.mass)
        dynamic = dynamic + stiffness * full(self.stiffness, self.mass, operators)
        columns = self._constraints(None).T
        rows = self._constraints(operators)
        none = jnp.zeros((rows.shape[0], rows.shape[0]), rows.dtype)
        return DenseMatrix(jnp.block([[dynamic, columns], [rows, none]]), rows.shape[0])

    @override
    def damping_matrix(self, factor):
        direct = _scaled(self.damping, factor)
        if isinstance(self.order, Order):
            return block_tree(self.order, _sums(self.order, direct, self.mass), self.joints, None)
        if self.order is not None:
            columns = joint_blocks(self.order, self.joints, None)
            return block_graph(self.order, [summed(direct), *columns])
        return dense_saddle(full(direct, self.mass), self._constraints(None))

    @property
    def _velocity_rows(self) -> int:
        return sum(group.velocity_rows * group.number for group in self.joints)

    def _constraints(self, operators: Operators) -> Float[Array, "nc nv"]:
        return constraint_rows(self.joints, self.coordinate_columns, operators)


def _scaled(parts: Sequence[Blocks], factor: Array | float) -> list[Blocks]:
    return [blocks._replace(values=factor * blocks.values) for blocks in parts]


def joint_blocks(
    graph: Graph,
    joints: Sequence[JointColumns],
    operators: Operators,
    rates: Sequence[tuple[Matrices, ...]] | None = None,
    factor: Array | float = 0.0,
) -> list[Blocks]:
    """Blocks Bᵀ and B T of joints in a graph; velocity constraints have B + `factor` R T."""
    bodies, nodes, columns, moved, unmoved = [], [], [], [], []
    first, width = graph.bodies, graph.width

    def padded(values):
        return jnp.pad(values, ((0, 0), (0, width - values.shape[1]), (0, 0)))

    for number, group in enumerate(joints):
        for slot, values in enumerate(group.values):
            if max(group.bodies[slot]) < 0:
                continue
            bodies += group.bodies[slot]
            nodes += range(first, first + group.number)
            columns.append(padded(values))
            if rates is None:
                continue
            last = values.shape[1] - group.velocity_rows
            positions, velocities = values[:, :last], values[:, last:]
            changes = factor * rates[number][slot][:, last:]
            moved.append(padded(jnp.concatenate([positions, changes], axis=1)))
            none = jnp.zeros_like(positions)
            unmoved.append(padded(jnp.concatenate([none, velocities], axis=1)))
        first += group.number
    if not bodies:
        return []
    both = jnp.concatenate(columns, axis=2)
    turned = small.transpose(both if rates is None else jnp.concatenate(moved, axis=2))
    rows = _times(turned, _pick_bodies(tuple(bodies), operators))
    if rates is not None:
        rows = rows + small.transpose(jnp.concatenate(unmoved, axis=2))
    return [
        Blocks(tuple(bodies), tuple(nodes), both),
        Blocks(tuple(nodes), tuple(bodies), rows),
    ]


def full(
    blocks: Sequence[Blocks], like: Matrices, operators: Operators = None
) -> Float[Array, "nv nv"]:
    """The matrix with these blocks, its columns times the operators of their bodies."""
    size, _, n = like.shape
    if not blocks:
        return jnp.zeros((n * size, n * size), like.dtype)
    rows, columns = (sum(bodies, ()) for bodies in zip(*(b[:2] for b in blocks), strict=True))
    values = jnp.concatenate([b.values for b in blocks], axis=2)
    places = tuple(
        row * n + column if min(row, column) >= 0 else -1
        for row, column in zip(rows, columns, strict=True)
    )
    if n == 1 and -1 not in places:
        summed = jnp.sum(values, axis=2)
    else:
        # A product with 0 and 1 would grow with the cube of n. One gather serves all blocks: XLA
        # would repeat the computation of its operand for each of many.
        summed = gather.add_up_by_table(places, values, n * n, axis=2)
    summed = summed.reshape(size, size, n, n)
    if operators is not None:
        summed = _times(summed, operators[:, :, None, :])
    return summed.transpose(2, 0, 3, 1).reshape(n * size, n * size)


def _times(blocks: Float[Array, "..."], operators: Float[Array, "..."] | None) -> Array:
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

    bodies: Matrices
    by_parent: Matrices | None = None
    by_child: Matrices | None = None

    def plus(self, other: "Sums", factor: Array | float) -> "Sums":
        """Sum with the blocks of another one, times a factor."""
        sums: list = [
            a if b is None else factor * b if a is None else a + factor * b
            for a, b in zip(self, other, strict=True)
        ]
        return Sums(*sums)


def _pick_bodies(bodies: tuple[int, ...], values: Operators) -> Operators:
    """Entries of the last axis at these bodies, zeros for the ground; None for None."""
    return None if values is None else gather.pick(bodies, values, axis=values.ndim - 1)


def _sums(
    order: Order, blocks: Sequence[Blocks], like: Matrices, operators: Operators = None
) -> Sums:
    """Sums of blocks along the forest, their columns times the operators of their bodies."""
    n, parent_of = like.shape[2], order.parent_of
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
    by_columns = operators, _pick_bodies(parent_of, operators), operators
    of_bodies, by_parent, by_child = (
        None if blocks is None else _times(blocks, operator)
        for blocks, operator in zip(sums, by_columns, strict=True)
    )
    return Sums(jnp.zeros_like(like) if of_bodies is None else of_bodies, by_parent, by_child)


def block_tree(
    order: Order, dynamic: Sums, joints: Sequence[JointColumns], operators: Operators
) -> BlockTree:
    """The matrix [[dynamic, Bᵀ], [B T, 0]] along the forest.

    A joint belongs to its body that is farther from the root; its other body is the parent.
    """
    size, _, n = dynamic.bodies.shape
    count = order.rows
    reactions = parent_reactions = jnp.zeros((size, count, n), dynamic.bodies.dtype)
    if count:
        # First bodies of all joints, then second ones.
        slots = [
            jnp.pad(columns, ((0, 0), (0, count - columns.shape[1]), (0, 0)))
            for slot in range(2)
            for columns in (group.values[slot] for group in joints)
        ]
        stacked = jnp.concatenate(slots, axis=2)
        reactions = gather.pick(order.columns, stacked, axis=2)
        parent_reactions = gather.pick(order.parent_columns, stacked, axis=2)
    rows = _times(small.transpose(reactions), operators)
    parent_operators = _pick_bodies(order.parent_of, operators)
    parent_rows = _times(small.transpose(parent_reactions), parent_operators)
    by_parent, by_child = (
        jnp.zeros_like(dynamic.bodies) if blocks is None else blocks for blocks in dynamic[1:]
    )
    none = jnp.zeros((count, count, n), rows.dtype)
    missing = np.asarray(order.multipliers, int).reshape(n, count).T < 0
    return BlockTree(
        nodes=small.block_2x2(dynamic.bodies, reactions, rows, none),
        corner=jnp.asarray(missing, rows.dtype),
        columns=jnp.concatenate([by_parent, parent_rows]),
        rows=jnp.concatenate([by_child, parent_reactions], axis=1),
        is_coupled=dynamic.by_parent is not None or dynamic.by_child is not None,
        parent_of=order.parent_of,
        multipliers=order.multipliers,
    )


def saddle(
    order: Order | Graph,
    masses: Matrices,
    joints: Sequence[JointColumns],
    operators: Operators = None,
) -> BlockTree | BlockGraph:
    """The matrix [[M, Bᵀ], [B T, 0]] from masses (nv, nv, N) along the forest or the graph."""
    if isinstance(order, Order):
        return block_tree(order, Sums(masses), joints, operators)
    return block_graph(order, [diagonal(masses), *joint_blocks(order, joints, operators)])


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
        parts = [
            placed(bodies, values, _pick_bodies(bodies, operators))
            for bodies, values in zip(group.bodies, group.values, strict=True)
            if max(bodies) >= 0
        ]
        total = functools.reduce(jnp.add, parts)
        last = total.shape[1] - group.velocity_rows
        for part, rows in ((positions, total[:, :last]), (velocities, total[:, last:])):
            part.append(rows.reshape(-1, n * rows.shape[3]))
    coordinates = placed(tuple(range(n)), coordinate_columns, operators)
    flat = coordinates.reshape(-1, n * coordinates.shape[3])
    return jnp.concatenate([*positions, flat, *velocities])


def tangent_operators(space: AbstractCoordinates, x: Float[Array, " nv"]) -> Matrices:
    """Tangent operators of all bodies at their local coordinates."""
    first = 3 if space.hybrid else 0
    basis = jnp.eye(space.nv, dtype=x.dtype)[first:]
    return jax.vmap(lambda x: tangent_columns(space, x, basis)[first:], out_axes=2)(
        x.reshape(-1, space.nv)
    )
