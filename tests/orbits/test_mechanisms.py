"""Periodic motions of mechanisms: published digits, closed forms, two formulations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import lie_jax
from models import four_bars

PROJECTED = lie_jax.RKMK("rk4", stabilization=lie_jax.Projection())

# Published start of the simplest walker's gait: stance angle and rate, angle and rate between legs,
# with a hip of 1000 feet and a slope of 0.009 rad. Source: Bhounsule, passivewalker.m.
GAIT = (0.200161072169750, -0.199906060087682, 0.400322144339512, -0.015805473227965)
# Computed once by Newton's method on the return map by hand, whose gait has the published digits.
PERIOD, MULTIPLIER = 3.8819400, -0.196668 + 0.544727j
HIP, FOOT, SLOPE = 1000.0, 1.0, 0.009
HINGE = (0.0, -1.0, 0.0)
WEIGHT = (np.sin(SLOPE), 0.0, -np.cos(SLOPE))


def check_gait(orbit, angle, between, tolerance):
    """`angle` and `between`: numbers of the coordinates; the second one counts the other way."""
    q, v = np.asarray(orbit.state.q), np.asarray(orbit.state.v)
    found = [q[angle], v[angle], -q[between], -v[between]]
    np.testing.assert_allclose(found, GAIT, rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(orbit.period, PERIOD, atol=1e-7)
    largest = np.asarray(orbit.multipliers)[:2]
    np.testing.assert_allclose(sorted(largest, key=np.imag)[1], MULTIPLIER, atol=1e-6)
    np.testing.assert_allclose(orbit.multipliers[2:], 0.0, atol=1e-6)
    assert orbit.stable and orbit.freedom == 0


def legs(inertia, mass, joints, formulation, hip=(1.0, 0.0)):
    """A leg on the ground, `mass` with the `hip`'s height and inertia, and one that swings."""
    height, moment = hip
    stance = lie_jax.Body(
        "stance", mass, inertia + moment * np.eye(3), center_of_mass=(0, 0, height)
    )
    swing = lie_jax.Body("swing", FOOT, inertia, position=(0, 0, 1.0), center_of_mass=(0, 0, -1.0))
    knee = lie_jax.RevoluteJoint("stance", "swing", HINGE, parent_point=(0, 0, 1.0))
    mechanism = lie_jax.Mechanism([stance, swing], [*joints, knee], gravity=WEIGHT)
    return lie_jax.assemble(mechanism, formulation)


@pytest.mark.full
def test_the_simplest_walker_has_its_published_gait():
    """The impact is written by hand, from momenta about the foot and about the hip."""
    small = 1e-12 * np.eye(3)
    foot = lie_jax.RevoluteJoint("ground", "stance", HINGE)
    system, _ = legs(small, HIP, [foot], lie_jax.Minimal())

    def strike(t, q, v):
        # Not in the middle of the step, where the legs pass each other.
        return jnp.where(q[1] < 0.05, 1.0, 2.0 * q[0] + q[1])

    def impact(t, q, v):
        stance, between = q[0] + q[1], -q[1]
        # The hip's momentum about the new foot, which the trailing foot takes a part of.
        c, s = jnp.cos(between), jnp.sin(between)
        rate = HIP * c * v[0] / (HIP + FOOT * s**2)
        return jnp.stack([stance, between]), jnp.stack([rate, (c - 1.0) * rate])

    orbit = lie_jax.periodic_orbit(
        *(system, lie_jax.RKMK("rk4"), lie_jax.State([0.2, -0.4], [-0.2, 0.3])),
        **{"period": 5.0, "steps": 500},
        until=lie_jax.Event(strike, impact, direction=-1),
    )
    check_gait(orbit, 0, 1, 1e-12)


@pytest.mark.full
def test_the_simplest_walker_walks_by_the_plastic_impact_of_its_foot():
    """The foot is a constraint; legs are swapped, then the new foot begins to hold."""
    joints = [
        lie_jax.PlanarJoint("ground", "stance", HINGE),
        lie_jax.SphericalJoint("ground", "stance", name="foot"),
    ]
    small = 1e-9 * np.eye(3)
    # The foot on the ground has its mass, too: it does not matter, but keeps matrices regular.
    whole = HIP + FOOT
    both = HIP / whole, HIP * FOOT / whole
    system, _ = legs(small, whole, joints, lie_jax.Minimal(cut=["foot"]), both)
    hold = lie_jax.impact(system, "foot")

    def leg(angle):
        return jnp.stack([-jnp.sin(angle), jnp.cos(angle)])

    def swap(q):
        foot = q[:2] + leg(q[2]) - leg(q[2] + q[3])
        return jnp.concatenate([foot, jnp.stack([q[2] + q[3], -q[3]])])

    def symmetry(q, v):
        q, v = jax.jvp(swap, (q,), (v,))
        return hold(q.at[:2].set(0.0), v)

    def strike(t, q, v):
        return jnp.where(q[3] < 0.05, 1.0, 2.0 * q[2] + q[3])

    start = lie_jax.State([0.0, 0.0, 0.2, -0.4], [0.0, 0.0, -0.2, 0.3])
    orbit = lie_jax.periodic_orbit(
        *(system, PROJECTED, start),
        **{"period": 5.0, "steps": 500, "symmetry": symmetry},
        until=lie_jax.Event(strike, "stop", direction=-1),
    )
    # The gait of a foot of small inertia, by steps of other coordinates.
    check_gait(orbit, 2, 3, 1e-9)


