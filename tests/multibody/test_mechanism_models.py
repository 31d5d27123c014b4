"""Slider-crank, Bricard mechanism, Puma 560 and hinged chain: equations and reference motions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from models import bricard, chain, puma560, slider_crank

# Rounding in positions and velocities of up to some ten units.
CONSISTENT = 1e-12
# The same in accelerations relative to the largest, through matrices with moments from 4e-5 to 1.
EQUAL = 1e-13
# Singular values of independent constraints are above 0.01 here, of dependent ones some 1e-16.
DEPENDENT = 1e-6


def _at_the_start(system, state):
    """Constraints, their rates, and singular values of their Jacobian."""
    t = jnp.zeros((), state.q.dtype)
    jacobian = system.constraint_jacobian(t, state.q)
    spectrum = jnp.linalg.svd(jacobian, compute_uv=False)
    return system.constraint(t, state.q), jacobian @ state.v, spectrum


def _check_start(constraint, rate, spectrum, rank):
    assert_allclose(constraint, np.zeros_like(constraint), rtol=0, atol=CONSISTENT)
    assert_allclose(rate, np.zeros_like(rate), rtol=0, atol=CONSISTENT)
    assert np.all(np.sum(np.asarray(spectrum) > DEPENDENT, axis=-1) == rank)


def _loop(theta):
    """Slider, rod's angles about x, then y, and rod's centre, from the loop seen from its end."""
    y, z = 0.1 - 0.08 * jnp.sin(theta), 0.12 + 0.08 * jnp.cos(theta)
    s = jnp.sqrt(0.09 - y**2 - z**2)
    return s, jnp.arctan2(-y, z), jnp.arctan2(jnp.hypot(y, z), s), 0.5 * jnp.stack([s, y, z])


def _energies(theta, crank_com):
    """M(θ) and V(θ) of the slider-crank as a mechanism with one coordinate."""
    (_, _, tilt, center), (ds, turn_rate, tilt_rate, velocity) = jax.jvp(_loop, (theta,), (1.0,))
    # Body rates of Rx(turn) Ry(tilt).
    omega = jnp.stack([turn_rate * jnp.cos(tilt), tilt_rate, turn_rate * jnp.sin(tilt)])
    mass = 0.0001 + 0.12 * crank_com[2] ** 2 + 2.0 * ds**2
    mass += 0.5 * velocity @ velocity + omega @ (jnp.asarray([0.0004, 0.004, 0.004]) * omega)
    height = 0.12 * (0.12 + crank_com[2] * jnp.cos(theta)) + 0.5 * center[2]
    return mass, 9.81 * height


CRANKS = {slider_crank.CRANK_COM: slider_crank.REFERENCE}
CRANKS[slider_crank.MID_CRANK] = slider_crank.REFERENCE_MID_CRANK


# `make test` has Cardan's loop and legs with a closed one.
@pytest.mark.full
def test_the_slider_crank_moves_as_its_energy_says():
    """M θ̈ + ½ M' θ̇² + V' = 0 with both places of the crank's centre of mass, at the start of
    Table 8, elsewhere, and at the reference solutions, whose energy must be that of the start.
    """
    motions = [[(0.0, 6.0), (2.9, -9.0), (-1.8, 0.0)] for _ in CRANKS]
    for mine, reference in zip(motions, CRANKS.values(), strict=True):
        mine += [values[:2] for values in reference.values()]
    coms = jnp.asarray(list(CRANKS))

    @jax.jit
    @jax.vmap
    def evaluated(motions, com):
        def at(motion):
            theta, speed = motion
            system, state = slider_crank.build(angle=theta, speed=speed, crank_com=com)
            acceleration = system.acceleration(0.0, state.q, state.v)[3]
            kinetic = system.kinetic_energy(state.q, state.v)
            potential = system.potential_energy(state.q)
            (mass, height), slope = jax.jvp(lambda x: _energies(x, com), (theta,), (1.0,))
            left = (
                acceleration * mass + 0.5 * slope[0] * speed**2 + slope[1],
                kinetic - 0.5 * mass * speed**2,
                potential - height,
                jnp.sin(slider_crank.crank_angle(system, state.q) - theta),
            )
            rod = system.poses(state.q)[0][1], system.twists(state.q, state.v)[1:]
            slider = slider_crank.slider_position(system, state.q)
            start = _at_the_start(system, state)
            return left, kinetic + potential, slider, rod, start

        return jax.vmap(at)(motions)

    left, energy, slider, (rotation, twists), start = jax.tree.map(
        np.asarray, evaluated(jnp.asarray(motions), coms)
    )
    for value in left:
        assert_allclose(value, np.zeros((2, 8)), rtol=0, atol=CONSISTENT)
    _check_start(*start, rank=17)
    # Digits of θ̇ enter with M θ̇² of some joules.
    assert_allclose(energy[:, 3:], np.tile(energy[:, :1], 5), rtol=0, atol=CONSISTENT)
    for i, reference in enumerate(CRANKS.values()):
        expected = np.asarray(list(reference.values()))[:, 2:]
        found = np.stack([slider[i, 3:], twists[i, 3:, 1, 0]], axis=1)
        assert_allclose(found, expected, rtol=0, atol=CONSISTENT)
    rod = rotation[0, 0]
    assert_allclose(rod @ twists[0, 0, 0, :3], [0.12, -0.24, 0.0], rtol=0, atol=CONSISTENT)
    assert_allclose(rod @ twists[0, 0, 0, 3:], [1.92, -0.96, 0.48], rtol=0, atol=CONSISTENT)
    a, b = -0.46364761, 0.84106867
    about_x = np.asarray([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    about_y = np.asarray([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    # Two angles of eight printed digits.
    assert_allclose(rod, about_x @ about_y, rtol=0, atol=1e-8)
    assert_allclose(slider[0, 0], 0.2, rtol=0, atol=CONSISTENT)


# RKMK of order 6 with h = 1 ms: it errs by 2e-9 rad at the end, with a quarter of h by 6e-13.
CRANK_ERROR = 1e-8


@pytest.mark.full
def test_slider_crank_over_the_time_of_the_paper():
    @jax.jit
    @jax.vmap
    def simulated(com):
        system, state = slider_crank.build(crank_com=com)
        integrator = lie_jax.RKMK("rk67", stabilization=lie_jax.Projection())
        run = lie_jax.simulate(system, integrator, state, dt=1e-3, steps=5000, save=50, throw=False)
        return (
            jax.vmap(lambda q: slider_crank.crank_angle(system, q))(run.q),
            jax.vmap(lambda q: slider_crank.slider_position(system, q))(run.q),
        )

    theta, slider = (np.asarray(x) for x in simulated(jnp.asarray(list(CRANKS))))
    found = np.stack([np.unwrap(theta, axis=1), slider], axis=2)[:, 20::20]
    expected = np.asarray([list(reference.values()) for reference in CRANKS.values()])
    assert_allclose(found, expected[:, :, [0, 2]], rtol=0, atol=CRANK_ERROR)


@pytest.mark.full
def test_bricard_closes_where_its_closed_form_says():
    """Bars placed hinge by hinge: all constraints vanish, and the observed point is the known one;
    not so if an angle is off.
    """
    angles = np.asarray([reference[1] for reference in bricard.REFERENCE.values()])
    a, b = angles.T
    assert_allclose(np.sin(a) + np.sin(b) + np.sin(a) * np.sin(b), 0.0, atol=1e-15)

    def placed(system, angles):
        rotation, position, bodies = jnp.eye(3), jnp.zeros(3), []
        for axis, edge, angle in zip(bricard.AXES, bricard.EDGES, angles, strict=False):
            rotation = rotation @ lie_jax.groups.so3.exp(angle * jnp.asarray(axis))
            half = 0.5 * (rotation @ jnp.asarray(edge))
            orientation = lie_jax.groups.quaternion.from_matrix(rotation)
            bodies.append(jnp.concatenate([position + half, orientation]))
            position = position + 2.0 * half
        state = lie_jax.State(jnp.concatenate(bodies), jnp.zeros(30))
        return *_at_the_start(system, state), bricard.observed_point(system, state.q)

    @jax.jit
    def evaluated(angles):
        system, state = bricard.build()
        given = bricard.REFERENCE[1.0][1][0]
        moving = bricard.build(angle=given, rate=2.0)[1]
        place = jax.vmap(lambda angles: placed(system, angles))
        seen = bricard.observed_point(system, state.q), bricard.observed_point(system, moving.q)
        return _at_the_start(system, state), _at_the_start(system, moving), seen, place(angles)

    five = np.stack([angles[:, [0, 1, 0, 1, 0]], angles[:, [0, 1, 0, 1, 0]]])
    five[1, :, 1] += 1e-3
    home, moving, seen, (constraint, rate, spectrum, points) = jax.tree.map(
        np.asarray, evaluated(jnp.asarray(five.reshape(-1, 5)))
    )
    _check_start(*home, rank=29)
    _check_start(*moving, rank=29)
    observed = [(1.0, -1.0, 1.0), bricard.REFERENCE[1.0][0]]
    assert_allclose(seen, observed, rtol=0, atol=CONSISTENT)
    n = len(angles)
    _check_start(constraint[:n], rate[:n], spectrum[:n], rank=29)
    expected = [reference[0] for reference in bricard.REFERENCE.values()]
    assert_allclose(points[:n], expected, rtol=0, atol=CONSISTENT)
    assert np.all(np.max(np.abs(constraint[n:]), axis=1) > 1e-4)


# The controllers' gains of 40 000 N m/rad times the rounding of angles.
TORQUE_ROUNDING = 1e-10


# `make test` has its motors, which have the same torques.
@pytest.mark.full
def test_puma_has_the_torques_of_a_given_motion():
    sample = puma560.INVERSE_DYNAMICS

    @jax.jit
    def evaluated():
        system, state = puma560.build(
            lie_jax.Minimal(), angles=sample["angles"], rates=sample["rates"]
        )
        given, none = jnp.asarray(sample["accelerations"]), jnp.zeros(0)
        torques = system.residual(jnp.zeros(()), state.q, state.v, given, none)
        return puma560.joint_angles(system, state.q), state.v, torques

    angles, rates, torques = (np.asarray(x) for x in evaluated())
    assert_allclose(angles, sample["angles"], rtol=0, atol=CONSISTENT)
    assert_allclose(rates, sample["rates"], rtol=0, atol=CONSISTENT)
    # At their start the controllers see the rates alone.
    torques = torques - np.asarray(puma560.DERIVATIVE) * rates
    assert_allclose(torques, sample["torques"], rtol=0, atol=TORQUE_ROUNDING)


@pytest.mark.full
def test_puma_moves_alike_in_both_coordinates():
    """Motion and accelerations of all links, and joint angles."""
    sample = puma560.INVERSE_DYNAMICS
    # Some time after the start the controllers are far from their commands here.
    later = jnp.asarray(0.3)

    @jax.jit
    def evaluated():
        (absolute, state), (minimal, start) = (
            puma560.build(formulation, angles=sample["angles"], rates=sample["rates"])
            for formulation in (lie_jax.R3SO3(), lie_jax.Minimal())
        )

        def moving(q, v):
            rotation, position = minimal.poses(q)
            twist = minimal.twists(q, v)
            linear = jnp.einsum("nij,nj->ni", rotation, twist[:, :3])
            return jnp.concatenate([linear, twist[:, 3:]], axis=1), rotation, position

        change = minimal.acceleration(later, start.q, start.v)
        now, (rate, *_) = jax.jvp(moving, (start.q, start.v), (start.v, change))
        return (
            (absolute.acceleration(later, state.q, state.v).reshape(-1, 6), rate),
            ((state.v.reshape(-1, 6), *absolute.poses(state.q)), now),
            _at_the_start(absolute, state),
            puma560.joint_angles(absolute, state.q),
        )

    (got, expected), motions, start, angles = evaluated()
    _check_start(*start, rank=30)
    for one, other in zip(*motions, strict=True):
        assert_allclose(one, other, rtol=0, atol=CONSISTENT)
    assert_allclose(got, expected, rtol=0, atol=EQUAL * float(np.max(np.abs(expected))))
    assert_allclose(angles, sample["angles"], rtol=0, atol=CONSISTENT)


@pytest.mark.full
def test_hinged_chain():
    """Links turn about x and y in turn, in both coordinates."""
    spin = np.random.default_rng(4).uniform(-6.0, 6.0, (3, 3))

    @jax.jit
    def evaluated(spin):
        pairs = [
            chain.build(formulation, n=3, joint="revolute", omega_relative=spin)
            for formulation in (lie_jax.R3SO3(), lie_jax.Minimal())
        ]
        tips = jnp.stack([chain.tip(system, state.q) for system, state in pairs])
        return _at_the_start(*pairs[0]), tips, [state.v for _, state in pairs]

    start, tips, (absolute, minimal) = evaluated(jnp.asarray(spin))
    _check_start(*start, rank=15)
    assert_allclose(tips, [[0.0, 0.0, -1.5]] * 2, rtol=0, atol=CONSISTENT)
    about = np.eye(3)[[0, 1, 0]] * spin
    assert_allclose(minimal, np.sum(about, axis=1), rtol=0, atol=CONSISTENT)
    omegas = np.asarray(absolute).reshape(3, 6)[:, 3:]
    assert_allclose(omegas, np.cumsum(about, axis=0), rtol=0, atol=CONSISTENT)


# RK4 with h = 0.1 ms, a quarter of the last controller's time constant: it errs by 6e-12 and 1e-8.
PUMA_ERROR, PUMA_RATE_ERROR = 1e-10, 1e-7


def _puma_errors(tableau: str, tenths: int):
    """Largest errors of angles and rates at the reference times so far (rad, rad/s)."""

    @jax.jit
    def simulated():
        system, state = puma560.build(lie_jax.Minimal())
        steps, method = 1000 * tenths, lie_jax.RKMK(tableau)
        run = lie_jax.simulate(system, method, state, dt=1e-4, steps=steps, save=1000, throw=False)
        return run.q, run.v

    times = [seconds for seconds in puma560.REFERENCE if 10 * seconds <= tenths]
    expected = np.asarray([puma560.REFERENCE[seconds] for seconds in times])
    places = [round(10 * seconds) for seconds in times]
    found = np.stack(simulated(), axis=1)[places]
    return np.max(np.abs(found - expected), axis=(0, 2))


@pytest.mark.full
def test_puma():
    assert np.all(_puma_errors("rk4", 1) < [PUMA_ERROR, PUMA_RATE_ERROR])


@pytest.mark.full
def test_puma_over_the_time_of_the_paper():
    # Order 6 errs by 1e-14 rad and 3e-11 rad/s, at half the step by 2e-15 rad and 4e-13 rad/s.
    assert np.all(_puma_errors("rk67", 10) < [1e-13, 1e-10])


def test_commands_brake_and_rest():
    command = puma560.AccelerateAndBrake(0.3, -2.0, 0.5)
    t = jnp.asarray([0.0, 0.2, 0.5, 0.8, 1.0, 1.7])
    value, rate = jax.jit(jax.vmap(lambda t: jax.jvp(command, (t,), (1.0,))))(t)
    assert_allclose(value, 0.3 - 2.0 * np.asarray([0, 0.02, 0.125, 0.23, 0.25, 0.25]), atol=1e-15)
    assert_allclose(rate, -2.0 * np.asarray([0.0, 0.2, 0.5, 0.2, 0.0, 0.0]), atol=1e-15)
