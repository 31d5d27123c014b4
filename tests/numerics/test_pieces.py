"""Loops that are compiled apart from their bodies, and bodies in pieces, compute the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.numerics import cuts, jax_internals, native, pieces
from lie_jax.numerics.calls import Program
from models import slider_crank
from tests.suites import cases
from tests.sweeps import random_programs
from tests.sweeps.random_programs import Form

pytestmark = pytest.mark.skipif(
    native._release() not in native._SUMS, reason="other releases have no such functions"
)

# Sums in another order, in derivatives of second order.
ROUNDING = 1e-12
POINT, FACTOR = np.array([0.3, -0.7, 1.1]), np.array(0.9)


@pytest.fixture
def always(monkeypatch):
    """Bodies of any length are cut."""
    monkeypatch.setattr(pieces, "_LARGE", 1)


def _end(cut, cut_around):
    """Sum over a loop of searches: a function of two arrays."""

    def root(y):
        # Newton's method for x³ = y, as a search: without derivatives.
        def correct(x):
            return x - (x**3 - y) / (3.0 * x**2)

        start = jnp.ones_like(y)
        found = jax.lax.while_loop(
            lambda x: jnp.max(jnp.abs(x**3 - y)) > 1e-14, cut(correct), start
        )
        return jax.lax.stop_gradient(found)

    def step(x, factor):
        y = jax.lax.stop_gradient(1.0 + x * x)
        x0 = root(y)
        smooth = x0 + (1.0 + x * x - y) / (3.0 * x0**2) * factor
        order = jnp.argsort(x)
        return jnp.cos(smooth) * factor, (smooth[order], order)

    def end(x, factor):
        body = cut_around(lambda x: step(x, factor))
        x, (values, _) = jax.lax.scan(lambda x, _: body(x), x, None, length=3)
        return jnp.sum(x**2) + jnp.sum(values)

    return end


def _forward(end):
    return lambda x, y: jax.jvp(lambda x: end(x, y), (x,), (jnp.cos(x),))[1]


TRANSFORMATIONS = {
    "value": lambda end: end,
    "gradient": lambda end: jax.grad(end, (0, 1)),
    "forward mode": _forward,
    "reverse over forward": lambda end: jax.grad(_forward(end), (0, 1)),
    "forward over reverse": lambda end: jax.jacfwd(jax.grad(end, (0, 1)), (0, 1)),
    "recomputed": lambda end: jax.grad(jax.checkpoint(end, prevent_cse=False)),
    "batch": lambda end: jax.vmap(end, (None, 0)),
    "batch of gradients": lambda end: jax.vmap(jax.grad(end), (0, None), out_axes=1),
    "batch in batches": lambda end: lie_jax.batched(lambda x: end(x, FACTOR)),
}
ARGUMENTS = {
    "batch": (POINT, np.linspace(0.5, 1.0, 4)),
    "batch of gradients": (np.stack([POINT, -POINT]), FACTOR),
    "batch in batches": (np.linspace(-1.0, 1.0, 27).reshape(9, 3),),
}
DEAR = {"reverse over forward", "recomputed", "batch of gradients"}


@pytest.mark.parametrize("name", cases(TRANSFORMATIONS, TRANSFORMATIONS.keys() - DEAR))
def test_transformations_are_those_of_the_loop(name, always):
    arguments = ARGUMENTS.get(name, (POINT, FACTOR))
    plain = _end(lambda x: x, lambda x: x)
    found, expected = (
        jax.jit(TRANSFORMATIONS[name](end))(*arguments)
        for end in (_end(pieces.cut, pieces.cut_around), plain)
    )
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_allclose(x, y, rtol=ROUNDING, atol=ROUNDING)


def _searching(cut):
    """A loop in a loop, without anything of which XLA makes no function."""

    def inner(x):
        return jax.lax.while_loop(lambda x: jnp.sum(x) > 1.0, cut(lambda x: 0.5 * jnp.sin(x)), x)

    around = pieces.cut_around(lambda x: (inner(3.0 + x), None))
    return lambda x: jax.lax.scan(lambda x, _: around(x), x, None, length=4)[0]


def test_loops_around_large_bodies_are_compiled_apart_from_them(monkeypatch):
    def count(function):
        return jax.jit(function).lower(POINT).compile().as_text().count(" while(")

    whole = count(_searching(pieces.cut))
    monkeypatch.setattr(pieces, "_LARGE", 1)
    # What XLA makes one function of is no loop of its program any more, on releases that do.
    assert count(_searching(pieces.cut)) == 2 >= whole
    assert_allclose(_searching(pieces.cut)(POINT), _searching(lambda x: x)(POINT), rtol=ROUNDING)


@pytest.mark.parametrize("part", cases(range(100), [0]))
def test_random_programs_in_pieces(part):
    """Any equation may stand alone."""
    groups = 0
    for seed in range(10 * part, 10 * part + 10):
        random = np.random.default_rng(seed)
        form = [Form.NUMBERS, Form.ARRAYS, Form.CALLS][seed % 3]
        function = random_programs.programs([seed], form, False, 1, 1)
        arguments = [x[0] for x in random_programs.arguments(seed, 2)]
        leaves, structure = jax.tree.flatten(arguments)

        def flat(*leaves, function=function, structure=structure):
            return jax.tree.leaves(function(*jax.tree.unflatten(structure, leaves)))

        program = Program.trace(flat, *leaves)
        share, called = random.uniform(0.0, 0.5), []

        def call(function, values, called=called):
            called.append(function)
            return function(*values)

        def alone(_, random=random, share=share):
            return random.uniform() < share

        def run(*leaves, program=program, alone=alone, call=call):
            return cuts.run(program, leaves, alone, call)

        found, expected = jax.jit(run)(*leaves), jax.jit(flat)(*leaves)
        groups += len(called)
        for x, y in zip(found, expected, strict=True):
            tolerance = 1e-11 if x.dtype == np.float64 else 1e-4
            assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=f"seed {seed}")
    assert groups > 10


def _crank(length):
    system, state = slider_crank.build()
    return lambda state_factor: lie_jax.simulate(
        system,
        lie_jax.GeneralizedAlpha(0.9),
        lie_jax.State(state.q, state.v * state_factor),
        dt=1e-3,
        steps=length,
        throw=False,
    )


@pytest.mark.full
def test_a_mechanism_in_pieces_moves_as_in_one(monkeypatch):
    def readings(factor):
        result = _crank(20)(factor)
        return jnp.sum(result.q[-1] ** 2) + jnp.sum(result.v[-1]), result.stats.newton_iterations

    def values():
        gradient, iterations = jax.jit(jax.grad(readings, has_aux=True))(1.0)
        tangent = jax.jit(lambda x: jax.jvp(lambda x: readings(x)[0], (x,), (1.0,))[1])(1.0)
        batch = jax.jit(jax.vmap(lambda x: readings(x)[0]))(jnp.linspace(0.9, 1.1, 3))
        return gradient, tangent, batch, iterations

    expected = values()
    jax.clear_caches()
    monkeypatch.setattr(pieces, "_LARGE", 1)
    for x, y in zip(values(), expected, strict=True):
        assert_allclose(x, y, rtol=1e-10)
    assert any(
        x.primitive.name == "apart" for x in jax_internals.equations(jax.make_jaxpr(readings)(1.0))
    )
