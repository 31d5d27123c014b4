"""Smoother: the textbook's for linear systems; constrained systems agree with joint coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

import lie_jax
from tests.estimation import gaussian

# Sums of some hundred products of numbers of size one; the textbook inverts covariances.
ROUNDING = 1e-10


def test_linear_systems_have_the_smoother_of_rauch_tung_and_striebel():
    system = gaussian.linear()
    data, _ = gaussian.draw(system, np.random.default_rng(1))
    data[3:6] = np.nan
    data[10, 1] = np.nan
    result = lie_jax.estimation.smooth(
        gaussian.model(), data, gaussian.START, gaussian.COVARIANCE, dt=gaussian.DT
    )
    filtered, (mean, covariance) = gaussian.kalman(system, data)
    assert_allclose(np.concatenate([result.q, result.v], axis=1), mean, atol=ROUNDING)
    assert_allclose(result.covariance, covariance, atol=ROUNDING)
    assert_allclose(result.filtered.q, filtered[0][:, :2], atol=ROUNDING)


@pytest.mark.full
def test_biases_of_channels_are_further_states_of_the_textbook():
    densities, deviations = np.asarray([0.0, 0.2]), np.asarray([0.1, 0.3])
    system, start = gaussian.with_biases(gaussian.linear(), densities, deviations)
    data, _ = gaussian.draw(gaussian.linear(), np.random.default_rng(7))
    data += np.asarray([0.1, -0.4])
    data[3:6] = np.nan
    result = lie_jax.estimation.smooth(
        gaussian.model(drifts=densities), data, gaussian.START, start[1], dt=gaussian.DT
    )
    for estimate, (mean, covariance) in zip(
        (result.filtered, result), gaussian.kalman(system, data, start), strict=True
    ):
        found = np.concatenate([estimate.q, estimate.v, estimate.bias], axis=1)
        assert_allclose(found, mean, atol=ROUNDING)
        assert_allclose(estimate.covariance, covariance, atol=ROUNDING)
    kind = lie_jax.estimation.filter(
        gaussian.model(drifts=densities), data, gaussian.START, start[1], dt=gaussian.DT, kind="ukf"
    )
    assert_allclose(kind.bias, result.filtered.bias, atol=ROUNDING)
    assert_allclose(kind.log_likelihood, result.filtered.log_likelihood, rtol=ROUNDING)
    assert np.all(kind.nees(kind.q, kind.v).degrees == 4)


SCALE = 1e-3


def _rod(formulation):
    """A rod on a hinge with a motor in it, and the place of its centre."""
    rod = lie_jax.Body("rod", 2.0, np.diag([0.1, 0.2, 0.15]), position=(0.5, 0.0, 0.0))
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0, 1, 0), (0, 0, 0), (-0.5, 0, 0))
    mechanism = lie_jax.Mechanism([rod], [hinge], forces=[lie_jax.JointMotor(hinge, input=0)])
    system, state = lie_jax.assemble(mechanism, formulation)
    return system, state, lambda q: system.poses(q)[1][0]


def _smooth(formulation, data, along):
    """Estimate from heights of the centre; `along` (nv, 1): velocities for one rad/s."""
    system, state, place = _rod(formulation)
    model = lie_jax.estimation.Model(
        system,
        lie_jax.RKMK("rk4"),
        measure=lambda t, q, v: place(q)[2:],
        noise=0.1 * SCALE,
        process={"inputs": 2.0 * SCALE},
    )
    spread = SCALE * block_diag(0.3 * along, 0.5 * along)
    estimate = lie_jax.estimation.smooth(model, data, state, spread @ spread.T, dt=0.02)
    return estimate, jax.vmap(place)(estimate.q)


@pytest.mark.full
def test_a_constrained_body_agrees_with_joint_coordinates():
    """Coordinates of both differ by squares of errors: estimates agree for small noise."""
    system, state, place = _rod(lie_jax.Minimal())
    fall = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=0.02, steps=20, inputs=jnp.zeros((20, 1))
    )
    noise = 0.1 * SCALE * np.random.default_rng(0).normal(size=(21, 1))
    data = np.asarray(jax.vmap(place)(fall.q))[:, 2:] + noise
    joint, expected = _smooth(lie_jax.Minimal(), data, np.ones((1, 1)))
    # The hinge's axis is y, and the centre at x = 0.5 m goes down.
    turning = np.asarray([[0.0, 0.0, -0.5, 0.0, 1.0, 0.0]]).T
    free, places = _smooth(lie_jax.R3SO3(), data, turning)
    assert_allclose(places, expected, atol=1e-8)
    # One relative error: the size of the noise, by the curvature of some units.
    relative = 10.0 * SCALE
    likelihoods = [x.filtered.log_likelihood for x in (free, joint)]
    assert_allclose(*likelihoods, rtol=relative)
    assert_allclose(free.covariance[:, 4, 4], joint.covariance[:, 0, 0], rtol=relative)
    assert_allclose(free.covariance[:, 10, 10], joint.covariance[:, 1, 1], rtol=relative)
    assert np.all(free.nees(free.q, free.v).degrees == 2)
