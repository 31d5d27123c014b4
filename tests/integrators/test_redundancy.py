"""Redundant constraints change nothing but multipliers; contradicting ones end the run."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.systems import index1
from tests import mechanisms
from tests.systems import PENDULUM_START, Pendulum

# The regularisation of redundant rows leaves this of the motion's digits.
SAME_MOTION = 1e-12


def _swung(hinges, index):
    """Run of a door as a function of a factor on its mass."""
    system, state = mechanisms.door(hinges)

    def run(scale):
        loaded = eqx.tree_at(lambda s: s.bodies.mass, system, scale * system.bodies.mass)
        return lie_jax.simulate(
            loaded, lie_jax.GeneralizedAlpha(0.9, index=index), state, dt=5e-3, steps=100,
            throw=False,
        )  # fmt: skip

    return run


class Doubled(Pendulum):
    """The pendulum with its constraint in two equal rows."""

    @property
    def nc(self):
        return 2

    def constraint(self, t, q):
        return jnp.tile(super().constraint(t, q), 2)


def test_a_row_that_is_there_twice_changes_nothing_but_the_multipliers():
    mass, alpha = jnp.asarray(1.5), lie_jax.GeneralizedAlpha(0.9)
    one, two = (
        lie_jax.simulate(kind(mass), alpha, PENDULUM_START, dt=5e-3, steps=100, throw=False)
        for kind in (Pendulum, Doubled)
    )
    assert bool(one.result == lie_jax.Result.successful)
    assert bool(two.result == lie_jax.Result.redundant)
    assert_allclose(two.q, one.q, rtol=0, atol=SAME_MOTION)
    # The smallest multipliers share the force equally.
    first, second = np.asarray(two.multipliers)[5:].T
    assert_allclose(first + second, np.asarray(one.multipliers)[5:, 0], atol=1e-6)
    assert_allclose(first, second, atol=1e-6)


# Newton's method ends where the next correction of the motion is below rounding. With index 2 the
# multipliers are then right to 1e-7 of the door's weight, 29 N.
SAME_FORCES = {3: 1e-8, 2: 3e-6}


@pytest.mark.full
@pytest.mark.parametrize("index", [3, 2])
def test_redundant_constraints_change_nothing_but_the_multipliers(index):
    one, two = (jax.jit(_swung(hinges, index))(1.0) for hinges in (1, 2))
    assert bool(one.result == lie_jax.Result.successful)
    assert bool(two.result == lie_jax.Result.redundant)
    assert_allclose(two.q, one.q, rtol=0, atol=SAME_MOTION)
    # The smallest multipliers share the force of the one hinge equally; what turns the door over
    # is shared by couples of forces and by torques, as the smallest norm has it.
    first, second = (np.asarray(two.multipliers)[5:, 5 * i : 5 * i + 3] for i in range(2))
    assert_allclose(first + second, np.asarray(one.multipliers)[5:, :3], atol=SAME_FORCES[index])
    assert_allclose(first[:, 2], second[:, 2], atol=SAME_FORCES[index])


@pytest.mark.full
@pytest.mark.parametrize("index", [3, 2])
def test_redundant_constraints_leave_gradients_alone(index):
    def slope(hinges):
        run = _swung(hinges, index)

        def last(scale):
            end = run(scale)
            return end.q[-1, 1] + end.v[-1, 5]

        return jax.jit(jax.grad(last))(1.0)

    one, two = (slope(hinges) for hinges in (1, 2))
    assert_allclose(two, one, rtol=1e-9)


@pytest.mark.full
def test_constraints_that_come_to_contradict_each_other_end_the_run():
    """Two drivers of one slider: they agree at the start only."""
    body = lie_jax.Body("slide", 1.0, np.eye(3))
    slider = lie_jax.PrismaticJoint("ground", "slide", (0.0, 0.0, 1.0))
    joints = [
        slider,
        lie_jax.JointDriver(slider, value=lambda t: 0.0 * t),
        lie_jax.JointDriver(slider, value=lambda t: t**3),
    ]
    system, state = lie_jax.assemble(lie_jax.Mechanism([body], joints), lie_jax.R3SO3())
    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=0.1, steps=5, throw=False)
    assert bool(run.result == lie_jax.Result.newton_failed)
    assert "JointDriver('ground', 'slide')" in system.owner(int(run.stats.worst_equation))


@pytest.mark.full
def test_multipliers_that_are_not_read_are_not_computed():
    def program(read):
        return jax.jit(lambda scale: read(_swung(2, 3)(scale))).lower(1.0).compile().as_text()

    assert "potrf" in program(lambda run: (run.q, run.multipliers))
    assert "potrf" not in program(lambda run: (run.q, run.result._value))


@pytest.mark.full
def test_smallest_multipliers_of_a_millimetre_mechanism():
    """A four-bar linkage of hinges in space, with their derivative as it moves, against least
    squares.
    """
    size = 1e-3
    corners = size * np.asarray([[0, 0, 0], [0, 1, 0], [1.5, 1, 0], [1.5, 0, 0]], float)
    ends = list(itertools.pairwise(corners))
    bodies = [
        lie_jax.Body(str(i), 1e-3, 1e-9 * np.eye(3), position=0.5 * (a + b))
        for i, (a, b) in enumerate(ends)
    ]
    names = ["ground", "0", "1", "2", "ground"]
    origins = [np.zeros(3), *(0.5 * (a + b) for a, b in ends), np.zeros(3)]
    joints = [
        lie_jax.RevoluteJoint(names[i], names[i + 1], (0.0, 0.0, 1.0), c - origins[i],
                              c - origins[i + 1])
        for i, c in enumerate(corners)
    ]  # fmt: skip
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.R3SO3())
    t = jnp.zeros(())
    multipliers = jnp.asarray(np.random.default_rng(5).normal(size=system.nc))
    rate = np.random.default_rng(6).normal(size=system.nc)
    # The outer bars turn alike.
    turning = np.asarray([-0.5 * size, 0.0, 0.0, 0.0, 0.0, 1.0])
    motion = jnp.asarray(np.concatenate([turning, [-size, *np.zeros(5)], turning]))
    jacobian = jax.jit(lambda q: system.constraint_jacobian(t, q))

    def at(h):
        q, m = system.space.flow(state.q, h * motion), multipliers + h * rate
        return index1.smallest_multipliers(system, t, q, m), q

    (found, _), (change, _) = jax.jit(lambda h: jax.jvp(at, (h,), (jnp.ones(()),)))(t)

    def expected(h):
        forces = np.asarray(jacobian(at(h)[1])).T
        m = np.asarray(multipliers) + h * rate
        return np.linalg.lstsq(forces, forces @ m, rcond=1e-12)[0]

    assert_allclose(found, expected(0.0), atol=1e-9)
    h = 1e-3
    difference = (expected(h) - expected(-h)) / (2.0 * h)
    assert_allclose(change, difference, atol=1e-4 * np.max(np.abs(difference)))
