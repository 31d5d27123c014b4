"""Solution of small dense linear systems inside a compiled time loop."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Up to this size our own elimination beats LAPACK on one CPU core; a LAPACK call also keeps XLA from
# compiling the time loop around it into one function.
_ELIMINATION_LIMIT = 18


def _eliminate(a: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    # Gauss-Jordan elimination with partial pivoting. Rows stay in place: `pivot_of` notes in which
    # row each unknown was solved for.
    n = b.shape[0]
    rows = jnp.arange(n)

    def column(k, carry):
        table, free, pivot_of = carry
        entries = jnp.sum(jnp.where(rows[None, :] == k, table[:, :n], 0.0), axis=1)
        chosen = rows == jnp.argmax(jnp.where(free, jnp.abs(entries), -1.0))
        pivot_row = jnp.sum(jnp.where(chosen[:, None], table, 0.0), axis=0)
        pivot_row = pivot_row / jnp.sum(jnp.where(chosen, entries, 0.0))
        factors = jnp.where(chosen, 0.0, entries)
        table = jnp.where(
            chosen[:, None],
            pivot_row[None, :],
            table - factors[:, None] * pivot_row[None, :],
        )
        return table, free & ~chosen, jnp.where((rows == k)[:, None], chosen[None, :], pivot_of)

    start = (
        jnp.concatenate([a, b[:, None]], axis=1),
        jnp.ones(n, bool),
        jnp.zeros((n, n), bool),
    )
    table, _, pivot_of = jax.lax.fori_loop(0, n, column, start)
    return jnp.sum(jnp.where(pivot_of, table[None, :, n], 0.0), axis=1)


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
