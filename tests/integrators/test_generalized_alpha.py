"""Generalized-α in full: iteration counts of [S3], variants of Newton, constraints of all kinds."""

from collections.abc import Callable
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpy.testing import assert_allclose

import lie_jax
from experiments import newton_counts
from lie_jax.integrators.generalized_alpha import equations, matrix
from lie_jax.numerics import newton
from lie_jax.numerics.block_graph import BlockGraph
from lie_jax.numerics.dense import DenseMatrix
from models import bricard, double_pendulum, heavy_top
from tests import mechanisms
from tests.suites import cases
from tests.systems import OnALine

# [S3] prints two digits; those of the code behind it are known to three.
COUNT_DIGITS = 0.0006
SHORT = [
    pytest.param(("4", "RV"), 1e-3, marks=pytest.mark.full),
    pytest.param(("4", "EP"), 5e-4, marks=pytest.mark.full),
    pytest.param(("4", "Rxyz"), 6.25e-5, marks=pytest.mark.full),
    pytest.param(("5", "with T, full"), 1.25e-3, marks=pytest.mark.full),
    pytest.param(("5", "without T, full"), 1.25e-3, marks=pytest.mark.full),
    pytest.param(("5", "without T, modified"), 1.25e-3, marks=pytest.mark.full),
]


@pytest.mark.parametrize(("key", "h"), SHORT, ids=lambda x: " ".join(x) if type(x) is tuple else "")
def test_iteration_counts_are_those_of_the_paper(key, h):
    column = newton_counts.COLUMNS[key]
    found = newton_counts.count(column, h)
    assert not found.failed
    assert abs(found.average - column.other[h]) < COUNT_DIGITS


VARIANTS = {
    "modified": {"newton": "modified"},
    "without T": {"tangent_operator": False},
    "analytic": {"jacobian": "analytic"},
    "analytic, modified": {"jacobian": "analytic", "newton": "modified"},
}
# Newton's variants leave errors at the level of rounding, which 50 steps amplify little.
SAME_SOLUTION = 1e-11


# The counts above hold these matrices in `make test`.
@pytest.mark.full
@pytest.mark.parametrize("names", [("modified",), ("without T", "analytic", "analytic, modified")])
def test_variants_of_newton_find_one_solution(names):
    system, state = heavy_top.build(constrained=True)

    def end(options):
        run = lie_jax.simulate(
            system,
            lie_jax.GeneralizedAlpha(0.8, **options),
            state,
            dt=1e-3,
            steps=50,
            save=50,
        )
        return np.asarray(run.q[-1]), np.asarray(run.stats.newton_iterations)

    expected, full = end({})
    for name in names:
        q, iterations = end(VARIANTS[name])
        assert_allclose(q, expected, rtol=0, atol=SAME_SOLUTION, err_msg=name)
        if name == "analytic":
            assert_allclose(iterations, full)
        else:
            assert iterations.mean() > full.mean()


# Both matrices are sums of a few hundred products.
SAME_MATRIX = 1e-10


