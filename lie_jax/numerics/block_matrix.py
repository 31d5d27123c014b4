"""Matrices whose blocks follow a forest, and linear equations with them in O(n) operations.

A node of the forest has the unknowns of one body, its `velocities`, and the multipliers of the
constraints that tie it to its parent or to the ground. It is coupled with its parent and its
children only, so that elimination from the leaves to the roots, each node with its multipliers at
once, fills in no other block. The velocities of a node are eliminated before its multipliers and
nothing is pivoted: with the inertia that the children add to it, the block of its velocities is
that of an articulated body.

Arrays have the nodes on their last axis, where the processor takes several at once. Source: Baraff,
"Linear-time dynamics using Lagrange multipliers" (1996).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.numerics import gather, small
from lie_jax.numerics.forest import forest_of, scan_down, scan_up, total

# Diagonal entries below this part of the largest do not tell how easily a velocity changes:
# coordinates that are redundant have entries of any size.
LIGHTEST = 1e-6


class BlockTree(eqx.Module):
    """A matrix [[S, Bᵀ], [B', C]] of velocities and multipliers in blocks along a forest.

    Of n nodes with k velocities and at most r multipliers each:

    - `own` (k, k, n): rows and columns of a node's velocities;
    - `reactions` (k, r, n), `rows` (r, k, n): its velocities and its multipliers;
    - `corner` (r, n): the diagonal of the multipliers, one where a node has fewer than r;
    - `parent_reactions` (k, r, n), `parent_rows` (r, k, n): its parent's velocities and its own
      multipliers;
    - `by_parent`, `by_child` (k, k, n): rows of a node and columns of its parent, and the
      transposed place; None for no such blocks.

    `parent_of` is the parent of each node, -1 for none; `multipliers` has the number of each node's
    multipliers among all of them, n r in all, -1 for none. As a vector the velocities of all nodes
    come first, then the multipliers.
    """

    own: Float[Array, "k k n"]
    reactions: Float[Array, "k r n"]
    rows: Float[Array, "r k n"]
    corner: Float[Array, "r n"]
    parent_reactions: Float[Array, "k r n"]
    parent_rows: Float[Array, "r k n"]
    by_parent: Float[Array, "k k n"] | None
    by_child: Float[Array, "k k n"] | None
    parent_of: tuple[int, ...] = eqx.field(static=True)
    multipliers: tuple[int, ...] = eqx.field(static=True)

    def transpose(self) -> "BlockTree":
        """The transposed matrix."""

        def turned(x: Array) -> Array:
            return x.swapaxes(0, 1)

        return BlockTree(
            turned(self.own),
            turned(self.rows),
            turned(self.reactions),
            self.corner,
            turned(self.parent_rows),
            turned(self.parent_reactions),
            None if self.by_child is None else turned(self.by_child),
            None if self.by_parent is None else turned(self.by_parent),
            self.parent_of,
            self.multipliers,
        )

    def matvec(self, x: Float[Array, " size"]) -> Float[Array, " size"]:
        """The product with a vector."""
        velocities, multipliers = self.split(x)
        above = self.parent_values(velocities)
        dynamic = small.matvec(self.own, velocities) + small.matvec(self.reactions, multipliers)
        onto_parent = small.matvec(self.parent_reactions, multipliers)
        if self.by_parent is not None:
            dynamic = dynamic + small.matvec(self.by_parent, above)
        if self.by_child is not None:
            onto_parent = onto_parent + small.matvec(self.by_child, velocities)
        rows = small.matvec(self.rows, velocities) + small.matvec(self.parent_rows, above)
        rows = rows + self.corner * multipliers
        return self.joined(dynamic + self.child_sums(onto_parent), rows)

    def solve(self, b: Float[Array, " size"]) -> Float[Array, " size"]:
        """The vector whose product is b; differentiable to any order in both modes."""
        return jax.lax.custom_linear_solve(
            self.matvec,
            b,
            solve=lambda _, b: factors(self) @ b,
            transpose_solve=lambda _, b: factors(self.transpose()) @ b,
        )

    def solve_roughly(self, b: Float[Array, " size"]) -> Float[Array, " size"]:
        """Solution without a second attempt, as `solve`."""
        return self.solve(b)

    def inverse(self) -> "Factors":
        """The elimination, to be multiplied with vectors; not to be differentiated."""
        return factors(self)

    def solve_constrained(self, b: Float[Array, " size"]) -> Float[Array, " size"]:
        """As `DenseMatrix.solve_constrained`."""
        matrix = self.regularized()
        first = matrix.solve(b)
        return first + matrix.solve(b - self.matvec(first))

    def regularized(self) -> "BlockTree":
        """The matrix with its diagonal lowered as by `DenseMatrix.regularized`."""
        corner = self.corner - self._regularization()
        return eqx.tree_at(lambda tree: tree.corner, self, corner)

    def _regularization(self) -> Array:
        k = self.own.shape[0]
        own = jnp.abs(jnp.stack([self.own[i, i] for i in range(k)]))
        ease = 1.0 / jnp.maximum(own, LIGHTEST * jnp.max(own))
        sizes = jnp.abs(self.rows * self.reactions.swapaxes(0, 1))
        parent_values = jnp.abs(self.parent_rows * self.parent_reactions.swapaxes(0, 1))
        size = small.matvec(sizes, ease) + small.matvec(parent_values, self.parent_values(ease))
        there = np.asarray(self.multipliers, int).reshape(size.shape[1], -1).T >= 0
        return jnp.where(there, jnp.finfo(size.dtype).eps ** 0.75 * size, 0.0)

    def smallest_row(self) -> Float[Array, ""]:
        """The smallest singular value of the rows of a node, scaled to columns and rows of one
        length: zero if and only if the rows depend on each other, from the roots outwards.
        """
        columns, corner = unit(jnp.moveaxis(self.rows, -1, 0), 1), self.corner.T
        fill = jnp.eye(corner.shape[1], dtype=corner.dtype)[None] * corner[:, None, :]
        rows = unit(jnp.concatenate([columns, fill], axis=2), 2)
        return jnp.min(jnp.linalg.svd(rows, compute_uv=False), initial=1.0)

    def split(self, x: Float[Array, " size"]) -> tuple[Float[Array, "k n"], Float[Array, "r n"]]:
        """The velocities and the multipliers of each node."""
        k, r, n = self.reactions.shape
        velocities, multipliers = small.parted(x, n * k)
        own = gather.pick(self.multipliers, multipliers)
        return velocities.reshape(n, k).T, own.reshape(n, r).T

    def joined(
        self, velocities: Float[Array, "k n"], multipliers: Float[Array, "r n"]
    ) -> Float[Array, " size"]:
        """The vector of these velocities and multipliers."""
        size = sum(number >= 0 for number in self.multipliers)
        flat = gather.add_up(self.multipliers, multipliers.T.reshape(-1), size)
        return jnp.concatenate([velocities.T.reshape(-1), flat])

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
        nodes, forest = forest_of(self.parent_of)
        p, m = self.rows.shape[1:]

        def towards_roots(right, node):
            inverse, rows = node
            y = small.matvec(inverse, right)
            return jnp.pad(-small.matvec(rows, y), (0, m - p)), y

        def towards_leaves(parent, node):
            columns, y = node
            return total(y, -small.matvec(columns, parent[:p])), None

        none = jnp.zeros((1, m), b.dtype)
        right = jnp.concatenate([none, _nodes_first(nodes, b)])
        _, y = scan_up(forest, towards_roots, right, (self.inverses, self.rows))
        x, _ = scan_down(forest, towards_leaves, none, (self.columns, y))
        slots = tuple(np.argsort(nodes).tolist())
        return gather.pick(slots, x).T


def eliminate(
    parent_of: tuple[int, ...],
    own: Float[Array, "m m n"],
    columns: Float[Array, "m p n"],
    rows: Float[Array, "p m n"],
) -> Elimination:
    """Elimination of a matrix of nodes: blocks of nodes, their columns of the parent, and the
    parent's rows of them.

    The scan runs from the leaves to the roots and passes on the change of the parent's block. A
    node's block is complete when all its children have been eliminated, which its order ensures.
    No block outside of the forest fills in.
    """
    nodes, forest = forest_of(parent_of)
    own, columns, rows = (_nodes_first(nodes, blocks) for blocks in (own, columns, rows))
    more = own.shape[1] - rows.shape[1]

    def towards_roots(block, node):
        columns, rows = node
        inverted = small.inverse(block)
        change = small.matmul(rows, small.matmul(inverted, columns))
        return jnp.pad(-change, (0, more)), inverted

    # So little passes through the loop with three multipliers that XLA makes one function of it:
    # the inverted columns are computed afterwards, all at once.
    blocks = jnp.concatenate([jnp.zeros_like(own[:1]), own])
    _, inverses = scan_up(forest, towards_roots, blocks, (columns, rows))
    solved = small.matmul(jnp.moveaxis(inverses, 0, -1), jnp.moveaxis(columns, 0, -1))
    return Elimination(inverses, jnp.moveaxis(solved, -1, 0), rows, parent_of)


def _nodes_first(nodes: tuple[int, ...], values: Array) -> Array:
    """From nodes on the last axis to these nodes on the first one."""
    return gather.pick(nodes, jnp.moveaxis(values, -1, 0))


class Factors(eqx.Module):
    """The elimination of a `BlockTree`.

    `inverses` (k, k, n) are those of the velocities' own blocks where all velocities are eliminated
    before the multipliers.
    """

    tree: BlockTree
    elimination: "Elimination"
    inverses: Float[Array, "k k n"] | None

    def __matmul__(self, b: Float[Array, " size"]) -> Float[Array, " size"]:
        """The solution for a right-hand side: the product with the inverse."""
        tree = self.tree
        velocities, multipliers = tree.split(b)
        if self.inverses is None:
            k = velocities.shape[0]
            x = self.elimination.solve(jnp.concatenate([velocities, multipliers]))
            return tree.joined(x[:k], x[k:])
        free = small.matvec(self.inverses, velocities)
        moved = small.matvec(tree.rows, free) + small.matvec(
            tree.parent_rows, tree.parent_values(free)
        )
        found = self.elimination.solve(multipliers - moved)
        force = small.matvec(tree.reactions, found)
        force = force + tree.child_sums(small.matvec(tree.parent_reactions, found))
        return tree.joined(free - small.matvec(self.inverses, force), found)


def factors(tree: BlockTree) -> Factors:
    """The elimination of a matrix; not to be differentiated.

    Where no node has two children and none feels its parent's velocities, all velocities are
    eliminated at once, and what is left to do in order are blocks of the size of the multipliers.
    """
    coupled = tree.by_parent is not None or tree.by_child is not None
    parents = [parent for parent in tree.parent_of if parent >= 0]
    is_paths = len(parents) == len(set(parents))
    if tree.multipliers and is_paths and not coupled:
        return _velocities_first(tree)
    own = small.block_2x2(tree.own, tree.reactions, tree.rows, _diagonal(tree.corner))
    columns = jnp.concatenate([_or_zeros(tree.by_parent, tree.own), tree.parent_rows])
    rows = jnp.concatenate([_or_zeros(tree.by_child, tree.own), tree.parent_reactions], axis=1)
    return Factors(tree, eliminate(tree.parent_of, own, columns, rows), None)


def _velocities_first(tree: BlockTree) -> Factors:
    inverses = small.inverse(tree.own)
    moved = small.matmul(inverses, tree.reactions)
    pulled = small.matmul(tree.parent_values(inverses), tree.parent_reactions)
    own = (
        _diagonal(tree.corner)
        - small.matmul(tree.rows, moved)
        - small.matmul(tree.parent_rows, pulled)
    )
    columns = -small.matmul(tree.parent_rows, tree.parent_values(moved))
    rows = -small.matmul(tree.parent_values(tree.rows), pulled)
    return Factors(tree, eliminate(tree.parent_of, own, columns, rows), inverses)


def _diagonal(corner: Array) -> Array:
    return jnp.eye(corner.shape[0], dtype=corner.dtype)[:, :, None] * corner[None]


def _or_zeros(blocks: Array | None, like: Array) -> Array:
    return jnp.zeros_like(like) if blocks is None else blocks
