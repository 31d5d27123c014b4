"""Joints that constrain velocities: their reactions, and motions that have a closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.systems.system import AbstractSystem, accelerations_and_multipliers
from tests import mechanisms
from tests.suites import cases

# Rounding of products of a few numbers of the order one.
ROUNDING = 1e-13
# The same in accelerations, through the solution for the multipliers.
ACCELERATION_ROUNDING = 1e-12
FORMULATIONS = {
    "SE3": lie_jax.SE3(),
    # Its own constraints stand between those on positions and those on velocities.
    "EulerParameters": lie_jax.EulerParameters(),
}


@pytest.mark.parametrize("name", cases(FORMULATIONS, []))
def test_reactions_are_the_transposed_jacobian(name):
    """Far from poses that satisfy the joints too; velocity constraints are affine and come last."""
    rng = np.random.default_rng(8)

    def disc(parent, child):
        points = {"parent_point": rng.normal(size=3), "child_point": rng.normal(size=3)}
        return lie_jax.RollingDisc(
            parent, child, 0.7, rng.normal(size=3), rng.normal(size=3), **points
        )

    joints = [
        disc("ground", "a"),
        mechanisms.LooseGear("b", "a", rng.normal(size=3), rng.normal(size=3), -1.7),
        lie_jax.SphericalJoint("b", "a"),
        disc("a", "b"),
    ]
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in "ab"]
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), FORMULATIONS[name])
    own = system.nc - 3 - 2 * 3 - 1
    assert (own, system.velocity_rows) == (2 if name == "EulerParameters" else 0, 2 * 2 + 1)
    away, v = (jnp.asarray(rng.normal(size=(4, system.nv))) for _ in range(2))
    q = jax.jit(jax.vmap(system.space.retract, (None, 0)))(state.q, away)

    @jax.jit
    @jax.vmap
    def defects(q, v):
        t = jnp.asarray(0.3)
        jacobian = system.constraint_jacobian(t, q)
        rows = system.velocity_constraint(t, q, v)
        constraint = system.constraint(t, q)
        assert constraint.shape == (5 + own,)
        return {
            "reactions": jacobian - AbstractSystem.constraint_jacobian(system, t, q),
            "affine": rows - jacobian[-system.velocity_rows :] @ v,
            "rates": system.constraint_rate(t, q, v) - jacobian @ v,
        }

    for rule, value in defects(q, v).items():
        assert float(jnp.max(jnp.abs(value))) < 10 * ROUNDING, rule


MASS, RADIUS, GRAVITY = 1.5, 0.3, 9.81
ACROSS, ABOUT = 0.3 * MASS * RADIUS**2, 0.55 * MASS * RADIUS**2


def _disc(home, plane, along, axis, spin, turning, velocity):
    """A rolling disc in a plane that stands anywhere; vectors in components of the plane.

    `along` are axes of the disc for those (1, 0, 0), (0, 1, 0) and `axis` for (0, 0, 1).
    """
    rotation, point = plane
    turn = rotation @ np.column_stack([*along, axis]) @ home.T
    omega = home @ np.asarray([*(np.asarray(a) @ turning for a in along), spin])
    inertia = home @ np.diag([ACROSS, ACROSS, ABOUT]) @ home.T
    # The centre is a radius away from the contact, up along the disc.
    up = np.asarray([0.0, 0.0, 1.0]) - axis[2] * axis
    center = np.asarray([0.0, 0.0, RADIUS * np.linalg.norm(up)])
    body = lie_jax.Body(
        "disc", MASS, inertia, position=point + rotation @ center, velocity=rotation @ velocity,
        orientation=lie_jax.groups.quaternion.from_matrix(jnp.asarray(turn)), omega_body=omega,
    )  # fmt: skip
    joint = lie_jax.RollingDisc("ground", "disc", RADIUS, home[:, 2], rotation[:, 2], point)
    mechanism = lie_jax.Mechanism([body], [joint], gravity=-GRAVITY * rotation[:, 2])
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


STEP, STEPS = 2e-3, 4000
# A method of order 4 errs by some (ωh)⁴ωt/120 of the amplitude of 1 m: with ω = 6 rad/s, h = 2 ms
# and t = 8 s, 1e-8.
METHOD_ERROR = 2e-8
# Contact forces change by some ten newtons a metre.
FORCE_ERROR = 10 * METHOD_ERROR


def _rolling():
    """Upright in a straight line, and with a constant tilt θ of the axis a against the normal n.

    With the angular velocity Ω n + ψ̇ a, s = Ω cos θ + ψ̇ about the axis, u the direction of a along
    the plane and w = n × u: the contact is at r d from the centre, d = cos θ u - sin θ n, so that
    the centre has the velocity -r s w and goes round in a circle of radius ρ = -r s / Ω. Its
    acceleration r s Ω u and the weight give the contact force, whose moment about the centre,
    -m r (r s Ω sin θ + g cos θ) w, turns the angular momentum at the rate Ω sin θ (C s - A Ω cos θ)
    w. Hence (C + m r²) s Ω sin θ + m g r cos θ = A Ω² sin θ cos θ.
    """
    rng = np.random.default_rng(2)
    home, slope = (
        np.asarray(lie_jax.groups.so3.exp(jnp.asarray(rng.normal(size=3)))) for _ in range(2)
    )
    plane = slope, rng.normal(size=3)
    tilt, omega = 1.2, 1.6
    sine, cosine = np.sin(tilt), np.cos(tilt)
    moment = (ABOUT + MASS * RADIUS**2) * omega * sine
    spin = cosine * (ACROSS * omega**2 * sine - MASS * GRAVITY * RADIUS) / moment
    x, y, z = np.eye(3)
    circle = _disc(
        home, plane, (cosine * x - sine * z, y), sine * x + cosine * z, spin, omega * z,
        -RADIUS * spin * y,
    )  # fmt: skip
    straight = _disc(home, plane, (-z, y), x, 5.0, 0.0 * z, -RADIUS * 5.0 * y)
    return home, plane, tilt, omega, spin, circle, straight


def test_rolling_discs_accelerate():
    """Centre, axis and contact force at an instant of both motions."""
    home, (slope, _), tilt, omega, spin, circle, straight = _rolling()
    accelerations = jax.jit(accelerations_and_multipliers)
    for (system, state), rate, speed, lean in (
        (circle, omega, spin, tilt), (straight, 0.0, 5.0, 0.5 * np.pi)
    ):  # fmt: skip
        dv, multipliers = accelerations(system, 0.0, state.q, state.v)
        center = np.asarray([RADIUS * speed * rate, 0.0, 0.0])
        assert_allclose(slope.T @ dv[:3], center, atol=10 * ACCELERATION_ROUNDING)
        # s and θ are constant: about the axis, ω̇ is zero.
        assert_allclose(home[:, 2] @ dv[3:], 0.0, atol=10 * ACCELERATION_ROUNDING)
        # Ω n × ω in the plane's components, seen from the disc.
        axis = np.asarray([np.sin(lean), 0.0, np.cos(lean)])
        up = np.asarray([0.0, 0.0, 1.0])
        whole = rate * up + (speed - rate * np.cos(lean)) * axis
        turn = np.asarray(lie_jax.groups.quaternion.to_matrix(state.q[3:]))
        change = np.asarray(slope.T @ turn @ dv[3:])
        assert_allclose(change, np.cross(rate * up, whole), atol=10 * ACCELERATION_ROUNDING)
        friction = MASS * RADIUS * abs(speed) * rate
        assert_allclose(multipliers[0], -MASS * GRAVITY, rtol=10 * ACCELERATION_ROUNDING)
        assert_allclose(np.linalg.norm(multipliers[1:]), friction, atol=100 * ROUNDING)


@pytest.mark.full
def test_discs_roll_straight_and_in_circles():
    home, plane, tilt, omega, spin, circle, straight = _rolling()
    slope, (x, y, z) = plane[0], np.eye(3)
    method = lie_jax.RKMK("rk4", stabilization=lie_jax.Projection())
    runs = [
        lie_jax.simulate(system, method, state, dt=STEP, steps=STEPS, save=500)
        for system, state in (circle, straight)
    ]
    system = circle[0]
    measure = jax.jit(
        jax.vmap(lambda q, v: (system.poses(q), system.kinetic_energy(q, v), system.twists(q, v)))
    )
    for run, rate, speed, lean in zip(
        runs, (omega, 0.0), (spin, 5.0), (tilt, 0.5 * np.pi), strict=True
    ):
        (rotation, position), energy, twist = measure(run.q, run.v)
        axis = np.asarray(rotation[:, 0]) @ home[:, 2] @ slope
        place = (np.asarray(position[:, 0]) - plane[1]) @ slope
        angle = rate * np.asarray(run.t)
        travelled = -RADIUS * speed * np.asarray(run.t)
        u = np.outer(np.cos(angle), x) + np.outer(np.sin(angle), y)
        expected = np.outer(travelled, y)
        if rate:
            expected = -RADIUS * speed / rate * (u - x)
        expected = expected + RADIUS * np.sin(lean) * z
        assert_allclose(axis, np.sin(lean) * u + np.cos(lean) * z, atol=METHOD_ERROR)
        assert_allclose(place, expected, atol=METHOD_ERROR)
        assert_allclose(twist[:, 0, 3:] @ home[:, 2], np.full(9, speed), atol=METHOD_ERROR)
        assert_allclose(energy, np.full(9, energy[0]), rtol=METHOD_ERROR)
        # The disc presses on the plane by its weight, and with what keeps it on the circle.
        assert_allclose(run.multipliers[:, 0], np.full(9, -MASS * GRAVITY), atol=FORCE_ERROR)
        friction = MASS * RADIUS * abs(speed) * rate
        size = np.linalg.norm(run.multipliers[:, 1:], axis=1)
        assert_allclose(size, np.full(9, friction), atol=FORCE_ERROR)
    # More than two turns of the circle and six of the wheel.
    assert omega * STEP * STEPS > 2 * 2 * np.pi and abs(spin) * STEP * STEPS > 6 * 2 * np.pi


def test_gears_share_a_torque():
    """Two hinged wheels: (J + i² J') φ̈ = T, and the gear drives the other one with i J' φ̈."""
    moments, ratio, torque = (0.7, 0.2), -2.5, 3.0
    rng = np.random.default_rng(4)
    axes = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in moments]
    bodies = [
        lie_jax.Body(
            name, 1.0, basis @ np.diag([0.4, 0.5, moment]) @ basis.T, omega_body=rate * basis[:, 2]
        )
        for name, moment, basis, rate in zip(
            ("driving", "driven"), moments, axes, (1.0, ratio), strict=True
        )
    ]
    joints = [
        lie_jax.GearJoint("driving", "driven", axes[0][:, 2], axes[1][:, 2], ratio),
        lie_jax.RevoluteJoint("ground", "driving", axes[0][:, 2]),
        lie_jax.RevoluteJoint("ground", "driven", axes[1][:, 2]),
    ]
    motor = lie_jax.Torque("driving", torque * axes[0][:, 2])
    mechanism = lie_jax.Mechanism(bodies, joints, [motor])
    system, state = lie_jax.assemble(mechanism, lie_jax.EulerParameters())

    @jax.jit
    def evaluated(q, v):
        dv, multipliers = accelerations_and_multipliers(system, 0.0, q, v)
        rates = jax.jvp(system.twists, (q, v), (system.space.lift(q, v), dv))[1]
        return rates[:, 3:], multipliers, system.constraint_rate(jnp.asarray(0.0), q, v)

    angular, multipliers, violated = evaluated(state.q, state.v)
    expected = torque / (moments[0] + ratio**2 * moments[1])
    assert_allclose(violated, np.zeros(system.nc), atol=ROUNDING)
    assert_allclose(angular[0], expected * axes[0][:, 2], atol=ACCELERATION_ROUNDING)
    assert_allclose(angular[1], ratio * expected * axes[1][:, 2], atol=ACCELERATION_ROUNDING)
    assert_allclose(-multipliers[-1], moments[1] * ratio * expected, atol=ACCELERATION_ROUNDING)
