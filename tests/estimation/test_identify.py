"""Fits have their textbook solutions, standard errors and warnings; the demo fits its recording."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose

import lie_jax
from experiments import demo
from lie_jax.estimation import transforms
from models import pinned_body
from tests.estimation.lines import START, TIME, line, noisy_line
from tests.systems import OSCILLATOR, OSCILLATOR_START


def test_a_straight_line_has_its_textbook_solution():
    """Estimates and standard errors of linear regression are known in closed form."""
    data = noisy_line(0.1)
    fit = lie_jax.estimation.identify(line, START, data, noise={"line": 0.1}, progress=False)
    design = np.stack([np.asarray(TIME), np.ones(len(TIME))], axis=1)
    expected, rest, *_ = np.linalg.lstsq(design, data["line"])
    variance = rest[0] / (len(TIME) - 2)
    errors = np.sqrt(np.diag(variance * np.linalg.inv(design.T @ design)))
    assert bool(fit.converged)
    got = [fit.estimates["slope"], fit.estimates["offset"]]
    assert_allclose(got, expected, rtol=1e-9)
    assert_allclose(
        [fit.standard_errors["slope"], fit.standard_errors["offset"]], errors, rtol=1e-9
    )
    assert_allclose(fit.statistics.reduced_chi_squared, variance / 0.1**2, rtol=1e-9)
    value, error = fit.propagate(lambda p: p["slope"] + p["offset"])
    assert_allclose(value, sum(expected), rtol=1e-9)
    row = np.asarray([1.0, 1.0])
    sum_error = np.sqrt(row @ (variance * np.linalg.inv(design.T @ design)) @ row)
    assert_allclose(error, sum_error, rtol=1e-9)
    # White residuals: 2/√n is the 95 % band.
    assert abs(float(fit.statistics.autocorrelation["line"])) < 2 / np.sqrt(len(TIME))
    assert fit.history.cost[-1] < fit.history.cost[0]
    assert fit.history.estimates["slope"].shape == fit.history.cost.shape


def test_optax_arrives_at_the_same_optimum():
    data = noisy_line(0.1)
    exact = lie_jax.estimation.identify(line, START, data, noise=0.1, progress=False)
    # Optax counts its steps in integers and relies on their promotion.
    with jax.numpy_dtype_promotion("standard"):
        descent = lie_jax.estimation.identify(
            line, START, data, noise=0.1, progress=False,
            method=optax.adam(0.05), max_iterations=2000,
        )  # fmt: skip
    assert bool(descent.converged)
    # The gradient has fallen by 1e4, and with it the distance.
    for name in START:
        assert_allclose(descent.estimates[name], exact.estimates[name], rtol=1e-3)


@pytest.mark.full
def test_what_the_data_do_not_determine_has_no_standard_error():
    """Two pairs that only matter by their sums, in units far apart, and a number that is idle."""
    angle = 6.0 * TIME

    def predict(p):
        one, two = p["a"] + p["b"], 1e4 * (p["c"] + p["d"])
        return one * TIME + p["offset"] + two * jnp.sin(angle) + 0.0 * p["idle"]

    def reduced(p):
        return p["ab"] * TIME + p["offset"] + 1e4 * p["cd"] * jnp.sin(angle)

    data = np.asarray(reduced({"ab": 2.0, "offset": 0.5, "cd": 3e-4})) + noisy_line(0.1)["line"]
    settings = {"noise": 0.1, "progress": False}
    whole = lie_jax.estimation.identify(
        reduced, {"ab": 1.0, "cd": 1e-4, "offset": 0.0}, data, **settings
    )
    start = {"a": 1.0, "b": 1.0, "c": 1e-4, "d": 1e-4, "offset": 0.0, "idle": 1.0}
    message = r"only 3 of 6 .* of a, b, c, d, idle are NaN.*ability\(\)"
    with pytest.warns(UserWarning, match=message):
        fit = lie_jax.estimation.identify(predict, start, data, **settings)
    assert [name for name in start if np.isnan(fit.standard_errors[name])] == [*"abcd", "idle"]

    # What they do determine is as in the problem without the others. The search ends where its
    # steps are below the standard errors by far.
    def sums(p):
        return {"ab": p["a"] + p["b"], "cd": p["c"] + p["d"], "offset": p["offset"]}

    value, error = fit.propagate(sums)
    for name, expected in whole.estimates.items():
        assert_allclose(value[name], expected, rtol=1e-6)
        assert_allclose(error[name], whole.standard_errors[name], rtol=1e-6)
    _, errors = fit.propagate(
        lambda p: (p["a"] - p["b"], p["a"] + p["b"] + p["c"], p["offset"] + p["d"], p["idle"])
    )
    assert np.all(np.isnan(errors))
    known = np.asarray([name == "offset" for name in fit.names])
    for matrix in (fit.correlation, fit.covariance):
        np.testing.assert_array_equal(np.isfinite(matrix), np.outer(known, known))


def test_covariance_and_correlation_are_those_of_linear_regression():
    design = np.stack([np.ones(len(TIME)), np.asarray(TIME)], axis=1)
    for sigma in (0.1, 0.0):
        data = noisy_line(sigma)
        fit = lie_jax.estimation.identify(line, START, data, progress=False)
        inverse = np.linalg.inv(design.T @ design)
        expected = inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
        assert_allclose(fit.correlation, [[1.0, expected], [expected, 1.0]], rtol=1e-9)
        variance = float(np.sum(np.asarray(fit.residuals["line"]) ** 2)) / (len(TIME) - 2)
        assert_allclose(fit.covariance, variance * inverse, rtol=1e-9, atol=1e-30)


def test_a_parameter_at_the_end_of_its_range_is_not_determined():
    data, bounds = noisy_line(0.1), {"slope": transforms.interval(0.0, 1.0)}
    ends = pytest.warns(UserWarning, match="errors of slope are NaN.* end of its range")
    with pytest.warns(UserWarning, match="neighbouring residuals .* are correlated"), ends:
        fit = lie_jax.estimation.identify(
            line, {"slope": 0.3, "offset": 1.0}, data, progress=False,
            transforms=bounds | {"offset": transforms.free},
        )  # fmt: skip
    assert_allclose(fit.estimates["slope"], 1.0, rtol=1e-9)
    assert np.isnan(fit.standard_errors["slope"]) and np.isfinite(fit.standard_errors["offset"])


def test_a_fit_that_cannot_be_right_is_not_silent():
    data = noisy_line(0.1)
    with pytest.warns(UserWarning, match="times the stated noise"):
        fit = lie_jax.estimation.identify(line, START, data, noise=1e-2, progress=False)
    assert re.search(r"^slope +\d+\.\d+ +0\.\d+$", str(fit), re.MULTILINE)
    assert re.search(
        r"^converged, NOT fitted, .*, residuals: .* times the noise$", str(fit), re.MULTILINE
    )
    # Twice the noise is beyond chance for a hundred samples.
    with pytest.warns(UserWarning, match="residuals are 1.9. times the stated noise"):
        lie_jax.estimation.identify(line, START, data, noise=0.05, progress=False)
    # A parabola is no line, and no noise is stated that could tell.
    bent = {"line": data["line"] + 2.0 * TIME**2}
    with pytest.warns(UserWarning, match=r"residuals \['line'\] \(0.\d+\) are correlated"):
        lie_jax.estimation.identify(line, START, bent, progress=False)
    with pytest.warns(UserWarning, match="not converged, iterations: 1;"):
        lie_jax.estimation.identify(line, START, data, max_iterations=1, progress=False)
    # 1 stands for noise that is not known, where samples are missing too.
    large = {"line": 100.0 * data["line"]}
    unknown = np.where(np.arange(len(TIME)) == 7, np.inf, 1.0)
    for noise in (None, unknown):
        fit = lie_jax.estimation.identify(line, START, large, noise=noise, progress=False)
        assert "noise, estimated: " in str(fit)


@pytest.mark.full
def test_chosen_leaves_of_a_system_are_fitted():
    """One spring of an oscillator, put into the system's array leaf."""

    def predict(stiffness):
        system = eqx.tree_at(
            lambda s: s.stiffness, OSCILLATOR, OSCILLATOR.stiffness.at[0, 0].set(stiffness)
        )
        trajectory = lie_jax.simulate(
            system, lie_jax.RKMK(), OSCILLATOR_START, dt=0.1, steps=20, throw=False
        )
        return trajectory.q

    truth = predict(OSCILLATOR.stiffness[0, 0])
    fit = lie_jax.estimation.identify(
        predict, 4.0, truth, transforms=transforms.positive, progress=False
    )
    assert_allclose(fit.estimates, OSCILLATOR.stiffness[0, 0], rtol=1e-6)


