"""Models and recordings that are refused, by name, value, rule and fix."""

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import lie_jax
from tests.estimation import gaussian
from tests.messages import check_message
from tests.systems import OSCILLATOR, Pendulum, Spinner


def _model(system=OSCILLATOR, method=None, **options):
    options = {"measure": gaussian.measure, "noise": 0.1} | options
    return lie_jax.estimation.Model(system, method or lie_jax.RKMK("rk4"), **options)


def _filter(model=None, data=None, state=gaussian.START, covariance=None, **options):
    return lie_jax.estimation.filter(
        gaussian.model() if model is None else model,
        np.zeros((4, 2)) if data is None else data,
        state,
        np.eye(4) if covariance is None else covariance,
        **({"dt": 0.1} | options),
    )


def _three(t, q, v):
    return jnp.concatenate([q, v[:1]])


CASES = {
    "a method that needs the past": (
        lambda: _model(method=lie_jax.BDF(2)), "Model(method=) is BDF", "than the state at its end",
        "lie_jax.RKMK('rk4')"),
    "a method that leaves the group": (
        lambda: _model(Spinner(jnp.ones(3)), lie_jax.RungeKutta("rk4")), "RungeKutta",
        "leaves the group", "lie_jax.RKMK('rk4')"),
    "no method": (lambda: _model(method="rk4"), "Model(method=) is 'rk4'", "an integrator"),
    "no system": (lambda: _model(3), "Model(system=) is a int", "unpack"),
    "no function": (lambda: _model(measure=3), "Model(measure=) is 3", "function"),
    "noise of zero": (
        lambda: _model(noise=[0.1, 0.0]), "Model(noise=) is [0.1, 0.0]", "positive", "NaN"),
    "noise without a kind": (
        lambda: _model(process=0.1), "Model(process=) is 0.1", "root spectral density",
        "{'velocities': 0.1}"),
    "another kind": (
        lambda: _model(process={"joints": 0.1}), "{'joints': 0.1}", "'inputs', 'velocities'"),
    "one number for drifts": (
        lambda: _model(process={"drifts": 0.1}), "Model(process=)['drifts'] has shape ()", "(ny,)"),
    "drifts of other channels": (
        lambda: _filter(_model(process={"drifts": np.ones(3)})), "['drifts'] has shape (3,)",
        "shape (2,)", "a bias that stays"),
    "no covariance of drifts": (
        lambda: _filter(_model(process={"drifts": np.ones(2)})), "filter(covariance=)", "(6, 6)"),
    "noise without a density": (
        lambda: _model(process={"velocities": None}), "Model(process=)['velocities'] is None",
        "N√s", "give a number"),
    "a negative density": (
        lambda: _model(process={"velocities": [0.1, -0.1]}), "is [0.1, -0.1]", "not negative"),
    "densities for other velocities": (
        lambda: _model(process={"velocities": [0.1]}), "shape (1,)", "shape (2,)",
        "zero for what has no noise"),
    "one number for unknown inputs": (
        lambda: _model(process={"inputs": 0.1}), "Model(process=)['inputs'] has shape ()", "(nu,)"),
    "no model": (lambda: _filter(3), "filter(model=) is a int", "lie_jax.estimation.Model("),
    "one axis of data": (
        lambda: _filter(data=np.zeros(4)), "filter(data=) has shape (4,)", "data[:, None]"),
    "infinite data": (
        lambda: _filter(data=[[0.0, 1.0], [np.inf, 1.0]]), "infinite at sample 1", "NaN"),
    "other channels": (
        lambda: _filter(_model(measure=_three)), "has 2 channels", "returns 3"),
    "noise of other channels": (
        lambda: _filter(_model(noise=np.ones(3))), "Model(noise=) has shape (3,)", "(2,)"),
    "a measurement of two axes": (
        lambda: _filter(_model(measure=lambda t, q, v: q[None])), "Model(measure=) returns",
        "one array (ny,)"),
    "covariance of other size": (
        lambda: _filter(covariance=np.eye(2)), "filter(covariance=)", "(4, 4)"),
    "covariance that is none": (
        lambda: _filter(covariance=-np.eye(4)), "filter(covariance=)", "semidefinite"),
    "kind": (lambda: _filter(kind="kf"), "filter(kind=)", "'kf'", "'ekf', 'ukf'"),
    "iterations": (lambda: _filter(iterations=0), "filter(iterations=)", "0"),
    "dt": (lambda: _filter(dt=-0.1), "filter(dt=) is -0.1"),
    "state": (lambda: _filter(state=3), "filter(state=) is a int", "lie_jax.State(q, v)"),
    "a state off the constraints": (
        lambda: _filter(
            _model(Pendulum(jnp.asarray(1.0))), state=lie_jax.State([0.6, 0.8], [1.0, 1.0])
        ),
        "violates the velocity constraints", "lie_jax.project"),
    "inputs of other rows": (
        lambda: _filter(inputs=np.zeros((4, 2))), "filter(inputs=) has shape (4, 2)", "(3, 2)"),
    "inputs without densities": (
        lambda: _filter(inputs=np.zeros((3, 1))), "filter(inputs=) holds 1 inputs", "2 densities"),
    "a step that is too long": (
        lambda: _filter(dt=1e80), "not finite from sample 1, t = 1e+80 s", "smaller dt"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_message(case, monkeypatch):
    # Without the checks of types of the test suite, which users do not have.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    act, *parts = CASES[case]
    check_message(act, *parts)


def test_states_off_the_errors_shape_are_refused():
    result = _filter()
    check_message(lambda: result.nees(jnp.zeros((4, 3)), result.v), "nees(q=)", "(4, 2)")
