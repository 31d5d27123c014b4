"""Inequalities along a run: a quadratic programme, and iLQR against multiple shooting."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import nnls

import lie_jax
from lie_jax import control
from tests.systems import OnALine

DT, STEPS = 0.1, 20
MIDPOINT = lie_jax.RKMK("midpoint")
RK4 = lie_jax.RKMK("rk4")
ZERO = jnp.zeros((STEPS, 1))
# A violation of 1e-6 costs as much as its multiplier, at most some ten times the cost, says.
COST = 1e-6
# Inputs of size one at a relative gradient of 1e-6.
INPUTS = 1e-5


class Pendulum(OnALine):
    """A pendulum with a torque as input; without weight the double integrator."""

    weight: jax.Array

    def force(self, t, q, v, u):
        return (0.0 if u is None else u) - self.weight * jnp.sin(q)


class Within(eqx.Module):
    """Rates between -bound and bound."""

    bound: jax.Array

    def __call__(self, t, q, v, u):
        return jnp.concatenate([v - self.bound, -v - self.bound])


class AtRest(eqx.Module):
    """At rest at an angle."""

    angle: jax.Array

    def __call__(self, q, v):
        return jnp.concatenate([q - self.angle, v])


def effort(t, q, v, u):
    return 0.5 * jnp.sum(u**2)


def turn(solve, weight, angle, bound, **options):
    """From rest at zero to rest at an angle in two seconds, with bounded rates."""
    state = lie_jax.State(jnp.zeros(1), jnp.zeros(1))
    return solve(
        Pendulum(jnp.asarray(weight)), MIDPOINT, state, ZERO, dt=DT, running=effort,
        end=AtRest(jnp.asarray(angle)), inequalities=Within(jnp.asarray(bound)), **options,
    )  # fmt: skip


def nodes(*arguments, **options):
    return control.shoot(*arguments, nodes=4, **options)


def least(angle, bound):
    """Inputs of the least norm to rest at an angle with bounded rates, as a quadratic programme.

    Minimum norm |u| with G u >= h by non-negative least squares: Lawson and Hanson, chapter 23.
    """
    # The midpoint method is exact for a torque that is held.
    rates = DT * np.tri(STEPS)
    angles = DT**2 * (np.arange(STEPS)[::-1] + 0.5)
    reach, goal = np.stack([angles, rates[-1]]), np.array([angle, 0.0])
    rows = np.concatenate([reach, -reach, rates, -rates])
    right = np.concatenate([goal, -goal, np.full(2 * STEPS, -bound)])
    table = np.concatenate([rows.T, right[None]])
    aim = np.eye(STEPS + 1)[-1]
    residual = table @ nnls(table, aim, maxiter=1000)[0] - aim
    return -residual[:-1] / residual[-1]


def check_optimum(best, values):
    """Feasible, multipliers not negative, and none where an inequality is not active."""
    multipliers = np.asarray(best.inequality_multipliers)
    assert bool(best.converged)
    assert np.max(values) <= 1e-6
    assert np.min(multipliers) >= 0.0 and np.count_nonzero(multipliers) > 0
    assert np.max(np.abs(values[multipliers > 0.0])) <= 1e-6


def rates(best, bound):
    v = np.asarray(best.trajectory.v[1:])
    return np.concatenate([v - bound, -v - bound], axis=1)


@pytest.mark.full
def test_bounded_rates_of_a_pendulum():
    """Of the double integrator as of the quadratic programme, upright as of other methods."""
    bound = 0.6
    expected = least(1.0, bound)
    best = turn(control.ilqr, 0.0, 1.0, bound)
    check_optimum(best, rates(best, bound))
    assert_allclose(best.inputs[:, 0], expected, atol=INPUTS)
    assert_allclose(best.cost, 0.5 * DT * expected @ expected, rtol=COST)
    # One compiled program: the pendulum's rate would be 4 rad/s without its bound.
    up = turn(control.ilqr, 4.0, np.pi, 2.2)
    check_optimum(up, rates(up, 2.2))
    shot = turn(nodes, 4.0, np.pi, 2.2)
    check_optimum(shot, rates(shot, 2.2))
    assert_allclose(up.cost, shot.cost, rtol=COST)
    assert_allclose(up.inputs, shot.inputs, atol=INPUTS * np.max(np.abs(shot.inputs)))
    assert_allclose(up.inequality_multipliers, shot.inequality_multipliers, atol=1e-4)


@pytest.mark.full
def test_a_search_names_the_inequality_that_is_not_met():
    """Rates cannot be above one number and below its opposite at the same time."""
    with pytest.warns(UserWarning, match=r"violation .*inequality 0 after step \d+, at t = .*larg"):
        turn(control.ilqr, 0.0, 1.0, -3.0)


@pytest.mark.full
def test_batches_of_bounds():
    bounds = jnp.asarray([0.55, 0.6, 3.0])
    best = jax.jit(jax.vmap(lambda bound: turn(control.ilqr, 0.0, 1.0, bound)))(bounds)
    assert np.all(np.asarray(best.converged))
    for inputs, bound in zip(best.inputs, bounds, strict=True):
        assert_allclose(inputs[:, 0], least(1.0, float(bound)), atol=INPUTS)


RAIL = 0.4


@pytest.mark.full
def test_a_pole_swings_up_on_a_cart_between_the_ends_of_its_rail():
    """From a guess of zero; the cart would go 0.8 m to one side."""
    cart = lie_jax.Body("cart", 1.0, 0.1 * np.eye(3))
    pole = lie_jax.Body("pole", 0.3, np.diag([1e-3, 1e-3, 1e-4]), center_of_mass=(0.0, 0.0, -0.5))
    joints = [
        lie_jax.PrismaticJoint("ground", "cart", (1.0, 0.0, 0.0)),
        lie_jax.RevoluteJoint("cart", "pole", (0.0, 1.0, 0.0)),
    ]
    motor = lie_jax.JointMotor(joints[0], input=0)
    system, state = lie_jax.assemble(
        lie_jax.Mechanism([cart, pole], joints, [motor]), lie_jax.Minimal()
    )
    steps = 40
    problem = {
        "dt": 2.0 / steps,
        "running": effort,
        "end": lambda q, v: jnp.concatenate([q - jnp.asarray([0.0, jnp.pi]), v]),
        "inequalities": lambda t, q, v, u: jnp.stack([q[0] - RAIL, -RAIL - q[0]]),
    }
    guess = jnp.zeros((steps, 1))
    best = control.ilqr(system, RK4, state, guess, **problem)
    # First-order steps alone take more than their half of the iterations.
    assert int(best.iterations) > 100
    shot = control.shoot(system, RK4, state, guess, nodes=8, **problem)
    for solution in (best, shot):
        x = np.asarray(solution.trajectory.q[1:, :1])
        check_optimum(solution, np.concatenate([x - RAIL, -RAIL - x], axis=1))
    assert_allclose(best.cost, shot.cost, rtol=COST)


# The UR5 of example-robot-data 6.0.0: frames of the links are those of its joints, parallel to the
# world where all angles are zero and the arm is level.
ORIGINS = (
    *((0.0, 0.0, 0.089159), (0.0, 0.13585, 0.0), (0.425, -0.1197, 0.0)),
    *((0.39225, 0.0, 0.0), (0.0, 0.093, 0.0), (0.0, 0.0, -0.09465)),
)
AXES = np.asarray([(0, 0, 1), (0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 0, -1), (0, 1, 0)], float)
MASSES = (3.7, 8.393, 2.275, 1.219, 1.219, 0.1879)
CENTERS = np.zeros((6, 3))
CENTERS[1:3, 0] = 0.28, 0.25
MOMENTS = (
    *((0.0102675, 0.0102675, 0.00666), (0.0151074, 0.2268907, 0.2268907)),
    *((0.004095, 0.0494433, 0.0494433), (0.1111728, 0.1111728, 0.21942)),
    *((0.1111728, 0.1111728, 0.21942), (0.0171365, 0.0171365, 0.033822)),
)
EFFORTS = np.asarray([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])
TOOL = jnp.asarray([0.0, 0.0823, 0.0])
FIRST, LAST = [-0.7, -0.9, 1.4, -0.5, 0.0, 0.0], [0.8, -0.6, 1.0, -0.4, 0.0, 0.0]
LOWER, UPPER = (
    jnp.asarray(x) for x in ([-3.0, -1.2, 0.3, -1.0, -1.0, -1.0], [3.0, -0.3, 2.2, 1.0, 1.0, 1.0])
)
# In the way of the wrist and the tool, m.
CENTER, RADIUS = jnp.asarray([0.38, 0.2, 0.1]), 0.2


def arm():
    bodies, joints, motors = [], [], []
    parent, place = "ground", np.zeros(3)
    for i, (origin, axis) in enumerate(zip(ORIGINS, AXES, strict=True)):
        name, place = f"link {i + 1}", place + np.asarray(origin)
        inertia = np.diag(MOMENTS[i])
        bodies.append(
            lie_jax.Body(name, MASSES[i], inertia, position=place, center_of_mass=CENTERS[i])
        )
        joints.append(lie_jax.RevoluteJoint(parent, name, axis, origin))
        motors.append(lie_jax.JointMotor(joints[i], input=i))
        parent = name
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints, motors), lie_jax.Minimal())[0]


@pytest.mark.full
def test_an_arm_reaches_round_a_sphere_within_the_limits_of_its_joints():
    """From torques that hold it; multiple shooting and interior points check the optimum."""
    system = arm()
    state = lie_jax.State(jnp.asarray(FIRST), jnp.zeros(6))

    def points(q):
        rotations, positions = system.poses(q)
        tool = positions[5] + jnp.sum(rotations[5] * TOOL[None], axis=1)
        return jnp.stack([positions[2], positions[3], tool])

    def inequalities(t, q, v, u):
        depth = 1.0 - jnp.sum((points(q) - CENTER[None]) ** 2, axis=1) / RADIUS**2
        return jnp.concatenate([q - UPPER, LOWER - q, depth])

    goal, zero, steps = points(jnp.asarray(LAST))[2], jnp.zeros(6), 24
    problem = {
        "dt": 1.0 / steps,
        "running": lambda t, q, v, u: jnp.sum((u / jnp.asarray(EFFORTS)) ** 2),
        "end": lambda q, v: jnp.concatenate([points(q)[2] - goal, v]),
        "inequalities": inequalities,
        "limits": (-EFFORTS, EFFORTS),
    }
    holding = system.residual(0.0, state.q, zero, zero, jnp.zeros(0), zero)
    guess = jnp.tile(holding[None], (steps, 1))
    best = control.ilqr(system, RK4, state, guess, **problem)
    shot = control.shoot(system, RK4, state, best.inputs, nodes=4, **problem)
    along = jax.jit(jax.vmap(lambda q: inequalities(0.0, q, zero, zero)))
    for solution in (best, shot):
        check_optimum(solution, np.asarray(along(solution.trajectory.q[1:])))
    # Stops of joints and the sphere act.
    acting = np.any(np.asarray(best.inequality_multipliers) > 0.0, axis=0)
    assert acting[:12].any() and acting[12:].any()
    assert_allclose(best.cost, shot.cost, rtol=COST)
    phase = control.Phase(
        system, RK4, steps=steps, duration=1.0, running=problem["running"], end=problem["end"],
        path=inequalities, limits=problem["limits"],
    )  # fmt: skip
    inner = control.solve(phase, state, guess=control.Guess(inputs=guess))
    assert bool(inner.converged)
    assert np.max(np.asarray(along(inner.states.q[1:]))) <= 1e-9
    assert_allclose(inner.cost, shot.cost, rtol=COST)