@pytest.mark.parametrize("start", [1.0, 1, np.float64(1.0)])
def test_any_number_may_be_a_start(start):
    fit = lie_jax.estimation.identify(
        lambda p: 2.0 * p * TIME, start, 3.0 * TIME, transforms=transforms.positive, progress=False
    )
    assert_allclose(fit.estimates, 1.5, rtol=1e-9)


def test_units_do_not_matter():
    """With the noise left at its default, in metres, kilometres or nanometres."""
    noise = 1e-2 * np.random.default_rng(1).normal(size=len(TIME))
    data = np.asarray(jnp.exp(-1.3 * TIME)) + noise
    rates = []
    for unit in (1.0, 1e-6, 1e6):
        fit = lie_jax.estimation.identify(
            lambda p, unit=unit: unit * jnp.exp(-p * TIME), 0.2, unit * data, progress=False
        )
        assert bool(fit.converged)
        rates.append([float(fit.estimates), float(fit.standard_errors)])
    assert_allclose(rates[1:], [rates[0]] * 2, rtol=1e-6)


@pytest.mark.full
def test_single_precision_stays_single():
    """In a process with double precision, too, with standard errors that hold."""
    time = TIME.astype(jnp.float32)
    fit = lie_jax.estimation.identify(
        lambda p: p * time, jnp.float32(1.2), 1.5 * time, progress=False
    )
    assert fit.estimates.dtype == jnp.float32 and bool(fit.converged)
    assert_allclose(fit.estimates, 1.5, rtol=1e-6)
    check = lie_jax.estimation.monte_carlo(lambda p: p * time, jnp.float32(1.5), noise=0.1, runs=50)
    assert check.estimates.dtype == jnp.float32 and bool(jnp.all(check.converged))
    exact = 0.1 / np.linalg.norm(time)
    assert_allclose(check.standard_errors, exact, rtol=0.5)


