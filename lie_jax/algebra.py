"""Products of 3-vectors, 3x3 matrices and quaternions in the form that XLA compiles best.

Every product is a multiplication followed by a sum against a constant structure tensor. Inside a
compiled time loop this avoids concatenations (slow as soon as the step is batched, by `vmap` or by
forward-mode derivatives) and gathers (whose reverse mode is a scatter), and its derivatives have
the same form.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# EPSILON[i, j, k] = +1, -1 for even, odd permutations of (0, 1, 2), 0 otherwise.
EPSILON = np.zeros((3, 3, 3))
EPSILON[[0, 1, 2], [1, 2, 0], [2, 0, 1]] = 1.0
EPSILON[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = -1.0

# HAMILTON[i, j, k] q_k p_j gives component i of the Hamilton product p q.
HAMILTON = np.zeros((4, 4, 4))
HAMILTON[0, 0, 0] = 1.0
HAMILTON[0, 1:, 1:] = -np.eye(3)
HAMILTON[1:, 0, 1:] = np.eye(3)
HAMILTON[1:, 1:, 0] = np.eye(3)
HAMILTON[1:, 1:, 1:] = EPSILON


def as_float(value: Any) -> Array:
    """Array of the value, in its own floating dtype or else in JAX's default one."""
    array = jnp.asarray(value)
    # Naming the dtype also makes that of a Python number definite: the same value must not be
    # compiled for twice.
    return array.astype(array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else float)


def matvec(a: Float[Array, "m n"], x: Float[Array, " n"]) -> Float[Array, " m"]:
    """Matrix times vector."""
    return jnp.sum(a * x[None, :], axis=1)


def matmul(a: Float[Array, "m n"], b: Float[Array, "n p"]) -> Float[Array, "m p"]:
    """Matrix times matrix."""
    return jnp.sum(a[:, :, None] * b[None, :, :], axis=1)


def dot(a: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, ""]:
    """Inner product."""
    return jnp.sum(a * b)


def hat(x: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Skew matrix of a vector: `hat(x) y = x × y`."""
    return jnp.sum(jnp.asarray(-EPSILON, x.dtype) * x[None, None, :], axis=2)


def cross(a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, "3"]:
    """Vector product `a × b`."""
    # The exception: joined once, at the end, components cost half of the products with the tensor.
    # Only in the columns of a Jacobian inside a loop is `matvec(hat(a), b)` the faster one.
    a1, a2, a3 = jax.lax.unstack(a)
    b1, b2, b3 = jax.lax.unstack(b)
    return jnp.stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1])


def hamilton_product(p: Float[Array, "4"], q: Float[Array, "4"]) -> Float[Array, "4"]:
    """Hamilton product of two quaternions, scalar first."""
    left = jnp.sum(jnp.asarray(HAMILTON, p.dtype) * p[None, :, None], axis=1)
    return matvec(left, q)


def parted(x: Float[Array, " n"], first: int) -> tuple[Float[Array, " first"], Float[Array, " m"]]:
    """The `first` numbers of a vector, and the rest.

    In reverse mode the parts are joined; those of two slices would be padded and added.
    """
    a, b = jax.lax.split(x, (first, x.shape[0] - first))
    return a, b


def outer(a: Float[Array, " m"], b: Float[Array, " n"]) -> Float[Array, "m n"]:
    """Outer product `a bᵀ`."""
    return a[:, None] * b[None, :]


def axial(a: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """The vector of components a[j, k] - a[k, j] over the cyclic (i, j, k); -2 x for hat(x)."""
    return jnp.sum(jnp.asarray(EPSILON, a.dtype) * a[None, :, :], axis=(1, 2))


def pick(places: tuple[int, ...], values: Float[Array, "n ..."]) -> Float[Array, "places ..."]:
    """The rows of `values` at these places, which are fixed; zeros for a place of -1.

    Rows that stand next to each other are cut out; others are found by a product with a constant
    matrix, which needs no scatter in reverse mode.
    """
    missing = sum(place < 0 for place in places)
    rest = places[missing:]
    if rest and rest[0] >= 0 and rest == tuple(range(rest[0], rest[0] + len(rest))):
        rows = values[rest[0] : rest[0] + len(rest)]
        if not missing:
            return rows
        return jnp.concatenate([jnp.zeros((missing, *values.shape[1:]), values.dtype), rows])
    chosen = (np.asarray(places, int)[:, None] == np.arange(values.shape[0])[None, :]).astype(float)
    return jnp.tensordot(jnp.asarray(chosen, values.dtype), values, 1)
