"""Integrators have their orders and follow references of other codes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.integrators.tableaux import TABLEAUX
from models import heavy_top
from tests import golden, mechanisms
from tests.runs import ORDER_SLACK, orders, top_centers, top_errors
from tests.suites import cases
from tests.systems import OSCILLATOR, OSCILLATOR_START

# Two ways to store one motion differ by rounding over 10 000 and more steps.
STORAGE_AGREEMENT = 1e-11
REFERENCE = np.asarray(heavy_top.REFERENCE[0.1])


def test_rkmk4_on_the_heavy_top_has_order_four():
    errors = top_errors(lie_jax.R3SO3(), lie_jax.RKMK("rk4"), (10_000, 20_000), 1.0)
    # The C++ code behind [S3] has 1.7e-8 with the same method and step.
    assert errors[0] < 3e-8
    assert np.all(np.abs(orders(errors) - 4.0) < ORDER_SLACK), errors


def _ends(coordinates, counts, constrained):
    formulation = lie_jax.R3SO3(coordinates=coordinates)
    return top_centers(formulation, lie_jax.GeneralizedAlpha(0.9), counts, 0.1, constrained)


# `make test` has its order with index 2, and iteration counts with index 3.
@pytest.mark.full
@pytest.mark.parametrize("constrained", [False, True])
def test_generalized_alpha_has_order_two(constrained):
    errors = np.linalg.norm(_ends("quaternion", (400, 800, 1_600), constrained) - REFERENCE, axis=1)
    assert np.all(np.abs(orders(errors) - 2.0) < ORDER_SLACK), errors


# `make test` has maps and equations of motion in rotation vectors.
@pytest.mark.full
@pytest.mark.parametrize("constrained", [False, True])
def test_generalized_alpha_has_order_two_in_the_other_storage(constrained):
    """It follows so closely; the experiment `heavy_top` runs it at all sizes."""
    both = (_ends(name, (400, 1_600), constrained) for name in ("quaternion", "rotation_vector"))
    assert_allclose(*both, atol=STORAGE_AGREEMENT)


# `make test` holds each map to its definition, and one method of order four on Cayley's.
@pytest.mark.full
@pytest.mark.parametrize(
    "formulation",
    [
        lie_jax.SE3(coordinates="rotation_vector"),
        lie_jax.SE3(chart="cayley"),
        lie_jax.R3SO3(coordinates="rotation_vector", chart="cayley"),
        lie_jax.R3SO3(chart="cayley2"),
    ],
    ids=lambda f: f"{type(f).__name__}, {f.coordinates}, {f.chart}",
)
def test_other_transition_maps_follow_the_reference(formulation):
    # RKMK4 errs by 2e-8 at this step, generalized-α by up to 2.4e-4.
    assert top_errors(formulation, lie_jax.RKMK("rk4"), (500,)) < 1e-7
    assert top_errors(formulation, lie_jax.GeneralizedAlpha(0.9), (500,), constrained=True) < 1e-3


@pytest.mark.parametrize("name", cases(["rk3", "dopri5"], []))
def test_on_a_vector_space_rkmk_is_the_classical_method(name):
    a, b, c = TABLEAUX[name][:3]
    h, steps = 0.05, 4
    acceleration = jax.jit(lambda t, q, v: OSCILLATOR.acceleration(t, q, v))

    def rates(t, y):
        q, v = y[:2], y[2:]
        return np.concatenate([v, acceleration(t, q, v)])

    y = np.concatenate([OSCILLATOR_START.q, OSCILLATOR_START.v])
    for n in range(steps):
        k = []
        for row, node in zip(a, c, strict=True):
            stage = y + h * sum((float(w) * ki for w, ki in zip(row, k, strict=True)), 0.0 * y)
            k.append(rates((n + float(node)) * h, stage))
        y = y + h * sum(float(w) * ki for w, ki in zip(b, k, strict=True))
    for method in (lie_jax.RKMK(name), lie_jax.RungeKutta(name)):
        got = lie_jax.simulate(OSCILLATOR, method, OSCILLATOR_START, dt=h, steps=steps)
        assert_allclose(np.concatenate([got.q[-1], got.v[-1]]), y, rtol=1e-13)


@pytest.mark.full
def test_a_free_body_meets_other_simulators():
    """A free body against the golden end state of SciPy and MuJoCo."""
    case = golden.SIMULATORS["free_body"]
    body = lie_jax.Body("b", 1.0, np.diag(case["inertia"]), omega_body=case["omega0_body"])
    system, state = lie_jax.assemble(lie_jax.Mechanism([body]), lie_jax.SE3())
    errors = []
    for saved, steps in ((1, 128), (2, 256)):
        # The coarse run goes on to twice the time: the same program serves both.
        trajectory = lie_jax.simulate(
            system, lie_jax.RKMK("rk4"), state, dt=case["T"] / steps, steps=256, save=128
        )
        q, golden_q = np.asarray(trajectory.q[saved, 3:]), np.asarray(case["qT_wxyz"])
        errors.append(np.linalg.norm(q * np.sign(q @ golden_q) - golden_q))
    assert abs(np.log2(errors[0] / errors[1]) - 4) < 3 * ORDER_SLACK


@pytest.mark.full
def test_constant_velocity_reproduces_the_exponential():
    """A ball without forces: every method is exact for any step."""
    body = lie_jax.Body(
        "ball", 1.0, np.eye(3), velocity=(0.3, -0.2, 0.5), omega_body=(1.0, -2.0, 0.5)
    )
    mechanism = lie_jax.Mechanism([body], gravity=(0.0, 0.0, 0.0))
    for formulation, integrator in (
        (lie_jax.R3SO3(coordinates="rotation_vector"), lie_jax.RKMK("euler")),
        (lie_jax.R3SO3(), lie_jax.GeneralizedAlpha()),
    ):
        system, state = lie_jax.assemble(mechanism, formulation)
        trajectory = lie_jax.simulate(system, integrator, state, dt=0.1, steps=10)
        exact = jax.jit(system.space.retract)(state.q, trajectory.t[-1] * state.v)
        assert_allclose(trajectory.q[-1], exact, atol=1e-14)


# `make test` compares the chain's accelerations with theirs.
@pytest.mark.full
def test_six_link_chain_follows_other_codes():
    """Generalized-α, extrapolated from two step sizes, against Pinocchio and MuJoCo."""
    case = golden.SIMULATORS["chain6_ball"]
    system, state = mechanisms.ball_chain(lie_jax.R3SO3(), np.linspace(0.3, -0.4, 18).reshape(6, 3))

    def end(saved, steps):
        # The coarse run goes on to twice the time: the same program serves both.
        trajectory = lie_jax.simulate(
            system,
            lie_jax.GeneralizedAlpha(0.9),
            state,
            dt=case["T"] / steps,
            steps=500,
            save=250,
        )
        return np.asarray(trajectory.q[saved]).reshape(6, 7)[:, 3:]

    coarse, fine = end(1, 250), end(2, 500)
    extrapolated = fine + (fine - coarse) / 3.0
    absolute = jnp.asarray(extrapolated / np.linalg.norm(extrapolated, axis=1, keepdims=True))
    q = np.asarray(case["qT_wxyz"]).reshape(6, 4)
    product = lie_jax.groups.quaternion.identity()
    for own, relative in zip(absolute, q, strict=True):
        product = lie_jax.groups.quaternion.multiply(product, jnp.asarray(relative))
        # The fine run errs by 1e-5; extrapolation leaves terms of higher order.
        assert_allclose(own, product, atol=1e-7)


# `make test` has the same with index 2, and the papers' counts.
@pytest.mark.full
def test_constraints_hold_to_rounding_newton_is_counted_and_multipliers_are_the_reaction():
    """Force of the ground on the top, from an independent integration."""
    expected = np.asarray([-361.0560047871155, -295.3931730112258, -212.2671718551193])
    system, state = heavy_top.build(constrained=True)
    steps = 4000
    trajectory = lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(0.9), state, dt=0.1 / steps, steps=steps, save=20
    )
    drift = jax.jit(jax.vmap(system.constraint))(trajectory.t, trajectory.q)
    assert float(jnp.max(jnp.abs(drift))) < 1e-14
    counts = np.asarray(trajectory.stats.newton_iterations)
    assert counts.shape == (steps,)
    assert counts.min() >= 1
    assert counts.max() <= 4
    # The multipliers pull at the ground: the opposite acts on the top. First order at least.
    assert_allclose(-trajectory.multipliers[-1], expected, rtol=1e-3)


def test_settings_are_printed():
    assert "tableau='rk4'" in repr(lie_jax.RKMK("rk4")) and "order=2" in repr(lie_jax.BDF(2))
