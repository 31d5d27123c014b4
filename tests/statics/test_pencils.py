"""Eigenvalues of pencils: accuracy over many decades, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lie_jax.statics import pencils

# Of motions half-way between the softest and the stiffest one: √1e17 times rounding.
MIDDLE = 1e-7


def _random(seed=2, n=4):
    """Mass, damping and stiffness; mass and stiffness are positive definite."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(2, n, n))
    mass, stiffness = roots @ roots.swapaxes(1, 2) + np.eye(n)
    return jnp.asarray(mass), jnp.asarray(rng.normal(size=(n, n))), jnp.asarray(stiffness)


@pytest.mark.full
def test_squares_are_right_over_sixteen_decades():
    """Graded matrices, as of beams: K = D T D with T well conditioned and M diagonal."""
    n, decades = 8, np.logspace(-4, 4, 8)
    _, _, inner = _random(3, n)
    mass = jnp.asarray(np.diag(np.linspace(1.0, 2.0, n)))
    stiffness = jnp.asarray(decades[:, None] * np.asarray(inner) * decades[None])
    solved = pencils.conservative(mass, stiffness)
    # Products of all squares are determinants, also of the stiff motions alone in the limit.
    determinant = np.prod(decades**2) * np.linalg.det(inner) / np.prod(np.diag(mass))
    assert_allclose(np.prod(np.asarray(solved.squares)), determinant, rtol=MIDDLE)
    forces = np.asarray(stiffness @ solved.motions - mass @ solved.motions * solved.squares[None])
    sizes = np.abs(stiffness) @ np.abs(solved.motions)
    assert np.all(np.abs(forces) < MIDDLE * sizes)
    # The softest motion by the inverse in exact terms: 1 / (K⁻¹ M) in the limit of stiff others.
    inverse = np.linalg.inv(inner)[0, 0] / decades[0] ** 2
    assert_allclose(solved.squares[0], 1.0 / (inverse * mass[0, 0]), rtol=1e-2)


@pytest.mark.full
def test_squares_have_second_derivatives_and_equal_ones_finite_first_ones():
    mass, _, stiffness = _random()
    other_mass, _, other_stiffness = _random(5)

    def value(s):
        result = pencils.conservative(mass + s * other_mass, stiffness + s * other_stiffness)
        return jnp.stack([result.squares[1], jnp.sum(result.motions[:, 1] ** 2)])

    h, zero = 1e-3, jnp.zeros(())
    first = jax.jit(jax.jacfwd(value))
    second = jax.jit(jax.jacfwd(jax.jacrev(value)))(zero)
    for got, function in ((first(zero), value), (second, first)):
        differences = (
            8.0 * (function(zero + h) - function(zero - h))
            - (function(zero + 2.0 * h) - function(zero - 2.0 * h))
        ) / (12.0 * h)
        assert_allclose(got, differences, rtol=1e-7)

    def total(s):
        return jnp.sum(pencils.conservative(jnp.eye(4), jnp.eye(4) + s * stiffness).squares)

    assert_allclose(jax.grad(total)(zero), jnp.trace(stiffness), rtol=1e-12)


def test_exponents_solve_the_quadratic_problem_and_change_as_differences_say():
    matrices = _random()

    def exponents(matrices):
        result = pencils.general(*matrices, 8)
        return result, jnp.stack([result.growth, result.frequencies])

    result, _ = jax.jit(exponents)(matrices)
    there = np.isfinite(result.growth)
    values = (np.asarray(result.growth) + 1j * np.asarray(result.frequencies))[there]
    mass, damping, stiffness = map(np.asarray, matrices)
    n = len(mass)
    inverse = np.linalg.inv(mass)
    first_order = np.block(
        [[np.zeros((n, n)), np.eye(n)], [-inverse @ stiffness, -inverse @ damping]]
    )
    expected = np.linalg.eigvals(first_order)
    expected = expected[expected.imag >= 0.0]
    order = np.argsort(expected.imag)
    assert_allclose(values, expected[order], rtol=1e-11)
    for value, motion in zip(values, np.asarray(result.motions).T[there], strict=True):
        left = value**2 * mass @ motion + value * damping @ motion + stiffness @ motion
        assert_allclose(left, np.zeros(n), atol=1e-11)
        assert_allclose(motion.conj() @ mass @ motion, 1.0, rtol=1e-12)

    along, h = _random(7), 1e-4

    def moved(s):
        return jax.tree.map(lambda a, b: a + s * b, matrices, along)

    change = jax.jit(jax.jacfwd(lambda s: exponents(moved(s))[1]))(jnp.zeros(()))
    run = jax.jit(lambda s: exponents(moved(s))[1])
    late, early, late2, early2 = (run(jnp.asarray(k * h)) for k in (1.0, -1.0, 2.0, -2.0))
    difference = (8.0 * (late - early) - (late2 - early2)) / (12.0 * h)
    assert_allclose(change[:, there], difference[:, there], rtol=1e-7, atol=1e-9)
