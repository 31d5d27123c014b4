"""Releases of JAX that lie_jax was not tested with are met by known results."""

import warnings

import jax
import pytest

from lie_jax.simulation import jax_guard


@pytest.fixture
def another_release(monkeypatch):
    monkeypatch.setattr(jax_guard, "_checked", False)
    monkeypatch.setattr(jax, "__version__", "0.99.0")
    return monkeypatch


def test_right_results_pass_in_another_release(another_release):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax_guard.warn_of_untested_jax()


def test_right_results_pass_inside_a_transformation(another_release):
    def traced(x):
        jax_guard.warn_of_untested_jax()
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(jax.grad(traced))(1.0)


def test_wrong_results_are_named(another_release):
    product = jax.numpy.sum
    another_release.setattr(
        jax_guard.jnp, "sum", lambda *arguments, **of: 1.001 * product(*arguments, **of)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jax_guard.warn_of_untested_jax()
    first = str(caught[0].message)
    assert "JAX 0.99.0 was not" in first and "a batch of matrix products is off by 0.0" in first


def test_a_missing_part_of_jax_is_named(another_release):
    another_release.delattr(jax.lax, "scan")
    with pytest.warns(UserWarning, match="a derivative by a rule raises AttributeError"):
        jax_guard.warn_of_untested_jax()


def test_tested_releases_cost_nothing(another_release):
    another_release.setattr(jax, "__version__", jax_guard.TESTED[-1])
    another_release.delattr(jax, "vmap")
    jax_guard.warn_of_untested_jax()
