"""Explicit methods on SE(3) x R6, for a body whose forces depend on its configuration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from models import heavy_top
from tests.runs import ORDER_SLACK, orders, top_errors
from tests.suites import cases

# Numbers of steps, each twice the one before, where the error is above rounding.
METHODS = {
    "euler": (lie_jax.RKMK("euler"), 8000),
    "heun": (lie_jax.RKMK("heun"), 1000),
    "midpoint": (lie_jax.RKMK("midpoint"), 1000),
    "rk3": (lie_jax.RKMK("rk3"), 500),
    "ode23": (lie_jax.RKMK("ode23"), 500),
    "rk4": (lie_jax.RKMK("rk4"), 400),
    "dopri5": (lie_jax.RKMK("dopri5"), 200),
    "rk67": (lie_jax.RKMK("rk67"), 150),
    "rkf78": (lie_jax.RKMK("rkf78"), 50),
    "CG2": (lie_jax.CrouchGrossman(2), 1000),
    "CG3": (lie_jax.CrouchGrossman(3), 500),
    "CG4": (lie_jax.CrouchGrossman(4), 500),
    "CF2": (lie_jax.CommutatorFree(2), 1000),
    "CF3": (lie_jax.CommutatorFree(3), 500),
    "CF4": (lie_jax.CommutatorFree(4), 500),
    "classical rk4": (lie_jax.RungeKutta("rk4"), 500),
}


@pytest.mark.parametrize("name", cases(METHODS, ["CG3", "CF4"]))
def test_observed_order_on_se3(name):
    integrator, n = METHODS[name]
    errors = top_errors(lie_jax.SE3(), integrator, (n, 2 * n))
    assert abs(orders(errors) - integrator.order) < ORDER_SLACK, errors


@pytest.mark.full
@pytest.mark.parametrize("integrator", [lie_jax.RKMK("rk67"), lie_jax.CommutatorFree(2)])
def test_methods_keep_their_order_with_the_cayley_chart(integrator):
    n = 200 if integrator.order == 6 else 1000
    errors = top_errors(lie_jax.SE3(chart="cayley"), integrator, (n, 2 * n))
    assert abs(orders(errors) - integrator.order) < ORDER_SLACK, errors


@pytest.mark.full
def test_a_tableau_of_ones_own_is_the_method():
    ralston = lie_jax.Tableau(((), (2 / 3,)), (0.25, 0.75), (0.0, 2 / 3), 2)
    errors = top_errors(lie_jax.SE3(), lie_jax.RKMK(ralston), (1000, 2000))
    assert abs(orders(errors) - 2) < ORDER_SLACK, errors


@pytest.mark.full
def test_second_order_compositions_are_one_method():
    ends = [top_errors(lie_jax.SE3(), f(2), (100,)) for f in (
        lie_jax.CrouchGrossman, lie_jax.CommutatorFree)]  # fmt: skip
    assert ends[0] == ends[1]


@pytest.mark.full
@pytest.mark.parametrize(("name", "bound"), [("dopri5", 1e-10), ("rk67", 1e-12), ("rkf78", 1e-12)])
def test_high_orders_reach_round_off_on_the_heavy_top(name, bound):
    """At h = 1e-4 s, after 1 s: below 1e-10 m for order 5 and 1e-12 m from order 6 on."""
    assert top_errors(lie_jax.R3SO3(), lie_jax.RKMK(name), (10_000,), duration=1.0)[0] < bound


@pytest.mark.full
def test_gradients_go_through_compositions():
    slopes = []

    def height(mass, integrator):
        system, state = heavy_top.build(constrained=False, mass=mass)
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=1e-3, steps=20, save=20, throw=False
        )
        return heavy_top.center_of_mass(system, trajectory.q[-1])[2]

    for mode in (jax.grad, jax.jacfwd):
        slope = jax.jit(mode(lambda m: height(m, lie_jax.CommutatorFree(3))))
        slopes.append(slope(jnp.asarray(15.0)))
    assert_allclose(slopes[0], slopes[1], rtol=1e-10)


# Of the norm of a quaternion and of the entries of R Rᵀ - I after any number of steps.
GROUP_ROUNDING = 1e-14


# `make test` has norms in runs of another solver, and a million products of quaternions.
@pytest.mark.full
@pytest.mark.parametrize("steps", [20_000, 1_000_000])
def test_many_steps_stay_on_the_group(steps):
    worst = {}
    for formulation in (lie_jax.SE3(), lie_jax.R3SO3(coordinates="rotation_vector")):
        system, state = heavy_top.build(formulation)
        run = lie_jax.simulate(
            system, lie_jax.RKMK("heun"), state, dt=1e-4, steps=steps, save=steps // 10
        )
        rotation = np.asarray(jax.jit(lambda q, system=system: system.poses(q))(run.q[-1])[0][0])
        worst[formulation.coordinates] = np.max(np.abs(rotation @ rotation.T - np.eye(3)))
        if formulation.coordinates == "quaternion":
            norms = np.linalg.norm(run.q[:, 3:], axis=1)
            assert np.max(np.abs(norms - 1.0)) < GROUP_ROUNDING
    assert max(worst.values()) < GROUP_ROUNDING, worst


@pytest.mark.parametrize(
    "integrator",
    [
        lie_jax.RKMK("ode23"),
        pytest.param(lie_jax.RungeKutta("rk4"), marks=pytest.mark.full),
    ],
)
def test_stages_in_a_loop_are_those_written_out(integrator, monkeypatch):
    """Systems that are slow to compile have the loop."""
    system, state = heavy_top.build(constrained=False)
    t, dt = jnp.zeros(()), jnp.asarray(1e-3)
    steps = []
    for slow in (True, False):
        monkeypatch.setattr(type(system), "slow_to_compile", slow)
        first = integrator.init(system, t, dt, state, None)
        step = jax.jit(lambda state, first: integrator.step(system, t, dt, state, first, None))
        found = step(state, first)
        if slow:
            at_end = system.acceleration(t + dt, found.state.q, found.state.v)
            assert_allclose(found.carry.solution.acceleration, at_end, rtol=1e-12, atol=1e-9)
        steps.append(jax.tree.leaves(found._replace(carry=None)))
    for looped, written in zip(*steps, strict=True):
        assert_allclose(looped, written, rtol=1e-13, atol=1e-13)


@pytest.mark.full
def test_a_last_stage_at_the_end_of_a_step_is_the_first_of_the_next():
    integrator = lie_jax.RKMK("ode23")
    embedded = integrator.method._replace(b=integrator.method.embedded)
    system, state = heavy_top.build(lie_jax.R3SO3(chart="cayley"))
    # The top turns by half a radian.
    t, dt = jnp.zeros(()), jnp.asarray(3e-3)

    def step(first):
        return integrator.step(system, t, dt, state, first, None)

    @jax.jit
    def steps(state):
        first = integrator.init(system, t, dt, state, None)
        # The step with another acceleration shows that the first stage is not evaluated.
        known = jax.vmap(step)(jnp.stack([first, 2.0 * first]))
        end = jax.tree.map(lambda x: x[0], known.state)
        other = lie_jax.RKMK(embedded).step(system, t, dt, state, None, None).state
        x = system.space.inverse_retract(end.q, other.q)
        apart = system.space.tangent_operator(jnp.zeros_like(x), x), other.v - end.v
        return known, step(None), system.acceleration(t + dt, end.q, end.v), apart

    known, anew, end, apart = steps(state)
    assert np.max(np.abs(known.state.v[1] - known.state.v[0])) > 1e-3
    known = jax.tree.map(lambda x: x[0], known)
    assert_allclose(known.carry, end, rtol=1e-12, atol=1e-10)
    without = known._replace(carry=None)
    for reused, new in zip(*map(jax.tree.leaves, (without, anew)), strict=True):
        assert_allclose(reused, new, rtol=1e-12, atol=1e-14)
    # The estimate is exact to first order in itself.
    assert 1e-7 < np.max(np.abs(known.error.displacement)) < 1e-3
    for estimate, difference in zip(known.error, apart, strict=True):
        assert_allclose(estimate, difference, rtol=1e-3, atol=1e-9)


def test_a_first_stage_is_evaluated_anew_for_inputs():
    t, dt = jnp.zeros(()), jnp.asarray(1e-3)
    system, state = heavy_top.build(constrained=False)
    for name, u in (("rk4", None), ("ode23", jnp.zeros(1))):
        assert lie_jax.RKMK(name).init(system, t, dt, state, u) is None


@pytest.mark.full
@pytest.mark.parametrize(
    ("constrained", "name"), list(itertools.product([True, False], ["rk4", "dopri5"]))
)
def test_a_loop_of_stages_begins_with_the_end_of_the_last_step(constrained, name, monkeypatch):
    """Unless inputs change."""
    system, state = heavy_top.build(constrained=constrained)
    monkeypatch.setattr(type(system), "slow_to_compile", True)
    t, dt, inputs = jnp.zeros(()), jnp.asarray(1e-3), jnp.zeros(0)
    integrator = lie_jax.RKMK(name)

    @jax.jit
    def after(state, known, factor, u):
        begun = integrator.init(system, t, dt, state, u)
        first = integrator.first_accelerations(system, t, state, begun, u)
        first = first._replace(acceleration=factor * first.acceleration)
        carry = begun._replace(solution=first, known=known)
        step = integrator.step(system, t, dt, state, carry, u)
        found = integrator.accelerations(system, t + dt, step.state, None, u)
        return jnp.concatenate([step.state.q, step.state.v]), step.carry, found

    end, carried, found = after(state, False, 1.0, None)
    for x, y in zip(carried.solution, found, strict=True):
        assert_allclose(x, y, rtol=1e-11, atol=1e-9)
    # Another acceleration shows whether the first stage is evaluated.
    assert np.max(np.abs(after(state, True, 2.0, None)[0] - end)) > 1e-4
    for known, factor, u in (True, 1.0, None), (False, 2.0, None), (True, 2.0, inputs):
        assert_allclose(after(state, known, factor, u)[0], end, rtol=1e-12, atol=1e-13)