def test_counts_are_observations():
    counts = np.round(np.asarray(20.0 * TIME)).astype(int)
    fit = lie_jax.estimation.identify(lambda p: p * TIME, 1.0, counts, noise=2.0, progress=False)
    assert abs(float(fit.estimates) - 20.0) < 0.1


def test_progress_is_shown(capfd):
    lie_jax.estimation.identify(line, START, noisy_line(0.1))
    assert "identify" in capfd.readouterr().err


def test_transforms_invert_and_stay_physical():
    rng = np.random.default_rng(0)
    inertia = jnp.asarray([[0.03, -0.005, 0.001], [-0.005, 0.04, 0.002], [0.001, 0.002, 0.025]])
    z, decode = transforms.inertia(inertia)
    assert z.shape == (6,)
    assert_allclose(decode(z), inertia, rtol=1e-13)
    far = jax.jit(jax.vmap(decode))(np.asarray(z) + 2.0 * rng.normal(size=(200, 6)))
    moments = np.linalg.eigvalsh(np.asarray(far))
    assert np.all(moments[:, 0] > 0)
    assert np.all(moments[:, 0] + moments[:, 1] > moments[:, 2] * (1 - 1e-12))
    z, decode = transforms.positive(jnp.asarray([2.0, 5.0]))
    assert_allclose(decode(z), [2.0, 5.0])
    assert np.all(np.asarray(decode(z - 50.0)) > 0)
    q = lie_jax.groups.quaternion.exp(jnp.asarray([0.3, 0.2, 0.1]))
    z, decode = transforms.orientation(q)
    assert_allclose(decode(z), q)
    assert_allclose(jnp.linalg.norm(decode(z + 1.0)), 1.0)


