"""Batched functions return what jax.vmap of them returns, whatever they are made of."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import lie_jax
from models import chain, heavy_top
from tests.messages import check_message
from tests.suites import cases

# Sums are added in another order: rounding of numbers up to ten, and over a run.
ROUNDING, RUN = 1e-13, 1e-11


def _compare(fn, *arguments, in_axes=0, tolerance=ROUNDING):
    got = jax.jit(lie_jax.batched(fn, in_axes))(*arguments)
    expected = jax.jit(jax.vmap(fn, in_axes))(*arguments)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        scale = 1.0 + np.max(np.abs(np.asarray(y, float)), initial=0.0)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)
    return got


# Each maps a vector (6,) and a matrix (3, 3) of numbers between -1 and 1 to a vector (6,).
TABLE = np.asarray([[0.0, 1.0, -1.0, 0.3, 0.0, 2.0]] * 2)
PARTS = {
    "arithmetic": lambda x, a: x / (2.0 + x**2) - jnp.sqrt(jnp.abs(x)) * 3.0 + (-x) ** 3,
    "zeros and ones": lambda x, a: jnp.sum(
        jnp.asarray(TABLE, x.dtype) * x[None] + 0.0 * x[None], axis=0
    ),
    "choices": lambda x, a: jnp.where(x > x[::-1], jnp.clip(x, -0.5, 0.5), jnp.minimum(x, 0.1)),
    "functions": lambda x, a: jnp.sin(x) + jnp.arctan2(x, 2.0 + x) + jnp.exp(x) + jnp.tanh(x),
    "products": lambda x, a: jnp.concatenate([a @ x[:3], jnp.einsum("ij,jk->ki", a, a)[1]]),
    "shapes": lambda x, a: jnp.pad(x.reshape(2, 3).T[1:, ::-1].reshape(4), (1, 1)) + a[0, 0],
    "reductions": lambda x, a: x * jnp.max(a) + jnp.min(x) - jnp.prod(a) + jnp.cumsum(x),
    "flags": lambda x, a: x + jnp.where(jnp.any(a > 0.9) | jnp.all(x < 0.5), 1.0, 0.0),
    "places": lambda x, a: x + jnp.argmax(x).astype(x.dtype) - jnp.argmin(a[0]).astype(x.dtype),
    "constant indices": lambda x, a: x[np.asarray([2, 0, 0, 5, 1, 3])] + a[1, 2],
    "dynamic indices": lambda x, a: (
        x + lax.dynamic_index_in_dim(x, jnp.argmax(a[0]) + 4, keepdims=False)
    ),
    "dynamic updates": lambda x, a: lax.dynamic_update_index_in_dim(x, a[0, 0], jnp.argmin(x), 0),
    "joined": lambda x, a: jnp.stack([x[0], *a[0], *x[1:3]]) + jnp.concatenate([a[1], a[2]]),
    "integers": lambda x, a: x * ((jnp.floor(5.0 * x).astype(int) // 2) % 3).astype(x.dtype),
    "scaled": lambda x, a: jnp.ldexp(x, -jnp.frexp(jnp.abs(x) + 0.1)[1]),
    "own branch": lambda x, a: lax.cond(x[0] > 0.0, lambda: x + a[0, 0], lambda: 2.0 * x),
    "common branch": lambda x, a: lie_jax.groups.so3.exp(x[:3]).reshape(9)[:6] + x,
    "solve": lambda x, a: jnp.tile(jnp.linalg.solve(a + 3.0 * jnp.eye(3), x[:3]), 2),
    "sorted": lambda x, a: jnp.sort(x) + jnp.sum(jnp.linalg.svd(a, compute_uv=False)),
    "inner scan": lambda x, a: lax.scan(
        lambda c, row: (0.5 * c + row[0], c[0] * row), x, a, reverse=True
    )[0],
    "inner search": lambda x, a: lax.while_loop(
        lambda c: jnp.sum(c[0] ** 2) > 0.5, lambda c: (0.7 * c[0], c[1] + 1), (x, 0)
    )[0],
}


def _program(names, length=40):
    """A loop of the named parts, which saves some of what it passes."""

    def run(x, a):
        def step(carry, i):
            x, count = carry
            for name in names:
                x = jnp.sin(PARTS[name](x, a)) * 0.9
            return (x, count + 1), (x[:2] * i, count)

        steps = jnp.linspace(0.0, 1.0, length, dtype=x.dtype)
        (x, count), saved = lax.scan(step, (x, jnp.zeros((), int)), steps)
        return {"end": x, "count": count, "saved": saved}

    return run


def _samples(members, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    x, a = rng.uniform(-1, 1, (members, 6)), rng.uniform(-1, 1, (members, 3, 3))
    return jnp.asarray(x, dtype), jnp.asarray(a, dtype)


# `make test` has most of them in random programs.
@pytest.mark.full
def test_every_operation_is_that_of_vmap(kernel_count):
    # In two halves of 40: one member more than a whole chunk.
    _compare(_program(PARTS, 20), *_samples(65), tolerance=RUN)
    assert kernel_count


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_are_those_of_vmap(seed, kernel_count):
    rng = np.random.default_rng(seed)
    names = rng.choice(sorted(PARTS), size=rng.integers(1, 9))
    members = int(rng.integers(8, 200))
    # Few passes: some of these maps double a rounding error in each.
    _compare(_program(names, 3), *_samples(members, seed), tolerance=RUN)
    assert kernel_count


QUICK = ("arithmetic", "zeros and ones", "products")


@pytest.mark.parametrize("members", cases([1, 63, 129], [1, 129]))
def test_any_number_of_members(members):
    _compare(_program(QUICK, 3), *_samples(members))


def test_single_precision():
    got = _compare(_program(QUICK, 3), *_samples(9, dtype=jnp.float32), tolerance=1e-5)
    assert got["end"].dtype == jnp.float32


def test_axes_and_what_all_members_share():
    x, a = _samples(10)
    system = {"a": jnp.moveaxis(a, 0, 2), "scale": jnp.asarray(2.0), "name": "no array"}

    def run(system, x):
        return {"y": _program(QUICK, 3)(x, system["scale"] * system["a"]), "one": jnp.ones(())}

    axes = ({"a": 2, "scale": None, "name": None}, 1)
    got = lie_jax.batched(run, in_axes=axes)(system, x.T)
    expected = eqx.filter_vmap(run, in_axes=axes)(system, x.T)
    assert eqx.tree_equal(got, expected, rtol=ROUNDING, atol=ROUNDING)
    # What no member has of its own has a row for each all the same.
    assert got["one"].shape == (10,) and got["y"]["count"].shape == (10,)


def test_functions_without_loops_and_unknown_operations():
    def run(x, a):
        return jnp.fft.fft(x).real + jax.random.normal(jax.random.key(3), (6,)), jnp.sort(a.ravel())

    _compare(run, *_samples(20))


def test_random_keys_are_carried():
    def walk(key, x):
        def step(carry, _):
            key, x = carry
            key, own = jax.random.split(key)
            return (key, 0.5 * x + jax.random.normal(own, x.shape)), x

        return lax.scan(step, (key, x), None, length=30)[1]

    _compare(walk, jax.random.split(jax.random.key(0), 20), jnp.ones((20, 3)))


def test_a_batch_of_batches():
    def inner(a, x):
        return lax.scan(lambda c, _: (jnp.sin(a @ c) + 0.1, None), x, length=30)[0]

    def outer(form, x, a):
        return jnp.sum(form(lambda x: inner(a, x))(x), axis=0)

    _, a = _samples(10)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(10, 12, 3)))
    got = jax.jit(lie_jax.batched(functools.partial(outer, lie_jax.batched)))(x, a)
    expected = jax.jit(jax.vmap(functools.partial(outer, jax.vmap)))(x, a)
    np.testing.assert_allclose(got, expected, rtol=ROUNDING, atol=ROUNDING)


def test_derivatives_are_those_of_vmap():
    x, a = _samples(9)
    run = _program(("arithmetic", "products", "common branch"), 4)

    def loss(form, scale, x):
        # The scale is closed over.
        return jnp.sum(form(lambda x, a: run(scale * x, a)["end"])(x, a) ** 2)

    def derivatives(form):
        of = functools.partial(loss, form)
        gradient = jax.grad(of, argnums=(0, 1))
        along = jax.jvp(gradient, (jnp.asarray(0.9), x), (jnp.asarray(1.0), x))
        return along

    got = jax.jit(lambda: derivatives(lie_jax.batched))()
    expected = jax.jit(lambda: derivatives(jax.vmap))()
    for y, z in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-10, atol=1e-10)


def _run(integrator, steps, system, state, **options):
    return lie_jax.simulate(system, integrator, state, dt=1e-3, steps=steps, throw=False, **options)


def _spread(state, members):
    factors = jnp.linspace(0.9, 1.1, members)[:, None]
    q = jnp.broadcast_to(state.q, (members, *state.q.shape))
    return lie_jax.State(q, factors * state.v[None])


@pytest.mark.full
def test_batch_of_heavy_tops(kernel_count):
    system, state = heavy_top.build()
    # Masses and states of their own; all else is shared.
    masses = jnp.linspace(10.0, 20.0, 20)[:, None]
    systems = eqx.tree_at(lambda s: s.bodies.mass, system, masses)
    axes = eqx.tree_at(lambda s: s.bodies.mass, jax.tree.map(lambda _: None, system), 0,
                       is_leaf=lambda x: x is None)  # fmt: skip
    run = functools.partial(_run, lie_jax.RKMK("rk4"), 6, save=2)
    got = eqx.filter_jit(lie_jax.batched(run, (axes, 0)))(systems, _spread(state, 20))
    expected = eqx.filter_jit(eqx.filter_vmap(run, in_axes=(axes, 0)))(systems, _spread(state, 20))
    assert eqx.tree_equal(got, expected, rtol=RUN, atol=RUN)
    assert kernel_count


@pytest.mark.full
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_batch_of_tops_with_joint(dtype, kernel_count):
    """Newton's method is a loop of numbers within the loop of steps."""
    system, state = heavy_top.build(constrained=True)
    lower = lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x  # noqa: E731
    system, state = jax.tree.map(lower, (system, state))
    forces = jnp.linspace(-9.0, -10.0, 20)
    run = functools.partial(_run, lie_jax.GeneralizedAlpha(0.9), 30)

    def one(force):
        gravity = jnp.zeros(3, dtype).at[2].set(force.astype(dtype))
        return run(eqx.tree_at(lambda s: s.gravity, system, gravity), state).q

    _compare(one, forces, tolerance=1e-10 if dtype == jnp.float64 else 1e-4)
    assert kernel_count


