"""Custom derivative rules: values differentiated as if they were something else."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from lie_jax.numerics import rules


def _power(value, exponent):
    # Counts as x ** exponent, whatever the value.
    def change(value, parameters, changes):
        x, exponent, _ = parameters
        return exponent * rules.value_with_rule(value / x, slope, parameters) * changes[0]

    def slope(value, parameters, changes):
        x, exponent, _ = parameters
        return (exponent - 1) * value / x * changes[0]

    return lambda x: rules.value_with_rule(value, change, (x, exponent, "static"))


def test_rules_of_rules():
    """A value from elsewhere, integers and what is no array among the parameters."""
    x = jnp.asarray(1.5)
    function = _power(x**3, jnp.asarray(3))
    assert_allclose(jax.grad(function)(x), 3 * x**2, rtol=1e-15)
    assert_allclose(jax.hessian(function)(x), 6 * x, rtol=1e-15)
    assert_allclose(jax.grad(jax.grad(function))(x), 6 * x, rtol=1e-15)


def test_values_have_no_derivatives_of_their_own():
    def function(x, y):
        return rules.value_with_rule(
            {"of": x * y}, lambda values, y, change: {"of": 7.0 * change}, y
        )["of"]

    by_x, by_y = jax.jit(jax.grad(function, (0, 1)))(2.0, 3.0)
    assert float(by_x) == 0.0 and float(by_y) == 7.0


def test_alike_has_its_own_derivatives():
    """In forward mode also where those of the others are no numbers."""

    def function(x, other):
        return jnp.sum(rules.with_tangents_of(jnp.sin(x), {"other": other(x), "name": "n"}) ** 2)

    def infinite(x):
        return jnp.sqrt(x - x)

    x = jnp.asarray([0.3, 0.7])
    expected = np.sin(2.0 * np.asarray(x))
    assert np.isnan(jax.jacfwd(infinite)(x)).any()
    assert_allclose(jax.jacfwd(function)(x, infinite), expected, rtol=1e-15)
    assert_allclose(jax.grad(function)(x, jnp.exp), expected, rtol=1e-15)
    assert_array_equal(rules.with_tangents_of(x, x), x)


def test_values_that_count_as_depending_on_a_batch_are_batched():
    def total(a):
        def each(b):
            return b * jnp.sum(rules.with_tangents_of(jnp.ones(2), b))

        return jnp.sum(jax.vmap(jax.jit(each))(a * jnp.arange(3.0)))

    # JAX refused the shapes: the values had no axis of the batch, and their derivatives had one.
    assert jax.grad(total)(2.0) == 6.0
    assert jax.jit(jax.grad(total))(2.0) == 6.0
    signed = rules.with_tangents_of(jnp.asarray([-0.0, jnp.nan]), jnp.ones(3))
    assert np.signbit(signed[0]) and np.isnan(signed[1])
