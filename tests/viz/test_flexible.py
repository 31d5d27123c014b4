"""Scenes of mechanisms with flexible bodies: parts at interfaces move with them."""

import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax import viz
from lie_jax.viz import springs
from tests.meshes import lattice


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
