"""Small convex quadratic problems between bounds."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax.numerics.small import matvec


class Definite(NamedTuple):
    """Solution of a linear system, and whether its matrix is positive definite."""

    solution: Float[Array, "n m"]
    definite: Bool[Array, ""]


def solve_definite(a: Float[Array, "n n"], b: Float[Array, "n m"]) -> Definite:
    """Solve a x = b for a symmetric matrix by elimination without pivoting."""
    n = a.shape[0]

    def column(k, carry):
        table, smallest = carry
        row = jax.lax.dynamic_index_in_dim(table, k, keepdims=False)
        pivot = jax.lax.dynamic_index_in_dim(row, k, keepdims=False)
        row = row / pivot
        factors = jax.lax.dynamic_index_in_dim(table, k, axis=1, keepdims=False)
        is_pivot = (jnp.arange(n) == k)[:, None]
        table = jnp.where(is_pivot, row[None, :], table - factors[:, None] * row[None, :])
        return table, jnp.minimum(smallest, pivot)

    start = jnp.concatenate([a, b], axis=1), jnp.asarray(jnp.inf, a.dtype)
    table, smallest = jax.lax.fori_loop(0, n, column, start)
    # NaN, from a pivot of zero, compares as false.
    return Definite(table[:, n:], smallest > 0.0)


class Minimum(NamedTuple):
    """Minimiser (n,), its entries between their bounds, and whether the problem is convex there."""

    x: Float[Array, " n"]
    free: Bool[Array, " n"]
    convex: Bool[Array, ""]


_ITERATIONS = 40
_HALVINGS = 12


def minimize(
    hessian: Float[Array, "n n"],
    slope: Float[Array, " n"],
    lower: Float[Array, " n"],
    upper: Float[Array, " n"],
) -> Minimum:
    """Minimise ½ xᵀ H x + gᵀ x with lower <= x <= upper, by projected Newton steps.

    Not convex if the Hessian of the free entries is not positive definite. Source: Bertsekas,
    Projected Newton methods, SIAM J. Control Optim. 20 (1982); Tassa, Mansard and Todorov,
    Control-limited differential dynamic programming, ICRA 2014.
    """
    eps = jnp.finfo(slope.dtype).eps
    shrink = jnp.asarray(0.5 ** np.arange(_HALVINGS), slope.dtype)

    def cost(x):
        return jnp.sum(x * (0.5 * matvec(hessian, x) + slope))

    def advance(carry):
        x, _, _, _, count = carry
        gradient = matvec(hessian, x) + slope
        free = ~((x <= lower) & (gradient > 0.0) | (x >= upper) & (gradient < 0.0))
        free_gradient = jnp.where(free, gradient, 0.0)
        # Rounding of the gradient's two parts.
        size = jnp.abs(slope) + matvec(jnp.abs(hessian), jnp.abs(x))
        finished = jnp.all(jnp.abs(free_gradient) <= 64.0 * eps * size)
        newton, definite = solve_definite(restricted(hessian, free), -free_gradient[:, None])
        trials = jnp.clip(x[None] + shrink[:, None] * newton.T, lower[None], upper[None])
        best = trials[jnp.argmin(jax.vmap(cost)(trials))]
        better = definite & ~finished & (cost(best) < cost(x))
        return jnp.where(better, best, x), free, definite, ~better, count + 1

    zero = jnp.clip(jnp.zeros_like(slope), lower, upper)
    start = zero, jnp.ones(slope.shape, bool), jnp.array(True), jnp.array(False), jnp.array(0)
    x, free, definite, _, _ = jax.lax.while_loop(
        lambda carry: ~carry[3] & (carry[4] < _ITERATIONS), advance, start
    )
    return Minimum(x, free, definite)


def restricted(hessian: Float[Array, "n n"], free: Bool[Array, " n"]) -> Float[Array, "n n"]:
    """Hessian with the rows and columns of entries that are not free replaced by identity's."""
    return jnp.where(
        free[:, None] & free[None, :], hessian, jnp.eye(hessian.shape[0], dtype=hessian.dtype)
    )
