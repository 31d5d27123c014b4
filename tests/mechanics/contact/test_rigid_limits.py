"""Stiff contacts with little slip approach bodies that neither give nor slip."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax import contact

pytestmark = pytest.mark.full

GRAVITY = 9.81
# m/s, a hundredth of the default.
LITTLE_SLIP = 1e-5
# Of the ratio of two errors, of which the larger one is a tenth of a rad/s and more.
SECOND_ORDER = 0.15
# Of the numbers below, by an explicit method of order eight at 1e-11 for the rolling body.
TIME, UPWARDS = 0.5, (0.01812515, -0.0227906, 0.99957594)
OMEGA = (-8.59867988, 0.10579874, -3.96538807)


def rattleback(stiffness, slip, dt=1.25e-5):
    """Upward direction and angular velocity (rad/s) of a rattleback, in its frame, at TIME.

    Geometry and inertia of Kane and Levinson (1982): semi-axes 0.2, 0.03, 0.02 m, 1 kg, its centre
    of mass 0.01 m below the ellipsoid's, started with -5 rad/s and tilted by half a degree.
    """
    semi_axes, center = np.asarray([0.2, 0.03, 0.02]), np.asarray([0.0, 0.0, 0.01])
    inertia = np.asarray([[2e-4, -2e-5, 0.0], [-2e-5, 1.6e-3, 0.0], [0.0, 0.0, 1.7e-3]])
    rotation = Rotation.from_rotvec([0.0, -np.radians(0.5), 0.0]).as_matrix()
    upwards, omega = rotation[2], np.asarray([0.0, 0.0, -5.0])
    lowest = center - semi_axes**2 * upwards / np.linalg.norm(semi_axes * upwards)
    height = -upwards @ lowest - jnp.sqrt(GRAVITY / stiffness)
    body = lie_jax.Body(
        "body",
        1.0,
        inertia,
        position=jnp.stack([0.0 * height, 0.0 * height, height]),
        orientation=lie_jax.groups.quaternion.from_matrix(jnp.asarray(rotation)),
        velocity=rotation @ np.cross(lowest, omega),
        omega_body=omega,
    )
    touching = lie_jax.contact.Contact(
        contact.Ellipsoid("body", semi_axes, center),
        contact.Plane("ground"),
        lie_jax.contact.HuntCrossley(stiffness, dissipation=0.5),
        lie_jax.contact.Coulomb(1.0, velocity=slip),
    )
    mechanism = lie_jax.Mechanism([body], forces=[touching], gravity=(0, 0, -GRAVITY))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    steps = round(TIME / dt)
    options = {"dt": dt, "steps": steps, "save": steps, "throw": False}
    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.5), state, **options)
    return jnp.concatenate([system.poses(run.q[-1])[0][0, 2], run.v[-1, 3:]])


def test_a_rattleback_approaches_the_one_that_rolls_on_rigid_ground():
    """With errors in proportion to the sag √(G/k) and to the slip, here one to the other."""
    stiffness = jnp.asarray([1e10, 1e11, 1e12])
    ends = jax.jit(jax.vmap(rattleback))(stiffness, 10.0 / jnp.sqrt(stiffness))
    truth = np.asarray([*UPWARDS, *OMEGA])
    errors = np.linalg.norm(ends - truth[None], axis=1)
    assert_allclose(errors[:-1] / errors[1:], np.sqrt(10.0), rtol=SECOND_ORDER)
    limit = ends[2] + (ends[2] - ends[1]) / (np.sqrt(10.0) - 1.0)
    # Of second order in the sag, a tenth of the last error.
    assert_allclose(limit, truth, atol=0.1 * errors[2])


def test_a_ball_rolls_with_five_sevenths_of_its_speed():
    """10⁴ steps; off by the sag, in parts of the radius, and by the slip."""
    mass, radius, stiffness = 0.17, 0.0286, 1e9
    sag = np.sqrt(mass * GRAVITY / stiffness)
    ball = lie_jax.Body(
        "ball",
        mass,
        lie_jax.solids.sphere(mass, radius),
        position=(0.0, 0.0, radius - sag),
        velocity=(2.0, 0.0, 0.0),
    )
    cloth = lie_jax.contact.Contact(
        contact.Sphere("ball", radius),
        contact.Plane("ground"),
        lie_jax.contact.HuntCrossley(stiffness, dissipation=0.2),
        lie_jax.contact.Coulomb(0.2, velocity=LITTLE_SLIP),
    )
    mechanism = lie_jax.Mechanism([ball], forces=[cloth], gravity=(0, 0, -GRAVITY))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    run = lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(), state, dt=1e-4, steps=10_000, save=1000
    )
    assert_allclose(run.v[-1, 0], 10.0 / 7.0, rtol=sag / radius)
    # Rolling begins after 2 v / (7 μ g) on the way 12 v² / (49 μ g).
    begin, way = 4.0 / (7 * 0.2 * GRAVITY), 48.0 / (49 * 0.2 * GRAVITY)
    expected = way + (10.0 / 7.0) * (1.0 - begin)
    assert_allclose(run.q[-1, 0], expected, rtol=sag / radius)


@pytest.mark.parametrize("integrator", [lie_jax.BDF(2), lie_jax.GeneralizedAlpha()])
def test_a_block_on_a_slope_creeps(integrator):
    """10⁴ steps; with vₛ r/√(1 - r²), at the part r of what friction could hold."""
    slope, coefficient, size = np.radians(10.0), 0.3, (0.2, 0.2, 0.1)
    stiffness = 1e8
    turned = Rotation.from_rotvec([0.0, slope, 0.0])
    sag = np.sqrt(GRAVITY * np.cos(slope) / (4 * stiffness))
    block = lie_jax.Body(
        "block",
        1.0,
        lie_jax.solids.box(1.0, size),
        position=turned.apply([0.0, 0.0, 0.05 - sag]),
        orientation=turned.as_quat(scalar_first=True),
    )
    ground = contact.Plane("ground", normal=turned.apply([0.0, 0.0, 1.0]))
    touching = lie_jax.contact.Contact(
        contact.Box("block", size),
        ground,
        lie_jax.contact.HuntCrossley(stiffness, dissipation=5.0),
        lie_jax.contact.Coulomb(coefficient, velocity=LITTLE_SLIP),
    )
    mechanism = lie_jax.Mechanism([block], forces=[touching], gravity=(0, 0, -GRAVITY))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    run = lie_jax.simulate(system, integrator, state, dt=1e-3, steps=10_000, save=1000)
    part = np.tan(slope) / coefficient
    downhill = turned.apply([1.0, 0.0, 0.0])
    creep = run.v[-1, :3] @ downhill
    assert_allclose(creep, LITTLE_SLIP * part / np.sqrt(1.0 - part**2), rtol=1e-6)