@pytest.mark.full
def test_gradients_of_runs_are_those_of_vmap():
    system, state = heavy_top.build(constrained=True)

    def end(form, force):
        def one(force):
            gravity = jnp.zeros(3).at[2].set(force)
            given = eqx.tree_at(lambda s: s.gravity, system, gravity)
            return _run(lie_jax.GeneralizedAlpha(0.9), 10, given, state)

        return jnp.sum(form(one)(force).q[:, -1])

    forces = jnp.linspace(-9.0, -10.0, 16)
    got, expected = (
        jax.jit(jax.grad(functools.partial(end, form)))(forces)
        for form in (lie_jax.batched, jax.vmap)
    )
    assert np.all(np.abs(expected) > 1e-7)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.full
def test_batch_of_chains_in_joint_coordinates(kernel_count):
    """A step that is too large to be taken apart runs as a program of arrays."""
    system, state = chain.build(formulation=lie_jax.Minimal(), n=6)
    run = functools.partial(_run, lie_jax.RKMK("rk4"), 10, system)
    _compare(lambda state: run(state).q, _spread(state, 30), tolerance=RUN)
    assert not kernel_count


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: lie_jax.batched(jnp.sin, in_axes="x")(jnp.ones(3)), ("in_axes=", "'x'")),
        (lambda: lie_jax.batched(jnp.sin, in_axes=1)(jnp.ones(3)), ("in_axes=", "1", "(3,)")),
        (lambda: lie_jax.batched(jnp.sin, in_axes=(0, 0))(jnp.ones(3)), ("in_axes=", "1 argument")),
        (lambda: lie_jax.batched(jnp.add)(jnp.ones(3), jnp.ones(2)), ("members", "2, 3")),
        (lambda: lie_jax.batched(jnp.sin, None)(jnp.ones(3)), ("members", "none")),
    ],
)  # fmt: skip
def test_bad_input(call, facts):
    check_message(call, *facts)
