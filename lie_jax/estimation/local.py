"""Local coordinates x around a point: of the configuration, then changes of v and of biases.

Covariances belong to such coordinates, of one point each: whoever moves the point moves them, too.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics import small
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.index1 import project_onto_constraints
from lie_jax.systems.system import AbstractSystem, State

# Each iteration squares an error that begins as the square of a standard deviation.
_ITERATIONS = 2


class Point(NamedTuple):
    """State of a system, and biases (nb,) of samples, one for each channel if they drift."""

    state: State
    bias: Float[Array, " nb"]


def displace(space: AbstractSpace, point: Point, x: Float[Array, " n"]) -> Point:
    """Point at local coordinates around another one."""
    nv, (state, bias) = space.nv, point
    moved = State(space.retract(state.q, x[:nv]), state.v + x[nv : 2 * nv])
    return Point(moved, bias + x[2 * nv :])


def difference(space: AbstractSpace, point: Point, other: Point) -> Float[Array, " n"]:
    """Local coordinates around a point of another one; inverse of `displace`."""
    here, there = point.state, other.state
    x = space.inverse_retract(here.q, there.q)
    return jnp.concatenate([x, there.v - here.v, other.bias - point.bias])


def land(system: AbstractSystem, t: Array, point: Point, x: Float[Array, " n"]) -> Point:
    """Point on the constraints next to the one at local coordinates x."""
    state, bias = displace(system.space, point, x)
    if system.nc:
        state, _ = project_onto_constraints(system, t, state, _ITERATIONS)
    return Point(state, bias)


def move(
    system: AbstractSystem, t: Array, point: Point, x: Float[Array, " n"]
) -> tuple[Point, Float[Array, "n n"]]:
    """`land`, and the derivative there: from coordinates around `point` to those around its result.

    With constraints it also projects onto their tangent space.
    """
    space, after = system.space, land(system, t, point, x)
    if system.nc:
        return after, jax.jacfwd(lambda x: difference(space, after, land(system, t, point, x)))(x)
    identity = jnp.eye(space.nv, dtype=x.dtype)

    def turn(dx):
        # The velocity of retract(q, x), and the rate at zero that belongs to it.
        return space.rate_at_zero(space.tangent_operator(x[: space.nv], dx))

    rest = jnp.eye(x.shape[0] - space.nv, dtype=x.dtype)
    corner = jnp.zeros((space.nv, rest.shape[0]), x.dtype)
    return after, small.block_2x2(jax.vmap(turn, out_axes=1)(identity), corner, corner.T, rest)
