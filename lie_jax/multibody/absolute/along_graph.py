"""Blocks of bodies and joints of a step's matrix along their graph.

A node of a body has its velocities, then the multipliers of the constraints among its coordinates;
a joint has its multipliers. The nodes of a stabilised step go on with auxiliary unknowns z, their
multipliers η, and the η of joints: see `elimination.stabilized_order_of`. Arrays have bodies or
elements on their last axis.
"""

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.multibody.absolute.elements import JointColumns, Matrices, diagonal
from lie_jax.numerics import gather, small
from lie_jax.numerics.block_graph import Blocks, block_graph, sum_by_place
from lie_jax.numerics.graphs import Graph
from lie_jax.numerics.matrices import AbstractMatrix
from lie_jax.systems.linearization import Factor

# Tangent operators (nv, nv, N) of bodies, (3, 3, N) for those that keep translations, or None.
Operators = Matrices | None
Rates = Sequence[tuple[Matrices, ...]]


class Part(NamedTuple):
    """Blocks between bodies, times a factor; their columns are times the `operators` of bodies, and
    begin at the column `first` of a body's unknowns.
    """

    blocks: Sequence[Blocks]
    factor: Factor = 1.0
    operators: Operators = None
    first: int = 0

    def scale(self, values: Matrices, border: Matrices | None) -> Matrices:
        """Values times the factor, of the size of a border of bodies if there is one."""
        if border is not None:
            values = embed(values, 0, self.first, len(border))
        return self.factor * values


@dataclasses.dataclass(frozen=True)
class AbstractOrder(abc.ABC):
    """Order of an elimination of bodies and joints, whose unknowns are those of a `graph`."""

    graph: Graph

    @abc.abstractmethod
    def matrix(
        self, parts: Sequence[Part], border: Matrices | None, joints: Sequence[Blocks]
    ) -> AbstractMatrix:
        """Matrix of sums of blocks between bodies with their `border`, and of blocks of joints."""


class GraphOrder(AbstractOrder):
    """Order along the graph of bodies and joints, which may have loops."""

    @override
    def matrix(self, parts, border, joints):
        total = [] if border is None else [diagonal(border)]
        missing = self.graph.missing[:, : self.graph.bodies]
        if missing.any():
            dtype = parts[0].blocks[0].values.dtype
            identity = jnp.eye(len(missing), dtype=dtype)
            total.append(diagonal(identity[:, :, None] * missing[:, None]))
        for part in parts:
            sums = sum_by_place(part.blocks)
            values = times(sums.values, pick_bodies(sums.columns, part.operators))
            total.append(sums._replace(values=part.scale(values, border)))
        return block_graph(self.graph, [sum_by_place(total), *joints])


def times(blocks: Float[Array, "..."], operators: Float[Array, "..."] | None) -> Array:
    """Columns of blocks times operators."""
    if operators is None:
        return blocks
    if operators.shape[0] == blocks.shape[1]:
        return small.matmul(blocks, operators)
    return jnp.concatenate([blocks[:, :3], small.matmul(blocks[:, 3:], operators)], axis=1)


def pick_bodies(bodies: tuple[int, ...], values: Operators) -> Operators:
    """Entries of the last axis at these bodies, zeros for the ground; None for None."""
    return None if values is None else gather.pick(bodies, values, axis=values.ndim - 1)


def embed(values: Matrices, row: int, column: int, size: int) -> Matrices:
    """Matrices (size, size, count) with these values from a row and a column on."""
    rows, columns, _ = values.shape
    widths = (row, size - row - rows), (column, size - column - columns), (0, 0)
    return jnp.pad(values, widths)


def border(coordinate_columns: Matrices, operators: Operators) -> Matrices | None:
    """Columns and rows of each body's own constraints in a block of its unknowns; None without."""
    nv, own, _ = coordinate_columns.shape
    if not own:
        return None
    rows = times(small.transpose(coordinate_columns), operators)
    return embed(coordinate_columns, 0, nv, nv + own) + embed(rows, nv, 0, nv + own)


