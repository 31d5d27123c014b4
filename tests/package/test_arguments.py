"""Functions of users that take other arguments than they are called with are refused by name."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import lie_jax
from lie_jax import control, robotics
from lie_jax.estimation import identify, monte_carlo
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
        lambda: identify(lambda m, k: TEN, (1.0, 2.0), TEN), "identify(predict=)",
        "(m, k)", "called with (parameters)"),
    "prediction of none": (
        lambda: monte_carlo(lambda: TEN, 1.0, noise=1.0), "monte_carlo(predict=)"),
    "event of a configuration": (
        lambda: lie_jax.Event(lambda q: q[0], "stop"), "Event(function=)", "with (t, q, v)"),
    "action of a state": (
        lambda: lie_jax.Event(_Gains(), lambda state: state), "Event(action=)", "with (t, q, v)"),
    "sweep of two": (
        lambda: lie_jax.sweep(lambda m, k: m, TEN), "sweep(fn=)", "called with (variant)"),
}  # fmt: skip
MECHANISM = lie_jax.Mechanism([body()])
HINGE = lie_jax.RevoluteJoint("ground", "b", (0.0, 1.0, 0.0))
DRIVEN = lie_jax.assemble(
    lie_jax.Mechanism([body()], [HINGE], [lie_jax.JointMotor(HINGE, input=0)]), lie_jax.Minimal()
)
ROWS = np.zeros(11), np.zeros((11, 1)), np.zeros((11, 1)), np.zeros((11, 1)), np.zeros((11, 0))


def _held(function, inputs):
    return lambda: function(*DRIVEN, inputs=inputs)


def _reactions(*changed, u=None):
    return lambda: DRIVEN[0].reactions(*(*changed, *ROWS[len(changed) :]), u)


def _powers(u, t=0.0, q=(0.0,)):
    return lambda: DRIVEN[0].powers(t, jnp.asarray(q), jnp.zeros(1), jnp.zeros(0), u)


def _of_inputs(name, u, of=DRIVEN):
    # Traced alone: nothing compiles.
    system, state = of
    return lambda: jax.eval_shape(lambda q, v: getattr(system, name)(0.0, q, v, u), *_at(state))


def _at(state):
    return state.q, state.v


def _accelerations(u):
    return _of_inputs("acceleration", u)


def _study(inputs=None, system=DRIVEN):
    return lambda: lie_jax.convergence(
        *system[:1], lie_jax.RKMK(), DRIVEN[1], 1.0, [1, 2], inputs=inputs
    )


SPINNER, STILL = Spinner(jnp.eye(3)), lie_jax.State(np.eye(4)[0], np.zeros(3))
# Run-time checks of types, which users' programs have not, would come first.
WRONG_TYPES = {
    "policy as inputs": (
        lambda: _run(lambda t, q, v: -v), "simulate(inputs=)", "the function", "(5, nu)",
        "jax.vmap(u)", "simulate(policy=)"),
    "number as policy": (
        lambda: lie_jax.simulate(SPINNER, lie_jax.RKMK(), STILL, dt=DT, steps=5, policy=3.0),
        "simulate(policy=) is 3.0", "must be a function"),
    "one input vector for all steps": (
        lambda: _run(np.zeros(3)), "simulate(inputs=) has shape (3,)", "jnp.tile(u, (5, 1))"),
    "numbers of one input for all steps": (
        lambda: _run(np.zeros(5)), "simulate(inputs=) has shape (5,)", "give u[:, None]"),
    "truth value as step sizes": (
        lambda: lie_jax.simulate(SPINNER, lie_jax.RKMK(), STILL, dt=DT, steps=5, adaptive=True),
        "simulate(adaptive=) is True", "lie_jax.Adaptive(rtol=1e-8)"),
    "automatic steps of a motor": (
        lambda: lie_jax.simulate(
            DRIVEN[0], lie_jax.RKMK("dopri5"), DRIVEN[1], dt=DT, steps=5,
            adaptive=lie_jax.Adaptive(), t_end=1.0),
        "simulate(inputs=) is missing", "read 1", "(1, 1)"),
    "mechanism for inverse kinematics": (
        lambda: lie_jax.robotics.inverse_kinematics(MECHANISM, [], STILL.q),
        "inverse_kinematics(system=) is a Mechanism", "assemble"),
    "state for inverse kinematics": (
        lambda: lie_jax.robotics.inverse_kinematics(SPINNER, [], STILL),
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
    "system and state for a linearization": (
        lambda: lie_jax.linearize(DRIVEN, DRIVEN[1]), "linearize(system=) is a tuple", "unpack it"),
    "configuration for modes": (
        lambda: lie_jax.modes(DRIVEN[0], DRIVEN[1].q), "modes(state=)", "lie_jax.State(q, v)"),
    "trajectory's place for a path": (
        lambda: lie_jax.equilibrium_path(DRIVEN[0], (1.0, 2.0)), "equilibrium_path(state=) is a tu",
        "State(run.q[-1], run.v[-1])"),
    "function as time of an equilibrium": (
        lambda: lie_jax.equilibrium(*DRIVEN, t=lambda: 0.0, inputs=[0.0]),
        "equilibrium(t=) is <function", "one number (s)"),
    "times of modes": (
        lambda: lie_jax.modes(*DRIVEN, t=TEN, inputs=[0.0]), "modes(t=)", "one number (s)"),
    "inputs of steps for accelerations": (
        _accelerations(np.zeros((10, 1))), "inputs u have shape", "(nu,)", "one row"),
    "function for accelerations": (
        _accelerations(lambda t: TEN), "the inputs u is <function", "real numbers"),
    "function held in an equilibrium": (
        _held(lie_jax.equilibrium, lambda t: TEN), "equilibrium(inputs=) is the function", "(1,)",
        "call the function"),
    "rows held in a linearization": (
        _held(lie_jax.linearize, np.zeros((10, 1))), "linearize(inputs=) has shape (10, 1)", "(1,)",
        "give one row"),
    "number held in modes": (
        _held(lie_jax.modes, 0.0), "modes(inputs=) has shape ()", "a number for each input"),
    "text held on a path": (
        _held(lie_jax.equilibrium_path, "0"), "equilibrium_path(inputs=) is '0'", "real numbers"),
    "no inputs in an equilibrium": (
        _held(lie_jax.equilibrium, None), "equilibrium(inputs=) is missing", "jnp.zeros((1,))"),
    "NaN held in modes": (
        _held(lie_jax.modes, [np.nan]), "modes(inputs=) is nan at index (0,)", "finite"),
    "inputs of steps for reactions": (
        _reactions(u=np.zeros((10, 1))), "reactions(u=) has shape (10, 1)", "(11, 1)",
        "give run.u of a run"),
    "function for reactions": (
        _reactions(u=lambda t: TEN), "reactions(u=) is the function", "(11, 1)"),
    "no inputs for reactions": (
        _reactions(), "reactions(u=) is missing", "run.u of a run", "jnp.zeros((11, 1))"),
    "one time for reactions": (_reactions(0.0), "reactions(t=) has shape ()", "(11,)"),
    "speeds of other rows for reactions": (
        _reactions(*ROWS[:2], np.zeros((10, 1))), "reactions(v=) has shape (10, 1)", "(11, 1)"),
    "no multipliers for reactions": (
        _reactions(*ROWS[:4], None), "reactions(multipliers=) is None", "(11, 0)", "jnp.zeros"),
    "no accelerations for reactions": (
        _reactions(*ROWS[:3], None), "reactions(acceleration=) is None", "run.acceleration of a"),
    "rows for joint coordinates": (
        lambda: DRIVEN[0].joint_coordinates(np.zeros((11, 2))),
        "joint_coordinates(q=) has shape (11, 2)", "(11, 1)", "a row for each instant"),
    "one time for joint coordinates": (
        lambda: DRIVEN[0].joint_coordinates(*ROWS[1:3], 0.0),
        "joint_coordinates(t=) has shape ()", "(11,)"),
    "trajectory for contacts": (
        lambda: DRIVEN[0].contacts(0.0, *ROWS[1:3]), "contacts(q=) has shape (11, 1)", "jax.vmap"),
    "state for beams": (
        lambda: DRIVEN[0].beams(DRIVEN[1]), "beams(q=) is a State", "state.q"),
    "rows for powers": (
        _powers(np.zeros((10, 1))), "powers(u=) has shape (10, 1)", "give one row"),
    "trajectory for powers": (
        _powers(None, q=np.zeros((11, 1))), "powers(q=) has shape (11, 1)", "jax.vmap"),
    "times for powers": (_powers(None, t=ROWS[0]), "powers(t=)", "one number (s)"),
    "study without inputs": (_study(), "convergence(inputs=) is missing", "jnp.zeros((1,))"),
    "study with inputs of steps": (
        _study(np.zeros((10, 1))), "convergence(inputs=)", "(1,), held over all runs", "Torque"),
    "study with inputs of time": (
        _study(lambda t: TEN), "convergence(inputs=) is the function", "functions of time"),
    "study with two inputs": (_study([0.0, 0.0]), "convergence(inputs=) holds 2", "read 1"),
    "study of a mechanism": (
        _study(system=(MECHANISM,)), "convergence(system=) is a Mechanism", "unpack it"),
}  # fmt: skip


FREE = lie_jax.assemble(MECHANISM, lie_jax.R3SO3())


@pytest.mark.parametrize("name", ["force", "acceleration"])
def test_inputs_that_no_force_reads_are_refused(name):
    for of, most in ((DRIVEN, "read 1"), (FREE, "read none")):
        check_message(_of_inputs(name, jnp.zeros(3), of), "u hold 3", most, "leave out", "input=2")
    system, (q, v) = DRIVEN[0], _at(DRIVEN[1])
    rest = q, v, v, jnp.zeros(0), jnp.zeros(2)
    for method in (system.residual, system.linearization):
        check_message(lambda m=method: jax.eval_shape(lambda: m(0.0, *rest)), "hold 2", "read 1")


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
