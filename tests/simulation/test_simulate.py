"""Runs save, hold inputs, fail and batch as documented."""

import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lie_jax
from lie_jax.simulation.march import march
from models import heavy_top
from tests.systems import OSCILLATOR, OSCILLATOR_START


def _top(constrained, save=1):
    """The system, its initial state and 20 steps of its motion."""
    system, state = heavy_top.build(constrained=constrained)
    integrator = lie_jax.GeneralizedAlpha() if constrained else lie_jax.RKMK()
    return (
        system,
        state,
        lie_jax.simulate(system, integrator, state, dt=1e-3, steps=20, save=save),
    )


def test_every_kth_step_is_saved():
    _, state, every = _top(constrained=True)
    *_, some = _top(constrained=True, save=6)
    assert every.q.shape == (21, 7)
    assert every.multipliers.shape == (21, 3)
    assert some.q.shape == (4, 7)
    assert_allclose(some.t, [0.0, 6e-3, 12e-3, 18e-3], rtol=1e-15)
    # The same steps in another loop: rounding only.
    for name in ("q", "v", "acceleration", "multipliers"):
        assert_allclose(getattr(some, name), getattr(every, name)[::6], atol=1e-8, err_msg=name)
    assert some.stats.newton_iterations.shape == (20,)
    assert_array_equal(some.stats.newton_iterations, every.stats.newton_iterations)
    assert_allclose(every.q[0], state.q)
    assert bool(every.result == lie_jax.Result.successful)
    assert int(every.stats.completed_steps) == 20


@pytest.mark.full
def test_accelerations_obey_the_equations_of_motion():
    for constrained in (False, True):
        system, _, trajectory = _top(constrained)
        residual = jax.jit(jax.vmap(system.residual, in_axes=(0, 0, 0, 0, 0, None)))(
            trajectory.t, trajectory.q, trajectory.v, trajectory.acceleration,
            trajectory.multipliers, None,
        )  # fmt: skip
        # Newton leaves rounding divided by h² in forces.
        assert float(jnp.max(jnp.abs(residual))) < 1e-6


def test_a_progress_bar_changes_nothing(capfd):
    start = OSCILLATOR, lie_jax.RKMK(), OSCILLATOR_START
    options = {"dt": 0.01, "steps": 103, "save": 4}
    plain = lie_jax.simulate(*start, **options)
    shown = lie_jax.simulate(*start, progress=True, **options)
    assert "simulate" in capfd.readouterr().err
    assert_allclose(shown.q, plain.q, atol=1e-12)
    assert_allclose(shown.t, plain.t)
    assert shown.stats.newton_iterations.shape == (103,)


@pytest.mark.full
def test_checkpointed_blocks_with_remainders():
    expected = lie_jax.simulate(OSCILLATOR, lie_jax.RKMK(), OSCILLATOR_START, dt=0.01, steps=23)
    for save, checkpoint in ((1, 10), (2, 3), (23, 4)):
        got = lie_jax.simulate(
            OSCILLATOR, lie_jax.RKMK(), OSCILLATOR_START, dt=0.01, steps=23,
            save=save, checkpoint=checkpoint,
        )  # fmt: skip
        assert_allclose(got.q, expected.q[::save], rtol=1e-12)
        assert int(got.stats.completed_steps) == 23


def test_inputs_are_held_over_their_step():
    # NumPy's arrays will do.
    inputs = np.random.default_rng(0).normal(size=(8, 2))
    options = {"dt": 0.02, "steps": 8}
    whole = lie_jax.simulate(OSCILLATOR, lie_jax.RKMK(), OSCILLATOR_START, inputs=inputs, **options)

    # The same as one run for each step with a constant force in the system: the force's explicit
    # dependence on time is taken out so that each may start at time zero.
    class Constant(type(OSCILLATOR)):
        held: jax.Array = None
        start: jax.Array = None

        def force(self, t, q, v, u=None):
            return super().force(t + self.start, q, v, self.held)

    state = OSCILLATOR_START
    for n in range(8):
        start = jnp.asarray(0.02 * n)
        system = Constant(OSCILLATOR.stiffness, held=jnp.asarray(inputs[n]), start=start)
        state = march(system, lie_jax.RKMK(), state, 0.02, 1).state
    assert_allclose(whole.q[-1], state.q, rtol=1e-12)
    # Implicit methods take inputs, too, and they act.
    pushed, free = (
        lie_jax.simulate(
            OSCILLATOR, lie_jax.GeneralizedAlpha(), OSCILLATOR_START, inputs=constant, **options
        )
        for constant in (np.ones((8, 2)), np.zeros((8, 2)))
    )
    assert np.all(np.asarray(pushed.q[-1]) > np.asarray(free.q[-1]))


class Explosive(type(OSCILLATOR)):
    """An oscillator whose force becomes infinite after some time."""

    until: float = 0.095

    def force(self, t, q, v, u=None):
        return jnp.where(t < self.until, super().force(t, q, v, u), jnp.inf)


