"""Phases by interior points against Riccati equations, closed forms and other programs."""

import operator

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import LinearConstraint, minimize

import lie_jax
from lie_jax import control
from lie_jax.control import transcription
from tests.cart import (
    AT_ZERO,
    DT,
    MIDPOINT,
    START,
    STEPS,
    Cart,
    Mass,
    Rest,
    effort,
    regulate,
    settle,
)
from tests.systems import OnALine

# Tolerance of the search, relative to terms of the size of the cost.
SEARCH = 1e-9
# A held force moves a mass exactly as the midpoint rule says.
MASS = 2.0
A, B = np.array([[1.0, DT], [0.0, 1.0]]), np.array([[0.5 * DT**2], [DT]]) / MASS
RK4 = lie_jax.RKMK("rk4")


TWO = Mass(jnp.asarray(MASS))


def least_effort(distance, seconds, steps):
    """Cost of the least effort from rest to rest with forces that are held over steps."""
    return 6.0 * MASS**2 * distance**2 / seconds**3 * steps**2 / (steps**2 - 1)


def test_a_linear_regulator_takes_one_iteration_and_has_the_gains_of_riccati():
    phase = control.Phase(
        Cart(), MIDPOINT, steps=STEPS, duration=DT * STEPS, running=regulate, final=settle
    )
    best = control.solve(phase, START, guess=control.Guess(inputs=np.zeros((STEPS, 1))))
    q, r, p, gains = np.diag([3.0, 0.5]), np.array([[0.2]]), np.diag([10.0, 4.0]), []
    for _ in range(STEPS):
        gain = np.linalg.solve(DT * r + B.T @ p @ B, B.T @ p @ A)
        p = DT * q + A.T @ p @ (A - B @ gain)
        gains.append(-gain)
    assert bool(best.converged) and int(best.iterations) == 1
    # Second derivatives are differences, right to the cube root of rounding squared.
    assert_allclose(best.gains, gains[::-1], rtol=1e-8)
    x0 = np.array([1.0, -0.5])
    assert_allclose(best.cost, 0.5 * x0 @ p @ x0, rtol=1e-12)
    assert_allclose(best.inputs[0], best.gains[0] @ x0, rtol=1e-8)


def test_least_time_with_limits_is_half_push_and_half_pull():
    phase = control.Phase(
        TWO, MIDPOINT, steps=30, duration=(0.1, np.inf), end=Rest(jnp.asarray(3.0)),
        limits=(-1.5, 1.5),
    )  # fmt: skip
    best = control.solve(phase, AT_ZERO)
    seconds = 2.0 * np.sqrt(MASS * 3.0 / 1.5)
    assert bool(best.converged)
    # The barriers' share of the cost is a part of the tolerance.
    assert_allclose(best.duration, seconds, rtol=SEARCH)
    assert_allclose(best.inputs[:, 0], np.repeat([1.5, -1.5], 15), atol=1e-6)
    assert_allclose(best.times, np.linspace(0.0, seconds, 31), rtol=1e-8)
    # Another number of steps needs no other program.
    phase = control.Phase(
        TWO, MIDPOINT, steps=46, duration=(0.1, np.inf), end=Rest(jnp.asarray(3.0)),
        limits=(-1.5, 1.5),
    )  # fmt: skip
    programs = operator.attrgetter("_cached")(transcription.expand)._cache_size
    known = programs()
    longer = control.solve(phase, AT_ZERO)
    assert programs() == known
    assert_allclose(longer.duration, seconds, rtol=SEARCH)
    # Near an optimum with its multipliers a search is short.
    again = control.solve(phase, AT_ZERO, guess=longer)
    assert bool(again.converged)
    assert int(again.iterations) < int(longer.iterations) / 2
    assert_allclose(again.duration, seconds, rtol=SEARCH)


def test_phases_without_free_inputs_share_the_time():
    """Held at its limits in turn, the force leaves the two durations to be found."""
    push = control.Phase(TWO, MIDPOINT, steps=3, duration=(0.1, 9.0), limits=(1.5, 1.5))
    pull = control.Phase(
        TWO, MIDPOINT, steps=4, duration=(0.1, 9.0), limits=(-1.5, -1.5),
        end=Rest(jnp.asarray(3.0)),
    )  # fmt: skip
    best = control.solve([push, pull], AT_ZERO)
    assert bool(best.converged)
    assert_allclose(best.duration, [2.0, 2.0], rtol=SEARCH)
    assert_allclose(best.states[1].q[0], 1.5, rtol=1e-9)
    assert_allclose(np.asarray(best.times[1])[[0, -1]], [2.0, 4.0], rtol=1e-9)


