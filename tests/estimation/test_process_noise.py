"""Identification under process noise: the greatest likelihood, and intervals that hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.estimation import Experiment, predictions, statistics
from lie_jax.estimation.draws import draw
from lie_jax.estimation.innovations import prepare
from tests.estimation import gaussian
from tests.systems import OSCILLATOR

METHOD = lie_jax.RKMK("rk4")


def _fit(predict, start, data, **options):
    return lie_jax.estimation.identify(predict, start, data, progress=False, **options)


def _oscillator(p):
    return {
        "run": Experiment(
            OSCILLATOR, METHOD, gaussian.START, measure=gaussian.measure, dt=gaussian.DT,
            covariance=gaussian.COVARIANCE,
        )
    }  # fmt: skip


@pytest.mark.full
def test_the_fit_is_that_of_the_greatest_likelihood():
    """Density of all samples by the textbook, whose slope vanishes there."""
    system = gaussian.linear()
    data, _ = gaussian.draw(system, np.random.default_rng(5))
    data[3:6] = np.nan
    start = {"noise": gaussian.NOISE, "densities": 2.0 * gaussian.DENSITIES}
    fit = _fit(
        _oscillator, start, {"run": data}, noise=lambda p: {"run": p["noise"]},
        process=lambda p: {"inputs": p["densities"]},
        transforms=lie_jax.estimation.transforms.positive,
    )  # fmt: skip
    assert fit.converged
    assert fit.names == ("densities[0]", "densities[1]", "noise[0]", "noise[1]")

    def density(x):
        scaled = gaussian.linear(densities=x[:2])._replace(r=x[2:])
        return gaussian.log_density(scaled, data)

    best = np.concatenate([fit.estimates["densities"], fit.estimates["noise"]])
    errors = np.concatenate([fit.standard_errors["densities"], fit.standard_errors["noise"]])
    # The slope per standard error is the distance from the optimum in standard errors.
    step = 1e-4 * errors
    ends = [[density(best + sign * row) for row in np.diag(step)] for sign in (1.0, -1.0)]
    slopes = np.subtract(*ends) / 2e-4
    assert np.all(np.abs(slopes) < 1e-3), slopes
    z = fit.coordinates
    jacobian = np.asarray(jax.jacfwd(fit._numbers)(z))
    expected = density(best) + np.linalg.slogdet(jacobian)[1]
    assert_allclose(fit.log_density(z), expected, rtol=1e-9)


def test_random_biases_walk_as_the_textbook_says():
    """Squares of the last samples of 400 draws, by the inverse of their covariance."""
    walks, first = np.asarray([0.3, 0.0]), np.asarray([0.1, 0.3])
    system, (mean, covariance) = gaussian.with_biases(gaussian.linear(), walks, first)
    model = gaussian.model(drifts=walks)
    experiment = Experiment(
        OSCILLATOR, METHOD, gaussian.START, measure=gaussian.measure, dt=gaussian.DT,
        covariance=covariance,
    )  # fmt: skip
    keys, count = jax.random.split(jax.random.key(7), 400), gaussian.STEPS + 1
    drawn = jax.jit(jax.vmap(lambda key: draw(experiment, model, count, key)))(keys)
    for offset in system.offsets:
        mean = system.a @ mean + offset
        covariance = system.a @ covariance @ system.a.T + system.g @ system.g.T
    spread = system.h @ covariance @ system.h.T + np.diag(system.r**2)
    errors = np.asarray(drawn)[:, -1] - system.h @ mean
    squares = np.sum(errors * np.linalg.solve(spread, errors.T).T, axis=1)
    # Five deviations of the mean of so many draws of chi-square with two degrees.
    assert abs(np.mean(squares) / 2.0 - 1.0) < 5.0 * (1.0 / 400) ** 0.5
    # Each channel, too: the walk of the first is four fifths of its variance.
    shares = np.mean(errors**2, axis=0) / np.diag(spread)
    assert np.all(np.abs(shares - 1.0) < 5.0 * (2.0 / 400) ** 0.5)


def test_recordings_have_noise_and_process_noise_of_their_own():
    """Density of two recordings by the textbook; one is stored in single precision, with gaps."""
    rng = np.random.default_rng(8)
    noisy, quiet = gaussian.linear(), gaussian.linear(densities=np.zeros(2))
    quiet = quiet._replace(r=2.0 * gaussian.NOISE)
    data = {"noisy": gaussian.draw(noisy, rng)[0], "quiet": gaussian.draw(quiet, rng)[0]}
    data["quiet"] = data["quiet"].astype(np.float32)
    data["quiet"][4, 1] = data["quiet"][7] = np.nan

    def predict(p):
        return {name: _oscillator(p)["run"] for name in data}

    recordings = predictions.noisy(
        "identify", predict,
        lambda p: {"noisy": gaussian.NOISE, "quiet": p * gaussian.NOISE},
        {"noisy": {"inputs": gaussian.DENSITIES}, "quiet": None}, "vector",
    )  # fmt: skip
    observed = jax.tree.map(jnp.asarray, data)
    whitened = jax.jit(recordings.innovations(observed))(jnp.asarray(2.0))
    expected = sum(
        gaussian.log_density(system, data[name].astype(float))
        for name, system in (("noisy", noisy), ("quiet", quiet))
    )
    recorded = prepare(observed)
    assert recorded.numbers == 4 * (gaussian.STEPS + 1) - 3
    assert_allclose(recorded.log_density(whitened), expected, rtol=1e-9)


class Pendulum(lie_jax.extend.AbstractSystem):
    """q'' = -k sin q - d q' + u."""

    stiffness: jax.Array
    damping: jax.Array

    @property
    def space(self):
        return lie_jax.extend.Rn(1)

    def mass_matrix(self, q):
        return jnp.eye(1, dtype=q.dtype)

    def force(self, t, q, v, u=None):
        torque = -self.stiffness * jnp.sin(q) - self.damping * v
        return torque if u is None else torque + u


