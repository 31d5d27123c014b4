"""The tree that joints make of bodies, and recursions along it.

Bodies stand in levels: the first holds the bases, every other one the bodies whose joint leads to
the level above. Levels have slots, as many as the widest has bodies, so that a recursion is one
scan over the levels, and compile time depends on neither number of bodies nor depth. What passes
between levels goes through products with constant 0/1 matrices.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.mechanics.joints.base import GROUND, AbstractJoint


class Tree(NamedTuple):
    """Which body and joint is where.

    width: slots of a level; bases: floating bases, which are the first slots of the first level;
    bodies: number of the body in each slot, -1 for none and for the ground, level by level; parents
    and joints: place of the parent in the level above and number of the joint, -1 for none, for the
    slots of all levels but the first; reversed: whether a joint's child is nearer to the base.
    """

    width: int
    bases: int
    bodies: tuple[int, ...]
    parents: tuple[int, ...]
    joints: tuple[int, ...]
    reversed: tuple[bool, ...]

    @property
    def depth(self) -> int:
        """Number of levels after the first."""
        return len(self.parents) // self.width

    @property
    def slots(self) -> tuple[int, ...]:
        """The slot of each body."""
        return _places_of(self.bodies)

    @property
    def joint_slots(self) -> tuple[int, ...]:
        """The slot of each joint, counted without the first level."""
        return _places_of(self.joints)

    @property
    def parent_slots(self) -> tuple[int, ...]:
        """The slot of the body that each slot after the first level hangs from, -1 for none."""
        return tuple(
            -1 if place < 0 else i - i % self.width + place for i, place in enumerate(self.parents)
        )

    def connected(self, joint: int) -> tuple[int, int]:
        """Numbers of the joint's parent and child, -1 for the ground."""
        slot = self.joint_slots[joint]
        nearer, farther = self.bodies[self.parent_slots[slot]], self.bodies[self.width + slot]
        return (farther, nearer) if self.reversed[joint] else (nearer, farther)


def _places_of(numbers: tuple[int, ...]) -> tuple[int, ...]:
    places = {number: place for place, number in enumerate(numbers) if number >= 0}
    return tuple(places[i] for i in range(len(places)))


_LOOP = (
    "{joint} closes a loop: the two are connected already by other joints. lie_jax.Minimal takes "
    "trees: remove the joint, or use lie_jax.R3SO3() or lie_jax.SE3(), where joints constrain."
)


def tree_of(names: tuple[str, ...], joints: Sequence[AbstractJoint]) -> Tree:
    """The tree of bodies with these names.

    Bodies that are connected to the ground hang from it. Of others that are connected, the first
    one that is no joint's child is the base. Raises `ValueError` if the joints close a loop.
    """
    n, ends = len(names), _ends(names, joints)
    refuse_loops(names, joints)
    neighbours: list[list[tuple[int, int]]] = [[] for _ in range(n + 1)]
    for k, (parent, child) in enumerate(ends):
        neighbours[parent].append((k, child))
        neighbours[child].append((k, parent))
    bases = _bases(n, ends, neighbours)
    ground = [n] if neighbours[n] else []
    levels: list[list[int]] = [[*bases, *ground]]
    parents: list[list[int]] = []
    used: list[list[int]] = []
    backwards = [False] * len(joints)
    seen = set(levels[0])
    while True:
        found = [
            (place, k, other)
            for place, body in enumerate(levels[-1])
            for k, other in neighbours[body]
            if other not in seen
        ]
        if not found:
            break
        for _, k, other in found:
            backwards[k] = ends[k][0] == other
        parents.append([place for place, _, _ in found])
        used.append([k for _, k, _ in found])
        levels.append([other for _, _, other in found])
        seen.update(levels[-1])
    width = max(map(len, levels))

    def padded(rows: list[list[int]]) -> tuple[int, ...]:
        return tuple(i for row in rows for i in row + [-1] * (width - len(row)))

    levels[0] = [*bases, *([-1] * len(ground))]
    return Tree(width, len(bases), padded(levels), padded(parents), padded(used), tuple(backwards))


