"""Local coordinates x (2 nv,) around a state: of the configuration, and the change of v.

Covariances belong to such coordinates, of one state each: whoever moves the state moves them, too.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics import small
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.index1 import project_onto_constraints
from lie_jax.systems.system import AbstractSystem, State

# Each iteration squares an error that begins as the square of a standard deviation.
_ITERATIONS = 2


def displace(space: AbstractSpace, state: State, x: Float[Array, " n"]) -> State:
    """State at local coordinates around a state."""
    return State(space.retract(state.q, x[: space.nv]), state.v + x[space.nv :])


def difference(space: AbstractSpace, state: State, other: State) -> Float[Array, " n"]:
    """Local coordinates around a state of another one; inverse of `displace`."""
    return jnp.concatenate([space.inverse_retract(state.q, other.q), other.v - state.v])


def land(system: AbstractSystem, t: Array, state: State, x: Float[Array, " n"]) -> State:
    """State on the constraints next to the one at local coordinates x."""
    state = displace(system.space, state, x)
    if not system.nc:
        return state
    return project_onto_constraints(system, t, state, _ITERATIONS)[0]


def move(
    system: AbstractSystem, t: Array, state: State, x: Float[Array, " n"]
) -> tuple[State, Float[Array, "n n"]]:
    """`land`, and the derivative there: from coordinates around `state` to those around its result.

    With constraints it also projects onto their tangent space.
    """
    space, after = system.space, land(system, t, state, x)
    if system.nc:
        return after, jax.jacfwd(lambda x: difference(space, after, land(system, t, state, x)))(x)
    identity = jnp.eye(space.nv, dtype=x.dtype)

    def turned(dx):
        # The velocity of retract(q, x), and the rate at zero that belongs to it.
        return space.rate_at_zero(space.tangent_operator(x[: space.nv], dx))

    zero = jnp.zeros_like(identity)
    return after, small.block_2x2(jax.vmap(turned, out_axes=1)(identity), zero, zero, identity)
