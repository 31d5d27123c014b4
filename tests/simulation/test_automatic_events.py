"""Events in runs with automatic steps, and forces that an event switches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lie_jax
from tests.ball import DOPRI5, DROP, RK4, ROUNDING, automatic, bounced, dropped, noted
from tests.systems import OnALine


@pytest.mark.full
def test_a_run_with_automatic_steps_stops_at_an_event():
    events, stop = [lie_jax.Event(lambda t, q, v: v[0] + 3.2, "stop")], 3.2 / 9.81
    options = {"events": events, "integrator": DOPRI5}
    given = dropped(DROP, **options | automatic(0.1, 0.2, 0.5, 0.8))
    assert_allclose(given.t, [0.0, 0.1, 0.2, np.nan, stop], rtol=ROUNDING)
    assert_allclose(given.v[:, 0], -9.81 * given.t, rtol=ROUNDING)
    assert_allclose(given.q[-1, 0], 1.0 - 0.5 * 9.81 * stop**2, rtol=ROUNDING)
    whole = {"dt": 0.01, "steps": 50, "adaptive": lie_jax.Adaptive(), "t_end": 0.8}
    all_steps = dropped(DROP, **options | whole)
    last = int(all_steps.stats.completed_steps)
    assert_allclose(all_steps.t[last], stop, rtol=ROUNDING)
    assert np.isnan(all_steps.t[last + 1 :]).all()
    for run in (given, all_steps):
        assert_allclose(run.events.t[:2], [stop, np.nan], rtol=ROUNDING)
        assert_allclose(run.stats.end_time, stop, rtol=ROUNDING)
        assert bool(run.result == lie_jax.Result.successful)


@pytest.mark.full
def test_automatic_steps_meet_the_events_of_closed_forms():
    # Events after each other, at a given time by rounding, and in batches with their gradients.
    drops = jnp.linspace(0.9, 1.3, 3), jnp.linspace(0.75, 0.85, 3)
    fall = np.sqrt(2.0 * 0.9 / 9.81)

    def run(drop):
        options = {"integrator": DOPRI5, "throw": False, "max_events": 5}
        return dropped(drop, **options | automatic(fall, 1.2, 1.6))

    many = jax.jit(jax.vmap(run))(drops)
    gradients = jax.jit(jax.grad(lambda drops: jnp.sum(jax.vmap(run)(drops).q[:, -1])))(drops)
    for k, (start, restitution) in enumerate(np.stack(drops, axis=1)):
        times, end = bounced(start, restitution, 1.6)
        assert_allclose(many.events.t[k, : len(times)], times, rtol=1e-12)
        assert_array_equal(many.events.index[k] >= 0, np.arange(5) < len(times))
        assert_allclose(many.q[k, -1, 0], end, atol=1e-12)
        for n, change in enumerate(np.eye(2) * 1e-6):
            ends = [
                bounced(*(np.asarray([start, restitution]) + sign * change), 1.6)[1]
                for sign in (1, -1)
            ]
            assert_allclose(gradients[n][k], (ends[0] - ends[1]) / 2e-6, rtol=1e-8)
    assert bool(jnp.all(many.result == lie_jax.Result.successful))
    with pytest.raises(lie_jax.SimulationError, match="happened again at once at t = 4"):
        dropped(DROP, integrator=DOPRI5, max_events=300, **automatic(5.0))


class Relay(OnALine):
    """A point pushed by a relay: towards zero once it has left ±1, as far as the other side."""

    push: jax.Array
    side: jax.Array

    def force(self, t, q, v, u=None):
        return -self.push * self.side * jnp.ones(1)

    def memory_after(self, t, q, v):
        return jnp.where(jnp.abs(q[0]) >= 1.0, jnp.sign(q[0]), self.side)

    def with_memory(self, memory):
        return Relay(self.push, memory)


@pytest.mark.full
@pytest.mark.parametrize("name", ["fixed", "automatic"])
def test_a_memory_switches_at_an_event(name):
    """Each crossing takes the time in which the push leads from one side to the other."""
    options, method = {"dt": 0.05, "steps": 100}, RK4
    if name == "automatic":
        options, method = automatic(5.0), DOPRI5
    switch = lie_jax.Event(lambda t, q, v: jnp.abs(q[0]) - 1.0, noted, direction=1)

    def end(push):
        state, relay = lie_jax.State(jnp.zeros(1), jnp.ones(1)), Relay(push, jnp.ones(()))
        run = lie_jax.simulate(
            relay, method, state, events=[switch], max_events=8, throw=False, **options
        )
        return run.q[-1, 0], run.events.t

    def closed(push):
        t, x, v, side, times = 0.0, 0.0, 1.0, 1.0, []
        while True:
            # x + v s - side push s²/2 = -side
            s = max(np.roots([-0.5 * side * push, v, x + side]).real)
            if t + s > 5.0:
                return x + v * (5.0 - t) - 0.5 * side * push * (5.0 - t) ** 2, times
            t, x, v, side = t + s, -side, v - side * push * s, -side
            times.append(t)

    (value, times), slope = jax.jit(lambda p: (end(p), jax.grad(lambda p: end(p)[0])(p)))(3.0)
    expected, instants = closed(3.0)
    assert_allclose(times[: len(instants)], instants, rtol=1e-12)
    assert len(instants) == 2 and np.isnan(times[len(instants) :]).all()
    assert_allclose(value, expected, rtol=1e-12)
    difference = (closed(3.0 + 1e-6)[0] - closed(3.0 - 1e-6)[0]) / 2e-6
    assert_allclose(slope, difference, rtol=1e-8)
