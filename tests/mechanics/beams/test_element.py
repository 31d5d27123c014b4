"""Wrenches of beam elements and their derivatives."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams

# Sums of some dozens of terms of the order one.
ROUNDING = 1e-12


class Differentiated(lie_jax.beams.Beam):
    """The element with derivatives by forward mode."""

    def derivatives(self, t, poses, velocities, u):
        return None


def unit(x):
    return x / np.linalg.norm(x)


def spatial(kind, damped, seed=0):
    """Two bodies, three elements with all offsets, full matrices and curved rest shapes."""
    rng = np.random.default_rng(seed)

    def matrix():
        root = rng.normal(size=(6, 6))
        return root @ root.T + np.eye(6)

    def element(first, second):
        return kind(
            first,
            second,
            matrix(),
            1.3,
            matrix() if damped else None,
            0.3 * rng.normal(size=6),
            0.3 * rng.normal(size=3),
            unit(rng.normal(size=4)),
            0.3 * rng.normal(size=3),
            unit(rng.normal(size=4)),
        )

    bodies = [
        lie_jax.Body(
            name,
            1.0,
            np.eye(3),
            position=rng.normal(size=3),
            orientation=unit(rng.normal(size=4) + np.asarray([3.0, 0.0, 0.0, 0.0])),
        )
        for name in ("a", "b")
    ]
    pairs = [("a", "b"), ("ground", "b"), ("a", "ground")]
    forces = [element(*pair) for pair in pairs]
    return lie_jax.Mechanism(bodies, forces=forces, gravity=(0, 0, 0)), rng


@pytest.mark.full
@pytest.mark.parametrize("damped", [False, True])
def test_written_derivatives_are_those_of_the_wrenches(damped):
    matrices = []
    for kind in (lie_jax.beams.Beam, Differentiated):
        mechanism, rng = spatial(kind, damped)
        system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
        v, acceleration = jnp.asarray(rng.normal(size=12)), jnp.asarray(rng.normal(size=12))
        none = jnp.zeros(0)
        linear = system.linearization(0.0, state.q, v, acceleration, none, None).dense()
        matrices.append(np.stack([linear.stiffness, linear.damping]))
    assert_allclose(*matrices, atol=ROUNDING * np.abs(matrices[0]).max())


@pytest.mark.full
def test_wrenches_are_the_gradient_of_the_energy_and_damping_takes_energy():
    mechanism, _ = spatial(lie_jax.beams.Beam, damped=False)
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    still = jnp.zeros(system.nv)

    def energy(z):
        return system.potential_energy(system.space.flow(state.q, z))

    force = system.force(0.0, state.q, still)
    assert_allclose(force, -jax.grad(energy)(still), rtol=1e-10, atol=1e-10)
    mechanism, rng = spatial(lie_jax.beams.Beam, damped=True)
    damped, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    v = jnp.asarray(rng.normal(size=12))
    power = v @ (damped.force(0.0, state.q, v) - damped.force(0.0, state.q, still))
    # Without gyroscopic power: spheres of inertia have none.
    assert float(power) < 0.0


@pytest.mark.full
def test_rigid_motions_strain_nothing():
    mechanism, rng = spatial(lie_jax.beams.Beam, damped=False)
    held = dataclasses.replace(mechanism, forces=mechanism.forces[:1])
    system, state = lie_jax.assemble(held, lie_jax.SE3())
    before = system.beams(state.q)
    turn = lie_jax.groups.quaternion.from_matrix(
        lie_jax.groups.so3.exp(jnp.asarray(rng.normal(size=3)))
    )
    rotation, shift = lie_jax.groups.quaternion.to_matrix(turn), jnp.asarray(rng.normal(size=3))
    bodies = [
        dataclasses.replace(
            body,
            position=rotation @ body.position + shift,
            orientation=lie_jax.groups.quaternion.compose(turn, body.orientation),
        )
        for body in held.bodies
    ]
    system, state = lie_jax.assemble(dataclasses.replace(held, bodies=bodies), lie_jax.SE3())
    after = system.beams(state.q)
    assert_allclose(after.strain, before.strain, atol=ROUNDING)
    force = system.force(0.0, state.q, jnp.zeros(12)).reshape(2, 6)
    rotations, positions = system.poses(state.q)
    world = jnp.einsum("nij,nj->ni", rotations, force[:, :3])
    torque = jnp.einsum("nij,nj->ni", rotations, force[:, 3:]) + jnp.cross(positions, world)
    assert_allclose(jnp.sum(world, axis=0), np.zeros(3), atol=1e-11)
    assert_allclose(jnp.sum(torque, axis=0), np.zeros(3), atol=1e-11)


@pytest.mark.full
def test_a_line_at_rest_stays_at_rest_whatever_its_shape():
    """An arc that is clamped at one end and hangs on a body, without loads."""
    section = beams.rectangle(0.1, 0.05, 1e7, 4e6, 1000.0, damping_time=1e-3)
    weight = lie_jax.Body("weight", 2.0, np.eye(3), position=(3.0, 1.0, 0.0))
    line = beams.line(
        *("arc", section, 2.0, 4),
        rest_strain=(1.0, 0.0, 0.0, 0.2, 0.3, 0.5),
        start="ground",
        end=weight,
    )
    assert [node.name for node in line.nodes] == ["arc 1", "arc 2", "arc 3"]
    mechanism = lie_jax.Mechanism([*line.nodes, weight], forces=line.elements, gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=1e-2, steps=10)
    assert_allclose(run.q[-1], state.q, atol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stiffness": (1.0, 1.0, 1.0, 1.0, 1.0, -1.0)}, "positive definite"),
        ({"length": 0.0}, "positive"),
        ({"rest_strain": (1.0, 0.0, 0.0, 0.0, 0.0, 4.0)}, "more elements"),
        ({"damping": -np.eye(6)}, "semidefinite"),
    ],
)
def test_elements_that_cannot_be_are_refused(change, message):
    given = {"stiffness": np.ones(6), "length": 1.0, **change}
    with pytest.raises(ValueError, match=message):
        lie_jax.beams.Beam("a", "b", **given)


@pytest.mark.full
def test_sections_of_single_precision_are_sections():
    """A flat section's largest moment is the sum of the others, up to rounding of its precision."""
    moments = np.float32([2.7, 30.0]) * np.float32(1e-8)
    inertia = np.nextafter(np.float32([moments.sum(), *moments]), np.float32([1, 0, 0]))
    section = beams.Section(np.ones(6, np.float32), np.float32(0.1), inertia)
    line = beams.line(
        *("strip", section, np.float32(0.5), 4),
        position=np.zeros(3, np.float32),
        orientation=np.float32([1, 0, 0, 0]),
        rest_strain=np.float32([1, 0, 0, 0, 0, 0]),
    )
    mass, moments = line.nodes[1].mass, line.nodes[1].inertia
    lie_jax.Body("as a body", mass, moments)
    with pytest.raises(ValueError, match="triangle"):
        lie_jax.Body("beyond rounding", mass, moments + np.diag(np.float32([1e-11, 0.0, 0.0])))


def test_loads_along_a_line_act_at_its_free_nodes():
    section = beams.Section(np.ones(6), 1.0, (1.0, 1.0, 1.0))
    line = beams.line("beam", section, 1.0, 2, start="ground")
    with pytest.raises(ValueError, match="frame is 'section'"):
        beams.distributed(line, frame="section")
    assert [load.body for load in beams.distributed(line, (0.0, 1.0, 0.0))] == ["beam 1", "beam 2"]
