"""Optimal control against Riccati equations, quadratic programmes and a turn with known optimum."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import solve_discrete_are
from scipy.optimize import lsq_linear

import lie_jax
from lie_jax import control
from lie_jax.groups import quaternion
from tests.cart import DT, MIDPOINT, START, STEPS, ZERO, Cart, regulate, settle
from tests.suites import cases
from tests.systems import Spinner

# The midpoint method is exact for a force that is held: the discrete double integrator.
A = np.array([[1.0, DT], [0.0, 1.0]])
B = np.array([[0.5 * DT**2], [DT]]) / 2.0
Q, R, LAST = np.diag([3.0, 0.5]), np.array([[0.2]]), np.diag([10.0, 4.0])
X0 = np.array([1.0, -0.5])


def effort(t, q, v, u):
    return 0.5 * jnp.sum(u**2)


def at_rest(q, v):
    return jnp.concatenate([q, v])


def _condensed():
    """The regulator's cost as ½ |H u - h|² in the inputs alone."""
    rows, right, x_of_u, x = [], [], np.zeros((2, STEPS)), X0
    for k in range(STEPS):
        root = np.sqrt(DT * np.diag(Q))[:, None]
        rows += [root * x_of_u, np.sqrt(DT * R) * np.eye(STEPS)[k : k + 1]]
        right += [-root[:, 0] * x, [0.0]]
        x_of_u, x = A @ x_of_u + B * np.eye(STEPS)[k], A @ x
    root = np.sqrt(np.diag(LAST))[:, None]
    return np.concatenate([*rows, root * x_of_u]), np.concatenate([*right, -root[:, 0] * x])


def test_a_linear_regulator_is_solved_in_one_iteration_with_the_gains_of_riccati():
    best = control.ilqr(Cart(), MIDPOINT, START, ZERO, dt=DT, running=regulate, final=settle)
    gains, p = [], LAST
    for _ in range(STEPS):
        gain = np.linalg.solve(DT * R + B.T @ p @ B, B.T @ p @ A)
        p = DT * Q + A.T @ p @ (A - B @ gain)
        gains.append(-gain)
    assert bool(best.converged)
    assert int(best.iterations) == 1
    assert_allclose(best.gains, gains[::-1], rtol=1e-10)
    assert_allclose(best.cost, 0.5 * X0 @ p @ X0, rtol=1e-12)
    assert_allclose(best.inputs[0], best.gains[0] @ X0, rtol=1e-10)
    # Far from the end the gain is that of the stationary equation; 4 s are some time constants.
    p = solve_discrete_are(A, B, DT * Q, DT * R)
    stationary = np.linalg.solve(DT * R + B.T @ p @ B, B.T @ p @ A)
    assert_allclose(best.gains[0], -stationary, rtol=1e-2)


@pytest.mark.full
@pytest.mark.parametrize("options", [{}, {"nodes": 4}])
def test_shooting_without_conditions_and_limits_ends_at_the_optimum_of_riccati(options):
    """The gradient's only scale are its terms: costs of an input, and of the states after it."""
    common = {"dt": DT, "running": regulate, "final": settle}
    known = control.ilqr(Cart(), MIDPOINT, START, ZERO, **common)
    best = control.shoot(Cart(), MIDPOINT, START, ZERO, **common, tolerance=1e-7, **options)
    assert bool(best.converged)
    assert float(best.gradient_norm) <= 1e-7
    assert_allclose(best.inputs, known.inputs, atol=1e-6)


LIMITS = (-1.0, 0.6)


