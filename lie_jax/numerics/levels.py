"""Forests of coupled nodes, and elimination along them from the leaves to the roots.

Arrays have the nodes, or the slots of a level, on their last axis, where the processor takes
several at once.
"""

from functools import lru_cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.numerics import small


class Forest(NamedTuple):
    """Forest of nodes: the parent of each node, -1 for a root."""

    parent_of: tuple[int, ...]

    @property
    def levels(self) -> np.ndarray:
        """Nodes (levels, width) by their distance from the root; n fills levels that are shorter.

        All levels have as many slots as the widest has nodes.
        """
        return _levels(self.parent_of)

    @property
    def is_paths(self) -> bool:
        """Whether no node has two children."""
        parents = [parent for parent in self.parent_of if parent >= 0]
        return len(parents) == len(set(parents))


@lru_cache(maxsize=64)
def _levels(parent_of: tuple[int, ...]) -> np.ndarray:
    level, children = [], [[] for _ in parent_of]
    for node, parent in enumerate(parent_of):
        (level if parent < 0 else children[parent]).append(node)
    levels = []
    while level:
        levels.append(level)
        level = [child for node in level for child in children[node]]
    width = max(map(len, levels))
    return np.asarray([row + [len(parent_of)] * (width - len(row)) for row in levels])


class Levels(eqx.Module):
    """A matrix of coupled nodes, eliminated level by level.

    A node has m unknowns; its children are coupled with the first p. Kept of each node: the inverse
    of its block after the elimination of its children, this inverse times its columns of the
    parent, and the parent's rows. The first axis has the levels, the last axis the slots.
    """

    inverses: Float[Array, "levels m m width"]
    columns: Float[Array, "levels m p width"]
    rows: Float[Array, "levels p m width"]
    forest: Forest = eqx.field(static=True)

    def solve(self, b: Float[Array, "m n"]) -> Float[Array, "m n"]:
        """Solution for right-hand sides with the nodes on the last axis.

        Towards the roots a level passes on what its unknowns, as functions of the parent's, change
        in the parent's equations. A root then knows its own unknowns, and passes them to its
        children. Neither way needs the other levels, so that each is one scan.
        """
        slots = _Slots(self.forest)
        p = self.rows.shape[1]

        def towards_roots(from_children, level):
            inverses, rows, b, children = level
            added = jnp.concatenate([from_children, jnp.zeros_like(b[p:])])
            y = small.matvec(inverses, b + added)
            return slots.sum_of_children(-small.matvec(rows, y), children), y

        def towards_leaves(above, level):
            columns, y, parents = level
            x = y - small.matvec(columns, slots.of_parents(above[:p], parents))
            return x, x

        by_level = _by_level(self.forest, b)
        inputs = self.inverses, self.rows, by_level, slots.children
        _, y = jax.lax.scan(towards_roots, jnp.zeros_like(by_level[0, :p]), inputs, reverse=True)
        inputs = self.columns, y, slots.parents
        _, x = jax.lax.scan(towards_leaves, jnp.zeros_like(y[0]), inputs)
        return _by_node(self.forest, x)


def eliminated(
    forest: Forest,
    own: Float[Array, "m m n"],
    columns: Float[Array, "m p n"],
    rows: Float[Array, "p m n"],
) -> Levels:
    """Elimination of a matrix of nodes: blocks of nodes, their columns of the parent, and the
    parent's rows of them.

    The scan runs from the leaves to the roots and carries the blocks of one level, from which the
    levels below are eliminated. Each level is inverted and changes the blocks of its parents, whose
    children stand in no other level. No block outside of the forest fills in.
    """
    slots = _Slots(forest)
    own, columns, rows = (_by_level(forest, x) for x in (own, columns, rows))
    empty = forest.levels == len(forest.parent_of)
    if empty.any():
        unit_block = jnp.eye(own.shape[1], dtype=own.dtype)[None, :, :, None]
        own = jnp.where(empty[:, None, None, :], unit_block, own)

    def towards_roots(block, level):
        above, columns, rows, children = level
        inverted = small.inverse(block)
        change = small.matmul(rows, small.matmul(inverted, columns))
        return above - _padded(slots.sum_of_children(change, children), block.shape[0]), inverted

    # So little passes through the loop with three multipliers that XLA makes one function of it:
    # the inverted columns are computed afterwards, all at once.
    above = jnp.concatenate([jnp.zeros_like(own[:1]), own[:-1]])
    inputs = above, columns, rows, slots.children
    _, inverses = jax.lax.scan(towards_roots, own[-1], inputs, reverse=True)
    solved = small.matmul(jnp.moveaxis(inverses, 0, -1), jnp.moveaxis(columns, 0, -1))
    return Levels(inverses, jnp.moveaxis(solved, -1, 0), rows, forest)


def _padded(block: Array, size: int) -> Array:
    more = size - block.shape[0]
    return jnp.pad(block, ((0, more), (0, more), *((0, 0),) * (block.ndim - 2)))


class _Slots:
    """Slots of parents and of children between each level and the one above it.

    `parents` (levels, width), the slot of each slot's parent, and `children` (levels, width, most),
    the slots of the level that hang from each slot above; `width` for none. None if a level has one
    slot: nothing is looked up.
    """

    def __init__(self, forest: Forest):
        levels = forest.levels
        depth, width = levels.shape
        self.parents = self.children = None
        if width == 1:
            return
        slot_of = {node: slot for level in levels for slot, node in enumerate(level)}
        parents = np.full((depth, width), width)
        below: list[list[list[int]]] = [[[] for _ in range(width)] for _ in levels]
        for level, nodes in enumerate(levels):
            for slot, node in enumerate(nodes):
                if node < len(forest.parent_of) and forest.parent_of[node] >= 0:
                    parents[level, slot] = slot_of[forest.parent_of[node]]
                    below[level][parents[level, slot]].append(slot)
        most = max(1, *(len(slots) for row in below for slots in row))
        children = [[slots + [width] * (most - len(slots)) for slots in row] for row in below]
        self.parents, self.children = jnp.asarray(parents), jnp.asarray(children)

    def sum_of_children(self, values: Array, children: Array | None) -> Array:
        """Sums (..., width) over the children of each slot of the level above."""
        return values if children is None else jnp.sum(_with_zero(values)[..., children], axis=-1)

    def of_parents(self, values: Array, parents: Array | None) -> Array:
        """Values (..., width) of the parents of each slot, zeros for a slot without one."""
        return values if parents is None else _with_zero(values)[..., parents]


def _with_zero(values: Array) -> Array:
    return jnp.concatenate([values, jnp.zeros_like(values[..., :1])], axis=-1)


def _by_level(forest: Forest, values: Array) -> Array:
    """From nodes on the last axis (..., n) to (levels, ..., width)."""
    levels = forest.levels
    if not np.array_equal(levels.ravel(), np.arange(values.shape[-1])):
        values = _with_zero(values)[..., levels.ravel()]
    return jnp.moveaxis(values.reshape(*values.shape[:-1], *levels.shape), -2, 0)


def _by_node(forest: Forest, values: Array) -> Array:
    """From (levels, ..., width) to nodes on the last axis (..., n)."""
    flat = jnp.moveaxis(values, 0, -2)
    flat = flat.reshape(*flat.shape[:-2], -1)
    # Slots without a node have the largest number.
    slots = np.argsort(forest.levels.ravel(), kind="stable")[: len(forest.parent_of)]
    return flat if np.array_equal(slots, np.arange(flat.shape[-1])) else flat[..., slots]
