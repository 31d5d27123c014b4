"""Linearised equations of motion of bodies, placed in a full matrix, along a forest or a graph.

The blocks of bodies, joints and forces (see `elements`) are summed where they stand: anywhere in a
matrix of full size, or as the order of an elimination stores them (see `along_graph` and
`along_forest`). Arrays have bodies or elements on their last axis.
"""

import functools
from collections.abc import Callable, Sequence
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.multibody.absolute import along_graph
from lie_jax.multibody.absolute.along_graph import AbstractOrder, Operators, Part
from lie_jax.multibody.absolute.elements import JointColumns, Matrices
from lie_jax.multibody.absolute.layout import Layout
from lie_jax.numerics import gather, small
from lie_jax.numerics.block_graph import Blocks
from lie_jax.spaces.base import AbstractVectorSpace
from lie_jax.systems.linearization import (
    AbstractLinearization,
    AbstractReactions,
    Factor,
    Increment,
    MatrixLinearization,
    tangent_columns,
)


class ElementLinearization(AbstractLinearization):
    """Linearization in blocks: parts of M, K and C, and the columns of Bᵀ, in a `layout` of nodes.

    `coordinate_columns` (nv, rows, nodes) are those of the constraints among coordinates.
    `joint_rates` and `coordinate_rates` return the derivatives of the constraints' rates as in
    `elements`, `rates` is the same for a velocity as in `AbstractDenseLinearization`. With an
    `order` of elimination the step's matrix has blocks along the forest or the graph of bodies and
    joints, that of a stabilised step in the order `stabilized`.
    """

    layout: Layout
    order: AbstractOrder | None = eqx.field(static=True)
    stabilized: AbstractOrder | None = eqx.field(static=True)
    residual: Float[Array, " nv"]
    mass: Sequence[Blocks]
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
            space=self.layout.space,
            residual=self.residual,
            constraints=constraint_rows(self.joints, self.coordinate_columns, self.layout),
            bounds=None,
            rates=self.rates,
            velocity_rows=self._velocity_rows,
            mass=full(self.mass, self.layout, self.residual.dtype),
            stiffness=full(self.stiffness, self.layout, self.residual.dtype),
            damping=full(self.damping, self.layout, self.residual.dtype),
        )

    @override
    def step_matrix(self, x, stiffness, damping, mass=1.0):
        if self.order is None:
            return self.dense().step_matrix(x, stiffness, damping, mass)
        operators, rates, factor = tangent_operators(self.layout, x), None, 1.0
        if self._velocity_rows:
            rates, factor = self.joint_rates(), stiffness / damping
        graph = self.order.graph
        joints = along_graph.joint_blocks(graph, self.joints, operators, rates, factor)
        border = along_graph.border(self.coordinate_columns, operators)
        parts = self._direct(damping, mass), Part(self.stiffness, stiffness, operators)
        return self.order.matrix(parts, border, joints)

    @override
    def stabilized_matrix(self, x, stiffness, damping, reactions):
        if self.stabilized is None:
            return super().stabilized_matrix(x, stiffness, damping, reactions)
        # The algebra of a system with this order has such reactions.
        reactions = cast(ElementReactions, reactions)
        operators, factor = tangent_operators(self.layout, x), stiffness / damping
        border = along_graph.stabilized_border(
            self.coordinate_columns,
            self.coordinate_rates(),
            reactions.coordinate_columns,
            operators,
            factor,
        )
        graph, half = self.stabilized.graph, len(border) // 2
        joints = along_graph.stabilized_joint_blocks(
            graph, self.joints, reactions.joints, operators, self.joint_rates(), factor
        )
        parts = self._direct(damping), Part(self.stiffness, stiffness, operators, half)
        return self.stabilized.matrix(parts, border, joints)

    def _direct(self, damping: Factor, mass: Factor = 1.0) -> Part:
        """Blocks of m M and d C."""
        pairs = ((mass, self.mass), (damping, self.damping))
        return Part([b._replace(values=x * b.values) for x, blocks in pairs for b in blocks])

    @property
    def _velocity_rows(self) -> int:
        return sum(group.velocity_rows * group.number for group in self.joints)


