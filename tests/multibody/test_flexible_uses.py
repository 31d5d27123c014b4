"""Contacts, sweeps and batches of mechanisms with flexible bodies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.contact import Contact, Coulomb, HuntCrossley, Plane, Sphere
from tests.meshes import bar, lattice

MODES = 8
STIFFNESS = 1e7
# Forces of some 1e3 N, through some hundred operations.
ROUNDING = 1e-9
# Two programs of one run round otherwise.
TWO_PROGRAMS = 1e-11


def _bar(**options):
    mesh = lattice()
    given = {"interfaces": mesh.ends, "modes": MODES, **options}
    return lie_jax.FlexibleBody.from_matrices("bar", mesh.nodes, mesh.mass, mesh.stiffness, **given)


def test_a_contact_at_an_interface_has_its_force_and_power():
    draw, radius = np.random.default_rng(5), 0.05
    body = _bar(
        amplitudes=1e-2 * draw.normal(size=MODES),
        amplitude_rates=1e-1 * draw.normal(size=MODES),
        omega_body=(0.4, 1.0, 0.7),
        velocity=(0.3, -0.2, -0.5),
        position=(0.1, 0.2, 0.0),
    )
    touch = Contact(
        Sphere("bar.right", radius),
        Plane("ground", point=(0.0, 0.0, 0.02)),
        HuntCrossley(STIFFNESS, dissipation=0.2),
        Coulomb(0.3),
    )
    gravity = np.asarray([0.0, 0.0, -9.81])
    system, state = lie_jax.assemble(lie_jax.Mechanism([body], [], [touch]), lie_jax.R3SO3())

    @jax.jit
    def readings(q, v):
        def values(q, v):
            energy = system.kinetic_energy(q, v) + system.potential_energy(q)
            return system.poses_by_slot(q), system.momentum(q, v), energy

        change = system.space.lift(q, v), system.acceleration(0.0, q, v)
        now, rates = jax.jvp(values, (q, v), change)
        return now, rates, system.contacts(0.0, q, v)

    now, rates, touching = jax.tree.map(np.asarray, readings(state.q, state.v))
    (rotations, places), (momentum, _), _ = now
    (turning, moving), (force, torque), power = rates
    # The sphere sits at the mean of the end's nodes, where modes move it.
    right = lattice().ends["right"]
    nodes = np.asarray(body.node_positions(body.amplitudes))
    center = np.asarray(body.position) + nodes[right].mean(axis=0)
    np.testing.assert_allclose(places[2], center, rtol=0, atol=1e-14)
    np.testing.assert_allclose(touching.gap[0], center[2] - radius - 0.02, rtol=0, atol=1e-14)
    pushing = touching.normal_force[0] * touching.normal[0] + touching.tangential_force[0]
    assert pushing[2] > 10.0
    # Newton and Euler: the rates of the momenta are force and torque on all of the body.
    mass = float(body.mass)
    np.testing.assert_allclose(force, pushing + mass * gravity, rtol=0, atol=ROUNDING)
    at_contact = np.cross(touching.point[0], pushing)
    masses = lattice().mass.sum(axis=1)
    heavy = (masses[:, None] * (np.asarray(body.position) + nodes)).sum(axis=0)
    np.testing.assert_allclose(torque, at_contact + np.cross(heavy, gravity), rtol=0, atol=ROUNDING)
    # The rate of the energy is the power on the point of the interface that touches, and that of
    # the elastic energy k δ³/3 of the contact, which the system's energy has.
    omega = turning[2] @ rotations[2].T
    rate = moving[2] + omega @ (touching.point[0] - places[2])
    elastic = -STIFFNESS * touching.gap[0] ** 2 * rate[2]
    np.testing.assert_allclose(power, pushing @ rate + elastic, rtol=ROUNDING)
    np.testing.assert_allclose(momentum, mass * _mean_rate(body, masses), rtol=0, atol=1e-12)


def _mean_rate(body, masses):
    """Velocity (3,) of the centre of mass, from nodes and modes; the body is not turned."""
    places = np.asarray(body.node_positions(body.amplitudes))
    rates = np.asarray(body.modes) @ np.asarray(body.amplitude_rates)
    rates = rates + np.cross(np.asarray(body.omega_body), places)
    return np.asarray(body.velocity) + masses @ rates / masses.sum()


def _swung(variant):
    """Run of a bar that falls on a hinge."""
    body = _bar(modes=6, damping_time=1e-3).scale(
        mass=variant["mass"], stiffness=variant["stiffness"]
    )
    hinge = lie_jax.RevoluteJoint("ground", "bar.left", (0, 1, 0), parent_point=(0, 0.05, 0.05))
    system, state = lie_jax.assemble(lie_jax.Mechanism([body], [hinge]), lie_jax.R3SO3())
    method = lie_jax.GeneralizedAlpha(0.8)
    return lie_jax.simulate(system, method, state, dt=2e-3, steps=20, save=10, throw=False)


VARIANTS = {"mass": np.array([1.0, 1.5, 0.7]), "stiffness": np.array([1.0, 0.5, 2.0])}


@pytest.mark.full
def test_sweeps_and_batches_have_the_runs_one_by_one():
    alone = [
        _swung({key: jnp.asarray(values[k]) for key, values in VARIANTS.items()}) for k in range(3)
    ]
    swept = lie_jax.sweep(_swung, VARIANTS, progress=False)
    batch = jax.jit(lie_jax.batched(lambda variant: _swung(variant).q))(VARIANTS)
    assert not swept.failed.any()
    for k, run in enumerate(alone):
        np.testing.assert_allclose(swept.results.q[k], run.q, rtol=0, atol=TWO_PROGRAMS)
        np.testing.assert_allclose(batch[k], run.q, rtol=0, atol=TWO_PROGRAMS)
    # The variants differ.
    assert np.abs(np.diff(np.stack([run.q[-1] for run in alone]), axis=0)).max(axis=1).min() > 1e-6


@pytest.mark.full
def test_batches_over_moduli_of_meshes_are_bodies_one_by_one():
    def moved(young):
        body = lie_jax.FlexibleBody.from_mesh(
            "bar",
            bar(),
            density=7800.0,
            young=young,
            poisson=0.3,
            interfaces={"left": lambda x: x[:, 0] < 1e-9, "tip": lambda x: x[:, 0] > 0.39},
            modes=6,
        )
        hinge = lie_jax.RigidJoint("ground", "bar.left")
        system, state = lie_jax.assemble(lie_jax.Mechanism([body], [hinge]), lie_jax.R3SO3())
        method = lie_jax.GeneralizedAlpha(0.8)
        options = {"dt": 1e-3, "steps": 20, "save": 20, "throw": False}
        return system.poses_by_slot(lie_jax.simulate(system, method, state, **options).q[-1])[1][2]

    moduli = np.array([2.1e11, 1.0e11, 7e10])
    together = jax.jit(jax.vmap(moved))(moduli)
    apart = np.stack([jax.jit(moved)(young) for young in moduli])
    # Deflections of some 1e-4 m; amplitudes are solved to 1e-10 of a length of one.
    np.testing.assert_allclose(together, apart, rtol=0, atol=1e-9)
    assert np.abs(np.diff(apart[:, 2])).min() > 1e-5
