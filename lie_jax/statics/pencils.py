"""Eigenvalues of K - ω² M and of λ² M + λ C + K with derivatives.

Stiffnesses of a beam spread over sixteen decades. An eigensolver's error is relative to the largest
eigenvalue of its matrix: high motions come from M⁻¹ K, low ones from its inverse, K⁻¹ M. Of both
the better one is taken on each side of the geometric mean of the largest and smallest motions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from lie_jax.numerics import lapack, rules

# Shift of all squares of frequencies relative to the smallest ratio of diagonal entries of K and M,
# as a power of the rounding unit: free directions have no flexibility without it. Ratios below so
# many units of rounding of the largest one are those of free directions.
_SHIFT, _FREE = 5 / 8, 1e3
# Eigenvalues of an inverse in units of the rounding of the largest, below which they are noise.
_NOISE = 100.0
# Difference of neighbouring squares in units of their rounding below which they count as equal.
_EQUAL = 1e3

Square = Float[Array, "n n"]


class Squares(NamedTuple):
    """Squares ω² (n,) ascending, and motions y, columns (n, n), with yᵀ M y = 1."""

    squares: Float[Array, " n"]
    motions: Square


def conservative(mass: Square, stiffness: Square) -> Squares:
    """Solutions of K y = ω² M y for symmetric K and M, M positive definite, or NaN.

    Squares and motions are differentiable to any order where squares are simple. Of equal squares
    the derivatives are those of the motions that are computed, without any NaN; their sum is right.
    """
    pencil = mass, 0.5 * (stiffness + stiffness.T)
    return rules.value_with_rule(_conservative(*rules.stop_gradient(pencil)), _change, pencil)


def _conservative(mass: Square, stiffness: Square) -> Squares:
    n = mass.shape[0]
    root = jnp.linalg.cholesky(mass)
    shift = _shift(mass, stiffness)
    inner = _solve_triangular(root, _solve_triangular(root, stiffness).T)
    high, high_motions = lapack.symmetric_eigen(0.5 * (inner + inner.T))
    flexibility = root.T @ _solve(stiffness + shift * mass, root)
    inverse, low_motions = lapack.symmetric_eigen(0.5 * (flexibility + flexibility.T))
    largest = jnp.max(jnp.abs(inverse))
    noise = _NOISE * n * jnp.finfo(mass.dtype).eps * largest
    known = jnp.abs(inverse) > noise
    low = jnp.where(known, 1.0 / jnp.where(known, inverse, 1.0) - shift, jnp.inf)
    order = jnp.argsort(low)
    low, low_motions = low[order], low_motions[:, order]
    middle = jnp.sqrt(jnp.max(jnp.abs(high)) / largest)
    serves = (jnp.abs(high) > middle) | ~jnp.isfinite(low)
    squares = jnp.where(serves, high, low)
    motions = jnp.where(serves[None], high_motions, low_motions)
    order = jnp.argsort(squares)
    return Squares(squares[order], _solve_triangular(root.T, motions[:, order], lower=False))


def _change(values: Squares, pencil: Any, changes: Any) -> Squares:
    y, squares = values.motions, values.squares
    by_mass, by_stiffness = (
        jnp.zeros_like(y) if change is None else y.T @ change @ y for change in changes
    )
    turned = by_stiffness - by_mass * squares[None]
    size = jnp.maximum(jnp.abs(squares[:, None]), jnp.abs(squares[None]))
    apart = squares[None] - squares[:, None]
    equal = jnp.abs(apart) <= _EQUAL * jnp.finfo(y.dtype).eps * size
    mixing = jnp.where(equal, 0.0, turned / jnp.where(equal, 1.0, apart))
    mixing = mixing - 0.5 * jnp.diag(jnp.diagonal(by_mass))
    return Squares(jnp.diagonal(turned), y @ mixing)


class Exponents(NamedTuple):
    """Growth rates and frequencies of λ, motions y of exp(λ t) y, columns (n, m); see `general`."""

    growth: Float[Array, " m"]
    frequencies: Float[Array, " m"]
    motions: Complex[Array, "n m"]


def general(mass: Square, damping: Square, stiffness: Square, number: int) -> Exponents:
    """Solutions of (λ² M + λ C + K) y = 0 by frequency |Im λ|, one of each conjugate pair.

    Growth rates and frequencies have first derivatives, motions, with y* M y = 1, have none.
    """
    matrices = mass, damping, stiffness
    m, c, k = rules.stop_gradient(matrices)
    values, right, left = _general(m, c, k, number)
    weighted = jnp.sum(right.conj() * (m.astype(right.dtype) @ right), axis=0)
    norms = jnp.sqrt(jnp.real(weighted))
    largest = jnp.argmax(jnp.abs(right), axis=0)
    phases = jnp.take_along_axis(right, largest[None], axis=0)[0]
    turned = phases.conj() / (jnp.abs(phases) * norms).astype(right.dtype)
    there = ~jnp.isnan(jnp.real(values))
    motions = jnp.where(there[None], right * turned[None], complex(jnp.nan, jnp.nan))
    pair = jnp.real(values), jnp.imag(values)
    parameters = rules.stop_gradient((values, right, left)), matrices
    growth, frequencies = rules.value_with_rule(pair, _change_of_exponents, parameters)
    return Exponents(growth, frequencies, motions)


def _general(mass: Square, damping: Square, stiffness: Square, number: int):
    """Eigenvalues (m,), right and left motions, columns (n, m)."""
    n = mass.shape[0]
    identity, zero = jnp.eye(n, dtype=mass.dtype), jnp.zeros_like(mass)
    root = jnp.linalg.cholesky(mass)

    def inner(matrix: Square) -> Square:
        return _solve_triangular(root, _solve_triangular(root, matrix.T).T)

    # Shifted, λ = θ + s, so that free directions have flexibilities.
    shift = jnp.sqrt(_shift(mass, 0.5 * (stiffness + stiffness.T)))
    shifted = stiffness + shift * damping + shift**2 * mass
    compliance = root.T @ _solve(shifted, root)
    rate = damping + 2.0 * shift * mass
    by_rate = root.T @ _solve_triangular(root, _solve(shifted, rate).T).T
    slow = 1.0 / jnp.sqrt(jnp.linalg.norm(compliance))
    below = jnp.block([[-by_rate * slow, -compliance * slow**2], [identity, zero]])
    inverses, low, low_left = _both_sides(below)
    known = jnp.abs(inverses) > _NOISE * n * jnp.finfo(mass.dtype).eps
    inverted = slow.astype(low.dtype) / jnp.where(known, inverses, 1.0)
    low_values = jnp.where(known, inverted + shift.astype(low.dtype), jnp.inf)

    stiff, viscous = inner(stiffness), inner(damping)
    fast = jnp.maximum(jnp.sqrt(jnp.linalg.norm(stiff)), jnp.linalg.norm(viscous))
    above = jnp.block([[zero, identity], [-stiff / fast**2, -viscous / fast]])
    high_values, high, high_left = _both_sides(above)
    high_values = fast.astype(high.dtype) * high_values

    middle = jnp.sqrt(fast * slow)
    values = jnp.concatenate([low_values, high_values])
    taken = jnp.concatenate([jnp.abs(low_values) <= middle, jnp.abs(high_values) > middle])
    # One of each pair; the others and what is not taken come last.
    taken = taken & (jnp.imag(values) >= 0.0)
    values = jnp.where(taken, values, complex(jnp.nan, jnp.nan))
    order = jnp.argsort(jnp.where(taken, jnp.abs(jnp.imag(values)), jnp.inf))[:number]
    right = jnp.concatenate([low[:n], high[:n]], axis=1)[:, order]
    left = jnp.concatenate([low_left[n:], high_left[n:]], axis=1)[:, order]
    upper = root.T.astype(right.dtype)
    right, left = (
        _solve_triangular(upper, right, lower=False),
        _solve_triangular(upper, left, lower=False),
    )
    return values[order], right, left


def _both_sides(matrix: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues, right vectors and left vectors, both as columns."""
    values, right = lapack.eigen(matrix)
    return values, right, lapack.solve(right, jnp.eye(right.shape[0], dtype=right.dtype)).T


