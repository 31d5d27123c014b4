"""Scenes of mechanisms with flexible bodies: parts at interfaces move with them."""

import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax import viz
from lie_jax.viz import deformed, springs
from tests.meshes import bar, lattice


def _system():
    mesh = lattice(2)
    bar = lie_jax.FlexibleBody.from_matrices(
        "bar", mesh.nodes, mesh.mass, mesh.stiffness, interfaces=mesh.ends, modes=6
    )
    hinge = lie_jax.RevoluteJoint(
        "ground", "bar.left", axis=(0, 1, 0), parent_point=(0.0, 0.05, 0.05)
    )
    spring = lie_jax.LinearSpringDamper("ground", "bar.right", 1.0, 0.1, 0.1)
    return lie_jax.assemble(lie_jax.Mechanism([bar], [hinge], [spring]), lie_jax.SE3())


def test_springs_end_at_interfaces():
    system, state = _system()
    bent = state.q.at[-1].set(0.01)
    lines = springs.lines(system, jnp.stack([state.q, bent]))
    _, places = system.poses_by_slot(bent)
    np.testing.assert_allclose(lines[1, -1, 1], places[2], rtol=0, atol=1e-12)
    assert np.linalg.norm(lines[1, -1, 1] - lines[0, -1, 1]) > 1e-4


@pytest.mark.full
def test_a_scene_is_written(tmp_path):
    system, state = _system()
    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.9), state, dt=1e-3, steps=3)
    viz.export(tmp_path / "scene.html", (system, run))
    assert (tmp_path / "scene.html").stat().st_size > 10_000


def _meshed():
    rod = lie_jax.FlexibleBody.from_mesh(
        "rod",
        bar(cells=2),
        density=1000.0,
        young=2e9,
        poisson=0.3,
        interfaces={"a": lambda x: x[:, 0] < 1e-9},
        modes=3,
    )
    return rod, *lie_jax.assemble(lie_jax.Mechanism([rod]), lie_jax.R3SO3())


def test_edges_are_drawn_deformed():
    rod, system, state = _meshed()
    q = state.q.at[-3:].set(jnp.array([0.01, 0.02, -0.01]))
    ((name, ends),) = deformed.lines(system, q[None], [viz.Deformed(rod, 2.0)])
    # Two cells: four edges along each, and four around each of three sections, in halves.
    assert name == "rod" and ends.shape == (1, 2 * (2 * 4 + 3 * 4), 2, 3)
    rotation, position = map(np.asarray, system.poses(q))
    moved = np.asarray(rod.node_positions(q[-3:]))
    places = position + (np.asarray(rod.nodes) + 2.0 * (moved - rod.nodes)) @ rotation[0].T
    found, expected = (np.unique(np.round(x.reshape(-1, 3), 12), axis=0) for x in (ends, places))
    for point in found:
        assert np.abs(expected - point).max(axis=1).min() < 1e-11


def test_bodies_without_a_mesh_are_refused():
    other = viz.Deformed(lie_jax.Body("rod", 1.0, np.eye(3)))
    with pytest.raises(ValueError, match=r"shapes=\) holds a viz\.Deformed of Body, which has no"):
        deformed.check("viz.export(shapes=)", other)


@pytest.mark.full
def test_a_scene_of_a_mesh_is_written(tmp_path):
    rod, system, state = _meshed()
    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.9), state, dt=1e-3, steps=3)
    viz.export(tmp_path / "scene.html", (system, run), shapes=[viz.Deformed(rod, 10.0)])
    assert (tmp_path / "scene.html").stat().st_size > 10_000
    viz.video(tmp_path / "scene.gif", (system, run), shapes=[viz.Deformed(rod, 10.0)])
    assert (tmp_path / "scene.gif").stat().st_size > 1000
