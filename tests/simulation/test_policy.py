"""Feedback acts as a digital controller does: sampled, held, with a memory of its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm

import lie_jax
from lie_jax.simulation import fingerprints
from tests.cart import START, Cart
from tests.messages import check_message
from tests.suites import cases

DT, EVERY, STEPS = 0.01, 5, 53
SAMPLE = EVERY * DT
STIFFNESS, MASS = 3.0, 2.0
CART, RK67 = Cart(stiffness=STIFFNESS), lie_jax.RKMK("rk67")


def _pid(t, q, v, state):
    """Proportional, integral, derivative; the memory is the integral and the number of samples."""
    integral = state["integral"] + SAMPLE * q
    return -4.0 * q - v - 2.0 * integral, {"integral": integral, "samples": state["samples"] + 1}


PID = lie_jax.Policy(_pid, sample_time=SAMPLE, state={"integral": np.zeros(1), "samples": 0})


def _digital(steps, bounce=None):
    """States and inputs of the cart under `_pid`: exact motions under held inputs, in NumPy.

    A wall at zero returns `bounce` times the velocity, when the cart has no spring.
    """
    rates = np.zeros((3, 3))
    stiffness = STIFFNESS if bounce is None else 0.0
    rates[0, 1], rates[1, 0], rates[1, 2] = 1.0, -stiffness / MASS, 1.0 / MASS
    held = expm(DT * rates)
    x, integral = np.asarray([float(START.q[0]), float(START.v[0])]), 0.0
    states, inputs = [x], []
    for step in range(steps):
        if step % EVERY == 0:
            integral += SAMPLE * x[0]
            u = -4.0 * x[0] - x[1] - 2.0 * integral
        after = (held @ [*x, u])[:2]
        if bounce is not None and after[0] < 0.0 < x[0]:
            a = u / MASS
            hit = min(r.real for r in np.roots([0.5 * a, x[1], x[0]]) if 0.0 < r.real <= DT)
            speed, rest = -bounce * (x[1] + a * hit), DT - hit
            after = np.asarray([rest * (speed + 0.5 * a * rest), speed + a * rest])
        x = after
        states.append(x)
        inputs.append(u)
    return np.asarray(states), np.asarray(inputs)


# Error of the method in the inputs: order 6 at this step leaves rounding, Gauss' order 4 some
# 1e-10; multistep methods and generalized-α smear the jumps of the inputs over a step.
METHODS = {
    "RKMK": (RK67, 1e-12),
    "Gauss": (lie_jax.ImplicitRKMK("gauss4"), 1e-9),
    "generalized-α": (lie_jax.GeneralizedAlpha(), 2e-2),
    "BDF": (lie_jax.BDF(3), 2e-2),
}


@pytest.mark.parametrize("name", cases(METHODS, ["RKMK"]))
def test_samples_are_those_of_a_digital_controller_and_restarts_go_on(name, tmp_path):
    integrator, tolerance = METHODS[name]
    states, inputs = _digital(STEPS)

    def run(start, steps, **options):
        return lie_jax.simulate(CART, integrator, start, dt=DT, steps=steps, **options)

    whole, sparse = run(START, STEPS, policy=PID), run(START, STEPS, policy=PID, save=4)
    assert_allclose(sparse.q[:, 0], states[::4, 0], atol=tolerance)
    assert_allclose(whole.inputs[:, 0], inputs, atol=tolerance)
    assert_array_equal(sparse.inputs, whole.inputs)
    assert int(whole.restart.policy["samples"]) == -(-STEPS // EVERY)
    # The inputs are those that `simulate(inputs=)` takes.
    replayed = run(START, STEPS, inputs=whole.inputs)
    assert_array_equal(replayed.q, whole.q)
    assert_array_equal(replayed.acceleration, whole.acceleration)
    first = run(START, 23, policy=PID)
    lie_jax.io.save(tmp_path / "first.nc", first)
    second = run(lie_jax.io.load(tmp_path / "first.nc").restart, STEPS - 23, policy=PID)
    for field in ("q", "v", "acceleration"):
        joined = np.concatenate([getattr(first, field), getattr(second, field)[1:]])
        assert_array_equal(joined, getattr(whole, field))
    assert_array_equal(np.concatenate([first.inputs, second.inputs]), whole.inputs)
    for a, b in zip(*(jax.tree.leaves(x.restart) for x in (second, whole)), strict=True):
        assert_array_equal(a, b)


@pytest.mark.full
def test_inputs_are_held_through_events():
    bounce, ball = 0.7, Cart()
    states, inputs = _digital(100, bounce)
    assert np.sum(states[1:, 1] > states[:-1, 1] + 0.5) >= 1  # There is an impact.
    options = {"dt": DT, "steps": 100, "policy": PID}
    wall = lie_jax.Event(lambda t, q, v: q[0], lambda t, q, v: (q, -bounce * v), direction=-1)
    run = lie_jax.simulate(ball, RK67, START, events=[wall], **options)
    # Instants of events are known to about the root of rounding in their own function.
    assert_allclose(run.q[:, 0], states[:, 0], atol=1e-9)
    assert_allclose(run.inputs[:, 0], inputs, atol=1e-8)
    # A sample at an event of each step would count twice.
    assert int(run.restart.policy["samples"]) == 100 // EVERY
    stop = lie_jax.Event(lambda t, q, v: q[0], "stop")
    stopped = lie_jax.simulate(ball, RK67, START, events=[stop], **options)
    begun = int(np.ceil(float(stopped.events.t[0]) / DT))
    assert_array_equal(stopped.inputs[:begun], run.inputs[:begun])
    assert np.isnan(stopped.inputs[begun:]).all()


class Network(eqx.Module):
    """Recurrent network of two layers, whose hidden layer is the policy's state."""

    layers: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.layers, self.out = eqx.nn.Linear(6, 4, key=first), eqx.nn.Linear(4, 1, key=second)

    def __call__(self, t, q, v, hidden):
        hidden = jnp.tanh(self.layers(jnp.concatenate([q, v, hidden])))
        return self.out(hidden), hidden


