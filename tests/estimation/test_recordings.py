"""Recordings of their own lengths, gaps, priors, groups, coverage: against textbook solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.estimation import recordings, transforms
from tests.estimation.lines import START, TIME, noisy_line
from tests.suites import cases

# Two recordings of one line: their own lengths and sampling, the second with noise that grows and
# two samples missing.
OTHER_TIME = jnp.linspace(0.5, 3.0, 50)
OTHER_NOISE = np.linspace(0.05, 0.2, 50)
MISSING = [3, 17]


def _two_lines(p):
    return {"fast": p["slope"] * TIME + p["offset"], "slow": p["slope"] * OTHER_TIME + p["offset"]}


def _regression(rows, values):
    """Solution, residuals and covariance of weighted rows, as textbooks have it."""
    solution = np.linalg.solve(rows.T @ rows, rows.T @ values)
    left = values - rows @ solution
    variance = left @ left / (len(values) - rows.shape[1])
    return solution, left, variance, variance * np.linalg.inv(rows.T @ rows)


def test_recordings_of_their_own_length_with_noise_and_gaps_of_their_own():
    rng = np.random.default_rng(3)
    data = {k: np.array(v) for k, v in _two_lines({"slope": 2.0, "offset": 0.5}).items()}
    data["fast"] += 0.1 * rng.normal(size=len(TIME))
    data["slow"] += OTHER_NOISE * rng.normal(size=len(OTHER_TIME))
    data["slow"][MISSING] = [np.nan, 1e6]
    noise = {"fast": 0.1, "slow": OTHER_NOISE.copy()}
    noise["slow"][MISSING] = np.inf
    fit = lie_jax.estimation.identify(
        _two_lines, START, data, noise=noise, progress=False,
        horizons=({"fast": 30, "slow": 5}, 40, 400),
    )  # fmt: skip
    there = np.isfinite(noise["slow"])
    time = np.concatenate([TIME, np.asarray(OTHER_TIME)[there]])
    weights = 1.0 / np.concatenate([np.full(len(TIME), 0.1), OTHER_NOISE[there]])
    rows = np.stack([np.ones(len(time)), time], axis=1) * weights[:, None]
    values = np.concatenate([data["fast"], data["slow"][there]]) * weights
    solution, left, variance, covariance = _regression(rows, values)
    assert fit.names == ("offset", "slope")
    assert_allclose([fit.estimates[name] for name in fit.names], solution, rtol=1e-9)
    errors = [fit.standard_errors[name] for name in fit.names]
    assert_allclose(errors, np.sqrt(np.diag(covariance)), rtol=1e-9)
    expected = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert_allclose(fit.correlation, [[1.0, expected], [expected, 1.0]], rtol=1e-9)
    statistics = fit.statistics
    assert_allclose(statistics.reduced_chi_squared, variance, rtol=1e-9)
    slow = (left / weights)[len(TIME) :]
    residuals = np.asarray(fit.residuals["slow"])
    assert_allclose(residuals[there], slow, atol=1e-12)
    assert np.all(np.isnan(residuals[MISSING]))
    assert_allclose(statistics.rms["slow"], np.sqrt(np.mean(slow**2)), rtol=1e-9)
    assert_allclose(statistics.mean["slow"], np.mean(slow), atol=1e-12)
    assert abs(float(statistics.autocorrelation["slow"])) < 2 / np.sqrt(48)
    assert sorted(set(fit.history.samples.tolist())) == [30, 40, 400]


def test_a_prior_determines_what_the_data_do_not_and_the_report_says_what():
    """Rows of the priors under those of the data are the textbook solution again."""

    def predict(p):
        return (p["a"] + 2.0 * p["b"]) * TIME + p["c"]

    start = {"a": 1.0, "b": 1.0, "c": 0.0}
    data = noisy_line(0.1)["line"]
    prior = {"a": (1.5, 0.3), "c": (0.6, 0.02)}
    fit = lie_jax.estimation.identify(predict, start, data, noise=0.1, prior=prior, progress=False)
    time = np.asarray(TIME)
    rows = np.stack([time, 2.0 * time, np.ones(len(time))], axis=1) / 0.1
    rows = np.concatenate([rows, [[1 / 0.3, 0.0, 0.0], [0.0, 0.0, 1 / 0.02]]])
    values = np.concatenate([data / 0.1, [1.5 / 0.3, 0.6 / 0.02]])
    solution, _, _, covariance = _regression(rows, values)
    assert_allclose([fit.estimates[name] for name in "abc"], solution, rtol=1e-7)
    errors = [fit.standard_errors[name] for name in "abc"]
    assert_allclose(errors, np.sqrt(np.diag(covariance)), rtol=1e-7)
    report = fit.identifiability()
    assert report.determined.tolist() == [True, True, False]
    # Columns t, 2 t and 1, scaled to unit length: two are equal, at an angle to the third.
    cosine = np.sum(time) / np.sqrt(np.sum(time**2) * len(time))
    gram = np.asarray([[1, 1, cosine], [1, 1, cosine], [cosine, cosine, 1]])
    expected = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))
    assert_allclose(report.singular_values, expected, atol=1e-7)
    a, b, c = np.asarray(report.directions[2])
    assert_allclose([b / a, c / a], [-0.5, 0.0], atol=1e-9)
    sizes = np.linalg.norm(rows[: len(time)] @ np.asarray(report.directions).T, axis=0)
    sizes = sizes / np.sqrt(fit.statistics.reduced_chi_squared)
    assert_allclose(report.standard_errors[:2], sizes[:2], rtol=1e-6)
    assert "not determined: " in str(report)
    assert "2 of 3 combinations are well determined" in str(report)


def test_numbers_of_small_shares_are_named_if_they_change_as_much():
    """Mass, friction and stiffness of an oscillator, whose friction is determined badly alone."""
    values = jnp.asarray([2.0, 0.3, 40.0, 5.0])
    others = jnp.diag(jnp.asarray([5.0, 40.0, 0.3]), 1)[:3]
    directions = jnp.concatenate([others, jnp.asarray([[2.0, 0.3, 40.0, 1e-9]])])
    shares = jnp.concatenate([jnp.eye(4)[:3], jnp.asarray([[0.7, 5e-3, 0.7, 1e-12]])])
    singular = jnp.asarray([1.0, 1.0, 1.0, 1e-17])
    names = ("m", "c", "k", "length")
    determined = jnp.asarray([True, True, True, False])
    report = lie_jax.estimation.Identifiability(
        names, values, singular, directions, shares, determined, jnp.ones(4)
    )
    (line,) = [line for line in str(report).splitlines() if "not determined" in line]
    assert line.endswith("m 2 -> 2.02, k 40 -> 40.4, c 0.3 -> 0.303")


TURNS = np.random.default_rng(4).normal(size=(6, 3))
TURNS *= (np.asarray([1e-9, 0.5, 3.0, np.pi - 1e-6, np.pi - 1e-9, np.pi - 1e-3])
          / np.linalg.norm(TURNS, axis=1))[:, None]  # fmt: skip


@pytest.mark.parametrize("kind", cases(["rotation", "quaternion", "pose"], ["quaternion"]))
def test_differences_on_a_group_undo_the_exponential_near_a_half_turn_too(kind):
    """With observed C and predicted C exp(x) the residual is x, and its derivative the identity."""
    group = {
        "rotation": lie_jax.groups.so3,
        "quaternion": lie_jax.groups.quaternion,
        "pose": lie_jax.groups.se3,
    }[kind]
    x = TURNS
    if kind == "pose":
        x = np.concatenate([np.ones_like(x), x], axis=1)
    observed = jax.jit(jax.vmap(group.exp))(0.7 * np.roll(x, 1, axis=1))
    how = recordings.COMPARISONS[kind]

    def residual(x, observed):
        return how.difference(group.compose(observed, group.exp(x)), observed)

    got, slope = jax.jit(
        jax.vmap(lambda x, c: (residual(x, c), jax.jacfwd(residual)(x, c)))
    )(x, observed)  # fmt: skip
    # The translation of a pose near a half turn is found by dividing by tan π/2: no digits are lost
    # but those of 1e-9 rad next to π.
    assert_allclose(got, x, atol=1e-12)
    assert_allclose(slope, np.broadcast_to(np.eye(x.shape[1]), slope.shape), atol=1e-6)


@pytest.mark.full
def test_orientations_are_fitted_on_the_group():
    """The fit of one rotation to many has residuals whose sum is zero, from far away too."""
    rng = np.random.default_rng(5)
    truth = Rotation.from_rotvec([0.3, -2.0, 1.0])
    seen = (truth * Rotation.from_rotvec(0.05 * rng.normal(size=(40, 3)))).as_quat(
        scalar_first=True
    )
    # Either sign of a quaternion is the same rotation.
    seen *= rng.choice([-1.0, 1.0], (40, 1))
    start = (truth * Rotation.from_rotvec([0.0, 2.9, 0.0])).as_quat(scalar_first=True)
    fit = lie_jax.estimation.identify(
        lambda q: jnp.tile(q[None], (40, 1)), start, seen, noise=0.05, compare="quaternion",
        transforms=transforms.orientation, prior=(truth.as_quat(scalar_first=True), 10.0),
        progress=False,
    )  # fmt: skip
    assert fit.residuals.shape == (40, 3)
    # For rotations by 0.1 rad the logarithm's derivative differs from 1 by a thousandth.
    assert_allclose(fit.statistics.mean, np.zeros(3), atol=1e-5)
    assert_allclose(np.asarray(fit.statistics.rms), 0.05, rtol=0.3)
    assert fit.names == ("parameter.z[0]", "parameter.z[1]", "parameter.z[2]")


def test_coverage_of_few_samples_is_that_of_student():
    """Four degrees of freedom: ±1.96 standard errors would hold the truth in 88 % only."""
    time = jnp.linspace(0.0, 1.0, 7)

    def predict(p):
        return p["a"] * time + p["b"] + 0.0 * p["unused"]

    check = lie_jax.estimation.monte_carlo(
        predict,
        {"a": 2.0, "b": 0.5, "unused": 1.0},
        noise=np.asarray([0.1] * 6 + [np.inf]),
        runs=2000,
    )
    assert bool(jnp.all(check.converged))
    assert check.names == ("a", "b", "unused")
    assert np.isnan(check.coverage[2])
    # Three standard errors.
    assert abs(float(check.pooled_coverage) - 0.95) < 3 * float(check.pooled_coverage_error)
    assert 0.002 < float(check.pooled_coverage_error) < 0.005
    # Student's t with 4 degrees of freedom: a quarter lies beyond 1.344 either way.
    share = np.mean(np.abs(np.asarray(check.deviations[:, :2])) > 1.344)
    assert abs(share - 0.25) < 0.03
    design = np.stack([np.asarray(time)[:6], np.ones(6)], axis=1)
    exact = 0.1 * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    spread = np.stack([np.std(np.asarray(check.estimates[name])) for name in "ab"])
    assert_allclose(spread, exact, rtol=0.05)
    assert "pooled 9" in str(check)


def test_bounded_numbers_stay_within():
    between, above = transforms.interval(-1.0, 3.0), transforms.interval(2.0, np.inf)
    for transform, value, far in (
        (between, [-0.9, 0.5, 2.9], (-1.0, 3.0)),
        (above, [2.1, 5.0, 9.0], (2.0, np.inf)),
    ):
        z, decode = transform(jnp.asarray(value))
        assert_allclose(decode(z), value, rtol=1e-12)
        assert_allclose(decode(z - 800.0), far[0])
        assert_allclose(decode(z + 800.0), far[1])
        slope = jax.jacfwd(lambda z, decode=decode: decode(z))(z)
        assert np.all(np.diag(slope) > 0.0)
    fit = lie_jax.estimation.identify(
        lambda p: p * TIME, 2.9, 1.5 * TIME, transforms=between, progress=False
    )  # fmt: skip
    assert_allclose(fit.estimates, 1.5, rtol=1e-6)


def test_rows_of_a_trajectory_are_found_by_time():
    rows = lie_jax.estimation.rows_at([0.0, 0.5, 0.7500001, 2.0], dt=0.125, steps=17, save=2)
    assert rows.tolist() == [0, 2, 3, 8]
