"""Free directions keep their place in equilibria, are named, and are modes of frequency zero;
bodies that spin without loads have the frequencies of closed forms.
"""

import warnings

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax

GRAVITY, STIFFNESS, HUB, WHEEL = 9.81, 1e4, 3.0, 5.0
AXIS = np.asarray([0.3, 0.5, 0.8]) / np.linalg.norm([0.3, 0.5, 0.8])
# Sinking (m) of the hub: rounding of places of order one.
PLACE = 1e-12
# Frequencies of free directions, of the root of rounding (rad/s).
STILL = 1e-4
# Relative rounding of frequencies of matrices of condition 1e4, whirling ones from λ.
FREQUENCY = 1e-8
# Relative errors of forces in balance: the last step of a search squares an error below 1e-6.
BALANCE = 1e-10


def hung_wheel(stiffness=STIFFNESS, torque=0.0):
    """A hub that slides along z on a spring, with a wheel that turns freely about an axis."""
    hub = lie_jax.Body("hub", HUB, np.diag([0.1, 0.2, 0.3]))
    turned = np.concatenate([[np.cos(0.35)], np.sin(0.35) * AXIS])
    wheel = lie_jax.Body("wheel", WHEEL, np.diag([0.3, 0.3, 0.5]), orientation=turned)
    joints = [
        lie_jax.PrismaticJoint("ground", "hub", (0, 0, 1)),
        lie_jax.RevoluteJoint("hub", "wheel", AXIS),
    ]
    spring = lie_jax.LinearSpringDamper(
        "ground", "hub", stiffness, 0.0, 1.0, parent_point=(0, 0, 1)
    )
    loads = [lie_jax.Torque("wheel", torque * AXIS, frame="body")] if torque else []
    return lie_jax.Mechanism([hub, wheel], joints, [spring, *loads], (0, 0, -GRAVITY))


@pytest.mark.full
def test_a_wheel_that_turns_freely_stays_and_is_named():
    def height(stiffness):
        system, state = lie_jax.assemble(hung_wheel(stiffness), lie_jax.R3SO3())
        rest = lie_jax.equilibrium(system, state)
        return system.poses(rest.q)[1][0, 2], (system, state, rest)

    with pytest.warns(UserWarning, match=r"1 direction is free.*body 'wheel'"):
        (z, (system, state, rest)), slope = jax.value_and_grad(height, has_aux=True)(STIFFNESS)
    weight = (HUB + WHEEL) * GRAVITY
    assert_allclose(z, -weight / STIFFNESS, rtol=0, atol=PLACE)
    assert_allclose(slope, weight / STIFFNESS**2, rtol=1e-9)
    before, after = (system.poses(x.q)[0] for x in (state, rest))
    assert_allclose(after, before, rtol=0, atol=1e-10)
    modes = lie_jax.modes(system, rest)
    assert modes.frequencies[0] < STILL
    assert_allclose(modes.frequencies[1], np.sqrt(STIFFNESS / (HUB + WHEEL)), rtol=FREQUENCY)


@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.SE3(), lie_jax.EulerParameters()])
def test_formulations_keep_the_same_place(formulation):
    system, state = lie_jax.assemble(hung_wheel(), formulation)
    with pytest.warns(UserWarning, match="direction is free"):
        rest = lie_jax.equilibrium(system, state)
    rotations, positions = system.poses(rest.q)
    assert_allclose(positions[:, 2], -(HUB + WHEEL) * GRAVITY / STIFFNESS, atol=PLACE)
    assert_allclose(rotations, system.poses(state.q)[0], atol=1e-10)


@pytest.mark.full
def test_a_load_along_a_free_direction_has_no_equilibrium():
    system, state = lie_jax.assemble(hung_wheel(torque=0.5), lie_jax.R3SO3())
    with pytest.raises(lie_jax.EquilibriumError, match="direction is free"):
        lie_jax.equilibrium(system, state)


@pytest.mark.full
@pytest.mark.parametrize(
    "formulation",
    [lie_jax.Minimal(), lie_jax.SE3(), lie_jax.R3SO3()],
    ids=["Minimal", "SE3", "R3SO3"],
)
def test_a_table_that_must_pitch_carries_its_weight(formulation):
    """From a start that is out of balance: forces held in axes that turn would push it along."""
    front, rear, radius, mass = 1.0, 1.3, 0.3, 400.0
    feet = [(x, y, 0.0) for x in (front, -rear) for y in (0.7, -0.7)]
    table = lie_jax.Body("table", mass, 100.0 * np.eye(3), position=(0, 0, radius - 0.012))
    contacts = [
        lie_jax.contact.Contact(
            lie_jax.contact.Sphere("table", radius, foot),
            lie_jax.contact.Plane("ground"),
            lie_jax.contact.HuntCrossley(4e6),
        )
        for foot in feet
    ]
    system, state = lie_jax.assemble(lie_jax.Mechanism([table], [], contacts), formulation)
    with pytest.warns(UserWarning, match="3 directions are free"):
        rest = lie_jax.equilibrium(system, state)
    found = system.contacts(0.0, rest.q, rest.v).normal_force
    weight = mass * GRAVITY
    expected = 0.5 * weight * np.array([rear, rear, front, front]) / (front + rear)
    # The arms of all feet shorten alike as the table pitches.
    assert_allclose(found, expected, rtol=BALANCE)
    assert_allclose(np.sum(found), weight, rtol=BALANCE)


