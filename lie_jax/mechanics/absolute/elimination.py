"""Order in which the equations of bodies on joints are eliminated, found once.

Joints that connect bodies and the ground without a loop make a forest; forces between bodies that a
joint connects, or that nothing else connects, stay within it. The equations of a step then have
their blocks along this forest, see `lie_jax.numerics.block_matrix`. Those of other mechanisms have
them along the graph of bodies and joints, see `lie_jax.numerics.block_graph`.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from lie_jax.mechanics.stacking import Connected
from lie_jax.numerics.forest import DisjointSets, closing_edge, traverse
from lie_jax.numerics.graphs import Graph

# From so many bodies on blocks are solved faster than the full matrix.
MANY_BODIES = 2

Ends = tuple[tuple[int, ...], ...]
Edge = tuple[int, int]


class Order(NamedTuple):
    """A forest of the bodies, and the joint that ties each body to its parent or to the ground.

    `parent_of` is the parent of each body, -1 for none.
    `columns` and `parent_columns` are places among the joints' first bodies and then their second
    ones: of the body in its joint, and of the other body; -1 for none and for the ground. A parent
    may be one by a force alone. `rows` is the largest number of constraints of a joint;
    `multipliers` are the numbers of the multipliers of each body's joint, -1 where it has fewer.
    """

    parent_of: tuple[int, ...]
    columns: tuple[int, ...]
    parent_columns: tuple[int, ...]
    rows: int
    multipliers: tuple[int, ...]


def order_of(
    n: int, size: int, joints: Sequence[Connected], forces: Sequence[Connected]
) -> Order | Graph | None:
    """Order for n bodies with `size` velocities each, or None if the full matrix is to be solved.

    None for few bodies; a graph for velocity constraints, and where joints or forces close a loop.
    """
    if n < MANY_BODIES:
        return None
    kinds = tuple((g.bodies, g.element.rows, g.element.velocity_rows) for g in joints)
    order = None
    if not any(velocity_rows for *_, velocity_rows in kinds):
        of_joints = tuple((bodies, rows) for bodies, rows, _ in kinds)
        order = _order(n, of_joints, tuple(group.bodies for group in forces))
    return _graph(n, size, kinds) if order is None else order


@lru_cache(maxsize=64)
def _order(n: int, joints: tuple[tuple[Ends, int], ...], forces: tuple[Ends, ...]) -> Order | None:
    # The ground is vertex n.
    ends = [(a % (n + 1), b % (n + 1)) for pairs, _ in joints for a, b in zip(*pairs, strict=True)]
    rows = [rows for pairs, rows in joints for _ in pairs[0]]
    edges = {(min(pair), max(pair)) for pair in ends if max(pair) < n}
    for bodies in forces:
        for acting in zip(*bodies, strict=True):
            edges.update(combinations(sorted({body for body in acting if body >= 0}), 2))
    loops = closing_edge(n + 1, ends), closing_edge(n, sorted(edges))
    if loops != (None, None):
        return None
    parent_of = _parents(n, edges, [min(pair) for pair in ends if max(pair) == n])
    count, most = len(ends), max(rows, default=0)
    columns, parents = [-1] * n, [-1] * n
    multipliers, first = np.full((n, most), -1), 0
    for joint, pair in enumerate(ends):
        # The joint belongs to its body that is farther from the root.
        slot = int(pair[0] == n or (pair[1] < n and parent_of[pair[1]] == pair[0]))
        body, other = pair[slot], pair[1 - slot]
        if columns[body] >= 0:
            # The body has two joints: one to its parent, one to the ground behind a force.
            return None
        columns[body] = slot * count + joint
        if other < n:
            parents[body] = (1 - slot) * count + joint
        multipliers[body, : rows[joint]] = range(first, first + rows[joint])
        first += rows[joint]
    numbers = tuple(multipliers.ravel().tolist())
    return Order(parent_of, tuple(columns), tuple(parents), most, numbers)


def _parents(n: int, edges: set[Edge], bases: list[int]) -> tuple[int, ...]:
    """Parent of each body, -1 for a root; bodies on the ground are roots if they can be."""
    rooted = DisjointSets(n + 1)
    for edge in edges:
        rooted.join(*edge)
    roots = [body for body in [*bases, *range(n)] if rooted.join(body, n)]
    parent_of = [-1] * n
    for _, nearer, farther in traverse(n, sorted(edges), roots):
        parent_of[farther] = nearer
    return tuple(parent_of)


@lru_cache(maxsize=64)
def _graph(n: int, size: int, joints: tuple[tuple[Ends, int, int], ...]) -> Graph:
    # The unknowns are counted as by `RigidBodySystem`.
    numbers = [tuple(range(size * body, size * (body + 1))) for body in range(n)]
    position = n * size
    rate = position + sum(rows * len(bodies[0]) for bodies, rows, _ in joints)
    ends = []
    for bodies, rows, velocity_rows in joints:
        # The ground is vertex n.
        for a, b in zip(*bodies, strict=True):
            ends.append((a % (n + 1), b % (n + 1)))
            own = range(position, position + rows), range(rate, rate + velocity_rows)
            numbers.append((*own[0], *own[1]))
            position, rate = position + rows, rate + velocity_rows
    after = (*[()] * n, *_bodies_before(n, ends))
    return Graph(tuple(numbers), after, bodies=n, size=rate)


def _bodies_before(n: int, ends: list[Edge]) -> list[tuple[int, ...]]:
    """Bodies that are eliminated before each joint.

    Without a loop it is the farther one from the root, which the rest of the tree leaves free. In a
    loop it is both: a joint that follows one alone may find no compliance there.
    """
    if closing_edge(n + 1, ends) is not None:
        return [tuple(body for body in pair if body < n) for pair in ends]
    sets = DisjointSets(n + 1)
    for pair in ends:
        sets.join(*pair)
    roots = [n, *(body for body in range(n) if sets.join(body, n))]
    farther = {number: body for number, _, body in traverse(n + 1, ends, roots)}
    return [(farther[number],) for number in range(len(ends))]