def _ends(names: tuple[str, ...], joints: Sequence[AbstractJoint]) -> list[tuple[int, int]]:
    """Numbers of the joints' parents and children; the ground's comes after those of the bodies."""
    number = {name: i for i, name in enumerate(names)} | {GROUND: len(names)}
    return [(number[joint.parent], number[joint.child]) for joint in joints]


def refuse_loops(names: tuple[str, ...], joints: Sequence[AbstractJoint]) -> None:
    """Raise `ValueError` if joints between bodies with these names close a loop."""
    ends, leader = _ends(names, joints), list(range(len(names) + 1))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    for joint, (parent, child) in zip(joints, ends, strict=True):
        a, b = find(parent), find(child)
        if a == b:
            raise ValueError(
                _LOOP.format(joint=f"{type(joint).__name__}({joint.parent!r}, {joint.child!r})")
            )
        leader[a] = b


def _bases(n: int, ends: list[tuple[int, int]], neighbours: list[list[tuple[int, int]]]):
    """Floating bases: one for each set of connected bodies without the ground."""
    children = {child for _, child in ends}
    seen, bases = set(), []

    def reach(start: int) -> None:
        waiting = [start]
        while waiting:
            body = waiting.pop()
            if body not in seen:
                seen.add(body)
                waiting += [other for _, other in neighbours[body]]

    reach(n)
    for body in range(n):
        if body not in children and body not in seen:
            bases.append(body)
            reach(body)
    return bases


def outward(tree: Tree, step: Callable, start: Any, given: Any) -> tuple[Any, Any]:
    """Values of all slots from those of the first level, and what else the steps find.

    step(parent's value, given) is the pair of a slot's value and something to keep. `start` has the
    slots of the first level on its first axis, `given` and what is kept those of the others, the
    values all. A slot without a parent gets zeros for its value.
    """
    if not tree.depth:
        return start, None

    def level(above, inputs):
        places, own = inputs
        below, kept = jax.vmap(step)(_apply(places, above), own)
        return below, (below, kept)

    dtype = jax.tree.leaves(start)[0].dtype
    _, (rest, kept) = jax.lax.scan(level, start, (_places(tree, dtype), _by_level(tree, given)))
    values = jax.tree.map(lambda a, b: _flat(jnp.concatenate([a[None], b])), start, rest)
    return values, jax.tree.map(_flat, kept)


def inward(tree: Tree, step: Callable, own: Any, given: Any) -> tuple[Any, Any]:
    """Sums over the branches: totals of the first level, and what else the steps find.

    step(total, given) is the pair of what a slot adds to its parent's total and something to keep.
    `own`, what a slot starts from, has all slots on its first axis; `given` and what is kept have
    those of all levels but the first.
    """
    first = jax.tree.map(lambda x: x[: tree.width], own)
    if not tree.depth:
        return first, None
    rest = jax.tree.map(lambda x: x[tree.width :], own)

    def level(added, inputs):
        places, own, given = inputs
        upward, kept = jax.vmap(step)(jax.tree.map(jnp.add, own, added), given)
        return _apply(places.T, upward), kept

    dtype = jax.tree.leaves(first)[0].dtype
    none = jax.tree.map(jnp.zeros_like, first)
    scanned = (_places(tree, dtype), _by_level(tree, rest), _by_level(tree, given))
    added, kept = jax.lax.scan(level, none, scanned, reverse=True)
    return jax.tree.map(jnp.add, first, added), jax.tree.map(_flat, kept)


def _by_level(tree: Tree, values: Any) -> Any:
    return jax.tree.map(lambda x: x.reshape(-1, tree.width, *x.shape[1:]), values)


def _flat(values: Array) -> Array:
    return values.reshape(-1, *values.shape[2:])


def _places(tree: Tree, dtype: Any) -> Array:
    """For each level after the first, the matrix (width, width) that finds parents above."""
    above = np.arange(tree.width)
    chosen = np.asarray(tree.parents).reshape(-1, tree.width, 1) == above
    return jnp.asarray(chosen, dtype)


def _apply(places: Array, values: Any) -> Any:
    if places.shape[0] == 1:
        # One slot a level: a chain.
        return values
    return jax.tree.map(lambda x: jnp.tensordot(places, x, 1), values)