def test_a_failure_raises_and_keeps_what_was_computed():
    system = Explosive(OSCILLATOR.stiffness)
    with pytest.raises(lie_jax.SimulationError) as error:
        lie_jax.simulate(system, lie_jax.RKMK("euler"), OSCILLATOR_START, dt=0.01, steps=50)
    message = str(error.value)
    for part in ("infinite or NaN", "step 11 of 50", "t = 0.1 s", "throw=False"):
        assert part in message
    trajectory = error.value.trajectory
    assert int(trajectory.stats.completed_steps) == 10
    assert np.all(np.isfinite(trajectory.q[:11]))
    assert not np.any(np.isfinite(trajectory.v[11:]))
    assert bool(trajectory.result == lie_jax.Result.non_finite)


def test_newton_without_convergence_is_a_result_of_its_own():
    # Nearly a full turn in a step: the equations of the step have no solution near the guess.
    system, state = heavy_top.build(constrained=True, omega_body=(300.0, 40.0, -500.0))
    with pytest.raises(lie_jax.SimulationError) as error:
        lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=0.05, steps=40)
    stats = error.value.trajectory.stats
    step = int(stats.completed_steps)
    for part in (
        f"Newton's method left a residual of {float(stats.residual):.3g}",
        f"after {int(stats.newton_iterations[step])} iterations in step {step + 1} of 40",
        "dt (it is 0.05 s)",
    ):
        assert part in str(error.value)
    assert float(stats.residual) > 1e-6
    trajectory = lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(), state, dt=0.05, steps=40, throw=False
    )
    assert bool(trajectory.result == lie_jax.Result.newton_failed)
    completed = int(trajectory.stats.completed_steps)
    assert np.all(np.isfinite(trajectory.q[: completed + 1]))
    assert np.all(np.isnan(trajectory.q[completed + 1 :]))


def test_each_member_of_a_batch_has_its_own_result():
    def run(until):
        system = Explosive(OSCILLATOR.stiffness, until=until)
        return lie_jax.simulate(
            system, lie_jax.RKMK(), OSCILLATOR_START, dt=0.01, steps=20, throw=False
        )

    batch = jax.jit(jax.vmap(run))(jnp.asarray([0.05, 1.0]))
    assert_array_equal(batch.result == lie_jax.Result.successful, [False, True])
    assert_array_equal(batch.stats.completed_steps, [4, 20])


def test_a_failure_inside_jit_raises():
    @jax.jit
    def run(until):
        system = Explosive(OSCILLATOR.stiffness, until=until)
        return lie_jax.simulate(system, lie_jax.RKMK(), OSCILLATOR_START, dt=0.01, steps=20).q

    assert np.all(np.isfinite(run(jnp.asarray(1.0))))
    with pytest.raises(Exception, match="throw=False"):
        jax.block_until_ready(run(jnp.asarray(0.05)))


@pytest.mark.full
@pytest.mark.parametrize("second", ["free", "constrained"])
def test_single_precision_warns_once_and_works(second):
    program = """
import sys
import warnings
import jax.numpy as jnp
import lie_jax
from models import heavy_top
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for kind in ("free", sys.argv[1]):
        constrained = kind == "constrained"
        integrator = lie_jax.GeneralizedAlpha() if constrained else lie_jax.RKMK()
        system, state = heavy_top.build(constrained=constrained)
        trajectory = lie_jax.simulate(system, integrator, state, dt=1e-3, steps=100)
        assert trajectory.q.dtype == jnp.float32, trajectory.q.dtype
        print(heavy_top.center_of_mass(system, trajectory.q[-1]).tolist())
messages = [str(w.message) for w in caught if "float32" in str(w.message)]
assert len(messages) == 1 and "lie_jax.configure()" in messages[0], messages
"""
    done = subprocess.run([sys.executable, "-c", program, second], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    for line in done.stdout.splitlines():
        # Generalized-α errs by 1e-3 at this step, RKMK4 by single-precision rounding.
        assert_allclose(np.fromstring(line.strip("[]"), sep=","), heavy_top.REFERENCE[0.1],
                        atol=2e-2)  # fmt: skip


def test_no_warning_in_double_precision():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lie_jax.simulate(OSCILLATOR, lie_jax.RKMK(), OSCILLATOR_START, dt=0.01, steps=2)


# `make test` has such forces without a run.
@pytest.mark.full
def test_a_force_may_close_over_a_traced_number():
    def height(strength):
        body = lie_jax.Body("b", 1.0, np.eye(3))
        push = lie_jax.PointForce("b", lambda t: strength * jnp.stack([0 * t, 0 * t, 1 + t]))
        system, state = lie_jax.assemble(
            lie_jax.Mechanism([body], forces=[push], gravity=(0.0, 0.0, 0.0)), lie_jax.R3SO3()
        )
        return lie_jax.simulate(system, lie_jax.RKMK(), state, dt=0.1, steps=10).q[-1, 2]

    # Twice integrated 1 + t over one second.
    slope = jax.jit(jax.jacfwd(height))(2.0)
    assert_allclose(slope, 0.5 + 1.0 / 6.0, rtol=1e-12)
