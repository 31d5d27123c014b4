"""What line searches compare: cost, what must be zero, and barriers, without derivatives of steps.

Ends of phases, links and the start are single nodes: programs of their derivatives, which a search
has anyway, give their values, around the charts of a point nearby.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.control.ends import Ending, end_cost
from lie_jax.control.nodes import Node, differ
from lie_jax.control.parts import Part
from lie_jax.control.points import Derivatives, Point, Problem, derive_ends, distances
from lie_jax.control.transcription import evaluate


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


def merit_near(is_traced: bool, problem: Problem, at: Point, derived: Derivatives) -> Merit:
    """Merit of a point, with the charts of derivatives nearby.

    Sums of all parts compile nothing where JAX does not trace them.
    """
    xp: Any = jnp if is_traced else np
    below, above, _, _ = distances(problem.limits, at.p) if at.p.shape[0] else (at.p,) * 4
    logarithms = xp.sum(xp.log(xp.asarray(below))) + xp.sum(xp.log(xp.asarray(above)))
    sums = xp.stack([0.0 * logarithms, 0.0 * logarithms, logarithms])
    for part, stretch in zip(problem.parts, at.stretches, strict=True):
        for chunk in stretch.chunks:
            sums = sums + xp.asarray(evaluate(part.of_steps, chunk, at.p).sums)
    endings, links, start = derive_ends(problem, at, derived.firsts, derived.lasts)
    for one in (*endings, *links, start):
        is_ending = isinstance(one, Ending)
        gap = xp.sum(xp.abs(xp.asarray(one.values if is_ending else one.gap)))
        cost = xp.asarray(one.cost) if is_ending else 0.0 * gap
        sums = sums + xp.stack([cost, gap, 0.0 * gap])
    return Merit(*(jnp.asarray(x, at.p.dtype) for x in sums))
