"""Model predictive control against Riccati equations, the optimum of `solve`, and in transforms."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import control
from tests.cart import DT, MIDPOINT, START, STEPS, ZERO, Cart, regulate, settle
from tests.systems import Spinner

MASS, LIMIT = 2.0, 0.4
A, B = np.array([[1.0, DT], [0.0, 1.0]]), np.array([[0.5 * DT**2], [DT]]) / MASS
# Barriers add a part of the cost, and the inputs follow them to first order near their limits.
BARRIER = 1e-3


def _phase(**options):
    known = {"steps": STEPS, "duration": DT * STEPS, "running": regulate, "final": settle}
    return control.Phase(Cart(), MIDPOINT, **{**known, **options})


def _mpc(state=START, iterations=1, **options):
    return control.mpc(
        _phase(**options), state, guess=control.Guess(inputs=ZERO), iterations=iterations
    )


@functools.cache
def _limited():
    return _mpc(limits=(-LIMIT, LIMIT), iterations=3)


def _after(x, u):
    return A @ x + B[:, 0] * u


def _state(x):
    return lie_jax.State(*(jnp.asarray(value)[None] for value in x))


def test_without_limits_every_call_feeds_back_as_riccati_says():
    """Quadratic costs and a linear system: one iteration is the optimum, from whatever plan."""
    controller, plan = _mpc()
    q, r, p = np.diag([3.0, 0.5]), np.array([[0.2]]), np.diag([10.0, 4.0])
    for _ in range(STEPS):
        gain = np.linalg.solve(DT * r + B.T @ p @ B, B.T @ p @ A)
        p = DT * q + A.T @ p @ (A - B @ gain)
    x = np.array([2.0, 1.0])
    for call in range(4):
        u, plan = controller(_state(x), plan)
        assert_allclose(u, -gain @ x, rtol=1e-9)
        x = _after(x, u[0])
        assert_allclose(plan.t, (call + 1) * DT, rtol=1e-12)
    # The plan starts where the motion is.
    assert_allclose([plan.states.q[0, 0], plan.states.v[0, 0]], x, rtol=1e-9)
    assert_allclose(plan.part, 1.0)
    assert plan.inputs.shape == (STEPS, 1) and plan.gains.shape == (STEPS, 1, 2)
    assert_allclose(plan.gains[0], -gain, rtol=1e-9)


@pytest.mark.full
def test_with_limits_calls_come_to_the_optimum_of_solve():
    controller, plan = _limited()
    x = np.array([1.0, -0.5])
    for _ in range(8):
        u, plan = controller(_state(x), plan)
        assert -LIMIT <= u[0] <= LIMIT
        before, x = x, _after(x, u[0])
    best = control.solve(
        _phase(limits=(-LIMIT, LIMIT)), _state(before), guess=control.Guess(inputs=ZERO)
    )
    assert abs(best.inputs[0, 0]) > 0.99 * LIMIT
    assert_allclose(u, best.inputs[0], atol=BARRIER * LIMIT)
    assert_allclose(plan.violation, 0.0, atol=1e-9)


@pytest.mark.full
def test_plans_in_batches_loops_and_halves():
    controller, plan = _limited()
    states = [_state(x) for x in ([1.0, 0.0], [-2.0, 1.0], [0.1, 0.0])]
    rows = jax.tree.map(lambda *x: jnp.stack(x), *states)
    u, plans = jax.jit(jax.vmap(controller, in_axes=(0, None)))(rows, plan)
    for i, state in enumerate(states):
        alone, after = controller(state, plan)
        assert_allclose(u[i], alone, rtol=1e-9)
        assert_allclose(plans.inputs[i], after.inputs, rtol=1e-7, atol=1e-9)

    def tick(carry, _):
        state, plan = carry
        u, plan = controller(state, plan)
        return (_state(_after(jnp.concatenate([state.q, state.v]), u[0])), plan), u

    (state, _), inputs = jax.lax.scan(tick, (states[0], plan), None, length=5)
    x, again = np.array([1.0, 0.0]), plan
    for row in inputs:
        u, again = controller(_state(x), again)
        assert_allclose(u, row, rtol=1e-7)
        x = _after(x, u[0])
    assert_allclose(state.q, x[:1], rtol=1e-7)
    single, plan = _mpc(limits=(-LIMIT, LIMIT))
    u, after = single(states[1], plan)
    assert_allclose(single.feedback(states[1], plan), u, rtol=1e-12)
    assert_allclose(single.prepare(states[1], plan).inputs, after.inputs, rtol=1e-12)


@pytest.mark.full
def test_rates_count_from_the_inputs_of_the_call_before():
    rate = 2.0
    controller, plan = _mpc(_state([0.0, 0.0]), 3, rates=(-rate, rate))
    x, last = np.array([3.0, 0.0]), 0.0
    for call in range(6):
        u, plan = controller(_state(x), plan)
        # Linear in the inputs, so that a whole step keeps them; the first plan rests.
        assert abs(u[0] - last) <= rate * DT * (1.0 + 1e-3), call
        last, x = float(u[0]), _after(x, u[0])
    assert last < -0.5 * rate * DT


def test_a_state_that_is_not_finite_spoils_one_call_alone():
    controller, plan = _limited()
    u, after = controller(_state([np.nan, 0.0]), plan)
    assert np.isnan(u).all() and float(after.part) == 0.0
    u, _ = controller(_state([1.0, 0.0]), after)
    assert np.isfinite(u).all()


@pytest.mark.full
@pytest.mark.parametrize(("factor", "constant"), [(1.0, 1e6), (1e-14, 0.0), (1e10, 0.0)])
def test_costs_of_any_size_and_constants_in_them_change_no_inputs(factor, constant):
    running = jax.tree_util.Partial(_scaled, jnp.asarray(factor), jnp.asarray(constant))
    controller, plan = _mpc(running=running, final=None, limits=(-LIMIT, LIMIT), iterations=25)
    x = np.array([1.0, 0.0])
    u, plan = controller(_state(x), plan)
    best = control.solve(
        _phase(final=None, limits=(-LIMIT, LIMIT)), _state(x), guess=control.Guess(inputs=ZERO)
    )
    assert_allclose(u, best.inputs[0], atol=BARRIER * LIMIT)


def _scaled(factor, constant, t, q, v, u):
    return factor * regulate(t, q, v, u) + constant


def test_states_unlike_the_plan_are_refused():
    controller, plan = _limited()
    for state, words in (
        (lie_jax.State(jnp.zeros(2), jnp.zeros(1)), "q of shape"),
        (lie_jax.State(jnp.zeros(1, jnp.float32), jnp.zeros(1, jnp.float32)), "float32"),
    ):
        with pytest.raises(ValueError, match=words):
            controller(state, plan)


@pytest.mark.parametrize(
    ("phase", "options", "message"),
    [
        ({"duration": (0.5, 1.0)}, {}, "a free duration"),
        ({}, {"iterations": 0}, "iterations"),
        ({}, {}, "whose nu is 0"),
        ({}, {"guess": control.Guess(inputs=np.zeros((2, 1)))}, "a row for each step"),
    ],
)
def test_wrong_arguments(phase, options, message):
    with pytest.raises(ValueError, match=message):
        control.mpc(_phase(**phase), START, **options)


@pytest.mark.full
def test_a_closed_loop_keeps_its_constraints_and_a_spinner_its_group():
    """Nodes stay where the simulator goes, in absolute coordinates and on unit quaternions."""

    def running(t, q, v, u):
        return jnp.sum(v**2) + 0.01 * jnp.sum(u**2)

    spinner = Spinner(jnp.asarray([1.0, 2.0, 3.0]))
    start = lie_jax.State(jnp.eye(4)[0], jnp.asarray([0.3, 1.0, -0.2]))
    phase = control.Phase(spinner, lie_jax.RKMK("rk4"), steps=6, duration=0.6, running=running)
    guess = control.Guess(inputs=np.zeros((6, 3)))
    controller, plan = control.mpc(phase, start, guess=guess)
    for _ in range(3):
        _, plan = controller(lie_jax.State(plan.states.q[0], plan.states.v[0]), plan)
    assert_allclose(jnp.linalg.norm(plan.states.q, axis=1), 1.0, rtol=1e-12)
