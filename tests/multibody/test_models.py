"""Models of tops, pendulums, rotor and chain have their invariants and observed points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from models import (
    chain,
    double_pendulum,
    fixed_point,
    follower_torque,
    heavy_top,
    pinned_body,
    rotor,
    three_bodies,
)
from tests import mechanisms

PARAMETERS = {
    "center_of_mass": np.asarray([0.02, -0.03, 0.2]),
    "inertia": np.asarray([[0.03, -0.005, 0.001], [-0.005, 0.04, 0.002], [0.001, 0.002, 0.025]]),
    "friction": np.asarray(0.02),
    "orientation": mechanisms.quaternion([0.5, 0.3, -0.2]),
    "omega_body": np.asarray([1.0, -2.0, 5.0]),
}


@pytest.mark.full
def test_both_models_of_the_pinned_body_move_alike():
    """With a joint, in two formulations, and with equations about the fixed point."""
    ends = []
    for formulation, constrained, integrator, dt in (
        (lie_jax.R3SO3(), False, lie_jax.RKMK("rk4"), 1e-3),
        (lie_jax.R3SO3(), True, lie_jax.GeneralizedAlpha(0.9), 2.5e-4),
        (lie_jax.SE3(coordinates="rotation_vector"), True, lie_jax.GeneralizedAlpha(0.9), 2.5e-4),
    ):
        system, state = pinned_body.build(formulation, constrained=constrained, **PARAMETERS)
        steps = round(0.5 / dt)
        trajectory = lie_jax.simulate(system, integrator, state, dt=dt, steps=steps, save=steps)
        seen = pinned_body.observe(system, trajectory)
        ends.append(np.concatenate([seen.markers[-1], 0.1 * np.asarray(seen.gyro[-1])]))
    # Generalized-α errs by some 1e-5 here.
    assert_allclose(ends[1], ends[0], atol=1e-4)
    assert_allclose(ends[2], ends[0], atol=1e-4)


@pytest.mark.full
def test_without_friction_and_drive_energy_is_kept():
    system, state = heavy_top.build()
    trajectory = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-4, steps=2000, save=100)

    def energy(q, v):
        return system.kinetic_energy(q, v) + system.potential_energy(q)

    values = jax.jit(jax.vmap(energy))(trajectory.q, trajectory.v)
    # 5.4 kJ in all, mostly of the spin.
    assert_allclose(values, values[0], rtol=1e-10)


def test_the_two_models_of_the_top_have_the_same_energy():
    energies = []
    for constrained in (False, True):
        system, state = heavy_top.build(constrained=constrained, orientation=_TILTED)
        parts = jax.jit(
            lambda q, v, system=system: (system.kinetic_energy(q, v), system.potential_energy(q))
        )(state.q, state.v)
        energies.append(sum(map(float, parts)))
    assert_allclose(energies[0], energies[1], rtol=1e-13)


_TILTED = mechanisms.quaternion([0.4, -0.3, 0.2])


@pytest.mark.full
def test_observed_points():
    for constrained in (False, True):
        system, state = pinned_body.build(constrained=constrained, **PARAMETERS)
        trajectory = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=1e-4, steps=1)
        seen = pinned_body.observe(system, trajectory)
        for k, marker in enumerate(pinned_body.MARKERS):
            expected = lie_jax.groups.quaternion.rotate(
                PARAMETERS["orientation"], jnp.asarray(marker)
            )
            assert_allclose(seen.markers[0, 3 * k : 3 * k + 3], expected, atol=1e-14)
        assert_allclose(seen.gyro[0], PARAMETERS["omega_body"])


@pytest.mark.full
def test_readings_of_a_body_on_a_fixed_point_in_joint_coordinates():
    marker = np.asarray([0.3, -0.2, 0.5])
    rotation = Rotation.from_quat(_TILTED, scalar_first=True).as_matrix()
    for constrained in (False, True):
        system, state = heavy_top.build(
            lie_jax.Minimal(), constrained=constrained, orientation=_TILTED
        )
        found, center = jax.jit(
            lambda q, system=system: (
                fixed_point.point_on_body(system, q, jnp.asarray(marker)),
                heavy_top.center_of_mass(system, q),
            )
        )(state.q)
        assert_allclose(found, rotation @ marker, atol=1e-15)
        assert_allclose(center, rotation @ np.asarray(heavy_top.CENTER_OF_MASS), atol=1e-15)


# What a method of order 6 or higher must reach of the reference solutions, in m, 1 and rad/s.
TRUTH = 1e-10


def _rotor_error(seconds: float) -> float:
    """Largest error of the axis point at the end, without and with weight (m)."""
    h = 1e-5
    steps = round(seconds / h)

    @jax.jit
    @jax.vmap
    def end(gravity):
        system, state = rotor.build(gravity=gravity)
        run = lie_jax.simulate(
            system, lie_jax.RKMK("rk67"), state, dt=h, steps=steps, save=steps, throw=False
        )
        return rotor.observed_point(system, run.q[-1])

    ends = end(jnp.asarray([rotor.GRAVITY, rotor.WEIGHT]))
    expected = [rotor.REFERENCE[seconds], rotor.REFERENCE_WITH_WEIGHT[seconds]]
    return float(np.max(np.abs(np.asarray(ends) - np.asarray(expected))))


@pytest.mark.full
def test_rotor():
    assert _rotor_error(0.1) < TRUTH


@pytest.mark.full
def test_rotor_over_the_time_of_the_paper():
    assert _rotor_error(4.0) < TRUTH


@pytest.mark.full
def test_follower_torque():
    system, state = follower_torque.build(lie_jax.SE3())
    run = lie_jax.simulate(system, lie_jax.RKMK("rk67"), state, dt=1e-3, steps=10_000, save=1_000)
    for seconds, (rotation, omega) in follower_torque.REFERENCE.items():
        i = round(seconds)
        assert_allclose(system.poses(run.q[i])[0][0], rotation, rtol=0, atol=TRUTH)
        assert_allclose(run.v[i, 3:], omega, rtol=0, atol=TRUTH)


@pytest.mark.full
def test_double_pendulum():
    system, state = double_pendulum.build()
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-3, steps=1000, save=1000)
    centers = double_pendulum.centers_of_mass(system, run.q[-1])
    assert_allclose(centers, double_pendulum.REFERENCE[1.0], rtol=0, atol=TRUTH)
    forces = run.multipliers[-1].reshape(2, 3)
    on_first, on_first_from_second = double_pendulum.REFERENCE_FORCES[1.0]
    # Forces of up to 20 N, and errors of ω and R in what they depend on.
    assert_allclose(-forces[0], on_first, rtol=0, atol=100 * TRUTH)
    assert_allclose(forces[1], on_first_from_second, rtol=0, atol=100 * TRUTH)


@pytest.mark.full
def test_chain():
    system, state = chain.build()
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-3, steps=500, save=500)
    rotation = system.poses(run.q[-1])[0]
    above = jnp.concatenate([jnp.eye(3)[None], rotation[:-1]])
    expected = jax.vmap(lie_jax.groups.quaternion.to_matrix)(jnp.asarray(chain.REFERENCE[0.5]))
    got = jnp.einsum("nji,njk->nik", above, rotation)
    assert_allclose(got, expected, rtol=0, atol=TRUTH)
    assert_allclose(chain.tip(system, state.q), [0.0, 0.0, -3.0], rtol=0, atol=1e-15)


# `make test` compares momenta and energies of a larger tree.
@pytest.mark.full
def test_three_bodies_start_alike_in_all_coordinates():
    """With the momenta that the reference states, and the base in motion with one another's."""
    for twist in (np.zeros(6), np.asarray(three_bodies.BASE_TWIST)):
        measured = []
        for formulation in (None, lie_jax.R3SO3(), lie_jax.SE3()):
            system, state = three_bodies.build(formulation, base_twist=twist)
            assert system.nc == (0 if formulation is None else 10)
            energy, momentum, rate = jax.jit(
                lambda q, v, system=system: (
                    system.kinetic_energy(q, v),
                    system.momentum(q, v),
                    system.constraint_jacobian(jnp.zeros(()), q) @ v,
                )
            )(state.q, state.v)
            assert_allclose(rate, np.zeros(system.nc), atol=1e-14)
            measured.append([energy, *momentum[0], *momentum[1]])
        assert_allclose(measured[1:], [measured[0]] * 2, atol=1e-12)
        if not twist.any():
            energy, linear, angular = three_bodies.INVARIANTS
            assert_allclose(measured[0], [energy, *linear, *angular], atol=1e-12)
