"""Matrices whose blocks follow a forest, and linear equations with them in O(n) operations.

A node of the forest has the unknowns of one body, its `velocities` and the multipliers of its own
constraints, and the multipliers of the
constraints that tie it to its parent or to the ground. It is coupled with its parent and its
children only, so that elimination from the leaves to the roots, each node with its multipliers at
once, fills in no other block. The velocities of a node are eliminated before its multipliers and
nothing is pivoted: with the inertia that the children add to it, the block of its velocities is
that of an articulated body.

Arrays have the nodes on their last axis, where the processor takes several at once. Source: Baraff,
"Linear-time dynamics using Lagrange multipliers" (1996).
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.numerics import gather, lapack, small
from lie_jax.numerics.bordered import bordered_inverse
from lie_jax.numerics.forest import forest_of, scan_down, scan_up, total
from lie_jax.numerics.matrices import AbstractMatrix

# Diagonal entries below this part of the largest do not tell how easily a velocity changes:
# coordinates that are redundant have entries of any size.
LIGHTEST = 1e-6


class BlockTree(AbstractMatrix):
    """A matrix [[S, Bᵀ], [B', C]] of velocities and multipliers in blocks along a forest.

    Of n nodes with k unknowns of a body, then at most r multipliers, m = k + r unknowns each:

    - `nodes` (m, m, n): rows and columns of a node, but for its diagonal of the multipliers;
    - `corner` (r, n): this diagonal, one where a node has fewer than r multipliers;
    - `columns` (m, k, n): rows of a node, columns of its parent's body;
    - `rows` (k, m, n): rows of its parent's body, columns of a node.

    Without `is_coupled` no unknown of a body meets one of its parent. `parent_of` is the parent of
    each node, -1 for none. `bodies` has the places in a vector of each body's unknowns, n k in all,
    -1 for auxiliary ones (see `graphs.Graph`); `multipliers` those of each node's multipliers, n r
    in all, -1 for none. `bordered` is that of a `Graph`.
    """

    nodes: Float[Array, "m m n"]
    corner: Float[Array, "r n"]
    columns: Float[Array, "m k n"]
    rows: Float[Array, "k m n"]
    is_coupled: bool = eqx.field(static=True)
    parent_of: tuple[int, ...] = eqx.field(static=True)
    bodies: tuple[int, ...] = eqx.field(static=True)
    multipliers: tuple[int, ...] = eqx.field(static=True)
    bordered: tuple[int, int] | None = eqx.field(static=True, default=None)

    @property
    @override
    def may_be_redundant(self):
        # Rows depend on each other only within a joint that is singular by itself, of which
        # messages warn: the defaults of `solve_from` and `solve_from_by` suffice, too.
        return False

    @override
    def transpose(self):
        nodes, columns, rows = map(small.transpose, (self.nodes, self.rows, self.columns))
        return dataclasses.replace(self, nodes=nodes, columns=columns, rows=rows)

    @override
    def matvec(self, x):
        # Auxiliary unknowns follow from their equations.
        values = self.split(x)
        product = self._product(values)
        if -1 in self.bodies:
            auxiliary = jnp.asarray(self._auxiliary, product.dtype)
            auxiliary = jnp.pad(auxiliary, ((0, len(values) - len(auxiliary)), (0, 0)))
            product = self._product(values - auxiliary * product)
        return self.join(product)

    @property
    def _auxiliary(self) -> np.ndarray:
        """Matrix (k, n): whether an unknown of a body is an auxiliary one."""
        return np.asarray(self.bodies).reshape(-1, len(self.rows)).T < 0

    def _product(self, values: Float[Array, "m n"]) -> Float[Array, "m n"]:
        k = len(self.rows)
        parents = self.parent_values(values[:k])
        product = small.matvec(self.nodes, values) + small.matvec(self.columns, parents)
        onto_parents = self.child_sums(small.matvec(self.rows, values))
        return product + jnp.concatenate([onto_parents, self.corner * values[k:]])

    @override
    def solve(self, b):
        return self.solution(lambda matrix, b: matrix.inverse() @ b, b)

    @override
    def inverse(self):
        # Where no node has two children and none is coupled to its parent's velocities, all
        # velocities are eliminated at once: what is left to do in order are blocks of the size of
        # the multipliers.
        k, parent_of, nodes = len(self.rows), self.parent_of, self.nodes
        corner = jnp.eye(len(self.corner), dtype=nodes.dtype)[:, :, None] * self.corner[None]
        parents = [parent for parent in parent_of if parent >= 0]
        is_paths = len(parents) == len(set(parents))
        if self.is_coupled or not self.multipliers or not is_paths:
            nodes = nodes + jnp.pad(corner, ((k, 0), (k, 0), (0, 0)))
            eliminated = eliminate(parent_of, nodes, self.columns, self.rows, self.bordered)
            return Factors(self, eliminated, None)
        reactions, rows, parent_rows = nodes[:k, k:], nodes[k:, :k], self.columns[k:]
        inverses = inverse_of(self.bordered)(nodes[:k, :k])
        moved = small.matmul(inverses, reactions)
        parent_moved = small.matmul(self.parent_values(inverses), self.rows[:, k:])
        nodes = corner - small.matmul(rows, moved) - small.matmul(parent_rows, parent_moved)
        columns = -small.matmul(parent_rows, self.parent_values(moved))
        rows = -small.matmul(self.parent_values(rows), parent_moved)
        return Factors(self, eliminate(parent_of, nodes, columns, rows), inverses)

    @override
    def solve_constrained(self, b):
        def solve_twice(matrix, b):
            factors = matrix.regularize().inverse()
            first = factors @ b
            return first + factors @ (b - matrix.matvec(first))

        # One elimination serves a solution and its correction.
        return self.solution(solve_twice, b)

    @override
    def regularize(self):
        k = len(self.rows)
        diagonal = jnp.abs(jnp.stack([self.nodes[i, i] for i in range(k)]))
        # Auxiliary unknowns have units of their own.
        floor = LIGHTEST * jnp.max(jnp.where(self._auxiliary, 0.0, diagonal))
        ease = 1.0 / jnp.where(self._auxiliary, diagonal, jnp.maximum(diagonal, floor))
        sizes = jnp.abs(self.nodes[k:, :k] * small.transpose(self.nodes[:k, k:]))
        parent_sizes = jnp.abs(self.columns[k:] * small.transpose(self.rows[:, k:]))
        size = small.matvec(sizes, ease) + small.matvec(parent_sizes, self.parent_values(ease))
        there = np.asarray(self.multipliers, int).reshape(size.shape[1], -1).T >= 0
        lowered = jnp.where(there, jnp.finfo(size.dtype).eps ** 0.75 * size, 0.0)
        return dataclasses.replace(self, corner=self.corner - lowered)

    @property
    def _velocities(self) -> int:
        """Number of velocities among the unknowns of a body, the first ones."""
        return self.bordered[0] if self.bordered else len(self.rows)

    @override
    def plus(self, push):
        (m, _, n), k = self.nodes.shape, self._velocities
        # One unit velocity of all bodies at a time.
        units = jnp.tile(jnp.eye(k, dtype=self.rows.dtype), (1, n))
        added = jax.vmap(push)(units).reshape(k, n, k).transpose(2, 0, 1)
        nodes = self.nodes + jnp.pad(added, ((0, m - k), (0, m - k), (0, 0)))
        return dataclasses.replace(self, nodes=nodes)

    @override
    def with_rows(self, end):
        k = self._velocities
        nodes, columns = (
            jnp.concatenate([a[:k], b[k:]])
            for a, b in ((self.nodes, end.nodes), (self.columns, end.columns))
        )
        return dataclasses.replace(self, nodes=nodes, columns=columns)

    @override
    def smallest_row(self):
        # Of the rows of a node, from the roots outwards.
        k = len(self.rows)
        columns, corner = unit(jnp.moveaxis(self.nodes[k:, :k], -1, 0), 1), self.corner.T
        fill = jnp.eye(corner.shape[1], dtype=corner.dtype)[None] * corner[:, None, :]
        rows = unit(jnp.concatenate([columns, fill], axis=2), 2)
        return jnp.min(jax.vmap(lapack.smallest_singular_value)(rows), initial=1.0)

    def split(self, x: Float[Array, " size"]) -> Float[Array, "m n"]:
        """The unknowns of the body and the multipliers of each node."""
        k, _, n = self.rows.shape
        bodies = gather.pick(self.bodies, x).reshape(n, k)
        multipliers = gather.pick(self.multipliers, x).reshape(n, -1)
        return jnp.concatenate([bodies.T, multipliers.T])

    def join(self, values: Float[Array, "m n"]) -> Float[Array, " size"]:
        """The vector of these unknowns: the inverse of `split`."""
        bodies, multipliers = small.split_at(values, len(self.rows))
        flat = jnp.concatenate([bodies.T.reshape(-1), multipliers.T.reshape(-1)])
        numbers = [*self.bodies, *self.multipliers]
        slots = {number: slot for slot, number in enumerate(numbers) if number >= 0}
        return gather.pick(tuple(slots[number] for number in range(len(slots))), flat)

    def parent_values(self, values: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """Values of the parent of each node, zero without a parent."""
        return gather.pick(self.parent_of, values, axis=values.ndim - 1)

    def child_sums(self, values: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """The sums over the children of each node."""
        last = values.ndim - 1
        return gather.add_up(self.parent_of, values, values.shape[last], axis=last)


def unit(x: Array, axis: int) -> Array:
    """Vectors along an axis scaled to length one; zero vectors stay zero."""
    square = jnp.sum(x * x, axis=axis, keepdims=True)
    return x / jnp.sqrt(jnp.where(square > 0.0, square, 1.0))


def inverse_of(bordered: tuple[int, int] | None) -> Callable:
    """Inverse of blocks that begin with a body, which has constraints of its own if `bordered`."""
    if bordered is None:
        return small.inverse
    return lambda block: bordered_inverse(block, *bordered)


class Elimination(eqx.Module):
    """A matrix of coupled nodes, eliminated from the leaves to the roots.

    A node has m unknowns; its children are coupled with the first p. Kept of each node, parents
    first: the inverse of its block after the elimination of its children, this inverse times its
    columns of the parent, and the parent's rows.
    """

    inverses: Float[Array, "n m m"]
    columns: Float[Array, "n m p"]
    rows: Float[Array, "n p m"]
    parent_of: tuple[int, ...] = eqx.field(static=True)

    def solve(self, b: Float[Array, "m n"]) -> Float[Array, "m n"]:
        """Solution for right-hand sides with the nodes on the last axis.

        Towards the roots a node passes on what its unknowns, as functions of the parent's, change
        in the parent's equations. A root then knows its own unknowns, and passes them to its
        children. The order of the nodes completes a sum before it is passed on.
        """
        order, forest = forest_of(self.parent_of)
        p, m = self.rows.shape[1:]

        def towards_roots(right, node):
            inverse, rows = node
            y = small.matvec(inverse, right)
            return jnp.pad(-small.matvec(rows, y), (0, m - p)), y

        def towards_leaves(parent, node):
            columns, y = node
            return total(y, -small.matvec(columns, parent[:p])), None

        none = jnp.zeros((1, m), b.dtype)
        right = jnp.concatenate([none, gather.pick(order, b.T)])
        _, y = scan_up(forest, towards_roots, right, (self.inverses, self.rows))
        x, _ = scan_down(forest, towards_leaves, none, (self.columns, y))
        return gather.pick(tuple(np.argsort(order).tolist()), x).T


def eliminate(
    parent_of: tuple[int, ...],
    nodes: Float[Array, "m m n"],
    columns: Float[Array, "m p n"],
    rows: Float[Array, "p m n"],
    bordered: tuple[int, int] | None = None,
) -> Elimination:
    """Elimination of a matrix of nodes: blocks of nodes, their columns of the parent, and the
    parent's rows of them.

    The scan runs from the leaves to the roots and passes on the change of the parent's block. A
    node's block is complete when all its children have been eliminated, which its order ensures.
    No block outside of the forest fills in.
    """
    order, forest = forest_of(parent_of)
    # The nodes in their order on the first axis.
    blocks, columns, rows = (
        gather.pick(order, jnp.moveaxis(x, -1, 0)) for x in (nodes, columns, rows)
    )
    more = blocks.shape[1] - rows.shape[1]

    def towards_roots(block, node):
        columns, rows = node
        inverted = inverse_of(bordered)(block)
        change = small.matmul(rows, small.matmul(inverted, columns))
        return jnp.pad(-change, (0, more)), inverted

    # So little passes through the loop with three multipliers that XLA makes one function of it:
    # the inverted columns are computed afterwards, all at once.
    blocks = jnp.concatenate([jnp.zeros_like(blocks[:1]), blocks])
    _, inverses = scan_up(forest, towards_roots, blocks, (columns, rows))
    solved = small.matmul(jnp.moveaxis(inverses, 0, -1), jnp.moveaxis(columns, 0, -1))
    return Elimination(inverses, jnp.moveaxis(solved, -1, 0), rows, parent_of)


class Factors(eqx.Module):
    """The elimination of a `BlockTree`.

    `inverses` (k, k, n) are those of the velocities' blocks where all velocities are eliminated
    before the multipliers.
    """

    matrix: BlockTree
    elimination: Elimination
    inverses: Float[Array, "k k n"] | None

    def __matmul__(self, b: Float[Array, " size"]) -> Float[Array, " size"]:
        """The solution for a right-hand side: the product with the inverse."""
        matrix, values = self.matrix, self.matrix.split(b)
        if self.inverses is None:
            return matrix.join(self.elimination.solve(values))
        k = len(self.inverses)
        velocities, multipliers = small.split_at(values, k)
        free = small.matvec(self.inverses, velocities)
        by_node = small.matvec(matrix.nodes[k:, :k], free)
        by_parent = small.matvec(matrix.columns[k:], matrix.parent_values(free))
        multipliers = self.elimination.solve(multipliers - by_node - by_parent)
        force = small.matvec(matrix.nodes[:k, k:], multipliers)
        force = force + matrix.child_sums(small.matvec(matrix.rows[:, k:], multipliers))
        velocities = free - small.matvec(self.inverses, force)
        return matrix.join(jnp.concatenate([velocities, multipliers]))
