"""Dual-spin satellite, satellite with wheels, space robot and quadrotors with a payload move as
independent digits say, in all formulations.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.simulation.march import march
from models import dual_spin, quadrotor_payload, satellite, space_robot

# Of runs whose steps err less, relative to one, or to speeds of wheels of some 100 rad/s.
ACCURATE = 1e-10
# Accelerations of up to 100 m/s² or rad/s², through inertias from 1e-3 kg m² on.
ROUNDING = 1e-11
ORDER_SLACK = 0.15


class Case(NamedTuple):
    """A model, observed at the times of its reference, with the steps (s) that are accurate enough
    to its last time, in its default formulation, and to its first time in others.
    """

    build: Callable
    reference: dict
    observe: Callable
    default: str
    last: float
    first: dict[str, float]


FORMULATIONS = {
    "Minimal": lie_jax.Minimal(),
    "R3SO3": lie_jax.R3SO3(),
    "SE3": lie_jax.SE3(),
    "UnifiedVelocity": lie_jax.UnifiedVelocity(),
    "TaitBryan": lie_jax.TaitBryan(),
    "EulerParameters": lie_jax.EulerParameters(),
}
ABSOLUTE = tuple(FORMULATIONS)[1:]
# Hinges of rotors and wheels turn by less than half a radian in a step of absolute coordinates; in
# those of the space robot nothing turns fast.
CASES = {
    "dual spin": Case(
        dual_spin.build, dual_spin.REFERENCE, dual_spin.observe, "Minimal", 0.025,
        dict.fromkeys(ABSOLUTE, 0.005),
    ),
    "dual spin, no friction": Case(
        lambda formulation: dual_spin.build(formulation, damping=0.0),
        dual_spin.REFERENCE_UNDAMPED, dual_spin.observe, "Minimal", 0.025, {},
    ),
    # No Tait-Bryan angles: a wheel about the y axis turns through their singularity.
    "satellite": Case(
        lambda formulation, **numbers: satellite.build(
            formulation, torques=satellite.MANOEUVRE, **numbers
        ),
        satellite.REFERENCE, satellite.observe, "Minimal", 0.025,
        {"R3SO3": 5e-4, "SE3": 5e-4, "UnifiedVelocity": 5e-4, "EulerParameters": 1e-4},
    ),
    "quadrotors": Case(
        quadrotor_payload.build, quadrotor_payload.REFERENCE,
        lambda system, q, v: quadrotor_payload.positions(system, q), "R3SO3", 0.01,
        dict.fromkeys(("Minimal", *ABSOLUTE[1:]), 0.01),
    ),
    "space robot": Case(
        space_robot.build, space_robot.REFERENCE,
        lambda system, q, v: space_robot.observe(system, q), "Minimal", 0.0025,
        dict.fromkeys(ABSOLUTE, 0.02),
    ),
}  # fmt: skip


# Of order 6, with projection onto the constraints.
INTEGRATOR = lie_jax.RKMK("rk67")


def _gap(name, observed, expected):
    """Difference relative to numbers above one, of angles of hinges without whole turns."""
    gap = np.asarray(observed) - np.asarray(expected)
    if name == "space robot":
        gap[7:] = np.remainder(gap[7:] + np.pi, 2.0 * np.pi) - np.pi
    return gap / np.maximum(1.0, np.abs(expected))


def _check(name, formulation, step, times):
    """The system and its states at the start and at times of the reference, which it meets."""
    case = CASES[name]
    system, state = case.build(FORMULATIONS[formulation])
    loop, taken, states = state, 0, [state]
    for t in times:
        count = round(t / step)
        loop = march(system, INTEGRATOR, loop, step, count - taken)
        taken = count
        assert bool(loop.result == lie_jax.Result.successful)
        observed = case.observe(system, loop.state.q, loop.state.v)
        gap = _gap(name, observed, case.reference[t])
        assert_allclose(gap, np.zeros_like(gap), rtol=0, atol=ACCURATE)
        states.append(loop.state)
    return system, states


@pytest.mark.full
@pytest.mark.parametrize("name", ["dual spin", "dual spin, no friction"])
def test_dual_spin_satellite(name):
    """Over 100 s; its angular momentum stays, and without friction its energy, too."""
    case = CASES[name]
    system, states = _check(name, case.default, case.last, case.reference)
    start, end = (system.momentum(state.q, state.v) for state in (states[0], states[-1]))
    assert_allclose(start[1], [4.24, -4.225, 128.56], rtol=0, atol=ACCURATE)
    for one, other in zip(start, end, strict=True):
        assert_allclose(one, other, rtol=0, atol=100.0 * ACCURATE)
    before, after = (float(system.kinetic_energy(s.q, s.v)) for s in (states[0], states[-1]))
    if name == "dual spin":
        assert after < 0.5 * before
    else:
        assert_allclose(after, before, rtol=ACCURATE)


def _rods(numbers, t):
    """Accelerations of mass and vehicles by the equations of the rods' directions, in NumPy."""
    tilt, rates, length, payload = numbers
    mass, g = 0.5, np.asarray([0.0, 0.0, 9.81])
    thrusts = (6.5 + 0.3 * np.sin(2.0 * t), 6.4 + 0.2 * np.cos(3.0 * t))
    # From the vehicles to the mass.
    rods = [np.asarray([-s * np.sin(tilt), 0.0, -np.cos(tilt)]) for s in (-1.0, 1.0)]
    across = [w - q * (q @ w) for q, w in zip(rods, rates, strict=True)]
    total, right = payload * np.eye(3), np.zeros(3)
    for q, w, thrust in zip(rods, across, thrusts, strict=True):
        total += mass * np.outer(q, q)
        right += q * (q[2] * thrust - mass * length * w @ w)
    lifted = np.linalg.solve(total, right)
    accelerations = [lifted - g]
    for q, w, thrust in zip(rods, across, thrusts, strict=True):
        turning = np.cross(q, lifted) / length
        turning -= np.cross(q, [0.0, 0.0, thrust]) / (mass * length)
        change = np.cross(turning, q) + np.cross(w, np.cross(w, q))
        accelerations.append(lifted - g - length * change)
    return np.stack(accelerations)