def test_limits_give_the_solution_of_the_quadratic_programme():
    h, right = _condensed()
    expected = lsq_linear(h, right, LIMITS, method="bvls", tol=1e-14)
    held = expected.active_mask != 0
    assert 5 < held.sum() < STEPS - 5
    common = {"dt": DT, "running": regulate, "final": settle, "limits": LIMITS}
    for best in (
        control.ilqr(Cart(), MIDPOINT, START, ZERO, **common, tolerance=1e-9),
        control.shoot(Cart(), MIDPOINT, START, ZERO, **common, tolerance=1e-7),
    ):
        assert bool(best.converged)
        # A relative gradient of at most 1e-7, and inputs of size one.
        assert_allclose(best.inputs[:, 0], expected.x, atol=1e-7)
        assert_allclose(best.cost, expected.cost, rtol=1e-12)
        assert float(best.history.cost[0]) > float(best.cost)


@pytest.mark.full
def test_a_search_that_has_not_converged_says_so():
    common = {"dt": DT, "running": regulate, "final": settle}
    with pytest.warns(UserWarning, match=r"ilqr: not conv.* 2; .*1e-300.*control.shoot"):
        # Tolerances that no search meets; each search ends by its bound.
        control.ilqr(*(Cart(), MIDPOINT, START, ZERO), **common, tolerance=1e-300, max_iterations=2)
    with pytest.warns(UserWarning, match=r"shoot: not conv.*gradient_norm is .*take nodes="):
        control.shoot(*(Cart(), MIDPOINT, START, ZERO), **common, max_iterations=1)


def test_splines_are_a_partition_of_one():
    line = control.spline_basis(STEPS, 2, degree=1)
    assert_allclose(np.sum(BASIS, axis=1), 1.0, rtol=1e-14)
    assert np.all(BASIS >= 0.0)
    assert_allclose(line @ np.array([0.0, 1.0]), (np.arange(STEPS) + 0.5) / STEPS, rtol=1e-13)


BASIS = control.spline_basis(STEPS, 8)
LEAST_EFFORT = {
    "ilqr": (control.ilqr, ZERO, {"end_tolerance": 1e-10}),
    "shoot": (control.shoot, ZERO, {}),
    "nodes": (control.shoot, ZERO, {"nodes": 4}),
    "splines": (control.shoot, jnp.zeros((8, 1)), {"basis": BASIS, "limits": (-9.0, 9.0)}),
}


@pytest.mark.parametrize("name", cases(LEAST_EFFORT, ["nodes"]))
def test_least_effort_to_rest_at_the_origin(name):
    """Minimum norm under linear conditions, by its closed form; nodes and splines alike."""
    first = np.array([1.0, 0.7])
    reach, x = np.zeros((2, STEPS)), first
    for k in range(STEPS):
        reach, x = A @ reach + B * np.eye(STEPS)[k], A @ x
    expected = -np.linalg.pinv(reach) @ x
    multipliers = -DT * np.linalg.solve(reach @ reach.T, reach @ expected)
    common = {"dt": DT, "running": effort, "end": at_rest}
    start = (Cart(), MIDPOINT, lie_jax.State(first[:1], first[1:]))
    # The optimum is a straight line in time: splines of any degree hold it.
    solve, inputs, options = LEAST_EFFORT[name]
    best = solve(*start, inputs, **common, **options)
    assert bool(best.converged)
    # A relative gradient of 1e-6, and inputs of size one.
    assert_allclose(best.inputs[:, 0], expected, atol=1e-5)
    assert_allclose(best.multipliers, multipliers, rtol=1e-5)
    assert float(best.violation) < 1e-6
    last = best.trajectory
    assert_allclose([last.q[-1, 0], last.v[-1, 0]], 0.0, atol=1e-6)
    if "basis" in options:
        assert best.unknowns.shape == (8, 1)


def _cost_of(system, inputs):
    run = lie_jax.simulate(system, MIDPOINT, START, dt=DT, steps=STEPS, inputs=inputs, throw=False)
    each = jax.vmap(regulate)(run.t[:-1], run.q[:-1], run.v[:-1], inputs)
    return DT * jnp.sum(each) + settle(run.q[-1], run.v[-1])