TRUTH = {"damping": jnp.asarray(0.2), "stiffness": jnp.asarray(4.0), "turn": jnp.ones(1)}
DT, STEPS, NOISE, TORQUE = 0.05, 200, 0.01, 0.3
# Of torques that are held over a step.
DENSITY = TORQUE * DT**0.5


def _angle(t, q, v):
    return q


def _pendulum(p):
    system = Pendulum(p["stiffness"], p["damping"])
    state = lie_jax.State(p["turn"], jnp.zeros(1))
    return Experiment(system, METHOD, state, measure=_angle, dt=DT)


def _run(p, torques=None):
    system = Pendulum(p["stiffness"], p["damping"])
    start = lie_jax.State(p["turn"], jnp.zeros(1))
    run = lie_jax.simulate(system, METHOD, start, dt=DT, steps=STEPS, inputs=torques, throw=False)
    return run.q


@pytest.mark.full
def test_without_process_noise_results_are_those_of_a_simulation():
    noise = NOISE * np.random.default_rng(1).normal(size=(STEPS + 1, 1))
    data = np.asarray(_run(TRUTH)) + noise
    start = jax.tree.map(lambda x: 1.05 * x, TRUTH)
    expected = _fit(_run, start, data, noise=NOISE)
    simulated = _fit(_pendulum, start, data, noise=NOISE)
    filtered = _fit(
        _pendulum, start, data, noise=NOISE, process={"velocities": 0.0}, horizons=(50, STEPS + 1)
    )
    for fit in (simulated, filtered):
        # The tolerance of the search.
        for name, error in expected.standard_errors.items():
            atol = 1e-5 * float(error.sum())
            assert_allclose(fit.estimates[name], expected.estimates[name], atol=atol)
            assert_allclose(fit.standard_errors[name], error, rtol=1e-5)
        ratios = [x.statistics.reduced_chi_squared for x in (fit, expected)]
        assert_allclose(*ratios, rtol=1e-9)
    assert_allclose(filtered.residuals * NOISE, expected.residuals, atol=1e-6)


@pytest.mark.full
def test_single_precision_is_kept():
    """Noise and densities of Python are numbers of the fit's precision."""
    data = np.asarray(_run(TRUTH)) + NOISE * np.random.default_rng(3).normal(size=(STEPS + 1, 1))
    options = {"noise": NOISE, "process": {"inputs": [DENSITY]}}
    double = _fit(_pendulum, TRUTH, data, **options)
    truth = jax.tree.map(lambda x: x.astype(jnp.float32), TRUTH)

    def predict(p):
        state = lie_jax.State(p["turn"], jnp.zeros_like(p["turn"]))
        system = Pendulum(p["stiffness"], p["damping"])
        return Experiment(system, METHOD, state, measure=_angle, dt=DT)

    single = _fit(predict, truth, data.astype(np.float32), **options)
    for name, error in double.standard_errors.items():
        assert single.estimates[name].dtype == jnp.float32
        off = np.abs(np.subtract(*(x.estimates[name] for x in (single, double))))
        # Far below the standard errors, far above the rounding of 200 samples.
        assert np.all(off < 0.05 * error), name


