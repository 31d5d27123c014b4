"""RATTLie: orders, conserved momenta and bounded energies, derivatives, refusals."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.integrators.rattlie import COMPOSITIONS
from lie_jax.simulation.march import march
from models import bricard, double_pendulum, free_body, heavy_top, slider_crank, three_bodies
from tests import mechanisms
from tests.runs import SLOW_DURATION, SLOW_SPIN, orders, slow_top, top_errors
from tests.suites import cases
from tests.systems import OSCILLATOR, OSCILLATOR_START

# Slopes of straight lines are within this of the order of a step, and of a composition.
ORDER_SLACK, COMPOSED_SLACK = 0.02, 0.1
# Rounding of some 4000 steps, relative to the momentum.
MOMENTUM_ROUNDING = 1e-12


@eqx.filter_jit
def _top(system, state):
    """Rotation, energy and vertical momentum of the top."""
    energy = system.kinetic_energy(state.q, state.v) + system.potential_energy(state.q)
    return system.poses(state.q)[0][0], energy, system.momentum(state.q, state.v)[1][2]


def _slow_tops(composition, counts):
    system, state = heavy_top.build(lie_jax.SE3(), omega_body=SLOW_SPIN)
    integrator = lie_jax.RATTLie(composition)
    ends = [march(system, integrator, state, SLOW_DURATION / n, n) for n in counts]
    assert all(bool(end.result == lie_jax.Result.successful) for end in ends)
    return [_top(system, end.state) for end in ends], _top(system, state)


@pytest.mark.full
def test_a_slow_top_is_that_of_another_code():
    """Errors and energies of a script in NumPy and SciPy, with the equations on SO(3) alone."""
    ends, (_, energy, momentum) = _slow_tops(2, (50, 100))
    exact = slow_top()[0]
    errors = [float(jnp.max(jnp.abs(rotation - exact))) for rotation, *_ in ends]
    assert_allclose(errors, (5.178e-2, 1.306e-2), rtol=1e-3)
    assert_allclose([e - energy for _, e, _ in ends], (0.1423, 0.0360), rtol=2e-3)
    for _, _, end in ends:
        assert abs(end - momentum) < MOMENTUM_ROUNDING * abs(momentum)


@pytest.mark.parametrize("composition", cases([4, 6], []))
def test_compositions_have_their_order(composition):
    counts = (100, 200) if composition == 4 else (50, 100)
    ends, (_, _, momentum) = _slow_tops(composition, (*counts, 1600))
    *errors, _ = (np.abs(rotation - ends[-1][0]).max() for rotation, *_ in ends)
    assert abs(np.log2(errors[0] / errors[1]) - composition) < COMPOSED_SLACK, errors
    for _, _, end in ends:
        assert abs(end - momentum) < MOMENTUM_ROUNDING * abs(momentum)


@pytest.mark.parametrize("order", [4, 6])
def test_coefficients_fulfil_the_order_conditions(order):
    """Of symmetric compositions: Hairer, Lubich and Wanner (2006), V.3."""
    parts = COMPOSITIONS[order]
    assert_allclose(parts, parts[::-1], rtol=0, atol=0)
    conditions = [np.sum(parts) - 1.0, np.sum(parts**3)]
    if order == 6:
        middles = np.cumsum(parts) - parts / 2
        conditions += [np.sum(parts**5), np.sum(parts**3 * middles**2)]
    assert_allclose(conditions, 0.0, atol=1e-14)


FORMULATIONS = {
    "R3SO3": (lie_jax.R3SO3(), True),
    "SE3": (lie_jax.SE3(), True),
    "R3SO3, centre of mass off the origin": (lie_jax.R3SO3(), False),
    "SE3, cayley": (lie_jax.SE3(chart="cayley"), True),
    "R3SO3, cayley": (lie_jax.R3SO3(chart="cayley"), True),
    "minimal": (lie_jax.Minimal(), False),
    "Euler parameters": (lie_jax.EulerParameters(), True),
    "unified": (lie_jax.UnifiedVelocity(), True),
}


@pytest.mark.parametrize("name", cases(FORMULATIONS, []))
def test_the_top_has_order_two(name):
    formulation, constrained = FORMULATIONS[name]
    errors = top_errors(formulation, lie_jax.RATTLie(), (800, 1600), constrained=constrained)
    assert np.all(np.abs(orders(errors) - 2.0) < ORDER_SLACK), errors


@pytest.mark.full
def test_inertias_of_the_configuration_count():
    """Two hinges in joint coordinates, whose mass matrix changes with the angle between them."""
    system, state = double_pendulum.build(lie_jax.Minimal())
    end = march(system, lie_jax.RKMK("rk4"), state, 1e-3, 500).state.q
    errors = [
        jnp.abs(march(system, lie_jax.RATTLie(), state, 0.5 / n, n).state.q - end).max()
        for n in (100, 200, 400)
    ]
    assert np.all(np.abs(orders(np.asarray(errors)) - 2.0) < ORDER_SLACK), errors


def _slopes(system, state, duration, counts, observe):
    """Slopes of the differences between runs with each twice the steps of the one before."""
    most, found = counts[-1], []
    for n in counts:
        # All runs take one number of steps and share one program.
        run = lie_jax.simulate(
            system, lie_jax.RATTLie(), state, dt=duration / n, steps=most, save=counts[0] // 4
        )
        instants = np.arange(1, 5) * (4 * n // counts[0]) // 4
        found.append([np.asarray(x)[instants] for x in observe(run)])
    differences = [
        [np.abs(a - b).max() for a, b in zip(*pair, strict=True)]
        for pair in itertools.pairwise(found)
    ]
    return np.log2(np.asarray(differences[0]) / np.asarray(differences[1])), found[-1]


@pytest.mark.full
def test_a_double_pendulum_has_order_two_in_multipliers_too():
    system, state = double_pendulum.build()
    slopes, _ = _slopes(
        system, state, 0.2, (100, 200, 400), lambda run: (run.q, run.v, run.multipliers)
    )
    assert np.all(np.abs(slopes - 2.0) < ORDER_SLACK), slopes


@pytest.mark.full
def test_the_slider_crank_follows_its_reference():
    system, state = slider_crank.build()
    errors = []
    for n in (1000, 2000):
        end = march(system, lie_jax.RATTLie(), state, 1.0 / n, n).state
        errors.append(
            abs(slider_crank.slider_position(system, end.q) - slider_crank.REFERENCE[1.0][2])
        )
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < ORDER_SLACK, errors


@pytest.mark.full
def test_bricard_follows_its_reference():
    """Constraints are redundant."""
    system, state = bricard.build()
    exact, errors = np.asarray(bricard.REFERENCE[0.5][0]), []
    for n in (50, 100):
        end = march(system, lie_jax.RATTLie(), state, 0.5 / n, n).state
        errors.append(np.abs(np.asarray(bricard.observed_point(system, end.q)) - exact).max())
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < ORDER_SLACK, errors


@pytest.mark.full
def test_three_bodies_follow_their_reference_in_joint_coordinates():
    """The mass matrix depends on the configuration."""
    system, state = three_bodies.build()
    exact = np.asarray(three_bodies.REFERENCE[1.0]["r"])
    errors, (linear, angular) = [], system.momentum(state.q, state.v)
    for n in (50, 100):
        end = march(system, lie_jax.RATTLie(), state, 1.0 / n, n).state
        errors.append(np.abs(np.asarray(system.poses(end.q)[1][0]) - exact).max())
        after = system.momentum(end.q, end.v)
        assert_allclose(after[0], linear, rtol=0, atol=MOMENTUM_ROUNDING)
        assert_allclose(after[1], angular, rtol=0, atol=10 * MOMENTUM_ROUNDING)
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < ORDER_SLACK, errors


def test_forces_may_depend_on_velocities_inputs_and_time():
    """Stiff dampers, which the cheap matrix of a step leaves out, included."""

    class Damped(lie_jax.extend.AbstractSystem):
        damping: jax.Array

        @property
        def space(self):
            return OSCILLATOR.space

        def mass_matrix(self, q):
            return OSCILLATOR.mass_matrix(q)

        def force(self, t, q, v, u=None):
            return OSCILLATOR.force(t, q, v, u) - self.damping * v

    ends = []
    for damping in (0.0, 1e4):
        system = Damped(jnp.asarray(damping))
        for n in (20, 40, 80):
            end = march(system, lie_jax.RATTLie(), OSCILLATOR_START, 1.0 / n, n)
            assert bool(end.result == lie_jax.Result.successful)
            ends.append(np.asarray(end.state.q))
    coarse, middle, fine = ends[:3]
    ratio = np.abs(coarse - middle).max() / np.abs(middle - fine).max()
    assert abs(np.log2(ratio) - 2.0) < ORDER_SLACK
    assert_allclose(ends[-1], OSCILLATOR_START.q, atol=1e-3)


# The largest error of the energy oscillates by some percent; a drift would be a thousandfold.
TREND = 1.05


@pytest.mark.full
def test_energy_has_no_trend_over_a_million_steps():
    system, state = free_body.build()
    run = lie_jax.simulate(system, lie_jax.RATTLie(), state, dt=1e-3, steps=1_000_000, save=100)
    energy = np.asarray(jax.jit(jax.vmap(system.kinetic_energy))(run.q, run.v))
    first, last = (
        np.abs(energy[part] - energy[0]).max() for part in (slice(1000), slice(-1000, None))
    )
    assert last < TREND * first
    angular = np.asarray(jax.jit(jax.vmap(system.momentum))(run.q, run.v)[1])
    assert np.abs(angular - angular[0]).max() < 1e-9 * np.abs(angular[0]).max()


# Central differences of fourth order, truncation and rounding below 1e-9.
DIFFERENCE = 1e-7


def _number(mass, constrained=True):
    """A number that depends on all of the end of a step."""
    integrator, t, dt = lie_jax.RATTLie(), jnp.zeros(()), jnp.asarray(1e-3)
    system, state = heavy_top.build(constrained=constrained, mass=mass)
    carry = jnp.zeros_like(state.v)
    step = integrator.step(system, t, dt, state, carry, None)
    return 1e3 * jnp.sum(step.state.q) + jnp.sum(step.state.v)


@pytest.mark.parametrize("constrained", cases([True, False], []))
def test_derivatives_of_a_step_agree_with_differences(constrained):
    def number(mass):
        return _number(mass, constrained)

    h = 0.02
    masses = 15.0 + h * jnp.arange(-2.0, 3.0)
    one = jnp.ones(())
    values, forward = jax.jit(lambda x: jax.lax.map(lambda m: jax.jvp(number, (m,), (one,)), x))(
        masses
    )
    expected = (8.0 * (values[3] - values[1]) - (values[4] - values[0])) / (12.0 * h)
    reverse = jax.jit(jax.grad(number))(masses[2])
    assert_allclose([forward[2], reverse], expected, rtol=DIFFERENCE, atol=1e-9)


@pytest.mark.full
def test_second_derivatives_of_a_step_agree_with_differences():
    h = 0.02
    slope = jax.jit(jax.grad(_number))
    lower, higher = slope(15.0 - h), slope(15.0 + h)
    second = jax.jit(jax.grad(jax.grad(_number)))(15.0)
    # A central difference of second order.
    assert_allclose(second, (higher - lower) / (2.0 * h), rtol=1e-4)


@pytest.mark.full
def test_batches_in_single_precision_are_those_of_double():
    system, state = mechanisms.two_bodies(lie_jax.R3SO3())
    state = lie_jax.project(system, state)

    def end(state, system, dt):
        return march(system, lie_jax.RATTLie(), state, dt, 20).state.q

    single = jax.tree.map(
        lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, (state, system)
    )
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), single[0])
    found = jax.vmap(lambda state: end(state, single[1], jnp.float32(1e-2)))(batch)
    assert found.dtype == jnp.float32
    expected = end(state, system, 1e-2)
    assert_allclose(found, jnp.stack([expected] * 2), atol=2e-5)


@pytest.mark.full
def test_a_ring_of_springs_has_no_joints():
    """Three masses that breathe: forces close a loop, and the momenta stay."""
    angles = 2.0 * np.pi / 3.0 * np.arange(3)
    places = np.stack([np.cos(angles), np.sin(angles), np.zeros(3)], axis=1)
    bodies = [
        lie_jax.Body(f"mass {k}", 1.0, 0.1 * np.eye(3), position=place)
        for k, place in enumerate(places)
    ]
    relaxed = 0.9 * np.sqrt(3.0)
    springs = [
        lie_jax.LinearSpringDamper(f"mass {k}", f"mass {(k + 1) % 3}", 1.0, 0.0, relaxed)
        for k in range(3)
    ]
    mechanism = lie_jax.Mechanism(bodies, forces=springs, gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    # Springs of stiffness k at 30 degrees: r̈ = -3 (r - 0.9), by hand.
    end = march(system, lie_jax.RATTLie(), state, 1e-3, 1000)
    assert bool(end.result == lie_jax.Result.successful)
    radii = np.linalg.norm(system.poses(end.state.q)[1], axis=1)
    # Of second order.
    assert_allclose(radii, 0.9 + 0.1 * np.cos(np.sqrt(3.0)), atol=1e-6)


def test_what_does_not_fit_is_refused_by_name():
    joint = lie_jax.RollingDisc("ground", "disc", 0.3, (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    body = lie_jax.Body("disc", 2.0, np.diag([0.1, 0.15, 0.1]), position=(0.0, 0.0, 0.3))
    system, state = lie_jax.assemble(lie_jax.Mechanism([body], [joint]), lie_jax.R3SO3())
    with pytest.raises(ValueError, match=r"velocities .*GeneralizedAlpha"):
        lie_jax.simulate(system, lie_jax.RATTLie(), state, dt=1e-3, steps=1)
    with pytest.raises(ValueError, match=r"RATTLie\(composition=\)"):
        lie_jax.RATTLie(3)