@pytest.mark.full
@pytest.mark.parametrize("index", [3, 2])
def test_the_two_iteration_matrices_are_one(index):
    """On a general mechanism with velocity constraints, at unknowns far from a solution."""
    bodies = [lie_jax.Body(n, m, mechanisms.inertia(np.random.default_rng(3))) for n, m in
              (("upper", 2.0), ("lower", 1.0))]  # fmt: skip
    mechanism = lie_jax.Mechanism(
        bodies,
        [
            lie_jax.RevoluteJoint("ground", "upper", (0.0, 1.0, 0.3), (0.1, 0.2, 0.3)),
            lie_jax.UniversalJoint("upper", "lower", (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
            mechanisms.LooseGear("upper", "lower", (0.0, 1.0, 0.3), (0.3, 1.0, 0.0), 1.7),
        ],
        [lie_jax.CartesianSpringDamper("ground", "lower", (3.0, 4.0, 5.0), (0.1, 0.2, 0.3))],
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3(chart="cayley"))
    rng = np.random.default_rng(6)
    positions = system.nc - system.velocity_rows
    n = system.nv + system.nc + (positions if index == 2 else 0)

    @jax.jit
    def both(y, increment, velocity):
        problem = equations.StepParameters(
            system, jnp.asarray(0.3), None, state.q, increment, velocity,
            jnp.asarray(40.0), jnp.asarray(7.0),
            equations.reactions(system, jnp.asarray(0.2), state.q, index),
        )  # fmt: skip
        (value, full), (same, own) = (
            matrix.linearize(way, y, problem) for way in ("autodiff", "analytic")
        )
        assert isinstance(own, BlockGraph)
        return (value, full.entries), (same, jax.vmap(own.matvec, out_axes=1)(jnp.eye(n)))

    drawn = (jnp.asarray(0.3 * rng.normal(size=k)) for k in (n, system.nv, system.nv))
    (value, automatic), (same, assembled) = both(*drawn)
    assert_allclose(same, value, rtol=1e-13, atol=1e-13)
    assert_allclose(assembled, automatic, rtol=0, atol=SAME_MATRIX)


# Force of the ground on the top (N) at 0.1 s, from an independent integration.
GROUND_FORCE = (-361.0560047871155, -295.3931730112258, -212.2671718551193)
# Slopes of straight lines are within this of the order.
ORDER_SLACK = 0.05


@pytest.mark.full
@pytest.mark.parametrize("index", [3, 2])
def test_positions_velocities_and_multipliers_have_order_two_from_the_first_step_on(index):
    system, state = heavy_top.build(constrained=True)
    exact = np.asarray(heavy_top.REFERENCE[0.1])
    runs = []
    for steps in (400, 800, 1600):
        # All runs take 1600 steps, and share one program; coarser ones go on beyond 0.1 s.
        run = lie_jax.simulate(
            system,
            lie_jax.GeneralizedAlpha(0.9, index=index),
            state,
            dt=0.1 / steps,
            steps=1600,
            save=4,
        )
        every = steps // 400
        names = ("t", "q", "v", "multipliers")
        runs.append(
            SimpleNamespace(**{k: getattr(run, k)[: 100 * every + 1 : every] for k in names})
        )
    errors = [np.linalg.norm(np.asarray(run.q[-1, :3]) - exact) for run in runs]
    assert abs(np.log2(errors[-2] / errors[-1]) - 2.0) < ORDER_SLACK
    for name in ("q", "v", "multipliers"):
        coarse, middle, fine = (np.asarray(getattr(run, name)) for run in runs)
        ratio = np.abs(coarse - middle).max() / np.abs(middle - fine).max()
        assert abs(np.log2(ratio) - 2.0) < ORDER_SLACK, name
    # At 0.1 s the multipliers pull at the ground: the opposite acts on the top.
    assert_allclose(-runs[-1].multipliers[-1], GROUND_FORCE, rtol=1e-3)
    for run in runs:
        held = jax.jit(jax.vmap(system.constraint))(run.t, run.q)
        assert float(jnp.abs(held).max()) < 1e-14
        if index == 2:
            rates = jax.jit(jax.vmap(system.constraint_rate))(run.t, run.q, run.v)
            assert float(jnp.abs(rates).max()) < 1e-11


# Rounding of sums of some twenty terms.
JACOBIAN_ROUNDING = 1e-14


@pytest.mark.full
def test_iteration_matrix_is_the_jacobian_where_coordinates_leave_rotations():
    """Euler parameters that are not normalised change lengths off their constraint."""
    system, state = double_pendulum.build(lie_jax.EulerParameters(normalized=False))
    rng = np.random.default_rng(5)
    dt, n = 1e-2, system.nv + system.nc

    @jax.jit
    def both(y, increment):
        problem = equations.StepParameters(
            system, jnp.zeros(()), None, state.q, increment, state.v, 1.0 / dt**2, 2.0 / dt, None
        )
        exact = DenseMatrix(jax.jacfwd(equations.residual)(y, problem), system.nc).regularize()
        return *(matrix.linearize(way, y, problem)[1] for way in ("autodiff", "analytic")), exact

    *found, exact = both(*(0.01 * rng.normal(size=size) for size in (n, system.nv)))
    for each in found:
        slack = JACOBIAN_ROUNDING * np.max(np.abs(exact.entries))
        assert_allclose(each.entries, exact.entries, rtol=0, atol=slack)


@pytest.mark.full
def test_bricard_follows_its_reference():
    system, state = bricard.build()
    ends = []
    for steps in (25, 50):
        run = lie_jax.simulate(
            system, lie_jax.GeneralizedAlpha(0.9), state, dt=0.5 / steps, steps=50, save=25
        )
        assert bool(run.result == lie_jax.Result.redundant)
        ends.append(np.asarray(bricard.observed_point(system, run.q[steps // 25])))
    exact = np.asarray(bricard.REFERENCE[0.5][0])
    errors = [np.abs(end - exact).max() for end in ends]
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < ORDER_SLACK
    # Extrapolated, terms of third order are left.
    assert np.abs(ends[1] + (ends[1] - ends[0]) / 3.0 - exact).max() < 1e-2 * errors[1]


@pytest.mark.full
def test_a_disc_rolls_without_slip():
    system, state, acceleration = mechanisms.rolling_disc(lie_jax.R3SO3())
    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.9), state, dt=2e-3, steps=500)
    expected = 0.5 * acceleration * run.t**2
    # A constant acceleration is integrated without error.
    assert_allclose(run.q[:, 0], expected, atol=1e-11)
    slip = jax.jit(jax.vmap(system.velocity_constraint))(run.t, run.q, run.v)
    assert float(jnp.abs(slip).max()) < 1e-12


# Sixth-order differences: truncation below 1e-7. The method's damping moves the result by so little
# that its differences need a longer step.
DIFFERENCE_STEPS = np.asarray([1e-3] * 6 + [1e-2])
GRADIENT_AGREEMENT = 1e-6
# Rounding of a result of the order 0.1, over the shortest of these steps.
DIFFERENCE_ROUNDING = 1e-12


def _pendulum(flat, steps, checkpoint=None):
    """A number that depends on all of a driven, damped pendulum's motion and its forces."""
    mass, point, stiffness, damping, rate, omega, rho = flat
    body = lie_jax.Body(
        "rod", mass, jnp.diag(jnp.asarray([0.3, 0.28, 0.05])), position=(0.0, 0.0, -0.5),
        velocity=jnp.asarray([0.0, -0.5, 0.0]) * omega,
        omega_body=jnp.asarray([-1.0, 0.0, 0.0]) * omega,
    )  # fmt: skip
    hold = jnp.stack([0.0 * point, 0.0 * point, point])
    cross = lie_jax.UniversalJoint(
        "ground", "rod", (1, 0, 0), (0, 1, 0), hold, hold + jnp.asarray([0.0, 0.0, 0.5])
    )
    control = lie_jax.JointController(
        cross,
        0,
        reference=lambda t: jnp.sin(rate * t),
        proportional=stiffness,
        derivative=damping,
    )
    push = lie_jax.PointForce("rod", (0.1, 0.0, 0.0))
    mechanism = lie_jax.Mechanism([body], [cross], [control, push])
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    run = lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(rho), state, dt=1e-2, steps=steps, throw=False,
        checkpoint=checkpoint,
    )  # fmt: skip
    return jnp.mean(run.q**2) + 1e-2 * jnp.mean(run.v) + 1e-3 * jnp.mean(run.multipliers)


@pytest.mark.full
def test_gradients_over_a_thousand_steps_agree_with_differences():
    """Parameters of body, joint, force and method, and the initial state."""
    start, _ = ravel_pytree([2.0, 0.05, 3.0, 0.2, 2.0, 0.7, 0.5])

    @jax.jit
    def evaluated(points):
        # One program for the gradient, taken at the last point, and the values of all.
        values = jax.lax.map(lambda p: _pendulum(p, 1000), points)
        return values, jax.grad(_pendulum)(points[-1], 1000, 40)

    weights = {1: 45, 2: -9, 3: 1, -1: -45, -2: 9, -3: -1}
    shifts = np.kron(np.asarray(list(weights))[:, None], np.diag(DIFFERENCE_STEPS))
    values, gradient = evaluated(jnp.concatenate([start[None] + shifts, start[None]]))
    parts = np.asarray(values[:-1]).reshape(len(weights), -1)
    expected = np.asarray(list(weights.values())) @ parts / (60 * DIFFERENCE_STEPS)
    assert_allclose(gradient, expected, rtol=GRADIENT_AGREEMENT, atol=DIFFERENCE_ROUNDING)


# `make test` has the message of full Newton in the tests of `simulate`.
@pytest.mark.full
def test_a_failure_of_newton_names_step_history_owner_and_advice():
    system, state = heavy_top.build(constrained=True, omega_body=(300.0, 40.0, -500.0))
    with pytest.raises(lie_jax.SimulationError) as error:
        lie_jax.simulate(
            system, lie_jax.GeneralizedAlpha(newton="modified"), state, dt=0.05, steps=40
        )
    stats = error.value.trajectory.stats
    history = np.asarray(stats.residual_history)
    noted = history[np.isfinite(history)]
    assert len(noted) > 2
    owner = system.owner(int(stats.worst_equation))
    assert owner in ("body 'body'", "SphericalJoint('ground', 'body')")
    message = str(error.value)
    for part in (f"{noted[0]:.2g}", owner, "newton='full'", "smaller dt", "lie_jax.project"):
        assert part in message


def sharp(v):
    """Dry friction but for a thousandth of a m/s, of which nothing is left beyond."""
    return jnp.tanh(v / 1e-3)


def narrow(v):
    """Dry friction but for a hundredth of that."""
    return v / jnp.sqrt(v * v + 1e-10)


class Rubbing(OnALine):
    """A unit mass, driven against friction that is dry but for a narrow range of velocities."""

    friction: Callable = eqx.field(static=True)

    def force(self, t, q, v, u):
        return 0.3 * jnp.cos(t) - self.friction(v)


# Kept matrices leave eps^(3/4) of what a step moves, times a slope of 1e5 of the friction.
UNBALANCED = {"full": 1e-8, "modified": 1e-6}


@pytest.mark.parametrize("option", ["full", "modified"])
@pytest.mark.parametrize(
    ("friction", "dt", "slip"),
    cases([(sharp, 0.03, 1e-3), (narrow, 3e-3, 1e-5)], [(narrow, 3e-3, 1e-5)]),
)
def test_damped_steps_solve_what_full_steps_run_around(friction, dt, slip, option):
    """Full Newton steps go to and fro between the two sides of the friction."""
    start = lie_jax.State([1.0], [100.0 * dt])
    method = lie_jax.GeneralizedAlpha(0.8, newton=option)
    run = lie_jax.simulate(Rubbing(friction), method, start, dt=dt, steps=300)
    iterations = np.asarray(run.stats.newton_iterations)
    assert iterations.max() > newton.MAX_ITERATIONS
    # At rest friction balances the drive but for what the mass takes.
    t, v = run.t[-50:], run.v[-50:, 0]
    balance = run.acceleration[-50:, 0] - (0.3 * jnp.cos(t) - friction(v))
    assert_allclose(balance, 0.0, atol=UNBALANCED[option])
    assert float(jnp.abs(v).max()) < slip


def test_smooth_accelerations_are_extrapolated_and_jumps_are_not():
    t = jnp.arange(4.0)[:, None]
    parabola = 1.0 + 0.1 * t + 0.02 * t * t * jnp.asarray([[1.0, -2.0]])
    first, second, third = parabola[1:] - parabola[:-1]
    assert_allclose(equations.extrapolate_rate(second, first, 1), third, rtol=1e-12)
    jump = second + jnp.asarray([5.0, 0.0])
    assert_allclose(equations.extrapolate_rate(jump, first, 1), 0.0)


@pytest.mark.full
def test_equations_of_the_step_are_numbered_as_the_system_does():
    system, state = heavy_top.build(constrained=True)
    none = jnp.zeros(())
    reactions = equations.reactions(system, none, state.q, 2)
    problem = equations.StepParameters(system, none, None, none, none, none, none, none, reactions)
    assert [int(equations.number_in_system(jnp.asarray(i), problem)) for i in (5, 6, 9, 11)] == [
        5,
        6,
        6,
        8,
    ]


@pytest.mark.full
def test_a_loop_of_springs_alone_moves_about_its_centre_of_mass():
    """Blocks along a graph without a joint; springs exert no force on the whole."""
    places = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    bodies = [
        lie_jax.Body(n, 1.0, np.eye(3), position=x) for n, x in zip("abc", places, strict=True)
    ]
    springs = [lie_jax.LinearSpringDamper(*pair, 10.0, 0.1, 0.9) for pair in ("ab", "bc", "ca")]
    mechanism = lie_jax.Mechanism(bodies, forces=springs, gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=1e-2, steps=20)
    _, positions = system.poses(run.q[-1])
    assert np.max(np.abs(positions - np.asarray(places))) > 1e-3
    # Rounding of twenty steps.
    assert_allclose(np.mean(positions, axis=0), np.mean(places, axis=0), rtol=0, atol=1e-14)


BAD = {
    "newton": ({"newton": "chord"}, "'chord'", "'modified'"),
    "jacobian": ({"jacobian": "numeric"}, "'numeric'", "'analytic'"),
    "index": ({"index": 1}, "index", "1"),
}


@pytest.mark.parametrize("name", BAD)
def test_options_are_checked(name):
    options, *parts = BAD[name]
    with pytest.raises(ValueError) as error:
        lie_jax.GeneralizedAlpha(**options)
    for part in parts:
        assert part in str(error.value)
