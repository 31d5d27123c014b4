"""Reverse-mode derivatives of runs of all models by a parameter, against differences.

Those of the fifteen systems are tested on their page's numbers.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from models import (
    chain,
    curved_beam,
    double_pendulum,
    flexible_four_bar,
    flexible_slider_crank,
    flying_beam,
    four_bars,
    governor,
    heavy_top,
    pendulum,
    pinned_body,
    princeton_beam,
    puma560,
    quadrotor,
    quadruped,
    right_angle_cantilever,
    rotor,
    squeezer,
)

pytestmark = pytest.mark.full

STEPS = 20
# Relative to the larger of value and derivative; differences of order 6 err by rounding / step.
ACCURATE = 1e-8
STEP = 2e-3

RK4, ALPHA = lie_jax.RKMK("rk4"), lie_jax.GeneralizedAlpha(0.9)


def _times(x, values):
    return x * jnp.asarray(values, float)


def _built(build):
    """A model whose time step is the parameter."""
    return lambda x: build()


def _pinned(x):
    return pinned_body.build(
        mass=x * pinned_body.MASS, center_of_mass=(0.02, -0.03, 0.2),
        inertia=np.diag([0.2, 0.25, 0.1]), friction=0.05,
        orientation=(1.0, 0.0, 0.0, 0.0), omega_body=(1.0, 2.0, 3.0),
    )  # fmt: skip


# The model by a factor x of a parameter, an integrator, a step (s).
MODELS = {
    "chain": (lambda x: chain.build(length=x * chain.LENGTH), RK4, 1e-3),
    "chain in joint coordinates": (
        lambda x: chain.build(lie_jax.Minimal(), length=x * chain.LENGTH), RK4, 1e-3,
    ),
    "curved beam": (lambda x: curved_beam.build(4, 600.0 * x), ALPHA, 1e-2),
    "double pendulum": (
        lambda x: double_pendulum.build(mass=_times(x, double_pendulum.MASS)), RK4, 1e-3,
    ),
    "flexible four-bar linkage": (_built(flexible_four_bar.build), ALPHA, 1e-3),
    "flexible slider-crank": (_built(flexible_slider_crank.build), ALPHA, 1e-3),
    "flying beam": (
        lambda x: flying_beam.build(4, bending=x * flying_beam.BENDING), ALPHA, 1e-2,
    ),
    "four-bar linkages": (lambda x: four_bars.build(length=x * four_bars.LENGTH), ALPHA, 1e-3),
    "four-bar linkages in joint coordinates": (
        lambda x: four_bars.build(lie_jax.Minimal(), length=x * four_bars.LENGTH), ALPHA, 1e-3,
    ),
    "governor": (
        lambda x: governor.build(lie_jax.Minimal(), damping=x * governor.DAMPING), ALPHA, 1e-3,
    ),
    "heavy top": (lambda x: heavy_top.build(mass=x * heavy_top.MASS), RK4, 1e-3),
    "pendulum": (lambda x: pendulum.build(length=x * pendulum.LENGTH), RK4, 1e-2),
    "pinned body": (_pinned, RK4, 1e-2),
    "Princeton beam": (lambda x: princeton_beam.build(4, 13.345 * x), ALPHA, 1e-3),
    "Puma 560": (
        lambda x: puma560.build(lie_jax.Minimal(), mass=_times(x, puma560.MASS)), ALPHA, 1e-2,
    ),
    "quadrotor": (lambda x: quadrotor.build(mass=x * quadrotor.MASS), RK4, 1e-2),
    "quadruped": (
        lambda x: quadruped.build(trunk_mass=x * quadruped.TRUNK_MASS), ALPHA, 1e-3,
    ),
    "right-angle cantilever": (
        # Before its load has the first kink, at 1 s.
        _built(lambda: right_angle_cantilever.build(4)), ALPHA, 0.04,
    ),
    "rotor": (lambda x: rotor.build(mass=x * rotor.MASS), RK4, 1e-5),
    "squeezer": (lambda x: squeezer.build(torque=x * squeezer.TORQUE), RK4, 1e-4),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_differences(name):
    build, method, dt = MODELS[name]

    def end(x):
        system, state = build(x)
        inputs = jnp.ones((STEPS, system.nu)) if system.nu else None
        run = lie_jax.simulate(
            system, method, state, dt=x * dt, steps=STEPS, save=STEPS, inputs=inputs
        )
        rotations, positions = system.poses(run.q[-1])
        read = jnp.concatenate([rotations.ravel(), positions.ravel()])
        return read @ jnp.linspace(1.0, 2.0, read.size)

    one = jnp.ones(())
    value, slope = jax.jit(jax.value_and_grad(end))(one)
    forward = jax.jit(end)
    near, far, double = (
        (forward(one + h) - forward(one - h)) / (2.0 * h) for h in (STEP, 2 * STEP, 4 * STEP)
    )
    difference = (64.0 * near - 20.0 * far + double) / 45.0
    scale = max(abs(float(slope)), abs(float(value)))
    assert abs(float(slope)) > 1e-6 * abs(float(value))
    assert abs(float(slope - difference)) < ACCURATE * scale
