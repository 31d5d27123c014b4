"""A quadruped stands where the least of an energy, written by hand, puts it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from benchmarks.peers import standing
from lie_jax import io
from models import quadruped

# Friction holds nothing at rest: at this slip forces along the ground vanish with a time of some
# 3 s, and at the end they are below rounding of the derivatives.
SLIP, STEP, STEPS = 1e-2, 5e-3, 20_000
START = jnp.asarray([quadruped.STIFFNESS, quadruped.TRUNK_MASS, 0.8])


def lowest(x):
    """Height of the trunk (m) at rest, by stiffness, mass of the trunk and target of the thighs."""
    stiffness, trunk_mass, target = x
    link, targets = quadruped.LINK, jnp.stack([0.0 * target, target, 0.0 * target - 1.6])

    def energy(y):
        z, swing, thigh, shank = y
        above = z + quadruped.OUTWARDS * jnp.sin(swing)
        knee = above - link * jnp.cos(swing) * jnp.cos(thigh)
        foot = knee - link * jnp.cos(swing) * jnp.cos(thigh + shank)
        heights = (
            0.25 * trunk_mass * z
            + quadruped.HIP_MASS * z
            + quadruped.THIGH_MASS * 0.5 * (above + knee)
            + quadruped.SHANK_MASS * 0.5 * (knee + foot)
        )
        springs = 0.5 * quadruped.PROPORTIONAL * jnp.sum((y[1:] - targets) ** 2)
        overlap = quadruped.FOOT_RADIUS - foot
        return -quadruped.GRAVITY[2] * heights + springs + stiffness * overlap**3 / 3.0

    y = jnp.stack([0.0 * target + 0.29, 0.0 * target, target, 0.0 * target - 1.6])
    for _ in range(30):
        y = y - jnp.linalg.solve(jax.hessian(energy)(y), jax.grad(energy)(y))
    return y[0]


@pytest.mark.full
def test_a_quadruped_settles_with_a_quarter_of_its_weight_on_each_foot():
    def end(x):
        stiffness, trunk_mass, target = x
        signs = np.asarray([1.0, 1.0, -1.0, -1.0])
        angles = jnp.stack([0.0 * target, target, 0.0 * target - 1.6])
        system, state = quadruped.build(
            stiffness=stiffness,
            trunk_mass=trunk_mass,
            targets=signs[:, None] * angles[None],
            slip=SLIP,
        )
        options = {"dt": STEP, "steps": STEPS, "save": STEPS, "throw": False}
        run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.5), state, **options)
        return run.q[-1], system.contacts(run.t[-1], run.q[-1], run.v[-1]).normal_force

    def height(x):
        q, forces = end(x)
        return q[2], forces

    (gradient, forces), value = jax.jit(
        lambda x: (jax.jacfwd(height, has_aux=True)(x), height(x)[0])
    )(START)
    assert_allclose(forces, 0.25 * quadruped.mass() * 9.81, rtol=1e-6)
    assert_allclose(value, lowest(START), rtol=1e-6)
    assert_allclose(gradient, jax.grad(lowest)(START), rtol=1e-6)


@pytest.mark.full
def test_a_quadruped_keeps_its_feet_on_the_ground_for_a_start():
    system, state = quadruped.build()
    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=2e-3, steps=50)
    contacts = jax.vmap(lambda *x: system.contacts(*x))(run.t, run.q, run.v)
    assert contacts.gap.shape == (51, 4)
    # It starts with what carries its weight; left and right are alike.
    assert_allclose(contacts.normal_force[0], 0.25 * quadruped.mass() * 9.81, rtol=1e-12)
    assert np.all(np.asarray(contacts.normal_force) > 0.0)
    assert_allclose(contacts.normal_force[:, ::2], contacts.normal_force[:, 1::2], rtol=1e-8)


@pytest.mark.full
def test_an_imported_quadruped_stands(tmp_path):
    """From its MJCF file, in steps of the convex problem."""
    path = tmp_path / "quadruped.xml"
    # The file's pose has straight legs, which would reach into the ground.
    path.write_text(standing.mjcf().replace("<body><freejoint/>", '<body pos="0 0 1"><freejoint/>'))
    with pytest.warns(UserWarning, match="contacts, which"):
        robot = io.import_model(path)
    law = lie_jax.contact.HuntCrossley(quadruped.STIFFNESS, dissipation=0.5)
    contacts = robot.contacts(law, lie_jax.contact.Coulomb(quadruped.FRICTION))
    assert len(contacts) == 4
    mechanism = dataclasses.replace(robot.mechanism, forces=[*robot.mechanism.forces, *contacts])
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    built, start = quadruped.build()
    mass = system.mass_matrix(start.q)
    assert_allclose(mass, built.mass_matrix(start.q), atol=1e-12)
    run = lie_jax.simulate(system, lie_jax.ConvexContact(), start, dt=1e-3, steps=3000, save=3000)
    pressed = system.contacts(run.t[-1], run.q[-1], run.v[-1]).normal_force
    weight = -quadruped.GRAVITY[2] * float(jnp.sum(system.bodies.mass))
    assert_allclose(pressed, 0.25 * weight * np.ones(4), rtol=1e-6)
