"""Order of an elimination along a graph, and its list of operations on blocks, found in Python.

A node of the graph has the velocities of a body, with the multipliers of constraints of its own, or
the multipliers of a joint. The order, and the blocks that the elimination fills in, follow from the
graph alone.
"""

import heapq
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, product
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.numerics import gather

Place = tuple[int, int]

# Operations of an elimination beyond which it is refused: one factorisation then takes 0.2 s,
# and their list, a constant of the compiled program, 16 MB.
MOST_OPERATIONS = 1_000_000
# Operations beyond which a second order is tried: long meshes take half of them along their length.
_MANY_OPERATIONS = 20_000


class Graph(NamedTuple):
    """Nodes of a matrix: the places of their unknowns in a vector, and the order among them.

    `numbers[k]` are the places of the unknowns of node k, -1 for a row of its blocks without one;
    it is eliminated after the nodes `after[k]`. The first nodes are those of velocities, `bodies`
    many, the others those of multipliers. Vectors have `size` entries; unknowns with higher numbers
    are auxiliary ones: their equations have zeros on the right-hand side, and the identity among
    themselves. `bordered` says with how many velocities, and multipliers of constraints on these,
    the unknowns of a body begin, if it has such constraints. `clusters` are the nodes of each body
    that has several.
    """

    numbers: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    bodies: int
    size: int
    bordered: tuple[int, int] | None = None
    clusters: tuple[tuple[int, ...], ...] = ()

    @property
    def joints(self) -> range:
        """Nodes of multipliers."""
        return range(self.bodies, len(self.after))

    @property
    def auxiliary(self) -> np.ndarray:
        """Matrix (width, nodes): whether an unknown is an auxiliary one."""
        at = np.zeros((self.width, len(self.numbers)), bool)
        for node, numbers in enumerate(self.numbers):
            at[: len(numbers), node] = np.asarray(numbers) >= self.size
        return at

    @property
    def multipliers(self) -> np.ndarray:
        """Vector (size,): whether an unknown is a multiplier of a joint."""
        at = np.zeros(self.size, bool)
        for joint in self.joints:
            at[[number for number in self.numbers[joint] if 0 <= number < self.size]] = True
        return at

    @property
    def width(self) -> int:
        """Number of unknowns of the largest node."""
        return max(map(len, self.numbers))

    @property
    def order(self) -> tuple[int, ...]:
        """Places of all unknowns in a vector, node after node, -1 where a node has none."""
        return tuple(number for numbers in self.numbers for number in numbers)

    @property
    def kinds(self) -> list[tuple[int, int]]:
        """Numbers of consecutive nodes with as many unknowns, and these."""
        return [(len(list(nodes)), k) for k, nodes in groupby(map(len, self.numbers))]

    @property
    def missing(self) -> np.ndarray:
        """Matrix (width, nodes): 1 where a node has no unknown, 0 elsewhere."""
        there = np.zeros((self.width, len(self.numbers)), bool)
        for node, numbers in enumerate(self.numbers):
            there[: len(numbers), node] = np.asarray(numbers) >= 0
        return (~there).astype(float)

    def split(self, x: Float[Array, " size"]) -> Float[Array, "m nodes"]:
        """The unknowns of each node, zeros where a node has fewer."""
        order = self.order
        x = gather.pick(order, jnp.pad(x, (0, max(order) + 1 - self.size)))
        parts = jnp.split(x, np.cumsum([count * k for count, k in self.kinds[:-1]]))
        nodes = [
            jnp.pad(part.reshape(count, k).T, ((0, self.width - k), (0, 0)))
            for part, (count, k) in zip(parts, self.kinds, strict=True)
        ]
        return jnp.concatenate(nodes, axis=1)

    def join(self, values: Float[Array, "m nodes"]) -> Float[Array, " size"]:
        """The vector of these unknowns: the inverse of `split`."""
        parts = jnp.split(values, np.cumsum([count for count, _ in self.kinds[:-1]]), axis=1)
        flat = [part[:k].T.reshape(-1) for part, (_, k) in zip(parts, self.kinds, strict=True)]
        slots = np.argsort(self.order)[self.order.count(-1) :][: self.size]
        return gather.pick(tuple(slots.tolist()), jnp.concatenate(flat))


# Kinds of operations: invert the pivot of a body, multiply a block by a pivot, subtract a product,
# invert the pivot of a joint, whose rows may depend on others.
INVERT, MULTIPLY, SUBTRACT, INVERT_ROWS = range(4)


class Plan(NamedTuple):
    """Operations of an elimination, on a table of blocks of which the last ones are `filled` in.

    `factor` lists kind, target and two operands, numbers of blocks. `solve` lists target, block and
    source of y[target] -= block y[source], or of y = block y for a node that is its own source.
    """

    filled: int
    factor: np.ndarray
    solve: np.ndarray


Neighbours = list[set[int]]
# Nodes in the order of their elimination, and the neighbours that each then has.
Order = list[tuple[int, list[int]]]


