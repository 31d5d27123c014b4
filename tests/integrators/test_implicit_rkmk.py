"""Gauss-Legendre methods: order, the two iteration matrices, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.integrators.gauss import TABLEAUX, _Equations, _Problem
from models import heavy_top
from tests import golden
from tests.runs import ORDER_SLACK, orders, top_errors


@pytest.mark.parametrize(
    ("tableau", "formulation", "n"),
    [
        pytest.param("gauss2", lie_jax.SE3(), 500, marks=pytest.mark.full),
        ("gauss4", lie_jax.R3SO3(chart="cayley"), 200),
        # The order of its coefficients is tested below.
        pytest.param("gauss6", lie_jax.SE3(), 50, marks=pytest.mark.full),
    ],
)
def test_observed_order(tableau, formulation, n):
    integrator = lie_jax.ImplicitRKMK(tableau, jacobian="analytic")
    errors = top_errors(formulation, integrator, (n, 2 * n))
    assert abs(orders(errors) - integrator.order) < ORDER_SLACK, errors


@pytest.mark.parametrize("name", TABLEAUX)
def test_coefficients_are_those_of_collocation(name):
    """B(2s) and C(s), from which the order 2s follows."""
    a, b, c = TABLEAUX[name]
    s = len(b)
    for k in range(1, 2 * s + 1):
        assert abs(b @ c ** (k - 1) - 1 / k) < 1e-15
    for k in range(1, s + 1):
        assert np.max(np.abs(a @ c ** (k - 1) - c**k / k)) < 1e-15


@pytest.mark.parametrize(
    "formulation",
    [
        lie_jax.R3SO3(),
        pytest.param(lie_jax.SE3(coordinates="rotation_vector"), marks=pytest.mark.full),
        pytest.param(lie_jax.SE3(chart="cayley"), marks=pytest.mark.full),
    ],
)
def test_the_two_iteration_matrices_are_one(formulation):
    system, state = heavy_top.build(formulation, constrained=False)
    dt = 1e-2  # turns by over a radian
    problem = _Problem(system, jnp.zeros(()), jnp.asarray(dt), None, state.q, state.v)
    a, _, c = TABLEAUX["gauss4"]
    rng = np.random.default_rng(2)
    y = jnp.concatenate([state.v, state.v, jnp.asarray(rng.normal(size=12))])

    @jax.jit
    def linearized(y, problem):
        kinds = ("autodiff", "analytic")
        return [_Equations(a, c, kind).linearize(y, problem) for kind in kinds]

    values, matrices = zip(*linearized(y, problem), strict=True)
    matrices = [matrix.entries for matrix in matrices]
    golden.assert_close(values[0], values[1], atol=1e-10)
    assert float(jnp.max(jnp.abs(matrices[0] - matrices[1]))) < 1e-10 * float(
        jnp.max(jnp.abs(matrices[0]))
    )


def test_gradients_of_a_step_agree_with_differences():
    integrator, t, dt = lie_jax.ImplicitRKMK("gauss2"), jnp.zeros(()), jnp.asarray(1e-2)

    def height(mass):
        system, state = heavy_top.build(constrained=False, mass=mass)
        carry = integrator.init(system, t, dt, state, None)
        step = integrator.step(system, t, dt, state, carry, None)
        return heavy_top.center_of_mass(system, step.state.q)[2]

    step = 1e-3
    masses = jnp.asarray([15.0 - step, 15.0, 15.0 + step])
    (lower, _, higher), (_, slope, _) = jax.jit(jax.vmap(jax.value_and_grad(height)))(masses)
    # A central difference of second order.
    golden.assert_close(slope, (higher - lower) / (2 * step), rtol=1e-5)
