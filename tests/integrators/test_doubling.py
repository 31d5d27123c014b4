"""Automatic steps of generalized-α: errors, sizes, derivatives of the accepted steps, refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.integrators.doubling import Doubled
from lie_jax.spaces.base import Rn
from lie_jax.systems.system import AbstractSystem
from models import heavy_top, puma560, rotor, slider_crank
from tests import mechanisms
from tests.suites import cases
from tests.systems import PERICENTRE, Kepler, OnALine

ALPHA = lie_jax.GeneralizedAlpha(index=2)
TOLERANCES = 10.0 ** -np.arange(3.0, 9.5)
# Steps of second order have the size tolerance^(1/3), and errors of a run the size h². Errors of
# single runs scatter about that line where parts of them change sign. Stiff controllers forget
# errors: those of the Puma are of the last steps alone, which fall with the tolerance itself.
SLOPES = {"rotor": (0.6, 0.73), "slider-crank": (0.6, 0.77), "puma": (0.6, 1.05)}
SCATTER = 0.5


def _run(system, state, end, tolerance, dt=1e-3, steps=4000, method=ALPHA):
    adaptive = lie_jax.Adaptive(rtol=tolerance, atol=tolerance)
    return lie_jax.simulate(
        system,
        method,
        state,
        dt=dt,
        steps=steps,
        adaptive=adaptive,
        save=jnp.asarray([end]),
        throw=False,
    )


def _rotor(run, system):
    return rotor.observed_point(system, run.q[-1]) - jnp.asarray(rotor.REFERENCE[0.01])


def _crank(run, system):
    angle, rate, *_ = slider_crank.REFERENCE[1.0]
    turned = slider_crank.crank_angle(system, run.q[-1]) - angle
    speed = jnp.linalg.norm(system.twists(run.q[-1], run.v[-1])[0, 3:])
    return jnp.stack([jnp.remainder(turned + jnp.pi, 2 * jnp.pi) - jnp.pi, speed - rate])


def _puma(run, system):
    return run.q[-1] - jnp.asarray(puma560.REFERENCE[0.5][0])


SYSTEMS = {
    "rotor": (rotor.build, 0.01, 1e-6, 8000, _rotor),
    "slider-crank": (lambda: slider_crank.build(lie_jax.R3SO3()), 1.0, 1e-3, 4000, _crank),
    "puma": (lambda: puma560.build(lie_jax.Minimal()), 0.5, 1e-4, 4000, _puma),
}


@pytest.mark.full
@pytest.mark.parametrize("name", SYSTEMS)
def test_errors_follow_the_tolerance_over_six_decades(name):
    build, end, dt, steps, error = SYSTEMS[name]
    system, state = build()
    errors = []
    for tolerance in TOLERANCES:
        run = _run(system, state, end, tolerance, dt, steps)
        assert run.result == lie_jax.Result.successful
        errors.append(np.linalg.norm(error(run, system)))
    line = np.polyfit(np.log10(TOLERANCES), np.log10(errors), 1)
    assert SLOPES[name][0] < line[0] < SLOPES[name][1], line
    away = np.log10(errors) - np.polyval(line, np.log10(TOLERANCES))
    assert np.max(np.abs(away)) < SCATTER, away


@pytest.mark.full
def test_a_fast_phase_takes_half_the_solutions_of_steps_of_one_size():
    """Each attempt has three solutions; the error of fixed steps falls as their number squared."""
    system, method, period = Kepler(jnp.asarray(1.0)), lie_jax.GeneralizedAlpha(), 2.0 * np.pi
    run = _run(system, PERICENTRE, period, 1e-6, method=method)
    error = np.linalg.norm(run.q[-1] - PERICENTRE.q)
    taken = 3 * int(run.stats.completed_steps + run.stats.rejected_steps)
    count = 2 * taken
    fixed = lie_jax.simulate(system, method, PERICENTRE, dt=period / count, steps=count)
    assert error < np.linalg.norm(fixed.q[-1] - PERICENTRE.q)


class Shaken(OnALine):
    """A point that a force of the time pushes: its acceleration is cos(t)."""

    def force(self, t, q, v, u=None):
        return jnp.cos(t) * jnp.ones_like(q)


def test_both_halves_of_a_step_read_the_time():
    run = _run(Shaken(), lie_jax.State(jnp.zeros(1), jnp.zeros(1)), 2.0, 1e-6, dt=1e-2)
    assert run.result == lie_jax.Result.successful
    # Steps follow the tolerance to the power 1/3: some 100 of them. Errors of single steps add up.
    assert_allclose(run.q[-1], 1.0 - np.cos(2.0), rtol=0, atol=1e-4)
    assert int(run.stats.completed_steps) < 400


@eqx.filter_jit
def _ends(system, state, sizes):
    """Configuration after steps of these sizes (s)."""
    method, start = Doubled(ALPHA, 2), jnp.zeros(())

    def step(now, dt):
        t, state, carry = now
        step = method.step(system, t, dt, state, carry, None)
        return (t + dt, step.state, step.carry), None

    carry = method.init(system, start, sizes[0], state, None)
    (_, end, _), _ = jax.lax.scan(step, (start, state, carry), sizes)
    return end.q


END, COUNT = 0.05, 40


def _top(gravity):
    return heavy_top.build(constrained=True, gravity=(0.0, 0.0, gravity))


def _top_end(gravity):
    system, state = _top(gravity)
    adaptive = lie_jax.Adaptive(rtol=1e-4, atol=1e-4)
    return lie_jax.simulate(
        system, ALPHA, state, dt=1e-3, steps=COUNT, adaptive=adaptive, t_end=END, throw=False
    )


@pytest.mark.full
def test_derivatives_are_those_of_the_steps_taken():
    """Against differences of the same steps, in both modes and for a batch."""
    at, gap = -9.81, 1e-3
    run = _top_end(at)
    count = int(run.stats.completed_steps)
    sizes = jnp.diff(run.t[: count + 1])
    ends = [_ends(*_top(at + k * gap), sizes) for k in (-2, -1, 1, 2)]
    assert_allclose(_ends(*_top(at), sizes), run.q[count], atol=1e-12)
    exact = np.asarray([1.0, -8.0, 8.0, -1.0]) @ np.asarray(ends) / (12.0 * gap)

    def end(gravity):
        return _top_end(gravity).q[count]

    for slopes in (jax.jit(jax.jacfwd(end))(at), jax.jit(jax.jacrev(end))(at)):
        assert_allclose(slopes, exact, atol=1e-7 * np.max(np.abs(exact)))


class Pushed(AbstractSystem):
    """A unit mass on a spring of 1e9 N/m, pushed by 1000 N from 1 s on, and another one, free."""

    @property
    def space(self):
        return Rn(2)

    def mass_matrix(self, q):
        return jnp.eye(2, dtype=q.dtype)

    def force(self, t, q, v, u):
        return jnp.stack([-1e9 * q[0] + jnp.where(t > 1.0, 1000.0, 0.0), 0.0 * q[0]])


@pytest.mark.parametrize("newton", cases(["full", "modified"], []))
def test_a_short_step_does_not_take_the_matrix_of_a_long_one(newton):
    """With that matrix the first correction of the spring is so small that it seems converged."""
    short = 1e-5
    adaptive = lie_jax.Adaptive(rtol=1e-6, atol=1e-6)
    run = lie_jax.simulate(
        Pushed(), lie_jax.GeneralizedAlpha(0.8, newton=newton), lie_jax.State([0.0, 0.0], [0, 1.0]),
        dt=0.1, steps=2000, adaptive=adaptive, save=jnp.asarray([1.0, 1.0 + short]),
    )  # fmt: skip
    exact = 1e-6 * 1e9**0.5 * np.sin(1e9**0.5 * short)
    assert_allclose(run.v[-1, 0], exact, rtol=1e-2)


class Breaking(Pushed):
    def force(self, t, q, v, u):
        return jnp.where(t > 0.5, jnp.nan, -q)


@pytest.mark.full
def test_a_run_whose_smallest_step_fails_says_so():
    adaptive = lie_jax.Adaptive()
    with pytest.raises(lie_jax.SimulationError, match=r"smallest step.*t = 0\.5 s") as error:
        lie_jax.simulate(
            Breaking(), lie_jax.GeneralizedAlpha(), lie_jax.State([1.0, 0.0], [0.0, 0.0]),
            dt=1e-2, steps=500, adaptive=adaptive, t_end=1.0,
        )  # fmt: skip
    assert error.value.trajectory.result == lie_jax.Result.newton_failed


@pytest.mark.full
def test_members_of_a_batch_have_derivatives_of_their_own():
    def height(gravity):
        run = _top_end(gravity)
        return run.q[run.stats.completed_steps, 2]

    loads = jnp.asarray([-9.81, -20.0])
    batch = jax.jit(jax.grad(lambda g: jnp.sum(jax.vmap(height)(g) ** 2)))(loads)
    single = [jax.grad(lambda g: height(g) ** 2)(load) for load in loads]
    assert_allclose(batch, single, rtol=1e-9)


@pytest.mark.full
def test_joints_of_all_kinds_hold():
    """A redundant door, and a top in coordinates with a singularity."""
    for system, state in (
        mechanisms.door(2),
        heavy_top.build(lie_jax.TaitBryan(), constrained=True, omega_body=(0.3, 5.0, 1.0)),
    ):
        run = _run(system, state, 0.2, 1e-6)
        assert run.result in (lie_jax.Result.successful, lie_jax.Result.redundant)
        assert_allclose(system.constraint(0.2, run.q[-1]), 0.0, atol=1e-14)
        assert_allclose(system.constraint_rate(0.2, run.q[-1], run.v[-1]), 0.0, atol=1e-13)
        exact = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=5e-4, steps=400)
        # A hundred times the tolerance: some fifty steps, and motions that grow apart.
        assert_allclose(run.q[-1], exact.q[-1], atol=1e-4)
        assert_allclose(run.multipliers[-1], exact.multipliers[-1], rtol=1e-2, atol=1e-2)


def test_index_3_with_constraints_is_refused():
    system, state = mechanisms.door(1)
    with pytest.raises(ValueError, match=r"one size.*GeneralizedAlpha\(index=2\)"):
        _run(system, state, 0.1, 1e-4, method=lie_jax.GeneralizedAlpha())
