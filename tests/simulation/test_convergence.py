"""Convergence studies show the orders of methods and name runs that fail."""

import math

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.simulation import convergence as convergence_module
from tests.systems import OSCILLATOR, OSCILLATOR_START, Spinner

INTEGRATORS = {
    "RK4": lie_jax.RKMK("rk4"),
    "heun": lie_jax.RKMK("heun"),
    "generalized-α": lie_jax.GeneralizedAlpha(0.9),
}
ORDERS = {"RK4": 4, "heun": 2, "generalized-α": 2}
# Inputs that all runs hold, N.
PUSHED = np.asarray([0.4, -0.9])
# Lines of errors over step sizes are straight to this.
SLACK = 0.06
# Moments of a body that is symmetric about its third axis (kg m²), and its angular velocity.
ACROSS, ALONG, OMEGA = 2.0, 0.7, np.asarray([0.9, -0.4, 3.0])


def _turned(t):
    """The symmetric body after a time t: it turns about its axis and about its angular momentum."""
    moment = np.asarray([ACROSS, ACROSS, ALONG]) * OMEGA
    spin = (1.0 - ALONG / ACROSS) * OMEGA[2]
    about_axis = Rotation.from_rotvec([0.0, 0.0, spin * t])
    rotation = Rotation.from_rotvec(moment / ACROSS * t) * about_axis
    w, (x, y, z) = rotation.as_quat()[3], rotation.as_quat()[:3]
    return lie_jax.State(jnp.asarray([w, x, y, z]), jnp.asarray(about_axis.inv().apply(OMEGA)))


def _spinner():
    system = Spinner(jnp.asarray([ACROSS, ACROSS, ALONG]))
    return system, lie_jax.State(jnp.asarray([1.0, 0.0, 0.0, 0.0]), jnp.asarray(OMEGA))


def test_orders_of_methods_against_a_closed_form():
    system, state = _spinner()
    steps = [20, 40, 80, 160]
    exact = _turned(1.0)
    study = lie_jax.convergence(system, INTEGRATORS, state, 1.0, steps[::-1], reference=exact)
    for name, order in ORDERS.items():
        assert study.configuration_orders[name] == pytest.approx(order, abs=SLACK), name
        assert study.velocity_orders[name] == pytest.approx(order, abs=SLACK), name
    np.testing.assert_array_equal(study.steps, steps)
    np.testing.assert_allclose(study.dt, 1.0 / np.asarray(steps))
    # The norm of the rotation between both ends, rad, and of the difference of velocities.
    run = lie_jax.simulate(system, INTEGRATORS["heun"], state, dt=0.05, steps=20)
    ends = [Rotation.from_quat(np.roll(q, -1)) for q in (exact.q, run.q[-1])]
    turn = (ends[0].inv() * ends[1]).magnitude()
    assert study.configuration_errors["heun"][0] == pytest.approx(turn, rel=1e-8)
    assert study.velocity_errors["heun"][0] == pytest.approx(
        np.linalg.norm(run.v[-1] - exact.v), rel=1e-8
    )
    rows = str(study).splitlines()
    assert len(rows) == len(INTEGRATORS) * (2 + len(steps))
    assert rows[0].startswith(f"RK4: order {study.configuration_orders['RK4']:.2f}")
    assert f"{turn:.3e}" in next(row for row in rows[6:] if row.split()[0] == "20")


