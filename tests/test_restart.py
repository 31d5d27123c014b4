"""Runs that go on where others have ended."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from models import double_pendulum, heavy_top

DT, HALF = 1e-3, 7


def _driven():
    """A wheel whose angle is given in time, with a motor on the body that it carries."""
    mechanism = lie_jax.Mechanism(
        [lie_jax.Body(name, 1.0, np.diag([0.1, 0.2, 0.3])) for name in ("wheel", "arm")],
        [
            lie_jax.RevoluteJoint("ground", "wheel", (0, 0, 1)),
            lie_jax.RevoluteJoint("wheel", "arm", (1, 0, 0), (0, 0.1, 0), (0, 0.1, 0)),
            lie_jax.RevoluteDriver("ground", "wheel", (0, 0, 1), lambda t: 0.1 * jnp.sin(20.0 * t)),
        ],
        [lie_jax.RevoluteMotor("wheel", "arm", (1, 0, 0), input=0)],
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    return system, lie_jax.project(system, state)


INPUTS = jnp.linspace(-3.0, 2.0, 2 * HALF)[:, None]


CASES = {
    "RKMK4": (lambda: heavy_top.build(), lie_jax.RKMK("rk4")),
    "generalized-α": (lambda: heavy_top.build(constrained=True), lie_jax.GeneralizedAlpha(0.8)),
    "modified Newton": (double_pendulum.build, lie_jax.GeneralizedAlpha(0.8, newton="modified")),
    "driven": (_driven, lie_jax.GeneralizedAlpha(0.8)),
}


@pytest.mark.parametrize("name", CASES)
def test_two_halves_are_bit_by_bit_the_whole(name):
    build, integrator = CASES[name]
    system, state = build()

    def run(start, which):
        inputs = INPUTS[which] if system.nu else None
        steps = len(INPUTS[which])
        return lie_jax.simulate(system, integrator, start, dt=DT, steps=steps, inputs=inputs)

    whole, first = run(state, slice(None)), run(state, slice(HALF))
    second = run(first.restart, slice(HALF, None))
    for field in ("t", "q", "v", "acceleration", "multipliers"):
        joined = np.concatenate([getattr(first, field), getattr(second, field)[1:]])
        np.testing.assert_array_equal(joined, getattr(whole, field), err_msg=field)
    assert int(second.stats.completed_steps) == HALF
    assert float(second.stats.end_time) == float(whole.stats.end_time)
    for a, b in zip(*(jax.tree.leaves(x.restart) for x in (second, whole)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_restarts_that_fit_nothing_are_refused():
    system, state = heavy_top.build()
    rk4 = lie_jax.RKMK("rk4")
    restart = lie_jax.simulate(system, rk4, state, dt=DT, steps=3).restart
    for integrator, options, message in (
        (rk4, {"dt": 2 * DT}, r"dt=\) is 0\.002, and the run that is continued had .*0\.001"),
        (lie_jax.GeneralizedAlpha(), {"dt": DT}, "made by another one"),
        (lie_jax.RKMK("dopri5"), {"dt": DT, "adaptive": lie_jax.Adaptive(1.0)}, "one size"),
    ):
        with pytest.raises(ValueError, match=message):
            lie_jax.simulate(system, integrator, restart, steps=3, **options)
