"""How velocities of nodes, the blocks of unknowns, move the frames to which elements attach.

The velocities of a body are one node. A frame of a rigid body moves with its body's node alone, an
interface of a flexible body with that and with those of its amplitudes. Hybrid velocities of a
frame are sums of F v over such parts. Arrays have parts, bodies or elements on their last axis.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Array, Float

from lie_jax.numerics import gather, small
from lie_jax.numerics.block_graph import Blocks

# Matrices (rows, columns, count) of bodies or elements.
Matrices = Float[Array, "_ _ _"]
Slots = tuple[int, ...]


class Attachments(NamedTuple):
    """Parts F (6, nv, parts), None where hybrid velocities are the bodies' own, and their
    derivatives F' (6, nv, parts): of F v along unit velocities, at constant v.

    `table` are the (node, part) of each slot of motion, None where slot, node and part are one.
    """

    frames: Matrices | None = None
    changes: Matrices | None = None
    table: tuple[tuple[tuple[int, int], ...], ...] | None = None

    def parts(self, bodies: Slots) -> list[tuple[Slots, Slots]]:
        """Nodes and parts of the slots `bodies`, one pair of tuples for each part of a slot; -1
        where a slot has fewer.
        """
        if self.table is None:
            return [(bodies, bodies)]
        of_slots = [self.table[body] if body >= 0 else () for body in bodies]
        pairs = []
        for k in range(max(1, *map(len, of_slots))):
            chosen = [parts[k] if k < len(parts) else (-1, -1) for parts in of_slots]
            nodes, parts = zip(*chosen, strict=True)
            pairs.append((nodes, parts))
        return pairs

    def nodes(self, bodies: Sequence[Slots]) -> tuple[Slots, ...]:
        """Nodes of all parts of the slots of elements, as `pull` returns values for them."""
        return tuple(nodes for slots in bodies for nodes, _ in self.parts(slots))

    def pull(self, bodies: Slots, wrenches: Matrices, rates: Matrices | None = None) -> list:
        """Nodes, and Fᵀ times columns of hybrid wrenches (6, columns, count) plus F'ᵀ times
        `rates`, of each part of these slots.
        """
        pulled = []
        for nodes, parts in self.parts(bodies):
            values = wrenches
            if self.frames is not None:
                values = _transposed_times(self.frames, parts, wrenches)
                if rates is not None and self.changes is not None:
                    values = values + _transposed_times(self.changes, parts, rates)
            pulled.append((nodes, values))
        return pulled

    def between(
        self, rows: Slots, columns: Slots, values: Matrices, rates: Matrices | None = None
    ) -> Blocks:
        """Blocks Fᵀ (values F + rates F') of hybrid blocks (6, 6, count) between slots."""
        if self.frames is None:
            return Blocks(rows, columns, values)
        row_nodes, row_parts, column_nodes, column_parts = rows, rows, columns, columns
        if self.table is not None:
            chosen = [
                (k, *row, *column)
                for k, pair in enumerate(zip(rows, columns, strict=True))
                if min(pair) >= 0
                for row in self.table[pair[0]]
                for column in self.table[pair[1]]
            ]
            # Of stacked elements each may have the ground at one of these slots.
            numbers, *of_parts = zip(*(chosen or [(0, -1, -1, -1, -1)]), strict=True)
            row_nodes, row_parts, column_nodes, column_parts = of_parts
            values = gather.pick(numbers, values, axis=2)
            rates = None if rates is None else gather.pick(numbers, rates, axis=2)
        moved = small.matmul(values, gather.pick(column_parts, self.frames, axis=2))
        if rates is not None and self.changes is not None:
            moved = moved + small.matmul(rates, gather.pick(column_parts, self.changes, axis=2))
        return Blocks(row_nodes, column_nodes, _transposed_times(self.frames, row_parts, moved))


def _transposed_times(frames: Matrices, parts: Slots, values: Matrices) -> Matrices:
    return small.matmul(small.transpose(gather.pick(parts, frames, axis=2)), values)