@pytest.mark.full
def test_a_cart_that_is_free_to_roll_keeps_its_place():
    """A chassis on two springs over a sledge that slides along x, with two free wheels."""
    sledge = lie_jax.Body("sledge", 10.0, np.eye(3))
    chassis = lie_jax.Body("chassis", 50.0, np.eye(3), position=(0.2, 0, 1.0))
    wheels = [
        lie_jax.Body(f"wheel {k}", 4.0, np.diag([0.1, 0.2, 0.1]), position=(x, 0, 0))
        for k, x in enumerate((-1.0, 1.0))
    ]
    joints = [
        lie_jax.PrismaticJoint("ground", "sledge", (1, 0, 0)),
        lie_jax.GenericJoint(
            "sledge", "chassis", ("x", "y", "rotation_x", "rotation_z"), (0.2, 0, 0)
        ),
        *(
            lie_jax.RevoluteJoint("sledge", f"wheel {k}", (0, 1, 0), (x, 0, 0))
            for k, x in enumerate((-1.0, 1.0))
        ),
    ]
    springs = [
        lie_jax.LinearSpringDamper(
            "sledge", "chassis", STIFFNESS, 0.0, 1.0, parent_point=(x, 0, 0),
            child_point=(x - 0.2, 0, 0),
        ) for x in (-1.0, 1.0)
    ]  # fmt: skip
    mechanism = lie_jax.Mechanism([sledge, chassis, *wheels], joints, springs, (0, 0, -GRAVITY))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    with pytest.warns(UserWarning, match="3 directions are free.*'sledge'.*'wheel 1'"):
        rest = lie_jax.equilibrium(system, state)
    rotations, positions = (np.asarray(x) for x in system.poses(rest.q))
    # Moments about the chassis' hinge: its weight acts there, each spring at its end.
    assert_allclose(positions[[0, 2, 3], 0], [0.0, -1.0, 1.0], atol=1e-9)
    assert_allclose(rotations[2:], np.eye(3)[None] * np.ones((2, 1, 1)), atol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        modes = lie_jax.modes(system, rest)
    assert np.all(np.asarray(modes.frequencies[:3]) < STILL) and modes.frequencies[3] > 1.0


# Mass (kg), inertias across and along the axis (kg m²), spin (rad/s), and a spring's place (m).
ROTOR = (2.0, 0.02, 0.035, 300.0, 0.2)


def rotor(springs):
    mass, across, along, spin, place = ROTOR
    body = lie_jax.Body("rotor", mass, np.diag([across, across, along]), omega_body=(0, 0, spin))
    forces = [
        lie_jax.CartesianSpringDamper(
            "ground", "rotor", (STIFFNESS,) * 3, parent_point=(0, 0, z), child_point=(0, 0, z)
        )
        for z in ((place, -place) if springs else ())
    ]
    mechanism = lie_jax.Mechanism([body], [], forces, gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.SE3())


@pytest.mark.full
def test_a_rotor_on_springs_without_load_whirls_as_the_closed_form_says():
    """In the frame that turns along whirls have the frequencies |ω - Ω|, and the axial motion ω."""
    mass, across, along, spin, place = ROTOR
    modes = lie_jax.modes(*rotor(springs=True))
    half, tilt = along * spin / (2 * across), 2 * STIFFNESS * place**2 / across
    lateral = np.sqrt(2 * STIFFNESS / mass)
    whirls = half + np.sqrt(half**2 + tilt) * np.asarray([-1.0, 1.0])
    expected = np.sort(np.abs([*(whirls - spin), lateral - spin, lateral + spin, lateral]))
    assert modes.frequencies[0] < STILL
    assert_allclose(modes.frequencies[1:], expected, rtol=FREQUENCY)
    assert_allclose(modes.growth, 0.0, atol=1e-6 * spin)


@pytest.mark.full
def test_a_body_that_spins_in_empty_space_nutates():
    """Its axis turns in the body at (I_p - I_t) Ω / I_t; a straight line turns back at Ω."""
    _, across, along, spin, _ = ROTOR
    modes = lie_jax.modes(*rotor(springs=False), number=12)
    found = np.asarray(modes.frequencies)
    found = found[np.isfinite(found)]
    for frequency in ((along - across) / across * spin, spin):
        assert np.min(np.abs(found - frequency)) < 1e-6 * spin