@pytest.mark.full
def test_a_recurrent_network_has_the_derivatives_of_the_run():
    network = Network(jax.random.key(0))
    numbers, unflatten = jax.flatten_util.ravel_pytree(eqx.filter(network, eqx.is_array))
    static = eqx.filter(network, eqx.is_array, inverse=True)

    def loss(numbers, adjoint="stored", checkpoint=None):
        module = eqx.combine(unflatten(numbers), static)
        policy = lie_jax.Policy(module, sample_time=3 * DT, state=jnp.zeros(4))
        run = lie_jax.simulate(
            *(CART, lie_jax.RKMK("midpoint"), START),
            **{"dt": DT, "steps": 20, "policy": policy, "save": 4},
            **{"adjoint": adjoint, "checkpoint": checkpoint},
        )
        return jnp.sum(run.q[-1] ** 2) + DT * jnp.sum(run.inputs**2)

    direction = np.random.default_rng(1).normal(size=numbers.shape)
    step = 1e-5
    members = jnp.stack([numbers, numbers + step * direction, numbers - step * direction])
    value, more, less = jax.jit(jax.vmap(loss))(members)
    gradient = jax.jit(jax.grad(lambda x: loss(x, "recursive", 3)))(numbers)
    # Differences of values of order one with a step of 1e-5 err by 1e-10.
    assert_allclose(gradient @ direction, (more - less) / (2.0 * step), rtol=1e-7)
    assert float(value) > 0.0 and np.linalg.norm(gradient) > 1e-3


def test_inputs_that_are_not_finite_end_the_run():
    def failing(t, q, v):
        return jnp.where(t > 0.1, jnp.nan, 1.0) * q

    with pytest.raises(lie_jax.SimulationError) as error:
        lie_jax.simulate(CART, RK67, START, dt=DT, steps=50, policy=failing)
    run = error.value.trajectory
    assert bool(run.result == lie_jax.Result.input_not_finite)
    # The rounded time of step 10 may be above 0.1 s.
    completed = int(run.stats.completed_steps)
    assert completed in (10, 11) and np.isfinite(run.q[: completed + 1]).all()
    for part in ("policy returned the inputs [nan]", f"step {completed + 1} of 50", "division"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("method", "sample_time", "parts"),
    [
        (
            "rk4",
            None,
            ("the state became infinite or NaN in step", "a smaller gain. Take a smaller dt"),
        ),
        ("heun", 20.0, ("a mode of the system with its policy grew", "sample_time (it is 20 s)")),
    ],
)
def test_a_run_that_grows_by_its_policy_names_the_gain(method, sample_time, parts):
    # A mass of 2 kg for 10 s under held forces of -q / 2 N comes back 11.5 times as far, and more.
    policy = lie_jax.Policy(lambda t, q, v: -0.5 * q, sample_time)
    options = {"dt": 10.0, "steps": 400, "policy": policy}
    with pytest.raises(lie_jax.SimulationError) as error:
        lie_jax.simulate(Cart(), lie_jax.RKMK(method), START, **options)
    for part in ("too large for the time between its samples", *parts):
        assert part in str(error.value), str(error.value)


