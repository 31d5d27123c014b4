"""Automatic step sizes: errors on the group, controllers, saving, derivatives, bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lie_jax
from lie_jax.integrators import step_size as control
from models import heavy_top
from tests.suites import cases
from tests.systems import PERICENTRE, Kepler, OnALine

TIMES = (0.1, 0.5)
DOPRI5 = lie_jax.RKMK("dopri5")


def _top(coordinates="quaternion", throw=True, **options):
    system, state = heavy_top.build(lie_jax.R3SO3(coordinates=coordinates))
    adaptive = lie_jax.Adaptive(**options)
    trajectory = lie_jax.simulate(
        system, DOPRI5, state, dt=1e-4, steps=1500, adaptive=adaptive, throw=throw, save=TIMES
    )
    return system, trajectory


def _top_error(system, trajectory):
    ends = jax.jit(jax.vmap(lambda q: heavy_top.center_of_mass(system, q)))(trajectory.q[1:])
    return np.linalg.norm(np.asarray(ends) - [heavy_top.REFERENCE[t] for t in TIMES], axis=1)


def test_given_times_are_met_and_errors_follow_the_tolerance():
    errors, counts = [], []
    for tolerance in (1e-6, 1e-9):
        system, trajectory = _top(rtol=tolerance, atol=tolerance)
        assert_array_equal(trajectory.t, [0.0, *TIMES])
        assert_array_equal(trajectory.stats.end_time, TIMES[-1])
        errors.append(_top_error(system, trajectory))
        counts.append(int(trajectory.stats.completed_steps))
    # An error per step of the tolerance, over some hundred steps of a motion that amplifies it.
    assert np.all(errors[0] < 100 * 1e-6), errors
    assert np.all(errors[1] < 100 * 1e-9), errors
    # Order 5: a thousandth of the error for some 1000**(1/5) = 4 times the steps.
    assert 3.0 < counts[1] / counts[0] < 5.0, counts


@pytest.mark.full
def test_errors_do_not_depend_on_how_an_orientation_is_stored():
    """Rotation vectors jump at π, many times in this run; the difference on the group does not."""
    counts = [
        int(_top(coordinates, rtol=1e-6, atol=1e-6)[1].stats.completed_steps)
        for coordinates in ("quaternion", "rotation_vector")
    ]
    assert counts[0] == counts[1] > 200


def _orbit(attraction=1.0, steps=300, integrator=DOPRI5, throw=True, **options):
    options = {"end": 2.0 * np.pi, "rtol": 1e-8, "atol": 1e-8} | options
    end, saved = options.pop("end"), options.pop("times", 1)
    return lie_jax.simulate(
        Kepler(jnp.asarray(attraction)),
        integrator,
        PERICENTRE,
        dt=0.5,
        steps=steps,
        t_end=end,
        save=saved,
        adaptive=lie_jax.Adaptive(**options),
        throw=throw,
    )


def test_every_accepted_step_is_saved():
    orbit = _orbit()
    n = int(orbit.stats.completed_steps)
    rejected = int(orbit.stats.rejected_steps)
    assert orbit.t.shape == (301,)
    assert orbit.q.shape == orbit.acceleration.shape == (301, 2)
    assert np.all(np.isnan(orbit.t[n + 1 :])) and np.all(np.isnan(orbit.q[n + 1 :]))
    steps = np.diff(orbit.t[: n + 1])
    assert np.all(steps > 0.0) and orbit.t[n] == 2.0 * np.pi
    # The first step was far too long for the pericentre, where steps are shortest.
    assert rejected > 0
    assert steps.max() / steps.min() > 5.0
    assert_allclose(orbit.q[n], PERICENTRE.q, atol=1e-5)
    assert_allclose(orbit.acceleration[n], [-1.0 / 0.3**2, 0.0], atol=1e-3)
    assert bool(orbit.result == lie_jax.Result.successful)


@pytest.mark.parametrize("controller", cases(["pi", "integral"], ["pi"]))
def test_each_accepted_step_meets_the_tolerance_and_follows_from_the_controller(controller):
    """The run again, step by step, with the error of [S3] Appendix B written out."""
    orbit = _orbit(controller=controller)
    n = int(orbit.stats.completed_steps)
    tableau_error = jax.jit(_written_out_error)
    errors = [
        float(tableau_error(orbit.q[i], orbit.v[i], orbit.t[i + 1] - orbit.t[i])) for i in range(n)
    ]
    assert max(errors) <= 1.0
    sizes = np.diff(orbit.t[: n + 1])
    grown = [i for i in range(2, n - 3) if errors[i] > 0.0]
    for i in grown:
        factor = _factor(controller, errors, i)
        # Not where the next step was rejected first, or the end was near.
        if sizes[i + 1] >= sizes[i] and factor >= 1.0:
            assert sizes[i + 1] <= min(factor, 4.0) * sizes[i] * (1 + 1e-6)
    exact = [
        i for i in grown
        if abs(sizes[i + 1] / sizes[i] - _factor(controller, errors, i)) < 1e-6
    ]  # fmt: skip
    assert len(exact) > 0.8 * len(grown), (len(exact), len(grown))


def _factor(controller, errors, i):
    if controller == "pi":
        # Hairer's DOPRI5: β = 0.04 and α = 1/5 - 3/4 β.
        return 0.9 * errors[i] ** -0.17 * errors[i - 1] ** 0.04
    return 0.9 * errors[i] ** (-1 / 5)


def _written_out_error(q, v, h):
    """(B16)-(B18) for one step of Dormand and Prince on the plane."""
    tableau = DOPRI5_COEFFICIENTS
    y, k = jnp.concatenate([q, v]), []
    for row in tableau.a:
        stage = y + h * sum((float(w) * ki for w, ki in zip(row, k, strict=True)), 0.0 * y)
        k.append(jnp.concatenate([stage[2:], -stage[:2] / jnp.sum(stage[:2] ** 2) ** 1.5]))
    end = y + h * sum(float(w) * ki for w, ki in zip(tableau.b, k, strict=True))
    other = y + h * sum(float(w) * ki for w, ki in zip(tableau.embedded, k, strict=True))
    scale = 1e-8 + 1e-8 * jnp.maximum(jnp.abs(y), jnp.abs(end))
    return jnp.sqrt(jnp.mean(((end - other) / scale) ** 2))


DOPRI5_COEFFICIENTS = lie_jax.integrators.tableaux.TABLEAUX["dopri5"]


@pytest.mark.full
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_are_those_of_the_steps_taken(order):
    """To first order in a batch; to second order in both modes."""

    def end(attraction):
        orbit = _orbit(attraction, 1500, end=3.0, rtol=1e-12, atol=1e-12, throw=False)
        return orbit.q[orbit.stats.completed_steps, 0]

    at, step = jnp.asarray(1.1), 2e-4
    around = at + step * jnp.asarray([-2.0, -1.0, 0.0, 1.0, 2.0])
    if order == 1:
        # Members of the batch choose between branches that a single run takes.
        values, reverses = jax.jit(jax.vmap(jax.value_and_grad(end)))(around)
        reverse = reverses[2]
    else:
        # Reverse mode, forward mode and forward over reverse in one program.
        (_, reverse), (forward, twice) = jax.jit(
            lambda at: jax.jvp(jax.value_and_grad(end), (at,), (jnp.ones_like(at),))
        )(at)
        assert_allclose(reverse, forward, rtol=1e-11)
        values = jax.jit(jax.vmap(end))(around)
        second = jnp.asarray([-1.0, 16.0, -30.0, 16.0, -1.0]) @ values / (12.0 * step**2)
        assert_allclose(twice, second, rtol=1e-3)
    first = jnp.asarray([1.0, -8.0, 0.0, 8.0, -1.0]) @ values / (12.0 * step)
    # Steps differ from run to run, by errors of the tolerance.
    assert_allclose(reverse, first, rtol=1e-6)


@pytest.mark.full
def test_members_of_a_batch_choose_their_own_steps():
    attractions = jnp.asarray([0.8, 0.9, 1.0])
    batch = jax.jit(jax.vmap(lambda a: _orbit(a, throw=False)))(attractions)
    for i, attraction in enumerate(attractions):
        single = _orbit(attraction)
        for name in ("completed_steps", "rejected_steps"):
            assert getattr(batch.stats, name)[i] == getattr(single.stats, name)
        assert_allclose(batch.q[i], single.q, atol=1e-10)
    assert len(set(batch.stats.completed_steps.tolist())) > 1


@pytest.mark.full
def test_gradients_go_through_a_batch():
    """Against those of single runs: a batch chooses between branches that a single run takes."""

    def end(attraction):
        times = jnp.asarray([0.3])
        return _orbit(attraction, 30, end=None, times=times, rtol=1e-4, throw=False).q[-1, 0]

    attractions = jnp.asarray([0.8, 1.0])
    batch = jax.jit(jax.grad(lambda a: jnp.sum(jax.vmap(end)(a))))(attractions)
    single = jax.jit(jax.grad(end))
    assert_allclose(batch, [single(a) for a in attractions], rtol=1e-12)


def test_a_run_that_hits_its_bound_says_where_and_keeps_what_it_has():
    with pytest.raises(lie_jax.SimulationError, match="bound of steps=300") as caught:
        _orbit(rtol=1e-13, atol=1e-13)
    kept = caught.value.trajectory
    n = int(kept.stats.completed_steps)
    assert 0 < n <= 300 and bool(kept.result == lie_jax.Result.step_bound)
    assert np.all(np.isfinite(kept.q[: n + 1])) and kept.stats.end_time == kept.t[n]
    assert f"{float(kept.t[n]):.6g}" in str(caught.value)
    system, cut = _top(throw=False, rtol=1e-12, atol=1e-12)
    assert cut.t[1] == TIMES[0] and np.isnan(cut.t[2])
    assert 0.1 < cut.stats.end_time < 0.5
    assert_allclose(_top_error(system, cut)[0], 0.0, atol=1e-7)


@pytest.mark.full
def test_a_law_that_every_step_size_leaves_is_named_with_the_smallest_one():
    """A slider falls through the anchor of its spring; the first step size has no part in it."""
    slider = lie_jax.Body("slider", 1.0, 0.1 * np.eye(3), position=(1.0, 0.0, 0.0))
    guide = lie_jax.PrismaticJoint("ground", "slider", (1.0, 0.0, 0.0))
    spring = lie_jax.LinearSpringDamper("ground", "slider", 1.0, 0.0, length=1e-3)
    mechanism = lie_jax.Mechanism([slider], [guide], [spring], gravity=(-5.0, 0.0, 0.0))
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    adaptive = lie_jax.Adaptive()
    words = r"LinearSpringDamper.*smaller dt_min"
    with pytest.raises(lie_jax.SimulationError, match=words) as error:
        lie_jax.simulate(system, DOPRI5, state, dt=0.01, steps=200, adaptive=adaptive, t_end=2.0)
    assert "it is 0.01 s" not in str(error.value)


def test_a_smallest_step_that_is_too_large_ends_the_run():
    with pytest.raises(lie_jax.SimulationError, match="times the tolerance with the smallest step"):
        _orbit(dt_min=0.1, dt_max=10.0)
    trajectory = _orbit(dt_min=0.1, dt_max=10.0, throw=False)
    assert bool(trajectory.result == lie_jax.Result.minimum_step)
    assert trajectory.stats.residual > 1.0


def test_a_smallest_step_is_recognised_next_to_the_end():
    run = _orbit(end=1.005e-1, dt_min=1e-1, dt_max=1e-1, throw=False)
    assert bool(run.result == lie_jax.Result.minimum_step)
    assert int(run.stats.rejected_steps) == 1


@pytest.mark.full
def test_stops_cost_no_more_than_their_landing():
    """Each may cost a few steps; the sizes between them are those of a run without."""
    free = int(_orbit(end=3.0).stats.completed_steps)
    for controller in ("pi", "integral"):
        stops = np.linspace(0.5, 3.0, 6)
        pairs = np.sort(np.concatenate([stops - 1e-7, stops]))
        run = _orbit(end=None, times=jnp.asarray(pairs), controller=controller)
        assert int(run.stats.completed_steps) < free + 3 * len(pairs), controller


class Ends(lie_jax.extend.Validity):
    def regular(self, q):
        return q[0] < 0.6


class Line(OnALine):
    """Constant speed on a line whose coordinate ends at 0.6 (m)."""

    @property
    def validity(self):
        return Ends(self)

    def force(self, t, q, v, u):
        return 0.0 * v


# `make test` has steps of one size.
@pytest.mark.full
def test_a_singularity_ends_fixed_and_adaptive_runs_with_the_time():
    start = lie_jax.State([0.0], [1.0])
    options = {"dt": 0.25, "steps": 200, "throw": False}
    fixed = lie_jax.simulate(Line(), DOPRI5, start, **options)
    assert bool(fixed.result == lie_jax.Result.singular)
    assert fixed.stats.end_time == 0.5
    assert_allclose(fixed.q[:3, 0], [0.0, 0.25, 0.5])
    adaptive = lie_jax.Adaptive(dt_min=1e-6)
    near = lie_jax.simulate(Line(), DOPRI5, start, adaptive=adaptive, t_end=2.0, **options)
    assert bool(near.result == lie_jax.Result.singular)
    assert_allclose(near.stats.end_time, 0.6, atol=2e-6)
    with pytest.raises(lie_jax.SimulationError, match="singularity of the formulation"):
        lie_jax.simulate(Line(), DOPRI5, start, dt=0.25, steps=4)


def test_factor_without_an_error_and_with_an_infinite_one():
    adaptive = lie_jax.Adaptive()
    one, no = jnp.ones(()), jnp.zeros((), bool)
    for error, expected in ((0.0, 4.0), (jnp.inf, 0.1), (1e12, 0.1)):
        assert control.factor(adaptive, 4, jnp.asarray(error), one, no) == expected
    assert control.factor(adaptive, 4, jnp.asarray(1e-3), one, ~no) == 1.0
