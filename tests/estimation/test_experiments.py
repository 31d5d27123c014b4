"""Experiments, and what `identify` and `monte_carlo` refuse about them by name, value and fix."""

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.estimation import Experiment, identify, monte_carlo
from tests.estimation import gaussian
from tests.messages import check_message
from tests.systems import OSCILLATOR, PENDULUM_START, Oscillator, Pendulum

RK4 = lie_jax.RKMK("rk4")
DATA = np.zeros((31, 2))
NOISY = {"process": {"velocities": 0.1}}


def _experiment(p=1.0, method=RK4, **options):
    options = {"measure": gaussian.measure, "dt": gaussian.DT} | options
    system = Oscillator(p * OSCILLATOR.stiffness)
    return Experiment(system, method, gaussian.START, **options)


def _fit(predict=_experiment, data=DATA, start=1.0, **options):
    return identify(predict, start, data, **({"noise": 0.1, "progress": False} | options))


def _filter(p):
    model = gaussian.model(noise=p * gaussian.NOISE)
    return lie_jax.estimation.filter(
        model, DATA, gaussian.START, gaussian.COVARIANCE, dt=gaussian.DT
    )


def _of(**options):
    return lambda p: _experiment(p, **options)


CASES = {
    "a prediction of arrays": (
        lambda: _fit(lambda p: p * DATA, **NOISY), "identify(process=) is given",
        "identify(predict=) returns arrays", "return lie_jax.estimation.Experiment(system, method"),
    "experiments and arrays": (
        lambda: _fit(lambda p: (_experiment(p), p * DATA), (DATA, DATA), **NOISY),
        "returns experiments and other values", "one for each recording"),
    "a result of filter": (
        lambda: _fit(_filter), "identify(predict=) returns a result of lie_jax.estimation.filter",
        "and give identify(process=)"),
    "no noise of samples": (
        lambda: _fit(noise=None, **NOISY), "identify(process=) is given without noise=",
        "give noise=, their standard deviations"),
    "noise without a density": (
        lambda: _fit(process={"velocities": None}), "identify(process=)['velocities'] is None",
        "N√s", "give a number"),
    "noise without a density, of arrays": (
        lambda: _fit(lambda p: p * DATA, process={"velocities": None}),
        "identify(process=)['velocities'] is None", "give a number"),
    "a density without a load": (
        lambda: _fit(process=0.1), "identify(process=) is 0.1", "{'velocities': 0.1}"),
    "density of unknown loads": (
        lambda: _fit(process={"joints": 0.1}), "identify(process=) is {'joints': 0.1}",
        "'inputs', 'velocities'"),
    "densities for other velocities": (
        lambda: _fit(process={"velocities": [0.1, 0.1, 0.1]}),
        "identify(process=)['velocities'] has shape (3,)", "shape (2,)"),
    "a negative density": (
        lambda: _fit(process={"velocities": -0.1}), "is -0.1", "not negative"),
    "densities of other arguments": (
        lambda: _fit(process=lambda p, q: {"velocities": p}), "identify(process=)",
        "called with (parameters)"),
    "deviations that are none": (
        lambda: _fit(noise=-0.1, **NOISY), "identify(noise=) is -0.1", "positive and finite"),
    "deviations of each sample": (
        lambda: _fit(noise=np.ones((31, 2)), **NOISY), "identify(noise=) has shape (31, 2)",
        "(2,), the channels of a sample"),
    "deviations to be sought by least squares": (
        lambda: _fit(noise=lambda p: p), "identify(noise=) is a function", "or process="),
    "compare with process": (
        lambda: _fit(compare="pose", **NOISY), "identify(compare=) is 'pose'",
        "leave compare= out"),
    "covariance of a simulation": (
        lambda: _fit(_of(covariance=np.eye(4))), "Experiment(covariance=) is given",
        "or give process="),
    "one axis of data": (
        lambda: _fit(data=np.zeros(31), **NOISY), "identify(observations=) has shape (31,)",
        "data[:, None]"),
    "other channels": (
        lambda: _fit(data=np.zeros((31, 3)), **NOISY), "identify(observations=) has 3 channels",
        "Experiment(measure=) returns 2"),
    "other recordings": (
        lambda: _fit(lambda p: {"a": _experiment(p)}, {"b": DATA}, **NOISY),
        "{'a': *}", "{'b': *}", "must match"),
    "infinite data": (
        lambda: _fit(data=np.full((31, 2), np.inf), **NOISY),
        "identify(observations=) is infinite at sample 0", "NaN"),
    "a method that needs the past": (
        lambda: _fit(_of(method=lie_jax.BDF(2)), **NOISY), "Experiment(method=) is BDF",
        "than the state at its end"),
    "inputs of other rows": (
        lambda: _fit(_of(inputs=np.zeros((31, 2))), **NOISY),
        "Experiment(inputs=) has shape (31, 2)", "(30, nu)", "a row for each step"),
    "inputs of other rows of a run": (
        lambda: _fit(_of(inputs=np.zeros((31, 2)))), "Experiment(inputs=) has shape (31, 2)",
        "a row for each step"),
    "covariance of other size": (
        lambda: _fit(_of(covariance=np.eye(2)), **NOISY), "Experiment(covariance=)", "(4, 4)"),
    "several arrays in a sample": (
        lambda: _fit(_of(measure=lambda t, q, v: (q, v))), "Experiment(measure=) returns a tuple",
        "jnp.concatenate"),
    "no system": (
        lambda: Experiment(3, RK4, gaussian.START, measure=gaussian.measure, dt=0.1),
        "Experiment(system=) is a int"),
    "no method": (lambda: _experiment(method="rk4"), "Experiment(method=) is 'rk4'"),
    "no function": (lambda: _experiment(measure=3), "Experiment(measure=) is 3"),
    "dt": (lambda: _experiment(dt=0.0), "Experiment(dt=) is 0.0"),
    "a function as inputs": (
        lambda: _fit(_of(inputs=lambda t: t)), "Experiment(inputs=) is <function"),
    "a state off the constraints": (
        lambda: Experiment(
            Pendulum(jnp.asarray(1.0)), RK4, lie_jax.State([0.6, 0.8], [1.0, 1.0]),
            measure=gaussian.measure, dt=0.1),
        "violates the velocity constraints"),
    "no number of samples": (
        lambda: monte_carlo(_experiment, 1.0, noise=0.1), "monte_carlo(predict=)",
        "samples= is not given"),
    "arrays under process noise": (
        lambda: monte_carlo(lambda p: p * DATA, 1.0, noise=0.1, **NOISY),
        "monte_carlo(process=) is given", "returns arrays"),
    "one sample": (
        lambda: monte_carlo(_experiment, 1.0, noise=0.1, samples=1), "is 1", "two or more"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_message(case, monkeypatch):
    # Without the checks of types of the test suite, which users do not have.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    act, *parts = CASES[case]
    check_message(act, *parts)


def test_samples_are_those_of_a_run():
    inputs = np.random.default_rng(0).normal(size=(4, 2))
    experiment = _experiment(inputs=inputs, t0=0.3)
    run = lie_jax.simulate(
        OSCILLATOR, RK4, gaussian.START, dt=gaussian.DT, steps=4, t0=0.3, inputs=inputs
    )
    expected = np.stack([run.q[:, 0], run.v[:, 0] + run.v[:, 1]], axis=1)
    assert_allclose(experiment.samples(5), expected, rtol=1e-13)
    assert_allclose(
        Experiment(
            Pendulum(jnp.asarray(1.0)), RK4, PENDULUM_START, measure=lambda t, q, v: q[0], dt=0.1
        ).samples(2)[0],
        0.6,
    )
