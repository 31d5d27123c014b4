"""Programs that run once compute the same with and without LLVM's optimisations, in any trace."""

import jax
import jax.numpy as jnp
from numpy.testing import assert_allclose

from lie_jax.numerics.programs import run_once


@run_once
def _pendulum(length, angle):
    return jnp.sin(angle) / length


def test_programs_that_run_once_go_through_transformations():
    length, angle = jnp.asarray(0.7), jnp.asarray(0.4)
    # The length is no tracer in any of these traces.
    slope = jnp.cos(angle) / length
    assert_allclose(_pendulum(length, angle), jnp.sin(angle) / length, rtol=1e-15)
    for transformed in (jax.jacfwd, jax.grad):
        assert_allclose(transformed(lambda x: _pendulum(length, x))(angle), slope, rtol=1e-15)
        twice = transformed(transformed(lambda x: _pendulum(length, x)))(angle)
        assert_allclose(twice, -jnp.sin(angle) / length, rtol=1e-15)
    inside = jax.jit(lambda x: x * _pendulum(length, angle))(2.0)
    assert_allclose(inside, 2.0 * jnp.sin(angle) / length, rtol=1e-15)
    batch = jax.vmap(lambda x: _pendulum(length, x))(jnp.stack([angle, angle]))
    assert_allclose(batch, jnp.full(2, jnp.sin(angle) / length), rtol=1e-15)