def _change_of_exponents(values: Any, parameters: Any, changes: Any) -> tuple[Array, Array]:
    (values, right, left), (mass, damping, _) = parameters
    there = ~jnp.isnan(jnp.real(values))
    # A factor of NaN would reach the derivatives of all modes.
    exponents = jnp.where(there, values, 0.0)
    by_mass, by_damping, by_stiffness = changes[1]

    def between(matrix: Array | None) -> Array:
        if matrix is None:
            return jnp.zeros_like(exponents)
        return jnp.sum(left * (matrix.astype(right.dtype) @ right), axis=0)

    change = exponents**2 * between(by_mass) + exponents * between(by_damping)
    change = change + between(by_stiffness)
    rate = jnp.where(there, 2.0 * exponents * between(mass) + between(damping), 1.0)
    moved = jnp.where(there, -change / rate, 0.0)
    return jnp.real(moved), jnp.imag(moved)


def _shift(mass: Square, stiffness: Square) -> Float[Array, ""]:
    ratios = jnp.abs(jnp.diagonal(stiffness)) / jnp.diagonal(mass)
    eps = jnp.finfo(mass.dtype).eps
    held = ratios > _FREE * eps * jnp.max(ratios, initial=0.0)
    least = jnp.min(jnp.where(held, ratios, jnp.inf), initial=jnp.inf)
    return jnp.where(jnp.isfinite(least), eps**_SHIFT * least, 1.0)


def _solve(a: Square, b: Square) -> Square:
    """Solution of a x = b, rows and columns scaled by the diagonal."""
    diagonal = jnp.abs(jnp.diagonal(a))
    scale = 1.0 / jnp.sqrt(jnp.where(diagonal > 0.0, diagonal, 1.0))
    return scale[:, None] * lapack.solve(a * scale[:, None] * scale[None], b * scale[:, None])


def _solve_triangular(triangle: Array, b: Array, lower: bool = True) -> Array:
    return jax.scipy.linalg.solve_triangular(triangle, b, lower=lower)
