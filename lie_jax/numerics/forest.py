"""Forests: the order of their nodes, and recursions outwards from the roots and back inwards.

A recursion is one scan over the nodes, whose parents are data: compile time depends neither on the
number of nodes nor on the shape of the forest, and branches cost no padding.
"""

import heapq
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float


class Forest(NamedTuple):
    """Nodes that hang from roots, every node after its parent.

    Slots count the roots first and the nodes after them. `parents[i]` is the slot of the parent of
    node i.
    """

    roots: int
    parents: tuple[int, ...]

    @property
    def is_path(self) -> bool:
        """Whether every node hangs from the one before it, the first from the only root."""
        return self.roots == 1 and self.parents == tuple(range(len(self.parents)))

    @property
    def root_of(self) -> tuple[int, ...]:
        """The root below each node."""
        root_of = list(range(self.roots))
        for parent in self.parents:
            root_of.append(root_of[parent])
        return tuple(root_of[self.roots :])

    @property
    def ancestors(self) -> np.ndarray:
        """Matrix (slots, slots): 1 where the second slot lies between the first one and its root,
        that root included.
        """
        slots = self.roots + len(self.parents)
        above = np.zeros((slots, slots))
        for slot, parent in enumerate(self.parents, self.roots):
            above[slot] = above[parent]
            above[slot, parent] = 1.0
        return above


class DisjointSets:
    """Sets of vertices 0 … n - 1, merged one pair at a time (union-find)."""

    def __init__(self, n: int):
        self._leader = list(range(n))

    def leader(self, i: int) -> int:
        """Vertex that stands for the set of a vertex."""
        while self._leader[i] != i:
            self._leader[i] = self._leader[self._leader[i]]
            i = self._leader[i]
        return i

    def join(self, a: int, b: int) -> bool:
        """Merge the sets of two vertices; False if they were one set already."""
        a, b = self.leader(a), self.leader(b)
        self._leader[a] = b
        return a != b


def closing_edge(n: int, edges: Sequence[tuple[int, int]]) -> int | None:
    """Number of the first edge that closes a loop among n vertices, None for a forest."""
    sets = DisjointSets(n)
    return next((k for k, edge in enumerate(edges) if not sets.join(*edge)), None)


def traverse(
    n: int, edges: Sequence[tuple[int, int]], roots: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Edges that are reached from the roots: number, nearer and farther vertex of each.

    The lowest edge of those at hand comes first: edges listed from the roots outwards keep their
    order, so that their numbers are copied as one block.
    """
    neighbours: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for number, (a, b) in enumerate(edges):
        neighbours[a].append((number, b))
        neighbours[b].append((number, a))
    reached, order, waiting = set(roots), [], []

    def leave(vertex: int) -> None:
        for number, other in neighbours[vertex]:
            if other not in reached:
                heapq.heappush(waiting, (number, vertex, other))

    for root in roots:
        leave(root)
    while waiting:
        order.append(heapq.heappop(waiting))
        reached.add(order[-1][2])
        leave(order[-1][2])
    return order


@lru_cache(maxsize=64)
def forest_of(parent_of: tuple[int, ...]) -> tuple[tuple[int, ...], Forest]:
    """Nodes in an order with parents first, and their forest with one root below all of them.

    `parent_of` is the parent of each node, -1 for none.
    """
    edges = [(parent + 1, node + 1) for node, parent in enumerate(parent_of)]
    order = traverse(len(parent_of) + 1, edges, [0])
    slots = {0: 0} | {farther: slot for slot, (*_, farther) in enumerate(order, 1)}
    nodes = tuple(farther - 1 for *_, farther in order)
    return nodes, Forest(1, tuple(slots[nearer] for _, nearer, _ in order))


# A table that one fusion reads at one row and writes at another is copied whole in every iteration.
# The value to write must therefore come out of a sum, which XLA does not fuse with the write.
def total(*terms: Float[Array, "..."]) -> Float[Array, "..."]:
    """Sum of arrays of one shape, in the form that recursions along a forest write."""
    return jnp.sum(jnp.stack(terms), axis=0)


def scan_down(
    forest: Forest, step: Callable, roots: Float[Array, "roots ..."], nodes: Any
) -> tuple[Float[Array, "nodes ..."], Any]:
    """Values of all nodes from those of the roots outwards, and what the steps keep.

    step(value of the parent, node) returns the pair of the node's value, made by `total` or
    another sum, and something to keep. `nodes` and what is kept have the nodes on their first axis.
    """
    if not forest.parents:
        return roots[:0], None

    def along_path(parent, node):
        value, kept = step(parent, node)
        return value, (value, kept)

    if forest.is_path:
        return lax.scan(along_path, roots[0], nodes)[1]

    def into_table(table, inputs):
        slot, parent, node = inputs
        value, kept = step(_row(table, parent), node)
        return lax.dynamic_update_index_in_dim(table, value, slot, 0), kept

    blank = jnp.zeros((len(forest.parents), *roots.shape[1:]), roots.dtype)
    table = jnp.concatenate([roots, blank])
    table, kept = lax.scan(into_table, table, (*_slots(forest), nodes))
    return table[forest.roots :], kept


def scan_up(
    forest: Forest, step: Callable, values: Float[Array, "slots ..."], nodes: Any
) -> tuple[Float[Array, "roots ..."], Any]:
    """Totals of the roots, children's contributions added, and what the steps keep.

    step(total of the node, node) returns the pair of the contribution to the parent's total and
    something to keep. Nodes come last one first, so that a total is complete when it is passed on.
    """
    if not forest.parents:
        return values, None

    def along_path(contribution, inputs):
        value, node = inputs
        return step(value + contribution, node)

    if forest.is_path:
        zero = jnp.zeros_like(values[0])
        last, kept = lax.scan(along_path, zero, (values[1:], nodes), reverse=True)
        return values[:1] + last[None], kept

    def into_table(table, inputs):
        slot, parent, node = inputs
        contribution, kept = step(_row(table, slot), node)
        whole = total(_row(table, parent), contribution)
        return lax.dynamic_update_index_in_dim(table, whole, parent, 0), kept

    table, kept = lax.scan(into_table, values, (*_slots(forest), nodes), reverse=True)
    return table[: forest.roots], kept


def totals(forest: Forest, values: Float[Array, "slots ..."]) -> Float[Array, "slots ..."]:
    """Sums of the values of each slot and of all nodes that hang from it."""
    if forest.is_path:
        roots, nodes = scan_up(forest, lambda whole, _: (whole, whole), values, None)
        return roots if nodes is None else jnp.concatenate([roots, nodes])

    # A total that is written a second time, as something to keep, would be copied with its table.
    def into_table(table, inputs):
        slot, parent = inputs
        whole = total(_row(table, parent), _row(table, slot))
        return lax.dynamic_update_index_in_dim(table, whole, parent, 0), None

    return lax.scan(into_table, values, _slots(forest), reverse=True)[0]


def _row(table: Array, slot: Array) -> Array:
    return lax.dynamic_index_in_dim(table, slot, 0, keepdims=False)


def _slots(forest: Forest) -> tuple[Array, Array]:
    first = forest.roots
    slots = np.arange(first, first + len(forest.parents), dtype=np.int32)
    return jnp.asarray(slots), jnp.asarray(np.asarray(forest.parents, np.int32))
