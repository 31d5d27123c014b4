"""What line searches compare: cost, what must be zero, and barriers, without derivatives of steps.

Ends of phases, links and the start are single nodes: programs of their derivatives, which a search
has anyway, give their values, around the charts of a point nearby.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.control.ends import Ending, end_cost
from lie_jax.control.nodes import Node, differ
from lie_jax.control.parts import Part
from lie_jax.control.points import Derivatives, Point, Problem, derive_ends, distances
from lie_jax.control.prices import price
from lie_jax.control.transcription import Chunk, evaluate


class Merit(NamedTuple):
    """Cost, sum of all that must be zero, and of the logarithms of distances from limits."""

    cost: Float[Array, ""]
    gap: Float[Array, ""]
    logarithms: Float[Array, ""]


def merit(part: Part, at: Point, measured: Node) -> Merit:
    """Merit of a point of one phase that starts at a measured state."""
    stretch, p = at.stretches[0], at.p
    first, end = stretch.chunks[0].first, stretch.last().state
    gaps = jnp.concatenate([differ(part.system(p), first, measured), part.end(end, p)])
    sums = jnp.stack([end_cost(part, end, p), jnp.sum(jnp.abs(gaps)), jnp.zeros((), p.dtype)])
    for chunk in stretch.chunks:
        sums = sums + evaluate(part.of_steps, chunk, p).sums
    return Merit(*sums)


def merit_near(
    is_traced: bool, problem: Problem, at: Point, derived: Derivatives, barrier: Array
) -> tuple[Point, Merit]:
    """Point with slacks that have a price as its path says, and merit, with the charts of
    derivatives nearby.

    Sums of all parts compile nothing where JAX does not trace them.
    """
    xp: Any = jnp if is_traced else np
    below, above, _, _ = distances(problem.limits, at.p) if at.p.shape[0] else (at.p,) * 4
    logarithms = xp.sum(xp.log(xp.asarray(below))) + xp.sum(xp.log(xp.asarray(above)))
    sums = xp.stack([0.0 * logarithms, 0.0 * logarithms, logarithms])
    stretches = []
    for part, stretch in zip(problem.parts, at.stretches, strict=True):
        chunks = []
        for chunk in stretch.chunks:
            values = evaluate(part.of_steps, chunk, at.p, barrier)
            sums = sums + xp.asarray(values.sums)
            chunks.append(chunk._replace(slacks=values.slacks, pulls=values.pulls))
        stretches.append(stretch._replace(chunks=tuple(chunks)))
    at = at._replace(stretches=tuple(stretches))
    endings, links, start = derive_ends(problem, at, derived.firsts, derived.lasts)
    for one in (*endings, *links, start):
        is_ending = isinstance(one, Ending)
        gap = xp.sum(xp.abs(xp.asarray(one.values if is_ending else one.gap)))
        cost = xp.asarray(one.cost) if is_ending else 0.0 * gap
        sums = sums + xp.stack([cost, gap, 0.0 * gap])
    return at, Merit(*(jnp.asarray(x, at.p.dtype) for x in sums))


def with_prices(
    at: Point, derived: Derivatives, merit: Merit, barriers: tuple[Array, Array], ease: Array
) -> tuple[Point, Merit]:
    """Point and merit with another barrier, the second one, and another ease of the path."""
    sums, stretches = jnp.stack(merit), []
    for stretch, expansions in zip(at.stretches, derived.expansions, strict=True):
        chunks = []
        for chunk, expansion in zip(stretch.chunks, expansions, strict=True):
            changed, sums = _with_price(chunk, expansion.values, sums, barriers, ease)
            chunks.append(changed)
        stretches.append(stretch._replace(chunks=tuple(chunks)))
    return at._replace(stretches=tuple(stretches)), Merit(*sums)


@eqx.filter_jit
def _with_price(
    chunk: Chunk, path: Array, sums: Array, barriers: tuple[Array, Array], ease: Array
) -> tuple[Chunk, Array]:
    real, known = chunk.real[:, None], (chunk.slacks, chunk.pulls)
    before = price(path, *known, real, chunk.ease, barriers[0])
    after = price(path, *known, real, ease, barriers[1])
    chunk = chunk._replace(slacks=after.slacks, pulls=after.pulls, ease=ease)
    return chunk, sums + after.sums - before.sums
