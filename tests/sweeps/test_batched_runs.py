"""Runs whose mechanism is built in the function are in a batch and a sweep those of jax.vmap."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax

# Rounding over ten steps; instants of events are found within a tolerance.
RUN, SEARCH = 1e-12, 1e-8


def _hinge(mass):
    body = lie_jax.Body("rod", mass, np.diag([0.08, 0.08, 0.01]), position=(0, 0, -0.5))
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0, 1.0, 0), child_point=(0, 0, 0.5))
    return lie_jax.assemble(lie_jax.Mechanism([body], [hinge]), lie_jax.Minimal())


def _run(build, integrator, events, mass, speed):
    system, state = build(mass)
    state = lie_jax.State(state.q, state.v + speed)
    options = {"events": events, "max_events": 3} if events else {}
    run = lie_jax.simulate(system, integrator, state, dt=0.01, steps=10, throw=False, **options)
    return run.q[-1], run.v[-1]


def _at(action):
    return [lie_jax.Event(lambda t, q, v: q[0] - 0.1, action, 1)]


BOUNCE = _at(lambda t, q, v: (q, -0.8 * v))
CASES = {
    "explicit": (_hinge, lie_jax.RKMK("rk4"), None, RUN),
    "bounces": (_hinge, lie_jax.RKMK("rk4"), BOUNCE, SEARCH),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_runs_of_mechanisms_built_in_the_function(name):
    *parts, tolerance = CASES[name]
    run = functools.partial(_run, *parts)
    members = jnp.linspace(0.5, 2.0, 9), jnp.linspace(0.0, 4.0, 9)
    expected = jax.jit(jax.vmap(run))(*members)
    batched = jax.jit(lie_jax.batched(run))(*members)
    swept = lie_jax.sweep(lambda xs: run(*xs), members, progress=False).results
    for got in (batched, swept):
        for x, y in zip(got, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
