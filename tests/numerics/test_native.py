"""Parts that XLA compiles as functions of their own compute what the functions compute."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lie_jax.numerics import native
from lie_jax.sweeps.batching.fingerprint import Fingerprint
from tests.suites import cases

pytestmark = pytest.mark.skipif(
    native._release() not in native._SUMS, reason="other releases have no such functions"
)

# Sums in another order, in derivatives of third order.
ROUNDING = 1e-13

# From so many entries on releases after 0.10 leave a sum to a library.
OF_A_LIBRARY = 4096
POINT, FACTOR = np.array([0.3, -0.7, 1.1]), np.array(0.9)
NOTHING, COUNT = np.zeros((0, 3)), np.array(3)


def _function(x, y, nothing, count):
    """With an empty array, an integer, a constant, a rule of derivatives and a loop."""

    def halved(x):
        return jax.lax.while_loop(lambda x: jnp.sum(x * x) > 2.0, lambda x: 0.5 * x, x)

    solved = jax.lax.custom_linear_solve(
        lambda z: 3.0 * z, jnp.sin(x) * y, lambda _, b: b / 3.0, lambda _, b: b / 3.0
    )
    values = {
        "constant": jnp.ones(2),
        "end": solved + jnp.sum(nothing),
        "loop": halved(jax.lax.stop_gradient(x)),
    }
    return values, count + 1


def _end(part):
    """Sum over a loop that calls a part: a function of two arrays."""

    def end(x, factor):
        def step(x, _):
            values, count = part(x, factor, jnp.asarray(NOTHING), jnp.asarray(COUNT))
            return values["end"], values["loop"] * count.astype(x.dtype)

        x, loops = jax.lax.scan(step, x, None, length=3)
        return jnp.sum(x**2) + jnp.sum(loops)

    return end


def _forward(end):
    return lambda x, y: jax.jvp(lambda x: end(x, y), (x,), (jnp.cos(x),))[1]


TRANSFORMATIONS = {
    "value": lambda end: end,
    "gradient": lambda end: jax.grad(end, (0, 1)),
    "forward mode": _forward,
    "reverse over forward": lambda end: jax.grad(_forward(end), (0, 1)),
    "forward over reverse": lambda end: jax.jacfwd(jax.grad(end, (0, 1)), (0, 1)),
    "reverse over reverse": lambda end: jax.jacrev(jax.grad(end, (0, 1)), (0, 1)),
    "third order": lambda end: jax.grad(lambda x, y: jnp.sum(jax.hessian(end)(x, y) ** 2)),
    "recomputed": lambda end: jax.hessian(jax.checkpoint(end, prevent_cse=False)),
    "batch": lambda end: jax.vmap(end, (None, 0)),
    "batch of gradients": lambda end: jax.vmap(jax.grad(end), (0, None), out_axes=1),
    "gradient of a batch": lambda end: jax.grad(lambda x, y: jnp.sum(jax.vmap(end)(x, y)), (0, 1)),
}
ARGUMENTS = {
    "batch": (POINT, np.linspace(0.5, 1.0, 4)),
    "batch of gradients": (np.stack([POINT, -POINT]), FACTOR),
    "gradient of a batch": (np.stack([POINT, -POINT]), np.linspace(0.5, 1.0, 2)),
}
DEAR = {"reverse over forward", "reverse over reverse", "third order"}


@pytest.mark.parametrize("name", cases(TRANSFORMATIONS, TRANSFORMATIONS.keys() - DEAR))
def test_transformations_are_those_of_the_function(name):
    arguments = ARGUMENTS.get(name, (POINT, FACTOR))
    found, expected = (
        jax.jit(TRANSFORMATIONS[name](_end(part)))(*arguments)
        for part in (native.part(_function), _function)
    )
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for x, y in pairs:
        assert_allclose(x, y, rtol=ROUNDING, atol=ROUNDING)


def _calls(function, *arguments) -> int:
    text = jax.jit(function).lower(*arguments).as_text()
    return text.count("xla_cpu_small_call")


def test_derivatives_and_batches_are_parts_too():
    end = _end(native.part(_function))
    assert _calls(end, POINT, FACTOR) == 1
    # The forward pass of reverse mode calls the function, the backward pass one of its transpose.
    assert _calls(jax.grad(end), POINT, FACTOR) == 2
    assert _calls(_forward(end), POINT, FACTOR) == 1
    assert _calls(jax.vmap(end), POINT[None], FACTOR[None]) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(x),
        lambda x: jnp.zeros(3).at[jnp.argsort(x)].set(x),
        lambda x: jnp.linalg.solve(jnp.eye(3), x),
        lambda x: jax.pure_callback(np.sin, x, x),
        lambda x: (jnp.ones((3, 8)) @ (jnp.ones((8, 3)) * x[None]))[0],
        lambda x: (jnp.ones((2, 3, 12)) @ (jnp.ones((2, 12, 3)) * x[None, None]))[0, 0],
    ],
    ids=["sort", "scatter", "LAPACK", "callback", "product", "batch of products"],
)
def test_what_xla_refuses_in_such_a_function_is_called_as_it_is(function):
    part = native.part(function)
    assert _calls(part, POINT) == 0
    assert_allclose(jax.jit(part)(POINT), function(POINT), rtol=ROUNDING)


@pytest.mark.parametrize("shapes", [((7, 7), (7, 7)), ((16,), (16, 64)), ((5, 6, 6), (5, 6, 6))])
def test_products_of_small_matrices_and_of_vectors_are_parts(shapes):
    random = np.random.default_rng(3)
    x, y = map(random.normal, [0.0, 0.0], [1.0, 1.0], shapes)
    part = native.part(lambda x, y: x @ y)

    @jax.jit
    def looped(x, y):
        return jax.lax.scan(lambda n, _: (n + 1.0, part(n * x, y)), 1.0, None, length=2)[1]

    assert _calls(part, x, y) == 1
    assert_allclose(looped(x, y), np.stack([x @ y, 2.0 * (x @ y)]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", cases([100, 4094, 4096, 40000], [4094]))
@pytest.mark.parametrize("reduce", [jnp.sum, jnp.max, jnp.argmax, jnp.cumsum, jnp.all])
def test_sums_of_any_number_of_entries_compile(reduce, size):
    x = np.sin(np.arange(size) * 1.0)
    part = native.part(lambda x: reduce(x.reshape(2, -1), axis=1).astype(float))

    @jax.jit
    def looped(x):
        return jax.lax.scan(lambda n, _: (n + 1.0, part(n * x)), 1.0, None, length=2)[1]

    is_part = jax.__version__.startswith("0.10.") or size < OF_A_LIBRARY
    assert _calls(part, x) == is_part
    assert_allclose(looped(x)[0], reduce(x.reshape(2, -1), axis=1), rtol=1e-10, atol=1e-10)


def test_a_gather_is_a_part_and_its_transpose_is_not():
    part = native.part(lambda x, places: x[places] ** 2)
    places = np.array([0, 2, 2])
    assert _calls(part, POINT, places) == 1
    both = jax.value_and_grad(lambda x: jnp.sum(part(x, jnp.asarray(places))))
    assert _calls(both, POINT) == 1
    assert_allclose(jax.jit(both)(POINT)[1], [2 * POINT[0], 0.0, 4 * POINT[2]], rtol=ROUNDING)


def test_other_releases_call_the_function_as_it_is(monkeypatch):
    monkeypatch.setattr(native, "_SUMS", {})
    part = native.part(_function)
    assert _calls(part, POINT, FACTOR, NOTHING, COUNT) == 0
    values, count = part(jnp.asarray(POINT), FACTOR, NOTHING, COUNT)
    assert count == 4 and np.all(np.isfinite(values["end"]))


def test_programs_in_parts_are_told_apart_by_what_they_compute():
    def fingerprint(factor):
        part = native.part(lambda x: factor * x)
        return Fingerprint(jax.make_jaxpr(part)(POINT))

    assert fingerprint(2.0) == fingerprint(2.0) != fingerprint(3.0)


# XLA ends the process where such a function has a parameter that nothing uses.
_UNUSED = """
import jax, jax.numpy as jnp
from lie_jax.numerics import native

def function(x, unused, empty, whole, constant):
    return x + 2.0 * jnp.sum(empty) + 0.0 * constant

part = native.part(function)
given = jnp.ones(3), jnp.ones(3), jnp.zeros((0, 2)), jnp.asarray(3)

@jax.jit
def run(x, unused, empty, whole):
    def step(x, _):
        return part(x, unused, empty, whole, jnp.ones(())), None
    return jax.lax.scan(step, x, None, length=4)[0]

step = jax.jit(lambda x, *others: jnp.sum(part(x, *others, jnp.ones(()))))
assert run(*given).tolist() == [1.0] * 3
gradient = jax.jit(jax.grad(lambda *given: jnp.sum(run(*given)), (0, 1)))
assert gradient(*given)[1].tolist() == [0.0] * 3
assert step(*given) == 3.0
print("survived")
"""


@pytest.mark.full
def test_unused_empty_and_constant_parameters_do_not_end_the_process():
    command = [sys.executable, "-c", _UNUSED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "survived\n", done.stderr[-2000:]
