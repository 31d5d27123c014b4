"""Events at one instant happen one after the other, in the order of the list."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lie_jax
from tests.ball import ROUNDING, Falling, noted
from tests.suites import cases

FREE = Falling(jnp.asarray(0.0), 1)
START = lie_jax.State(-jnp.ones(1), jnp.ones(1))
DT, STEPS = 0.125, 8
# None of them at the end of a step; functions are exactly zero at most of the located ones.
INSTANTS = jnp.linspace(0.31, 0.89, 30)
METHODS = {
    "explicit": lie_jax.RKMK("rk4"),
    "BDF": lie_jax.BDF(2),
    "RATTLie": lie_jax.RATTLie(),
    "Radau": lie_jax.ImplicitRKMK("radau3"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", METHODS)
def test_both_events_of_each_instant_happen(name):
    def run(instant):
        def reached(t, q, v):
            return q[0] + 1.0 - instant

        events = [
            lie_jax.Event(reached, noted),
            lie_jax.Event(lambda t, q, v: t - instant, lambda t, q, v: (q, 2.0 * v)),
        ]
        options = {"dt": DT, "steps": STEPS, "events": events, "max_events": 4, "throw": False}
        made = lie_jax.simulate(FREE, METHODS[name], START, **options)
        return made.events.index, made.events.t, made.v[-1, 0], made.q[-1, 0]

    index, t, v, q = jax.jit(jax.vmap(run))(INSTANTS)
    assert_array_equal(np.sort(index, axis=1), [[-1, -1, 0, 1]] * len(INSTANTS))
    assert_allclose(t[:, :2], np.stack([INSTANTS, INSTANTS], axis=1), rtol=0, atol=ROUNDING)
    assert_allclose(v, 2.0, rtol=0, atol=ROUNDING)
    assert_allclose(q, 1.0 - INSTANTS, rtol=0, atol=10 * ROUNDING)


@pytest.mark.parametrize("instant", cases([0.6, 1.0], [1.0]))
def test_an_action_without_a_result_ends_the_run(instant):
    """At its end, too, where no further step meets the values."""
    nowhere = lie_jax.Event(lambda t, q, v: t - instant, lambda t, q, v: (q, jnp.sqrt(-v)))
    adaptive = lie_jax.Adaptive()
    options = {
        "dt": DT,
        "steps": 40,
        "events": [nowhere],
        "adaptive": adaptive,
        "save": jnp.asarray([0.5, 1.0]),
        "throw": False,
    }
    run = lie_jax.simulate(FREE, lie_jax.RKMK("dopri5"), START, **options)
    assert run.result == lie_jax.Result.non_finite
