"""The tree that joints make of bodies."""

from collections.abc import Sequence
from typing import NamedTuple

from lie_jax.mechanics.joints.base import GROUND
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.numerics.forest import Forest, traverse


class Tree(NamedTuple):
    """Order of floating bases and links, and what each is made of.

    A link is a frame that one elementary motion holds; the last one of a joint is a body's, those
    before have no mass. bases: number of floating bases; bodies: number of the body of each base
    and link, from the number of bodies on for frames inside joints; motions: number of the motion
    of each link, those of all joints counted in order; reversed: whether a link's motion has its
    parent farther from the root. The forest's roots are the bases, then the ground, once for every
    joint that it holds; its nodes are the links.
    """

    forest: Forest
    bases: int
    bodies: tuple[int, ...]
    motions: tuple[int, ...]
    reversed: tuple[bool, ...]

    @property
    def slots(self) -> tuple[int, ...]:
        """Place of every body and frame among bases and links."""
        return _places(self.bodies)

    @property
    def links(self) -> tuple[int, ...]:
        """The link of every motion."""
        return _places(self.motions)

    @property
    def nearer(self) -> tuple[int, ...]:
        """Place of the base or link that each link hangs from, -1 for the ground."""
        grounds = [-1] * (self.forest.roots - self.bases)
        places = [*range(self.bases), *grounds, *range(self.bases, len(self.bodies))]
        return tuple(places[slot] for slot in self.forest.parents)

    @property
    def is_grounded(self) -> tuple[bool, ...]:
        """Whether each link hangs from the ground."""
        return tuple(place < 0 for place in self.nearer)


def _places(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(numbers)), key=numbers.__getitem__))


def make_tree(
    names: tuple[str, ...],
    joints: Sequence[tuple[str, str]],
    motions: Sequence[tuple[Motion, ...]],
) -> Tree:
    """The tree of bodies with these names, whose joints, pairs of parent and child, have these
    motions.

    Bodies that are connected to the ground hang from it. Of others that are connected, the first
    one that is no joint's child is the base. The joints close no loop.
    """
    n = len(names)
    # The ground's number comes after those of the bodies, and before those of frames inside joints.
    number = {name: i for i, name in enumerate(names)} | {GROUND: n}
    ends = [(number[parent], number[child]) for parent, child in joints]
    edges, frames = [], n + 1
    for (parent, child), steps in zip(ends, motions, strict=True):
        inside = range(frames, frames + len(steps) - 1)
        frames += len(inside)
        edges += zip((parent, *inside), (*inside, child), strict=True)
    bases, reached = [], {farther for *_, farther in traverse(frames, edges, [n])}
    children = {child for _, child in ends}
    for body in range(n):
        if body not in reached and body not in children:
            bases.append(body)
            reached |= {farther for *_, farther in traverse(frames, edges, [body])}
    order = traverse(frames, edges, [*bases, n])
    grounds = sum(nearer == n for _, nearer, _ in order)
    roots, held = len(bases) + grounds, iter(range(len(bases), len(bases) + grounds))
    slots = {body: i for i, body in enumerate(bases)} | {
        farther: roots + i for i, (*_, farther) in enumerate(order)
    }
    return Tree(
        Forest(roots, tuple(next(held) if a == n else slots[a] for _, a, _ in order)),
        len(bases),
        tuple(i - (i > n) for i in (*bases, *(farther for *_, farther in order))),
        tuple(motion for motion, *_ in order),
        tuple(edges[motion][0] == farther for motion, _, farther in order),
    )


def names_by_slot(tree: Tree, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the bodies by their places among bases and links."""
    # No force acts on a frame inside a joint.
    return tuple(names[i] if i < len(names) else GROUND for i in tree.bodies)
