"""Small matrices of many bodies at once, with the bodies on the last axis.

The processor then takes several bodies at a time, where a `vmap` would put them on the first axis.
Every function takes any number of last axes, none too.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics import small
from lie_jax.numerics.small import EPSILON


def product(a: Float[Array, "m n ..."], b: Float[Array, "n p ..."]) -> Float[Array, "m p ..."]:
    """Matrix times matrix."""
    return jnp.sum(a[:, :, None] * b[None], axis=1)


def times(a: Float[Array, "m n ..."], x: Float[Array, "n ..."]) -> Float[Array, "m ..."]:
    """Matrix times vector."""
    return jnp.sum(a * x[None], axis=1)


def skew(x: Float[Array, "3 ..."]) -> Float[Array, "3 3 ..."]:
    """Skew matrix of a vector: `skew(x) y = x × y`."""
    tensor = jnp.asarray(-EPSILON, x.dtype).reshape(3, 3, 3, *(1,) * (x.ndim - 1))
    return jnp.sum(tensor * x[None, None], axis=2)


def four(a: Array, b: Array, c: Array, d: Array) -> Array:
    """The matrix [[a, b], [c, d]]."""
    return jnp.concatenate([jnp.concatenate([a, b], axis=1), jnp.concatenate([c, d], axis=1)])


def inverse(a: Float[Array, "n n ..."]) -> Float[Array, "n n ..."]:
    """Inverse by blocks of up to three rows in order, without pivots."""
    n = a.shape[0]
    if n == 1:
        return 1.0 / a
    if n <= 3:
        # Products of entries underflow in float32, those of three inertias below 1e-13 kg m².
        scale = small.reciprocal_size(jnp.sum(jnp.abs(a), axis=(0, 1)))[None, None]
        return scale * (_inverse_of_two, _inverse_of_three)[n - 2](scale * a)
    # 3 + (1..3), 6 + (1..6): velocities come first.
    head = 3 if n <= 6 else 6
    first = inverse(a[:head, :head])
    right, left = a[:head, head:], a[head:, :head]
    from_right, from_left = product(first, right), product(left, first)
    last = inverse(a[head:, head:] - product(left, from_right))
    upper = -product(from_right, last)
    return four(first - product(upper, from_left), upper, -product(last, from_left), last)


def _inverse_of_two(a: Array) -> Array:
    (p, q), (r, s) = a
    return jnp.stack([jnp.stack([s, -q]), jnp.stack([-r, p])]) / (p * s - q * r)[None, None]


def _inverse_of_three(a: Array) -> Array:
    # The rows' vector products are the columns of the adjugate.
    first, second, third = (
        times(skew(x), y) for x, y in ((a[1], a[2]), (a[2], a[0]), (a[0], a[1]))
    )
    determinant = jnp.sum(a[0] * first, axis=0)
    return jnp.stack([first, second, third], axis=1) / determinant[None, None]