@pytest.mark.full
def test_the_most_accurate_integrator_gives_the_reference():
    integrators, steps = list(INTEGRATORS.values()), [40, 80, 160]
    study = lie_jax.convergence(
        OSCILLATOR, integrators, OSCILLATOR_START, 2.0, steps, inputs=PUSHED
    )

    def rate(t, z):
        q, v = z[:2], z[2:]
        return np.concatenate([v, np.asarray(OSCILLATOR.force(t, q, v, PUSHED)) / [2.0, 3.0]])

    start = np.concatenate([OSCILLATOR_START.q, OSCILLATOR_START.v])
    end = solve_ivp(rate, (0.0, 2.0), start, "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    # RK4 with 1280 steps; either second-order method would be off by 1e-6 and more.
    np.testing.assert_allclose(study.reference.q, end[:2], atol=1e-10)
    np.testing.assert_allclose(study.reference.v, end[2:], atol=1e-10)
    names = "RKMK(tableau='rk4')", "RKMK(tableau='heun')", "GeneralizedAlpha"
    assert tuple(study.configuration_errors) == names
    for name, order in zip(names, ORDERS.values(), strict=True):
        assert study.configuration_orders[name] == pytest.approx(order, abs=2 * SLACK), name
    np.testing.assert_allclose(
        study.configuration_errors["GeneralizedAlpha"][0],
        np.linalg.norm(_end(INTEGRATORS["generalized-α"], 40).q[-1] - end[:2]),
        rtol=1e-5,
    )


def _end(integrator, steps):
    return lie_jax.simulate(
        *(OSCILLATOR, integrator, OSCILLATOR_START),
        **{"dt": 2.0 / steps, "steps": steps, "save": steps},
        inputs=np.tile(PUSHED, (steps, 1)),
    )


def test_runs_that_fail_are_named_and_do_not_count():
    # Beyond the limit of stability of RK4 with the first number of steps alone.
    steps = [40, 640, 1280, 2560]
    study = lie_jax.convergence(OSCILLATOR, lie_jax.RKMK(), OSCILLATOR_START, 80.0, steps)
    assert study.failures == {"RKMK": {40: "unstable"}}
    assert np.isnan(study.configuration_errors["RKMK"][0])
    assert np.isfinite(study.configuration_errors["RKMK"][1:]).all()
    assert study.configuration_orders["RKMK"] == pytest.approx(4.0, abs=2 * SLACK)
    assert "unstable" in str(study).splitlines()[2]
    with pytest.raises(ValueError, match=r"no integrator has two runs that succeed.*unstable"):
        lie_jax.convergence(OSCILLATOR, lie_jax.RKMK(), OSCILLATOR_START, 80.0, [30, 40])
    with pytest.raises(ValueError, match=r"RKMK: 40 steps unstable, 640 steps successful\)"):
        lie_jax.convergence(OSCILLATOR, lie_jax.RKMK(), OSCILLATOR_START, 80.0, [40, 640])


def test_rounding_shows_no_order():
    steps = np.asarray([10, 100, 1000, 10_000])
    errors = np.asarray([1e-2, 1e-6, 1e-10, 3e-14])
    assert convergence_module._order(steps, errors, 1e-15) == pytest.approx(4.0)
    # Neither does a tolerance.
    errors = np.asarray([1e-1, 1e-5, 1e-9, 1e-9])
    assert convergence_module._order(steps, errors, 1e-15) == pytest.approx(4.0)
    # Coarse runs whose error changes its sign do not end those that count.
    errors = np.asarray([1e-4, 2e-4, 2e-6, 2e-8])
    assert convergence_module._order(steps, errors, 1e-15) == pytest.approx(2.0)
    # Growing errors have a negative one.
    assert convergence_module._order(steps[:2], errors[:2], 1e-15) == pytest.approx(np.log10(0.5))
    assert math.isnan(convergence_module._order(steps[:1], errors[:1], 1e-15))


def test_bad_studies_are_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    rk4, start = lie_jax.RKMK(), OSCILLATOR_START
    for arguments, message in (
        ((rk4, start, 1.0, [10]), "at least two different numbers"),
        ((rk4, start, 1.0, [10, 2.5]), r"convergence\(steps=\) is 2.5"),
        ((rk4, start, -1.0, [10, 20]), r"t_end=\) is -1.0"),
        (([rk4, rk4], start, 1.0, [10, 20]), "RKMK, RKMK; it must hold different"),
        (("rk4", start, 1.0, [10, 20]), "holds 'rk4'; it must hold integrators"),
        ((rk4, (1, 2), 1.0, [10, 20]), r"convergence\(state=\) is a tuple"),
    ):
        with pytest.raises(ValueError, match=message):
            lie_jax.convergence(OSCILLATOR, *arguments)
    with pytest.raises(ValueError, match="traced by JAX"):
        jax.jit(lambda t: lie_jax.convergence(OSCILLATOR, rk4, start, t, [10, 20]))(1.0)
