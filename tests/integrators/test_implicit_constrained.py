"""Stiffly accurate methods with constraints: orders, derivatives, redundancy, stiffness, steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.simulation.march import march
from models import heavy_top, loops, slider_crank
from tests import golden, mechanisms
from tests.runs import ORDER_SLACK, orders, top_errors
from tests.systems import OSCILLATOR, OSCILLATOR_START

METHODS = ("radau3", "radau5", "sdirk4")


@pytest.mark.full
@pytest.mark.parametrize(
    ("tableau", "n", "order"), [("radau3", 400, 3), ("radau5", 100, 5), ("sdirk4", 200, 2)]
)
def test_orders_of_the_heavy_top_are_those_of_index_2(tableau, n, order):
    errors = top_errors(
        lie_jax.R3SO3(), lie_jax.ImplicitRKMK(tableau), (n, 2 * n), constrained=True
    )
    assert abs(orders(errors) - order) < ORDER_SLACK, errors


# Orders of q and v, and of the multipliers of the last stage, from theory; slack for the latter,
# which the errors of q and v overlay.
SLIDER_CRANK = {"radau5": (200, 5, 3), "radau3": (400, 3, 2), "sdirk4": (800, 2, 1)}


@pytest.mark.full
@pytest.mark.parametrize("tableau", SLIDER_CRANK)
def test_orders_of_the_slider_crank_are_those_of_index_2(tableau):
    """Against 20 digits of θ, θ̇, s and ṡ after a second."""
    n, order, order_of_multipliers = SLIDER_CRANK[tableau]
    system, state = slider_crank.build()
    reference = np.asarray(slider_crank.REFERENCE[1.0])
    errors, gaps = [], []
    for count in (n, 2 * n):
        end = march(system, lie_jax.ImplicitRKMK(tableau), state, 1.0 / count, count)
        assert bool(end.result == lie_jax.Result.successful)
        q, v = end.state.q, end.state.v
        angle = float(slider_crank.crank_angle(system, q)) - reference[0]
        angle = np.remainder(angle + np.pi, 2.0 * np.pi) - np.pi
        slide = slider_crank.slider_position(system, q) - reference[2]
        speeds = float(v[3]) - reference[1], float(v[12]) - reference[3]
        errors.append([angle, slide, *speeds])
        exact = lie_jax.ImplicitRKMK(tableau).accelerations(system, 1.0, end.state, None, None)
        gaps.append(np.max(np.abs(exact.multipliers - end.carry.multipliers)))
        assert np.max(np.abs(system.constraint(1.0, q))) < 1e-15
        assert np.max(np.abs(system.constraint_rate(1.0, q, v))) < 1e-14
    assert np.all(np.abs(orders(np.abs(errors)) - order) < 0.4), errors
    assert abs(orders(np.asarray(gaps))[0] - order_of_multipliers) < 0.4, gaps


@pytest.mark.full
@pytest.mark.parametrize("tableau", ["radau5", "sdirk4"])
def test_derivatives_of_a_step_agree_with_differences(tableau):
    """In both modes, and second derivatives against differences of the first ones."""
    integrator, t, dt = lie_jax.ImplicitRKMK(tableau), jnp.zeros(()), jnp.asarray(5e-3)

    def reached(mass):
        system, state = heavy_top.build(constrained=True, mass=mass)
        carry = integrator.init(system, t, dt, state, None)
        step = integrator.step(system, t, dt, state, carry, None)
        return heavy_top.center_of_mass(system, step.state.q)[2] + step.state.v[5]

    change = 1e-4 * 15.0
    masses = 15.0 + change * jnp.arange(-2.0, 3.0)
    functions = reached, jax.grad(reached), jax.jacfwd(reached), jax.jacfwd(jax.grad(reached))
    values, reverse, forward, second = (jax.jit(jax.vmap(f))(masses) for f in functions)
    golden.assert_close(reverse, forward, rtol=1e-10)
    for rows, slope in ((values, reverse[2]), (reverse, second[2])):
        difference = (8.0 * (rows[3] - rows[1]) - (rows[4] - rows[0])) / (12.0 * change)
        golden.assert_close(slope, difference, rtol=1e-7, atol=1e-10)


@pytest.mark.full
@pytest.mark.parametrize("tableau", METHODS)
def test_single_precision(tableau):
    """Twenty steps turn the top by three radians, in stages with coefficients of ten."""
    system, state = heavy_top.build(constrained=True)
    integrator = lie_jax.ImplicitRKMK(tableau)
    exact = march(system, integrator, state, 1e-3, 20)
    single = jax.tree.map(
        lambda x: x.astype(jnp.float32) if jnp.result_type(x) == jnp.float64 else x,
        (system, state),
    )
    found = march(single[0], integrator, single[1], jnp.float32(1e-3), 20)
    assert found.state.q.dtype == jnp.float32
    assert bool(found.result == lie_jax.Result.successful)
    golden.assert_close(found.state.q, exact.state.q, atol=1e-4)
    golden.assert_close(found.state.v, exact.state.v, atol=1e-4 * 150.0)


# The regularisation of redundant rows leaves this of the motion's digits.
SAME_MOTION = 1e-12


@pytest.mark.full
@pytest.mark.parametrize("tableau", ["radau5", "sdirk4"])
def test_redundant_constraints_change_nothing_but_the_multipliers(tableau):
    def swung(hinges):
        system, state = mechanisms.door(hinges)
        return march(system, lie_jax.ImplicitRKMK(tableau), state, 1e-2, 50)

    one, two = map(swung, (1, 2))
    assert bool(two.result == lie_jax.Result.successful)
    golden.assert_close(two.state.q, one.state.q, atol=SAME_MOTION)
    golden.assert_close(two.state.v, one.state.v, atol=SAME_MOTION)


@pytest.mark.full
def test_a_stiff_bushing_is_a_joint():
    """With K to infinity and steps far longer than its oscillations, as 1/K."""
    inertia, point = np.diag([0.3, 0.4, 0.2]), (0.0, 0.0, 0.5)
    body = lie_jax.Body("body", 2.0, inertia, position=(0.0, 0.5, 0.0), omega_body=(0.0, 0.0, 1.0),
        orientation=(np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0))  # fmt: skip

    def end(joints, forces):
        mechanism = lie_jax.Mechanism([body], joints, forces)
        system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
        run = march(system, lie_jax.ImplicitRKMK("radau5"), state, 5e-3, 100)
        assert bool(run.result == lie_jax.Result.successful)
        return np.asarray(run.state.q)

    exact = end([lie_jax.SphericalJoint("ground", "body", child_point=point)], [])
    errors = []
    for stiffness in (1e7, 1e9):
        bushing = lie_jax.Bushing(
            "ground", "body", stiffness * np.eye(3), np.zeros((3, 3)), child_point=point
        )
        errors.append(np.max(np.abs(end([], [bushing]) - exact)))
    assert errors[1] < 1e-6
    assert errors[1] < 0.1 * errors[0]


class Stumbling(lie_jax.RKMK):
    """Method whose steps above a millisecond count as failed."""

    def step(self, system, t, dt, state, carry, u):
        step = super().step(system, t, dt, state, carry, u)
        return step._replace(converged=dt <= 1e-3)


def test_a_failed_search_halves_the_step():
    adaptive = lie_jax.Adaptive(rtol=1e-3)
    run = lie_jax.simulate(
        *(OSCILLATOR, Stumbling("dopri5"), OSCILLATOR_START),
        dt=0.25, steps=10, adaptive=adaptive, t_end=0.5, throw=False,
    )  # fmt: skip
    assert float(run.t[1]) == 2.0**-10
    assert int(run.stats.rejected_steps) >= 8


# At 0.03 s: digits of the test set for initial value problems (Mazzia and Magherini, Bari).
CRANK_ANGLE, CRANK_SPEED = 15.81077119629904, 1139.920302151208
# RADAU5's estimate and its scaled tolerance take 402 steps in seven angles.
SQUEEZER_STEPS = 603


@pytest.mark.full
def test_automatic_steps_of_the_squeezing_mechanism():
    """Seven bodies, fifty constraints, nine of them redundant, in some five hundred steps."""
    system, state = loops.model("squeezer")
    tolerance = 1e-8
    run = lie_jax.simulate(
        system, lie_jax.ImplicitRKMK("radau5"), state, dt=1e-6, steps=1000,
        adaptive=lie_jax.Adaptive(rtol=tolerance, atol=tolerance), t_end=0.03,
    )  # fmt: skip
    last = int(run.stats.completed_steps)
    assert last <= SQUEEZER_STEPS
    rotation = system.poses(run.q[last])[0][0]
    turned = jnp.arctan2(rotation[1, 0], rotation[0, 0]) - CRANK_ANGLE
    assert abs(float(jnp.remainder(turned + jnp.pi, 2 * jnp.pi) - jnp.pi)) < tolerance * 16.0
    assert abs(float(run.v[last, 5]) - CRANK_SPEED) < tolerance * CRANK_SPEED
    assert float(jnp.max(jnp.abs(system.constraint(0.03, run.q[last])))) < 1e-15


@pytest.mark.full
def test_loops_with_rows_that_no_velocity_changes():
    """The mechanism in joint coordinates: nine of its fifteen constraints are across its plane."""
    system, state = lie_jax.assemble(loops.mechanism("squeezer"), lie_jax.Minimal())
    tolerance = 1e-8
    run = lie_jax.simulate(
        system, lie_jax.ImplicitRKMK("radau5"), state, dt=1e-6, steps=1000,
        adaptive=lie_jax.Adaptive(rtol=tolerance, atol=tolerance), save=jnp.asarray([0.03]),
    )  # fmt: skip
    assert run.result == lie_jax.Result.redundant
    assert int(run.stats.completed_steps) <= SQUEEZER_STEPS
    assert abs(float(run.q[-1, 0]) - CRANK_ANGLE) < tolerance * 16.0


def _center(gravity, integrator, constrained, rtol, steps=500):
    system, state = heavy_top.build(constrained=constrained, gravity=(0.0, 0.0, gravity))
    run = lie_jax.simulate(
        system, integrator, state, dt=1e-3, steps=steps, throw=False,
        adaptive=lie_jax.Adaptive(rtol=rtol, atol=rtol), save=jnp.asarray([0.05, 0.1]),
    )  # fmt: skip
    return heavy_top.center_of_mass(system, run.q[-1])


@pytest.mark.full
@pytest.mark.parametrize("tableau", METHODS)
def test_automatic_steps_keep_to_the_tolerance(tableau):
    # "sdirk4", of order 2 with constraints, takes 1350 steps.
    center = jax.jit(lambda g: _center(g, lie_jax.ImplicitRKMK(tableau), True, 1e-5, 2000))(-9.81)
    error = np.linalg.norm(np.asarray(center) - np.asarray(heavy_top.REFERENCE[0.1]))
    # The top turns by fifteen radians, whose tolerance is in the place of its centre.
    assert 1e-10 < error < 1e-3


@pytest.mark.full
@pytest.mark.parametrize("tableau", METHODS)
def test_derivatives_of_runs_with_automatic_steps(tableau):
    """Against an explicit method, tolerance and storage of another kind."""
    implicit, explicit = lie_jax.ImplicitRKMK(tableau), lie_jax.RKMK("dopri5")
    # Steps of "sdirk4" with constraints grow as the root of the tolerance.
    options = (1e-5, 2000) if tableau == "sdirk4" else (1e-7, 500)
    slope = jax.jacrev(lambda g: _center(g, implicit, True, *options))(-9.81)
    exact = jax.jacfwd(lambda g: _center(g, explicit, False, 1e-10, 5000))(-9.81)
    golden.assert_close(slope, exact, atol=1e-5)