def full(blocks: Sequence[Blocks], layout: Layout, dtype: DTypeLike) -> Float[Array, "nv nv"]:
    """The matrix of full size with these blocks."""
    size, n = layout.size, len(layout.numbers)
    if not blocks:
        nv = layout.space.nv
        return jnp.zeros((nv, nv), dtype)
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
    flat = summed.reshape(size, size, n, n).transpose(2, 0, 3, 1).reshape(n * size, n * size)
    return layout.velocities(layout.velocities(flat).T).T


def product(
    blocks: Sequence[Blocks], layout: Layout, v: Float[Array, " nv"]
) -> Float[Array, " nv"]:
    """Product of the matrix with these blocks and a velocity."""
    nodes, n = layout.at_nodes(v), len(layout.numbers)
    total = jnp.zeros_like(nodes)
    for rows, columns, values in blocks:
        moved = small.matvec(values, gather.pick(columns, nodes, axis=1))
        total = total + gather.add_up(rows, moved, n, axis=1)
    return layout.velocities(total.T.reshape(-1))


class ElementReactions(AbstractReactions):
    """Reactions of position constraints by the columns of Bᵀ of joints, and of coordinates (nv,
    rows, nodes).
    """

    joints: Sequence[JointColumns]
    coordinate_columns: Matrices
    layout: Layout

    @property
    @override
    def rows(self):
        rows = constraint_rows(self.joints, self.coordinate_columns, self.layout)
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
        return self.layout.velocities(total.T.reshape(-1))


def constraint_rows(
    joints: Sequence[JointColumns], coordinate_columns: Matrices, layout: Layout
) -> Float[Array, "nc nv"]:
    """B of all nodes from the columns of Bᵀ.

    Rows are in the order of `RigidBodySystem`: position constraints of joints, then those among
    coordinates, then velocity constraints of joints.
    """
    n = coordinate_columns.shape[2]
    dtype = coordinate_columns.dtype
    positions, velocities = [], []

    def embed(bodies, values):
        # A product with 0 and 1, whose reverse needs no scatter.
        rows = values.transpose(2, 1, 0)
        at = jnp.asarray(np.asarray(bodies)[:, None] == np.arange(n), dtype)
        return rows[:, :, None, :] * at[:, None, :, None]

    for group in joints:
        parts = [
            embed(bodies, values)
            for bodies, values in zip(group.bodies, group.values, strict=True)
            if max(bodies) >= 0
        ]
        total = functools.reduce(jnp.add, parts)
        last = total.shape[1] - group.velocity_rows
        for part, rows in ((positions, total[:, :last]), (velocities, total[:, last:])):
            part.append(rows.reshape(-1, n * rows.shape[3]))
    coordinates = embed(tuple(range(n)), coordinate_columns)
    flat = coordinates.reshape(-1, n * coordinates.shape[3])
    return layout.velocities(jnp.concatenate([*positions, flat, *velocities]).T).T


def tangent_operators(layout: Layout, x: Increment) -> Operators:
    """Tangent operators of all nodes at their local coordinates; None for the identity."""
    space = layout.formulation
    if x is None or isinstance(space, AbstractVectorSpace):
        return None
    first, count = 3 if space.hybrid else 0, layout.bodies * space.nv
    basis = jnp.eye(space.nv, dtype=jax.tree.leaves(x)[0].dtype)[first:]
    operators = jax.vmap(lambda x: tangent_columns(space, x, basis)[first:], out_axes=2)(
        jax.tree.map(lambda x: x[:count].reshape(-1, space.nv), x)
    )
    others = len(layout.numbers) - layout.bodies
    if not others:
        return operators
    # Amplitudes are their own local coordinates.
    identity = jnp.eye(len(basis), dtype=operators.dtype)[:, :, None]
    return jnp.concatenate([operators, jnp.repeat(identity, others, axis=2)], axis=2)
