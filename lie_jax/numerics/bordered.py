"""Inverse of a body's block with constraints among its own coordinates.

Redundant coordinates have a mass matrix that is singular along what their constraints forbid: no
leading part of it may be a pivot. Reflections turn these directions into the last velocities. The
others then have the inertia of the body, and each forbidden velocity has the multiplier of its
constraint as pivot. Source: Householder, "Unitary triangularization of a nonsymmetric matrix"
(1958).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics import small


def bordered_inverse(
    a: Float[Array, "n n ..."], velocities: int, constraints: int
) -> Float[Array, "n n ..."]:
    """Inverse of a matrix that begins with a block [[S, Bᵀ], [B', C]] of one body.

    S (velocities, velocities) may be singular along the columns of Bᵀ, as many as `constraints`.
    Further unknowns are eliminated after this block. Not finite where the block is singular.
    """
    head = velocities + constraints
    first = _inverse(a[:head, :head], velocities)
    if head == a.shape[0]:
        return first
    right, left = a[:head, head:], a[head:, :head]
    from_right, from_left = small.matmul(first, right), small.matmul(left, first)
    last = small.inverse(a[head:, head:] - small.matmul(left, from_right))
    upper = -small.matmul(from_right, last)
    return small.block_2x2(
        first - small.matmul(upper, from_left), upper, -small.matmul(last, from_left), last
    )


def _inverse(a: Float[Array, "n n ..."], velocities: int) -> Float[Array, "n n ..."]:
    size = a.shape[0]
    constraints = size - velocities
    reflections = []
    # The last column of Bᵀ is reflected to the last velocity, the one before it to the one before:
    # what is left of them is a triangle.
    for k in range(constraints):
        last = velocities - k
        column = a[:last, size - 1 - k]
        length = jnp.sqrt(small.dot(column, column))[None]
        own = column[-1:] + jnp.where(column[-1:] < 0.0, -length, length)
        rest = jnp.zeros((size - last, *own.shape[1:]), own.dtype)
        reflected = jnp.concatenate([column[:-1], own, rest])
        reflected = reflected / jnp.sqrt(0.5 * small.dot(reflected, reflected))[None]
        reflections.append(reflected)
        a = a - small.outer(reflected, small.matvec(small.transpose(a), reflected))
        a = a - small.outer(small.matvec(a, reflected), reflected)
    # Multipliers first, then forbidden velocities: pivots in order are regular.
    free = velocities - constraints
    inner, forbidden, multipliers = jnp.split(a, (free, velocities), axis=1)
    inverse = small.inverse(jnp.concatenate([inner, multipliers, forbidden], axis=1))
    inner, multipliers, forbidden = jnp.split(inverse, (free, velocities))
    inverse = jnp.concatenate([inner, forbidden, multipliers])
    for reflected in reversed(reflections):
        inverse = inverse - small.outer(
            reflected, small.matvec(small.transpose(inverse), reflected)
        )
        inverse = inverse - small.outer(small.matvec(inverse, reflected), reflected)
    return inverse