@pytest.mark.full
def test_a_free_body_tumbles_with_its_elliptic_period():
    moments, rates = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, 1.0])
    body = lie_jax.Body("body", 1.0, np.diag(moments), omega_body=rates)
    system, start = lie_jax.assemble(lie_jax.Mechanism([body], gravity=(0, 0, 0)), lie_jax.R3SO3())
    energy, momentum = np.sum(moments * rates**2), np.sum((moments * rates) ** 2)
    # About the largest moment.
    across = (moments[2] - moments[1]) * (momentum - energy * moments[0])
    m = (moments[1] - moments[0]) * (energy * moments[2] - momentum) / across
    period = 4.0 * scipy.special.ellipk(m) / np.sqrt(across / np.prod(moments))
    orbit = lie_jax.periodic_orbit(
        *(system, lie_jax.RKMK("rk4"), start),
        **{"period": 0.95 * period, "steps": 100, "free_period": True},
        # Angular velocities are periodic, orientations are not.
        symmetry=lambda q, v: (start.q, v),
    )
    np.testing.assert_allclose(orbit.period, period, rtol=1e-6)
    # The rates, and the velocity of the centre, may be any.
    assert orbit.freedom == 6


@pytest.mark.full
def test_a_driven_linkage_has_one_motion_in_two_formulations():
    """A parallelogram with a spring: (5/3) m L² θ'' = -k θ - c θ' + τ cos ωt."""
    stiffness, damping, torque, rate = 3.0, 0.4, 0.5, 2.0
    period = 2.0 * np.pi / rate
    angles, multipliers = [], []
    for formulation in (lie_jax.Minimal(), lie_jax.R3SO3()):
        system, state = linkage(formulation, stiffness, damping, torque, rate)
        orbit = lie_jax.periodic_orbit(system, PROJECTED, state, period=period, steps=40)
        run = orbit.trajectory
        angles.append(np.asarray(four_bars.post_angle(system, run.q, run.v, run.t)))
        multipliers.append(sorted(np.asarray(orbit.multipliers), key=np.imag))
        assert orbit.monodromy.shape == (2, 2) and orbit.stable
        assert float(np.abs(system.constraint(0.0, orbit.state.q)).max()) < 1e-12
    inertia = 5.0 / 3.0
    amplitude = torque / (stiffness - inertia * rate**2 + 1j * damping * rate)
    exact = np.real(amplitude * np.exp(1j * rate * np.asarray(run.t)))
    for found in angles:
        np.testing.assert_allclose(found - found.mean(), exact - exact.mean(), atol=1e-5)
    np.testing.assert_allclose(multipliers[0], multipliers[1], atol=1e-5)
    decay = np.exp(-damping / inertia * period)
    np.testing.assert_allclose(np.prod(multipliers[0]).real, decay, atol=1e-5)


def linkage(formulation, stiffness, damping, torque, rate):
    start = four_bars.place(jnp.asarray(jnp.pi / 2), jnp.asarray(1.0), 1)
    rotations, positions = start
    inertia = np.diag(four_bars.inertia(1.0, 1.0))
    bodies = [
        lie_jax.Body(
            name, 1.0, inertia, position=positions[i],
            orientation=lie_jax.groups.quaternion.from_matrix(rotations[i]),
        )
        for i, name in enumerate(four_bars.names(1))
    ]  # fmt: skip
    joints = [
        lie_jax.RevoluteJoint(parent, child, (0, 0, 1.0), *points)
        for parent, child, *points in four_bars.hinges(1)
    ]
    coil = lie_jax.JointSpring(joints[0], stiffness=stiffness, damping=damping, relaxed=np.pi / 2)
    drive = lie_jax.Torque(
        "post 0", lambda t: torque * jnp.cos(rate * t) * jnp.asarray([0.0, 0.0, 1.0])
    )
    mechanism = lie_jax.Mechanism(bodies, joints, [coil, drive], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, formulation)
