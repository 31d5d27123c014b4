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

from lie_jax.multibody.absolute import along_graph
from lie_jax.multibody.absolute.along_graph import Operators, pick_bodies, times
from lie_jax.multibody.absolute.elements import JointColumns, Matrices, diagonal
from lie_jax.multibody.absolute.elimination import Order
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.numerics import gather, small
from lie_jax.numerics.block_graph import BlockGraph, Blocks, block_graph, summed
from lie_jax.numerics.block_matrix import BlockTree
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.numerics.graphs import Graph
from lie_jax.spaces.base import AbstractVectorSpace
from lie_jax.spaces.products import Power
from lie_jax.systems.linearization import (
    AbstractLinearization,
    AbstractReactions,
    Factor,
    Increment,
    MatrixLinearization,
    tangent_columns,
)


class ElementLinearization(AbstractLinearization):
    """Linearization in blocks: M (nv, nv, N), parts of K and C, and the columns of Bᵀ.

    `coordinate_columns` (nv, rows, N) are those of the constraints among coordinates. `joint_rates`
    and `coordinate_rates` return the derivatives of the constraints' rates as in `elements`,
    `rates` is the same for a velocity as in `AbstractDenseLinearization`. With an `order` of
    elimination the step's matrix has blocks along the forest or the graph of bodies and joints,
    that of a stabilised step in the order `stabilized`.
    """

    formulation: AbstractCoordinates
    order: Order | Graph | None = eqx.field(static=True)
    stabilized: Order | Graph | None = eqx.field(static=True)
    residual: Float[Array, " nv"]
    mass: Matrices
    stiffness: Sequence[Blocks]
    damping: Sequence[Blocks]
    joints: Sequence[JointColumns]
    coordinate_columns: Matrices
    joint_rates: Callable
    coordinate_rates: Callable
    rates: Callable

    @override
    def dense(self):
        return MatrixLinearization(
            space=Power(self.formulation, self.mass.shape[2]),
            residual=self.residual,
            constraints=self._constraints(None),
            bounds=None,
            rates=self.rates,
            velocity_rows=self._velocity_rows,
            mass=full([diagonal(self.mass)], self.mass),
            stiffness=full(self.stiffness, self.mass),
            damping=full(self.damping, self.mass),
        )

    @override
    def step_matrix(self, x, stiffness, damping, mass=1.0):
        if self.order is None and self._velocity_rows:
            return self.dense().step_matrix(x, stiffness, damping, mass)
        operators = tangent_operators(self.formulation, x)
        direct = self._direct(damping, mass)
        if self.order is not None:
            rates, factor = None, 1.0
            if self._velocity_rows:
                rates, factor = self.joint_rates(), stiffness / damping
            graph = graph_of(self.order)
            joints = along_graph.joint_blocks(graph, self.joints, operators, rates, factor)
            border = along_graph.border(self.coordinate_columns, operators)
            parts = (direct, 1.0, None, 0), (self.stiffness, stiffness, operators, 0)
            return along(self.order, parts, border, joints)
        dynamic = full(direct, self.mass)
        dynamic = dynamic + stiffness * full(self.stiffness, self.mass, operators)
        columns = self._constraints(None).T
        rows = self._constraints(operators)
        none = jnp.zeros((rows.shape[0], rows.shape[0]), rows.dtype)
        return DenseMatrix(jnp.block([[dynamic, columns], [rows, none]]), rows.shape[0])

    @override
    def stabilized_matrix(self, x, stiffness, damping, reactions):
        if self.stabilized is None or not isinstance(reactions, ElementReactions):
            return super().stabilized_matrix(x, stiffness, damping, reactions)
        operators, factor = tangent_operators(self.formulation, x), stiffness / damping
        border = along_graph.stabilized_border(
            self.coordinate_columns,
            self.coordinate_rates(),
            reactions.coordinate_columns,
            operators,
            factor,
        )
        graph, half = graph_of(self.stabilized), len(border) // 2
        joints = along_graph.stabilized_joint_blocks(
            graph, self.joints, reactions.joints, operators, self.joint_rates(), factor
        )
        direct = self._direct(damping), 1.0, None, 0
        parts = direct, (self.stiffness, stiffness, operators, half)
        return along(self.stabilized, parts, border, joints)

    def _direct(self, damping: Factor, mass: Factor = 1.0) -> list[Blocks]:
        """Blocks of m M and d C."""
        scaled = (blocks._replace(values=damping * blocks.values) for blocks in self.damping)
        return [diagonal(mass * self.mass), *scaled]

    @property
    def _velocity_rows(self) -> int:
        return sum(group.velocity_rows * group.number for group in self.joints)

    def _constraints(self, operators: Operators) -> Float[Array, "nc nv"]:
        return constraint_rows(self.joints, self.coordinate_columns, operators)


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
        summed = times(summed, operators[:, :, None, :])
    return summed.transpose(2, 0, 3, 1).reshape(n * size, n * size)


