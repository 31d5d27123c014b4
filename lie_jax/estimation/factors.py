"""Products and triangular factors of covariances inside a compiled time loop.

Without LAPACK: its calls may wait for each other in batches. Of twelve channels it would take half
the time of this elimination, of three more than twice.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics import dense

# Up to so many rows the elimination is written out, which compiles into one function.
_UNROLLED = 6
# Largest product as a sum: above 14 rows the library's takes less, of 36 rows a seventh.
_LARGEST_SUM = 14**3


def product(a: Float[Array, "m n"], b: Float[Array, "n p"]) -> Float[Array, "m p"]:
    """Product of two matrices."""
    return dense.product(a, b) if a.shape[0] * b.size <= _LARGEST_SUM else a @ b


def symmetric(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Symmetric part, without the rounding of products."""
    return 0.5 * (a + a.T)


def conjugate(a: Float[Array, "m n"], covariance: Float[Array, "n n"]) -> Float[Array, "m m"]:
    """A P Aᵀ, symmetric."""
    return symmetric(product(product(a, covariance), a.T))


def whiten(
    covariance: Float[Array, "m m"], right: Float[Array, "m k"]
) -> tuple[Float[Array, "m k"], Float[Array, " m"]]:
    """L⁻¹ times columns, and the diagonal of L, for L Lᵀ = S positive definite."""
    m = covariance.shape[0]
    rows = jnp.arange(m)

    def eliminate(k, table):
        own = rows == k
        row = jnp.sum(jnp.where(own[:, None], table, 0.0), axis=0)
        column = jnp.sum(jnp.where(own[None, :], table[:, :m], 0.0), axis=1)
        root = jnp.sqrt(jnp.sum(jnp.where(own, column, 0.0)))
        row = row / root
        below = jnp.where(rows > k, column / root, 0.0)
        return jnp.where(own[:, None], row[None, :], table - below[:, None] * row[None, :])

    table = jnp.concatenate([covariance, right], axis=1)
    table = jax.lax.fori_loop(0, m, eliminate, table, unroll=m <= _UNROLLED)
    return table[:, m:], jnp.sum(table[:, :m] * jnp.eye(m, dtype=table.dtype), axis=1)


def root(covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L with L Lᵀ = P for P positive semidefinite; columns of zeros for what has no variance."""
    n = covariance.shape[0]
    rows = jnp.arange(n)
    # A pivot of so small a part of its variance is rounding.
    least = jnp.finfo(covariance.dtype).eps ** 0.75 * jnp.diagonal(covariance)

    def eliminate(k, carry):
        rest, factor = carry
        own = rows == k
        column = jnp.sum(jnp.where(own[None, :], rest, 0.0), axis=1)
        pivot = jnp.sum(jnp.where(own, column, 0.0))
        counts = pivot > jnp.sum(jnp.where(own, least, 0.0))
        scale = jnp.where(counts, 1.0 / jnp.sqrt(jnp.where(counts, pivot, 1.0)), 0.0)
        column = jnp.where(rows >= k, column, 0.0) * scale
        rest = rest - column[:, None] * column[None, :]
        return rest, factor + jnp.where(own[None, :], column[:, None], 0.0)

    start = covariance, jnp.zeros_like(covariance)
    return jax.lax.fori_loop(0, n, eliminate, start, unroll=n <= _UNROLLED)[1]
