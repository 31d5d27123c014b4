"""Runs that start at any time and end at a given one, with steps of both kinds.

A mass on a slider under the force cos(t) has a closed form.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.messages import check_message

MASS, DT = 2.0, 0.02
RK4, DOPRI5 = lie_jax.RKMK("rk4"), lie_jax.RKMK("dopri5")
START, END = 1.0, 3.0
# Of fourth order with 0.02 rad a step; tolerances of the automatic steps.
ERROR, TOLERANCE = 1e-9, 1e-10


class Pushed(lie_jax.extend.AbstractSystem):
    """A mass under a force of time."""

    @property
    def space(self):
        return lie_jax.extend.Rn(1)

    def mass_matrix(self, q):
        return MASS * jnp.eye(1, dtype=q.dtype)

    def force(self, t, q, v, u):
        return jnp.cos(t)[None]


AT_REST = lie_jax.State(jnp.zeros(1), jnp.zeros(1))
AUTOMATIC = {
    "integrator": DOPRI5,
    "steps": 400,
    "adaptive": lie_jax.Adaptive(rtol=TOLERANCE, atol=TOLERANCE),
}


def exact(start, t):
    return (jnp.cos(start) - jnp.cos(t) - jnp.sin(start) * (t - start)) / MASS


def run(state=AT_REST, integrator=RK4, **options):
    return lie_jax.simulate(Pushed(), integrator, state, **{"dt": DT} | options)


def last(trajectory):
    """Row of the last instant, before rows of NaN."""
    return int(np.flatnonzero(np.isfinite(np.asarray(trajectory.t)))[-1])


@pytest.mark.parametrize("options", [{}, AUTOMATIC], ids=["one size", "automatic"])
def test_runs_start_and_end_at_given_times(options):
    for start, end in ((START, END), (-1.0, 0.0)):
        trajectory = run(t0=start, t_end=end, **options)
        row = last(trajectory)
        assert_allclose(trajectory.t[0], start, rtol=1e-15)
        assert_allclose(trajectory.t[row], end, atol=1e-12)
        assert_allclose(trajectory.q[row, 0], exact(start, end), atol=ERROR)


def test_restarts_go_on_at_their_time():
    whole = run(t0=START, t_end=END)
    half = run(t0=START, t_end=2.0)
    rest = run(half.restart, t_end=END)
    assert np.array_equal(rest.q[-1], whole.q[-1])
    assert np.array_equal(rest.t[-1], whole.t[-1])
    assert_allclose(rest.t[0], 2.0, rtol=1e-15)


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, marks=pytest.mark.full), AUTOMATIC],
    ids=["one size", "automatic"],
)
def test_events_happen_at_times_of_the_run(options):
    """The mass returns from the right side at the root of the closed form."""
    event = lie_jax.Event(lambda t, q, v: q[0] + 0.02, "stop")
    trajectory = run(t0=START, t_end=END, events=[event], **options)
    when = float(trajectory.events.t[0])
    assert START < when < END
    assert_allclose(exact(START, when), -0.02, atol=1e-8)


def test_derivatives_by_the_time_of_the_start():
    @jax.jit
    @jax.grad
    def slope(start):
        return run(t0=start, steps=100, throw=False).q[-1, 0]

    wanted = jax.grad(lambda start: exact(start, start + 100 * DT))(START)
    assert_allclose(slope(START), wanted, atol=ERROR)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"dt": 0.3, "t_end": 1.0}, ("3.33333 steps of dt=0.3", "dt=0.25")),
        ({}, ("steps= or t_end=", "neither is given")),
        ({"steps": 3, "t_end": 0.06}, ("steps= or t_end=", "both are given")),
        ({"t_end": -1.0}, ("t_end=) is -1.0", "starts at 0.0 s")),
        ({"t_end": np.inf}, ("t_end=) is inf",)),
        ({"t0": np.nan, "steps": 3}, ("t0=) is nan",)),
        ({"t0": 1e16, "steps": 3}, ("t0=) is 1e+16", "stand still")),
        # Half a step off, however many steps there are.
        ({"dt": 1e-6, "t_end": 0.6000005}, ("whole number of steps",)),
        (AUTOMATIC, ("t_end= or save=times", "neither is given")),
        (AUTOMATIC | {"t_end": 1.0, "steps": None}, ("needs steps=", "largest number")),
        (
            AUTOMATIC | {"t0": 5.0, "save": [1.0, 2.0]},
            ("begins with 1.0 s", "starts at 5.0 s"),
        ),
        (
            AUTOMATIC | {"t_end": 3.0, "save": [1.0, 2.0]},
            ("save=) ends at 2.0 s", "t_end=) is 3.0 s"),
        ),
    ],
)
def test_times_that_make_no_run_are_refused(options, parts):
    check_message(lambda: run(**options), *parts)


def test_a_restart_has_its_own_time():
    restart = run(steps=2).restart
    check_message(lambda: run(restart, t0=0.0, steps=2), "t0=) is given with a Restart", "leave")
    check_message(
        lambda: jax.jit(lambda end: run(t_end=end).q)(1.0), "traced by JAX", "give steps="
    )


@pytest.mark.full
def test_traced_times_in_the_wrong_order_are_named():
    @jax.jit
    def ended(end):
        return run(t0=START, t_end=end, throw=False, **AUTOMATIC).result

    for end in (0.99 * START, START - 2.0):
        assert bool(ended(end) == lie_jax.Result.times_not_increasing)
    assert bool(ended(END) == lie_jax.Result.successful)
    # Of a batch outside of `jax.jit` nothing but the end is traced.
    results = jax.vmap(lambda end: run(t0=START, t_end=end, throw=False, **AUTOMATIC).result)(
        jnp.asarray([0.99 * START, END])
    )
    successful = np.asarray(results == lie_jax.Result.successful)
    assert successful.tolist() == [False, True]


@pytest.mark.full
def test_single_precision_has_times_too():
    state = lie_jax.State(jnp.zeros(1, jnp.float32), jnp.zeros(1, jnp.float32))
    dt, t0, end = (np.float32(x) for x in (1e-3, 100.1, 100.2))
    half = run(state, t0=t0, dt=dt, t_end=end)
    assert len(half.t) == 101
    assert len(run(half.restart, dt=1e-3, steps=2).t) == 3
