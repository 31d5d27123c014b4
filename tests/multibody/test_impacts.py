"""Plastic impacts conserve what has no impulse, as computed by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import lie_jax
from tests.messages import check_message

# Two legs of unit length, hip and feet of these masses (kg); their motion is in the plane x, z.
HIP, FOOT = 10.0, 1.0
# About the hip's and feet's centres, kg m².
SPHERE = 1e-2
HINGE = (0.0, -1.0, 0.0)
# Rounding of velocities of order one by matrices of order 1e3.
ROUNDING = 1e-12


def walker(formulation, *, foot=True):
    """A leg with hip and foot on the ground, and a leg with a foot that swings."""
    whole, at = HIP + FOOT, HIP / (HIP + FOOT)
    stance = lie_jax.Body(
        "stance", whole, (HIP * FOOT / whole + SPHERE) * np.eye(3), center_of_mass=(0, 0, at)
    )
    swing = lie_jax.Body(
        "swing", FOOT, SPHERE * np.eye(3), position=(0, 0, 1.0), center_of_mass=(0, 0, -1.0)
    )
    joints = [
        lie_jax.PlanarJoint("ground", "stance", HINGE),
        lie_jax.RevoluteJoint("stance", "swing", HINGE, parent_point=(0, 0, 1.0)),
    ]
    if foot:
        joints.append(lie_jax.SphericalJoint("ground", "stance", name="foot"))
    return lie_jax.assemble(lie_jax.Mechanism([stance, swing], joints), formulation)


def momenta(system, q, v):
    """Angular momenta about y: of all about the origin, of the swinging leg about the hip."""
    read = jax.jit(lambda q, v: (*system.poses(q), system.twists(q, v)))
    rotation, position, twists = map(np.asarray, read(q, v))
    results = []
    hip = position[1]
    for body, point in ((0, np.zeros(3)), (1, np.zeros(3)), (1, hip)):
        mass, inertia, offset = (
            (HIP + FOOT, HIP * FOOT / (HIP + FOOT) + SPHERE, HIP / (HIP + FOOT)),
            (FOOT, SPHERE, -1.0),
        )[body]
        arm = rotation[body] @ np.array([0.0, 0.0, offset])
        omega = rotation[body] @ twists[body, 3:]
        rate = rotation[body] @ twists[body, :3] + np.cross(omega, arm)
        results.append((np.cross(position[body] + arm - point, mass * rate) + inertia * omega)[1])
    return np.array([results[0] + results[1], results[2]])


ANGLES, RATES = (0.2, -0.5), (0.3, -0.7, -0.9, 0.4)


def in_plane(system):
    """A state with the foot at the origin that slips, lifts and turns."""
    q = jnp.asarray([0.0, 0.0, *ANGLES])
    return q, jnp.asarray(RATES)


def test_a_foot_that_strikes_keeps_the_angular_momenta():
    system, _ = walker(lie_jax.Minimal(cut=["foot"]))
    q, v = in_plane(system)
    hold = lie_jax.impact(system, "foot")
    same, after = jax.jit(lambda q, v: hold(q, v))(q, v)
    np.testing.assert_array_equal(same, q)
    np.testing.assert_allclose(after[:2], 0.0, atol=ROUNDING)
    np.testing.assert_allclose(momenta(system, q, after), momenta(system, q, v), atol=ROUNDING)
    # Two momenta determine two rates.
    assert np.abs(np.asarray(after - v)).min() > 0.01


@pytest.mark.full
def test_absolute_coordinates_give_the_same_velocities():
    system, _ = walker(lie_jax.Minimal(cut=["foot"]))
    q, v = in_plane(system)
    _, after = lie_jax.impact(system, "foot")(q, v)
    absolute, _ = walker(lie_jax.R3SO3())
    rotations, positions = system.poses(q)
    turned = jax.vmap(lie_jax.groups.quaternion.from_matrix)(rotations)
    place = jnp.concatenate([positions, turned], axis=1).reshape(-1)

    def velocities(v):
        twists = system.twists(q, v)
        rates = jax.vmap(jnp.matmul)(rotations, twists[:, :3])
        return jnp.concatenate([rates, twists[:, 3:]], axis=1).reshape(-1)

    hit = lie_jax.impact(absolute, absolute.labels[2])
    _, found = hit(0.0, place, velocities(v))
    np.testing.assert_allclose(found, velocities(after), atol=1e-9)


@pytest.mark.full
def test_an_impact_is_the_action_of_an_event():
    """A bar falls flat on a support beneath one end, and turns about it."""
    bar = lie_jax.Body(
        "bar", 1.0, np.diag([0.01, 1.0 / 12.0, 1.0 / 12.0]), position=(0.5, 0.0, 1.0)
    )
    hinge = lie_jax.RevoluteJoint("ground", "bar", (0, 1.0, 0), child_point=(-0.5, 0, 0))
    free, state = lie_jax.assemble(lie_jax.Mechanism([bar]), lie_jax.R3SO3())
    pinned, _ = lie_jax.assemble(lie_jax.Mechanism([bar], [hinge]), lie_jax.R3SO3())
    event = lie_jax.Event(lambda t, q, v: q[2], lie_jax.impact(pinned, hinge), direction=-1)
    run = lie_jax.simulate(free, lie_jax.RKMK("rk4"), state, dt=0.05, steps=10, events=[event])
    hits: Any = run.events
    fallen = np.sqrt(2.0 * 9.81)
    np.testing.assert_allclose(hits.v[0][2], -fallen, rtol=1e-9)
    # m v l / 2 = (m l² / 12 + m l² / 4) ω, and the centre goes on at ω l / 2.
    spin = 1.5 * fallen
    time = run.t[-1] - hits.t[0]
    np.testing.assert_allclose(run.v[-1][3:], [0.0, spin, 0.0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(run.v[-1][2], -0.5 * spin - 9.81 * time, rtol=1e-9)


def test_joints_that_are_no_constraints_are_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    system, state = walker(lie_jax.Minimal(), foot=False)
    check_message(
        lambda: lie_jax.impact(system, ("stance", "swing")), "(joint=)", "those are none", "cut="
    )
    pair: Any = system, state
    check_message(lambda: lie_jax.impact(pair, "foot"), "(system=)", "unpack")
    cut, _ = walker(lie_jax.Minimal(cut=["foot"]))
    check_message(lambda: lie_jax.impact(cut, "knee"), "(joint=) is 'knee'", "those are 'foot'")
    hit = lie_jax.impact(cut, "foot")
    check_message(lambda: hit(jnp.zeros(4)), "called with 1 values", "(t, q, v)")
