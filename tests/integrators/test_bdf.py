"""BDF in local coordinates: orders with steps of any sizes, stiff motions, automatic steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import lie_jax
from models import heavy_top, slider_crank
from tests import mechanisms
from tests.runs import SLOW_DURATION, SLOW_SPIN, slow_top
from tests.suites import cases
from tests.systems import OSCILLATOR, OSCILLATOR_START, Oscillator, Spinner


@eqx.filter_jit
def _marched(system, integrator, state, sizes, count):
    """Pose, angular velocity, multipliers and violation after `count` steps of these sizes (s)."""
    start = jnp.zeros(())

    def step(i, now):
        t, state, carry, converged = now
        step = integrator.step(system, t, sizes[i], state, carry, None)
        return t + sizes[i], step.state, step.carry, converged & step.converged

    carry = integrator.init(system, start, sizes[0], state, None)
    first = start, state, carry, jnp.ones((), bool)
    t, state, carry, converged = jax.lax.fori_loop(0, count, step, first)
    violations = system.constraint(t, state.q), system.constraint_rate(t, state.q, state.v)
    return (
        system.poses(state.q)[0][0],
        system.twists(state.q, state.v)[0, 3:],
        integrator.accelerations(system, t, state, carry, None).multipliers,
        jnp.max(jnp.abs(jnp.concatenate(violations)), initial=0.0),
        converged,
    )


COUNTS = (200, 400)


def _top_errors(system, state, order, spread):
    """Errors of rotation, velocity and reaction with steps that differ by up to `spread`."""
    errors = []
    for n in COUNTS:
        sizes = 1.0 + spread * np.random.default_rng(1).uniform(-1.0, 1.0, n)
        sizes = jnp.asarray(np.resize(sizes * SLOW_DURATION / sizes.sum(), COUNTS[-1]))
        # The number of steps is traced, too: one program serves all of them.
        given = system, lie_jax.BDF(order), state, sizes, jnp.asarray(n)
        *found, violation, converged = _marched(*given)
        assert converged
        assert violation < HELD
        rotation, omega, reaction = slow_top()
        # Constraints among coordinates have multipliers, too.
        exact = (rotation, omega, -reaction) if system.nc == 3 else (rotation, omega)
        errors.append([np.linalg.norm(a - b) for a, b in zip(found, exact, strict=False)])
    return np.asarray(errors)


# Rounding of velocities of 15 rad/s, some of which the finest runs sum up.
HELD = 1e-12
# Slack of observed orders.
ORDER_SLACK = 0.1
# Largest errors of rotation matrices with steps of 5 ms, by a NumPy program that solves the
# equations with T(x₀)⁻¹ in them, x₀ counted from the start of the step. Predicted configurations
# change errors by terms of higher order, up to first order at these steps by 3 %.
WITH_FULL_OPERATOR = {1: 0.17, 2: 7.3e-3, 3: 3.8e-4, 4: 1.5e-5, 5: 1.0e-6}
SAME_CONSTANT = 0.05
# Of errors of runs at one tolerance whose steps differ from the first one on.
SAME_ERROR = 1.5


@pytest.mark.full
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_order_on_the_group_with_steps_of_any_sizes(order):
    system, state = heavy_top.build(lie_jax.Minimal(), omega_body=SLOW_SPIN)
    for spread in (0.0, 0.3):
        errors = _top_errors(system, state, order, spread)
        assert_allclose(np.log2(errors[0] / errors[1])[:2], order, atol=ORDER_SLACK)
    # Of the dtype of the other sizes, for one program.
    sizes = jnp.asarray(np.full(COUNTS[-1], 5e-3))
    rotation, *_ = _marched(system, lie_jax.BDF(order), state, sizes, jnp.asarray(100))
    largest = np.abs(rotation - slow_top()[0]).max()
    assert_allclose(largest, WITH_FULL_OPERATOR[order], rtol=SAME_CONSTANT)


FORMULATIONS = {
    "SE(3), Cayley": (lie_jax.SE3(chart="cayley"), 3),
    "R3xSO(3), 5": (lie_jax.R3SO3(), 5),
    "R3xSO(3), 4": (lie_jax.R3SO3(), 4),
    "R3xSO(3), 2": (lie_jax.R3SO3(), 2),
    "R3xSO(3), 1": (lie_jax.R3SO3(), 1),
    "rotation vectors": (lie_jax.SE3(coordinates="rotation_vector"), 4),
    "Euler parameters": (lie_jax.EulerParameters(), 3),
    "Tait-Bryan": (lie_jax.TaitBryan(), 3),
}


@pytest.mark.parametrize("name", cases(FORMULATIONS, []))
def test_positions_velocities_and_multipliers_of_constraints_have_the_order(name):
    formulation, order = FORMULATIONS[name]
    system, state = heavy_top.build(formulation, constrained=True, omega_body=SLOW_SPIN)
    # Angles turn fast where the top is close to their singularity: errors then depend on the sizes
    # of the few steps there.
    spread = 0.0 if name == "Tait-Bryan" else 0.3
    errors = _top_errors(system, state, order, spread)
    observed = np.log2(errors[0] / errors[1])
    if order == 5:
        # The rotation's error at this instant is a tenth of the velocity's: terms of sixth order
        # count (5.26 with steps of one size), and finer steps end in rounding.
        assert observed[0] > order - ORDER_SLACK
        observed = observed[1:]
    assert_allclose(observed, order, atol=ORDER_SLACK)


@pytest.mark.full
def test_a_loop_follows_its_digits():
    """The slider-crank, whose equations are solved in blocks along its graph."""
    system, state = slider_crank.build()
    angle, speed, *_ = slider_crank.REFERENCE[1.0]
    errors = []
    for steps in (500, 1000):
        run = lie_jax.simulate(system, lie_jax.BDF(4), state, dt=1.0 / steps, steps=1000, save=500)
        q, v = run.q[steps // 500], run.v[steps // 500]
        turn = np.asarray(slider_crank.crank_angle(system, q)) - angle
        errors.append([np.sin(turn), system.twists(q, v)[0, 3] - speed])
    # Terms of fifth order dominate down to steps of 0.25 ms.
    assert np.all(np.log2(np.divide(*np.abs(errors))) > 4 - ORDER_SLACK)
    assert_allclose(errors[1], 0.0, atol=1e-4)


def _oscillator_at(end, stiffness):
    """Configuration of the oscillator at a time (s), by an explicit method of order eight."""

    def rate(t, z):
        force = -stiffness @ z[:2] - 0.1 * z[2:] + np.sin(t)
        return np.concatenate([z[2:], force / [2.0, 3.0]])

    start = np.concatenate([OSCILLATOR_START.q, OSCILLATOR_START.v])
    return solve_ivp(rate, (0, end), start, "DOP853", rtol=1e-12, atol=1e-12).y[:2, -1]


@pytest.mark.full
def test_automatic_steps_meet_the_tolerance_along_a_line():
    """Also: the derivatives are those of the motion, alike in both modes."""
    order, end = 4, 5.0

    @jax.jit
    def run(stiffness, tolerance):
        adaptive = lie_jax.Adaptive(rtol=tolerance, atol=tolerance)
        return lie_jax.simulate(
            Oscillator(stiffness), lie_jax.BDF(order), OSCILLATOR_START, dt=0.1, steps=600,
            throw=False, adaptive=adaptive, save=jnp.asarray([end]),
        )  # fmt: skip

    stiffness = np.asarray(OSCILLATOR.stiffness)
    tolerances, errors = [1e-4, 1e-6, 1e-8], []
    for tolerance in tolerances:
        found = run(OSCILLATOR.stiffness, tolerance)
        assert bool(found.result == lie_jax.Result.successful)
        errors.append(np.linalg.norm(found.q[-1] - _oscillator_at(end, stiffness)))
    slopes = np.diff(np.log(errors)) / np.diff(np.log(tolerances))
    assert_allclose(slopes, order / (order + 1), atol=0.15)

    def last(x):
        return jnp.sum(run(x * OSCILLATOR.stiffness, 1e-8).q[-1])

    forward, reverse = jax.jvp(last, (1.0,), (1.0,))[1], jax.grad(last)(1.0)
    assert_allclose(reverse, forward, rtol=1e-12)
    shift = 1e-3
    ends = [np.sum(_oscillator_at(end, (1 + sign * shift) * stiffness)) for sign in (1, -1)]
    # The error of the run, and that of the difference.
    assert_allclose(forward, (ends[0] - ends[1]) / (2 * shift), atol=1e-4)


def _servo(**options):
    """Angles of a rod whose stiff, strongly damped controller follows sin t, and its numbers."""
    inertia, gain, damper = 0.3, 1e6, 1e5
    rod = lie_jax.Body("rod", 1.0, inertia * jnp.eye(3), center_of_mass=(0.5, 0.0, 0.0))
    hinge = lie_jax.RevoluteJoint("ground", "rod", axis=(0.0, 1.0, 0.0))
    control = lie_jax.JointController(
        hinge, reference=jnp.sin, proportional=gain, derivative=damper
    )
    mechanism = lie_jax.Mechanism([rod], [hinge], [control])
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    run = lie_jax.simulate(system, state=state, throw=False, **options)
    about_hinge = inertia + 0.25

    def rate(t, z):
        error, change = np.sin(t) - z[0], np.cos(t) - z[1]
        torque = 9.81 * 0.5 * np.cos(z[0]) + gain * error + damper * change
        return [z[1], torque / about_hinge]

    exact = solve_ivp(rate, (0, 1.0), [0.0, 0.0], "Radau", rtol=1e-10, atol=1e-12).y[0, -1]
    return run, exact


@pytest.mark.full
@pytest.mark.parametrize("order", cases([2, 5], [2]))
def test_stiff_control_where_explicit_methods_fail(order):
    run, exact = _servo(integrator=lie_jax.BDF(order), dt=1e-2, steps=100)
    assert bool(run.result == lie_jax.Result.successful)
    # Below the lag of 1e-5 that gravity leaves at these gains. The damper, a tenth of the gain,
    # sees the error h²/3 of the derivative of order 2.
    bound = 0.1 * 1e-2**2 / 3 if order == 2 else 1e-7
    assert_allclose(run.q[-1, 0], exact, rtol=0, atol=bound)


@pytest.mark.full
def test_explicit_methods_fail_there():
    run, _ = _servo(integrator=lie_jax.RKMK("rk4"), dt=1e-2, steps=100)
    assert bool(run.result != lie_jax.Result.successful)


@pytest.mark.full
def test_stiff_control_with_automatic_steps():
    adaptive = lie_jax.Adaptive(rtol=1e-7, atol=1e-7)
    run, exact = _servo(
        integrator=lie_jax.BDF(3), dt=1e-2, steps=2000, adaptive=adaptive, save=jnp.asarray([1.0])
    )
    assert bool(run.result == lie_jax.Result.successful)
    assert_allclose(run.q[-1, 0], exact, rtol=0, atol=1e-5)


# Central differences of sixth order at this step: truncation and rounding both stay below 1e-8.
DIFFERENCE_STEP = 1e-3
AGREEMENT_WITH_DIFFERENCES = 1e-7


def _gradients_agree(objective, start):
    @jax.jit
    def evaluated(points):
        forward = jax.jacfwd(objective)(start)
        return jax.lax.map(objective, points), forward, jax.grad(objective)(start)

    weights = {1: 45, 2: -9, 3: 1, -1: -45, -2: 9, -3: -1}
    steps = DIFFERENCE_STEP * np.abs(start)
    shifts = np.kron(np.asarray(list(weights))[:, None], np.diag(steps))
    values, forward, reverse = evaluated(jnp.asarray(start + shifts))
    parts = np.asarray(values).reshape(len(weights), -1)
    expected = np.asarray(list(weights.values())) @ parts / (60 * steps)
    assert_allclose(forward, expected, rtol=AGREEMENT_WITH_DIFFERENCES, atol=1e-9)
    assert_allclose(reverse, forward, rtol=1e-11, atol=1e-12)


@pytest.mark.full
def test_gradients_agree_with_differences():
    """By inertia, initial velocity and step size, on the group."""

    def objective(flat):
        start = lie_jax.State(jnp.asarray([1.0, 0.0, 0.0, 0.0]), flat[3:6])
        run = lie_jax.simulate(
            Spinner(flat[:3]), lie_jax.BDF(3), start, dt=flat[6], steps=12, throw=False
        )
        return jnp.sum(jnp.sin(run.q)) + jnp.sum(run.v**2)

    _gradients_agree(objective, np.asarray([1.0, 2.0, 2.5, 0.3, 1.5, -0.6, 0.05]))


@pytest.mark.full
def test_gradients_of_constrained_runs_agree_with_differences():
    start, unravel = ravel_pytree({"mass": 15.0, "omega_body": SLOW_SPIN + 0.1})

    def objective(flat):
        system, state = heavy_top.build(constrained=True, **unravel(flat))
        run = lie_jax.simulate(system, lie_jax.BDF(4), state, dt=5e-3, steps=20, throw=False)
        number = jnp.sum(jnp.sin(run.q)) + 1e-3 * jnp.sum(run.v**2)
        return number + 1e-4 * jnp.sum(run.multipliers)

    _gradients_agree(objective, np.asarray(start))


@pytest.mark.full
def test_single_precision_and_batches():
    def run(omega, dtype):
        system, state = heavy_top.build(omega_body=omega)
        system, state = jax.tree.map(lambda x: x.astype(dtype), (system, state))
        return lie_jax.simulate(system, lie_jax.BDF(3), state, dt=2e-3, steps=50, throw=False).q

    turns = jnp.stack([SLOW_SPIN, 0.5 * SLOW_SPIN])
    single, double = (
        jax.jit(jax.vmap(lambda omega, dtype=dtype: run(omega, dtype)))(turns)
        for dtype in (jnp.float32, jnp.float64)
    )
    assert single.dtype == jnp.float32
    # Fifty steps of some 1e-7 each.
    assert_allclose(single, double, atol=1e-4)


@pytest.mark.full
def test_a_first_step_that_is_too_large_costs_no_accuracy():
    """The instant before the first one, on the tangent, lies as far back as the step goes."""
    tolerance, end = 1e-6, 2.0
    adaptive = lie_jax.Adaptive(rtol=tolerance, atol=tolerance)

    def last(dt):
        options = {
            "dt": dt,
            "steps": 300,
            "adaptive": adaptive,
            "save": jnp.asarray([end]),
            "throw": False,
        }
        return lie_jax.simulate(OSCILLATOR, lie_jax.BDF(3), OSCILLATOR_START, **options).q[-1]

    ends = jax.jit(jax.vmap(last))(jnp.asarray([1e-3, 10.0, 1e3, 1e6]))
    errors = np.linalg.norm(
        ends - _oscillator_at(end, np.asarray(OSCILLATOR.stiffness))[None], axis=1
    )
    assert np.all(errors[1:] < SAME_ERROR * errors[0])


@pytest.mark.full
def test_failures_of_newton_end_a_run_and_shorten_automatic_steps():
    system, state = heavy_top.build(constrained=True, omega_body=(3.0, 4.0, -5.0))
    options = {"dt": 1.0, "steps": 400, "throw": False}
    failed = lie_jax.simulate(system, lie_jax.BDF(3), state, **options)
    assert bool(failed.result == lie_jax.Result.newton_failed)
    adaptive = lie_jax.Adaptive(rtol=1e-6, atol=1e-6)
    run = lie_jax.simulate(
        system, lie_jax.BDF(3), state, adaptive=adaptive, save=jnp.asarray([0.5]), **options
    )
    assert bool(run.result == lie_jax.Result.successful)
    assert int(run.stats.rejected_steps) > 0


@pytest.mark.full
def test_a_disc_rolls_and_a_door_hangs_on_two_hinges():
    """Velocity constraints, and redundant ones; a constant acceleration leaves no error."""
    system, state, acceleration = mechanisms.rolling_disc(lie_jax.R3SO3())
    run = lie_jax.simulate(system, lie_jax.BDF(3), state, dt=2e-3, steps=500)
    expected = 0.5 * acceleration * run.t**2
    assert_allclose(run.q[:, 0], expected, atol=1e-11)

    hinges = [
        lie_jax.RevoluteJoint("ground", "door", (0, 0, 1), (0, 0, z), (-0.4, 0, z))
        for z in (-0.7, 0.7)
    ]
    door = lie_jax.Body("door", 3.0, np.diag([0.4, 0.6, 0.2]), position=(0.4, 0.0, 0.0))
    wind = lie_jax.Torque("door", (0.0, 0.0, 0.5))
    mechanism = lie_jax.Mechanism([door], hinges, [wind])
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    run = lie_jax.simulate(system, lie_jax.BDF(3), state, dt=1e-2, steps=100)
    assert bool(run.result == lie_jax.Result.redundant)
    angle = system.joint_coordinates(run.q, run.v, run.t)["ground", "door"]
    # The centre of mass moves on a circle: errors of third order, at steps of 0.01 s.
    assert_allclose(angle[-1], 0.5 * 0.5 / (0.2 + 3.0 * 0.16), rtol=1e-6)


@pytest.mark.parametrize("order", [0, 6])
def test_orders_that_do_not_exist_are_refused(order):
    with pytest.raises(ValueError, match="BDF") as error:
        lie_jax.BDF(order)
    assert repr(order) in str(error.value)
    assert "1, 2, 3, 4, 5" in str(error.value)
