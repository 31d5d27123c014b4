"""Point masses, boxes, bars and the compliant governor move as their reference solutions say."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.simulation.march import march
from models import floating_bodies, governor, spherical_pendulum, three_bars
from tests.suites import cases


class Model(NamedTuple):
    """How to build it, what is read of it, its reference solution, and a step (s) of order 6."""

    build: Callable[..., Any]
    read: Callable[..., Any]
    reference: dict
    step: float
    constraints: int


def _floating(joint: str, constraints: int) -> Model:
    def build(formulation=None, **numbers):
        return floating_bodies.build(formulation, joint=joint, **numbers)

    def read(system, q, v):
        return floating_bodies.corners(system, q)

    return Model(build, read, floating_bodies.REFERENCE[joint], 5e-3, constraints)


def _soft_governor(formulation=None, **numbers):
    soft = {
        "stiffness": governor.SOFT_STIFFNESS,
        "damping": governor.SOFT_DAMPING,
        "rate": governor.SOFT_RATE,
    }
    return governor.build(formulation, **(soft | numbers))


MODELS = {
    "pendulum": Model(
        spherical_pendulum.build,
        lambda system, q, v: spherical_pendulum.positions(system, q),
        spherical_pendulum.REFERENCE, 2e-3, 2,
    ),
    "ball": _floating("ball", 3),
    "hinge": _floating("hinge", 5),
    "bars": Model(
        three_bars.build,
        lambda system, q, v: three_bars.joint_points(system, q),
        three_bars.REFERENCE, 1e-3, 12,
    ),
    "soft governor": Model(
        _soft_governor, governor.readings, governor.REFERENCE_SOFT, 1e-3, 20
    ),
    # Its fastest oscillation, of 2.5e4 1/s, bounds the step.
    "compliant governor": Model(
        governor.build_compliant, governor.readings,
        {0.1: governor.REFERENCE_COMPLIANT[0.1]}, 2e-5, 0,
    ),
}  # fmt: skip
R3SO3, SE3, MINIMAL = lie_jax.R3SO3(), lie_jax.SE3(), lie_jax.Minimal()
# Rounding in positions and rates of constraints, of some units.
CONSISTENT = 1e-13
# What a method of order 6 must reach of the reference solutions (m, rad, rad/s).
TRUTH = 1e-10
# Energies are some tens to hundreds of joules, momenta up to some hundred kg m/s or kg m²/s.
INVARIANT = 1e-8


@pytest.mark.parametrize("name", cases(MODELS, MODELS.keys() - {"soft governor"}))
def test_starts_hold_all_joints(name):
    model = MODELS[name]

    @jax.jit
    def evaluated():
        system, state = model.build()
        jacobian = system.constraint_jacobian(jnp.zeros(()), state.q)
        spectrum = jnp.linalg.svd(jacobian, compute_uv=False)
        return system.constraint(jnp.zeros(()), state.q), jacobian @ state.v, spectrum

    constraint, rate, spectrum = evaluated()
    none = np.zeros(model.constraints)
    assert_allclose(constraint, none, rtol=0, atol=CONSISTENT)
    assert_allclose(rate, none, rtol=0, atol=CONSISTENT)
    # Dependent constraints would have singular values of rounding, some 1e-16.
    assert np.all(np.asarray(spectrum) > 1e-3)


RUNS = [(name, formulation) for name in MODELS for formulation in (R3SO3, SE3, MINIMAL)]
# Its 24 joint coordinates are those of free bodies.
RUNS.remove(("compliant governor", MINIMAL))


def _invariants(name: str, system, q, v):
    """Quantities that no motion changes."""
    energy = system.kinetic_energy(q, v) + system.potential_energy(q)
    linear, angular = system.momentum(q, v)
    about_z = angular[2:]
    return {
        "pendulum": [energy[None], about_z],
        "ball": [energy[None], linear, angular],
        "hinge": [energy[None], linear, angular],
        "bars": [energy[None]],
    }.get(name, [about_z])


@pytest.mark.full
@pytest.mark.parametrize(("name", "formulation"), RUNS)
def test_reference_solutions_and_invariants(name, formulation):
    model = MODELS[name]
    times = np.asarray(list(model.reference))
    apart = float(np.min(np.diff(times, prepend=0.0)))
    every = round(apart / model.step)
    steps = round(times[-1] / apart) * every

    @jax.jit
    def simulated():
        system, state = model.build(formulation)
        run = lie_jax.simulate(
            system, lie_jax.RKMK("rk67"), state, dt=model.step, steps=steps, save=every,
            throw=False,
        )  # fmt: skip
        kept = jax.vmap(lambda q, v: jnp.concatenate(_invariants(name, system, q, v)))
        return jax.vmap(lambda q, v: model.read(system, q, v))(run.q, run.v), kept(run.q, run.v)

    observed, kept = (np.asarray(x) for x in simulated())
    places = np.round(times / apart).astype(int)
    expected = np.asarray(list(model.reference.values()))
    assert_allclose(observed[places], expected, rtol=0, atol=TRUTH)
    assert_allclose(kept, np.tile(kept[:1], (len(kept), 1)), rtol=0, atol=INVARIANT)


METHODS = {
    "rk4": (lie_jax.RKMK("rk4"), 4),
    "generalized-alpha": (lie_jax.GeneralizedAlpha(0.9), 2),
    "RATTLie": (lie_jax.RATTLie(), 2),
}
# Steps in the time up to the first instant of the reference solution, for each order.
COUNTS = {
    "pendulum": {4: (400, 800), 2: (800, 1600)},
    "ball": {4: (50, 100), 2: (400, 800)},
    "hinge": {4: (100, 200), 2: (800, 1600)},
    "bars": {4: (50, 100), 2: (200, 400)},
    "soft governor": {4: (40, 80), 2: (200, 400)},
}
# Errors of twice the steps are smaller by 2 to the order, but for those of the next order.
ORDER_SLACK = 0.15


@pytest.mark.full
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", COUNTS)
def test_methods_have_their_orders(name, method):
    model, (integrator, order) = MODELS[name], METHODS[method]
    system, state = model.build()
    end, expected = next(iter(model.reference.items()))
    errors = []
    for count in COUNTS[name][order]:
        last = march(system, integrator, state, end / count, count).state
        gap = np.asarray(model.read(system, last.q, last.v)) - np.asarray(expected)
        errors.append(np.linalg.norm(gap))
    assert abs(np.log2(errors[0] / errors[1]) - order) < ORDER_SLACK, errors


# A parameter of each model, with its value.
PARAMETERS = {
    "pendulum": ("length", np.asarray(spherical_pendulum.LENGTH)),
    "ball": ("sides", np.asarray(floating_bodies.SIDES)),
    "hinge": ("rate", np.asarray(floating_bodies.RATE)),
    "bars": ("span", np.asarray(three_bars.SPAN)),
    "soft governor": ("stiffness", np.asarray(governor.SOFT_STIFFNESS)),
    "compliant governor": ("joint_stiffness", np.asarray(governor.JOINT_STIFFNESS)),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_differences(name):
    """Derivative along a change of all entries of a parameter, relative to their values."""
    model, (parameter, value) = MODELS[name], PARAMETERS[name]
    step = min(4.0 * model.step, 2e-3)

    def read(factor):
        system, state = model.build(**{parameter: factor * value})
        run = lie_jax.simulate(
            system, lie_jax.RKMK("rk4"), state, dt=step, steps=100, save=100, throw=False
        )
        # The third number is the rate of the light shaft, whose rounding differences enlarge.
        seen = model.read(system, run.q[-1], run.v[-1]).reshape(-1)
        return seen[0] - 0.3 * seen[1]

    around = jnp.asarray([1.0 - 1e-3, 1.0 + 1e-3, 1.0 - 2e-3, 1.0 + 2e-3])
    gradient, near = jax.jit(lambda: (jax.grad(read)(1.0), jax.lax.map(read, around)))()
    # Central differences with the error of the step's square taken out.
    first, second = (near[1] - near[0]) / 2e-3, (near[3] - near[2]) / 4e-3
    expected = (4.0 * first - second) / 3.0
    # The least is that of the bushings, stiff beside all else.
    assert abs(gradient) > 1e-5, gradient
    assert_allclose(gradient, expected, rtol=1e-8, atol=0.0)