@pytest.mark.full
def test_a_link_turns_the_motion_back():
    """An elastic wall half way: the mirror image of the way through it, with its least effort."""

    def at_wall(q, v):
        return q - 1.0

    def bounce(q, v):
        return q, -v

    phases = [
        control.Phase(TWO, MIDPOINT, steps=10, duration=1.0, running=effort, end=at_wall),
        control.Phase(
            TWO, MIDPOINT, steps=10, duration=1.0, running=effort, end=Rest(jnp.asarray(0.0))
        ),
    ]
    best = control.solve(phases, AT_ZERO, links=[bounce])
    assert bool(best.converged)
    assert_allclose(best.cost, least_effort(2.0, 2.0, 20), rtol=1e-9)
    assert_allclose(best.states[1].v[0], -best.states[0].v[-1], atol=1e-12)


@pytest.mark.full
def test_the_best_mass_is_found_with_the_inputs():
    """Effort grows with the square of the mass, its price falls with it."""

    def price(q, v, mass):
        return 4.0 / mass

    phase = control.Phase(
        lambda mass: Mass(mass), MIDPOINT, steps=12, duration=2.0, running=effort, final=price,
        end=Rest(jnp.asarray(1.0)),
    )  # fmt: skip
    best = control.solve(phase, AT_ZERO, parameters=jnp.asarray(1.0), parameter_limits=(0.1, 10.0))
    # d/dm of c m² + 4 / m is zero.
    of_one = least_effort(1.0, 2.0, 12) / MASS**2
    assert bool(best.converged)
    assert_allclose(best.parameters, (4.0 / (2.0 * of_one)) ** (1.0 / 3.0), rtol=1e-8)


class VanDerPol(OnALine):
    """The oscillator with damping that changes sign."""

    def force(self, t, q, v, u):
        return (1.0 - q**2) * v - q


# Period at μ = 1 (D'Acunto, Physica D 2006, and others): 6.66328685932...
VAN_DER_POL = 6.66328685932
# What is left of RK4's error, 2e-7 of the period with 200 steps, where that of half the steps is
# taken off; and by how much its halves differ from 16 to 1.
EXTRAPOLATED, HALVES = 1e-8, 0.1
# Error of 200 steps of a period.
OF_STEPS = 3e-7


@pytest.mark.full
def test_a_periodic_motion_without_inputs():
    def turning(q, v):
        return v

    start, errors = lie_jax.State([2.0], [0.0]), []
    for steps in (100, 200):
        phase = control.Phase(VanDerPol(), RK4, steps=steps, duration=(5.0, 8.0))
        guess = control.Guess(inputs=np.zeros((steps, 0)), duration=6.5)
        best = control.solve(phase, start, begin=turning, periodic=True, guess=guess)
        assert bool(best.converged)
        assert_allclose(best.states.q[0], best.states.q[-1], atol=SEARCH)
        errors.append(float(best.duration) / VAN_DER_POL - 1.0)
    assert_allclose(errors[0] / errors[1], 16.0, rtol=HALVES)
    assert abs((16.0 * errors[1] - errors[0]) / 15.0) < EXTRAPOLATED


@pytest.mark.full
def test_a_symmetry_maps_the_last_state_to_the_first():
    """Half a period of the oscillator, which is odd in its state, and a place that travels."""

    def turning(q, v):
        return v

    def opposite(q, v):
        return -q, -v

    phase = control.Phase(VanDerPol(), RK4, steps=100, duration=(2.0, 5.0))
    guess = control.Guess(inputs=np.zeros((100, 0)), duration=3.2)
    best = control.solve(
        phase, lie_jax.State([2.0], [0.0]), begin=turning, periodic=opposite, guess=guess
    )
    assert bool(best.converged)
    assert_allclose(best.duration, 0.5 * VAN_DER_POL, rtol=OF_STEPS)

    def back(q, v):
        return q - 3.0, v

    # The least effort to travel 3 m in 2 s, again and again, is none: a steady motion.
    phase = control.Phase(TWO, MIDPOINT, steps=10, duration=2.0, running=effort)
    best = control.solve(phase, AT_ZERO, begin=lambda q, v: q, periodic=back)
    assert bool(best.converged)
    assert_allclose(best.states.v, 1.5, rtol=1e-9)
    assert_allclose(best.inputs, 0.0, atol=1e-9)


