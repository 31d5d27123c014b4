"""The flyball governor moves as Lagrange's equations say, by stiff methods with automatic steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.simulation.march import march
from models import governor
from tests.suites import cases

FORMULATIONS = {"joint coordinates": lie_jax.Minimal(), "R3SO3": lie_jax.R3SO3()}
# Springs of 8e5 N/m take the rounding of lengths, 1e-16 m, to 1e-10 m/s².
ROUNDING = 1e-9
PLACED = 1e-14


def _lagrange(angle, slide, rate):
    """Accelerations of slider and rods at rest on a turning shaft, by hand."""
    s, c = np.sin(angle), np.cos(angle)
    along, across = 0.3 * 2e-4 / 12.0, 0.3 * (1.0 + 1e-4) / 12.0
    # Half of the derivative of the moment of inertia about the shaft, for one rod and its ball.
    pull = (along - across) * s * c - 0.3 * (0.05 + 0.5 * c) * 0.5 * s - 5.0 * (0.05 + c) * s
    out, up = 0.5 * c, 1.0 - 0.5 * s - slide
    length = np.hypot(out, up)
    tension = 8e5 * (length - 0.5)
    lever = -0.5 * (out * s + up * c) / length
    slider = -9.81 + 2.0 * tension * up / length / 3.0
    moment = pull * rate**2 + 9.81 * (0.15 + 5.0) * c - tension * lever
    return slider, moment / (across + 0.3 * 0.25 + 5.0)


@pytest.mark.parametrize("name", cases(FORMULATIONS, []))
def test_accelerations_are_those_of_lagrange(name):
    starts = np.asarray([(np.pi / 6.0, 0.5, 2.0 * np.pi), (0.4, 0.6, 3.0), (-0.2, 0.55, -5.0)])

    @jax.jit
    @jax.vmap
    def evaluated(start):
        angle, slide, rate = start
        system, state = governor.build(FORMULATIONS[name], angle=angle, slide=slide, rate=rate)
        change = system.acceleration(jnp.zeros(()), state.q, state.v)

        def moved(t):
            return system.twists(state.q, state.v + t * change)

        turning = jax.jvp(moved, (0.0,), (1.0,))[1]
        # Along the shaft, and of both rods about their hinges.
        accelerations = turning[3, 2], turning[1, 4], turning[2, 4]
        return jnp.stack(accelerations), governor.readings(system, state.q, state.v)

    accelerations, seen = (np.asarray(x) for x in evaluated(jnp.asarray(starts)))
    assert_allclose(seen, starts[:, [1, 0, 2]], rtol=0, atol=PLACED)
    slider, rod = _lagrange(*starts.T)
    # A rod's rate in its own axes is that of its angle: the shaft turns it about z alone.
    assert_allclose(accelerations, np.stack([slider, rod, rod], axis=1), rtol=1e-12, atol=ROUNDING)


TOLERANCE = 1e-6
METHODS = {
    "bdf": lie_jax.BDF(3),
    "radau5": lie_jax.ImplicitRKMK("radau5"),
    "sdirk4": lie_jax.ImplicitRKMK("sdirk4"),
    "generalized-alpha": lie_jax.GeneralizedAlpha(index=2),
}
RUNS = [
    *(("joint coordinates", method) for method in METHODS),
    *(("R3SO3", method) for method in ("bdf", "radau5")),
]
# RK4 is stable for h λ < 2.785, and the rate λ of the fastest mode is 8.1e3 1/s at the start.
EXPLICIT_STEPS = 29_000
EXPECTED = np.asarray(list(governor.REFERENCE.values()))


def _run(formulation, method):
    """Errors at the reference times in units of the tolerance of a step, and steps."""
    system, state = governor.build(FORMULATIONS[formulation])
    times = jnp.asarray(list(governor.REFERENCE))
    run = lie_jax.simulate(
        system, METHODS[method], state, dt=1e-4, steps=EXPLICIT_STEPS,
        adaptive=lie_jax.Adaptive(rtol=TOLERANCE, atol=TOLERANCE), save=times,
    )  # fmt: skip
    observed = np.asarray(
        jax.vmap(lambda q, v: governor.readings(system, q, v))(run.q[1:], run.v[1:])
    )
    errors = np.abs(observed - EXPECTED) / (TOLERANCE * (1.0 + np.abs(EXPECTED)))
    return errors, int(run.stats.completed_steps) + int(run.stats.rejected_steps)


@pytest.mark.full
@pytest.mark.parametrize(("formulation", "method"), RUNS)
def test_ten_seconds_with_automatic_steps(formulation, method):
    """Each step may err by its tolerance, and errors of the oscillation add up."""
    errors, steps = _run(formulation, method)
    assert np.all(errors < steps), errors
    assert steps < 0.1 * EXPLICIT_STEPS


@pytest.mark.full
def test_explicit_methods_need_many_more_steps():
    system, state = governor.build(lie_jax.Minimal())
    end = march(system, lie_jax.RKMK("rk4"), state, 10.0 / 25_000, 25_000)
    failed = (lie_jax.Result.unstable, lie_jax.Result.non_finite)
    assert any(bool(end.result == reason) for reason in failed)


# Steps of one size in place of automatic ones, and whether they err more. The motion is an even
# oscillation: order 5 gains nothing from other sizes, order 3 some.
IN_PLACE = {"bdf": (1.5, True), "radau5": (1.0, False)}


@pytest.mark.full
@pytest.mark.parametrize("method", IN_PLACE)
def test_steps_of_one_size(method):
    """Largest errors at all reference times, of which each takes a whole number of steps."""
    errors, steps = _run("joint coordinates", method)
    factor, worse = IN_PLACE[method]
    system, state = governor.build(lie_jax.Minimal())
    count = 100 * round(0.01 * factor * steps)
    places = [round(0.1 * t * count) for t in governor.REFERENCE]
    ends = [march(system, METHODS[method], state, 10.0 / count, n).state for n in places]
    observed = np.asarray([governor.readings(system, end.q, end.v) for end in ends])
    fixed = np.abs(observed - EXPECTED) / (TOLERANCE * (1.0 + np.abs(EXPECTED)))
    assert np.all((np.max(fixed, axis=0) > np.max(errors, axis=0)) == worse), (fixed, errors)
