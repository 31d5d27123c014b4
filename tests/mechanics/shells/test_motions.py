"""Motions of shells: invariants of a flying plate, a flapping one, pressure, a joined beam."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams, shells

pytestmark = pytest.mark.full

# Of momenta, in parts of their size: rounding of some hundred steps.
ROUNDING = 1e-11
ALPHA = lie_jax.GeneralizedAlpha(0.9)


def plate(length, width, counts, **options):
    first, second = counts
    nodes = np.asarray(
        [
            [x, y, 0.0]
            for x in np.linspace(0.0, length, first + 1)
            for y in np.linspace(0.0, width, second + 1)
        ]
    )
    row = second + 1
    start = np.asarray([i * row + j for i in range(first) for j in range(second)])
    quads = np.stack([start, start + row, start + row + 1, start + 1], axis=1)
    return shells.surface("s", (nodes, quads), 0.01, 1e7, 0.3, 1000.0, **options)


def assembled(surface, forces=(), bodies=(), gravity=(0.0, 0.0, 0.0)):
    mechanism = lie_jax.Mechanism(
        [*bodies, *surface.nodes], forces=[*surface.elements, *forces], gravity=gravity
    )
    return lie_jax.assemble(mechanism, lie_jax.SE3())


def test_a_flying_plate_keeps_its_momenta():
    system, state = assembled(plate(1.0, 0.5, (4, 2)))
    spin = jnp.asarray([0.3, 2.0, 1.0])
    position = system.poses(state.q)[1]
    # Twists of a rigid motion, bent a little.
    linear = jnp.cross(spin[None], position) + jnp.asarray([[0.1, 0.2, 0.3]])
    linear = linear + 0.2 * position[:, :1] ** 2 * jnp.asarray([[0.0, 0.0, 1.0]])
    v = jnp.concatenate([linear, jnp.broadcast_to(spin, linear.shape)], axis=1).reshape(-1)
    run = lie_jax.simulate(
        system, lie_jax.RATTLie(), lie_jax.State(state.q, v), dt=2.5e-5, steps=400
    )
    for momentum in map(np.asarray, jax.vmap(system.momentum)(run.q, run.v)):
        drift = np.abs(momentum - momentum[0]).max()
        assert drift <= ROUNDING * np.abs(momentum).max()
    energy = jax.vmap(lambda q, v: system.kinetic_energy(q, v) + system.potential_energy(q))
    energies = np.asarray(energy(run.q, run.v))
    assert np.ptp(energies) < 1e-3 * energies[0]


def test_a_flapping_plate_swings_with_its_lowest_frequency():
    surface = plate(1.0, 0.5, (6, 2), clamped=range(3))
    system, state = assembled(surface)
    period = 2.0 * np.pi / float(lie_jax.modes(system, state, number=1).frequencies[0])
    heights = 0.01 * np.asarray(system.poses(state.q)[1])[:, 0] ** 2
    v = np.zeros((len(surface.nodes), 6))
    v[:, 2] = heights
    steps = 400
    run = lie_jax.simulate(
        system,
        ALPHA,
        lie_jax.State(state.q, jnp.asarray(v.reshape(-1))),
        dt=2.0 * period / steps,
        steps=steps,
    )
    assert bool(run.result == lie_jax.Result.successful)
    tip = np.asarray(jax.vmap(lambda q: system.poses(q)[1][-1, 2])(run.q))
    # Sine of two periods, but for what the start has of higher modes.
    expected = np.sin(2.0 * np.pi * np.arange(len(tip)) * 2.0 / steps)
    scale = (tip @ expected) / (expected @ expected)
    assert np.linalg.norm(tip - scale * expected) < 0.2 * np.linalg.norm(tip)


def test_pressure_bends_a_clamped_plate():
    surface = plate(1.0, 1.0, (8, 8), clamped=[])
    rim = [
        k
        for k, node in enumerate(surface.nodes)
        if np.any(np.isin(np.asarray(node.position)[:2], (0, 1)))
    ]
    surface = plate(1.0, 1.0, (8, 8), clamped=rim)
    system, state = assembled(surface, shells.pressure(surface, 0.1))
    moved = system.poses(lie_jax.equilibrium(system, state).q)[1]
    middle = float(np.max(moved[:, 2]))
    # Timoshenko: 0.00126 p L⁴ / D of a thin plate.
    rigidity = 1e7 * 0.01**3 / 12.0 / (1.0 - 0.3**2)
    assert_allclose(middle, 0.00126 * 0.1 / rigidity, rtol=0.03)


def test_a_beam_and_a_body_hold_a_plate():
    """A plate clamped to a hub on a beam hangs as one on a beam whose load is the whole weight."""
    hub = lie_jax.Body("hub", 2.0, 0.1 * np.eye(3))
    section = beams.circle(0.01, 2e11, 8e10, 7850.0)
    stem = beams.line("stem", section, 0.5, 4, position=(-0.5, 0, 0), start="ground", end=hub)
    leaf = plate(0.2, 0.1, (2, 1), clamped=range(2), holder=hub)
    system, state = assembled(leaf, stem.elements, (hub, *stem.nodes), (0.0, 0.0, -9.81))
    held = lie_jax.equilibrium(system, state)
    mass = sum(float(body.mass) for body in (hub, *leaf.nodes, *stem.nodes[2:]))
    readings = system.beams(held.q)
    # The third element carries all that hangs behind its middle.
    force = float(readings.resultant[2, 2])
    assert_allclose(abs(force), 9.81 * mass, rtol=1e-3)