@pytest.mark.full
def test_limits_of_rates_against_a_quadratic_programme():
    """The regulator, whose force falls from its first step on faster than it may here."""
    most = 0.5
    options = {"running": regulate, "final": settle, "steps": STEPS, "duration": DT * STEPS}
    guess = control.Guess(inputs=np.zeros((STEPS, 1)))
    phase = control.Phase(Cart(), MIDPOINT, **options)
    free = control.solve(phase, START, guess=guess)
    phase = control.Phase(Cart(), MIDPOINT, rates=(-np.inf, most), **options)
    best = control.solve(phase, START, guess=guess)
    x, of_u = np.array([1.0, -0.5]), np.zeros((2, STEPS))
    rows, right = [], []
    for k in range(STEPS + 1):
        weights = np.array([10.0, 4.0]) if k == STEPS else DT * np.array([3.0, 0.5])
        rows.append(np.sqrt(weights)[:, None] * of_u)
        right.append(-np.sqrt(weights) * x)
        x, of_u = A @ x, A @ of_u + B * np.eye(STEPS)[min(k, STEPS - 1)]
    h = np.concatenate([*rows, np.sqrt(DT * 0.2) * np.eye(STEPS)])
    h0 = np.concatenate([*right, np.zeros(STEPS)])
    change = (np.eye(STEPS, k=1) - np.eye(STEPS))[:-1]
    found = minimize(
        lambda u: 0.5 * np.sum((h @ u - h0) ** 2), np.zeros(STEPS),
        jac=lambda u: h.T @ (h @ u - h0), hess=lambda u: h.T @ h, method="trust-constr",
        constraints=LinearConstraint(change, -np.inf, most * DT),
        options={"gtol": 1e-10, "xtol": 1e-12, "barrier_tol": 1e-10},
    )  # fmt: skip
    assert bool(best.converged)
    # The limits are felt, and SciPy ends within some 1e-6 of its own optimum.
    assert best.cost > 1.01 * free.cost
    assert_allclose(best.cost, found.fun, rtol=1e-5)
    assert np.max(np.diff(best.inputs[:, 0])) <= most * DT * (1.0 + SEARCH)


@pytest.mark.full
def test_inequalities_along_the_path_are_those_of_ilqr():
    class Slow(eqx.Module):
        most: float = 0.7

        def __call__(self, t, q, v, u):
            return v - self.most

    steps, dt = 20, 0.1
    system = Cart(cubic=1.0)
    phase = control.Phase(
        system, MIDPOINT, steps=steps, duration=steps * dt, running=effort, path=Slow(),
        end=Rest(jnp.asarray(1.0)),
    )  # fmt: skip
    guess = control.Guess(inputs=np.zeros((steps, 1)))
    best = control.solve(phase, AT_ZERO, guess=guess)
    other = control.ilqr(
        system, MIDPOINT, AT_ZERO, jnp.zeros((steps, 1)), dt=dt, running=effort,
        end=Rest(jnp.asarray(1.0)), inequalities=Slow(), second_order=True,
    )  # fmt: skip
    assert bool(best.converged) and bool(other.converged)
    # ilqr meets conditions to 1e-6, which its cost is off by times a multiplier.
    assert_allclose(best.cost, other.cost, rtol=1e-4)
    assert np.max(best.states.v) <= 0.7 + 1e-9


class OnACircle(OnALine):
    """A unit point mass in the plane on a circle, turned by a torque about its centre."""

    @property
    def space(self):
        return lie_jax.spaces.base.Rn(2)

    @property
    def nu(self):
        return 1

    @property
    def nc(self):
        return 1

    def mass_matrix(self, q):
        return jnp.eye(2, dtype=q.dtype)

    def force(self, t, q, v, u):
        assert u is not None
        return u[0] * jnp.stack([-q[1], q[0]])

    def constraint(self, t, q):
        return jnp.sum(q * q)[None] - 1.0


