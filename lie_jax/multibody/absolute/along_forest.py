"""Matrix of a step along the forest of bodies and joints: blocks at a body, and between a body and
its parent. Arrays have bodies or elements on their last axis.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from lie_jax.multibody.absolute.along_graph import AbstractOrder, Operators, pick_bodies, times
from lie_jax.multibody.absolute.elements import Matrices
from lie_jax.numerics import gather, small
from lie_jax.numerics.block_graph import Blocks
from lie_jax.numerics.block_matrix import BlockTree


@dataclasses.dataclass(frozen=True)
class ForestOrder(AbstractOrder):
    """A forest of the bodies, and the joint that ties each body to its parent or to the ground.

    `parent_of` is the parent of each body, `joint_of` its joint, -1 for none. A parent may be one
    by a force alone.
    """

    parent_of: tuple[int, ...]
    joint_of: tuple[int, ...]

    @property
    def bodies(self) -> tuple[int, ...]:
        """Places of the unknowns of all bodies in a vector, -1 for auxiliary ones."""
        numbers = (k for body in self.graph.numbers[: self.graph.bodies] for k in body)
        return tuple(k if k < self.graph.size else -1 for k in numbers)

    @property
    def rows(self) -> int:
        """Largest number of multipliers of a joint."""
        return max((len(self.graph.numbers[joint]) for joint in self.graph.joints), default=0)

    @property
    def multipliers(self) -> tuple[int, ...]:
        """Places of the multipliers of each body's joint in a vector, -1 where it has fewer."""
        table = np.full((self.graph.bodies, self.rows), -1)
        for body, joint in enumerate(self.joint_of):
            if joint >= 0:
                numbers = self.graph.numbers[self.graph.bodies + joint]
                table[body, : len(numbers)] = numbers
        return tuple(table.ravel().tolist())

    @override
    def matrix(self, parts, border, joints):
        total = Sums() if border is None else Sums(border)
        for part in parts:
            sums = _sums(self.parent_of, part.blocks, self.graph.bodies, part.operators)
            sums = (None if x is None else part.scale(x, border) for x in sums)
            total = total.plus(Sums(*sums))
        return _block_tree(self, total, joints)


class Sums(NamedTuple):
    """Blocks (nv, nv, N) along a forest: of each body, of its rows by its parent's columns, and of
    its parent's rows by its columns; None where all are zero.
    """

    bodies: Matrices | None = None
    by_parent: Matrices | None = None
    by_child: Matrices | None = None

    def plus(self, other: "Sums") -> "Sums":
        """Sum with the blocks of another one."""
        sums: list = [
            b if a is None else a if b is None else a + b for a, b in zip(self, other, strict=True)
        ]
        return Sums(*sums)


def _sums(
    parent_of: tuple[int, ...], blocks: Sequence[Blocks], n: int, operators: Operators
) -> Sums:
    """Sums of blocks along the forest, their columns times the operators of their bodies."""
    sums: list = [None, None, None]
    for rows, columns, values in blocks:
        pairs = list(zip(rows, columns, strict=True))
        places = (
            tuple(a if a == b else -1 for a, b in pairs),
            tuple(a if a >= 0 and b >= 0 and parent_of[a] == b else -1 for a, b in pairs),
            tuple(b if a >= 0 and b >= 0 and parent_of[b] == a else -1 for a, b in pairs),
        )
        for k, bodies in enumerate(places):
            if max(bodies, default=-1) >= 0:
                added = gather.add_up(bodies, values, n, axis=2)
                sums[k] = added if sums[k] is None else sums[k] + added
    by_columns = operators, pick_bodies(parent_of, operators), operators
    return Sums(
        *(
            None if blocks is None else times(blocks, operator)
            for blocks, operator in zip(sums, by_columns, strict=True)
        )
    )


def _block_tree(order: ForestOrder, dynamic: Sums, joints: Sequence[Blocks]) -> BlockTree:
    """The matrix [[dynamic, Bᵀ], [B T, 0]] along the forest.

    A joint belongs to its body that is farther from the root; its other body is the parent.
    """
    of_bodies, *between = dynamic
    # Each body has a mass.
    assert of_bodies is not None
    size, _, n = of_bodies.shape
    count, bodies, parents = order.rows, range(n), order.parent_of
    reactions = parent_reactions = jnp.zeros((size, count, n), of_bodies.dtype)
    rows, parent_rows = map(small.transpose, (reactions, parent_reactions))
    if joints:
        columns, of_joints = joints
        at = {place: k for k, place in enumerate(columns.places)}
        nodes = [-1 if joint < 0 else n + joint for joint in order.joint_of]
        own, other = (
            tuple(at.get(place, -1) for place in zip(ends, nodes, strict=True))
            for ends in (bodies, parents)
        )
        more = size - columns.values.shape[0]
        reactions, parent_reactions = (
            jnp.pad(gather.pick(k, columns.values, axis=2), ((0, more), (0, 0), (0, 0)))
            for k in (own, other)
        )
        rows, parent_rows = (
            jnp.pad(gather.pick(k, of_joints.values, axis=2), ((0, 0), (0, more), (0, 0)))
            for k in (own, other)
        )
    by_parent, by_child = (
        jnp.zeros_like(of_bodies) if blocks is None else blocks for blocks in between
    )
    none = jnp.zeros((count, count, n), rows.dtype)
    missing = np.asarray(order.multipliers, int).reshape(n, count).T < 0
    return BlockTree(
        nodes=small.block_2x2(of_bodies, reactions, rows, none),
        corner=jnp.asarray(missing, rows.dtype),
        columns=jnp.concatenate([by_parent, parent_rows]),
        rows=jnp.concatenate([by_child, parent_reactions], axis=1),
        is_coupled=any(blocks is not None for blocks in between),
        parent_of=order.parent_of,
        bodies=order.bodies,
        multipliers=order.multipliers,
        bordered=order.graph.bordered,
    )