@pytest.mark.full
def test_intervals_hold_the_truth_under_random_torques():
    """1000 recordings by `simulate`, of the pendulum with a torque of its own in each step.

    The fits are those of `identify`, with its residuals, search and standard errors, in a batch;
    the first one is made by `identify`, too.
    """
    from lie_jax.estimation import search

    runs, process = 1000, {"inputs": [DENSITY]}
    start, decode = ravel_pytree(TRUTH)
    noisy = predictions.noisy("identify", _pendulum, NOISE, process, "vector")

    def recording(key):
        keys = jax.random.split(key)
        torques = TORQUE * jax.random.normal(keys[0], (STEPS, 1))
        return _run(TRUTH, torques) + NOISE * jax.random.normal(keys[1], (STEPS + 1, 1))

    def fit_one(data):
        innovations = noisy.innovations(data)
        recorded = prepare(jnp.zeros_like(data))

        def residuals(z):
            whitened = innovations(decode(z))
            errors = recorded.weighted_residuals(whitened)
            return ravel_pytree((errors, recorded.scale_residuals(whitened)))[0]

        degrees = STEPS + 1 - start.size
        z, value, jacobian, converged = search.search(residuals, start, degrees, 50)
        spread = statistics.spread(jacobian, value[: STEPS + 1], STEPS + 1)
        return z, statistics.propagate(lambda z: z, z, spread)[1], converged

    data = jax.jit(jax.vmap(recording))(jax.random.split(jax.random.key(0), runs))
    z, errors, converged = jax.jit(jax.vmap(fit_one))(data)
    assert np.all(converged)
    inside = np.abs(np.asarray(z - start[None]) / errors) < 1.96
    coverage = dict(zip(TRUTH, np.mean(inside, axis=0), strict=True))
    # 95 %, with the deviation of 1000 draws: 0.7 %.
    assert all(0.92 <= share <= 0.98 for share in coverage.values()), coverage
    fit = _fit(_pendulum, TRUTH, data[0], noise=NOISE, process=process)
    assert_allclose(ravel_pytree(fit.estimates)[0], z[0], atol=1e-2 * np.min(errors[0]))
    assert_allclose(ravel_pytree(fit.standard_errors)[0], errors[0], rtol=1e-2)
    # By least squares of a simulation errors are stated far too small, and a warning says so.
    with pytest.warns(UserWarning, match=r"give process=, and let predict return a lie_jax"):
        plain = _fit(_run, TRUTH, data[1], noise=NOISE)
    stated = ravel_pytree(plain.standard_errors)[0]
    assert np.all(stated[:2] < 0.2 * np.std(z, axis=0)[:2])


@pytest.mark.full
def test_monte_carlo_draws_random_motions():
    check = lie_jax.estimation.monte_carlo(
        _pendulum, TRUTH, noise=NOISE, process={"inputs": [DENSITY]}, samples=STEPS + 1, runs=300
    )
    assert np.all(check.converged)
    # 95 %, with the deviation of 300 draws: 1.3 %.
    assert np.all((check.coverage >= 0.92) & (check.coverage <= 0.98)), check.coverage


@pytest.mark.full
@pytest.mark.parametrize("kind", ["inputs", "velocities"])
def test_random_recordings_have_the_covariance_of_the_textbook(kind):
    """Squares of 400 draws by the inverse of the covariance of all samples."""
    (experiment,) = _oscillator(None).values()
    model, system = gaussian.model(kind), gaussian.linear(kind)
    keys = jax.random.split(jax.random.key(2), 400)
    count = gaussian.STEPS + 1
    drawn = jax.jit(jax.vmap(lambda key: draw(experiment, model, count, key)))(keys)
    mode = gaussian.log_density(system, gaussian.mean(system))
    squares = [2.0 * (mode - gaussian.log_density(system, x)) for x in np.asarray(drawn)]
    numbers = 2 * count
    # Five deviations of the mean and of the variance of so many draws of chi-square.
    assert abs(np.mean(squares) / numbers - 1.0) < 5.0 * (2.0 / numbers / 400) ** 0.5
    assert abs(np.var(squares) / (2.0 * numbers) - 1.0) < 5.0 * (2.0 / 400) ** 0.5
