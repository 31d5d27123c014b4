"""Functions compiled into one native function, and the elimination that they hold."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lie_jax import linear
from lie_jax.one_function import one_function

MARK = "xla_cpu_small_call"
# Elimination in double precision of well-conditioned systems of nine unknowns.
ROUNDING = 1e-11


def _advance(x, rate, unused, nothing):
    a = jnp.eye(5) + jnp.outer(x, x)
    return jnp.sum(a * jnp.sin(rate * x)[None, :], axis=1), nothing


def _loop(step):
    def run(x, rate):
        # A temporary array that the function does not use: XLA once ended the process there.
        def each(x, k):
            return step(_advance, x, rate, k * 1.5, jnp.zeros(0))[0], None

        return jnp.sum(jax.lax.scan(each, x, jnp.arange(6.0))[0] ** 2)

    return run


X, RATE = jnp.linspace(0.1, 0.5, 5), jnp.asarray(0.7)
PLAIN, ONE = _loop(lambda f, *a: f(*a)), _loop(one_function)


@pytest.mark.parametrize(
    ("transform", "rate"),
    [
        (lambda f: f, RATE),
        (lambda f: jax.grad(f, (0, 1)), RATE),
        (jax.hessian, RATE),
        (lambda f: jax.vmap(f, (None, 0)), RATE + jnp.arange(3.0)),
    ],
    ids=["value", "gradient", "hessian", "vmap"],
)
def test_nothing_changes(transform, rate):
    expected = jax.jit(transform(PLAIN))(X, rate)
    found = jax.jit(transform(ONE))(X, rate)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def _lowered(function, *arguments):
    # XLA marks small loops itself, but later.
    return jax.jit(function).lower(*arguments).as_text()


def test_a_small_function_is_marked_and_calls_of_libraries_are_not():
    assert MARK in _lowered(ONE, X, RATE)
    assert MARK not in _lowered(PLAIN, X, RATE)
    assert _lowered(jax.grad(ONE), X, RATE).count(MARK) >= 2
    a = jnp.eye(5) + jnp.outer(X, X)
    for function in (lambda a: jnp.tile(a, (2, 2)) @ jnp.tile(a, (2, 2)), jnp.linalg.inv, jnp.sort):
        assert MARK not in _lowered(lambda a, f=function: one_function(f, a), a)
    assert np.isfinite(jax.jit(lambda a: one_function(jnp.linalg.inv, a))(a)).all()
    assert np.isfinite(jax.jit(lambda x: one_function(jnp.sort, x))(X)).all()
    many = jnp.ones((80, 80))
    total = jax.jit(lambda a: one_function(lambda a: jnp.sum(a, axis=0), a))(many)
    np.testing.assert_array_equal(total, 80.0)


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
    found = jax.jit(jax.vmap(linear.solve))(a, b)
    # Rows count by their own size: some matrices are badly scaled.
    left = np.abs(a @ found - b) / (np.abs(a) @ np.abs(found) + np.abs(b))
    assert left.max() < ROUNDING
    well = np.linalg.cond(a) < 1e4
    assert well.sum() > 20
    np.testing.assert_allclose(found[well], np.linalg.solve(a[well], b[well]), rtol=0, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_sizes_that_are_no_multiples_of_three(n):
    a = np.random.default_rng(n).standard_normal((n, n)) + 3.0 * np.eye(n)
    np.testing.assert_allclose(linear.inverse(jnp.asarray(a)) @ a, np.eye(n), atol=ROUNDING)
    np.testing.assert_allclose(
        linear.solve_roughly(jnp.asarray(a), jnp.ones(n)), np.linalg.solve(a, np.ones(n)), rtol=1e-9
    )


def test_single_precision():
    a = np.stack(list(_matrices()))[::6].astype(np.float32)
    b = np.ones((8, 9), np.float32)
    found = jax.vmap(linear.solve)(jnp.asarray(a), jnp.asarray(b))
    assert found.dtype == jnp.float32
    left = np.abs(np.einsum("nij,nj->ni", a, found) - b)
    assert (left / (np.abs(a) @ np.abs(found)[..., None])[..., 0]).max() < 1e-3


def test_derivatives_of_a_solution():
    a, b = jnp.asarray(next(_matrices())), jnp.linspace(0.0, 1.0, 9)

    def size(solve, s):
        return jnp.sum(jnp.sin(solve(a + s * jnp.outer(b, b), b)))

    for twice in (lambda f: jax.grad(jax.grad(f)), lambda f: jax.jacfwd(jax.jacfwd(f))):
        own = twice(lambda s: size(linear.solve, s))(0.3)
        np.testing.assert_allclose(own, twice(lambda s: size(jnp.linalg.solve, s))(0.3), rtol=1e-8)


def test_a_singular_matrix_gives_no_finite_numbers():
    assert not np.isfinite(linear.solve(jnp.ones((4, 4)), jnp.arange(4.0))).all()
    assert not np.isfinite(linear.solve_roughly(jnp.zeros((3, 3)), jnp.ones(3))).any()


STEP = """
import jax, lie_jax
lie_jax.enable_x64()
from models import heavy_top
alpha = lie_jax.GeneralizedAlpha(0.9)
def end(s):
    system, state = heavy_top.build(constrained=True)
    state = lie_jax.State(state.q, s * state.v)
    run = lie_jax.simulate(system, alpha, state, dt=1e-4, steps=3, save_every=3, throw=False)
    return run.q[-1]
text = jax.jit(end).lower(1.0).as_text()
print(text.count('xla_cpu_small_call'))
"""


def test_a_step_of_generalized_alpha_is_one_function():
    done = subprocess.run([sys.executable, "-c", STEP], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) >= 1