@pytest.mark.full
def test_second_derivatives_of_the_steps_make_the_convergence_quadratic():
    """On a stiff spring, from a poor guess; the optimum is one by the gradient of `simulate`."""
    system = Cart(stiffness=jnp.asarray(-3.0), cubic=jnp.asarray(4.0))
    common = {"dt": DT, "running": regulate, "final": settle, "tolerance": 1e-11}
    first = control.ilqr(system, MIDPOINT, START, ZERO, **common)
    second = control.ilqr(system, MIDPOINT, START, ZERO, **common, second_order=True)
    slope = jax.jit(jax.grad(_cost_of, argnums=1))(system, second.inputs)
    at_start = jax.jit(jax.grad(_cost_of, argnums=1))(system, ZERO)
    assert np.max(np.abs(slope)) < 1e-10 * np.max(np.abs(at_start))
    assert_allclose(_cost_of(system, second.inputs), second.cost, rtol=1e-12)
    assert bool(first.converged) and bool(second.converged)
    assert_allclose(first.inputs, second.inputs, atol=1e-8)
    # The exponent of convergence is two with them and one without.
    for best, low, high in ((second, 1.7, 3.0), (first, 0.9, 1.4)):
        norms = np.asarray(best.history.gradient_norm)[: int(best.iterations) + 1]
        assert low < np.log(norms[-2]) / np.log(norms[-3]) < high


MOMENTS, TURN, TURN_STEPS = (0.5, 0.8, 1.0), 2.0, 30
PINNED = lie_jax.Mechanism(
    [lie_jax.Body("top", 1.0, np.diag(MOMENTS))],
    [lie_jax.SphericalJoint("ground", "top")],
    [lie_jax.Torque("top", axis, "body", input=k) for k, axis in enumerate(np.eye(3))],
    gravity=(0.0, 0.0, 0.0),
)


class AtTarget(eqx.Module):
    system: lie_jax.extend.AbstractSystem
    target: jax.Array

    def __call__(self, q, v):
        return jnp.concatenate([self.system.space.inverse_retract(self.target, q), v])


@pytest.mark.full
def test_turns_about_principal_axes_cost_what_the_double_integrator_costs():
    """A batch: each turn is a rest-to-rest motion with I θ̈ = u, whose optimum is known."""
    system = Spinner(jnp.asarray(MOMENTS))
    state = lie_jax.State(jnp.eye(4)[0], jnp.zeros(3))
    dt = 1.0 / TURN_STEPS

    def turn(target):
        # A held torque turns a body about a principal axis as the midpoint method says.
        return control.ilqr(
            system, MIDPOINT, state, jnp.zeros((TURN_STEPS, 3)), dt=dt, running=effort,
            end=AtTarget(system, target), tolerance=1e-9, end_tolerance=1e-9, max_iterations=30,
        )  # fmt: skip

    targets = jax.vmap(quaternion.exp)(TURN * jnp.eye(3))
    best = jax.jit(jax.vmap(turn))(targets)
    held = TURN_STEPS**2 / (TURN_STEPS**2 - 1)
    assert np.all(np.asarray(best.converged))
    assert_allclose(best.cost, 6.0 * np.square(MOMENTS) * TURN**2 * held, rtol=1e-8)
    assert np.max(np.asarray(best.iterations)) < 20
    # The rotation stays about its axis.
    across = best.inputs * (1.0 - jnp.eye(3))[:, None, :]
    assert np.max(np.abs(across)) < 1e-8


def good(**changes):
    return {"dt": DT, "running": effort} | changes


