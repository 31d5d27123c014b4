"""Linear solves and Newton's roots are accurate, batched and differentiable to any order."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lie_jax.numerics import dense, newton


def test_linear_solve_against_lapack():
    rng = np.random.default_rng(0)
    for n in (1, 3, 9, 18, 19):
        # A zero on the diagonal needs pivoting.
        a = rng.normal(size=(n, n)) - (np.eye(n) if n > 1 else 0)
        a[0, 0] = 0.0 if n > 1 else 2.0
        b = rng.normal(size=n)
        got = jax.jit(dense.solve)(jnp.asarray(a), jnp.asarray(b))
        assert_allclose(got, np.linalg.solve(a, b), rtol=1e-9)


def test_batches_of_large_systems_are_solved_one_by_one():
    """Two batched factorisations at a time can leave XLA's threads waiting for each other."""
    rng = np.random.default_rng(2)
    a = jnp.asarray(rng.normal(size=(2, 3, 20, 20)))
    b = jnp.asarray(rng.normal(size=(3, 20)))
    both = jax.vmap(jax.vmap(dense.solve), (0, None))
    assert_allclose(
        jax.jit(both)(a, b), jnp.linalg.solve(a, b[None, :, :, None])[..., 0], rtol=1e-9
    )
    compiled = jax.jit(both).lower(a, b).compile().as_text()
    calls = [line for line in compiled.splitlines() if "getrf" in line and "custom-call" in line]
    assert calls
    for call in calls:
        assert re.search(r"f64\[(1,)*20,20\]", call), call


@pytest.mark.full
def test_linear_solve_has_all_derivatives():
    rng = np.random.default_rng(1)
    a = jnp.asarray(rng.normal(size=(5, 5)) + 3 * np.eye(5))
    b = jnp.asarray(rng.normal(size=5))

    def ours(a, b):
        return jnp.sum(dense.solve(a, b) ** 3)

    def oracle(a, b):
        return jnp.sum(jnp.linalg.solve(a, b) ** 3)

    @jax.jit
    def derivatives(a, b):
        return [
            [derivative(function, argument)(a, b) for function in (ours, oracle)]
            for derivative in (jax.grad, jax.jacfwd, jax.hessian)
            for argument in (0, 1)
        ]

    for got, expected in derivatives(a, b):
        assert_allclose(got, expected, atol=1e-12)


def test_root_has_exact_derivatives_of_every_order():
    """x³ = p: derivatives of the cube root, in all modes, though the guess is fixed."""

    def residual(x, p):
        return x**3 - p

    def linearize(x, p):
        return residual(x, p), dense.DenseMatrix(jnp.diag(3 * x**2))

    def small(correction, value, x, p):
        return jnp.max(jnp.abs(correction)) < 1e-9

    def cube_root(p):
        search = functools.partial(newton.full, linearize, small)
        return newton.root(search, residual, linearize, jnp.asarray([1.5]), None, p[None]).y[0]

    orders = {
        1: [jax.grad, jax.jacfwd],
        2: [
            lambda f, outer=outer, inner=inner: outer(inner(f))
            for outer in (jax.jacfwd, jax.jacrev)
            for inner in (jax.jacfwd, jax.jacrev)
        ],
        3: [lambda f: jax.grad(jax.grad(jax.grad(f)))],
    }

    @jax.jit
    def derivatives(p):
        return {k: [mode(cube_root)(p) for mode in modes] for k, modes in orders.items()}

    p = jnp.asarray(2.0)
    assert_allclose(cube_root(p), 2.0 ** (1 / 3), rtol=1e-15)
    first, second = 2.0 ** (-2 / 3) / 3, -(2.0 ** (-5 / 3)) * 2 / 9
    third = 2.0 ** (-8 / 3) * 10 / 27
    got = derivatives(p)
    assert_allclose(got[1], [first] * 2, rtol=1e-14)
    assert_allclose(got[2], [second] * 4, rtol=1e-14)
    assert_allclose(got[3], [third], rtol=1e-13)


def test_damped_steps_move_points_on_their_space():
    """Angles as points (cos, sin) of a circle: full steps for arctan(2 angle) run away from 2.5."""

    def turned(point, change):
        cosine, sine = point
        c, s = jnp.cos(change[0]), jnp.sin(change[0])
        return c * cosine - s * sine, s * cosine + c * sine

    def correct(point, first):
        angle = jnp.arctan2(point[1], point[0])
        value = jnp.arctan(2.0 * angle)[None]
        change = -0.5 * (1.0 + 4.0 * angle**2) * value
        size = jnp.abs(change[0])
        return newton.Correction(turned(point, change), change, size, size < 1e-9, value)

    @functools.partial(jax.jit, static_argnums=1)
    def search(angle, bound):
        start = newton.initial_root((jnp.cos(angle), jnp.sin(angle)))
        return newton.damped_search(correct, turned, start, jnp.zeros(1), bound)

    found, ended = search(2.5, 40), search(2.5, 3)
    assert bool(found.converged) and not bool(ended.converged) and int(ended.iterations) == 3
    assert_allclose(jnp.stack(found.y), [1.0, 0.0], atol=1e-12)
    # Residuals before each correction, of which some follow moves that were taken back.
    noted = np.asarray(found.history)[: int(found.iterations)]
    assert np.isclose(noted[0], np.arctan(5.0)) and noted[-1] < 1e-9
    assert np.any(np.diff(noted) > 0.0)


def test_full_steps_that_lead_away_are_halved():
    """Full Newton steps run away from the zero of arctan beyond 1.39, and the logarithm is NaN at
    their end from e times its zero on.
    """

    def search(function, slope):
        def residual(y, shift):
            return function(y - shift)

        def linearize(y, shift):
            return residual(y, shift), dense.DenseMatrix(jnp.diag(slope(y - shift)))

        def small(correction, value, y, shift):
            return jnp.max(jnp.abs(correction)) < 1e-9

        def zero(start, shift):
            solve = functools.partial(newton.full, linearize, small)
            return newton.root(solve, residual, linearize, start[None] + shift, None, shift)

        return jax.jit(jax.vmap(zero, in_axes=(0, None)))

    shift = 0.25
    for function, slope, zero, starts in (
        (jnp.arctan, lambda y: 1.0 / (1.0 + y * y), 0.0, jnp.asarray([2.0, -20.0])),
        (jnp.log, lambda y: 1.0 / y, 1.0, jnp.asarray([3.0, 50.0])),
    ):
        plain = starts
        for _ in range(newton.MAX_ITERATIONS):
            plain = plain - function(plain) / slope(plain)
        assert not jnp.any(jnp.isfinite(plain))
        root = search(function, slope)(starts, jnp.asarray(shift))
        assert bool(jnp.all(root.converged))
        assert_allclose(root.y[:, 0], zero + shift, atol=1e-12)