def quarter(q, v):
    return jnp.stack([jnp.arctan2(q[1], q[0]) - 0.5 * jnp.pi, q[0] * v[1] - q[1] * v[0]])


@pytest.mark.full
def test_nodes_stay_on_constraints():
    """A quarter turn from rest to rest, from nodes off the circle."""
    steps, seconds = 20, 1.0
    phase = control.Phase(
        OnACircle(), RK4, steps=steps, duration=seconds, running=effort, end=quarter
    )
    start = lie_jax.State([1.0, 0.0], [0.0, 0.0])
    noise = 0.05 * np.random.default_rng(0).normal(size=(2, steps + 1, 2))
    noise[:, 0] = 0.0
    guess = control.Guess(states=lie_jax.State(np.array([1.0, 0.0]) + noise[0], noise[1]))
    best = control.solve(phase, start, guess=guess)
    # Steps of RK4 in the plane are as exact as (h ω)⁴.
    expected = least_effort(0.5 * np.pi, seconds, steps) / MASS**2
    assert bool(best.converged)
    assert_allclose(best.cost, expected, rtol=1e-5)
    assert_allclose(np.sum(best.states.q**2, axis=1), 1.0, atol=1e-13)
    # Feedback heeds no direction in which the constraints hold the mass.
    radial = np.concatenate([best.states.q[:-1], 0.0 * best.states.v[:-1]], axis=1)
    assert_allclose(np.einsum("kmn,kn->km", best.gains, radial), 0.0, atol=1e-7)


@pytest.mark.full
def test_ilqr_takes_constraints():
    phase_of_circle = OnACircle(), RK4, lie_jax.State([1.0, 0.0], [0.0, 0.0])
    best = control.ilqr(
        *phase_of_circle, jnp.zeros((20, 1)), dt=0.05, running=effort, end=quarter,
        second_order=False,
    )  # fmt: skip
    assert bool(best.converged)
    # Conditions hold to 1e-6, which the cost is off by times a multiplier; steps as above.
    assert_allclose(best.cost, least_effort(0.5 * np.pi, 1.0, 20) / MASS**2, rtol=2e-5)


@pytest.mark.full
def test_a_horizon_that_is_too_short_says_what_is_left():
    phase = control.Phase(
        TWO, MIDPOINT, steps=10, duration=1.0, end=Rest(jnp.asarray(3.0)), limits=(-1.5, 1.5)
    )
    with pytest.warns(UserWarning, match="not converged.*violation.*conditions that exclude"):
        found = control.solve(phase, AT_ZERO, max_iterations=20)
    assert not bool(found.converged)
    assert np.all(np.isfinite(found.states.q))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: _phase(lie_jax.GeneralizedAlpha()), "start from a state alone"),
        (lambda: control.Phase(TWO, RK4, steps=3, duration=-1.0), "duration"),
        (lambda: control.Phase(TWO, RK4, steps=3, duration=(2.0, 1.0)), "shortest"),
        (lambda: control.Phase(TWO, RK4, steps=0, duration=1.0), "steps"),
        (lambda: control.Phase("x", RK4, steps=3, duration=1.0), "system"),
        (lambda: _try(limits=(1.0, -1.0)), "wrong sign"),
        (lambda: _try(limits=(np.zeros(2), np.ones(2))), "one for each input"),
        (lambda: _try(running=lambda t, q, v, u: u), "a cost is one number"),
        (lambda: _try(running=lambda t, q: q), "running"),
        (lambda: _try(guess=control.Guess(inputs=np.zeros((2, 1)))), "a row for each step"),
        (lambda: _try(guess=control.Guess(states=AT_ZERO)), "rows"),
        (lambda: _try(links=[None]), "one between each"),
        (lambda: control.solve([], AT_ZERO), "empty list"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def _phase(method):
    return control.Phase(TWO, method, steps=3, duration=1.0)


def _try(guess=None, links=None, state=AT_ZERO, **options):
    phase = control.Phase(TWO, MIDPOINT, steps=3, duration=1.0, **options)
    return control.solve(phase, state, guess=guess, links=links)
