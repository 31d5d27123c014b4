import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose

import lie_jax
from experiments import demo
from lie_jax import recordings, transforms
from models import pinned_body
from tests.test_integrators import OSCILLATOR, OSCILLATOR_START

TIME = jnp.linspace(0.0, 1.0, 400)


def _line(p):
    return {"line": p["slope"] * TIME + p["offset"]}


def _noisy_line(sigma, seed=0):
    noise = np.random.default_rng(seed).normal(size=len(TIME))
    return {"line": np.asarray(2.0 * TIME + 0.5) + sigma * noise}


START = {"slope": 1.0, "offset": 1.0}


def test_a_straight_line_has_its_textbook_solution():
    """Estimates and standard errors of linear regression are known in closed form."""
    data = _noisy_line(0.1)
    fit = lie_jax.identify(_line, START, data, noise={"line": 0.1}, progress=False)
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
    data = _noisy_line(0.1)
    exact = lie_jax.identify(_line, START, data, noise=0.1, progress=False)
    # Optax counts its steps in integers and relies on their promotion.
    with jax.numpy_dtype_promotion("standard"):
        descent = lie_jax.identify(
            _line, START, data, noise=0.1, progress=False,
            method=optax.adam(0.05), max_iterations=2000,
        )  # fmt: skip
    assert bool(descent.converged)
    # The gradient has fallen by 1e4, and with it the distance.
    for name in START:
        assert_allclose(descent.estimates[name], exact.estimates[name], rtol=1e-3)


def test_what_the_data_do_not_determine_has_no_standard_error():
    def predict(p):
        return (p["a"] + p["b"]) * TIME + p["c"]

    start = {"a": 1.0, "b": 1.0, "c": 0.0}
    fit = lie_jax.identify(predict, start, _noisy_line(0.1)["line"], progress=False)
    assert np.isnan(fit.standard_errors["a"])
    assert np.isnan(fit.standard_errors["b"])
    assert np.isfinite(fit.standard_errors["c"])
    assert_allclose(fit.estimates["a"] + fit.estimates["b"], 2.0, atol=0.1)


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
    fit = lie_jax.identify(predict, 4.0, truth, transforms=transforms.positive, progress=False)
    assert_allclose(fit.estimates, OSCILLATOR.stiffness[0, 0], rtol=1e-6)


@pytest.mark.parametrize("start", [1.0, 1, np.float64(1.0)])
def test_any_number_may_be_a_start(start):
    fit = lie_jax.identify(
        lambda p: 2.0 * p * TIME, start, 3.0 * TIME, transforms=transforms.positive, progress=False
    )
    assert_allclose(fit.estimates, 1.5, rtol=1e-9)


def test_units_do_not_matter():
    """With the noise left at its default, in metres, kilometres or nanometres."""
    noise = 1e-2 * np.random.default_rng(1).normal(size=len(TIME))
    data = np.asarray(jnp.exp(-1.3 * TIME)) + noise
    rates = []
    for unit in (1.0, 1e-6, 1e6):
        fit = lie_jax.identify(
            lambda p, unit=unit: unit * jnp.exp(-p * TIME), 0.2, unit * data, progress=False
        )
        assert bool(fit.converged)
        rates.append([float(fit.estimates), float(fit.standard_errors)])
    assert_allclose(rates[1:], [rates[0]] * 2, rtol=1e-6)


def test_counts_are_observations():
    counts = np.round(np.asarray(20.0 * TIME)).astype(int)
    fit = lie_jax.identify(lambda p: p * TIME, 1.0, counts, noise=2.0, progress=False)
    assert abs(float(fit.estimates) - 20.0) < 0.1


def test_progress_is_shown(capfd):
    lie_jax.identify(_line, START, _noisy_line(0.1))
    assert "identify" in capfd.readouterr().err


