"""Events happen at the right instants, with the right states after them and right derivatives."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lie_jax
from tests.ball import (
    BALL,
    BY_HEIGHT,
    BY_RESTITUTION,
    DIGITS,
    DOPRI5,
    DROP,
    HEIGHT,
    IMPACTS,
    RADAU5,
    RK4,
    ROUNDING,
    ZENO,
    Falling,
    automatic,
    bounced,
    dropped,
    height,
    impact,
    noted,
)
from tests.suites import cases

METHODS = {
    "explicit": (RK4, {}),
    "generalized-α": (lie_jax.GeneralizedAlpha(0.9), {}),
    "Gauss": (lie_jax.ImplicitRKMK("gauss4"), {}),
    "Radau": (RADAU5, {}),
    "BDF": (lie_jax.BDF(3), {}),
    "RATTLie": (lie_jax.RATTLie(), {}),
    "explicit, automatic": (DOPRI5, automatic(0.3, 0.8)),
    "generalized-α, automatic": (lie_jax.GeneralizedAlpha(0.9, index=2), automatic(0.8)),
    "Radau, automatic": (RADAU5, automatic(0.8)),
    "BDF, automatic": (lie_jax.BDF(5), automatic(0.8)),
}


@pytest.mark.parametrize("name", cases(METHODS, ["explicit"]))
def test_a_ball_bounces_with_its_derivatives_in_both_modes(name):
    integrator, options = METHODS[name]

    def end(drop):
        return dropped(drop, integrator=integrator, throw=False, **options).q[-1, 0]

    both = jax.jit(lambda drop: (jax.value_and_grad(end)(drop), jax.jacfwd(end)(drop)))
    (value, reverse), forward = both(DROP)
    assert_allclose(value, HEIGHT, rtol=0, atol=DIGITS)
    for derivative in (reverse, forward):
        assert_allclose(derivative, (BY_HEIGHT, BY_RESTITUTION), rtol=0, atol=DIGITS)


@pytest.mark.full
def test_impacts_that_follow_ever_faster_end_the_run():
    with pytest.raises(
        lie_jax.SimulationError, match=r"events\[0\] happened again at once at t = 4\.06"
    ) as e:
        dropped(DROP, steps=50, end=5.0, max_events=300)
    run = e.value.trajectory
    assert bool(run.result == lie_jax.Result.too_many_events)
    assert_allclose(run.events.t[:5], IMPACTS, atol=1e-11)
    # Flights shorter than the square root of rounding, in steps, and all that follow are left.
    assert_allclose(run.stats.end_time, ZENO, rtol=0, atol=0.1 * 5.0 * np.finfo(float).eps ** 0.5)
    # 40 steps of 0.1 s were taken. The velocities before impacts are those of the restitution.
    assert int(run.stats.completed_steps) == 40
    assert np.isfinite(run.q[:41]).all() and np.isnan(run.q[41:]).all()
    expected = -np.sqrt(2.0 * 9.81) * 0.8 ** np.arange(20)
    assert_allclose(run.events.v[:20, 0], expected, rtol=1e-9)
    assert 50 < int(jnp.sum(run.events.index == 0)) < 200
    few = dropped(DROP, steps=50, end=5.0, max_events=20, throw=False)
    assert_array_equal(few.events.t, run.events.t[:20])
    assert bool(few.result == lie_jax.Result.too_many_events)
    assert_allclose(few.stats.end_time, few.events.t[-1], atol=0.1)


@pytest.mark.full
def test_events_of_one_step_happen_in_the_order_of_time():
    starts = jnp.asarray([[1.0, 1.02], [1.02, 1.0], [1.0, 1.0], [1.0, 0.5]])
    events = [impact(0.8, 0), impact(0.5, 1)]

    def run(start):
        state = lie_jax.State(start, jnp.zeros(2))
        system = Falling(jnp.asarray(9.81), 2)
        options = {"dt": 0.8, "steps": 1, "events": events, "throw": False, "max_events": 8}
        return lie_jax.simulate(system, RK4, state, **options)

    many = jax.jit(jax.vmap(run))(starts)
    for k, start in enumerate(np.asarray(starts)):
        times, ends = zip(*map(bounced, start, (0.8, 0.5)), strict=True)
        # Events at the same time happen in the order of the list.
        order = sorted((t, index) for index in (0, 1) for t in times[index])
        count = len(order)
        assert_array_equal(many.events.index[k, :count], [index for _, index in order])
        assert_array_equal(many.events.index[k, count:], -1)
        assert_allclose(many.events.t[k, :count], [t for t, _ in order], rtol=ROUNDING)
        assert_allclose(many.q[k, -1], ends, atol=ROUNDING)
    assert bool(jnp.all(many.result == lie_jax.Result.successful))


def test_what_is_no_event_is_refused_by_name(monkeypatch):
    # Users run without checks of types.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for options, message in (
        ({"function": 3}, r"function=\) is 3; it must be a function"),
        ({"action": "halt"}, r"action=\) is 'halt'; it must be 'stop', or a function"),
        ({"action": None}, r"action=\) is None; it must be 'stop'"),
        ({"direction": 1.0}, r"direction=\) is 1\.0"),
        ({"direction": 2}, r"direction=\) is 2; it must be 1 .* -1 .* or 0"),
    ):
        with pytest.raises(ValueError, match=message):
            lie_jax.Event(**{"function": height, "action": "stop"} | options)

    stop = lie_jax.Event(height, "stop")
    for events, options, message in (
        (stop, {}, r"events=\) is Event.* in brackets"),
        ([stop, height], {}, r"it must be a list of lie_jax\.Event"),
        ([lie_jax.Event(lambda t, q, v: q, "stop")], {}, r"\[0\]\.function.* \(1,\).*one number"),
        ([lie_jax.Event(lambda t, q, v: jnp.log(q[0] - 2.0), "stop")], {}, "initial state is nan"),
        ([stop, lie_jax.Event(height, lambda t, q, v: q)], {}, r"\[1\]\.action.*the pair \(q, v\)"),
        (
            [lie_jax.Event(height, lambda t, q, v: (q[0], v))],
            {},
            r"action.*its q has shape \(\).*\(1,\)",
        ),
        ([stop], {"max_events": 0}, r"max_events=\) is 0"),
        ([stop], {"progress": True}, r"progress=\) is for runs without events"),
    ):
        with pytest.raises(ValueError, match=message):
            dropped(DROP, events=events, **options)
    with pytest.raises(ValueError, match=r"called with \(t, q, v\): too many positional"):
        lie_jax.Event(lambda t, q: q[0], "stop")
    assert dropped(DROP, events=[]).events is None


@pytest.mark.full
def test_a_run_stops_at_an_event_and_its_last_row_is_the_event():
    # The second event is at a speed of 3.2 m/s; a function that jumps is located as well.
    events = [
        lie_jax.Event(lambda t, q, v: jnp.where(q[0] > 0.7, 1.0, -2.0), noted),
        lie_jax.Event(lambda t, q, v: v[0] + 3.2, "stop"),
        lie_jax.Event(lambda t, q, v: q[0] - 5.0, "stop"),
    ]
    run = dropped(DROP, steps=9, end=0.9, events=events, save=2)
    jump, stop = np.sqrt(2.0 * 0.3 / 9.81), 3.2 / 9.81
    assert_array_equal(run.events.index[:3], [0, 1, -1])
    assert_allclose(run.events.t[:2], [jump, stop], rtol=4 * np.finfo(float).eps)
    assert np.isnan(run.events.t[2:]).all() and np.isnan(run.events.q[2:]).all()
    assert_allclose([run.t[0], run.t[1], run.t[-1]], [0.0, 0.2, stop], rtol=ROUNDING)
    assert np.isnan(run.t[2:-1]).all() and np.isnan(run.q[2:-1]).all()
    assert_allclose(run.v[-1], -3.2, rtol=ROUNDING)
    assert_allclose(run.q[-1], 1.0 - 0.5 * 9.81 * stop**2, rtol=ROUNDING)
    assert_allclose(run.acceleration[-1], -9.81)
    assert_allclose(run.stats.end_time, stop, rtol=ROUNDING)
    assert bool(run.result == lie_jax.Result.successful)
    with pytest.raises(ValueError, match="an event has stopped"):
        lie_jax.simulate(BALL, RK4, run.restart, dt=0.1, steps=2)


@pytest.mark.full
def test_second_derivatives_are_those_of_the_closed_form():
    def closed(drop):
        start, restitution = drop
        t = jnp.sqrt(2.0 * start / 9.81)
        return restitution * 9.81 * t * (0.8 - t) - 0.5 * 9.81 * (0.8 - t) ** 2

    def end(drop):
        return dropped(drop, throw=False, max_events=2).q[-1, 0]

    expected = jax.hessian(closed)(DROP)
    for outer in (jax.jacfwd, jax.jacrev):
        assert_allclose(jax.jit(outer(jax.grad(end)))(DROP), expected, atol=DIGITS)


@pytest.mark.full
def test_batches_and_gradients_of_batches_are_those_of_single_runs():
    drops = jnp.linspace(0.6, 1.2, 5), jnp.linspace(0.5, 0.9, 5)

    def run(drop):
        return dropped(drop, throw=False, steps=8, end=1.6)

    many = jax.jit(jax.vmap(run))(drops)
    gradients = jax.jit(jax.grad(lambda drops: jnp.sum(jax.vmap(run)(drops).q[:, -1])))(drops)
    single = jax.jit(jax.grad(lambda drop: run(drop).q[-1, 0]))
    for k in range(5):
        drop = jax.tree.map(lambda x, k=k: x[k], drops)
        one = run(drop)
        assert_allclose(many.q[k], one.q, atol=ROUNDING)
        assert_allclose(many.events.t[k], one.events.t, rtol=ROUNDING)
        assert_array_equal(many.events.index[k], one.events.index)
        assert_allclose([x[k] for x in gradients], single(drop), rtol=1e-11)


@pytest.mark.full
def test_nothing_happens_at_the_start_and_nothing_twice():
    def times(start, speed, direction, restitution=0.5):
        event = lie_jax.Event(height, lambda t, q, v: (q, -restitution * v), direction)
        state = lie_jax.State(jnp.full(1, start), jnp.full(1, speed))
        options = {"dt": 0.1, "steps": 9, "events": [event], "throw": False}
        run = lie_jax.simulate(BALL, RK4, state, **options)
        return np.asarray(run.events.t), run.result

    flight = 2.0 * 3.0 / 9.81
    for direction, expected in ((-1, [flight]), (0, [flight]), (1, [])):
        found, _ = times(0.0, 3.0, direction)
        assert_allclose(found[: len(expected)], expected, rtol=ROUNDING)
        assert np.isnan(found[len(expected) :]).all()
        # At rest on the zero nothing has crossed.
        assert np.isnan(times(0.0, 0.0, direction)[0]).all()
    # Below the ground by rounding, as an event may leave it.
    assert_allclose(times(-1e-17, 3.0, -1)[0][0], flight, rtol=ROUNDING)
    # An impact without restitution leaves a ball that falls on at once.
    found, result = times(1.0, 0.0, -1, restitution=0.0)
    assert bool(result == lie_jax.Result.too_many_events)
    assert_allclose(found[0], np.sqrt(2.0 / 9.81), rtol=ROUNDING)
    assert np.isnan(found[1:]).all()
    # An impact at a multiple of dt.
    run = dropped((jnp.asarray(0.5 * 9.81 * 0.4**2), DROP[1]), steps=16)
    assert_allclose(run.events.t[0], 0.4, rtol=ROUNDING)
    assert_allclose(run.v[9], 9.81 * (0.8 * 0.4 - 0.05), rtol=ROUNDING)
    assert int(jnp.sum(run.events.index >= 0)) == 1


@pytest.mark.full
def test_restarts_and_files_keep_events(tmp_path):
    whole, first = (dropped(DROP, steps=n, end=n * 0.08) for n in (40, 20))
    lie_jax.io.save(tmp_path / "first.nc", first)
    loaded = lie_jax.io.load(tmp_path / "first.nc")
    for a, b in zip(*map(jax.tree.leaves, (first, loaded)), strict=True):
        assert_array_equal(a, b)
    options = {"dt": 0.08, "steps": 20, "events": [impact(DROP[1])]}
    second = lie_jax.simulate(BALL, RK4, loaded.restart, **options)
    assert_array_equal(np.concatenate([first.q, second.q[1:]]), whole.q)
    joined = np.concatenate([x.events.t[x.events.index >= 0] for x in (first, second)])
    assert_array_equal(joined, whole.events.t[whole.events.index >= 0])


@pytest.mark.full
def test_single_precision_has_its_digits():
    ball = Falling(jnp.float32(9.81), 1)

    def end(start):
        state = lie_jax.State(start[None], jnp.zeros(1, jnp.float32))
        options = {"dt": 0.05, "steps": 16, "events": [impact(0.8)], "throw": False}
        return lie_jax.simulate(ball, lie_jax.GeneralizedAlpha(), state, **options).q[-1, 0]

    value, derivative = jax.jit(jax.value_and_grad(end))(jnp.float32(1.0))
    assert value.dtype == derivative.dtype == jnp.float32
    assert_allclose((value, derivative), (HEIGHT, BY_HEIGHT), rtol=1e-5)


def _rod(angle=0.5):
    """A rod on a hinge, in absolute coordinates."""
    orientation = np.asarray([np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0])
    position = (-0.5 * np.sin(angle), 0.0, -0.5 * np.cos(angle))
    inertia = np.diag([1 / 12, 1 / 12, 1e-3])
    body = lie_jax.Body("rod", 1.0, inertia, position=position, orientation=orientation)
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0, 1, 0), child_point=(0, 0, 0.5))
    return lie_jax.assemble(lie_jax.Mechanism([body], [hinge]), lie_jax.R3SO3())


@pytest.mark.full
def test_actions_keep_constraints_or_are_named():
    system, state = _rod()

    def run(integrator, restitution, kick, loud=False):
        def reflected(t, q, v):
            return q, kick - restitution * v

        wall = [lie_jax.Event(lambda t, q, v: system.poses(q)[1][0, 0], reflected, direction=1)]
        if loud:
            wall.append(lie_jax.Event(lambda t, q, v: jnp.log(0.35 - t), "stop"))
        return lie_jax.simulate(system, integrator, state, dt=1e-2, steps=50, events=wall)

    explicit, alpha = (run(x, 0.9, 0.0) for x in (RK4, lie_jax.GeneralizedAlpha()))
    # The methods differ by the error of the second.
    assert_allclose(alpha.events.t[0], explicit.events.t[0], atol=1e-4)
    assert_allclose(alpha.q[-1], explicit.q[-1], atol=1e-3)
    for trajectory in (explicit, alpha):
        assert (
            float(jnp.max(jnp.abs(jax.vmap(system.constraint)(trajectory.t, trajectory.q)))) < 1e-12
        )
    # Energy over mass: the speed before the first impact is that of the fall.
    speed = np.sqrt(3.0 * 9.81 * (1.0 - np.cos(0.5)))
    assert_allclose(explicit.events.v[0, 4], -speed, rtol=1e-7)
    with pytest.raises(
        lie_jax.SimulationError, match=r"action of events\[0\].*violates.*at t = 0\.4"
    ):
        run(RK4, 0.9, 0.1)
    with pytest.raises(
        lie_jax.SimulationError, match="function of an event became infinite or NaN"
    ):
        run(RK4, 0.9, 0.0, loud=True)
