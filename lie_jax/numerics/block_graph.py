"""Matrices whose blocks follow any graph, and linear equations with them.

A node (see `graphs`) has the velocities of a body, with the multipliers of constraints of its own,
or the multipliers of a joint. Joints couple their multipliers with the velocities of their bodies,
forces the velocities of bodies. The numbers run as one scan through a list of operations on single
blocks, found once: the compiled program depends on neither the size nor the shape of the graph.

Nothing is pivoted: multipliers are eliminated after bodies, which leave their compliance on the
diagonal. Blocks are on the last axis of an array, where the processor takes several at once.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.numerics import gather, rules, small
from lie_jax.numerics.block_matrix import LIGHTEST, inverse_of
from lie_jax.numerics.dense import LARGEST_SUM, DenseMatrix
from lie_jax.numerics.forest import total
from lie_jax.numerics.graphs import SUBTRACT, Graph, Place, Plan, plan_of
from lie_jax.numerics.matrices import AbstractMatrix


class Blocks(NamedTuple):
    """Blocks (rows, columns, count) of a matrix, and the nodes of their rows and columns.

    Blocks at one place add up. A node of -1 stands for the ground, whose blocks do not count.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    values: Float[Array, "_ _ count"]

    @property
    def places(self) -> tuple[Place, ...]:
        """Nodes of rows and columns of each block."""
        return tuple(zip(self.rows, self.columns, strict=True))


def concatenate(blocks: Sequence[Blocks]) -> Blocks:
    """Blocks of all these together, of one shape."""
    rows, columns = (sum(nodes, ()) for nodes in zip(*(b[:2] for b in blocks), strict=True))
    return Blocks(rows, columns, jnp.concatenate([b.values for b in blocks], axis=2))


def sum_by_place(blocks: Sequence[Blocks]) -> Blocks:
    """The sums of blocks at one place, in the order in which places appear first."""
    every = concatenate(blocks)
    numbers = {place: k for k, place in enumerate(dict.fromkeys(_existing_places(every.places)))}
    if tuple(numbers) == every.places:
        return every
    indices = tuple(numbers.get(place, -1) for place in every.places)
    values = gather.add_up_by_table(indices, every.values, len(numbers), axis=2)
    rows, columns = zip(*numbers, strict=True)
    return Blocks(rows, columns, values)


def _existing_places(places: Sequence[Place]) -> list[Place]:
    return [place for place in places if min(place) >= 0]


