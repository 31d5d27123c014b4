"""Explicit methods on systems with constraints: index-1 form, projection, stabilisation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.spaces import derivatives
from models import heavy_top
from tests.runs import ORDER_SLACK, top_states
from tests.suites import cases
from tests.systems import PENDULUM_START, Pendulum

# Positions are sums of numbers below 2 m, velocities of numbers below 200 m/s.
POSITION_ROUNDING, VELOCITY_ROUNDING = 1e-14, 1e-12
# Force of the ground on the top (N) at 0.1 s: an independent solution in extended precision.
GROUND_FORCE = (-361.0560047871155175, -295.3931730112258751, -212.2671718551192970)


@eqx.filter_jit
def _violations(system, q, v):
    t = jnp.zeros(())
    velocity = derivatives.time_derivative(system.space, system.constraint, t, q, v)
    return jnp.abs(system.constraint(t, q)).max(), jnp.abs(velocity).max()


def _error(system, q):
    place = heavy_top.center_of_mass(system, q)
    return float(np.linalg.norm(place - np.asarray(heavy_top.REFERENCE[0.1])))


# `make test` has a pendulum that keeps its constraint, and orders of the methods without one.
@pytest.mark.full
@pytest.mark.parametrize(
    ("formulation", "integrator"),
    [
        (lie_jax.R3SO3(coordinates="rotation_vector"), lie_jax.CommutatorFree(3)),
        (lie_jax.SE3(chart="cayley"), lie_jax.RKMK("rk3")),
    ],
)
def test_projection_keeps_the_constraints_and_the_order(formulation, integrator):
    errors = []
    system, ends = top_states(formulation, integrator, (500, 1000), 0.1, constrained=True)
    for end in ends:
        errors.append(_error(system, end.q))
        position, velocity = _violations(system, end.q, end.v)
        assert position < POSITION_ROUNDING
        assert velocity < VELOCITY_ROUNDING
    assert abs(np.log2(errors[0] / errors[1]) - integrator.order) < ORDER_SLACK, errors


@pytest.mark.full
def test_high_orders_reach_round_off_with_forces():
    system, state = heavy_top.build(constrained=True)
    trajectory = lie_jax.simulate(
        system, lie_jax.RKMK("rk67"), state, dt=1e-4, steps=1000, save=1000
    )
    assert _error(system, trajectory.q[-1]) < 1e-12
    # The child, the top, pulls at the ground with the opposite of the ground's force.
    assert_allclose(trajectory.multipliers[-1], -np.asarray(GROUND_FORCE), rtol=1e-10)


# A violation (m²) that a simulation starts with without complaint.
OFF = 2e-8


def _swing(mass, integrator, steps=50):
    return lie_jax.simulate(
        Pendulum(mass), integrator, PENDULUM_START, dt=0.04, steps=steps, throw=False
    )


def test_stabilisation_holds_what_plain_index_one_lets_drift():
    mass = jnp.ones(())
    drift = {}
    for rate in (0.0, 10.0):
        integrator = lie_jax.RKMK("rk4", stabilization=lie_jax.Baumgarte(rate))
        swing = _swing(mass, integrator, 1000)
        drift[rate] = _violations(Pendulum(mass), swing.q[-1], swing.v[-1])
    swing = _swing(mass, lie_jax.RKMK("rk4"), 1000)
    exact = _violations(Pendulum(mass), swing.q[-1], swing.v[-1])
    assert exact[0] < POSITION_ROUNDING < 1e-7 < drift[0.0][0]
    assert drift[10.0][0] < 0.1 * drift[0.0][0], drift


@pytest.mark.full
def test_baumgarte_makes_a_violation_decay_critically():
    """Φ(t) = Φ(0) (1 + γ t) exp(-γ t) for a violation that starts without a rate."""
    rate, system = 10.0, Pendulum(jnp.ones(()))
    off = lie_jax.State(PENDULUM_START.q * jnp.sqrt(1.0 + OFF), PENDULUM_START.v)
    integrator = lie_jax.RKMK("rk4", stabilization=lie_jax.Baumgarte(rate))
    trajectory = lie_jax.simulate(system, integrator, off, dt=2.5e-4, steps=2000, save=400)
    left = jax.jit(jax.vmap(system.constraint, (None, 0)))(0.0, trajectory.q)[:, 0]
    t = trajectory.t
    assert_allclose(left, OFF * (1.0 + rate * t) * jnp.exp(-rate * t), atol=1e-4 * OFF)

    def found(system, off, stabilization):
        return stabilization.accelerations(system, jnp.zeros((), off.q.dtype), off, None)

    given = system, off, integrator.stabilization
    single = jax.tree.map(lambda x: x.astype(jnp.float32), given)
    assert {x.dtype for x in jax.tree.leaves(jax.eval_shape(found, *single))} == {jnp.float32.dtype}


@pytest.mark.full
@pytest.mark.parametrize("order", cases([1, 2], [1]))
def test_derivatives_go_through_the_projection(order):
    """To first order in reverse mode; to second order in both."""

    def height(mass):
        end = _swing(mass, lie_jax.RKMK("midpoint"))
        return end.q[-1, 1] + end.multipliers[-1, 0]

    mass, step = jnp.asarray(1.5), 1e-2

    around = mass + step * jnp.asarray([-2.0, -1.0, 0.0, 1.0, 2.0])
    if order == 1:
        values, reverse = jax.jit(jax.vmap(jax.value_and_grad(height)))(around)
        first = jnp.asarray([1.0, -8.0, 0.0, 8.0, -1.0]) @ values / (12.0 * step)
        assert_allclose(reverse[2], first, rtol=1e-6)
        return

    @jax.jit
    @jax.vmap
    def in_both_modes(mass):
        return jax.jvp(jax.value_and_grad(height), (mass,), (jnp.ones_like(mass),))

    (values, reverses), (forwards, curvatures) = in_both_modes(around)
    reverse, forward, curvature = (x[2] for x in (reverses, forwards, curvatures))
    assert_allclose(reverse, forward, rtol=1e-12)
    first = jnp.asarray([1.0, -8.0, 0.0, 8.0, -1.0]) @ values / (12.0 * step)
    assert_allclose(reverse, first, rtol=1e-6)
    second = jnp.asarray([-1.0, 16.0, -30.0, 16.0, -1.0]) @ values / (12.0 * step**2)
    assert_allclose(curvature, second, rtol=1e-5)


@pytest.mark.full
def test_a_projection_that_fails_ends_the_run():
    """A step of 1.5 times the rod's length leaves no circle to come back to, and grows no mode."""
    options = {"dt": 0.1, "steps": 3}
    start = lie_jax.State(PENDULUM_START.q, [12.0, 9.0])
    trajectory = lie_jax.simulate(
        Pendulum(jnp.ones(())), lie_jax.RKMK("euler"), start, throw=False, **options
    )
    assert bool(trajectory.result == lie_jax.Result.newton_failed)
    assert int(trajectory.stats.completed_steps) == 0
    with pytest.raises(lie_jax.SimulationError, match="projection left a violation"):
        lie_jax.simulate(Pendulum(jnp.ones(())), lie_jax.RKMK("euler"), start, **options)
