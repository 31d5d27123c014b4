"""Linear equations [[S, Bᵀ], [B, 0]] whose block S a recursion solves without forming it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.numerics import lapack
from lie_jax.numerics.dense import eliminate, product
from lie_jax.numerics.matrices import AbstractSaddle

# Power of eps by which rows are regularised, relative to their size. Rows that depend on each other
# where constraints hold do so nearly in the stages of an explicit step, and with more weight would
# act as constraints that contradict the others.
_SHIFT = 1 / 2
# Corrections for it, each of which multiplies its error by the shift over the size of a constraint.
_CORRECTIONS = 5

Vector = Float[Array, " n"]


class SchurMatrix(AbstractSaddle):
    """A symmetric matrix [[S, Bᵀ], [B, 0]], S positive definite.

    `times(x)` is the product S x, `over(b)` the solution of S x = b; `constraints` is B (rows, n).
    `sizes` (rows,) are those of B S⁻¹ Bᵀ that regularise redundant rows, `ease` (n,) those of the
    diagonal of S⁻¹.
    """

    times: Callable
    over: Callable
    constraints: Float[Array, "rows n"]
    sizes: Float[Array, " rows"]
    ease: Vector

    @override
    def matvec(self, x):
        n, b = self.ease.shape[0], self.constraints
        first = self.times(x[:n]) + jnp.sum(b * x[n:, None], axis=0)
        return jnp.concatenate([first, jnp.sum(b * x[None, :n], axis=1)])

    @override
    def solve_constrained(self, b):
        # By the Schur complement B S⁻¹ Bᵀ.
        return jax.lax.custom_linear_solve(
            self.matvec, b, solve=lambda _, b: self._solve(b), symmetric=True
        )

    # Equations that are regular are solved as well.
    solve = solve_constrained

    def _solve(self, b: Array) -> Array:
        n, rows = self.ease.shape[0], self.constraints
        solutions = jax.vmap(self.over)(jnp.concatenate([b[None, :n], rows]))
        free, moved = solutions[0], solutions[1:]
        change = jnp.finfo(b.dtype).eps ** _SHIFT * self.sizes
        excess = jnp.sum(rows * free[None], axis=1) - b[n:]
        right = jnp.concatenate([excess[:, None], jnp.eye(len(rows), dtype=b.dtype)], axis=1)
        solved = eliminate(product(rows, moved.T) + jnp.diag(change), right)
        # The inverse, inaccurate where rows are redundant, gives the corrections alone.
        multipliers = correction = solved[:, 0]
        for _ in range(_CORRECTIONS):
            correction = jnp.sum(solved[:, 1:] * (change * correction)[None], axis=1)
            multipliers += correction
        return jnp.concatenate([free - jnp.sum(moved * multipliers[:, None], axis=0), multipliers])

    @override
    def smallest_row(self):
        # Of B scaled by `ease` and `sizes`.
        scaled = self.constraints * jnp.sqrt(self.ease)[None] / jnp.sqrt(self.sizes)[:, None]
        return lapack.smallest_singular_value(scaled)
