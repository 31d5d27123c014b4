"""Explicit methods as solvers of diffrax."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.io.diffrax import GroupInterpolation, ManifoldSolver, equations_of_motion
from models import heavy_top
from tests.cart import Cart
from tests.systems import Spinner

SOLVER = ManifoldSolver(lie_jax.RKMK("dopri5"))
# Of few stages, for what no order is asked of.
HEUN = ManifoldSolver(lie_jax.RKMK("heun"))
# Quaternions are renormalised in each retraction.
GROUP_ROUNDING = 1e-15


def _solve(system, state, t1, solver=SOLVER, **options):
    options = {"dt0": 1e-3, "max_steps": 512} | options
    return diffrax.diffeqsolve(
        equations_of_motion(system), solver, t0=0.0, t1=t1, y0=state, **options
    )


@pytest.mark.full
def test_controllers_and_dense_output_work_on_the_group():
    """Between the steps as well: a symmetric body precesses about its angular momentum."""
    moments, omega = np.asarray([0.5, 0.5, 0.8]), np.asarray([3.0, -1.0, 10.0])
    times = np.linspace(0.0, 0.5, 12)
    solution = _solve(
        Spinner(jnp.asarray(moments)),
        lie_jax.State(jnp.eye(4)[0], jnp.asarray(omega)),
        0.5,
        saveat=diffrax.SaveAt(ts=jnp.asarray(times)),
        stepsize_controller=diffrax.PIDController(rtol=1e-9, atol=1e-9),
    )
    assert_allclose(np.linalg.norm(solution.ys.q, axis=1), 1.0, atol=GROUP_ROUNDING)
    momentum = moments * omega
    spin = np.asarray([0.0, 0.0, (1.0 - moments[2] / moments[0]) * omega[2]])
    turns = Rotation.from_rotvec(times[:, None] * momentum / moments[0])
    turns = turns * Rotation.from_rotvec(times[:, None] * spin)
    expected = turns.as_quat(scalar_first=True)
    expected *= np.sign(np.sum(expected * solution.ys.q, axis=1))[:, None]
    # Of the controller's tolerances, and of the interpolant, whose velocities are one order lower.
    assert_allclose(solution.ys.q, expected, atol=1e-9)
    assert_allclose(solution.ys.v, turns.inv().apply(momentum) / moments, atol=3e-8)
    assert solution.stats["num_rejected_steps"] >= 0 < solution.stats["num_accepted_steps"] < 512


class _Pushed(Cart):
    def force(self, t, q, v, u):
        return jnp.full_like(q, t**3)


def test_errors_of_velocities_reach_the_controller():
    """The difference of the two quadratures of Bogacki and Shampine for a force t³."""
    solver, t, h = ManifoldSolver(lie_jax.RKMK("ode23")), 0.3, 0.2

    @jax.jit
    def error(t0, t1):
        none = jnp.zeros(1)
        state = lie_jax.State(none, none)
        terms = equations_of_motion(_Pushed())
        return solver.step(terms, t0, t1, state, None, none, made_jump=False)[1]

    weights = np.asarray([7 / 24 - 2 / 9, 1 / 4 - 1 / 3, 1 / 3 - 4 / 9, 1 / 8])
    forces = (t + h * np.asarray([0.0, 1 / 2, 3 / 4, 1.0])) ** 3
    expected = h * weights @ forces / _Pushed().mass
    assert_allclose(error(t, t + h).v, [expected], rtol=1e-12)


@pytest.mark.full
def test_the_interpolant_has_the_order_it_says():
    """Over the exact motion of a body with constant twist and growing spin about its axis."""
    space = lie_jax.SE3()

    def exact(t):
        # Turning about z and moving along it: on one screw axis dexp is the identity.
        x = jnp.stack([0.0 * t, 0.0 * t, jnp.sin(t), 0.0 * t, 0.0 * t, t + t**3])
        start = space.configuration(jnp.zeros(3), jnp.asarray([1.0, 0.0, 0.0, 0.0]))
        return space.retract(start, x), x

    rate = jax.jacfwd(lambda t: exact(t)[1])
    bent = jax.jacfwd(rate)

    @jax.jit
    def errors(h):
        t0, t1 = jnp.asarray(0.2), 0.2 + h
        ends = [lie_jax.State(exact(t)[0], rate(t)) for t in (t0, t1)]
        t = t0 + 0.3 * h
        bends = (bent(t0), bent(t1))
        inside = GroupInterpolation(t0, t1, space, *ends, bends, jnp.ones(())).evaluate(t)
        difference = space.inverse_retract(exact(t)[0], inside.q)
        return jnp.linalg.norm(difference), jnp.linalg.norm(inside.v - rate(t))

    coarse, fine = np.asarray(errors(0.4)), np.asarray(errors(0.2))
    assert np.all(np.log2(coarse / fine) > np.asarray([5.7, 4.7])), (coarse, fine)


@pytest.mark.full
def test_time_runs_backwards_too():
    system, state = heavy_top.build()

    @jax.jit
    def between(t0, t1, y0):
        return diffrax.diffeqsolve(
            equations_of_motion(system), HEUN, t0=t0, t1=t1, dt0=(t1 - t0) / 2000, y0=y0,
            saveat=diffrax.SaveAt(ts=jnp.stack([t0, 0.0203 + 0.0 * t0, t1])),
        ).ys  # fmt: skip

    start, end = jnp.asarray(0.0), jnp.asarray(0.05)
    there = between(start, end, state)
    back = between(end, start, lie_jax.State(there.q[-1], there.v[-1]))
    # Errors of the method, some 1e-5.
    assert_allclose(back.q[::-1], there.q, atol=1e-4)
    assert_allclose(back.v[::-1], there.v, atol=1e-2)


@pytest.mark.full
def test_events_and_adjoints():
    def crossing(mass):
        """When the top's centre of mass first sinks to -0.1 m."""
        system, state = heavy_top.build(mass=mass)
        event = diffrax.Event(
            lambda t, y, args, **_: heavy_top.center_of_mass(system, y.q)[2] + 0.1,
        )
        solution = _solve(system, state, 0.2, HEUN, event=event)
        return heavy_top.center_of_mass(system, solution.ys.q[-1])[2]

    sunk = crossing(jnp.asarray(15.0))
    # Without root finding the event ends the run at the first step beyond it.
    assert -0.12 < sunk < -0.1

    def height(mass):
        system, state = heavy_top.build(mass=mass)
        solution = _solve(system, state, 0.02, HEUN)
        return heavy_top.center_of_mass(system, solution.ys.q[-1])[2]

    def same(mass):
        system, state = heavy_top.build(mass=mass)
        trajectory = lie_jax.simulate(
            system, lie_jax.RKMK("heun"), state, dt=1e-3, steps=20, save=20, throw=False
        )
        return heavy_top.center_of_mass(system, trajectory.q[-1])[2]

    mass = jnp.asarray(15.0)
    value, slope = jax.jit(jax.value_and_grad(height))(mass)
    expected, expected_slope = jax.jit(jax.value_and_grad(same))(mass)
    # Steps of equal size, whose ends diffrax adds up: rounding.
    assert_allclose(value, expected, rtol=1e-11)
    assert_allclose(slope, expected_slope, rtol=1e-8)
