"""Functions of users that take other arguments than they are called with are refused by name."""

import equinox as eqx
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import lie_jax
from lie_jax import control, robotics
from tests.cart import DT, MIDPOINT, START, ZERO, Cart
from tests.messages import body, check_message
from tests.systems import Spinner

TEN = np.zeros(10)


class _Gains(eqx.Module):
    gain: float = 1.0

    def __call__(self, t, q, v):
        return self.gain * q[0]


def _control(method, **changes):
    options = {"dt": DT, "running": lambda t, q, v, u: jnp.sum(u**2)} | changes
    return lambda: method(Cart(), MIDPOINT, START, ZERO, **options)


def _run(inputs):
    system = Spinner(jnp.eye(3))
    state = lie_jax.State(jnp.asarray([1.0, 0.0, 0.0, 0.0]), jnp.zeros(3))
    return lie_jax.simulate(system, lie_jax.RKMK(), state, dt=DT, steps=5, inputs=inputs)


CASES = {
    "cost without inputs": (
        _control(control.ilqr, running=lambda t, q, v: 0.0), "ilqr(running=)", "(t, q, v)",
        "called with (t, q, v, u)", "also those that it does not use"),
    "module in the place of a cost": (
        _control(control.ilqr, running=_Gains()), "ilqr(running=) is _Gains(t, q, v)"),
    "final cost of a state": (
        _control(control.shoot, final=lambda state: 0.0), "shoot(final=)", "with (q, v)"),
    "end conditions with a time": (
        _control(control.shoot, end=lambda t, q, v: q), "shoot(end=)", "with (q, v)"),
    "inequalities without time": (
        _control(control.ilqr, inequalities=lambda q, v: q), "inequalities=", "(t, q, v, u)"),
    "prediction of two parameters": (
        lambda: lie_jax.identify(lambda m, k: TEN, (1.0, 2.0), TEN), "identify(predict=)",
        "(m, k)", "called with (parameters)"),
    "prediction of none": (
        lambda: lie_jax.monte_carlo(lambda: TEN, 1.0, noise=1.0), "monte_carlo(predict=)"),
    "event of a configuration": (
        lambda: lie_jax.Event(lambda q: q[0], "stop"), "Event(function=)", "with (t, q, v)"),
    "action of a state": (
        lambda: lie_jax.Event(_Gains(), lambda state: state), "Event(action=)", "with (t, q, v)"),
    "sweep of two": (
        lambda: lie_jax.sweep(lambda m, k: m, TEN), "sweep(fn=)", "called with (variant)"),
}  # fmt: skip
MECHANISM = lie_jax.Mechanism([body()])
SPINNER, STILL = Spinner(jnp.eye(3)), lie_jax.State(np.eye(4)[0], np.zeros(3))
# Run-time checks of types, which users' programs have not, would come first.
WRONG_TYPES = {
    "policy as inputs": (
        lambda: _run(lambda t, q, v: -v), "simulate(inputs=)", "the function", "(5, nu)",
        "jax.vmap(u)", "simulate(policy=)"),
    "number as policy": (
        lambda: lie_jax.simulate(SPINNER, lie_jax.RKMK(), STILL, dt=DT, steps=5, policy=3.0),
        "simulate(policy=) is 3.0", "must be a function"),
    "mechanism for inverse kinematics": (
        lambda: lie_jax.inverse_kinematics(MECHANISM, [], STILL.q),
        "inverse_kinematics(system=) is a Mechanism", "assemble"),
    "state for inverse kinematics": (
        lambda: lie_jax.inverse_kinematics(SPINNER, [], STILL),
        "inverse_kinematics(q=) is a State", "state.q"),
    "mechanism for forces": (
        lambda: robotics.gravity_force(MECHANISM, STILL.q),
        "gravity_force(system=) is a Mechanism", "unpack it"),
    "state for forces": (
        lambda: robotics.gravity_force(SPINNER, STILL),
        "gravity_force(q=) is a State", "(4,)", "state.q"),
    "mechanism for an equilibrium": (
        lambda: lie_jax.equilibrium(MECHANISM, STILL),
        "equilibrium(system=) is a Mechanism", "unpack it"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_message(case):
    check_message(*CASES[case])


@pytest.mark.parametrize("case", WRONG_TYPES)
def test_messages_for_wrong_types(case, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    check_message(*WRONG_TYPES[case])


def test_functions_with_defaults_and_free_arguments_are_accepted():
    for function in (lambda t, q, v, gain=2.0: gain * q[0], lambda *at: at[1][0], _Gains(2.0)):
        assert lie_jax.Event(function, "stop").stops
