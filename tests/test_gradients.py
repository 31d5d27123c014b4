"""Gradients of whole trajectories with respect to the physical parameters and the initial state."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpy.testing import assert_allclose

import lie_jax
from models import heavy_top
from tests.test_integrators import OSCILLATOR, OSCILLATOR_START, Oscillator

# Central differences of sixth order at this step: truncation and rounding both stay below 1e-8.
DIFFERENCE_STEP = 1e-4
AGREEMENT_WITH_DIFFERENCES = 1e-7
AGREEMENT_OF_MODES = 1e-12
STEPS = 200

CASES = {
    "RKMK4": (False, lie_jax.RKMK("rk4"), lie_jax.R3SO3()),
    "generalized-α": (True, lie_jax.GeneralizedAlpha(0.9), lie_jax.R3SO3()),
    "generalized-α, free": (False, lie_jax.GeneralizedAlpha(0.9), lie_jax.R3SO3()),
    "generalized-α, SE(3), rotation vector": (
        True,
        lie_jax.GeneralizedAlpha(0.9),
        lie_jax.SE3(coordinates="rotation_vector"),
    ),
}

PARAMETERS, UNRAVEL = ravel_pytree(
    {
        "mass": jnp.asarray(heavy_top.MASS),
        "inertia": jnp.diag(jnp.asarray(heavy_top.INERTIA)),
        "center_of_mass": jnp.asarray(heavy_top.CENTER_OF_MASS),
        "turn": jnp.asarray([0.1, -0.2, 0.3]),
        "omega_body": jnp.asarray(heavy_top.OMEGA_BODY),
    }
)


def _objective(case, steps=STEPS, **options):
    constrained, integrator, formulation = CASES[case]

    def objective(flat):
        """A number that depends on the whole trajectory."""
        parameters = UNRAVEL(flat)
        turn = parameters.pop("turn")
        system, state = heavy_top.build(
            formulation,
            constrained=constrained,
            orientation=lie_jax.quaternion.exp(turn),
            **parameters,
        )
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=1e-3, steps=steps, throw=False, **options
        )
        centers = jax.vmap(lambda q: heavy_top.center_of_mass(system, q))(trajectory.q)
        return (
            jnp.sum(jnp.sin(3.0 * centers))
            + 1e-3 * jnp.sum(trajectory.v**2)
            + 1e-4 * jnp.sum(trajectory.multipliers)
        )

    return objective


@functools.cache
def _compiled(case):
    """Value and gradient of a single run, and values of a batch."""
    objective = _objective(case)
    return jax.jit(jax.value_and_grad(objective)), jax.jit(jax.vmap(objective))


# Differences at three distances on both sides, all in one batch; others keep to its size.
WEIGHTS = {1: 45, 2: -9, 3: 1, -1: -45, -2: 9, -3: -1}
BATCH = len(WEIGHTS) * len(PARAMETERS)


def _scaled_error(got, expected):
    return np.max(np.abs(np.asarray(got) - np.asarray(expected))) / np.max(np.abs(expected))


def _errors_by_parameter(got, expected):
    """Each parameter's largest error, relative to its own largest derivative."""
    return {k: _scaled_error(v, UNRAVEL(expected)[k]) for k, v in UNRAVEL(got).items()}


@pytest.mark.parametrize(
    "case",
    [
        "RKMK4",
        "generalized-α",
        "generalized-α, free",
        pytest.param("generalized-α, SE(3), rotation vector", marks=pytest.mark.slow),
    ],
)
def test_gradients_agree_with_differences_and_with_each_other(case):
    single, many = _compiled(case)
    forward = jax.jit(jax.jacfwd(_objective(case)))(PARAMETERS)
    _, reverse = single(PARAMETERS)
    for name, error in _errors_by_parameter(reverse, forward).items():
        assert error < AGREEMENT_OF_MODES, name
    shifts = DIFFERENCE_STEP * np.kron(np.asarray(list(WEIGHTS))[:, None], np.eye(len(PARAMETERS)))
    values = many(PARAMETERS[None] + shifts).reshape(len(WEIGHTS), -1)
    estimate = np.asarray(list(WEIGHTS.values())) @ np.asarray(values) / (60 * DIFFERENCE_STEP)
    for name, error in _errors_by_parameter(forward, jnp.asarray(estimate)).items():
        assert error < AGREEMENT_WITH_DIFFERENCES, name


@pytest.mark.parametrize("case", ["RKMK4", "generalized-α"])
def test_a_batch_equals_single_runs(case):
    single, many = _compiled(case)
    rng = np.random.default_rng(0)
    sets = PARAMETERS[None] * (1.0 + 1e-2 * jnp.asarray(rng.normal(size=(BATCH, len(PARAMETERS)))))
    # Rounding of another order of summation, grown over the trajectory.
    assert_allclose(many(sets), [single(p)[0] for p in sets], rtol=1e-11)


@pytest.mark.parametrize("integrator", [lie_jax.RKMK(), lie_jax.GeneralizedAlpha()])
def test_checkpoints_change_memory_not_gradients(integrator):
    def gradient(checkpoint):
        def objective(stiffness):
            trajectory = lie_jax.simulate(
                Oscillator(stiffness), integrator, OSCILLATOR_START, dt=0.05, steps=50,
                save_every=2, throw=False, checkpoint=checkpoint,
            )  # fmt: skip
            return jnp.sum(trajectory.q**3)

        return jax.jit(jax.grad(objective))(OSCILLATOR.stiffness)

    expected = gradient(None)
    for checkpoint in (7, 50):
        assert _scaled_error(gradient(checkpoint), expected) < AGREEMENT_OF_MODES


def test_checkpoints_save_memory():
    def reserved(checkpoint):
        def objective(stiffness):
            trajectory = lie_jax.simulate(
                Oscillator(stiffness), lie_jax.RKMK(), OSCILLATOR_START, dt=0.05, steps=4000,
                save_every=4000, throw=False, checkpoint=checkpoint,
            )  # fmt: skip
            return jnp.sum(trajectory.q[-1])

        compiled = jax.jit(jax.grad(objective)).lower(OSCILLATOR.stiffness).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert reserved(64) < reserved(None) / 8


def test_second_derivatives_through_newton_agree_with_differences_of_gradients():
    objective = _objective("generalized-α", steps=20)
    direction = jnp.asarray(np.random.default_rng(3).normal(size=len(PARAMETERS)))

    # The gradient itself is computed on the way: one program serves the differences too.
    @jax.jit
    def gradient_and_product(p):
        return jax.jvp(jax.grad(objective), (p,), (direction,))

    _, product = gradient_and_product(PARAMETERS)
    h = 1e-5
    ahead, behind = (gradient_and_product(PARAMETERS + k * h * direction)[0] for k in (1, -1))
    assert _scaled_error(product, (ahead - behind) / (2 * h)) < 1e-6