def _proportional(t, q, v):
    return -4.0 * q


def _run(policy, **options):
    options = {"dt": DT, "steps": 5} | options
    return lambda: lie_jax.simulate(CART, RK67, START, policy=policy, **options)


class Defaults(eqx.Module):
    """Feedback whose own `__init__` leaves a static field and another one at their defaults."""

    gain: jax.Array
    share: float = eqx.field(static=True, default=0.5)
    factor: float = -2.0

    def __init__(self, gain):
        self.gain = jnp.asarray(gain)

    def __call__(self, t, q, v):
        return self.share * self.factor * self.gain * q


class StiffCart(Cart):
    """A cart with a field at its default."""

    stiffness: float = STIFFNESS

    def __init__(self, mass):
        self.mass = mass


class Method(lie_jax.RKMK):
    """An integrator with a field at its default."""

    extra: float = eqx.field(static=True, default=5.0)

    def __init__(self):
        self.tableau, self.stabilization = RK67.tableau, RK67.stabilization


def test_modules_with_fields_at_their_defaults_run_and_restart():
    def run(start, policy):
        system, integrator = StiffCart(MASS), Method()
        return lie_jax.simulate(system, integrator, start, dt=DT, steps=5, policy=policy)

    first, same = run(START, Defaults(4.0)), _run(_proportional)()
    assert_array_equal(first.inputs, same.inputs)
    assert run(first.restart, Defaults(4.0)).q.shape == (6, 1)
    check_message(lambda: run(first.restart, Defaults(3.0)), "another policy.function.gain")


NEW, OLD = jax.random.key(3), jax.random.PRNGKey(3)


def _noise(key, t, q, v):
    return jax.random.normal(jax.random.fold_in(key, jnp.round(t / DT).astype(int)), (1,))


def _drawn(t, q, v, key):
    key, now = jax.random.split(key)
    return jax.random.normal(now, (1,)), key


def _keyed(key):
    """Policies that draw with a key, as many ways as there are to pass one."""
    return {
        "closure": lambda t, q, v: _noise(key, t, q, v),
        "network in a closure": lambda t, q, v: eqx.nn.Linear(1, 1, key=key)(q),
        "parameter": jax.tree_util.Partial(_noise, key),
        "state": lie_jax.Policy(_drawn, state=key),
    }


@pytest.mark.parametrize("name", cases(_keyed(NEW), ["state"]))
def test_keys_of_both_kinds_draw_the_same_and_restarts_go_on(name, tmp_path):
    def run(start, key, steps):
        policy, euler = _keyed(key)[name], lie_jax.RKMK("euler")
        return lie_jax.simulate(CART, euler, start, dt=DT, steps=steps, policy=policy)

    whole, first = run(START, OLD, 8), run(START, NEW, 4)
    assert_array_equal(first.inputs, whole.inputs[:4])
    assert_array_equal(run(first.restart, NEW, 4).inputs, whole.inputs[4:])
    assert np.ptp(whole.inputs) > 0.0
    if name == "state":
        check_message(lambda: lie_jax.io.save(tmp_path / "run.nc", first), "jax.random.PRNGKey")
        lie_jax.io.save(tmp_path / "run.nc", whole)
        loaded = lie_jax.io.load(tmp_path / "run.nc").restart.policy
        assert loaded.dtype == whole.restart.policy.dtype
        assert_array_equal(loaded, whole.restart.policy)
    else:
        assert not np.any(run(START, jax.random.key(4), 4).inputs == first.inputs)