class ElementReactions(AbstractReactions):
    """Reactions of position constraints by the columns of Bᵀ of joints, and of coordinates (nv,
    rows, N).
    """

    joints: Sequence[JointColumns]
    coordinate_columns: Matrices

    @property
    @override
    def rows(self):
        rows = constraint_rows(self.joints, self.coordinate_columns, None)
        velocities = sum(group.velocity_rows * group.number for group in self.joints)
        return rows[: rows.shape[0] - velocities]

    @override
    def of(self, multipliers):
        _, own, n = self.coordinate_columns.shape
        dtype = multipliers.dtype
        total, first = jnp.zeros((len(self.coordinate_columns), n), dtype), 0
        for group in self.joints:
            rows = group.values[0].shape[1] - group.velocity_rows
            part = multipliers[first : first + rows * group.number].reshape(group.number, rows).T
            first += rows * group.number
            for bodies, columns in zip(group.bodies, group.values, strict=True):
                if rows and max(bodies) >= 0:
                    forces = gather.add_up(bodies, small.matvec(columns[:, :rows], part), n, axis=1)
                    total = total + forces
        if own:
            part = multipliers[first:].reshape(n, own).T
            forces = small.matvec(self.coordinate_columns, part)
            total = total + forces
        return total.T.reshape(-1)


# Blocks, a factor, the operators of their columns, and the column where they begin.
Part = tuple[Sequence[Blocks], Factor, Operators, int]


def graph_of(order: Order | Graph) -> Graph:
    """Graph with the unknowns of bodies and joints."""
    return order.graph if isinstance(order, Order) else order


def along(
    order: Order | Graph, parts: Sequence[Part], border: Matrices | None, joints: Sequence[Blocks]
) -> BlockTree | BlockGraph:
    """Matrix of sums of blocks between bodies, with the `border` of each body, and of joints."""
    n, size = graph_of(order).bodies, None if border is None else len(border)

    def grown(values, column):
        return values if size is None else along_graph.placed(values, 0, column, size)

    if isinstance(order, Order):
        total = Sums() if border is None else Sums(border)
        for blocks, factor, operators, column in parts:
            sums = _sums(order, blocks, n, operators)
            sums = Sums(*(None if x is None else factor * grown(x, column) for x in sums))
            total = total.plus(sums)
        return block_tree(order, total, joints)
    total = [] if border is None else [diagonal(border)]
    for blocks, factor, operators, column in parts:
        sums = summed(blocks)
        values = factor * times(sums.values, pick_bodies(sums.columns, operators))
        total.append(sums._replace(values=grown(values, column)))
    return block_graph(order, [summed(total), *joints])


class Sums(NamedTuple):
    """Blocks (nv, nv, N) along a forest: of each body, of its rows by its parent's columns, and of
    its parent's rows by its columns; None where all are zero.
    """

    bodies: Matrices | None = None
    by_parent: Matrices | None = None
    by_child: Matrices | None = None

    def plus(self, other: "Sums") -> "Sums":
        """Sum with the blocks of another one."""
        sums: list = [
            b if a is None else a if b is None else a + b for a, b in zip(self, other, strict=True)
        ]
        return Sums(*sums)


