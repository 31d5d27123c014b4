"""Solution of small dense linear systems inside a compiled time loop."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.numerics import lapack, small
from lie_jax.numerics.block_matrix import LIGHTEST, unit
from lie_jax.numerics.matrices import AbstractMatrix

# Up to this size our own elimination beats LAPACK on one CPU core; a LAPACK call also keeps XLA
# from compiling the time loop around it into one function.
_ELIMINATION_LIMIT = 18
# Like the limit above for rough solutions, whose first half is eliminated without pivots.
_ROUGH_LIMIT = 48
# Accept residuals of eps^(4/5). That is below the regularisation eps^(3/4), so minimum-norm
# multipliers of redundant rows are resolved; derivatives need them.
_ROUGH = 4 / 5
# Sums over products of so many numbers go to a library.
LARGEST_SUM = 4000


def product(a: Float[Array, "m n"], b: Float[Array, "n p"]) -> Float[Array, "m p"]:
    """Product of two matrices without a call of a library."""
    if a.shape[0] * b.size <= LARGEST_SUM:
        return jnp.sum(a[:, :, None] * b[None, :, :], axis=1)
    # Row by row XLA takes several columns at once, of several rows together it does not.
    return jax.lax.map(lambda row: jnp.sum(row[:, None] * b, axis=0), a)


# A table (n, n + m) is a matrix (n, n) and m right-hand sides.
def _solve_by_blocks(table: Float[Array, "n p"]) -> Float[Array, "n m"]:
    # Elimination by blocks of up to three rows on the diagonal.
    n = table.shape[0]
    if n > 3:
        return _solve_by_halves(table, _solve_by_blocks)
    square, right = table[:, :n], table[:, n:]
    if n == 1:
        return right / square
    # Without scaling: an underflow leaves a large residual, on which elimination with pivots
    # follows.
    cofactors, determinant = small.adjugate(square)
    return product(cofactors / determinant, right)


def _solve_by_halves(table: Float[Array, "n p"], method: Callable) -> Float[Array, "n m"]:
    # The first half by blocks, and what it leaves of the second one by the method.
    first = max(3, table.shape[0] // 6 * 3)
    upper = _solve_by_blocks(table[:first])
    last = method(table[first:, first:] - product(table[first:, :first], upper))
    rest = table.shape[0] - first
    return jnp.concatenate([upper[:, rest:] - product(upper[:, :rest], last), last])


def solve_roughly(a: Float[Array, "n n"], b: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
    """Solution x (n,) or (n, m) of a x = b up to eps^(4/5); not to be differentiated.

    Relative to the coefficients of each equation and the largest unknown: what a Newton iteration
    needs that is followed by another one, or whose correction is small. A singular matrix gives
    non-finite numbers.
    """
    shape, b = b.shape, b.reshape(b.shape[0], -1)
    if b.shape[0] > _ROUGH_LIMIT:
        return lapack.solve(a, b).reshape(shape)
    # All of a small matrix by blocks; of a larger one the first half, which holds no constraint,
    # and the rest with pivots, for constraints may be redundant.
    table = jnp.concatenate([a, b], axis=1)
    small_enough = b.shape[0] <= _ELIMINATION_LIMIT
    x = _solve_by_blocks(table) if small_enough else _solve_by_halves(table, _eliminate)
    # Repeat with pivoting if a residual is too large. It is compared with the row's coefficients
    # times the largest unknown, not with the row's own terms: all of these may be rounding errors,
    # as out of the plane of a planar motion.
    left = jnp.abs(product(a, x) - b)
    size = jnp.sum(jnp.abs(a), axis=1, keepdims=True) * jnp.max(jnp.abs(x), axis=0, keepdims=True)
    bad = ~jnp.all(left <= jnp.finfo(a.dtype).eps ** _ROUGH * size)

    # `while_loop`, not `cond`: under vmap it runs only if a member needs it. The loop builds its
    # table from the carry: XLA hoists loop-invariant code and would compute it in every step.
    def again(carry):
        table = jnp.concatenate([jnp.where(carry[1], a, 0.0), b], axis=1)
        return _eliminate(table), jnp.zeros((), bool)

    return jax.lax.while_loop(lambda carry: carry[1], again, (x, bad))[0].reshape(shape)


def _eliminate(table: Float[Array, "n p"]) -> Float[Array, "n m"]:
    # Gauss-Jordan elimination with partial pivoting. Rows stay in place: `pivot_of[k]` notes in
    # which row unknown k was solved for.
    n = table.shape[0]
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

    start = table, jnp.ones(n, bool), jnp.zeros_like(rows)
    table, _, pivot_of = jax.lax.fori_loop(0, n, column, start)
    return table[:, n:][pivot_of]


def _solve(a: Array, b: Array) -> Array:
    columns = b.reshape(b.shape[0], -1)
    if b.shape[0] > _ELIMINATION_LIMIT:
        return lapack.solve(a, columns).reshape(b.shape)
    return _eliminate(jnp.concatenate([a, columns], axis=1)).reshape(b.shape)


def eliminate(a: Float[Array, "n n"], b: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """Solutions of a x = b by elimination with pivots up to 48 rows; not to be differentiated."""
    if a.shape[0] > _ROUGH_LIMIT:
        return lapack.solve(a, b)
    return _eliminate(jnp.concatenate([a, b], axis=1))


def solve(a: Float[Array, "n n"], b: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
    """Solution x (n,) or (n, m) of a x = b for a regular matrix (n, n).

    Differentiable to any order in both modes: derivatives are solutions with the same matrix or its
    transpose, not derivatives of the elimination. A singular matrix gives non-finite numbers.
    """
    return jax.lax.custom_linear_solve(
        lambda x: a @ x,
        b,
        solve=lambda _, b: _solve(a, b),
        transpose_solve=lambda _, b: _solve(a.T, b),
    )


class DenseMatrix(AbstractMatrix):
    """A square matrix of full size, [[S, Bᵀ], [B', C]] with `rows` constraints last if there are.

    `sizes` (rows,) are those of B S⁻¹ Bᵀ that regularise, by
    default its diagonal; `lowering` (n,) is what `regularize` subtracted from it. The
    last `correcting` multipliers correct positions and exert no force; searches start with zeros.
    """

    entries: Float[Array, "n n"]
    rows: int = eqx.field(static=True, default=0)
    sizes: Float[Array, " rows"] | None = None
    lowering: Float[Array, " n"] | None = None
    correcting: int = eqx.field(static=True, default=0)

    @override
    def transpose(self):
        return dataclasses.replace(self, entries=self.entries.T)

    @override
    def matvec(self, x):
        return self.entries @ x

    @override
    def solve(self, b):
        return solve(self.entries, b)

    @override
    def solve_roughly(self, b):
        return solve_roughly(self.entries, b)

    @override
    def solve_from(self, b, y):
        if self.lowering is None:
            return self.solve_roughly(b)
        # Constraints hold as those of the matrix itself: velocities and corrections of positions
        # are those for b alone, and multipliers alone change by what leaves y.
        columns = jnp.stack([b, self.lowering * y], axis=1)
        x, leaving = solve_roughly(self.entries, columns).T
        n, numbers = y.shape[0], np.arange(y.shape[0])
        of_forces = (numbers >= n - self.rows) & (numbers < n - self.correcting)
        return x + jnp.where(of_forces, leaving, 0.0)

    @override
    def solve_from_by(self, y, solve, b):
        # Constraints keep the lowering times y until the next correction.
        return solve(b if self.lowering is None else b + self.lowering * y)

    @override
    def rough_solver(self):
        n = self.entries.shape[0]
        table = jnp.concatenate([self.entries, jnp.eye(n, dtype=self.entries.dtype)], axis=1)
        inverse = _solve_by_blocks(table) if n <= _ELIMINATION_LIMIT else self.inverse()
        return lambda b: jnp.sum(inverse * b[None], axis=1)

    @override
    def solver(self):
        factors = jax.scipy.linalg.lu_factor(self.entries)
        return lambda b: jax.scipy.linalg.lu_solve(factors, b)

    @override
    def inverse(self):
        return _solve(self.entries, jnp.eye(*self.entries.shape, dtype=self.entries.dtype))

    @override
    def regularize(self):
        # By ε = eps^(3/4).
        if not self.rows:
            return self
        lowering = _regularization(self)
        entries = self.entries - jnp.diag(lowering)
        return dataclasses.replace(self, entries=entries, lowering=lowering)

    @override
    def solve_constrained(self, b):
        # One correction: the error is ε² in place of ε.
        return self.solution(_solve_constrained, b)

    @override
    def plus(self, push):
        n = self.entries.shape[0] - self.rows
        added = jax.vmap(push, out_axes=1)(jnp.eye(n, dtype=self.entries.dtype))
        entries = self.entries + jnp.pad(added, (0, self.rows))
        return dataclasses.replace(self, entries=entries)

    @override
    def with_rows(self, end):
        n = self.entries.shape[0] - self.rows
        entries = jnp.concatenate([self.entries[:n], end.entries[n:]])
        return dataclasses.replace(self, entries=entries)

    @override
    def smallest_row(self):
        b = self.entries[-self.rows :, : -self.rows]
        scaled = unit(unit(b.T, 1).T, 1)
        return lapack.smallest_singular_value(scaled)


def _regularization(matrix: DenseMatrix) -> Float[Array, " n"]:
    a, sizes = matrix.entries, matrix.sizes
    n = a.shape[0] - matrix.rows
    if sizes is None:
        along = jnp.abs(a[n:, :n] * a[:n, n:].T) / inertias(a[:n, :n])[None, :]
        sizes = jnp.sum(along, axis=1) + jnp.abs(jnp.diagonal(a)[n:])
    return jnp.concatenate([jnp.zeros(n, a.dtype), jnp.finfo(a.dtype).eps ** 0.75 * sizes])


def inertias(square: Float[Array, "n n"]) -> Float[Array, " n"]:
    """Sizes of the diagonal entries, those of the lightest ones raised."""
    diagonal = jnp.abs(jnp.diagonal(square))
    return jnp.maximum(diagonal, LIGHTEST * jnp.max(diagonal))


def _solve_constrained(matrix: DenseMatrix, b: Float[Array, " n"]) -> Float[Array, " n"]:
    a, change = matrix.entries, _regularization(matrix)
    n = a.shape[0] - matrix.rows
    columns = jnp.eye(a.shape[0], dtype=a.dtype)[:, n:]
    solutions = _solve(a - jnp.diag(change), jnp.concatenate([b[:, None], columns], axis=1))
    return solutions[:, 0] - solutions[:, 1:] @ (change * solutions[:, 0])[n:]