@pytest.mark.parametrize(
    "inputs, changes, message",
    [
        (jnp.zeros(STEPS), {}, r"\(steps, nu\)"),
        (ZERO, {"limits": (1.0, -1.0)}, "below the upper"),
        (ZERO, {"limits": (0.5, 1.0)}, "start within"),
        (ZERO, {"limits": (np.zeros(2), np.ones(2))}, "one for each input"),
        (ZERO, {"dt": -0.1}, "positive"),
        (ZERO, {"running": lambda t, q, v, u: u}, "one number"),
        (ZERO, {"final": lambda q, v: 1}, "array of float64"),
        (ZERO, {"inequalities": lambda t, q, v, u: 1}, r"inequalities=.*array of float64"),
        (ZERO, {"tolerance": 0.0}, "positive"),
        (ZERO, {"max_iterations": 0}, "at least 1"),
    ],
)
def test_bad_problems_are_refused(inputs, changes, message):
    for method in (control.ilqr, control.shoot):
        with pytest.raises(ValueError, match=message):
            method(Cart(), MIDPOINT, START, inputs, **good(**changes))


@pytest.mark.full
def test_bad_methods_are_refused():
    with pytest.raises(ValueError, match="steps need more of the one before than the state"):
        control.ilqr(Cart(), lie_jax.GeneralizedAlpha(), START, ZERO, **good())
    with pytest.raises(ValueError, match="divisor"):
        control.shoot(Cart(), MIDPOINT, START, ZERO, **good(nodes=3))
    with pytest.raises(ValueError, match="coefficients"):
        control.shoot(Cart(), MIDPOINT, START, ZERO, **good(basis=jnp.zeros((STEPS, 4))))
    with pytest.raises(ValueError, match="cannot run inside"):
        jax.jit(lambda u: control.shoot(Cart(), MIDPOINT, START, u, **good()).cost)(ZERO)
    with pytest.raises(ValueError, match="more than degree"):
        control.spline_basis(10, 3)
    system, state = lie_jax.assemble(PINNED, lie_jax.R3SO3())
    with pytest.raises(ValueError, match="3 constraints"):
        control.ilqr(system, MIDPOINT, state, jnp.zeros((5, 3)), **good())
    system, state = lie_jax.assemble(PINNED, lie_jax.Minimal())
    with pytest.raises(ValueError, match="reads 3 inputs"):
        control.ilqr(system, MIDPOINT, state, jnp.zeros((5, 2)), **good())
    with pytest.raises(ValueError, match="leaves the group"):
        control.ilqr(system, lie_jax.RungeKutta("rk4"), state, jnp.zeros((5, 3)), **good())


@pytest.mark.full
def test_a_block_is_pushed_along_the_ground_in_steps_longer_than_its_contact():
    height = 0.099
    block = lie_jax.Body("block", 2.0, jnp.eye(3), position=(0, 0, height))
    rail = lie_jax.PrismaticJoint("ground", "block", (1, 0, 0), parent_point=(0, 0, height))
    ground = lie_jax.contact.Contact(
        lie_jax.contact.Sphere("block", 0.1),
        lie_jax.contact.Plane("ground"),
        lie_jax.contact.HuntCrossley(2e7),
        lie_jax.contact.Coulomb(0.3, velocity=1e-2),
    )
    push = lie_jax.JointMotor(rail, input=0)
    mechanism = lie_jax.Mechanism([block], [rail], [ground, push])
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    steps, method = 20, lie_jax.ConvexContact()
    weight = 1e-3

    def final(q, v):
        return 100.0 * ((q[0] - 1.0) ** 2 + v[0] ** 2)

    costs = {"dt": 0.05, "running": lambda t, q, v, u: weight * u[0] ** 2, "final": final}
    guess = jnp.full((steps, 1), 10.0)
    solution = control.ilqr(system, method, state, guess, **costs)
    assert solution.converged

    def cost(u):
        run = lie_jax.simulate(system, method, state, dt=0.05, steps=steps, inputs=u, throw=False)
        return 0.05 * weight * jnp.sum(u**2) + final(run.q[-1], run.v[-1])

    value, gradient = jax.jit(jax.value_and_grad(cost))(solution.inputs)
    assert_allclose(solution.cost, value, rtol=1e-12)
    first = jax.jit(jax.grad(cost))(guess)
    assert np.linalg.norm(gradient) < 1e-6 * np.linalg.norm(first)