def test_quadrotors_accelerate_as_the_equations_of_their_rods_say():
    rng = np.random.default_rng(2)
    numbers = [
        (rng.uniform(0.2, 1.2), rng.normal(size=(2, 3)), *rng.uniform(0.3, 2.0, 2))
        for _ in range(3)
    ]

    @jax.jit
    @jax.vmap
    def evaluated(tilt, rates, length, payload):
        system, state = quadrotor_payload.build(
            tilt=tilt, rod_rates=rates, length=length, payload_mass=payload
        )
        change = system.acceleration(jnp.asarray(0.7), state.q, state.v)
        return change.reshape(3, 6)[:, :3]

    got = evaluated(*(jnp.asarray(np.stack(x)) for x in zip(*numbers, strict=True)))
    expected = np.stack([_rods(x, 0.7) for x in numbers])
    assert_allclose(got, expected, rtol=0, atol=ROUNDING)


@pytest.mark.full
def test_motors_of_the_space_robot_act_between_bodies_alone():
    """In any pose and motion, momenta do not change and energy grows by the motors' power."""
    rng = np.random.default_rng(3)
    turns, velocities = rng.normal(size=(2, 4, 11))
    t = 2.0

    @jax.jit
    @jax.vmap
    def evaluated(turn, v):
        system, state = space_robot.build()
        q = system.space.retract(state.q, turn)
        change = system.acceleration(jnp.asarray(t), q, v)

        def moving(q, v):
            return *system.momentum(q, v), system.kinetic_energy(q, v)

        rates = (system.space.lift(q, v), change)
        return jax.jvp(moving, (q, v), rates)[1]

    force, moment, power = evaluated(jnp.asarray(turns), jnp.asarray(velocities))
    torques = np.asarray(space_robot.AMPLITUDE) * np.sin(0.2 * np.pi * t)
    assert_allclose(power, velocities[:, 6:] @ torques, rtol=0, atol=ROUNDING)
    # Of 230 kg that move at some m/s.
    assert_allclose(force, np.zeros((4, 3)), rtol=0, atol=100.0 * ROUNDING)
    assert_allclose(moment, np.zeros((4, 3)), rtol=0, atol=100.0 * ROUNDING)


@pytest.mark.full
def test_given_torques_of_wheels_act_as_inputs():
    @jax.jit
    def evaluated(t):
        inputs = jnp.stack([torque(t) for torque in satellite.MANOEUVRE])
        driven, state = CASES["satellite"].build(None)
        steered, _ = satellite.build()
        v = state.v + jnp.linspace(-1.0, 1.0, 9)
        return driven.acceleration(t, state.q, v), steered.acceleration(t, state.q, v, inputs)

    one, other = evaluated(jnp.asarray(0.6))
    assert_allclose(one, other, rtol=0, atol=ROUNDING)


