"""Explicit methods on systems with constraints: index-1 form, projection, stabilisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import calculus
from models import heavy_top
from tests.test_explicit import ORDER_SLACK

# Positions are sums of numbers below 2 m, velocities of numbers below 200 m/s.
POSITION_ROUNDING, VELOCITY_ROUNDING = 1e-14, 1e-12
# Force of the ground on the top (N) at 0.1 s: an independent solution in extended precision.
GROUND_FORCE = (-114.3316265302361467, -233.2471613379093297, 191.7044282034157146)


def _end(formulation, integrator, steps, duration=0.1):
    system, state = heavy_top.build(formulation, constrained=True)
    trajectory = lie_jax.simulate(
        system, integrator, state, dt=duration / steps, steps=steps, save_every=steps
    )
    return system, trajectory


def _violations(system, trajectory):
    t, q, v = trajectory.t[-1], trajectory.q[-1], trajectory.v[-1]
    velocity = calculus.time_derivative(system.space, system.constraint, t, q, v)
    return float(jnp.abs(system.constraint(t, q)).max()), float(jnp.abs(velocity).max())


def _error(system, trajectory):
    place = heavy_top.center_of_mass(system, trajectory.q[-1])
    return float(np.linalg.norm(place - np.asarray(heavy_top.REFERENCE[0.1])))


@pytest.mark.parametrize(
    ("formulation", "integrator"),
    [
        (lie_jax.R3SO3(coordinates="rotation_vector"), lie_jax.RKMK("rk4")),
        (lie_jax.SE3(chart="cayley"), lie_jax.RKMK("rk4")),
        (lie_jax.SE3(), lie_jax.CommutatorFree(3)),
    ],
)
def test_projection_keeps_the_constraints_and_the_order(formulation, integrator):
    errors = []
    for steps in (500, 1000):
        system, trajectory = _end(formulation, integrator, steps)
        errors.append(_error(system, trajectory))
        position, velocity = _violations(system, trajectory)
        assert position < POSITION_ROUNDING
        assert velocity < VELOCITY_ROUNDING
    assert abs(np.log2(errors[0] / errors[1]) - integrator.order) < ORDER_SLACK, errors


def test_high_orders_reach_round_off_with_forces():
    system, trajectory = _end(lie_jax.R3SO3(), lie_jax.RKMK("rk67"), 1000)
    assert _error(system, trajectory) < 1e-12
    # The child, the top, pulls at the ground with the opposite of the ground's force.
    assert_allclose(trajectory.multipliers[-1], -np.asarray(GROUND_FORCE), rtol=1e-9)


def test_stabilisation_holds_what_plain_index_one_lets_drift():
    drift = {}
    for rate in (0.0, 100.0):
        # Few steps for an error that is well above rounding; the rate is no constant of the program.
        integrator = lie_jax.RKMK("rk4", stabilization=lie_jax.Baumgarte(rate))
        drift[rate] = _violations(*_end(lie_jax.R3SO3(), integrator, 100, duration=0.2))
    assert drift[0.0][0] > 1e-7
    assert drift[100.0][0] < 0.02 * drift[0.0][0], drift
    assert drift[100.0][1] < 0.2 * drift[0.0][1], drift


def test_gradients_go_through_the_projection():
    def height(mass):
        system, state = heavy_top.build(constrained=True, mass=mass)
        trajectory = lie_jax.simulate(
            system, lie_jax.RKMK("heun"), state, dt=1e-3, steps=30, save_every=30, throw=False
        )
        return heavy_top.center_of_mass(system, trajectory.q[-1])[2]

    mass, step = jnp.asarray(15.0), 1e-2
    slopes = [jax.jit(mode(height))(mass) for mode in (jax.grad, jax.jacfwd)]
    assert_allclose(slopes[0], slopes[1], rtol=1e-10)
    values = jax.jit(jax.vmap(height))(mass + step * jnp.asarray([-2.0, -1.0, 1.0, 2.0]))
    difference = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * step)
    assert_allclose(slopes[0], difference, rtol=1e-7)


def test_a_projection_that_fails_ends_the_run():
    system, state = heavy_top.build(constrained=True)
    trajectory = lie_jax.simulate(
        system, lie_jax.RKMK("euler"), state, dt=0.2, steps=3, throw=False
    )
    assert bool(trajectory.result == lie_jax.Result.newton_failed)
    with pytest.raises(lie_jax.SimulationError, match="projection left a violation"):
        lie_jax.simulate(system, lie_jax.RKMK("euler"), state, dt=0.2, steps=3)
