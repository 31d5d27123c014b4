"""Runs whose time loop completes the integrator's first carry, as inside `jax.jit`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.numerics import checkpointing
from lie_jax.simulation.schedules import Schedule
from models import heavy_top
from tests.suites import cases

# Rounding of two programs of one run, over 20 steps.
SAME = 1e-10
RUNS = {
    "index 3": (lie_jax.GeneralizedAlpha(0.8), {}),
    "index 2": (lie_jax.GeneralizedAlpha(0.8, index=2), {}),
    "modified": (lie_jax.GeneralizedAlpha(0.8, newton="modified"), {"save": 3}),
    "stored blocks": (lie_jax.GeneralizedAlpha(0.8), {"checkpoint": 6}),
    "recursive": (lie_jax.GeneralizedAlpha(0.8), {"adjoint": "recursive", "save": 3}),
    "rows of many steps": (lie_jax.GeneralizedAlpha(0.8), {"save": 10}),
}


@pytest.mark.parametrize("name", cases(list(RUNS), []))
def test_runs_inside_and_outside_of_jit_are_one(name):
    """Instants, accelerations, iterations and the carry of the restart."""
    method, options = RUNS[name]
    system, state = heavy_top.build(constrained=True)

    def run(system):
        return lie_jax.simulate(system, method, state, dt=1e-3, steps=20, throw=False, **options)

    outside, inside = run(system), jax.jit(run)(system)
    assert jax.tree.structure(outside.restart) == jax.tree.structure(inside.restart)
    assert np.array_equal(outside.stats.newton_iterations, inside.stats.newton_iterations)
    for each in ("t", "q", "v", "acceleration", "multipliers"):
        a, b = getattr(outside, each), getattr(inside, each)
        assert a.shape == b.shape
        assert_allclose(b, a, rtol=SAME, atol=SAME * np.max(np.abs(a)))
    carries = (jax.tree.leaves(run.restart.carry) for run in (outside, inside))
    for a, b in zip(*carries, strict=True):
        # Rates are differences of accelerations over the step size.
        assert_allclose(b, a, rtol=SAME, atol=1e3 * SAME * np.max(np.abs(a), initial=1.0))


def test_rows_of_passes_are_few_and_add_no_loop():
    def rows(steps, every, checkpoint=None):
        return Schedule(steps, every, checkpointing.blocks("stored", checkpoint, steps)).rows_of(3)

    assert rows(1, 1) == 3
    assert rows(1000, 3) == 1
    assert rows(1000, 2) == 2
    # Seven repeated passes are less than a part in 32 of the steps, or more.
    assert rows(1000, 10) == 1
    assert rows(100, 10) == 0
    # Blocks of another number of rows would be a loop of their own, unless there is one.
    assert rows(100, 1, checkpoint=10) == 0
    assert rows(101, 1, checkpoint=10) == 3
    assert Schedule(100, 1, checkpointing.blocks("stored", None, 100)).rows_of(0) == 0


# Differences of multipliers, which have the rounding of positions over the squared step size.
DIFFERENCES = 1e-6


@pytest.mark.full
def test_batches_and_second_derivatives_go_through_the_first_carry():
    """Forward over reverse mode, in a batch: differences of gradients, and these of values."""
    weights = jnp.asarray([0.3, -0.7, 0.5])

    def last(mass):
        system, state = heavy_top.build(constrained=True, mass=mass)
        run = lie_jax.simulate(
            system, lie_jax.GeneralizedAlpha(0.8), state, dt=2e-3, steps=2, throw=False
        )
        return jnp.sum((1e-2 * run.multipliers @ weights) ** 2)

    @jax.jit
    @jax.vmap
    def derivatives(mass):
        gradient, second = jax.jvp(jax.grad(last), (mass,), (jnp.ones_like(mass),))
        return last(mass), gradient, second

    masses, h = jnp.asarray([15.0, 21.0]), 0.05
    before, now, after = (derivatives(masses + k * h) for k in (-1, 0, 1))
    for order in (0, 1):
        differences = (after[order] - before[order]) / (2 * h)
        assert_allclose(now[order + 1], differences, rtol=DIFFERENCES)
