"""What a run keeps: steps, times, and values of a function, the same with all kinds of steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lie_jax
from tests.ball import BALL, DOPRI5, RK4, bounced, impact
from tests.messages import check_message
from tests.suites import cases

# Rounding of some hundred sums of numbers of one.
ROUNDING = 1e-13
GRAVITY = 9.81
AUTOMATIC = {"integrator": DOPRI5, "adaptive": lie_jax.Adaptive(), "steps": 60}
KINDS = {
    "steps of one size": {"steps": 20},
    "events": {"steps": 20, "events": [impact(0.8)], "max_events": 3},
    "automatic steps": AUTOMATIC,
    "automatic steps with events": AUTOMATIC | {"events": [impact(0.8)], "max_events": 3},
}
TIMES = [0.05, 0.1, 0.2]


def run(height=1.0, dtype=float, **options):
    options = {"integrator": RK4, "dt": 0.01, "steps": 20} | options
    state = lie_jax.State(jnp.asarray([height], dtype), jnp.zeros(1, dtype))
    return lie_jax.simulate(BALL, options.pop("integrator"), state, **options)


def energy(t, q, v):
    return {"energy": 0.5 * v[0] ** 2 + GRAVITY * q[0], "parts": (t, q), "falls": v[0] < 0, "n": 3}


def fallen(t, height=1.0):
    return height - 0.5 * GRAVITY * np.asarray(t) ** 2


@pytest.mark.parametrize("kind", cases(KINDS, ["steps of one size"]))
def test_values_are_kept_in_place_of_states(kind):
    found = run(save=(TIMES, energy), **KINDS[kind])
    saved = found.saved
    assert_allclose(saved.t, [0.0, *TIMES], rtol=ROUNDING)
    assert_allclose(saved.values["energy"], np.full(4, GRAVITY), rtol=ROUNDING)
    assert_allclose(saved.values["parts"][0], saved.t, rtol=ROUNDING)
    assert_allclose(saved.values["parts"][1][:, 0], fallen(saved.t), rtol=ROUNDING)
    assert_array_equal(saved.values["falls"], [False, True, True, True])
    assert saved.values["n"].tolist() == [3, 3, 3, 3]
    # The trajectory has its start and end alone, with all that belongs to them.
    assert_allclose(found.t, [0.0, 0.2], rtol=ROUNDING)
    assert_allclose(found.q[:, 0], fallen(found.t), rtol=ROUNDING)
    assert_allclose(found.acceleration, np.full((2, 1), -GRAVITY), rtol=ROUNDING)
    onward = run(**KINDS[kind] | {"save": lambda t, q, v: q}) if kind == "events" else None
    assert onward is None or onward.saved.values.shape == (21, 1)


@pytest.mark.full
def test_a_restart_may_save_something_else():
    first = run(save=lambda t, q, v: q[0])
    assert_allclose(first.saved.values, fallen(first.saved.t), rtol=ROUNDING)
    onward = lie_jax.simulate(BALL, RK4, first.restart, dt=0.01, save=[0.25, 0.3])
    assert_allclose(onward.t, [0.2, 0.25, 0.3], rtol=ROUNDING)
    assert_allclose(onward.q[:, 0], fallen(onward.t), rtol=ROUNDING)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["events", "automatic steps with events"])
def test_an_event_at_a_saved_time_and_one_that_stops_the_run(kind):
    impacts, _ = bounced(1.0, 0.8, 1.0)
    times = [0.2, impacts[0], 0.6]
    options = KINDS[kind] | {"dt": impacts[0] / 100, "save": times}
    if kind == "events":
        # Steps of one size end at the impact, and at no other given time.
        options |= {"save": [times[1]], "steps": None}
    found = run(**options)
    assert_allclose(found.t, [0.0, *options["save"]], rtol=ROUNDING)
    row = 1 if kind == "events" else 2
    assert_allclose(found.events.t[0], impacts[0], rtol=1e-12)
    assert_allclose(found.q[row, 0], 0.0, atol=1e-12)
    stop = lie_jax.Event(lambda t, q, v: q[0] - fallen(0.15), "stop")
    options = {"save": (TIMES, energy), "events": [stop]}
    stopped = run(**KINDS[kind] | options)
    assert_allclose(stopped.saved.t, [0.0, 0.05, 0.1, 0.15], rtol=1e-12)
    assert_allclose(stopped.saved.values["energy"], np.full(4, GRAVITY), rtol=1e-12)
    assert_allclose(stopped.t, [0.0, 0.15], rtol=1e-12)
    assert_allclose(stopped.q[:, 0], fallen(stopped.t), rtol=1e-12)
    assert int(stopped.restart.steps) == -1


@pytest.mark.parametrize("kind", cases(KINDS, ["steps of one size"]))
def test_values_have_derivatives_in_batches(kind):
    """By the height, of the sum of heights: one for each instant; blocks change nothing."""
    options = KINDS[kind] | {"save": (TIMES, lambda t, q, v: q[0] ** 2), "throw": False}

    def total(height, adjoint):
        return jnp.sum(run(height, adjoint=adjoint, **options).saved.values)

    heights = jnp.asarray([1.0, 2.0])
    for adjoint in ("stored", "recursive"):
        slopes = jax.jit(jax.grad(lambda h, a=adjoint: jnp.sum(jax.vmap(lambda x: total(x, a))(h))))
        expected = [2.0 * np.sum(fallen([0.0, *TIMES], h)) for h in (1.0, 2.0)]
        assert_allclose(slopes(heights), expected, rtol=ROUNDING)


@pytest.mark.full
def test_sweeps_stores_and_files_have_the_values(tmp_path):
    def fall(variant):
        return run(variant["height"], save=(TIMES, lambda t, q, v: {"q": q}), throw=False)

    variants = {"height": jnp.asarray([1.0, 2.0])}
    expected = np.stack([fallen([0.0, *TIMES], height) for height in (1.0, 2.0)])
    swept, batch = lie_jax.sweep(fall, variants).results, lie_jax.batched(fall)(variants)
    for found in (swept, batch):
        assert_allclose(found.saved.values["q"][..., 0], expected, rtol=ROUNDING)
    store = lie_jax.sweep(fall, variants, save_to=tmp_path / "falls.zarr")
    assert store["saved.values.q"].dims[:2] == store["saved.t"].dims == ("variant", "saved.instant")
    assert_allclose(store["saved.values.q"].values[..., 0], expected, rtol=ROUNDING)
    one = jax.tree.map(lambda x: x[0], batch)
    lie_jax.io.save(tmp_path / "fall.nc", one)
    assert_array_equal(
        lie_jax.io.load(tmp_path / "fall.nc").saved.values["q"], one.saved.values["q"]
    )


@pytest.mark.full
def test_times_of_automatic_steps_may_be_traced():
    def heights(times):
        return run(save=times, throw=False, **AUTOMATIC).q[:, 0]

    times = jnp.asarray([[0.1, 0.2, 0.4], [0.05, 0.3, 0.35]])
    found = jax.jit(jax.vmap(heights))(times)
    assert_allclose(found[:, 1:], fallen(times), rtol=ROUNDING)


@pytest.mark.full
def test_values_of_single_precision_stay_single(recwarn):
    gravity = jnp.asarray(GRAVITY, jnp.float32)
    ball, start = BALL.__class__(gravity, 1), jnp.ones(1, jnp.float32)
    found = lie_jax.simulate(
        ball, RK4, lie_jax.State(start, 0.0 * start), dt=0.01, save=(TIMES, lambda t, q, v: (t, q))
    )
    assert {x.dtype for x in jax.tree.leaves(found.saved)} == {jnp.dtype("float32")}
    assert_allclose(found.saved.values[1][:, 0], fallen(found.saved.t), rtol=1e-6)


@pytest.mark.full
def test_rows_that_a_run_does_not_reach_are_nan():
    late = lie_jax.Event(lambda t, q, v: jnp.where(t > 0.125, jnp.nan, 1.0), "stop")
    found = run(save=(5, energy), events=[late], throw=False)
    assert bool(found.result == lie_jax.Result.event_not_finite)
    assert_allclose(found.saved.t, [0.0, 0.05, 0.1, np.nan, np.nan], rtol=ROUNDING)
    assert np.isnan(found.saved.values["energy"][3:]).all()
    assert np.isnan(found.q[1]).all() and np.isnan(found.t[1])


def test_other_numbers_of_steps_and_times_compile_nothing():
    compiled = []

    def listen(event: str, duration: float, **kwargs: str | int) -> None:
        compiled.extend([event] if event.endswith("backend_compile_duration") else [])

    def height(t, q, v):
        return q[0]

    for save in (TIMES, (2, height)):
        run(save=save)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        runs = run(save=[0.1, 0.25], steps=None), run(save=(3, height), steps=31)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not compiled
    assert_allclose(runs[0].t, [0.0, 0.1, 0.25], rtol=ROUNDING)
    assert_allclose(runs[1].saved.values, fallen(0.03 * np.arange(11)), rtol=ROUNDING)


def branching(t, q, v):
    return q if v[0] > 0.0 else -q


REFUSED = {
    "a time between steps": (lambda: run(save=[0.05, 0.123]), "0.123 s", "nearest is 0.12 s"),
    "a time before the first step": (lambda: run(save=[0.001, 0.2]), "nearest is 0.01 s"),
    "an end before the last step": (
        lambda: run(save=[0.05, 0.1]), "in step 10", "20 steps", "add the time 0.2"),
    "times beyond the end": (lambda: run(save=[0.1, 0.3]), "in step 30", "20 steps"),
    "another end": (
        lambda: run(save=[0.1, 0.3], steps=None, t_end=0.2), "ends at 0.3 s", "t_end=) is 0.2"),
    "times that begin too early": (
        lambda: run(save=[0.0, 0.2]), "begins with 0.0 s", "saved anyway"),
    "fewer steps than one": (lambda: run(save=0), "save=) is 0", "at least 1"),
    "a flag": (lambda: run(save=True), "save=) is True", "number of steps"),
    "text": (lambda: run(save="all"), "save=) is 'all'"),
    "a wrong order": (lambda: run(save=(lambda t, q, v: q, 5)), "a pair (10, function)"),
    "no times": (lambda: run(save=[]), "shape (0,)", "(n,)"),
    "more steps than there are": (lambda: run(save=30), "more than steps=20"),
    "nothing": (lambda: run(save=lambda t, q, v: None), "returns None", "the values to keep"),
    "an empty dictionary": (lambda: run(save=(2, lambda t, q, v: {})), "returns {}"),
    "a branch on numbers": (lambda: run(save=branching), "branching", "jnp.where"),
    "another order of arguments": (lambda: run(save=lambda q: q), "(t, q, v)"),
    "a class": (lambda: run(save=lie_jax.State), "the class State"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_things_to_save_are_refused(name):
    check_message(*REFUSED[name])


def test_traced_times_of_steps_of_one_size_are_refused():
    with pytest.raises(ValueError, match=r"are traced by JAX.*save=10"):
        jax.jit(lambda end: run(save=jnp.stack([end]), steps=None))(0.1)
