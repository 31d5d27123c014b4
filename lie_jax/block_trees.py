"""Matrices whose blocks follow a forest, and linear equations with them in O(n) operations.

A node of the forest has the unknowns of one body, its `velocities`, and the multipliers of the
constraints that tie it to its parent or to the ground. It is coupled with its parent and its
children only, so that elimination from the leaves to the roots, each node with its multipliers at
once, fills in no other block. The velocities of a node are eliminated before its multipliers and
nothing is pivoted: with the inertia that the children add to it, the block of its velocities is
that of an articulated body.

Arrays inside the elimination have the nodes on their last axis, where the processor takes several
at once. Source: Baraff, "Linear-time dynamics using Lagrange multipliers" (1996).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import algebra

# Diagonal entries below this part of the largest do not tell how easily a velocity changes:
# coordinates that are redundant have entries of any size.
LIGHTEST = 1e-6


class Forest(NamedTuple):
    """Which node hangs from which, in levels with as many slots as the widest has nodes.

    width: slots of a level; nodes: number of the node in each slot, level by level, roots first, -1
    for none; parents: place of the parent in the level above for each slot, -1 for none.
    """

    width: int
    nodes: tuple[int, ...]
    parents: tuple[int, ...]

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.nodes) // self.width

    @property
    def slots(self) -> tuple[int, ...]:
        """The slot of each node."""
        places = {node: place for place, node in enumerate(self.nodes) if node >= 0}
        return tuple(places[i] for i in range(len(places)))

    @property
    def parent_of(self) -> tuple[int, ...]:
        """The parent of each node, -1 for none."""
        above = (*(-1 for _ in range(self.width)), *self.nodes)
        found = {}
        for slot, (node, place) in enumerate(zip(self.nodes, self.parents, strict=True)):
            start = slot - slot % self.width
            found[node] = -1 if place < 0 else above[start + place]
        return tuple(found[i] for i in range(len(self.slots)))

    @property
    def is_paths(self) -> bool:
        """Whether no node has two children."""
        parents = [parent for parent in self.parent_of if parent >= 0]
        return len(parents) == len(set(parents))


class BlockTree(eqx.Module):
    """A matrix [[S, Bᵀ], [B', C]] of velocities and multipliers in blocks along a forest.

    Of n nodes with k velocities and at most r multipliers each:

    - `own` (n, k, k): rows and columns of a node's velocities;
    - `reactions` (n, k, r), `rows` (n, r, k): its velocities and its multipliers;
    - `corner` (n, r): the diagonal of the multipliers, one where a node has fewer than r;
    - `parent_reactions` (n, k, r), `parent_rows` (n, r, k): its parent's velocities and its own
      multipliers;
    - `by_parent`, `by_child` (n, k, k): rows of a node and columns of its parent, and the
      transposed place; None for no such blocks.

    `multipliers` has the number of each node's multipliers among all of them, n r in all, -1 for
    none. As a vector the velocities of all nodes come first, then the multipliers.
    """

    own: Float[Array, "n k k"]
    reactions: Float[Array, "n k r"]
    rows: Float[Array, "n r k"]
    corner: Float[Array, "n r"]
    parent_reactions: Float[Array, "n k r"]
    parent_rows: Float[Array, "n r k"]
    by_parent: Float[Array, "n k k"] | None
    by_child: Float[Array, "n k k"] | None
    forest: Forest = eqx.field(static=True)
    multipliers: tuple[int, ...] = eqx.field(static=True)

    def transpose(self) -> "BlockTree":
        """The transposed matrix."""

        def turned(x):
            return None if x is None else x.swapaxes(1, 2)

        return BlockTree(
            turned(self.own),
            turned(self.rows),
            turned(self.reactions),
            self.corner,
            turned(self.parent_rows),
            turned(self.parent_reactions),
            turned(self.by_child),
            turned(self.by_parent),
            self.forest,
            self.multipliers,
        )

    def matvec(self, x: Float[Array, " size"]) -> Float[Array, " size"]:
        """The product with a vector."""
        parents = self.forest.parent_of
        velocities, own = self._split(x)
        above = algebra.pick(parents, velocities)
        dynamic = _each(self.own, velocities) + _each(self.reactions, own)
        onto_parent = _each(self.parent_reactions, own)
        if self.by_parent is not None:
            dynamic = dynamic + _each(self.by_parent, above)
            onto_parent = onto_parent + _each(self.by_child, velocities)
        dynamic = dynamic + algebra.add_up(parents, onto_parent, velocities.shape[0])
        rows = _each(self.rows, velocities) + _each(self.parent_rows, above) + self.corner * own
        return self._joined(dynamic, rows)

    def solve(self, b: Float[Array, " size"]) -> Float[Array, " size"]:
        """The vector whose product is b; differentiable to any order in both modes."""
        return jax.lax.custom_linear_solve(
            self.matvec,
            b,
            solve=lambda _, b: factors(self) @ b,
            transpose_solve=lambda _, b: factors(self.transpose()) @ b,
        )

    def regularization(self) -> Float[Array, " size"]:
        """By how much `linear.regularized` lowers the diagonal of such a matrix."""
        own = jnp.abs(jnp.sum(self.own * jnp.eye(self.own.shape[1], dtype=self.own.dtype), 2))
        ease = 1.0 / jnp.maximum(own, LIGHTEST * jnp.max(own))
        sizes = jnp.abs(self.rows * self.reactions.swapaxes(1, 2))
        of_parents = jnp.abs(self.parent_rows * self.parent_reactions.swapaxes(1, 2))
        above = algebra.pick(self.forest.parent_of, ease)
        size = _each(sizes, ease) + _each(of_parents, above)
        there = np.asarray(self.multipliers).reshape(size.shape) >= 0
        size = jnp.where(there, jnp.finfo(size.dtype).eps ** 0.75 * size, 0.0)
        return self._joined(jnp.zeros_like(own), size)

    def lowered(self, change: Float[Array, " size"]) -> "BlockTree":
        """The matrix whose diagonal of the multipliers is lowered by the last part of `change`."""
        _, own = self._split(change)
        return eqx.tree_at(lambda tree: tree.corner, self, self.corner - own)

    def _split(self, x: Array) -> tuple[Array, Array]:
        n, k, r = self.reactions.shape
        velocities, multipliers = algebra.parted(x, n * k)
        return velocities.reshape(n, k), algebra.pick(self.multipliers, multipliers).reshape(n, r)

    def _joined(self, velocities: Array, own: Array) -> Array:
        size = sum(number >= 0 for number in self.multipliers)
        flat = algebra.add_up(self.multipliers, own.reshape(-1), size)
        return jnp.concatenate([velocities.reshape(-1), flat])


def _each(blocks: Array, vectors: Array) -> Array:
    return jnp.sum(blocks * vectors[:, None, :], axis=2)


def product(a: Float[Array, "m n ..."], b: Float[Array, "n p ..."]) -> Float[Array, "m p ..."]:
    """Matrix times matrix, for each place of the last axes."""
    return jnp.sum(a[:, :, None] * b[None], axis=1)


def inverse(a: Float[Array, "n n ..."]) -> Float[Array, "n n ..."]:
    """Inverse for each place of the last axes, by blocks of up to three in order, not pivoted."""
    n = a.shape[0]
    if n <= 3:
        return (_reciprocal, _inverse_of_two, _inverse_of_three)[n - 1](a)
    # 3 + (1..3), 6 + (1..6): velocities come first.
    head = 3 if n <= 6 else 6
    first = inverse(a[:head, :head])
    right, left = a[:head, head:], a[head:, :head]
    from_right, from_left = product(first, right), product(left, first)
    last = inverse(a[head:, head:] - product(left, from_right))
    upper = -product(from_right, last)
    return jnp.concatenate(
        [
            jnp.concatenate([first - product(upper, from_left), upper], axis=1),
            jnp.concatenate([-product(last, from_left), last], axis=1),
        ]
    )


def _reciprocal(a: Array) -> Array:
    return 1.0 / a


def _inverse_of_two(a: Array) -> Array:
    (p, q), (r, s) = a
    return jnp.stack([jnp.stack([s, -q]), jnp.stack([-r, p])]) / (p * s - q * r)


def _inverse_of_three(a: Array) -> Array:
    # Cofactors from a table that repeats its first rows and columns.
    table = jnp.concatenate([a, a[:2]])
    table = jnp.concatenate([table, table[:, :2]], axis=1)
    cofactors = table[1:4, 1:4] * table[2:5, 2:5] - table[1:4, 2:5] * table[2:5, 1:4]
    determinant = jnp.sum(a[0] * cofactors[0], axis=0)
    return cofactors.swapaxes(0, 1) / determinant


class Levels(eqx.Module):
    """A matrix of coupled nodes, eliminated level by level.

    Of a node with m unknowns, the first p of which its children are coupled with: the inverse of
    its block when its children are eliminated, that inverse times its columns of the parent, and
    the parent's rows. The first axis has the levels, the last one the slots.
    """

    inverses: Float[Array, "levels m m width"]
    columns: Float[Array, "levels m p width"]
    rows: Float[Array, "levels p m width"]
    forest: Forest = eqx.field(static=True)

    def solve(self, b: Float[Array, "m n"]) -> Float[Array, "m n"]:
        """Solution for right-hand sides with the nodes on the last axis."""
        places = _Places(self.forest)
        p = self.rows.shape[1]

        def towards_roots(added, level):
            inverses, rows, b, children = level
            own = b + jnp.concatenate([added, jnp.zeros_like(b[p:])])
            y = _times(inverses, own)
            return places.summed(-_times(rows, y), children), y

        def towards_leaves(above, level):
            columns, y, parents = level
            x = y - _times(columns, places.of_parents(above[:p], parents))
            return x, x

        by_level = _by_level(self.forest, b)
        none = jnp.zeros_like(by_level[0, :p])
        _, y = jax.lax.scan(
            towards_roots,
            none,
            (self.inverses, self.rows, by_level, places.children),
            reverse=True,
        )
        _, x = jax.lax.scan(
            towards_leaves, jnp.zeros_like(y[0]), (self.columns, y, places.parents)
        )
        return _by_node(self.forest, x)


def _times(a: Array, x: Array) -> Array:
    return jnp.sum(a * x[None], axis=1)


def eliminated(
    forest: Forest,
    own: Float[Array, "m m n"],
    columns: Float[Array, "m p n"],
    rows: Float[Array, "p m n"],
) -> Levels:
    """The elimination of a matrix of nodes: their own blocks, their columns of the parent and the
    parent's rows of them.
    """
    places = _Places(forest)
    p = rows.shape[0]
    fill = jnp.eye(own.shape[0], dtype=own.dtype)
    own, columns, rows = (_by_level(forest, x) for x in (own, columns, rows))
    if not places.full:
        empty = np.asarray(forest.nodes).reshape(forest.depth, 1, 1, forest.width) < 0
        own = jnp.where(empty, fill[None, :, :, None], own)

    def towards_roots(added, level):
        own, columns, rows, children = level
        block = own - _padded(added, own.shape[0])
        inverses = inverse(block)
        columns = product(inverses, columns)
        return places.summed(product(rows, columns), children), (inverses, columns)

    none = jnp.zeros_like(own[0, :p, :p])
    _, (inverses, columns) = jax.lax.scan(
        towards_roots, none, (own, columns, rows, places.children), reverse=True
    )
    return Levels(inverses, columns, rows, forest)


def _padded(block: Array, size: int) -> Array:
    more = size - block.shape[0]
    return jnp.pad(block, ((0, more), (0, more), *((0, 0),) * (block.ndim - 2)))


class _Places:
    """What passes between a level and the one above it."""

    def __init__(self, forest: Forest):
        width = forest.width
        self.width, self.full = width, min(forest.nodes) >= 0
        self.alone = width == 1
        places = np.asarray(forest.parents).reshape(-1, width)
        self.parents = None if self.alone else jnp.asarray(np.where(places < 0, width, places))
        self.children = None if self.alone else jnp.asarray(_children(places, width))

    def summed(self, values: Array, children: Array | None) -> Array:
        """Sums (..., width) over the children of each slot of the level above."""
        if self.alone:
            return values
        values = jnp.concatenate([values, jnp.zeros_like(values[..., :1])], axis=-1)
        return jnp.sum(values[..., children], axis=-1)

    def of_parents(self, values: Array, parents: Array | None) -> Array:
        """Values (..., width) of the parents of each slot, zeros for a slot without one."""
        if self.alone:
            return values
        return jnp.concatenate([values, jnp.zeros_like(values[..., :1])], axis=-1)[..., parents]


def _children(places: np.ndarray, width: int) -> np.ndarray:
    """For each level, the slots (width, most) that hang from each place above, `width` for none."""
    found = [[np.flatnonzero(level == place) for place in range(width)] for level in places]
    most = max(len(own) for level in found for own in level)
    table = np.full((len(places), width, max(most, 1)), width)
    for level, row in zip(found, table, strict=True):
        for own, slots in zip(level, row, strict=True):
            slots[: len(own)] = own
    return table


def _by_level(forest: Forest, values: Array) -> Array:
    """From nodes on the last axis (..., n) to (levels, ..., width)."""
    if forest.nodes != tuple(range(values.shape[-1])):
        values = jnp.concatenate([values, jnp.zeros_like(values[..., :1])], axis=-1)
        values = values[..., np.asarray(forest.nodes)]
    levels = values.reshape(*values.shape[:-1], forest.depth, forest.width)
    return jnp.moveaxis(levels, -2, 0)


def _by_node(forest: Forest, values: Array) -> Array:
    flat = jnp.moveaxis(values, 0, -2)
    flat = flat.reshape(*flat.shape[:-2], -1)
    if forest.slots == tuple(range(flat.shape[-1])):
        return flat
    return flat[..., np.asarray(forest.slots)]


class Factors(eqx.Module):
    """The elimination of a `BlockTree`, and how its unknowns become those of the nodes."""

    tree: BlockTree
    levels: Levels
    inverse: Float[Array, "k k n"] | None

    def __matmul__(self, b: Float[Array, " size"]) -> Float[Array, " size"]:
        """The solution for a right-hand side: the product with the inverse."""
        velocities, multipliers = (x.T for x in self.tree._split(b))
        if self.inverse is None:
            k = velocities.shape[0]
            x = self.levels.solve(jnp.concatenate([velocities, multipliers]))
            return self.tree._joined(x[:k].T, x[k:].T)
        return self._by_multipliers(velocities, multipliers)

    def _by_multipliers(self, b: Array, c: Array) -> Array:
        tree = _nodes_last(self.tree)
        free = _times(self.inverse, b)
        c = c - _times(tree.rows, free) - _times(tree.parent_rows, _from_parents(tree, free))
        found = self.levels.solve(c)
        force = _times(tree.reactions, found)
        force = force + _onto_parents(tree, _times(tree.parent_reactions, found))
        return self.tree._joined((free - _times(self.inverse, force)).T, found.T)


def _nodes_last(tree: BlockTree) -> BlockTree:
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), tree)


def _from_parents(tree: BlockTree, values: Array) -> Array:
    return jnp.moveaxis(algebra.pick(tree.forest.parent_of, jnp.moveaxis(values, -1, 0)), 0, -1)


def _onto_parents(tree: BlockTree, values: Array) -> Array:
    nodes_first = jnp.moveaxis(values, -1, 0)
    total = algebra.add_up(tree.forest.parent_of, nodes_first, nodes_first.shape[0])
    return jnp.moveaxis(total, 0, -1)


def factors(tree: BlockTree) -> Factors:
    """The elimination of a matrix; not to be differentiated.

    Where no node has two children and none feels its parent's velocities, all velocities are
    eliminated at once, and what is left to do in order are blocks of the size of the multipliers.
    """
    last = _nodes_last(tree)
    if tree.by_parent is None and tree.forest.is_paths:
        return _by_multipliers(tree, last)
    own = _joined_blocks(last.own, last.reactions, last.rows, _diagonal(last.corner))
    columns = jnp.concatenate([_or_zeros(last.by_parent, last.own), last.parent_rows])
    rows = jnp.concatenate([_or_zeros(last.by_child, last.own), last.parent_reactions], axis=1)
    return Factors(tree, eliminated(tree.forest, own, columns, rows), None)


def _by_multipliers(tree: BlockTree, last: BlockTree) -> Factors:
    ease = inverse(last.own)
    above = _from_parents(last, ease)
    moved = product(ease, last.reactions)
    pulled = product(above, last.parent_reactions)
    own = _diagonal(last.corner) - product(last.rows, moved) - product(last.parent_rows, pulled)
    columns = -product(last.parent_rows, _from_parents(last, moved))
    rows = -product(_from_parents(last, last.rows), pulled)
    return Factors(tree, eliminated(tree.forest, own, columns, rows), ease)


def _joined_blocks(a: Array, b: Array, c: Array, d: Array) -> Array:
    return jnp.concatenate([jnp.concatenate([a, b], axis=1), jnp.concatenate([c, d], axis=1)])


def _diagonal(corner: Array) -> Array:
    r = corner.shape[0]
    return jnp.eye(r, dtype=corner.dtype)[:, :, None] * corner[None]


def _or_zeros(blocks: Array | None, like: Array) -> Array:
    return jnp.zeros_like(like) if blocks is None else blocks