@pytest.mark.full
@pytest.mark.parametrize("name", ["satellite", "quadrotors", "space robot"])
def test_the_whole_reference(name):
    """Momenta about the world's origin stay where nothing acts from outside."""
    case = CASES[name]
    system, states = _check(name, case.default, case.last, case.reference)
    start, end = (system.momentum(state.q, state.v) for state in (states[0], states[-1]))
    if name != "quadrotors":
        for one, other in zip(start, end, strict=True):
            assert_allclose(one, other, rtol=0, atol=ACCURATE)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "formulation"),
    [(name, formulation) for name, case in CASES.items() for formulation in case.first],
)
def test_other_formulations(name, formulation):
    case = CASES[name]
    _check(name, formulation, case.first[formulation], tuple(case.reference)[:1])


# Model, formulation, integrator, its order, time and numbers of steps, of errors beyond rounding.
ORDERS = (
    ("dual spin", "Minimal", lie_jax.RKMK("rk4"), 4, 10.0, (100, 200)),
    ("dual spin", "R3SO3", lie_jax.GeneralizedAlpha(0.9), 2, 10.0, (4000, 8000)),
    ("satellite", "Minimal", lie_jax.CommutatorFree(4), 4, 1.0, (20, 40)),
    ("space robot", "Minimal", lie_jax.RKMK("rk67"), 6, 5.0, (250, 500)),
    ("space robot", "R3SO3", lie_jax.GeneralizedAlpha(0.9), 2, 1.0, (100, 200)),
    ("quadrotors", "R3SO3", lie_jax.RKMK("rk4"), 4, 1.0, (50, 100)),
)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "formulation", "integrator", "order", "t", "counts"),
    ORDERS,
    ids=[f"{row[0]}, order {row[3]}" for row in ORDERS],
)
def test_orders(name, formulation, integrator, order, t, counts):
    case = CASES[name]
    system, state = case.build(FORMULATIONS[formulation])
    ends = [march(system, integrator, state, t / n, n).state for n in counts]
    gaps = [_gap(name, case.observe(system, end.q, end.v), case.reference[t]) for end in ends]
    errors = [float(np.linalg.norm(gap)) for gap in gaps]
    assert_allclose(np.log2(errors[0] / errors[1]), order, rtol=0, atol=ORDER_SLACK)


def _first_wheel(speed):
    return {"wheel_speeds": jnp.stack([speed, jnp.asarray(-210.0), jnp.asarray(240.0)])}


# Model, a function of one number that returns arguments of the model, its value, its change, time
# and step (s).
NUMBERS = (
    ("dual spin", lambda x: {"damping": x}, 0.05, 1e-3, 10.0, 0.05),
    ("satellite", _first_wheel, 260.0, 1.0, 1.0, 0.05),
    ("quadrotors", lambda x: {"length": x}, 1.0, 1e-3, 0.5, 0.01),
    ("space robot", lambda x: {"base_mass": x}, 200.0, 1.0, 5.0, 0.02),
)
DIFFERENCE = 1e-8


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "arguments", "value", "change", "t", "step"), NUMBERS, ids=[row[0] for row in NUMBERS]
)
def test_derivatives_by_a_number(name, arguments, value, change, t, step):
    """Against differences of fourth order."""
    case = CASES[name]

    def observed(x):
        system, state = case.build(FORMULATIONS[case.default], **arguments(x))
        end = march(system, INTEGRATOR, state, step, round(t / step)).state
        return case.observe(system, end.q, end.v).ravel()

    places = jnp.asarray(value) + change * jnp.asarray([-2.0, -1.0, 1.0, 2.0])
    far_below, below, above, far_above = np.asarray(jax.jit(jax.vmap(observed))(places))
    expected = (8.0 * (above - below) - (far_above - far_below)) / (12.0 * change)
    slope = jax.jit(lambda x: jax.jvp(observed, (x,), (jnp.ones(()),))[1])(jnp.asarray(value))
    assert np.max(np.abs(expected)) > 1e3 * DIFFERENCE
    assert_allclose(slope, expected, rtol=DIFFERENCE, atol=DIFFERENCE)
