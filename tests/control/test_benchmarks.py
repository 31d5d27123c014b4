"""Optimal control problems with known digits: the published ones, closed forms, other programs."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import control
from lie_jax.spaces.base import Rn
from lie_jax.spaces.rotations import UnitQuaternions
from models import four_bars, placement

RK4 = lie_jax.RKMK("rk4")
pytestmark = pytest.mark.full


def effort(t, q, v, u):
    return 0.5 * jnp.sum(u**2)


class Torques(lie_jax.extend.AbstractSystem):
    """A ball with unit inertia and torques about three body axes."""

    @property
    def space(self):
        return UnitQuaternions()

    @property
    def nu(self):
        return 3

    def mass_matrix(self, q):
        return jnp.eye(3, dtype=q.dtype)

    def force(self, t, q, v, u):
        assert u is not None
        return u


HALF_TURN = jnp.asarray([0.0, 0.0, 0.0, 1.0])


def turned(q, v):
    return jnp.concatenate([UnitQuaternions().inverse_retract(HALF_TURN, q), v])


AT_REST = lie_jax.State([1.0, 0.0, 0.0, 0.0], jnp.zeros(3))
# Bilimoria and Wie, Time-optimal three-axis reorientation, J. Guid. Control Dyn. 16 (1993): 3.2430.
# Further digits, and the value for 40 held inputs, by CasADi and IPOPT.
BILIMORIA_WIE, OF_40 = 3.2430832769, 3.2441520
# Steps of RK4 inside a piece of constant torque.
OF_STEPS = 1e-8


def test_least_time_of_half_a_turn_with_held_inputs():
    phase = control.Phase(
        Torques(), RK4, steps=40, duration=(0.5, 10.0), end=turned, limits=(-1.0, 1.0)
    )
    inputs = np.random.default_rng(1).uniform(-0.5, 0.5, (40, 3))
    best = control.solve(phase, AT_REST, guess=control.Guess(inputs=inputs, duration=3.5))
    assert bool(best.converged)
    assert_allclose(best.duration, OF_40, rtol=1e-7)


def test_least_time_of_half_a_turn_with_free_switches():
    """Six pieces with the torques of the optimum of 40 held inputs, whose durations are free."""
    phase = control.Phase(
        Torques(), RK4, steps=40, duration=(0.5, 10.0), end=turned, limits=(-1.0, 1.0)
    )
    inputs = np.random.default_rng(1).uniform(-0.5, 0.5, (40, 3))
    held = control.solve(phase, AT_REST, guess=control.Guess(inputs=inputs, duration=3.5))
    seen, durations = _pieces(np.asarray(held.inputs), float(held.duration) / 40)
    assert len(seen) == 6
    phases = [
        control.Phase(
            Torques(), RK4, steps=20, duration=(0.01, 3.0), limits=(torques, torques),
            end=turned if i == len(seen) - 1 else None,
        )
        for i, torques in enumerate(seen)
    ]  # fmt: skip
    guess = [
        control.Guess(inputs=np.tile(u, (20, 1)), duration=d)
        for u, d in zip(seen, durations, strict=True)
    ]
    best = control.solve(phases, AT_REST, guess=guess)
    assert bool(best.converged)
    assert_allclose(np.sum(best.duration), BILIMORIA_WIE, rtol=OF_STEPS)
    pieces = [0.445438994, 0.730663650, 0.445438994] * 2
    assert_allclose(best.duration, pieces, rtol=1e-6)


def _pieces(inputs, dt):
    """Torques and durations of pieces of a motion between limits."""
    signs = np.sign(inputs)
    firm = np.all(np.abs(inputs) > 0.9, axis=1)
    seen, durations = [signs[firm][0]], [0.0]
    for row, is_firm in zip(signs, firm, strict=True):
        if is_firm and np.any(row != seen[-1]):
            seen.append(row)
            durations.append(0.0)
        durations[-1] += dt
    return seen, durations


class RobotArm(lie_jax.extend.AbstractSystem):
    """The robot arm of COPS 3: a rod of length 5 that slides, turns and rises."""

    @property
    def space(self):
        return Rn(3)

    @property
    def nu(self):
        return 3

    def mass_matrix(self, q):
        inertia = ((5.0 - q[0]) ** 3 + q[0] ** 3) / 3.0
        return jnp.diag(
            jnp.stack([jnp.full_like(q[0], 5.0), inertia * jnp.sin(q[2]) ** 2, inertia])
        )

    def force(self, t, q, v, u):
        assert u is not None
        return u


# Dolan, Moré and Munson, COPS 3 (2004): 9.1409; with 160 equal steps by CasADi and IPOPT.
ROBOT_ARM, OF_160 = 9.1409, 9.140937


def test_robot_arm_of_cops():
    def there(q, v):
        goal = jnp.asarray([4.5, 2.0 * jnp.pi / 3.0, 0.25 * jnp.pi])
        return jnp.concatenate([q - goal, v])

    start = lie_jax.State([4.5, 0.0, 0.25 * np.pi], np.zeros(3))
    phase = control.Phase(
        RobotArm(), RK4, steps=160, duration=(1.0, np.inf), end=there, limits=(-1.0, 1.0)
    )
    best = control.solve(phase, start, guess=control.Guess(duration=10.0))
    assert bool(best.converged)
    assert_allclose(best.duration, OF_160, atol=1e-6)
    assert_allclose(best.duration, ROBOT_ARM, atol=1e-4)


# Cart-pole of Kelly, SIAM Review 59 (2017); no better optimum is known than this one, checked by
# CasADi and IPOPT: 40 held inputs, and in the limit of many.
CART_POLE_OF_40, CART_POLE = 58.571490, 57.944780


def cart_pole():
    cart = lie_jax.Body("cart", 1.0, jnp.eye(3))
    bob = lie_jax.Body("bob", 0.3, 1e-9 * jnp.eye(3), center_of_mass=(0, 0, -0.5))
    rail = lie_jax.PrismaticJoint("ground", "cart", axis=(1, 0, 0))
    hinge = lie_jax.RevoluteJoint("cart", "bob", axis=(0, -1, 0))
    mechanism = lie_jax.Mechanism(
        [cart, bob], [rail, hinge], [lie_jax.JointMotor(rail, input=0)], gravity=(0, 0, -9.81)
    )
    return lie_jax.assemble(mechanism, lie_jax.Minimal())


def swing_up(system, steps):
    def upright(q, v):
        return jnp.concatenate([q - jnp.asarray([1.0, jnp.pi]), v])

    def squares(t, q, v, u):
        return jnp.sum(u**2)

    return control.Phase(
        system, RK4, steps=steps, duration=2.0, running=squares, end=upright,
        limits=(-20.0, 20.0),
    )  # fmt: skip


def test_cart_pole_swings_up_from_a_guess_at_rest():
    system, state = cart_pole()
    costs = []
    for steps in (40, 80, 160):
        best = control.solve(swing_up(system, steps), state)
        assert bool(best.converged)
        costs.append(float(best.cost))
    assert_allclose(costs[0], CART_POLE_OF_40, atol=2e-6)
    # Held inputs are of order 2.
    assert_allclose((4.0 * costs[2] - costs[1]) / 3.0, CART_POLE, atol=2e-3)


# The optimum of Kelly and of dymos, by CasADi and IPOPT with collocation. The bob here has 1e-8 of
# its inertia more; 40 to 320 held inputs, extrapolated twice, differ by 3e-6.
PUBLISHED_CART_POLE, EXTRAPOLATED = 58.8076674579, 1e-5


def test_cart_pole_stays_near_the_published_optimum():
    """States on a straight line lead there; twice the steps with states, inputs and multipliers in
    between take few iterations.
    """
    system, state = cart_pole()
    guess, costs, counts = straight(40), [], []
    for steps in (40, 80, 160, 320):
        best = control.solve(swing_up(system, steps), state, guess=guess)
        assert bool(best.converged)
        costs.append(float(best.cost))
        counts.append(int(best.iterations))
        guess = halved(best)
    assert max(counts[1:]) < counts[0] / 2
    once = np.diff(costs) / 3.0 + costs[1:]
    twice = np.diff(once) / 15.0 + once[1:]
    assert_allclose(twice[-1], PUBLISHED_CART_POLE, atol=EXTRAPOLATED)


def straight(steps):
    s = np.linspace(0.0, 1.0, steps + 1)[:, None]
    v = np.tile([[0.5, 0.5 * np.pi]], (steps + 1, 1))
    v[0] = 0.0
    return control.Guess(states=lie_jax.State(s * [1.0, np.pi], v))


def halved(best):
    """Guess for steps of half the length."""

    def between(table):
        middles = 0.5 * (table[1:] + table[:-1])
        return jnp.insert(table, np.arange(1, len(table)), middles, axis=0)

    known = best.multipliers
    multipliers = control.Multipliers(
        between(known.costates), known.ends, jnp.repeat(known.path, 2, axis=0),
        *(0.5 * jnp.repeat(x, 2, axis=0) for x in (known.lower, known.upper)),
    )  # fmt: skip
    states = lie_jax.State(between(best.states.q), between(best.states.v))
    return control.Guess(
        inputs=np.repeat(best.inputs, 2, axis=0), states=states, multipliers=multipliers
    )


# Of the closed form.
CLOSED_FORM = 1e-9


# Steps along one angle are exact to rounding; those in coordinates of bodies are as exact as the
# method: twenty of order 4 differ by 9e-7.
@pytest.mark.parametrize(
    ("formulation", "method"),
    [(lie_jax.Minimal(), RK4), (lie_jax.R3SO3(), lie_jax.RKMK("rkf78"))],
)
def test_least_effort_of_a_parallelogram(formulation, method):
    """A closed loop from rest to rest, from nodes at the start and from nodes off the loop."""
    length, angle, steps = jnp.asarray(1.0), np.pi / 3.0, 20
    start = placement.motion(
        lambda a: four_bars.place(a, length, 1), jnp.asarray(angle), jnp.asarray(0.0)
    )
    inertia = jnp.diag(four_bars.inertia(1.0, 1.0))
    bodies = [
        lie_jax.Body(name, 1.0, inertia, (0.0, 0.0, 0.0), *(part[i] for part in start))
        for i, name in enumerate(four_bars.names(1))
    ]
    joints = [
        lie_jax.RevoluteJoint(parent, child, (0, 0, 1), jnp.asarray(x), jnp.asarray(y))
        for parent, child, x, y in four_bars.hinges(1)
    ]
    motor = lie_jax.JointMotor(joints[0], input=0)
    mechanism = lie_jax.Mechanism(bodies, joints, [motor], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, formulation)

    def there(q, v):
        rotations, _ = system.poses(q)
        at = jnp.arctan2(rotations[0, 1, 0], rotations[0, 0, 0])
        return jnp.stack([at - 2.0 * angle, system.twists(q, v)[0, 5]])

    phase = control.Phase(system, method, steps=steps, duration=1.0, running=effort, end=there)
    best = control.solve(phase, state)
    assert bool(best.converged)
    known = 6.0 * (5.0 / 3.0) ** 2 * angle**2 * steps**2 / (steps**2 - 1)
    assert_allclose(best.cost, known, rtol=CLOSED_FORM)
    noise = 1e-2 * np.random.default_rng(0).normal(size=(steps + 1, system.nq + system.nv))
    noise[0] = 0.0
    off = lie_jax.State(
        best.states.q + noise[:, : system.nq], best.states.v + noise[:, system.nq :]
    )
    again = control.solve(phase, state, guess=control.Guess(inputs=best.inputs, states=off))
    assert bool(again.converged)
    assert_allclose(again.cost, known, rtol=CLOSED_FORM)
    for q in best.states.q:
        assert_allclose(system.constraint(0.0, q), 0.0, atol=1e-12)
