"""Implicit methods: orders, coefficients, iteration matrices, derivatives, stiff equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import lie_jax
from lie_jax.integrators.implicit import coupled, diagonal, stage
from lie_jax.integrators.implicit.tableaux import TABLEAUX
from models import heavy_top
from tests import golden
from tests.mechanisms import two_bodies
from tests.runs import ORDER_SLACK, orders, top_errors
from tests.suites import cases
from tests.systems import Spinner

ROUNDING = 3e-15
# What the regularisation of constraints leaves of a solution of size one to a hundred.
REGULARISED = 1e-8


@pytest.mark.parametrize(
    ("tableau", "formulation", "n"),
    [
        pytest.param("gauss2", lie_jax.SE3(), 500, marks=pytest.mark.full),
        ("gauss4", lie_jax.R3SO3(chart="cayley"), 200),
        # The order of its coefficients is tested below.
        pytest.param("gauss6", lie_jax.SE3(), 50, marks=pytest.mark.full),
        pytest.param("radau3", lie_jax.SE3(), 400, marks=pytest.mark.full),
        pytest.param("radau5", lie_jax.R3SO3(), 100, marks=pytest.mark.full),
        pytest.param("sdirk4", lie_jax.SE3(), 200, marks=pytest.mark.full),
    ],
)
def test_observed_order(tableau, formulation, n):
    integrator = lie_jax.ImplicitRKMK(tableau, jacobian="analytic")
    errors = top_errors(formulation, integrator, (n, 2 * n))
    assert abs(orders(errors) - integrator.order) < ORDER_SLACK, errors


@pytest.mark.parametrize("name", TABLEAUX)
def test_coefficients_have_their_order(name):
    """B(p) and C(s) of collocation, from which order p follows; all trees of order 4 otherwise."""
    a, b, c, order, estimate = TABLEAUX[name]
    for k in range(1, order + 1):
        assert abs(b @ c ** (k - 1) - 1 / k) < ROUNDING
    if TABLEAUX[name].diagonal is None:
        for k in range(1, len(b) + 1):
            assert np.max(np.abs(a @ c ** (k - 1) - c**k / k)) < ROUNDING
    elif order == 4:
        trees = (b @ a @ c - 1 / 6, b @ (c * (a @ c)) - 1 / 8, b @ a @ c**2 - 1 / 12)
        assert max(map(abs, (*trees, b @ a @ a @ c - 1 / 24))) < ROUNDING
    if estimate is None:
        return
    # The embedded method has the start as a node, and is of the stated order and no higher one.
    moments = [
        estimate.weights @ c ** (k - 1) + estimate.start * (k == 1)
        for k in range(1, estimate.order + 2)
    ]
    assert max(map(abs, moments[:-1])) < ROUNDING
    assert abs(moments[-1]) > 1e-3


MATRICES = {
    "one body": lambda: heavy_top.build(lie_jax.SE3(chart="cayley"), constrained=True),
    "two bodies, SE3": lambda: two_bodies(lie_jax.SE3(chart="cayley")),
    "two bodies, R3SO3": lambda: two_bodies(lie_jax.R3SO3()),
    "two bodies, Euler parameters": lambda: two_bodies(lie_jax.EulerParameters()),
}


# `make test` has the parts of these matrices in the tests of tangents, and an order found by them.
@pytest.mark.full
@pytest.mark.parametrize("name", MATRICES)
def test_iteration_matrices_are_derivatives(name):
    """Of all stages, in steps that turn by some tenths of a radian or more, and of one stage."""
    system, state = MATRICES[name]()
    rng = np.random.default_rng(2)

    @jax.jit
    def matrices(state, y, right):
        problem = stage.step_parameters(
            system, jnp.zeros(()), jnp.asarray(0.03), None, state.q, state.v
        )
        whole = [coupled.linearize("radau3", x, y, problem) for x in ("autodiff", "analytic")]
        nv, *others = problem.rows
        one = jnp.concatenate([y[:nv], y[2 * nv : 2 * nv + sum(others)]])
        parameters = diagonal._Stage(
            problem, jnp.asarray(0.01), 0.01 * state.v, 0.9 * state.v, jnp.asarray(0.02)
        )
        slope = jax.jacfwd(lambda y: diagonal._residual(y, parameters))(one)
        right = right[: one.shape[0]]
        _, matrix = diagonal._linearize("analytic", one, parameters)
        return whole, slope @ matrix.solve(right) - right

    rows = 2 * (system.nc + system.nc - system.velocity_rows)
    y = jnp.concatenate([state.v, 1.1 * state.v, jnp.asarray(rng.normal(size=rows))])
    ((value, first), (other, second)), left = matrices(
        state, y, jnp.asarray(rng.normal(size=y.shape[0]))
    )
    golden.assert_close(value, other, atol=1e-10)
    entries = float(jnp.max(jnp.abs(first.entries)))
    assert float(jnp.max(jnp.abs(first.entries - second.entries))) < 1e-13 * entries
    assert float(jnp.max(jnp.abs(left))) < REGULARISED


def _top(mass):
    system, state = heavy_top.build(constrained=False, mass=15.0 * mass)
    return system, state, lambda q: heavy_top.center_of_mass(system, q)[2]


def _spinner(moment):
    state = lie_jax.State(jnp.eye(4)[0], jnp.asarray([30.0, 150.0, -60.0]))
    return Spinner(jnp.stack([moment, 2.0, 2.5])), state, lambda q: q[1]


GRADIENTS = {"heavy top": _top, "free body": _spinner}


@pytest.mark.full
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_a_step_agree_with_differences(name):
    integrator, t, dt = lie_jax.ImplicitRKMK("gauss2"), jnp.zeros(()), jnp.asarray(1e-2)

    def number(parameter):
        system, state, observe = GRADIENTS[name](parameter)
        carry = integrator.init(system, t, dt, state, None)
        step = integrator.step(system, t, dt, state, carry, None)
        return observe(step.state.q)

    step = 1e-4
    points = jnp.asarray([1.0 - step, 1.0, 1.0 + step])
    (lower, _, higher), (_, slope, _) = jax.jit(jax.vmap(jax.value_and_grad(number)))(points)
    # A central difference of second order.
    golden.assert_close(slope, (higher - lower) / (2 * step), rtol=1e-5)


class VanDerPol(lie_jax.extend.AbstractSystem):
    """q̈ = μ (1 - q²) q̇ - q: velocities follow slowly changing positions within 1/μ."""

    mu: jax.Array

    @property
    def space(self):
        return lie_jax.extend.Rn(1)

    def mass_matrix(self, q):
        return jnp.ones((1, 1), q.dtype)

    def force(self, t, q, v, u=None):
        return self.mu * (1.0 - q * q) * v - q


@pytest.mark.parametrize("tableau", cases(["radau3", "radau5", "sdirk4"], ["radau5"]))
def test_stiff_equations_of_a_user_take_few_steps(tableau):
    """An explicit method would take over half a million steps."""
    system, mu, end = VanDerPol(jnp.asarray(1e3)), 1e3, 700.0
    state = lie_jax.State(jnp.asarray([2.0]), jnp.asarray([0.0]))
    adaptive = lie_jax.Adaptive(rtol=1e-6, atol=1e-8)
    run = lie_jax.simulate(
        system,
        lie_jax.ImplicitRKMK(tableau),
        state,
        dt=1e-3,
        steps=2000,
        adaptive=adaptive,
        t_end=end,
    )
    peer = solve_ivp(
        lambda t, y: [y[1], mu * (1.0 - y[0] ** 2) * y[1] - y[0]],
        (0.0, end), [2.0, 0.0], "Radau", rtol=1e-11, atol=1e-13,
    )  # fmt: skip
    last = int(run.stats.completed_steps)
    assert last < 400
    # Of the position's tolerance; errors of the start stay.
    golden.assert_close(run.q[last], peer.y[:1, -1], rtol=2e-5)
