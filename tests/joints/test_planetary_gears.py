"""Wheels on a carrier: coupled hinges share tooth forces with it, gears on the ground do not."""

import dataclasses

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.messages import check_message

Z = np.eye(3)[2]
SUN, PLANET, RING = 18, 12, 42
SUN_MOMENT, PLANET_MOMENT, CARRIER_MOMENT, MASS, ARM = 0.01, 0.002, 0.03, 0.5, 0.15
TORQUE = 0.3
# Error of steps of the order four, with 0.1 rad of the planet's path in each of the last ones.
ERROR = 1e-8


def _wheel(name, moment, mass=1.0, **others):
    return lie_jax.Body(name, mass, np.diag([0.5 * moment + 1e-3] * 2 + [moment]), **others)


BODIES = [
    _wheel("sun", SUN_MOMENT),
    _wheel("carrier", CARRIER_MOMENT),
    _wheel("planet", PLANET_MOMENT, MASS, position=(ARM, 0.0, 0.0)),
]
CARRIER = lie_jax.RevoluteJoint("ground", "carrier", Z)
SHAFT = lie_jax.RevoluteJoint("carrier", "planet", Z, parent_point=(ARM, 0.0, 0.0))


def _with_ring_held(driver):
    """Sun and ring mesh with the planet, or the ring alone, which on the carrier turns backwards;
    a motor acts on the driver.
    """
    bodies, joints = BODIES[1:], [CARRIER, SHAFT]
    if driver == "sun":
        sun = lie_jax.RevoluteJoint("carrier", "sun", Z)
        bodies = BODIES
        joints += [sun, lie_jax.CouplingJoint(SHAFT, sun, (0.0, -SUN / PLANET))]
    joints.append(lie_jax.CouplingJoint(SHAFT, CARRIER, (0.0, -RING / PLANET)))
    motor = lie_jax.Torque(driver, TORQUE * Z)
    return lie_jax.Mechanism(bodies, joints, [motor], gravity=(0.0, 0.0, 0.0))


# Rates of sun, carrier and planet for that of the carrier (Willis), and their moments.
RATES = np.asarray([1.0 + RING / SUN, 1.0, 1.0 - RING / PLANET])
MOMENTS = np.asarray([SUN_MOMENT, CARRIER_MOMENT + MASS * ARM**2, PLANET_MOMENT])
GEARS = [("Minimal", "sun"), ("R3SO3", "sun"), ("SE3", "sun"), ("R3SO3", "carrier")]


@pytest.mark.full
@pytest.mark.parametrize(("name", "driver"), GEARS)
def test_a_planetary_gear_turns_as_willis_says(name, driver):
    """Four turns of the fastest wheel, of which absolute coordinates know less than one."""
    system, state = lie_jax.assemble(_with_ring_held(driver), getattr(lie_jax, name)())
    first = 0 if driver == "sun" else 1
    rates, moments = RATES[first:] / RATES[first], MOMENTS[first:]
    moment = moments @ rates**2

    @jax.jit
    @jax.vmap
    def read(q, v):
        return system.twists(q, v)[:, 5], system.kinetic_energy(q, v)

    # In SE(3) velocities turn with the bodies, so that steps of one length are less exact.
    steps = 1200 if name == "SE3" else 480
    run = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=1.92 / steps, steps=steps, save=steps // 2
    )
    speed = TORQUE / moment * np.asarray(run.t)
    found, energies = read(run.q, run.v)
    assert_allclose(found, speed[:, None] * rates, rtol=ERROR)
    assert_allclose(energies, 0.5 * moment * speed**2, rtol=ERROR)
    fastest = np.abs(rates).max() * speed[-1]
    assert 0.5 * fastest * float(run.t[-1]) > 2.0 * np.pi * 4.0


def test_gears_off_the_ground_are_refused_with_the_element_that_serves():
    sun = lie_jax.RevoluteJoint("ground", "sun", Z)
    gear = lie_jax.GearJoint("sun", "planet", Z, Z, -SUN / PLANET)
    refused = (
        "GearJoint('sun', 'planet') needs hinges",
        "'planet' has none",
        "lie_jax.CouplingJoint(",
    )
    check_message(lambda: lie_jax.Mechanism(BODIES, [CARRIER, sun, SHAFT, gear]), *refused)
    # Neither are a free wheel, a ball joint and one on a body that only hangs on the ground.
    ball = lie_jax.SphericalJoint("ground", "planet")
    for joints in ([sun, gear], [sun, ball, gear]):
        check_message(lambda joints=joints: lie_jax.Mechanism(BODIES, joints), *refused)
    # A carrier that is welded to the ground is the ground.
    weld = lie_jax.RigidJoint("ground", "carrier")
    held = lie_jax.Mechanism(BODIES, [sun, gear, SHAFT, weld])
    assert len(dataclasses.replace(held, forces=[]).joints) == 4