REFUSED = {
    "beside inputs": (_run(_proportional, inputs=np.zeros((5, 1))), "inputs=", "leave one out"),
    "other arguments": (_run(lambda q, v: -q), "simulate(policy=)", "(t, q, v)"),
    "a number": (_run(lambda t, q, v: -q[0]), "shape ()", "jnp.stack"),
    "a matrix": (_run(lambda t, q, v: -q[None]), "shape (1, 1)", "return a vector"),
    "nothing": (
        _run(lambda t, q, v: None),
        "the value that its function(t, q, v) returns is None",
        "must be made of real numbers",
    ),
    "no pair": (
        _run(lie_jax.Policy(lambda t, q, v, state: -q, state=0.0)),
        "returns one value",
        "the pair (u, state)",
    ),
    "another state": (
        _run(lie_jax.Policy(lambda t, q, v, state: (-q, q), state=0.0)),
        "of shape (1,); Policy(state=) has float64 of shape ()",
        "the same form",
    ),
    "another structure": (
        _run(lie_jax.Policy(lambda t, q, v, state: (-q, (state,)), state=0.0)),
        "another structure",
        "the same form",
    ),
    "a sample between steps": (
        _run(lie_jax.Policy(_proportional, sample_time=0.016)),
        "sample_time=) is 0.016 s",
        "multiple of simulate(dt=), which is 0.01 s",
        "sample_time=0.02, or dt=0.008",
    ),
    "samples of no length": (
        lambda: lie_jax.Policy(_proportional, sample_time=0.0),
        "Policy(sample_time=) is 0.0",
    ),
    "a class": (_run(Network), "simulate(policy=) is the class Network", "Network(...)"),
    "another class": (_run(lie_jax.Policy), "simulate(policy=) is the class Policy"),
    "a state without argument": (
        lambda: lie_jax.Policy(_proportional, state=0.0),
        "Policy(function=)",
        "(t, q, v, state)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_policies_are_refused(name):
    check_message(*REFUSED[name])


def test_restarts_of_another_policy_are_refused():
    restart = _run(_proportional)().restart

    def goes_on(**options):
        options = {"dt": DT, "steps": 5} | options
        return lambda: lie_jax.simulate(CART, RK67, restart, **options)

    check_message(goes_on(policy=lambda t, q, v: -q), "another policy.function", "lambda")
    for options in ({}, {"inputs": np.zeros((5, 1))}):
        parts = "run with a policy", "pass that policy", "`state`", *(f"{x}=)" for x in options)
        check_message(goes_on(**options), *parts)
    sampled = lie_jax.Policy(_proportional, sample_time=SAMPLE)
    check_message(goes_on(policy=sampled), "another policy.sample_time, which is 0.05 now")
    networks = [{"weights": np.full((50, 4), value)} for value in (1.0, 2.0)]
    earlier = fingerprints.checksums(policy=networks[0])
    name, value = fingerprints.difference(earlier, policy=networks[1]) or ("", "")
    assert "weights" in name and value == "an array of float64 of shape (50, 4)"
    restart = _run(None)().restart
    check_message(goes_on(policy=_proportional), "without a policy", "leave it out")


def test_a_rate_in_the_place_of_a_sample_time_is_named():
    sampled = lie_jax.Policy(_proportional, sample_time=100.0)
    with pytest.warns(UserWarning, match=r"100 s, 10000 steps, .* has 5.* 100 Hz give 0\.01\."):
        _run(sampled)()


FORMS = {
    "numpy": lambda t, q, v: np.sin(q),
    "if": lambda t, q, v: q if v[0] > 0.0 else -q,
    "float": lambda t, q, v: jnp.full(1, float(v[0])),
}


@pytest.mark.parametrize("name", FORMS)
def test_functions_that_need_numbers_are_told_the_fix(name):
    for policy in (FORMS[name], lie_jax.Policy(FORMS[name], sample_time=SAMPLE)):
        with pytest.raises(ValueError) as error:
            _run(policy)()
        place = f"line {FORMS[name].__code__.co_firstlineno} of test_policy.py needs one"
        for part in ("simulate(policy=)", "<lambda>", "jax.jit", place, "jax.numpy", "jnp.where"):
            assert part in str(error.value)
        assert isinstance(error.value.__cause__, jax.errors.JAXTypeError)


def test_step_sizes_that_jax_traces_have_no_samples():
    def end(dt, policy):
        return lie_jax.simulate(CART, RK67, START, dt=dt, steps=5, policy=policy).q[-1]

    check_message(lambda: jax.jit(lambda dt: end(dt, PID))(DT), "traced", "leave sample_time out")
    assert jax.eval_shape(lambda dt: end(dt, _proportional), DT).shape == (1,)


def test_single_precision_stays_single():
    start = jax.tree.map(lambda x: x.astype(jnp.float32), START)
    cart = Cart(stiffness=jnp.float32(STIFFNESS), mass=jnp.float32(MASS))

    def run(state):
        return lie_jax.simulate(cart, lie_jax.RKMK("euler"), state, dt=DT, steps=5, policy=PID)

    shapes = jax.eval_shape(run, start)
    numbers = shapes.q, shapes.inputs, shapes.restart.policy["integral"]
    assert {x.dtype for x in numbers} == {jnp.dtype("float32")}
