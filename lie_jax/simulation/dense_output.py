"""States inside of a step, between its two ends."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.system import State


def between(
    space: AbstractSpace, h: Float[Array, ""], start: State, end: State, part: Float[Array, ""]
) -> State:
    """State at a part of a step of size h: a cubic in local coordinates with both ends' rates."""
    x = space.inverse_retract(start.q, end.q)
    first = h * space.rate_at_zero(start.v)
    last = h * space.tangent_operator_inv(x, end.v)
    second, third = 3.0 * x - 2.0 * first - last, first + last - 2.0 * x
    along = part * (first + part * (second + part * third))
    rate = first + part * (2.0 * second + part * 3.0 * third)
    v = space.tangent_operator(along, rate / jnp.where(h > 0.0, h, 1.0))
    return State(space.retract(start.q, along), v)