# The pinned body: what the recording is known to be, and how its fit must turn out.
SAMPLES = 451
DT = 0.0025


@pytest.fixture(scope="module")
def recording():
    return pinned_body.read_recording()


@pytest.fixture(scope="module")
def fitted(recording):
    known = jax.tree.map(lambda x: x[:SAMPLES], recording.observations)
    return demo.fit(demo.start_values(known), known, DT, progress=False)


def _poor_start(fitted, seed):
    """Every parameter off by 10 to 50 %."""
    rng = np.random.default_rng(seed)

    def off(value):
        value = np.asarray(value)
        size = rng.uniform(0.1, 0.5, value.shape) * rng.choice([-1, 1], value.shape)
        return jnp.asarray(value * (1 + size))

    start = {k: off(v) for k, v in fitted.estimates.items() if k not in ("inertia", "orientation")}
    turn = off(lie_jax.groups.quaternion.log(fitted.estimates["orientation"]))
    inertia = None
    while inertia is None:
        matrix = np.asarray(off(fitted.estimates["inertia"]))
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
        moments = np.linalg.eigvalsh(matrix)
        if moments[0] > 0 and moments[0] + moments[1] > 1.02 * moments[2]:
            inertia = jnp.asarray(matrix)
    return start | {"inertia": inertia, "orientation": lie_jax.groups.quaternion.exp(turn)}


@pytest.mark.full
def test_residuals_of_the_recording_are_white_at_the_noise_level(fitted):
    for name, noise in (("markers", pinned_body.MARKER_NOISE), ("gyro", pinned_body.GYRO_NOISE)):
        residual = np.asarray(getattr(fitted.residuals, name))
        assert abs(np.sqrt(np.mean(residual**2)) / noise - 1) < 0.1
        assert np.all(np.abs(np.sqrt(np.mean(residual**2, axis=0)) / noise - 1) < 0.15)
    # Sum of squared lag-1 autocorrelations times n: chi-squared with 9 degrees of freedom if the
    # residuals are white; 21.7 is its 99 % quantile.
    lag_one = np.concatenate([np.asarray(x) for x in fitted.statistics.autocorrelation])
    assert SAMPLES * np.sum(lag_one**2) < 21.7


@pytest.mark.full
def test_the_unseen_part_is_predicted(fitted, recording):
    predicted = demo.predict(fitted.estimates, DT, len(recording.t))
    error = np.asarray(predicted.markers - recording.observations.markers)[SAMPLES:]
    assert 1e3 * np.sqrt(np.mean(error**2)) < 0.6


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_poor_starts_arrive_at_the_same_optimum(fitted, recording, seed):
    known = jax.tree.map(lambda x: x[:SAMPLES], recording.observations)
    start = _poor_start(fitted, seed)
    fit = demo.fit(start, known, DT, progress=False)
    assert bool(fit.converged)
    for name, value in fitted.estimates.items():
        if name == "orientation":
            continue
        distance = np.abs(np.asarray(fit.estimates[name] - value))
        # A thousandth of what the noise leaves open.
        assert np.all(distance < 1e-3 * np.asarray(fitted.standard_errors[name])), name
    turn = lie_jax.groups.quaternion.log(
        lie_jax.groups.quaternion.multiply(
            lie_jax.groups.quaternion.conjugate(fitted.estimates["orientation"]),
            fit.estimates["orientation"],
        )
    )
    assert float(jnp.linalg.norm(turn)) < 1e-6
