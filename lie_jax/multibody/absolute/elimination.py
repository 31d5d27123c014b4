"""Order in which the equations of bodies on joints are eliminated, found once.

Joints that connect bodies and the ground without a loop make a forest; forces between bodies that a
joint connects, or that nothing else connects, stay within it. The equations of a step then have
their blocks along this forest, see `lie_jax.numerics.block_matrix`. Those of other mechanisms have
them along the graph of bodies and joints, see `lie_jax.numerics.block_graph`.
"""

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from lie_jax.multibody.absolute.along_forest import ForestOrder
from lie_jax.multibody.absolute.along_graph import AbstractOrder, GraphOrder
from lie_jax.multibody.absolute.attachments import Attachments
from lie_jax.multibody.absolute.layout import Layout
from lie_jax.multibody.stacking import Connected
from lie_jax.numerics.forest import DisjointSets, closing_edge, traverse
from lie_jax.numerics.graphs import Graph

# From so many bodies on blocks are solved faster than the full matrix.
MANY_BODIES = 2

Ends = tuple[tuple[int, ...], ...]
Edge = tuple[int, int]


class Connections(NamedTuple):
    """Nodes that each joint connects (slots of nodes, rows, velocity rows), by kind, those that
    forces do, and those of each flexible body.
    """

    joints: tuple[tuple[Ends, int, int], ...]
    forces: tuple[Ends, ...]
    clusters: Ends


def connections_of(
    joints: Sequence[Connected], forces: Sequence[Connected], at: Attachments
) -> Connections:
    """Connections of stacked joints and forces."""
    kinds = [(at.nodes(g.bodies), g.element.rows, g.element.velocity_rows) for g in joints]
    parts = [tuple(node for node, _ in of_slot) for of_slot in at.table or ()]
    clusters = dict.fromkeys(nodes for nodes in parts if len(nodes) > 1)
    return Connections(tuple(kinds), tuple(at.nodes(g.bodies) for g in forces), tuple(clusters))


def order_of(layout: Layout, connections: Connections) -> AbstractOrder | None:
    """Order for the nodes of velocities, or None if the full matrix is to be solved.

    None for few nodes; a graph for velocity constraints, for flexible bodies, and where joints or
    forces close a loop.
    """
    return _order(layout, connections, False)


def stabilized_order_of(layout: Layout, connections: Connections) -> AbstractOrder | None:
    """Order of a stabilised step, as `order_of`.

    A node has its velocities x, the multipliers of its own constraints, its auxiliary unknowns
    z = x - Nᵀη and the η of its own constraints; a joint has its multipliers and its η. With z no
    derivative of a force by positions couples a body with the η of other bodies' joints.
    """
    return _order(layout, connections, True)


def _order(layout: Layout, connections: Connections, is_stabilized: bool) -> AbstractOrder | None:
    numbers, kinds = layout.numbers, connections.joints
    if len(numbers) < MANY_BODIES:
        return None
    graph = _graph(numbers, layout.space.nv, layout.formulation.rows, kinds, is_stabilized)
    if connections.clusters:
        return GraphOrder(graph._replace(clusters=connections.clusters))
    if any(velocity_rows for *_, velocity_rows in kinds):
        return GraphOrder(graph)
    forest = _forest(layout.bodies, tuple(pairs for pairs, *_ in kinds), connections.forces)
    return GraphOrder(graph) if forest is None else ForestOrder(graph, *forest)


@lru_cache(maxsize=64)
def _forest(
    n: int, joints: tuple[Ends, ...], forces: tuple[Ends, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Parents and joints of all bodies, None where joints or forces close a loop."""
    if any(len(slots) > 2 for slots in joints):
        return None
    # The ground is vertex n.
    ends = [(a % (n + 1), b % (n + 1)) for pairs in joints for a, b in zip(*pairs, strict=True)]
    edges = {(min(pair), max(pair)) for pair in ends if max(pair) < n}
    for bodies in forces:
        for acting in zip(*bodies, strict=True):
            edges.update(itertools.combinations(sorted({body for body in acting if body >= 0}), 2))
    loops = closing_edge(n + 1, ends), closing_edge(n, sorted(edges))
    if loops != (None, None):
        return None
    parent_of = _parents(n, edges, [min(pair) for pair in ends if max(pair) == n])
    joint_of = [-1] * n
    for joint, pair in enumerate(ends):
        # The joint belongs to its body that is farther from the root.
        slot = int(pair[0] == n or (pair[1] < n and parent_of[pair[1]] == pair[0]))
        if joint_of[pair[slot]] >= 0:
            # The body has two joints: one to its parent, one to the ground behind a force.
            return None
        joint_of[pair[slot]] = joint
    return parent_of, tuple(joint_of)


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
def _graph(
    nodes: tuple[tuple[int, ...], ...],
    velocities: int,
    own: int,
    joints: tuple[tuple[Ends, int, int], ...],
    stabilized: bool,
) -> Graph:
    # The unknowns are counted as by `RigidBodySystem`, then η, then auxiliary ones.
    n, bodies, connections, ends = len(nodes), [], [], []
    position = itertools.count(velocities)
    rows = sum(rows * len(bodies[0]) for bodies, rows, _ in joints)
    of_coordinates = itertools.count(velocities + rows)
    rate = itertools.count(velocities + rows + n * own)
    total = velocities + rows + n * own + sum(r * len(b[0]) for b, _, r in joints)
    eta = total - velocities
    last = total + rows + n * own if stabilized else total
    auxiliary = itertools.count(last)
    for velocity in nodes:
        multipliers = [*itertools.islice(of_coordinates, own)]
        numbers = [*velocity, *multipliers]
        if stabilized:
            numbers += [number if number < 0 else next(auxiliary) for number in velocity]
            numbers += [number + eta for number in multipliers]
        bodies.append(tuple(numbers))
    for pairs, rows, velocity_rows in joints:
        # The ground is vertex n.
        for acting in zip(*pairs, strict=True):
            ends.append(tuple(body % (n + 1) for body in acting))
            numbers = [*itertools.islice(position, rows), *itertools.islice(rate, velocity_rows)]
            if stabilized:
                numbers += [k + eta for k in numbers[:rows]]
            connections.append(tuple(numbers))
    after = (*[()] * n, *_bodies_before(n, ends))
    bordered = (len(nodes[0]), own) if own else None
    return Graph((*bodies, *connections), after, n, last, bordered)


def _bodies_before(n: int, ends: list[Any]) -> list[tuple[int, ...]]:
    """Bodies that are eliminated before each joint.

    Without a loop it is the farther one from the root, which the rest of the tree leaves free. In a
    loop it is both: a joint that follows one alone may find no compliance there. Couplings of more
    than two bodies count as loops.
    """
    if any(len(acting) > 2 for acting in ends) or closing_edge(n + 1, ends) is not None:
        return [tuple(body for body in acting if body < n) for acting in ends]
    sets = DisjointSets(n + 1)
    for pair in ends:
        sets.join(*pair)
    roots = [n, *(body for body in range(n) if sets.join(body, n))]
    farther = {number: body for number, _, body in traverse(n + 1, ends, roots)}
    return [(farther[number],) for number in range(len(ends))]
