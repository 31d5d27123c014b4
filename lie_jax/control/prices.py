"""Prices of inequalities that a search may exceed before it keeps them.

Where a path has a price ν, its values g are free, and cost what is the least of ν e - μ log(s e)
over slacks s and excesses e = g + s, both positive, at a barrier μ: none far below zero, ν g far
above. The minimum is known in closed form, so that no slack is ever in the way of a step. From some
price on an optimum has no excess but that of the barrier: an exact penalty. Source: Nocedal and
Wright, Numerical Optimization (2006), ch. 17 and 19.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Priced(NamedTuple):
    """Slacks and multipliers (C, c) of a path, and what it adds to a cost, to the sum of all that
    must be zero and to that of logarithms (3,).
    """

    slacks: Array
    pulls: Array
    sums: Array


def price(
    path: Float[Array, "C c"],
    slacks: Float[Array, "C c"],
    pulls: Float[Array, "C c"],
    real: Bool[Array, "C 1"],
    ease: Float[Array, ""],
    barrier: Float[Array, ""] | float,
) -> Priced:
    """The least at values of a path; without a price, an `ease` of zero, slacks and multipliers as
    they are. `ease`: 1 / ν.
    """
    is_free = ease > 0.0
    priced = real & is_free
    unit = jnp.where(is_free, ease * barrier, 1.0)
    half = 0.5 * jnp.abs(path) / unit
    # The smaller one of both without a difference of two large numbers.
    root = jnp.sqrt(1.0 + half * half)
    more, less = unit * (1.0 + root + half), unit * (1.0 + 1.0 / (root + half))
    excesses = jnp.where(priced, jnp.where(path > 0.0, more, less), 1.0)
    slacks = jnp.where(priced, jnp.where(path > 0.0, less, more), slacks)
    pulls = jnp.where(priced, barrier / slacks, pulls)
    paid = jnp.sum(jnp.where(priced, excesses, 0.0)) / jnp.where(is_free, ease, 1.0)
    left = jnp.sum(jnp.abs(jnp.where(real & ~is_free, path + slacks, 0.0)))
    logarithms = jnp.sum(jnp.log(jnp.where(real, slacks, 1.0)) + jnp.log(excesses))
    return Priced(slacks, pulls, jnp.stack([paid, left, logarithms]))