class BlockGraph(AbstractMatrix):
    """A matrix [[S, Bᵀ], [B', C]] of velocities and multipliers in blocks along a graph.

    `values` (m, m, blocks) are its blocks at `places`, each place but those of the ground at most
    once, padded by zeros; bodies have a diagonal one. `corner` (m, joints) are the diagonals of the
    joints' own blocks, one where a joint has fewer multipliers. `lowered` (m, joints), if there, is
    subtracted from them where the matrix is eliminated; corrections of solutions remove its effect.
    """

    values: Float[Array, "m m blocks"]
    corner: Float[Array, "m joints"]
    places: tuple[Place, ...] = eqx.field(static=True)
    graph: Graph = eqx.field(static=True)
    lowered: Float[Array, "m joints"] | None = None

    @override
    def transpose(self):
        places = tuple((j, i) for i, j in self.places)
        return dataclasses.replace(self, values=small.transpose(self.values), places=places)

    @override
    def matvec(self, x):
        # Auxiliary unknowns follow from their equations.
        nodes = self.graph.split(x)
        product = self._product(nodes)
        if self.graph.auxiliary.any():
            auxiliary = jnp.asarray(self.graph.auxiliary, product.dtype)
            product = self._product(nodes - auxiliary * product)
        return self.graph.join(product)

    def _product(self, nodes: Float[Array, "m nodes"]) -> Float[Array, "m nodes"]:
        rows, columns = zip(*self.places, strict=True)
        products = small.matvec(self.values, gather.pick(columns, nodes, axis=1))
        y = gather.add_up(rows, products, nodes.shape[1], axis=1)
        own = self.corner * nodes[:, self.graph.bodies :]
        return y + jnp.pad(own, ((0, 0), (self.graph.bodies, 0)))

    @override
    def solve(self, b):
        # Corrected once if the diagonal is lowered, so that Newton's method converges
        # quadratically.
        return self._solve(b, rules.stop_gradient(self).inverse(), 0 if self.lowered is None else 1)

    @override
    def solve_from_by(self, y, solve, b):
        if self.lowered is None:
            return solve(b)
        # Rounding leaves other pivots of dependent rows than the lowering. A solution for all
        # multipliers has no part of those of y, whatever these pivots are.
        known = jnp.where(self.graph.multipliers, y, 0.0)
        return solve(b + self._forces(known)) - known

    def _forces(self, multipliers: Float[Array, " size"]) -> Float[Array, " size"]:
        """The product with a vector in which only multipliers are not zero."""
        graph, first = self.graph, self.graph.bodies
        if graph.bordered or graph.auxiliary.any():
            return self.matvec(multipliers)
        # Columns of joints have no other blocks than these: a fraction of the whole product, which
        # would be a fifth of a step's cost.
        chosen = [k for k, (i, j) in enumerate(self.places) if 0 <= i < first <= j]
        bodies, joints = zip(*(self.places[k] for k in chosen), strict=True)
        nodes = graph.split(multipliers)
        forces = small.matvec(
            gather.pick(tuple(chosen), self.values, axis=2), gather.pick(joints, nodes, axis=1)
        )
        return graph.join(gather.add_up(bodies, forces, nodes.shape[1], axis=1))

    @override
    def solve_constrained(self, b):
        return self._solve(b, rules.stop_gradient(self).regularize().inverse(), 2)

    def _solve(self, b: Array, factors: "Factors", corrections: int) -> Array:
        def solution(factors, matvec, b):
            if not corrections:
                return factors @ b
            if corrections == 1:
                x = factors @ b
                return x + factors @ (b - matvec(x))
            # A loop that starts from nothing holds the operations once.
            steps = corrections + 1
            return jax.lax.fori_loop(
                0, steps, lambda _, x: x + factors @ (b - matvec(x)), jnp.zeros_like(b)
            )

        # Derivatives are solutions with the same factors.
        return jax.lax.custom_linear_solve(
            self.matvec,
            b,
            solve=lambda matvec, b: solution(factors, matvec, b),
            transpose_solve=lambda matvec, b: solution(factors.transpose(), matvec, b),
        )

    @override
    def inverse(self):
        m, dtype = len(self.corner), self.values.dtype
        plan = plan_of(self.graph, self.places)
        diagonal = self.corner if self.lowered is None else self.corner - self.lowered
        corner = jnp.eye(m, dtype=dtype)[:, :, None] * diagonal[None]
        filled = jnp.zeros((m, m, plan.filled), dtype)
        table = jnp.concatenate([self.values, corner, filled], axis=2)
        factors = _factorize(plan, jnp.moveaxis(table, 2, 0), self.graph.bordered)
        return Factors(factors, self.places, self.graph)

    @override
    def regularize(self):
        # Pivots of dependent rows have the lowering as their smallest part. A smaller one would
        # leave less of it in a solution, and more rounding, which no pivoting bounds: eps^(2/3), in
        # place of eps^(3/4), makes both small enough that two corrections remove them.
        graph, joints = self.graph, self.graph.joints
        if not joints:
            return self
        at = {place: k for k, place in enumerate(self.places)}
        pairs = [(i, j) for i, j in self.places if 0 <= i < graph.bodies <= j and (j, i) in at]
        bodies, nodes = zip(*pairs, strict=True)
        columns, rows = (
            gather.pick(tuple(at[place] for place in places), self.values, axis=2)
            for places in (pairs, [(j, i) for i, j in pairs])
        )
        bodies_at = tuple(at[body, body] for body in range(graph.bodies))
        diagonal = jnp.stack([gather.pick(bodies_at, row[i]) for i, row in enumerate(self.values)])
        there = jnp.asarray(1.0 - graph.missing, diagonal.dtype)
        diagonal = jnp.abs(diagonal) * there[:, : graph.bodies]
        # Auxiliary unknowns have units of their own.
        of_motion = jnp.asarray(~graph.auxiliary[:, : graph.bodies], diagonal.dtype)
        floor = LIGHTEST * jnp.max(diagonal * of_motion)
        ease = 1.0 / jnp.where(of_motion == 0.0, diagonal, jnp.maximum(diagonal, floor))
        sizes = small.matvec(jnp.abs(rows * small.transpose(columns)), _pick(bodies, ease))
        size = gather.add_up(tuple(j - graph.bodies for j in nodes), sizes, len(joints), axis=1)
        lowered = jnp.finfo(size.dtype).eps ** (2 / 3) * size * there[:, graph.bodies :]
        return dataclasses.replace(self, lowered=lowered)

    @override
    def plus(self, push):
        graph, n, k = self.graph, self.graph.bodies, self._velocities
        numbers = [number for node in graph.numbers[:n] for number in node[:k]]
        slots = tuple(np.argsort(numbers)[numbers.count(-1) :].tolist())
        # One unit velocity of all bodies at a time, at one node of each.
        most = max(map(len, self._clusters))
        there = np.zeros((most, n, 1))
        for nodes in self._clusters:
            there[np.arange(len(nodes)), nodes] = 1.0
        units = there[:, None] * np.eye(k)[None, :, None]

        def column(unit: Array) -> Array:
            moved = push(gather.pick(slots, unit.reshape(-1)))
            return gather.pick(tuple(numbers), moved).reshape(n, k).T

        units = jnp.asarray(units.reshape(most * k, n, k), self.values.dtype)
        added = jax.vmap(column, out_axes=1)(units).reshape(k, most, k, n)
        # Nodes of a body have blocks with each other.
        of_node = {node: nodes for nodes in self._clusters for node in nodes}
        at = tuple(
            of_node[j].index(j) * n + i if j in of_node and i in of_node[j] else -1
            for i, j in self.places
        )
        more = (0, graph.width - k)
        flat = jnp.pad(added.transpose(0, 2, 1, 3).reshape(k, k, most * n), (more, more, (0, 0)))
        return dataclasses.replace(self, values=self.values + gather.pick(at, flat, axis=2))

    @property
    def _clusters(self) -> tuple[tuple[int, ...], ...]:
        """Nodes of each body."""
        several = {node for nodes in self.graph.clusters for node in nodes}
        alone = ((node,) for node in range(self.graph.bodies) if node not in several)
        return *alone, *self.graph.clusters

    @override
    def with_rows(self, end):
        first, k = self.graph.bodies, self._velocities
        parts = []
        for matrix, of_joints in ((self, False), (end, True)):
            chosen = [
                number
                for number, place in enumerate(matrix.places)
                if min(place) >= 0 and (place[0] >= first) == of_joints
            ]
            if not chosen:
                # Loops of forces alone have no joints.
                continue
            rows, columns = zip(*(matrix.places[number] for number in chosen), strict=True)
            parts.append(Blocks(rows, columns, gather.pick(tuple(chosen), matrix.values, axis=2)))
        if self.graph.bordered:
            # Constraints of bodies stand in their diagonal blocks.
            at = {place: number for number, place in enumerate(end.places)}
            own = tuple(at[i, i] if i == j else -1 for i, j in parts[0].places)
            values = gather.pick(own, end.values[k:], axis=2)
            values = jnp.concatenate([parts[0].values[:k], values])
            parts[0] = parts[0]._replace(values=values)
        every = concatenate(parts)
        return dataclasses.replace(self, values=every.values, places=every.places)

    @property
    def _velocities(self) -> int:
        """Number of velocities among the unknowns of a body, the first ones."""
        return self.graph.bordered[0] if self.graph.bordered else len(self.graph.numbers[0])

    def full(self) -> DenseMatrix:
        """The matrix of full size."""
        n, m = len(self.graph.numbers), len(self.corner)
        at = np.asarray([(n if min(place) < 0 else place[0], place[1]) for place in self.places])
        table = jnp.zeros((n + 1, n, m, m), self.values.dtype)
        table = table.at[at[:, 0], at[:, 1]].add(jnp.moveaxis(self.values, 2, 0))[:n]
        own = np.asarray(self.graph.joints)
        corner = jnp.eye(m, dtype=table.dtype)[None] * self.corner.T[:, :, None]
        flat = table.at[own, own].add(corner).swapaxes(1, 2).reshape(n * m, n * m)
        there = np.flatnonzero(self.graph.missing.T.reshape(-1) == 0.0)
        # Slots of the unknowns in the order of a vector, auxiliary ones last.
        slots = there[np.argsort([number for number in self.graph.order if number >= 0])]
        rows = sum(len(self.graph.numbers[joint]) for joint in self.graph.joints)
        if self.graph.bordered:
            rows += self.graph.bodies * self.graph.bordered[1]
        return DenseMatrix(flat[slots[:, None], slots], rows)

    @override
    def smallest_row(self):
        return self.full().smallest_row()


