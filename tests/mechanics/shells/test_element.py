"""Shell elements: patch tests, rigid motions, and derivatives of their forces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import shells
from lie_jax.groups import quaternion

# MacNeal and Harder's patch of five distorted elements, 0.24 × 0.12, thickness 0.001.
NODES = np.asarray(
    [
        *([0.0, 0.0, 0.0], [0.24, 0.0, 0.0], [0.24, 0.12, 0.0], [0.0, 0.12, 0.0]),
        *([0.04, 0.02, 0.0], [0.18, 0.03, 0.0], [0.16, 0.08, 0.0], [0.08, 0.08, 0.0]),
    ]
)
QUADS = np.asarray([[0, 1, 5, 4], [5, 1, 2, 6], [7, 6, 2, 3], [0, 4, 7, 3], [4, 5, 6, 7]])
# The condition number of the interior's stiffness is of the order 1e6.
PATCH = 1e-10
# Places are rounded to some 4e-16 m, and forces to that times the stiffness, 8e-15 of the largest.
ROUNDING = 1e-13


def assembled(nodes, quads, thickness=0.001, **options):
    surface = shells.surface("s", (nodes, quads), thickness, 1e6, 0.25, 1000.0, **options)
    mechanism = lie_jax.Mechanism(surface.nodes, forces=surface.elements, gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.SE3())


@pytest.fixture(scope="module")
def patch():
    """Configuration at rest, and functions of q: force and stiffness."""
    system, state = assembled(NODES, QUADS)
    still = jnp.zeros(system.nv)

    @jax.jit
    def at(q):
        linear = system.linearization(0.0, q, still, still, jnp.zeros(0), None).dense()
        return linear.residual, linear.stiffness

    return system, state.q, at


def test_constant_strains_are_exact_on_distorted_elements(patch):
    _, q, at = patch
    stiffness = np.asarray(at(q)[1])
    held, free = np.arange(24), np.arange(24, 48)

    def errors(field):
        """Of the nodes within the patch, whose outer ones move as the field says."""
        exact = np.concatenate([field(x, y) for x, y, _ in NODES])
        moved = -stiffness[np.ix_(free, held)] @ exact[held]
        inner = np.linalg.solve(stiffness[np.ix_(free, free)], moved)
        return np.abs(inner - exact[free]).max() / np.abs(exact).max()

    assert errors(lambda x, y: 1e-3 * np.asarray([x + y / 2, y + x / 2, 0, 0, 0, 0])) < PATCH
    turned = [0, 0, 0, 0, 0, 0.5 * (0.1 - 0.9)]
    stretched = errors(
        lambda x, y: 1e-3 * (np.asarray([x + 0.9 * y, y + 0.1 * x, 0, 0, 0, 0]) + turned)
    )
    assert stretched < PATCH
    bent = errors(
        lambda x, y: 5e-4 * np.asarray([0, 0, x * x + x * y + y * y, x + 2 * y, -2 * x - y, 0])
    )
    assert bent < PATCH


def test_rigid_motions_alone_strain_nothing(patch):
    _, q, at = patch
    forces, stiffness = at(q)
    assert np.abs(forces).max() < ROUNDING * np.abs(stiffness).max()
    # Bending is some 1e-6 of the stretching of so thin a plate.
    values = np.linalg.eigvalsh(0.5 * (stiffness + stiffness.T))
    soft = np.abs(values) < 1e-14 * values[-1]
    assert np.count_nonzero(soft) == 6


def test_forces_turn_with_a_rigid_motion_of_a_strained_plate(patch):
    system, q, at = patch
    rng = np.random.default_rng(3)
    strained = system.space.flow(q, jnp.asarray(0.01 * rng.normal(size=system.nv)))
    turn, shift = quaternion.exp(jnp.asarray([0.7, 1.9, -1.1])), jnp.asarray([1.0, -2.0, 0.5])

    def move(pose):
        position = quaternion.rotate(turn, pose[:3]) + shift
        return jnp.concatenate([position, quaternion.multiply(turn, pose[3:])])

    moved = jax.vmap(move)(strained.reshape(8, 7)).reshape(-1)
    # They do work on twists of the bodies, in whose axes they stay.
    forces = at(strained)[0]
    assert_allclose(at(moved)[0], forces, rtol=0, atol=ROUNDING * np.abs(forces).max())


def test_stiffness_is_the_derivative_of_forces_of_a_strained_plate(patch):
    system, q, at = patch
    rng = np.random.default_rng(4)
    strained = system.space.flow(q, jnp.asarray(0.01 * rng.normal(size=system.nv)))
    direction, step = jnp.asarray(rng.normal(size=system.nv)), 1e-6
    ends = [at(system.space.flow(strained, s * step * direction))[0] for s in (1, -1)]
    changed = (ends[0] - ends[1]) / (2 * step)
    along = at(strained)[1] @ direction
    assert_allclose(along, changed, rtol=0, atol=1e-7 * np.abs(along).max())
