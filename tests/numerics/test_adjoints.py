"""Derivatives do not depend on the checkpoints of reverse mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from numpy.testing import assert_allclose, assert_array_equal

import lie_jax
from lie_jax.numerics import checkpointing
from lie_jax.numerics.checkpointing import Blocks
from tests.messages import check_message
from tests.suites import cases
from tests.systems import OSCILLATOR_START, Oscillator

# The same operations in another order of summation.
AGREEMENT = 1e-12
STIFFNESS = jnp.asarray([[5.0, -2.0], [-2.0, 4.0]])
PAIR = lie_jax.RKMK("ode23")


def _objective(stiffness, integrator=None, steps=23, **options):
    """A number that depends on all saved instants."""
    trajectory = lie_jax.simulate(
        Oscillator(stiffness), integrator or lie_jax.RKMK("euler"), OSCILLATOR_START, dt=0.05,
        steps=steps, throw=False, **options,
    )  # fmt: skip
    return jnp.nansum(trajectory.q**3) + 0.1 * jnp.nansum(trajectory.acceleration)


def _gradients(*variants):
    """All in one program: compilation is the cost."""

    def all_of_them(stiffness):
        return [jax.grad(lambda k, v=v: _objective(k, **v))(stiffness) for v in variants]

    return jax.jit(all_of_them)(STIFFNESS)


@pytest.mark.full
@pytest.mark.parametrize("save", [1, 4, 23])
def test_gradients_do_not_depend_on_the_adjoint(save):
    """In bases that do not divide the number of steps, with steps after the last saved instant."""
    options = {"save": save}
    expected, *others = _gradients(
        options,
        options | {"checkpoint": 5},
        options | {"adjoint": "recursive", "checkpoint": 3},
    )
    for other in others:
        assert_allclose(other, expected, rtol=AGREEMENT, atol=AGREEMENT)


# `make test` has roots in a loop with checkpoints in the tests of gradients.
@pytest.mark.full
def test_gradients_of_newton_do_not_depend_on_the_adjoint():
    options = {"integrator": lie_jax.GeneralizedAlpha(), "save": 2, "steps": 11}
    expected, recursive = _gradients(options, options | {"adjoint": "recursive", "checkpoint": 2})
    assert_allclose(recursive, expected, rtol=AGREEMENT)


def test_newton_does_not_search_again():
    """The backward pass starts from the solution that was found."""

    def searches(function):
        def counted(jaxpr):
            return sum(
                (equation.primitive.name == "while")
                + sum(map(counted, jaxprs_in_params(equation.params)))
                for equation in jaxpr.eqns
            )

        return counted(jax.make_jaxpr(function)(STIFFNESS).jaxpr)

    def run(k):
        return _objective(k, integrator=lie_jax.GeneralizedAlpha(), save=23)

    assert searches(run) > 0
    assert searches(jax.grad(run)) == searches(run)


@pytest.mark.full
def test_gradients_of_automatic_steps_do_not_depend_on_the_adjoint():
    options = {"integrator": PAIR, "adaptive": lie_jax.Adaptive(), "t_end": 1.0, "steps": 40}
    expected, recursive = _gradients(options, options | {"adjoint": "recursive", "checkpoint": 3})
    assert_allclose(recursive, expected, rtol=AGREEMENT)


@pytest.mark.full
def test_second_derivatives_and_batches():
    """A Hessian-vector product of each member of a batch."""
    rng = np.random.default_rng(0)
    stiffness = STIFFNESS[None] + 0.1 * jnp.asarray(rng.normal(size=(3, 2, 2)))
    direction = jnp.asarray(rng.normal(size=(2, 2)))

    def product(k, **options):
        gradient = jax.grad(lambda k: _objective(k, steps=6, **options))
        return jax.jvp(gradient, (k,), (direction,))

    @jax.jit
    def products(stiffness):
        recursive = {"adjoint": "recursive", "checkpoint": 2}
        batch = jax.vmap(lambda k: product(k, **recursive))(stiffness)
        return batch, jax.lax.map(product, stiffness)

    batch, single = products(stiffness)
    jax.tree.map(lambda a, b: assert_allclose(a, b, rtol=AGREEMENT, atol=AGREEMENT), batch, single)


@pytest.mark.parametrize("length", cases([1, 7, 64, 65, 100], [1, 7, 65]))
@pytest.mark.parametrize("blocks", [Blocks(1, 2), Blocks(3, 3), Blocks(10, 10), Blocks(4, None)])
def test_blocks_take_each_step_once(length, blocks):
    end, seen = checkpointing.scan(
        lambda n: (n + 1, {"n": n, "none": jnp.zeros(0)}), jnp.asarray(0), length, blocks
    )
    assert int(end) == length
    assert_array_equal(seen["n"], np.arange(length))
    assert seen["none"].shape == (length, 0)


def _reserved(steps, **options):
    gradient = jax.grad(lambda k: _objective(k, steps=steps, save=steps, **options))
    return jax.jit(gradient).lower(STIFFNESS).compile().memory_analysis().temp_size_in_bytes


def _growth(**options):
    return _reserved(64 * 4096, **options) / _reserved(4096, **options)


@pytest.mark.full
def test_memory_grows_with_the_steps_or_with_their_root():
    # What does not grow is a small part.
    assert 50.0 < _growth(adjoint="stored") < 65.0
    assert 4.0 < _growth(adjoint="recursive") < 8.0 + 1.0


@pytest.mark.full
def test_memory_grows_with_the_logarithm_of_the_steps():
    # Six levels of eight blocks in place of four.
    assert _growth(adjoint="recursive", checkpoint=8) < 2.0


def test_messages():
    for options, *parts in (
        ({"adjoint": "reversible"}, "simulate(adjoint=)", "'reversible'", "'stored', 'recursive'"),
        ({"adjoint": "recursive", "checkpoint": 1}, "checkpoint", "is 1", "at least 2"),
        ({"adjoint": "recursive", "checkpoint": 0}, "checkpoint", "0", "at least 1"),
    ):
        check_message(lambda options=options: _objective(STIFFNESS, **options), *parts)