def test_transforms_invert_and_stay_physical():
    rng = np.random.default_rng(0)
    inertia = jnp.asarray([[0.03, -0.005, 0.001], [-0.005, 0.04, 0.002], [0.001, 0.002, 0.025]])
    z, decode = transforms.inertia(inertia)
    assert z.shape == (6,)
    assert_allclose(decode(z), inertia, rtol=1e-13)
    far = jax.vmap(decode)(z[None] + 2.0 * jnp.asarray(rng.normal(size=(200, 6))))
    moments = np.linalg.eigvalsh(np.asarray(far))
    assert np.all(moments[:, 0] > 0)
    assert np.all(moments[:, 0] + moments[:, 1] > moments[:, 2] * (1 - 1e-12))
    z, decode = transforms.positive(jnp.asarray([2.0, 5.0]))
    assert_allclose(decode(z), [2.0, 5.0])
    assert np.all(np.asarray(decode(z - 50.0)) > 0)
    q = lie_jax.quaternion.exp(jnp.asarray([0.3, 0.2, 0.1]))
    z, decode = transforms.orientation(q)
    assert_allclose(decode(z), q)
    assert_allclose(jnp.linalg.norm(decode(z + 1.0)), 1.0)


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
    fit = lie_jax.identify(
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
    data = _noisy_line(0.1)["line"]
    prior = {"a": (1.5, 0.3), "c": (0.6, 0.02)}
    fit = lie_jax.identify(predict, start, data, noise=0.1, prior=prior, progress=False)
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
    assert "not determined: " in str(report)
    assert "2 of 3 combinations are well determined" in str(report)


TURNS = np.random.default_rng(4).normal(size=(6, 3))
TURNS *= (np.asarray([1e-9, 0.5, 3.0, np.pi - 1e-6, np.pi - 1e-9, np.pi - 1e-3])
          / np.linalg.norm(TURNS, axis=1))[:, None]  # fmt: skip


@pytest.mark.parametrize("kind", ["rotation", "quaternion", "pose"])
def test_differences_on_a_group_undo_the_exponential_near_a_half_turn_too(kind):
    """With observed C and predicted C exp(x) the residual is x, and its derivative the identity."""
    group = {"rotation": lie_jax.so3, "quaternion": lie_jax.quaternion, "pose": lie_jax.se3}[kind]
    x = jnp.asarray(TURNS)
    if kind == "pose":
        x = jnp.concatenate([jnp.ones_like(x), x], axis=1)
    observed = jax.vmap(group.exp)(0.7 * jnp.roll(x, 1, axis=1))
    how = recordings.KINDS[kind]

    def residual(x, observed):
        return how.difference(group.compose(observed, group.exp(x)), observed)

    got, slope = jax.jit(
        jax.vmap(lambda x, c: (residual(x, c), jax.jacfwd(residual)(x, c)))
    )(x, observed)  # fmt: skip
    # The translation of a pose near a half turn is found by dividing by tan π/2: no digits are lost
    # but those of 1e-9 rad next to π.
    assert_allclose(got, x, atol=1e-12)
    assert_allclose(slope, np.broadcast_to(np.eye(x.shape[1]), slope.shape), atol=1e-6)


def test_orientations_are_fitted_on_the_group():
    """The fit of one rotation to many has residuals whose sum is zero, from far away too."""
    rng = np.random.default_rng(5)
    truth = lie_jax.quaternion.exp(jnp.asarray([0.3, -2.0, 1.0]))
    scatter = jax.vmap(lie_jax.quaternion.exp)(jnp.asarray(0.05 * rng.normal(size=(40, 3))))
    seen = jax.vmap(lambda x: lie_jax.quaternion.multiply(truth, x))(scatter)
    # Either sign of a quaternion is the same rotation.
    seen = seen * jnp.asarray(rng.choice([-1.0, 1.0], (40, 1)))
    start = lie_jax.quaternion.multiply(truth, lie_jax.quaternion.exp(jnp.asarray([0.0, 2.9, 0.0])))
    fit = lie_jax.identify(
        lambda q: jnp.tile(q[None], (40, 1)), start, seen, noise=0.05, compare="quaternion",
        transforms=transforms.orientation, prior=(truth, 10.0), progress=False,
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

    check = lie_jax.monte_carlo(
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
    fit = lie_jax.identify(
        lambda p: p * TIME, 2.9, 1.5 * TIME, transforms=between, progress=False
    )  # fmt: skip
    assert_allclose(fit.estimates, 1.5, rtol=1e-6)


def test_rows_of_a_trajectory_are_found_by_time():
    rows = lie_jax.rows_at([0.0, 0.5, 0.7500001, 2.0], dt=0.125, steps=17, save_every=2)
    assert rows.tolist() == [0, 2, 3, 8]


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
    turn = off(lie_jax.quaternion.log(fitted.estimates["orientation"]))
    inertia = None
    while inertia is None:
        matrix = np.asarray(off(fitted.estimates["inertia"]))
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
        moments = np.linalg.eigvalsh(matrix)
        if moments[0] > 0 and moments[0] + moments[1] > 1.02 * moments[2]:
            inertia = jnp.asarray(matrix)
    return start | {"inertia": inertia, "orientation": lie_jax.quaternion.exp(turn)}


def test_residuals_of_the_recording_are_white_at_the_noise_level(fitted):
    for name, noise in (("markers", pinned_body.MARKER_NOISE), ("gyro", pinned_body.GYRO_NOISE)):
        residual = np.asarray(getattr(fitted.residuals, name))
        assert abs(np.sqrt(np.mean(residual**2)) / noise - 1) < 0.1
        assert np.all(np.abs(np.sqrt(np.mean(residual**2, axis=0)) / noise - 1) < 0.15)
    # Sum of squared lag-1 autocorrelations times n: chi-squared with 9 degrees of freedom if the
    # residuals are white; 21.7 is its 99 % quantile.
    lag_one = np.concatenate([np.asarray(x) for x in fitted.statistics.autocorrelation])
    assert SAMPLES * np.sum(lag_one**2) < 21.7


def test_the_unseen_part_is_predicted(fitted, recording):
    predicted = demo.predict(fitted.estimates, DT, len(recording.t))
    error = np.asarray(predicted.markers - recording.observations.markers)[SAMPLES:]
    assert 1e3 * np.sqrt(np.mean(error**2)) < 0.6


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
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
    turn = lie_jax.quaternion.log(
        lie_jax.quaternion.multiply(
            lie_jax.quaternion.conjugate(fitted.estimates["orientation"]),
            fit.estimates["orientation"],
        )
    )
    assert float(jnp.linalg.norm(turn)) < 1e-6
