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
    jax.monitoring.unregister_event_duration_listener(listen)


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


def _in_loop(fn):
    """A loop that gathers what `fn` makes of a member; more work than all else: taken apart."""

    def run(x, y):
        def step(y, _):
            # The member comes back each time as the compiler cannot foresee.
            return jnp.sin(2.0 * y) + 0.0 * y, fn(jnp.where(y > 2.0, y, x))

        return lax.scan(step, y, length=20)[1]

    return run


ZEROS = np.asarray([0.0, -0.0, 1.0, -2.0, 0.0, -0.0, 3.0, 0.5, -0.5, 0.0])


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_signs_of_zeros_are_those_of_vmap(dtype):
    """Angles on the negative axis are pi or -pi: an angle of 0 there is none of rounding."""
    zero = jnp.zeros((), dtype)

    def angles(x):
        ordinates = [zero - x, -x, x * zero, zero * -x, -(zero * x), (x * zero) * x, -1 * x]
        ordinates += [1 * x, x / 1, x - zero, jnp.abs(x), (zero - x) * zero]
        return jnp.stack([jnp.arctan2(y, -jnp.ones((), dtype)) for y in ordinates])

    x = jnp.asarray(ZEROS, dtype)
    got = jax.jit(lie_jax.batched(_in_loop(angles)))(x, jnp.ones_like(x))
    by_hand = np.stack([0 - ZEROS, -ZEROS, ZEROS * 0.0, 0.0 * -ZEROS, -(0.0 * ZEROS),
                        (ZEROS * 0.0) * ZEROS, -ZEROS, ZEROS, ZEROS, ZEROS, np.abs(ZEROS),
                        (0 - ZEROS) * 0.0], axis=-1)  # fmt: skip
    expected = np.broadcast_to(np.arctan2(by_hand, -1.0)[:, None], got.shape)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(dtype).eps)


def _pair(x):
    return lax.bitcast_convert_type(x, jnp.uint32).astype(float)


def _number(x):
    pair = lax.bitcast_convert_type(x, jnp.uint32)
    return lax.bitcast_convert_type(pair[::-1][::-1], x.dtype)


def _placed(x):
    one = x[None]
    index = jnp.where(x > 0.0, 3, -3)
    return lax.dynamic_update_slice(one, 5.0 * x[None], (index,))[0]


# Its negatives are too large, too small, and none.
BEYOND = np.asarray([-1e30, 3.0, np.nan])
# Each maps a number to an array.
EDGES = {
    "update beyond an axis of length one": _placed,
    "numbers beyond the range of integers": lambda x: jnp.stack(
        [*lax.neg(jnp.asarray(BEYOND)).astype(jnp.uint8), (1000 * x).astype(jnp.uint8)]
    ).astype(float),
    "scan of length 0": lambda x: lax.scan(lambda c, y: (c + y, 2 * c), x, jnp.zeros(0))[1] + x,
    "map of nothing": lambda x: lax.map(lambda y: y * x, jnp.zeros((0, 2))) + x,
    "sum of nothing": lambda x: jnp.sum(jnp.cumsum(x[None][:0])) + x,
    "bits of another width": _pair,
    "bits there and back": _number,
    "tiles": lambda x: jnp.tile(jnp.stack([x, 2 * x]), (2, 2)),
}


@pytest.mark.full
def test_edges_of_operations_are_those_of_vmap():
    fn = lambda x: {name: edge(x) for name, edge in EDGES.items()}  # noqa: E731
    x = jnp.linspace(-1.0, 1.0, 10)
    got = jax.jit(lie_jax.batched(_in_loop(fn)))(x, x)
    expected = jax.jit(jax.vmap(_in_loop(fn)))(x, x)
    for name, edge in EDGES.items():
        np.testing.assert_array_equal(got[name], expected[name], err_msg=name)
        # Outside of loops, too.
        np.testing.assert_array_equal(lie_jax.batched(edge)(x), jax.vmap(edge)(x), err_msg=name)


def test_branches_without_results():
    def fn(x):
        def step(carry, _):
            jax.lax.cond(carry > 1.0, lambda: (), lambda: ())
            return jnp.sin(carry) * x, carry

        return jax.lax.scan(step, x, None, length=5)

    x = jnp.linspace(0.5, 2.0, 9)
    got, expected = lie_jax.batched(fn)(x), jax.vmap(fn)(x)
    for y, z in zip(got, expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-14)