def _pick(nodes: tuple[int, ...], values: Float[Array, "m n"]) -> Float[Array, "m nodes"]:
    return gather.pick(nodes, values, axis=1)


def block_graph(graph: Graph, blocks: Sequence[Blocks]) -> BlockGraph:
    """Matrix of blocks at different places, which may be smaller than the graph is wide."""
    m = graph.width
    padded = []
    for b in blocks:
        more = [(0, m - k) for k in b.values.shape[:2]]
        padded.append(b._replace(values=jnp.pad(b.values, (*more, (0, 0)))))
    every = concatenate(padded)
    corner = jnp.asarray(graph.missing[:, graph.bodies :], every.values.dtype)
    return BlockGraph(every.values, corner, every.places, graph)


class Factors(eqx.Module):
    """The elimination of a `BlockGraph`: inverse pivots, left factors and the rows of pivots."""

    table: Float[Array, "blocks m m"]
    places: tuple[Place, ...] = eqx.field(static=True)
    graph: Graph = eqx.field(static=True)
    is_transposed: bool = eqx.field(static=True, default=False)

    def transpose(self) -> "Factors":
        """The elimination of the transposed matrix."""
        return dataclasses.replace(self, is_transposed=not self.is_transposed)

    def __matmul__(self, b: Float[Array, " size"]) -> Float[Array, " size"]:
        """The solution for a right-hand side: the product with the inverse."""
        operations = plan_of(self.graph, self.places).solve
        if self.is_transposed:
            # The transposed product runs through the operations backwards.
            operations = operations[::-1, ::-1]

        # Forward, a node passes on what its unknowns change in the equations of nodes after it.
        # Backward, it takes up what those turned out to be, and its inverse pivot comes last.
        def operate(y, operation):
            target, block, source = operation
            block, other, old = _at(self.table, block), _at(y, source), _at(y, target)
            change = small.matvec(small.transpose(block) if self.is_transposed else block, other)
            is_own = source == target
            new = total(jnp.where(is_own, 0.0, old), jnp.where(is_own, change, -change))
            return _put(y, new, target), None

        y = self.graph.split(b).T
        y, _ = jax.lax.scan(operate, y, tuple(jnp.asarray(operations.T)))
        return self.graph.join(y.T)


