"""`control.solve` in jit, vmap and derivatives, against closed forms and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import control
from tests.cart import AT_ZERO, MIDPOINT, Mass, Rest, effort
from tests.systems import OnALine

STEPS = 8
# Hessians of the search are differences, right to the cube root of rounding squared.
CURVATURE = 1e-8
# Derivatives of these once more.
SECOND = 1e-5
# Differences of optima that a search finds to 1e-9, and of inputs, which follow the square root.
DIFFERENCE, OF_INPUTS = 1e-7, 1e-5


def _push(numbers):
    """Least effort with (mass, distance, duration)."""
    mass, distance, seconds = numbers
    phase = control.Phase(
        Mass(mass), MIDPOINT, steps=STEPS, duration=seconds, running=effort, end=Rest(distance)
    )
    return control.solve(phase, AT_ZERO)


def _cost(numbers):
    """6 m² d² / T³ n² / (n² - 1)."""
    mass, distance, seconds = numbers
    factor = 6.0 * STEPS**2 / (STEPS**2 - 1)
    return factor * mass**2 * distance**2 / seconds**3


NUMBERS = jnp.asarray([2.0, 3.0, 1.5])


@pytest.mark.full
def test_gradients_of_the_cost_are_those_of_its_closed_form():
    gradient = jax.grad(lambda x: _push(x).cost)(NUMBERS)
    assert_allclose(gradient, jax.grad(_cost)(NUMBERS), rtol=CURVATURE)
    # The inputs are linear in the distance.
    inputs, change = jax.jvp(
        lambda d: _push(NUMBERS.at[1].set(d)).inputs, (NUMBERS[1],), (jnp.ones(()),)
    )
    assert_allclose(change, inputs / NUMBERS[1], rtol=CURVATURE, atol=CURVATURE)


@pytest.mark.full
def test_in_jit_vmap_and_second_derivatives():
    rows = NUMBERS[None] * jnp.asarray([[1.0, 1.0, 1.0], [0.5, 2.0, 1.2]])
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(lambda x: _push(x).cost)))(rows)
    assert_allclose(values, jax.vmap(_cost)(rows), rtol=1e-9)
    assert_allclose(gradients, jax.vmap(jax.grad(_cost))(rows), rtol=CURVATURE)
    hessian = jax.jacfwd(jax.grad(lambda x: _push(x).cost))(NUMBERS)
    assert_allclose(hessian, jax.hessian(_cost)(NUMBERS), rtol=SECOND)


class Pendulum(OnALine):
    """A pendulum with a torque."""

    length: jax.Array

    @property
    def nu(self):
        return 1

    def mass_matrix(self, q):
        return self.length**2 * jnp.eye(1, dtype=q.dtype)

    def force(self, t, q, v, u):
        assert u is not None
        return u - 9.81 * self.length * jnp.sin(q)


def _swing(numbers):
    """Swing with limits in force, a path value and a free duration."""
    length, angle, largest = numbers
    phase = control.Phase(
        Pendulum(length), lie_jax.RKMK("rk4"), steps=20, duration=(0.5, 3.0),
        running=_effort_and_time, end=Rest(jnp.asarray(2.0)), limits=(-largest, largest),
        path=_not_too_fast,
    )  # fmt: skip
    guess = control.Guess(inputs=jnp.zeros((20, 1)), duration=1.5)
    start = lie_jax.State(angle[None], jnp.zeros(1))
    # Barriers leave the less in the inputs.
    return control.solve(phase, start, guess=guess, tolerance=1e-11)


def _effort_and_time(t, q, v, u):
    return 1.0 + 0.01 * jnp.sum(u**2)


def _not_too_fast(t, q, v, u):
    return v - 3.0


@pytest.mark.full
def test_derivatives_with_limits_in_force_are_those_of_differences():
    numbers = jnp.asarray([1.0, 0.1, 7.0])

    def results(x):
        best = _swing(x)
        return jnp.concatenate([best.cost[None], best.duration[None], best.inputs[:, 0]])

    best = _swing(numbers)
    assert bool(best.converged)
    # Limits and the path value are in force somewhere.
    assert float(jnp.max(best.inputs)) > 6.999 and float(jnp.max(best.states.v)) > 2.999
    step = 1e-5
    changes = [
        (np.asarray(results(numbers + x)) - np.asarray(results(numbers - x))) / (2.0 * step)
        for x in step * np.eye(3)
    ]
    slopes = jax.jacfwd(results)(numbers)
    known = np.stack(changes, axis=1)
    assert_allclose(slopes[:2], known[:2], rtol=DIFFERENCE)
    assert_allclose(slopes[2:], known[2:], rtol=OF_INPUTS, atol=OF_INPUTS)
    gradient = jax.grad(lambda x: results(x)[1])(numbers)
    assert_allclose(gradient, slopes[1], rtol=DIFFERENCE)


@pytest.mark.full
def test_derivatives_of_costs_of_any_size():
    """With places and limits a millionth as large, inputs change with them as much as before."""

    def inputs(numbers):
        distance, limit = numbers
        phase = control.Phase(
            Mass(1.0), MIDPOINT, steps=STEPS, duration=2.0, running=effort, end=Rest(distance),
            limits=(-limit, limit),
        )  # fmt: skip
        return control.solve(phase, AT_ZERO).inputs[:, 0]

    numbers = jnp.asarray([1.0, 1.2])
    # The first input is at its limit.
    slopes = jax.jit(jax.jacfwd(inputs))
    known = slopes(numbers)
    assert_allclose(known[0], [0.0, 1.0], atol=OF_INPUTS)
    assert_allclose(slopes(1e-6 * numbers), known, atol=OF_INPUTS)


@pytest.mark.full
def test_a_search_that_has_not_converged_has_no_derivative():
    def duration(x):
        phase = control.Phase(
            Mass(x), MIDPOINT, steps=STEPS, duration=1.0, running=effort, limits=(-0.1, 0.1),
            end=Rest(jnp.asarray(3.0)),
        )  # fmt: skip
        return control.solve(phase, AT_ZERO, max_iterations=2).cost

    with pytest.warns(UserWarning, match="not converged"):
        assert jnp.isnan(jax.grad(duration)(NUMBERS[0]))
