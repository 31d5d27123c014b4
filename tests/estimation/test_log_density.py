"""The posterior density of a fit is that of closed forms and of SciPy, with its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.estimation import transforms
from tests.estimation.lines import START, TIME, line, noisy_line

DESIGN = np.stack(
    [np.ones(len(TIME)), np.asarray(TIME)], axis=1
)  # offset and slope, as in `coordinates`
POINTS = np.asarray([[0.4, 1.7], [0.6, 2.2], [-0.3, 2.0]])
# Rounding of sums of some hundred squares that are some thousand in all.
ROUNDING = 1e-9


def values_and_gradients(fit, points):
    """At rows of coordinates; values up to the first one."""
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(fit.log_density)))(jnp.asarray(points))
    return values - values[0], gradients


def check_normal(fit, precision, mean):
    """A normal distribution: differences of values, and gradients."""
    values, gradients = values_and_gradients(fit, POINTS)
    away = POINTS - mean
    expected = -0.5 * np.einsum("ni,ij,nj->n", away, precision, away)
    assert_allclose(values, expected - expected[0], atol=ROUNDING)
    assert_allclose(gradients, -away @ precision, atol=ROUNDING)


@pytest.mark.full
def test_a_straight_line_has_a_normal_posterior():
    """Linear regression, first with a prior and missing samples, then without stated noise."""
    data = noisy_line(0.1)
    noise = np.full(len(TIME), 0.2)
    noise[5:20] = np.inf
    prior = {"slope": (1.8, 0.05)}
    fit = lie_jax.estimation.identify(
        line, START, data, noise={"line": noise}, prior=prior, progress=False
    )
    weight = 1.0 / noise**2
    precision = DESIGN.T @ (weight[:, None] * DESIGN) + np.diag([0.0, 1.0 / 0.05**2])
    right = DESIGN.T @ (weight * data["line"]) + np.asarray([0.0, 1.8 / 0.05**2])
    check_normal(fit, precision, np.linalg.solve(precision, right))

    unknown = lie_jax.estimation.identify(line, START, data, progress=False)
    mean, squares, *_ = np.linalg.lstsq(DESIGN, data["line"])
    variance = squares[0] / (len(TIME) - 2)
    check_normal(unknown, DESIGN.T @ DESIGN / variance, mean)
    # A stated noise is no estimate, even if it is far off.
    stated = lie_jax.estimation.identify(line, START, data, noise=1.0, progress=False)
    check_normal(stated, DESIGN.T @ DESIGN, mean)


INERTIA = np.asarray([[0.40, 0.03, 0.00], [0.03, 0.50, -0.05], [0.00, -0.05, 0.60]])
RATES = np.asarray([[0.2, 0.5, -0.3], [1.0, -0.4, 0.1], [0.3, 0.8, 0.9], [-0.5, 0.2, 0.7]])
SIGMA = 0.05
UPPER = 2.0
DECAY_PRIOR = (0.6, 0.2)


def predict(p):
    decay = p["amplitude"] * jnp.exp(-p["decay"] * TIME[::40])
    return {"decay": decay, "momentum": jnp.asarray(RATES) @ p["inertia"].T}


def log_posterior(z, recorded):
    """In NumPy and SciPy, over coordinates: amplitude, decay, inertia."""
    amplitude, decay = np.exp(z[0]), UPPER / (1.0 + np.exp(-z[1]))
    lower = np.diag(np.exp(z[2:5]))
    lower[np.tril_indices(3, -1)] = z[5:]
    moments = lower @ lower.T
    inertia = np.trace(moments) * np.eye(3) - moments
    predicted = amplitude * np.exp(-decay * np.asarray(TIME)[::40])
    density = np.sum(scipy.stats.norm.logpdf(recorded["decay"], predicted, SIGMA))
    density += np.sum(scipy.stats.norm.logpdf(recorded["momentum"], RATES @ inertia, SIGMA))
    density += scipy.stats.norm.logpdf(decay, *DECAY_PRIOR)
    # Derivatives of amplitude and decay. Of the entries of L Lᵀ by those of L the determinant is
    # 8 L₁₁³ L₂₂² L₃₃; logarithms on the diagonal add a factor each.
    density += z[0] + np.log(decay * (UPPER - decay) / UPPER)
    return density + 4.0 * z[2] + 3.0 * z[3] + 2.0 * z[4]


@pytest.mark.full
def test_transforms_have_their_derivatives_in_the_density():
    rng = np.random.default_rng(0)
    truth = {"amplitude": 2.0, "decay": 0.5, "inertia": jnp.asarray(INERTIA)}
    recorded = {
        name: np.asarray(x) + SIGMA * rng.normal(size=x.shape) for name, x in predict(truth).items()
    }
    fit = lie_jax.estimation.identify(
        predict,
        truth,
        recorded,
        noise=SIGMA,
        transforms={
            "amplitude": transforms.positive,
            "decay": transforms.interval(0.0, UPPER),
            "inertia": transforms.inertia,
        },
        prior={"decay": DECAY_PRIOR},
        progress=False,
    )
    points = np.asarray(fit.coordinates) + 0.1 * rng.normal(size=(4, 8))
    values, gradients = values_and_gradients(fit, points)
    expected = np.asarray([log_posterior(z, recorded) for z in points])
    assert_allclose(values, expected - expected[0], atol=ROUNDING)
    # Central differences err by the square of the step and by rounding over the step.
    step = 1e-5
    ahead = np.asarray([[log_posterior(z + e, recorded) for e in step * np.eye(8)] for z in points])
    back = np.asarray([[log_posterior(z - e, recorded) for e in step * np.eye(8)] for z in points])
    assert_allclose(gradients, (ahead - back) / (2.0 * step), atol=1e-5)
    # Parameters at coordinates, by name.
    decoded = fit.decode(fit.coordinates)
    assert_allclose(decoded["inertia"], fit.estimates["inertia"], rtol=1e-12)
    with pytest.raises(
        ValueError, match=r"coordinates has shape \(3,\); it must have shape \(8,\)"
    ):
        fit.log_density(jnp.zeros(3))
