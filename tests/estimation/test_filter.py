"""Filters: the textbook's for linear systems, the density of all samples, invariance on groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.stats import chi2

import lie_jax
from tests.estimation import gaussian
from tests.messages import check_message
from tests.systems import OnALine, Spinner

# Sums of some hundred products of numbers of size one.
ROUNDING = 1e-11
KINDS = ["ekf", pytest.param("ukf", marks=pytest.mark.full)]


def _recording(process="inputs", seed=0):
    system = gaussian.linear(process)
    data, states = gaussian.draw(system, np.random.default_rng(seed))
    data[3:6] = np.nan
    data[10, 1] = np.nan
    return system, data, states


def _filter(model, data, **options):
    return lie_jax.estimation.filter(
        model, data, gaussian.START, gaussian.COVARIANCE, dt=gaussian.DT, **options
    )


@pytest.mark.parametrize("process", ["inputs", "velocities"])
@pytest.mark.parametrize("kind", ["ekf", "ukf"])
def test_linear_systems_have_the_textbooks_filter(kind, process):
    system, data, _ = _recording(process)
    result = _filter(gaussian.model(process), data, kind=kind)
    (mean, covariance), _ = gaussian.kalman(system, data)
    assert_allclose(np.concatenate([result.q, result.v], axis=1), mean, atol=ROUNDING)
    assert_allclose(result.covariance, covariance, atol=ROUNDING)
    density = gaussian.log_density(system, data)
    assert_allclose(result.log_likelihood, density, rtol=ROUNDING)


def test_single_precision_is_kept_and_batches_are_runs():
    """A batch of recordings in single precision agrees with each in double precision."""
    recordings = np.stack([_recording(seed=seed)[1] for seed in range(2)])
    expected = _filter(gaussian.model(), recordings[1])
    rough = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), gaussian.model())
    start = lie_jax.State(*(jnp.asarray(x, jnp.float32) for x in np.split(gaussian.MEAN, 2)))

    def run(data):
        spread = jnp.asarray(gaussian.COVARIANCE, jnp.float32)
        return lie_jax.estimation.filter(rough, data, start, spread, dt=gaussian.DT)

    batch = jax.jit(jax.vmap(run))(jnp.asarray(recordings, jnp.float32))
    assert batch.q.dtype == batch.log_likelihood.dtype == jnp.float32
    assert_allclose(batch.q[1], expected.q, atol=1e-5)
    assert_allclose(batch.log_likelihood[1], expected.log_likelihood, rtol=1e-5)


@pytest.mark.full
def test_derivatives_of_the_likelihood():
    _, data, _ = _recording()

    def density(x):
        noise, densities, stiffness = x[:2], x[2:4], x[4]
        model = gaussian.model(noise=noise, densities=densities, scale=stiffness)
        return _filter(model, data).log_likelihood

    x = jnp.asarray([0.03, 0.2, 0.4, 0.2, 1.05])
    step = 1e-6
    value = jax.jit(jax.vmap(density))
    ends = x[None] + step * jnp.concatenate([jnp.eye(5), -jnp.eye(5)])
    expected = np.subtract(*np.split(np.asarray(value(ends)), 2)) / (2.0 * step)
    # The error of the differences is 1e-16 / step times the value's size, some hundred.
    assert_allclose(jax.jit(jax.grad(density))(x), expected, rtol=1e-6, atol=1e-6)


class Free(OnALine):
    def force(self, t, q, v, u=None):
        return jnp.zeros_like(v)


def test_iterated_updates_end_at_the_most_likely_state():
    """One sample of a curved measurement: the minimum of the sum of squares, by golden section."""
    system, deviation, spread, seen = Free(), 0.05, 0.6, 1.7
    model = lie_jax.estimation.Model(
        system, lie_jax.RKMK("euler"), measure=lambda t, q, v: q**2, noise=deviation
    )
    result = lie_jax.estimation.filter(
        model, [[seen]], lie_jax.State([1.0], [0.0]), np.diag([spread**2, 0.0]), dt=0.1,
        iterations=30,
    )  # fmt: skip

    def cost(x):
        return ((seen - x**2) / deviation) ** 2 + ((x - 1.0) / spread) ** 2

    best = minimize_scalar(cost, bracket=(1.0, 1.3), tol=1e-12)
    assert_allclose(result.q[0, 0], best.x, rtol=1e-7)
    # Of a quadratic form at the minimum, without the curvature of the measurement.
    slope = 2.0 * best.x / deviation
    assert_allclose(result.covariance[0, 0, 0], 1.0 / (slope**2 + 1.0 / spread**2), rtol=1e-6)


TURN = lie_jax.groups.quaternion.exp(jnp.asarray([0.4, -1.1, 0.7]))
MAGNETIC = jnp.asarray([0.6, 0.0, 0.8])


def _attitude(direction, first, data, kind):
    """Filter of a spinning body that sees a direction fixed in space, with a wrong start."""

    def measure(t, q, v):
        return lie_jax.groups.quaternion.to_matrix(q).T @ direction

    model = lie_jax.estimation.Model(
        Spinner(jnp.asarray([1.0, 2.0, 3.0])), lie_jax.RKMK("rk4"), measure=measure, noise=0.05,
        process={"inputs": jnp.asarray([0.1, 0.2, 0.3])},
    )  # fmt: skip
    state = lie_jax.State(first, jnp.asarray([0.5, 0.1, -0.3]))
    covariance = np.diag([0.5, 0.4, 0.3, 0.2, 0.2, 0.2]) ** 2
    return lie_jax.estimation.filter(model, data, state, covariance, dt=0.1, kind=kind)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_turning_the_whole_world_turns_the_estimate(kind):
    """Neither covariance nor likelihood depends on the inertial frame."""
    data = np.asarray(MAGNETIC) + 0.3 * np.random.default_rng(2).normal(size=(12, 3))
    first = lie_jax.groups.quaternion.exp(jnp.asarray([0.2, 0.1, -0.4]))
    compose = lie_jax.groups.quaternion.compose
    here = _attitude(MAGNETIC, first, data, kind)
    turned = lie_jax.groups.quaternion.to_matrix(TURN) @ MAGNETIC
    there = _attitude(turned, compose(TURN, first), data, kind)
    expected = jax.vmap(lambda q: compose(TURN, q))(here.q)
    assert_allclose(jnp.abs(jnp.sum(there.q * expected, axis=1)), 1.0, atol=1e-12)
    assert_allclose(there.v, here.v, atol=1e-12)
    assert_allclose(there.covariance, here.covariance, atol=1e-12)
    assert_allclose(there.log_likelihood, here.log_likelihood, rtol=1e-12)


LANDMARKS = jnp.asarray([[2.0, 0.0, 0.3], [0.0, -1.5, 1.0]])
AWAY = jnp.asarray([3.0, -2.0, 5.0])


def _moved(places):
    """Points (n, 3) of the world, moved by a screw."""
    return places @ lie_jax.groups.quaternion.to_matrix(TURN).T + AWAY[None]


def _pose(landmarks, state, kind):
    """Filter of a free body in SE(3) that sees landmarks from itself."""
    body = lie_jax.Body("b", 2.0, jnp.diag(jnp.asarray([0.1, 0.2, 0.25])))
    mechanism = lie_jax.Mechanism([body], gravity=(0.0, 0.0, 0.0))
    system, _ = lie_jax.assemble(mechanism, lie_jax.SE3())

    def measure(t, q, v):
        (turned,), (place,) = system.poses(q)
        return ((landmarks - place[None]) @ turned).reshape(-1)

    model = lie_jax.estimation.Model(
        system, lie_jax.RKMK("rk4"), measure=measure, noise=0.05, process={"velocities": 0.1}
    )
    data = 1.0 + 0.3 * np.random.default_rng(6).normal(size=(8, 6))
    covariance = 0.01 * np.diag(np.arange(1.0, 13.0))
    return lie_jax.estimation.filter(model, data, state, covariance, dt=0.1, kind=kind)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ekf", "ukf"])
def test_moving_the_whole_world_moves_the_estimate(kind):
    """Position and quaternion of a body in SE(3): neither origin nor axes of the world matter."""
    compose = lie_jax.groups.quaternion.compose
    place, turn = jnp.asarray([[0.2, -0.1, 0.4]]), lie_jax.groups.quaternion.exp(0.3 * MAGNETIC)
    velocity = 0.1 * jnp.arange(6.0)
    first = lie_jax.State(jnp.concatenate([place[0], turn]), velocity)
    other = lie_jax.State(jnp.concatenate([_moved(place)[0], compose(TURN, turn)]), velocity)
    here, there = _pose(LANDMARKS, first, kind), _pose(_moved(LANDMARKS), other, kind)
    assert_allclose(there.q[:, :3], _moved(here.q[:, :3]), atol=1e-11)
    expected = jax.vmap(lambda q: compose(TURN, q))(here.q[:, 3:])
    assert_allclose(jnp.abs(jnp.sum(there.q[:, 3:] * expected, axis=1)), 1.0, atol=1e-11)
    assert_allclose(there.v, here.v, atol=1e-11)
    assert_allclose(there.covariance, here.covariance, atol=1e-11)
    assert_allclose(there.log_likelihood, here.log_likelihood, rtol=1e-11)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ekf", "ukf"])
def test_errors_and_innovations_of_simulations_have_their_covariances(kind):
    """Attitude of a spinning body under random torques, many runs of `simulate`."""
    runs, steps, dt, noise = 60, 25, 0.05, 0.02
    densities, moments = jnp.asarray([0.1, 0.2, 0.3]), jnp.asarray([1.0, 2.0, 3.0])
    directions = jnp.stack([MAGNETIC, jnp.asarray([0.0, 1.0, 0.0])])
    spread = np.asarray([0.1, 0.1, 0.1, 0.2, 0.2, 0.2])
    first = lie_jax.State(TURN, jnp.asarray([0.5, 0.1, -0.3]))

    def measure(t, q, v):
        return (directions @ lie_jax.groups.quaternion.to_matrix(q)).reshape(-1)

    system, method = Spinner(moments), lie_jax.RKMK("rk4")
    model = lie_jax.estimation.Model(
        system, method, measure=measure, noise=noise, process={"inputs": densities}
    )

    def run(key):
        keys = jax.random.split(key, 3)
        x = spread * jax.random.normal(keys[0], (6,))
        start = lie_jax.State(system.space.retract(first.q, x[:3]), first.v + x[3:])
        torques = densities[None] / dt**0.5 * jax.random.normal(keys[1], (steps, 3))
        truth = lie_jax.simulate(system, method, start, dt=dt, steps=steps, inputs=torques)
        clean = jax.vmap(measure)(truth.t, truth.q, truth.v)
        data = clean + noise * jax.random.normal(keys[2], clean.shape)
        result = lie_jax.estimation.filter(
            model, data, first, jnp.diag(spread**2), dt=dt, kind=kind
        )
        return result.nis(), result.nees(truth.q, truth.v)

    nis, nees = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(4), runs))
    # One seed: bounds that one of a thousand right filters leaves.
    low, high = nis.bounds(0.999)
    assert low < nis.ratio < high
    last = lie_jax.estimation.ChiSquare(nees.values[:, -1], nees.degrees[:, -1])
    low, high = last.bounds(0.999)
    assert low < last.ratio < high
    assert np.all(last.degrees == 6)
    assert 0.9 < np.mean(nis.inside(0.95)) < 0.99


def test_bounds_are_quantiles_of_chi_square():
    test = lie_jax.estimation.ChiSquare(jnp.asarray([1.0, 30.0, 0.0]), jnp.asarray([2, 2, 0]))
    assert_allclose(test.ratio, 31.0 / 4.0)
    assert_allclose(test.bounds(0.9), chi2.ppf([0.05, 0.95], 4) / 4.0)
    assert test.inside().tolist() == [True, False, True]
    check_message(lambda: test.bounds(1.5), "probability is 1.5", "between 0 and 1")
