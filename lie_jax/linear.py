"""Solution of small dense linear systems inside a compiled time loop."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Up to this size our own elimination beats LAPACK on one CPU core; a LAPACK call also keeps XLA
# from compiling the time loop around it into one function.
_ELIMINATION_LIMIT = 18


def _eliminate(a: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    # Gauss-Jordan elimination with partial pivoting. Rows stay in place: `pivot_of[k]` notes in
    # which row unknown k was solved for.
    n = b.shape[0]
    rows = jnp.arange(n)

    def column(k, carry):
        table, free, pivot_of = carry
        entries = jax.lax.dynamic_index_in_dim(table, k, axis=1, keepdims=False)
        pivot = jnp.argmax(jnp.where(free, jnp.abs(entries), -1.0))
        row = jax.lax.dynamic_index_in_dim(table, pivot, keepdims=False)
        row = row / jax.lax.dynamic_index_in_dim(entries, pivot, keepdims=False)
        is_pivot = rows == pivot
        factors = jnp.where(is_pivot, 0.0, entries)
        table = jnp.where(is_pivot[:, None], row[None, :], table - factors[:, None] * row[None, :])
        pivot_of = jax.lax.dynamic_update_index_in_dim(pivot_of, pivot, k, 0)
        return table, free & ~is_pivot, pivot_of

    start = (jnp.concatenate([a, b[:, None]], axis=1), jnp.ones(n, bool), jnp.zeros_like(rows))
    table, _, pivot_of = jax.lax.fori_loop(0, n, column, start)
    return table[:, n][pivot_of]


def solve(a: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """Solution x (n,) of a x = b for a regular matrix (n, n).

    Differentiable to any order in both modes: derivatives are solutions with the same matrix or its
    transpose, not derivatives of the elimination. A singular matrix gives non-finite numbers.
    """
    if b.shape[0] > _ELIMINATION_LIMIT:
        return jnp.linalg.solve(a, b)
    return jax.lax.custom_linear_solve(
        lambda x: a @ x,
        b,
        solve=lambda _, b: _eliminate(a, b),
        transpose_solve=lambda _, b: _eliminate(a.T, b),
    )
