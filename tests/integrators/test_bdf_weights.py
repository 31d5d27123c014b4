"""Weights of BDF are those of polynomials, and its steps grow by less than past errors survive."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.integrators import bdf

# Weights of the newest instants in the derivative, times the step, for steps of one size.
UNIFORM = {
    1: [1, -1],
    2: [3 / 2, -2, 1 / 2],
    3: [11 / 6, -3, 3 / 2, -1 / 3],
    4: [25 / 12, -4, 3, -4 / 3, 1 / 4],
    5: [137 / 60, -5, 5, -10 / 3, 5 / 4, -1 / 5],
}


@jax.jit
def _weights(span, count):
    return bdf._extrapolation(span, count), *bdf._slopes(span, count)


def test_weights_are_those_of_polynomials_through_the_instants():
    rng = np.random.default_rng(0)
    spans = np.cumsum(rng.uniform(0.01, 0.1, size=5))
    for count, uniform in UNIFORM.items():
        # Instants beyond the order have any times.
        _, past, end = _weights(jnp.arange(1.0, 6.0), count)
        assert_allclose(np.append(end, past[:count]), uniform, rtol=1e-14)
        assert_allclose(past[count:], 0.0, atol=1e-15)
        coefficients = rng.normal(size=count + 1)
        ahead, past, end = _weights(jnp.asarray(spans), count)
        values = np.polyval(coefficients, -spans)
        slope = end * coefficients[-1] + np.sum(past * values)
        # Divided differences of five instants lose some four digits.
        assert_allclose(slope, coefficients[-2], rtol=1e-10)
        lower = np.polyval(coefficients[1:], -spans)
        assert_allclose(np.sum(ahead * lower), coefficients[-1], rtol=1e-10)


def _growth(order, ratio):
    """Factor by which differences of past values grow in a step, if each step grows by the ratio.

    Of the polynomial through the last instants whose derivative at the end is zero.
    """
    t = np.cumsum(float(ratio) ** np.arange(order + 1))
    past, end = t[:-1], t[-1]
    slopes = [
        np.prod(end - np.delete(past, j)) / np.prod(past[j] - np.delete(t, j)) for j in range(order)
    ]
    weights = -np.asarray(slopes) / np.sum(1.0 / (end - past))
    matrix = np.eye(order - 1, k=1)
    matrix[-1] = -np.cumsum(weights)[:-1]
    return np.abs(np.linalg.eigvals(matrix)).max()


# For orders 2 and 3 in closed form.
LIMITS = {2: 1.0 + 2.0**0.5, 3: (1.0 + 5.0**0.5) / 2.0, 4: 1.280, 5: 1.127}


@pytest.mark.parametrize("order", LIMITS)
def test_steps_grow_by_less_than_what_past_errors_survive(order):
    limit = LIMITS[order]
    assert lie_jax.BDF(order).largest_growth < limit + 5e-4
    assert _growth(order, lie_jax.BDF(order).largest_growth) < 1.0
    assert _growth(order, limit - 2e-3) < 1.0 < _growth(order, limit + 2e-3)
