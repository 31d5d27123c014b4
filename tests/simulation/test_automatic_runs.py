"""Automatic steps have inputs, restarts and saved steps as those of one size do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lie_jax
from models import heavy_top
from tests.ball import BALL, impact
from tests.messages import check_message
from tests.suites import cases
from tests.systems import PERICENTRE, Kepler, OnALine

ADAPTIVE = lie_jax.Adaptive(rtol=1e-8, atol=1e-8)
DOPRI5 = lie_jax.RKMK("dopri5")
# Rounding of some ten operations on numbers of one.
ROUNDING = 1e-13


class Pushed(OnALine):
    """A unit mass on a line, pushed by its input."""

    def force(self, t, q, v, u=None):
        return jnp.zeros_like(v) if u is None else u


def _orbit():
    return Kepler(jnp.asarray(1.0)), PERICENTRE, ()


def _bouncing():
    return BALL, lie_jax.State(jnp.ones(1), jnp.zeros(1)), [impact(0.8)]


def _top():
    return *heavy_top.build(constrained=True), ()


MOTIONS = {
    "explicit": (_orbit, DOPRI5, (1.0, 2.0, 3.0)),
    "BDF": (_orbit, lie_jax.BDF(3), (1.0, 2.0, 3.0)),
    "events": (_bouncing, DOPRI5, (0.3, 0.5, 0.9)),
    "implicit, events": (_bouncing, lie_jax.ImplicitRKMK("radau5"), (0.3, 0.5, 0.9)),
    "generalized-α": (_top, lie_jax.GeneralizedAlpha(0.8, index=2), (0.01, 0.02, 0.03)),
}


@pytest.mark.parametrize("name", cases(MOTIONS, ["explicit"]))
def test_pieces_are_bit_by_bit_the_whole(name, tmp_path):
    build, integrator, times = MOTIONS[name]
    system, state, events = build()

    def run(start, times):
        options = {"dt": 1e-3, "steps": 800, "adaptive": ADAPTIVE, "events": events}
        return lie_jax.simulate(system, integrator, start, save=times, **options)

    whole, first = run(state, times), run(state, times[:1])
    lie_jax.io.save(tmp_path / "first.nc", first)
    second = run(lie_jax.io.load(tmp_path / "first.nc").restart, times[1:])
    for field in ("t", "q", "v"):
        joined = np.concatenate([getattr(first, field), getattr(second, field)[1:]])
        assert_array_equal(joined, getattr(whole, field), err_msg=field)
    counts = [int(x.stats.completed_steps) for x in (first, second, whole)]
    assert counts[0] + counts[1] == counts[2] > len(times)
    for a, b in zip(*(jax.tree.leaves(x.restart) for x in (second, whole)), strict=True):
        assert_array_equal(a, b)


def test_inputs_are_held_to_the_times_that_are_saved():
    """Positions of a constant push from time to time, and their derivatives by the pushes."""
    times, pushes = np.asarray([0.5, 0.75, 2.0]), np.asarray([2.0, -1.0, 0.5])
    spans = np.diff(times, prepend=0.0)

    def end(pushes):
        run = lie_jax.simulate(
            *(Pushed(), DOPRI5, lie_jax.State(jnp.zeros(1), jnp.zeros(1))),
            dt=0.1, steps=100, adaptive=ADAPTIVE, save=times, inputs=pushes[:, None],
        )  # fmt: skip
        return run.q[-1, 0], run

    (_, run), slopes = jax.value_and_grad(end, has_aux=True)(jnp.asarray(pushes))
    rates = np.cumsum(np.append(0.0, pushes * spans))
    ways = np.cumsum((rates[1:] + rates[:-1]) / 2.0 * spans)
    assert_allclose(run.v[:, 0], rates, rtol=0, atol=ROUNDING)
    assert_allclose(run.q[1:, 0], ways, rtol=0, atol=ROUNDING)
    assert_allclose(run.u[:, 0], [2.0, *pushes], rtol=0)
    # A push over a span moves the end by its speed over the time that is left, and half the span.
    assert_allclose(slopes, spans * (2.0 - times + 0.5 * spans), rtol=1e-12)


@pytest.mark.full
def test_each_third_accepted_step_is_saved_and_the_end():
    system, state, _ = _orbit()
    options = {"dt": 1e-3, "steps": 300, "adaptive": ADAPTIVE, "t_end": 3.0}
    every = lie_jax.simulate(system, DOPRI5, state, **options)
    some = lie_jax.simulate(system, DOPRI5, state, save=3, **options)
    count = int(every.stats.completed_steps)
    rows = np.asarray([*range(0, count, 3), count])
    assert len(some.t) == 101 and int(some.stats.completed_steps) == count
    for field in ("t", "q", "v", "acceleration"):
        assert_array_equal(getattr(some, field)[: len(rows)], getattr(every, field)[rows], field)
    assert np.isnan(some.t[len(rows) :]).all()


@pytest.mark.full
def test_restarts_go_through_transformations():
    """The end by the start, of a run in two pieces and of one."""
    system, state, _ = _orbit()

    def run(start, times):
        options = {"dt": 1e-3, "steps": 200, "adaptive": ADAPTIVE, "throw": False}
        return lie_jax.simulate(system, DOPRI5, start, save=jnp.asarray(times), **options)

    def pieces(v):
        first = run(lie_jax.State(state.q, v), [1.0])
        return run(first.restart, [2.0]).q[-1]

    def whole(v):
        return run(lie_jax.State(state.q, v), [1.0, 2.0]).q[-1]

    slopes = [jax.jit(jax.jacrev(end))(state.v) for end in (pieces, whole)]
    assert_allclose(*slopes, rtol=1e-10)


def _refused(**options):
    system, state, _ = _orbit()
    options = {"dt": 1e-3, "steps": 300, "adaptive": ADAPTIVE} | options
    start = options.pop("start", state)
    return lambda: lie_jax.simulate(system, DOPRI5, start, **options)


REFUSED = {
    "rows of inputs for steps": (
        _refused(save=[1.0, 2.0], inputs=np.ones((300, 1))), "shape (300, 1)", "(2, nu)",
        "each time of simulate(save=)"),
    "inputs without times": (
        _refused(t_end=1.0, inputs=np.ones((300, 1))), "shape (300, 1)", "(1, nu)"),
    "a policy": (_refused(t_end=1.0, policy=lambda t, q, v: q), "policy=) is for steps of one"),
    "progress": (_refused(t_end=1.0, progress=True), "progress=) is for steps of one"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_limits_of_automatic_steps_are_named(name):
    check_message(*REFUSED[name])


def test_restarts_of_the_other_kind_are_refused():
    system, state, _ = _orbit()
    fixed = lie_jax.simulate(system, DOPRI5, state, dt=1e-3, steps=2).restart
    automatic = _refused(t_end=1.0)().restart
    check_message(_refused(start=fixed, t_end=1.0), "steps of one size, and this one", "t0=")
    check_message(
        _refused(start=automatic, adaptive=None, steps=5), "automatic steps, and this one has"
    )
    check_message(_refused(start=automatic, t_end=0.5), "t_end=) is 0.5", "starts at 1.0")
    check_message(_refused(start=automatic, t_end=2.0, dt=0.1), "dt=) is 0.1", "was 0.001")
