"""What the line search of model predictive control compares, from values without derivatives."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.control.ends import end_cost
from lie_jax.control.nodes import Node, differ
from lie_jax.control.parts import Part
from lie_jax.control.points import Point
from lie_jax.control.transcription import distances, evaluate


class Merit(NamedTuple):
    """Cost of one phase, sum of all that must be zero, and of the logarithms of distances from
    limits.
    """

    cost: Float[Array, ""]
    gap: Float[Array, ""]
    logarithms: Float[Array, ""]


def merit(part: Part, at: Point, measured: Node) -> Merit:
    """Merit of a point of one phase that starts at a measured state."""
    stretch, p = at.stretches[0], at.p
    first, end = stretch.chunks[0].first, stretch.last().state
    cost, logarithms = end_cost(part, end, p), jnp.zeros((), p.dtype)
    gaps = [differ(part.system(p), first, measured), part.end(end, p)]
    for chunk in stretch.chunks:
        values = evaluate(part.of_steps, chunk, p)
        real = chunk.real[:, None]
        gaps += [values.gaps, jnp.where(real, values.path + chunk.slacks, 0.0)]
        for distance in (*distances(part, chunk), jnp.where(real, chunk.slacks, 1.0)):
            logarithms = logarithms + jnp.sum(jnp.log(distance))
        cost = cost + jnp.sum(values.cost)
    gap: Any = sum(jnp.sum(jnp.abs(x)) for x in gaps)
    return Merit(cost, gap, logarithms)