def _sums(order: Order, blocks: Sequence[Blocks], n: int, operators: Operators = None) -> Sums:
    """Sums of blocks along the forest, their columns times the operators of their bodies."""
    parent_of = order.parent_of
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
    by_columns = operators, pick_bodies(parent_of, operators), operators
    return Sums(
        *(
            None if blocks is None else times(blocks, operator)
            for blocks, operator in zip(sums, by_columns, strict=True)
        )
    )


def block_tree(order: Order, dynamic: Sums, joints: Sequence[Blocks]) -> BlockTree:
    """The matrix [[dynamic, Bᵀ], [B T, 0]] along the forest.

    A joint belongs to its body that is farther from the root; its other body is the parent.
    """
    of_bodies, *between = dynamic
    # Each body has a mass.
    assert of_bodies is not None
    size, _, n = of_bodies.shape
    count, bodies, parents = order.rows, range(n), order.parent_of
    reactions = parent_reactions = jnp.zeros((size, count, n), of_bodies.dtype)
    rows, parent_rows = map(small.transpose, (reactions, parent_reactions))
    if joints:
        columns, of_joints = joints
        at = {place: k for k, place in enumerate(columns.places)}
        nodes = [-1 if joint < 0 else n + joint for joint in order.joint_of]
        own, other = (
            tuple(at.get(place, -1) for place in zip(ends, nodes, strict=True))
            for ends in (bodies, parents)
        )
        more = size - columns.values.shape[0]
        reactions, parent_reactions = (
            jnp.pad(gather.pick(k, columns.values, axis=2), ((0, more), (0, 0), (0, 0)))
            for k in (own, other)
        )
        rows, parent_rows = (
            jnp.pad(gather.pick(k, of_joints.values, axis=2), ((0, 0), (0, more), (0, 0)))
            for k in (own, other)
        )
    by_parent, by_child = (
        jnp.zeros_like(of_bodies) if blocks is None else blocks for blocks in between
    )
    none = jnp.zeros((count, count, n), rows.dtype)
    missing = np.asarray(order.multipliers, int).reshape(n, count).T < 0
    return BlockTree(
        nodes=small.block_2x2(of_bodies, reactions, rows, none),
        corner=jnp.asarray(missing, rows.dtype),
        columns=jnp.concatenate([by_parent, parent_rows]),
        rows=jnp.concatenate([by_child, parent_reactions], axis=1),
        is_coupled=any(blocks is not None for blocks in between),
        parent_of=order.parent_of,
        bodies=order.bodies,
        multipliers=order.multipliers,
        bordered=order.graph.bordered,
    )


def saddle(
    order: Order | Graph,
    masses: Matrices,
    joints: Sequence[JointColumns],
    coordinate_columns: Matrices,
    operators: Operators = None,
) -> BlockTree | BlockGraph:
    """The matrix [[M, Bᵀ], [B T, 0]] from masses (nv, nv, N) along the forest or the graph."""
    border = along_graph.border(coordinate_columns, operators)
    of_joints = along_graph.joint_blocks(graph_of(order), joints, operators)
    return along(order, [([diagonal(masses)], 1.0, None, 0)], border, of_joints)


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
        rows = times(values.swapaxes(0, 1), operators).transpose(2, 0, 1)
        at = jnp.asarray(np.asarray(bodies)[:, None] == np.arange(n), dtype)
        return rows[:, :, None, :] * at[:, None, :, None]

    for group in joints:
        parts = [
            placed(bodies, values, pick_bodies(bodies, operators))
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


def tangent_operators(space: AbstractCoordinates, x: Increment) -> Operators:
    """Tangent operators of all bodies at their local coordinates; None for the identity."""
    if x is None or isinstance(space, AbstractVectorSpace):
        return None
    first = 3 if space.hybrid else 0
    basis = jnp.eye(space.nv, dtype=jax.tree.leaves(x)[0].dtype)[first:]
    return jax.vmap(lambda x: tangent_columns(space, x, basis)[first:], out_axes=2)(
        jax.tree.map(lambda x: x.reshape(-1, space.nv), x)
    )
