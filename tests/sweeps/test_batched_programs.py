"""Batched functions of programs whose parts look alike are still those of jax.vmap."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import lie_jax

# Sums are added in another order.
ROUNDING = 1e-13


def _members(shape=(2,), members=10):
    return jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (members, *shape)))


def _check(fn, *arguments):
    got = jax.jit(lie_jax.batched(fn))(*arguments)
    expected = jax.jit(jax.vmap(fn))(*arguments)
    np.testing.assert_allclose(got, expected, rtol=ROUNDING, atol=ROUNDING)


FIRST, SECOND = np.asarray([0.5, 1.0]), np.asarray([2.0, -1.0])


@jax.jit
def _turned(x, factors):
    return lax.scan(lambda x, _: (jnp.sin(factors * x) + 0.1, None), x, length=40)[0]


def test_calls_of_one_loop_keep_their_constants():
    """JAX shares one program among all calls of a jitted function."""

    def run(x):
        # Most of the work is in the first calls: their loop is taken apart.
        x = lax.scan(lambda x, _: (_turned(x, FIRST), None), x, length=10)[0]
        return jnp.stack([_turned(x, SECOND), _turned(x, FIRST), _turned(x, x)])

    _check(run, _members())


def test_values_first_read_in_a_branch_are_read_again_outside_of_it():
    """A loop too long to be written out is entered as one branch, if any member enters it."""

    def run(x, shift):
        def shifted(y):
            return lax.fori_loop(0, 20, lambda _, y: 0.99 * y + 0.001 * shift, y)

        def step(x, _):
            x = lax.while_loop(lambda y: jnp.sum(y**2) > 0.5, shifted, x)
            return jnp.sin(x) + shift, x

        return lax.scan(step, x, length=30)[1]

    members = _members(), _members()[::-1]
    _check(run, *members)
    swept = lie_jax.sweep(lambda xs: run(*xs), members, progress=False)
    np.testing.assert_allclose(swept.results, jax.vmap(run)(*members), rtol=ROUNDING, atol=ROUNDING)


@pytest.fixture
def compilations():
    """Programs that are compiled."""
    compiled = []

    def listen(event, *_, **details):
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield compiled
    jax.monitoring.clear_event_listeners()


gain = 1.0


def test_functions_outside_of_jit_see_what_changes(monkeypatch):
    table, settings = np.asarray([0.3, 0.2]), types.SimpleNamespace(shift=0.1)

    @jax.jit
    def shifted(x):
        return x + table

    def run(x):
        def step(x, _):
            return jnp.sin(gain * shifted(x)) + settings.shift, None

        # One jitted function keeps what it read, as it does everywhere in JAX.
        shifted.clear_cache()
        return lax.scan(step, x + table, length=3)[0]

    together = lie_jax.batched(run)

    def check(members=10):
        x = _members(members=members)
        np.testing.assert_allclose(together(x), jax.vmap(run)(x), rtol=ROUNDING, atol=ROUNDING)

    check()
    monkeypatch.setitem(globals(), "gain", 2.0)
    check()
    table[1] = 3.0
    check()
    # Compiled for another number of members only now.
    check(9)
    settings.shift = -4.0
    check()


def test_functions_outside_of_jit_are_compiled_once(compilations):
    x = _members()

    def called(factors):
        return lie_jax.batched(lambda x: lax.scan(lambda x, _: (jnp.sin(factors * x), None), x,
                                                  length=30)[0])(x)  # fmt: skip

    factors = [jnp.asarray([0.0, y]) for y in (0.5, 0.6, 0.7, 0.5, 0.8)]
    # The first constants are part of a program, all others arguments of a second one.
    found = [called(y) for y in factors[:2]]
    compilations.clear()
    found += [called(y) for y in factors[2:]]
    assert not compilations
    for result, (_, y) in zip(found, factors, strict=True):
        expected = functools.reduce(lambda x, _: np.sin(y * x), range(30), np.asarray(x[:, 1]))
        np.testing.assert_allclose(result[:, 1], expected, rtol=ROUNDING, atol=ROUNDING)
        assert not np.any(result[:, 0])
