"""Meshes of shapes are the shapes, and lines of forces are the forces."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax import contact
from lie_jax.viz import contacts
from models import quadruped
from tests.suites import cases

TURN = tuple(Rotation.from_rotvec([0.3, -0.5, 0.2]).as_quat(scalar_first=True))
SHAPES = {
    "Sphere": contact.Sphere("a", 0.3, (0.1, 0.0, -0.2)),
    "Capsule": contact.Capsule("a", 0.2, (-0.4, 0.0, 0.1), (0.5, 0.1, 0.0)),
    "Box": contact.Box("a", (0.4, 0.6, 0.2), (0.1, 0.0, 0.0), TURN),
    "Ellipsoid": contact.Ellipsoid("a", (0.4, 0.2, 0.3), (0.0, 0.1, 0.0), TURN),
    "Points": contact.Points(
        "a", [(0.4, 0, 0), (-0.2, 0.3, 0.1), (-0.1, -0.4, 0), (0, 0, 0.1), (0, 0, -1)]
    ),
}
# Of facets of a ball of some 0.3 m.
FACETS = 0.01
LAW = lie_jax.contact.HuntCrossley(1e3)


@pytest.mark.parametrize("name", cases(SHAPES, SHAPES.keys() - {"Capsule", "Points"}))
def test_lowest_vertex_is_as_high_as_the_gap(name):
    body = lie_jax.Body("a", 1.0, jnp.eye(3), position=(0.0, 0.0, 2.0))
    forces = [lie_jax.contact.Contact(SHAPES[name], contact.Plane("ground"), LAW)]
    system, state = lie_jax.assemble(lie_jax.Mechanism([body], forces=forces), lie_jax.R3SO3())
    drawn = dict(contacts.surfaces(system, 1.0))
    gap = system.contacts(0.0, state.q, state.v).gap.min()
    assert 0.0 <= drawn[0].vertices[:, 2].min() + 2.0 - gap < FACETS
    assert_allclose(drawn[-1].vertices[:, 2], 0.0, atol=1e-15)


@pytest.mark.full
def test_ground_of_many_contacts_is_drawn_once_and_forces_carry_the_weight():
    system, state = quadruped.build()
    drawn = [body for body, _ in contacts.surfaces(system, 1.0)]
    assert sorted(drawn) == [-1, *(system.names.index(f"{leg} shank") for leg in quadruped.LEGS)]
    lines = contacts.forces(system, np.zeros(1), state.q[None], state.v[None])
    assert lines.shape == (1, 4, 2, 3)
    weight = quadruped.mass() * 9.81
    assert_allclose(lines[0, :, 1].sum(axis=0), [0.0, 0.0, weight], atol=1e-6 * weight)


def test_ground_of_varying_height_is_drawn_as_it_is():
    field = contact.HeightField("ground", lambda x, y: 0.1 * x + 0.2 * jnp.sin(y))
    body = lie_jax.Body("a", 1.0, jnp.eye(3), position=(0.0, 0.0, 2.0))
    forces = [lie_jax.contact.Contact(SHAPES["Sphere"], field, LAW)]
    system, _ = lie_jax.assemble(lie_jax.Mechanism([body], forces=forces), lie_jax.R3SO3())
    x, y, z = dict(contacts.surfaces(system, 1.0))[-1].vertices.T
    assert_allclose(z, 0.1 * x + 0.2 * np.sin(y), atol=1e-12)