def _order(graph: Graph, places: Sequence[Place]) -> Order:
    """The cheaper one of two orders: fewest neighbours first, or along the levels of the graph."""
    near: Neighbours = [set() for _ in graph.numbers]
    for i, j in places:
        if i != j:
            near[i].add(j)
            near[j].add(i)
    order, count = _eliminated(graph, near, None, MOST_OPERATIONS)
    if count > min(_MANY_OPERATIONS, MOST_OPERATIONS):
        along, count_along = _eliminated(graph, near, _levels(near), min(count, MOST_OPERATIONS))
        if count_along < count:
            order, count = along, count_along
    if count > MOST_OPERATIONS:
        raise ValueError(
            f"The equations of {graph.bodies} bodies and {len(graph.joints)} joints take more "
            f"than {MOST_OPERATIONS} operations with blocks, so closely do loops and forces "
            "connect them; these must be fewer: take a coarser mesh, or leave out bodies, joints "
            "or forces."
        )
    return order


def _eliminated(
    graph: Graph, neighbours: Neighbours, rank: Sequence[int] | None, most: int
) -> tuple[Order, int]:
    """Order of nodes, and its number of operations; ends early beyond `most` of them.

    Of all nodes that may follow, the one with the least rank does, or the fewest neighbours.
    Source: Tinney and Walker, "Direct solutions of sparse network equations" (1967).
    """
    near = [set(nodes) for nodes in neighbours]
    waits = [set(nodes) for nodes in graph.after]
    frees: list[list[int]] = [[] for _ in near]
    for node, before in enumerate(waits):
        for other in before:
            frees[other].append(node)

    def key(node: int) -> int:
        return len(near[node]) if rank is None else rank[node]

    ready = [(key(k), k) for k, before in enumerate(waits) if not before]
    heapq.heapify(ready)
    done, order, count = set(), [], 0
    while ready:
        first, node = heapq.heappop(ready)
        if node in done or first != key(node):
            continue
        degree = len(near[node])
        done.add(node)
        order.append((node, sorted(near[node])))
        count += 1 + degree + degree**2
        if count > most:
            break
        for other in near[node]:
            near[other] = (near[other] | near[node]) - {other, node}
        for other in frees[node]:
            waits[other].discard(node)
        for other in {*near[node], *frees[node]}:
            if not waits[other] and other not in done:
                heapq.heappush(ready, (key(other), other))
    return order, count


def _levels(near: Neighbours) -> list[int]:
    """Ranks of nodes along levels of neighbours, from one end of the graph to the other.

    Source: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices" (1969), and
    George and Liu for the reverse order and the end.
    """
    todo, order = set(range(len(near))), []
    while todo:
        start, depth = min(todo, key=lambda k: (len(near[k]), k)), 0
        while True:
            levels = _levels_from(near, start)
            if len(levels) <= depth:
                break
            depth, start = len(levels), min(levels[-1], key=lambda k: (len(near[k]), k))
        found = [node for level in levels for node in level]
        order += found
        todo.difference_update(found)
    rank = [0] * len(near)
    for place, node in enumerate(reversed(order)):
        rank[node] = place
    return rank


def _levels_from(near: Neighbours, start: int) -> list[list[int]]:
    """Nodes by their distance from one of them, neighbours of the first ones of a level first."""
    seen, levels = {start}, [[start]]
    while levels[-1]:
        following = []
        for node in levels[-1]:
            for other in sorted(near[node] - seen, key=lambda k: (len(near[k]), k)):
                seen.add(other)
                following.append(other)
        levels.append(following)
    return levels[:-1]


@lru_cache(maxsize=64)
def plan_of(graph: Graph, places: tuple[Place, ...]) -> Plan:
    """Plan for a matrix with blocks at these places, then diagonal ones of all joints."""
    at = {place: k for k, place in enumerate(places) if min(place) >= 0}
    at |= {(node, node): k for k, node in enumerate(graph.joints, len(places))}
    stored, given = len(places) + len(graph.joints), len(at)
    factor, forward, backward = [], [], []
    order = _order(graph, list(at))
    for k, ahead in order:
        for place in [(i, k) for i in ahead] + [(k, i) for i in ahead] + [*product(ahead, ahead)]:
            at.setdefault(place, stored + len(at) - given)
        invert = INVERT if k < graph.bodies else INVERT_ROWS
        factor.append((invert, at[k, k], at[k, k], at[k, k]))
        factor += [(MULTIPLY, at[i, k], at[i, k], at[k, k]) for i in ahead]
        factor += [(SUBTRACT, at[i, j], at[i, k], at[k, j]) for i in ahead for j in ahead]
        forward += [(i, at[i, k], k) for i in ahead]
    for k, ahead in reversed(order):
        backward += [*((k, at[k, j], j) for j in ahead), (k, at[k, k], k)]
    operations = (np.asarray(rows, np.int32) for rows in (factor, [*forward, *backward]))
    return Plan(len(at) - given, *operations)
