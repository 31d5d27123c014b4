"""The order in which the equations of bodies on joints are eliminated, found once.

Joints that connect bodies and the ground without a loop make a forest; forces between bodies that a
joint connects, or that nothing else does, stay within it. The equations of a step then have their
blocks along this forest, see `lie_jax.block_trees`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from lie_jax.mechanics.stacking import Connected
from lie_jax.numerics.block_matrix import Forest

# From so many bodies on the blocks along the forest are solved faster than the full matrix.
MANY_BODIES = 2

Ends = tuple[tuple[int, ...], ...]


class Order(NamedTuple):
    """A forest of the bodies, and which joint ties a body to its parent or to the ground.

    Joints are counted group by group. joints: that of each body, -1 for none; slots: the place of
    the body among the joint's two; others: the body at the joint's other end, -1 for the ground;
    rows: the largest number of constraints of a joint; multipliers: the numbers of the multipliers
    of each body's joint, -1 where it has fewer than `rows`.
    """

    forest: Forest
    joints: tuple[int, ...]
    slots: tuple[int, ...]
    others: tuple[int, ...]
    rows: int
    multipliers: tuple[int, ...]

    def own(self, count: int) -> tuple[int, ...]:
        """Where the bodies find theirs among what joints say of their first and second body."""
        return tuple(
            joint if joint < 0 else slot * count + joint
            for joint, slot in zip(self.joints, self.slots, strict=True)
        )

    def parents(self, count: int) -> tuple[int, ...]:
        """The same of the parent, -1 where the joint ties the body to the ground.

        A parent may be one by a force alone.
        """
        return tuple(
            -1 if joint < 0 or other < 0 else (1 - slot) * count + joint
            for joint, slot, other in zip(self.joints, self.slots, self.others, strict=True)
        )


def order_of(n: int, joints: Sequence[Connected], forces: Sequence[Connected]) -> Order | None:
    """The order for n bodies, or None if the full matrix is to be solved.

    It is for few bodies, for velocity constraints, and where joints or forces close a loop.
    """
    if n < MANY_BODIES or any(group.element.velocity_rows for group in joints):
        return None
    return _order(
        n,
        tuple((group.bodies, group.element.rows) for group in joints),
        tuple(group.bodies for group in forces),
    )


@lru_cache(maxsize=64)
def _order(n: int, joints: tuple[tuple[Ends, int], ...], forces: tuple[Ends, ...]) -> Order | None:
    # The ground is the last vertex.
    ends = [
        tuple(body % (n + 1) for body in pair)
        for group, _ in joints
        for pair in zip(*group, strict=True)
    ]
    of_joints = _Sets(n + 1)
    if not all(of_joints.joined(a, b) for a, b in ends):
        return None
    between, edges = _Sets(n), {(a, b) for a, b in map(sorted, ends) if b < n}
    for a, b in edges:
        between.joined(a, b)
    for group in forces:
        for acting in zip(*group, strict=True):
            bodies = sorted({body for body in acting if body >= 0})
            pairs = [(a, b) for a in bodies for b in bodies if a < b]
            for pair in pairs:
                if pair not in edges and not between.joined(*pair):
                    return None
                edges.add(pair)
    forest = _forest(n, edges, [min(pair) for pair in ends if max(pair) == n])
    return _tied(n, forest, ends, [rows for group, rows in joints for _ in group[0]])


def _forest(n: int, edges: set[tuple[int, int]], bases: list[int]) -> Forest:
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in sorted(edges):
        neighbours[a].append(b)
        neighbours[b].append(a)
    parent = [-2] * n
    for base in [*bases, *range(n)]:
        if parent[base] != -2:
            continue
        parent[base], waiting = -1, [base]
        while waiting:
            body = waiting.pop()
            for other in neighbours[body]:
                if parent[other] == -2:
                    parent[other] = body
                    waiting.append(other)
    levels, place = [[body for body in range(n) if parent[body] < 0]], [0] * n
    below: list[list[int]] = [[] for _ in range(n)]
    for body in range(n):
        if parent[body] >= 0:
            below[parent[body]].append(body)
    while levels[-1]:
        for i, body in enumerate(levels[-1]):
            place[body] = i
        levels.append([child for body in levels[-1] for child in below[body]])
    levels.pop()
    width = max(map(len, levels))
    nodes = [body for level in levels for body in level + [-1] * (width - len(level))]
    return Forest(
        width,
        tuple(nodes),
        tuple(place[parent[i]] if i >= 0 and parent[i] >= 0 else -1 for i in nodes),
    )


def _tied(n: int, forest: Forest, ends: list[tuple[int, ...]], rows: list[int]) -> Order | None:
    joints, slots, others = [-1] * n, [0] * n, [-1] * n
    parent = forest.parent_of
    for k, pair in enumerate(ends):
        # The body of a joint that is farther from the root; the ground's joints belong to theirs.
        slot = int(pair[0] == n or (pair[1] < n and parent[pair[1]] == pair[0]))
        body = pair[slot]
        if joints[body] >= 0:
            # Tied twice: to its parent, and to the ground behind a force.
            return None
        joints[body], slots[body] = k, slot
        others[body] = pair[1 - slot] if pair[1 - slot] < n else -1
    most = max(rows, default=0)
    first = [sum(rows[:k]) for k in range(1)]
    for size in rows:
        first.append(first[-1] + size)
    numbers = [first[k] + i if k >= 0 and i < rows[k] else -1 for k in joints for i in range(most)]
    return Order(forest, tuple(joints), tuple(slots), tuple(others), most, tuple(numbers))


class _Sets:
    """Sets of numbers that are joined one by one."""

    def __init__(self, n: int):
        self._leader = list(range(n))

    def _of(self, i: int) -> int:
        while self._leader[i] != i:
            self._leader[i] = self._leader[self._leader[i]]
            i = self._leader[i]
        return i

    def joined(self, a: int, b: int) -> bool:
        """Join the sets of two numbers; whether they were apart."""
        a, b = self._of(a), self._of(b)
        self._leader[a] = b
        return a != b
