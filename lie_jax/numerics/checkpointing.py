"""Checkpointed scans: reverse mode stores some states of a loop and recomputes the others."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

ADJOINTS = ("stored", "recursive")


class Blocks(NamedTuple):
    """Number of steps recomputed as one block, and largest number of blocks side by side.

    More blocks are put into blocks themselves. None for no bound.
    """

    size: int | None
    side_by_side: int | None


def blocks(adjoint: str, checkpoint: int | None, steps: int) -> Blocks:
    """Blocks of the arguments `simulate(adjoint=, checkpoint=)`."""
    if adjoint == "stored":
        return Blocks(checkpoint, None)
    size = checkpoint or max(2, _root(steps, 2))
    return Blocks(size, size)


def _root(n: int, degree: int) -> int:
    # The smallest integer whose power is at least n.
    return next(root for root in itertools.count(1) if root**degree >= n)


def scan(body: Callable, loop: Any, length: int, blocks: Blocks) -> tuple[Any, Any]:
    """Scan `body(loop)` `length` times, in rematerialised blocks if `blocks` has a size."""

    def once(carry, _):
        return body(carry)

    size, side_by_side = blocks
    if length == 1:
        # A loop around one step would be traced and differentiated for nothing.
        loop, out = body(loop)
        return loop, jax.tree.map(lambda x: x[None], out)
    if size is None or size >= length:
        return jax.lax.scan(once, loop, length=length)
    full, remainder = divmod(length, size)

    def block(carry):
        return jax.lax.scan(once, carry, length=size)

    loop, out = _side_by_side(block, loop, full, side_by_side)
    if remainder:
        loop, tail = jax.lax.scan(once, loop, length=remainder)
        out = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), out, tail)
    return loop, out


def _side_by_side(block: Callable, loop: Any, count: int, bound: int | None) -> tuple[Any, Any]:
    # Scan over recomputed blocks, in groups of groups if there are more blocks than the bound.
    if bound is None or count <= bound:
        loop, out = jax.lax.scan(_checkpoint(block), loop, length=count)
        return loop, _merge_axes(out)
    levels = next(levels for levels in itertools.count(2) if bound**levels >= count)
    # Groups have one size at all levels, and blocks beyond the count are skipped: groups of another
    # size would be compiled again.
    width = _root(count, levels)
    sample = jax.eval_shape(block, loop)[1]

    def group(level: int, carry):
        loop, number = carry

        def run():
            if level == 0:
                end, out = block(loop)
                return (end, number + 1), out
            inner = _checkpoint(lambda carry: group(level - 1, carry))
            end, out = jax.lax.scan(inner, carry, length=width)
            return end, _merge_axes(out)

        def skip():
            size = width**level
            return carry, jax.tree.map(
                lambda x: jnp.zeros((size * x.shape[0], *x.shape[1:]), x.dtype), sample
            )

        return jax.lax.cond(number < count, run, skip)

    outermost = _checkpoint(lambda carry: group(levels - 1, carry))
    start = loop, jnp.zeros((), jnp.int32)
    (loop, _), out = jax.lax.scan(outermost, start, length=-(-count // width ** (levels - 1)))
    taken = jax.tree.map(lambda x, one: _merge_axes(x)[: count * one.shape[0]], out, sample)
    return loop, taken


def _merge_axes(out: Any) -> Any:
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), out)


def _checkpoint(body: Callable) -> Callable:
    return jax.checkpoint(lambda carry, _: body(carry), prevent_cse=False)
