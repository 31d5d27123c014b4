"""Products and inverses of small vectors and matrices in the form that XLA compiles best.

Components come first. Every function accepts trailing batch axes, none too: with the batch last,
the processor takes several matrices at a time.

Most products are a multiplication followed by a sum, some against a constant structure tensor.
Inside a compiled time loop this avoids concatenations (slow as soon as the step is batched, by
`vmap` or by forward-mode derivatives) and gathers (whose reverse mode is a scatter), and its
derivatives have the same form.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# EPSILON[i, j, k] = +1, -1 for even, odd permutations of (0, 1, 2), 0 otherwise.
EPSILON = np.zeros((3, 3, 3))
EPSILON[[0, 1, 2], [1, 2, 0], [2, 0, 1]] = 1.0
EPSILON[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = -1.0


def matvec(a: Float[Array, "m n ..."], x: Float[Array, "n ..."]) -> Float[Array, "m ..."]:
    """Matrix times vector."""
    return jnp.sum(a * x[None], axis=1)


def matmul(a: Float[Array, "m n ..."], b: Float[Array, "n p ..."]) -> Float[Array, "m p ..."]:
    """Matrix times matrix."""
    return jnp.sum(a[:, :, None] * b[None], axis=1)


def products(a: Float[Array, "m n ..."], b: Float[Array, "n p ..."]) -> Array:
    """Products of matrices on the first axes, term by term.

    With many matrices innermost each term fills vector units, which a sum along an axis does not:
    it takes six times as long here.
    """
    terms = [a[:, k, None] * b[None, k] for k in range(b.shape[0])]
    return functools.reduce(jnp.add, terms)


def transpose(a: Float[Array, "m n ..."]) -> Float[Array, "n m ..."]:
    """Transposed matrix."""
    return a.swapaxes(0, 1)


def dot(a: Float[Array, "n ..."], b: Float[Array, "n ..."]) -> Float[Array, "..."]:
    """Inner product."""
    return jnp.sum(a * b, axis=0)


def once(x: Float[Array, "... n"]) -> Float[Array, "... n"]:
    """Copy of finite numbers as a sum, which XLA computes once: others it repeats for every use."""
    n = x.shape[-1]
    identity = jnp.eye(n, dtype=x.dtype).reshape(*(1,) * (x.ndim - 1), n, n)
    return jnp.sum(x[..., None] * identity, axis=-2)


def least_square_between(a: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, ""]:
    """Square of the least distance from zero on the way from a to b along a straight line."""
    way = b - a
    square = dot(way, way)
    part = jnp.clip(-dot(a, way) / jnp.where(square > 0.0, square, 1.0), 0.0, 1.0)
    closest = a + part * way
    return dot(closest, closest)


def outer(a: Float[Array, "m ..."], b: Float[Array, "n ..."]) -> Float[Array, "m n ..."]:
    """Outer product `a bᵀ`."""
    return a[:, None] * b[None]


def hat(x: Float[Array, "3 ..."]) -> Float[Array, "3 3 ..."]:
    """Skew matrix of a vector: `hat(x) y = x × y`."""
    return jnp.sum(_structure(-EPSILON, x, x.ndim - 1) * x[None, None], axis=2)


def axial(a: Float[Array, "3 3 ..."]) -> Float[Array, "3 ..."]:
    """Vector of components a[j, k] - a[k, j] over the cyclic (i, j, k); -2 x for hat(x)."""
    return jnp.sum(_structure(EPSILON, a, a.ndim - 2) * a[None], axis=(1, 2))


def _structure(tensor: np.ndarray, like: Array, batch_axes: int) -> Array:
    return jnp.asarray(tensor.reshape(*tensor.shape, *(1,) * batch_axes), like.dtype)


def cross(a: Float[Array, "3 ..."], b: Float[Array, "3 ..."]) -> Float[Array, "3 ..."]:
    """Vector product `a × b`."""
    # An exception: joined once, at the end, components cost half of the products with the tensor.
    # Only in the columns of a Jacobian inside a loop is `matvec(hat(a), b)` the faster one.
    a1, a2, a3 = jax.lax.unstack(a)
    b1, b2, b3 = jax.lax.unstack(b)
    return jnp.stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1])


def hamilton_product(p: Float[Array, "4 ..."], q: Float[Array, "4 ..."]) -> Float[Array, "4 ..."]:
    """Hamilton product of two quaternions, scalar first."""
    w, x = split_at(p, 1)
    u, y = split_at(q, 1)
    real = w * u - jnp.sum(x * y, axis=0, keepdims=True)
    return jnp.concatenate([real, w * y + u * x + cross(x, y)])


def split_at(
    x: Float[Array, "n ..."], first: int
) -> tuple[Float[Array, "first ..."], Float[Array, "m ..."]]:
    """First entries of a vector, and all others.

    In reverse mode the parts are joined; those of two slices would be padded and added.
    """
    head, tail = jax.lax.split(x, (first, x.shape[0] - first))
    return head, tail


def block_2x2(
    a: Float[Array, "m n ..."],
    b: Float[Array, "m p ..."],
    c: Float[Array, "q n ..."],
    d: Float[Array, "q p ..."],
) -> Float[Array, "r s ..."]:
    """Matrix [[a, b], [c, d]]."""
    return jnp.concatenate([jnp.concatenate([a, b], axis=1), jnp.concatenate([c, d], axis=1)])


def inverse(a: Float[Array, "n n ..."]) -> Float[Array, "n n ..."]:
    """Inverse by blocks of up to three rows in order, without pivots.

    Not finite where such a block is singular.
    """
    n = a.shape[0]
    if n == 1:
        return 1.0 / a
    if n <= 3:
        scale = reciprocal_size(jnp.sum(jnp.abs(a), axis=(0, 1)))
        cofactors, determinant = adjugate(scale[None, None] * a)
        return (scale / determinant)[None, None] * cofactors
    # 3 + (1..3), 6 + (1..6): velocities come first.
    head = 3 if n <= 6 else 6
    first = inverse(a[:head, :head])
    right, left = a[:head, head:], a[head:, :head]
    from_right, from_left = matmul(first, right), matmul(left, first)
    last = inverse(a[head:, head:] - matmul(left, from_right))
    upper = -matmul(from_right, last)
    return block_2x2(first - matmul(upper, from_left), upper, -matmul(last, from_left), last)


def inverse_by_rows(a: Float[Array, "n n ..."]) -> Float[Array, "n n ..."]:
    """Inverse row by row, without exchanges of rows, of a matrix whose pivots may be tiny.

    Where rows depend on each other what regularises them is left of their pivots, and the rest of
    these rows is as small. Blocks lose that: determinants of rows by cofactors, and products with
    an inverse that has large numbers in it, have rounding errors of the size of other rows.
    """
    n = a.shape[0]
    for k in range(n):
        own = np.reshape(np.arange(n) == k, (n, *(1,) * (a.ndim - 1)))
        across = own.swapaxes(0, 1)
        inverse_pivot = 1.0 / a[k : k + 1, k : k + 1]
        row, column = a[k : k + 1] * inverse_pivot, a[:, k : k + 1]
        others = jnp.where(across, -column * inverse_pivot, a - column * row)
        a = jnp.where(own, jnp.where(across, inverse_pivot, row), others)
    return a


def solve_3(a: Float[Array, "3 3 ..."], b: Float[Array, "3 ..."]) -> Float[Array, "3 ..."]:
    """Solution of a x = b."""
    scale = reciprocal_size(jnp.sum(jnp.abs(a), axis=(0, 1)))
    cofactors, determinant = adjugate(scale[None, None] * a)
    # The right-hand side is scaled, not the inverse: derivatives of that have scale².
    return matvec(cofactors, scale[None] * b) / determinant[None]


def reciprocal_size(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The power of two that brings positive numbers to between 2 and 4, a constant for derivatives.

    It changes no digit, and determinants of scaled matrices neither underflow nor overflow, as that
    of inertias below 1e-13 kg m² does in float32. A bound of 1 would need subnormal factors.
    Numbers that are not normal count as the smallest normal one, infinite ones have the factor 0.
    """
    # From the bits of the exponent: `frexp` and `ldexp` take ten times as many operations.
    digits = jnp.finfo(x.dtype)
    unsigned = jnp.dtype(f"uint{digits.bits}")
    bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(x), unsigned)
    exponent = jnp.maximum(bits >> digits.nmant, 1)
    factor = ((2 << digits.nexp - 1) - 1 - exponent) << digits.nmant
    return jax.lax.bitcast_convert_type(factor.astype(unsigned), x.dtype)


def adjugate(a: Array) -> tuple[Array, Array]:
    """Adjugate of a matrix with two or three rows, and its determinant."""
    if a.shape[0] == 2:
        (p, q), (r, s) = a
        return jnp.stack([jnp.stack([s, -q]), jnp.stack([-r, p])]), p * s - q * r
    # All cofactors at once: by components each user of them would compute its own anew.
    tiled = jnp.tile(a, (2, 2) + (1,) * (a.ndim - 2))

    def block(i, j):
        return tiled[i : i + 3, j : j + 3]

    cofactors = block(1, 1) * block(2, 2) - block(1, 2) * block(2, 1)
    return transpose(cofactors), dot(a[0], cofactors[0])