def _factorize(
    plan: Plan, table: Float[Array, "blocks m m"], bordered: tuple[int, int] | None
) -> Float[Array, "blocks m m"]:
    # Each operation replaces one block of the table. A pivot is complete when it is inverted, for
    # the nodes before it have been eliminated. The branch keeps XLA from copying the table.
    def operate(table, operation):
        kind, target, a, b = operation

        def invert(left, right, old):
            return inverse_of(bordered)(left)

        def multiply(left, right, old):
            change = _matmul(left, right)
            return jnp.where(kind == SUBTRACT, old - change, change)

        def invert_rows(left, right, old):
            return small.inverse_by_rows(left)

        operands = _at(table, a), _at(table, b), _at(table, target)
        value = jax.lax.switch(kind, [invert, multiply, multiply, invert_rows], *operands)
        return _put(table, value, target), None

    return jax.lax.scan(operate, table, tuple(jnp.asarray(plan.factor.T)))[0]


def _matmul(a: Float[Array, "m m"], b: Float[Array, "m m"]) -> Float[Array, "m m"]:
    # A sum over more products than this goes to a library, which keeps loops from being compiled.
    parts = -(-a.shape[0] * b.size // LARGEST_SUM)
    cuts = [k * a.shape[0] // parts for k in range(parts + 1)]
    return jnp.concatenate([small.matmul(a[i:j], b) for i, j in itertools.pairwise(cuts)])


def _at(table: Array, number: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(table, number, keepdims=False)


def _put(table: Array, value: Array, number: Array) -> Array:
    return jax.lax.dynamic_update_index_in_dim(table, value, number, 0)
