"""Elimination of small systems by blocks, and with pivots where that is not accurate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lie_jax.numerics import dense, small

# Elimination in double precision of well-conditioned systems of nine unknowns.
ROUNDING = 1e-11
# What `solve_roughly` promises in double precision, the root of its epsilon.
ROUGHLY = 1.5e-8
# Rounding of the entries over pivots of 2^-36, of some ten operations.
PIVOT = 1e-4


def _matrices():
    rng = np.random.default_rng(7)
    for _ in range(8):
        root, b = rng.standard_normal((6, 6)), rng.standard_normal((3, 6))
        mass = root @ root.T + np.eye(6)
        scale = np.diag(10.0 ** rng.uniform(-6, 6, 9))
        saddle = np.block([[mass, b.T], [b, np.zeros((3, 3))]])
        yield from (saddle, rng.standard_normal((9, 9)), scale @ saddle @ scale)
        yield saddle[rng.permutation(9)]
        # Blocks on the diagonal that are singular.
        yield np.block([[np.zeros((3, 3)), b], [b.T, mass]])
        yield np.eye(9)[rng.permutation(9)]


def test_solutions_are_those_of_lapack():
    a, b = np.stack(list(_matrices())), np.random.default_rng(8).standard_normal((48, 9, 2))
    both = jax.vmap(lambda a, b: (dense.solve(a, b), dense.solve_roughly(a, b[:, 0])))
    found, rough = jax.jit(both)(a, b)
    # Rows count by their own size: some matrices are badly scaled.
    for x, right, bound in ((found, b, ROUNDING), (rough[..., None], b[..., :1], ROUGHLY)):
        left = np.abs(a @ x - right) / (np.abs(a) @ np.abs(x) + np.abs(right))
        assert left.max() < bound
    well = np.linalg.cond(a) < 1e4
    assert well.sum() > 20
    np.testing.assert_allclose(found[well], np.linalg.solve(a[well], b[well]), rtol=0, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_sizes_that_are_no_multiples_of_three(n):
    a = np.random.default_rng(n).standard_normal((n, n)) + 3.0 * np.eye(n)
    inverse, rough = jax.jit(
        lambda a: (dense.DenseMatrix(a).inverse(), dense.solve_roughly(a, jnp.ones(n)))
    )(a)
    np.testing.assert_allclose(inverse @ a, np.eye(n), atol=ROUNDING)
    np.testing.assert_allclose(rough, np.linalg.solve(a, np.ones(n)), rtol=1e-9)


def test_single_precision():
    a = np.stack(list(_matrices()))[::6].astype(np.float32)
    b = np.ones((8, 9), np.float32)
    found = jax.vmap(dense.solve)(jnp.asarray(a), jnp.asarray(b))
    assert found.dtype == jnp.float32
    left = np.abs(np.einsum("nij,nj->ni", a, found) - b)
    assert (left / (np.abs(a) @ np.abs(found)[..., None])[..., 0]).max() < 1e-3


def test_derivatives_of_a_solution():
    a, b = jnp.asarray(next(_matrices())), jnp.linspace(0.0, 1.0, 9)

    def size(solve, s):
        return jnp.sum(jnp.sin(solve(a + s * jnp.outer(b, b), b)))

    for twice in (lambda f: jax.grad(jax.grad(f)), lambda f: jax.jacfwd(jax.jacfwd(f))):
        got, expected = (
            jax.jit(twice(lambda s, solve=solve: size(solve, s)))(0.3)
            for solve in (dense.solve, jnp.linalg.solve)
        )
        np.testing.assert_allclose(got, expected, rtol=1e-8)


@pytest.mark.full
def test_a_singular_matrix_gives_no_finite_numbers():
    assert not np.isfinite(dense.solve(jnp.ones((4, 4)), jnp.arange(4.0))).all()
    assert not np.isfinite(dense.solve_roughly(jnp.zeros((3, 3)), jnp.ones(3))).any()


def test_pivots_of_rows_that_depend_on_each_other_keep_their_digits():
    """Sherman and Morrison's inverse of r rᵀ + ε 1: four of five pivots are of the size of ε."""
    r, small_pivot = np.asarray([1.0, -0.7, 0.4, 1.3, 0.9]), 2.0**-36
    matrix = np.outer(r, r) + small_pivot * np.eye(5)
    expected = (np.eye(5) - np.outer(r, r) / (small_pivot + r @ r)) / small_pivot
    found = jax.jit(small.inverse_by_rows)(jnp.asarray(matrix))
    np.testing.assert_allclose(found * small_pivot, expected * small_pivot, atol=PIVOT)
