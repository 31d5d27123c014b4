"""Decompositions by LAPACK: values, derivatives, and batches that end."""

import dataclasses
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.numerics import lapack
from models import bricard

# Of two ways to the same derivative, in double precision.
AGREEMENT = 1e-12
# Of its second derivatives: products of inverses of a matrix with a condition of some ten.
AGREEMENT_OF_SECOND = 1e-10
RTOL = 1e-8


def _matrices(count, rank):
    rng = np.random.default_rng(3)
    return jnp.asarray(rng.normal(size=(count, 5, rank)) @ rng.normal(size=(count, rank, 7)))


@pytest.mark.parametrize("rank", [3, pytest.param(5, marks=pytest.mark.full)])
def test_pseudoinverse_of_any_rank_has_the_derivatives_of_its_formula(rank):
    """To second order along A(s) = (1 + sX) A (1 + sY), which keeps the rank."""
    a = _matrices(1, rank)[0]
    rng = np.random.default_rng(4)
    x, y = (jnp.asarray(rng.normal(size=(n, n))) for n in a.shape)

    def along(pseudoinverse):
        def value(s):
            return pseudoinverse((a + s * x @ a) @ (jnp.eye(len(y)) + s * y))

        first = jax.jacfwd(value)
        return jax.jit(lambda s: (value(s), first(s), jax.jacfwd(first)(s)))(jnp.zeros(()))

    # Of full rank (A Aᵀ)⁻¹ behind Aᵀ; of any rank from a basis of the columns of A.
    basis = a[:, :rank]

    def by_formula(grown):
        columns = grown @ (jnp.linalg.pinv(a) @ basis)
        rows = jnp.linalg.solve(columns.T @ columns, columns.T @ grown)
        right = jnp.linalg.solve(rows @ rows.T, jnp.linalg.solve(columns.T @ columns, columns.T))
        return rows.T @ right

    for value, expected in zip(
        along(lambda m: lapack.pseudoinverse(m, RTOL)), along(by_formula), strict=True
    ):
        assert_allclose(
            value, expected, rtol=0, atol=AGREEMENT_OF_SECOND * float(jnp.max(jnp.abs(expected)))
        )


def test_members_of_a_batch_have_the_values_of_each_alone():
    a = _matrices(4, 5)
    b = a[:, :, :5] + 2.0 * jnp.eye(5)[None]
    batch = jax.jit(
        lambda a, b: (
            jax.vmap(lapack.smallest_singular_value)(a),
            jax.vmap(lambda a: lapack.pseudoinverse(a, RTOL))(a),
            jax.vmap(lapack.solve)(b, a),
            jax.vmap(lapack.solve, in_axes=(None, 0))(b[0], a),
        )
    )(a, b)
    expected = (
        np.linalg.svd(a, compute_uv=False)[:, -1],
        np.linalg.pinv(a),
        np.linalg.solve(b, a),
        np.linalg.solve(b[0][None], a),
    )
    for value, right in zip(batch, expected, strict=True):
        assert_allclose(value, right, rtol=0, atol=AGREEMENT * np.max(np.abs(right)))


@pytest.mark.full
def test_batch_of_redundant_runs_calls_lapack_for_one_member_at_a_time():
    """Smallest multipliers with their derivative, and the search for dependent rows."""
    system, state = bricard.build(lie_jax.R3SO3())
    integrator = lie_jax.GeneralizedAlpha(0.8)

    def number(scale):
        start = dataclasses.replace(state, v=scale * state.v)
        run = lie_jax.simulate(system, integrator, start, dt=1e-3, steps=2, throw=False)
        return jnp.sum(run.multipliers**2)

    batch = jax.jit(jax.vmap(jax.value_and_grad(number)))
    text = batch.lower(jnp.asarray([1.0, 1.1, 1.2])).compile().as_text()
    calls = [line for line in text.splitlines() if 'custom_call_target="lapack' in line]
    assert calls
    for line in calls:
        result = line.split("=")[1].split("custom-call")[0]
        for shape in re.findall(r"f64\[([\d,]*)\]", result):
            leading = [int(n) for n in shape.split(",") if n][:-2]
            assert all(n == 1 for n in leading), line


_MANY_BATCHES = """
import jax, jax.numpy as jnp, numpy as np
from lie_jax.numerics import lapack

jax.config.update("jax_enable_x64", True)

@jax.jit
@jax.vmap
def program(a):
    # Three times four that do not wait for each other.
    def three(a):
        inverse = lapack.pseudoinverse(a, 1e-8)
        return lapack.smallest_singular_value(a) + jnp.sum(inverse + lapack.solve(a, a))

    return sum(three(a + k * jnp.eye(6)) for k in range(4))

batch = jnp.asarray(np.random.default_rng(5).normal(size=(6400, 6, 6)))
for _ in range(20):
    program(batch).block_until_ready()
"""
# Of a program that takes some five.
_ENOUGH_SECONDS = 120


@pytest.mark.full
def test_many_batches_at_a_time_end():
    subprocess.run([sys.executable, "-c", _MANY_BATCHES], check=True, timeout=_ENOUGH_SECONDS)
