"""Mechanisms of flexible bodies from meshes have the motions of plates and beams."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.mechanics.elements import replace_fields
from models import bar_pendulum, plate, spun_beam

# Of twelve elements along a side, and of a plate that is a hundredth of it thick.
PLATE = 5e-3


def test_plates_have_the_published_frequencies():
    free, clamped = plate.body("free", modes=5), plate.body("interface")
    np.testing.assert_allclose(plate.parameter(free.frequencies[:3]), plate.FREE, rtol=PLATE)
    found = plate.parameter(clamped.frequencies[:3])
    np.testing.assert_allclose(found, plate.CLAMPED, rtol=PLATE)


@pytest.mark.full
def test_a_clamped_plate_has_them_within_a_mechanism():
    body = plate.body("interface")
    at = np.asarray(body.deformation.points[0])
    clamp = lie_jax.RigidJoint("ground", "plate.side", parent_point=at)
    mechanism = lie_jax.Mechanism([body], [clamp], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    found = plate.parameter(np.asarray(lie_jax.modes(system, state).frequencies))
    np.testing.assert_allclose(found[:3], plate.CLAMPED, rtol=PLATE)


@pytest.mark.full
def test_a_free_plate_has_them_within_a_mechanism():
    body = plate.body("free", modes=5)
    mechanism = lie_jax.Mechanism([body], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    found = plate.parameter(np.asarray(lie_jax.modes(system, state).frequencies))
    # Six rigid motions come first.
    np.testing.assert_allclose(found[6:9], plate.FREE, rtol=PLATE)


# Beams of 16 and 32 elements, extrapolated, are off by a part of what they differ by, 2 mm.
PENDULUM = 2e-4


@pytest.mark.full
def test_a_pendulum_of_a_bar_swings_as_that_of_beam_elements():
    system, state = bar_pendulum.hung(bar_pendulum.body())
    march = {"dt": 5e-4, "steps": 1600, "save": 200}
    method = lie_jax.GeneralizedAlpha(0.9)
    run = lie_jax.simulate(system, method, state, **march)
    tip = system.names_by_slot.index("bar.tip")
    place = jax.vmap(system.poses_by_slot)(run.q)[1][:, tip]
    coarse, fine = (
        jax.vmap(line.poses)(lie_jax.simulate(line, method, start, **march).q)[1][:, -1]
        for line, start in map(bar_pendulum.as_beam, (16, 32))
    )
    assert np.abs(fine - coarse).max() > 1e-3
    np.testing.assert_allclose(place, fine + (fine - coarse) / 3.0, rtol=0, atol=PENDULUM)


# Of one body, whose deflections are linear: 1e-3 m of 0.54 m.
SPUN = 1e-3


@pytest.mark.full
def test_a_spun_up_beam_with_spin_stiffness_bends_as_an_exact_one():
    system, state = spun_beam.build()
    dt = 5e-3
    run = lie_jax.simulate(
        system,
        lie_jax.GeneralizedAlpha(0.8),
        state,
        dt=dt,
        steps=3000,
        save=[*spun_beam.DEFLECTION],
    )
    _, across = spun_beam.deflection(system, run.q, run.t)
    np.testing.assert_allclose(across[1:], [*spun_beam.DEFLECTION.values()], rtol=0, atol=SPUN)


@pytest.mark.full
def test_free_flight_keeps_momentum():
    body = bar_pendulum.body(8)
    draw = np.random.default_rng(3)
    # High modes have little: their energy grows with the square of the frequency.
    amplitudes = 1e-2 * draw.normal(size=8) * (body.frequencies[0] / body.frequencies) ** 2
    moving = {"velocity": (0.3, -0.2, 0.5), "omega_body": (0.4, 1.0, 0.7)}
    moving = {name: jnp.asarray(value) for name, value in moving.items()}
    body = replace_fields(body, amplitudes=jnp.asarray(amplitudes), **moving)
    mechanism = lie_jax.Mechanism([body], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    run = lie_jax.simulate(system, lie_jax.RATTLie(), state, dt=1e-4, steps=500, save=500)
    before, after = (system.momentum(run.q[k], run.v[k]) for k in (0, -1))
    for x, y in zip(before, after, strict=True):
        np.testing.assert_allclose(y, x, rtol=0, atol=1e-12)