def stabilized_border(
    coordinate_columns: Matrices,
    coordinate_rates: Matrices,
    start_columns: Matrices,
    operators: Operators,
    factor: Factor,
) -> Matrices:
    """Equations z = x - Nᵀη of each body, and its own constraints in a stabilised step.

    Columns of the constraints at the end and at the start of the step, and their rates, are (nv,
    rows, N).
    """
    nv, own, n = coordinate_columns.shape
    half = nv + own
    identity = jnp.eye(nv, dtype=coordinate_columns.dtype)[:, :, None]
    identity = jnp.broadcast_to(identity, (nv, nv, n))
    parts = [(-identity, half, 0), (identity, half, half)]
    if own:
        rows = small.transpose(coordinate_columns)
        rates = factor * small.transpose(coordinate_rates)
        parts += [
            (coordinate_columns, 0, nv),
            (rows, nv, 0),
            (times(rates, operators), nv, half),
            (start_columns, half, half + nv),
            (times(rows, operators), half + nv, half),
        ]
    return functools.reduce(jnp.add, (embed(*part, 2 * half) for part in parts))


def joint_blocks(
    graph: Graph,
    joints: Sequence[JointColumns],
    operators: Operators,
    rates: Rates | None = None,
    factor: Factor = 0.0,
) -> list[Blocks]:
    """Blocks Bᵀ and B T of joints in a graph; velocity constraints have B + `factor` R T."""
    columns, moved, unmoved = [], [], []
    for number, group in enumerate(joints):
        for slot, values in _free(group):
            columns.append(values)
            if rates is None:
                moved.append(values)
                continue
            last = values.shape[1] - group.velocity_rows
            positions, velocities = values[:, :last], values[:, last:]
            moved.append(_side_by_side(positions, factor * rates[number][slot][:, last:]))
            unmoved.append(_side_by_side(jnp.zeros_like(positions), velocities))
    if not columns:
        return []
    bodies, nodes = _ends(graph, joints)
    rows = times(small.transpose(_together(moved)), pick_bodies(bodies, operators))
    if unmoved:
        rows = rows + small.transpose(_together(unmoved))
    return [Blocks(bodies, nodes, _together(columns)), Blocks(nodes, bodies, rows)]


def stabilized_joint_blocks(
    graph: Graph,
    joints: Sequence[JointColumns],
    start_joints: Sequence[JointColumns],
    operators: Operators,
    rates: Rates,
    factor: Factor,
) -> list[Blocks]:
    """Blocks of joints in a stabilised step: Bᵀ of multipliers and Nᵀ of η, rows of rates and of
    positions.
    """
    columns, start_columns, moved, unmoved = [], [], [], []
    for number, (group, start) in enumerate(zip(joints, start_joints, strict=True)):
        for slot, values in _free(group):
            last = values.shape[1] - group.velocity_rows
            positions, normals = values[:, :last], start.values[slot][:, :last]
            none = jnp.zeros_like(positions)
            columns.append(_side_by_side(values, none))
            start_columns.append(_side_by_side(jnp.zeros_like(values), normals))
            moved.append(_side_by_side(factor * rates[number][slot], positions))
            unmoved.append(_side_by_side(values, none))
    if not columns:
        return []
    bodies, nodes = _ends(graph, joints)
    onto_x, onto_z, by_z, by_x = map(_together, (columns, start_columns, moved, unmoved))
    rows = times(small.transpose(by_z), pick_bodies(bodies, operators))
    # Velocities, then as many places as a body has constraints of its own.
    constraints = graph.bordered[1] if graph.bordered else 0
    between = jnp.zeros_like(onto_x[:constraints])
    both = jnp.concatenate([onto_x, between, onto_z])
    rows = jnp.concatenate([small.transpose(by_x), small.transpose(between), rows], axis=1)
    return [Blocks(bodies, nodes, both), Blocks(nodes, bodies, rows)]


def _free(group: JointColumns) -> list[tuple[int, Matrices]]:
    """Slots of a group that hold bodies, and their columns."""
    return [(k, x) for k, x in enumerate(group.values) if max(group.bodies[k]) >= 0]


def _ends(graph: Graph, joints: Sequence[JointColumns]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bodies at these slots, and the nodes of their joints."""
    bodies, nodes, first = [], [], graph.bodies
    for group in joints:
        for slot, _ in _free(group):
            bodies += group.bodies[slot]
            nodes += range(first, first + group.number)
        first += group.number
    return tuple(bodies), tuple(nodes)


def _side_by_side(*columns: Matrices) -> Matrices:
    return jnp.concatenate(columns, axis=1)


def _together(groups: Sequence[Matrices]) -> Matrices:
    """Columns of all elements, padded to as many as the largest group has."""
    width = max(values.shape[1] for values in groups)
    padded = [jnp.pad(x, ((0, 0), (0, width - x.shape[1]), (0, 0))) for x in groups]
    return jnp.concatenate(padded, axis=2)
