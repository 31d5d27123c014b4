"""A body is in one piece, which interfaces do not take up: else it would fall apart in a run."""

import re

import numpy as np
import pytest
import skfem

import lie_jax
from lie_jax.mechanics.flexible import pieces
from tests.meshes import bar

MATERIAL = {"density": 7800.0, "young": 2.1e11, "poisson": 0.3}
ENDS = {"left": lambda x: x[:, 0] < 1e-9, "right": lambda x: x[:, 0] > 0.4 - 1e-9}


def _body(mesh, **options):
    given = {**MATERIAL, "interfaces": ENDS, "modes": 6, **options}
    return lie_jax.FlexibleBody.from_mesh("bar", mesh, **given)


def _halves():
    """A bar of two meshes, whose nodes in the middle stand twice at one place."""
    mesh = bar()
    middle = np.flatnonzero(np.abs(mesh.p[0] - 0.2) < 1e-9)
    twins = dict(zip(middle, mesh.p.shape[1] + np.arange(len(middle)), strict=True))
    cells = mesh.t.copy()
    for column in np.flatnonzero(mesh.p[0][cells].mean(axis=0) > 0.2):
        cells[:, column] = [twins.get(k, k) for k in cells[:, column]]
    return skfem.MeshHex(np.hstack([mesh.p, mesh.p[:, middle]]), cells)


@pytest.mark.parametrize("options", [{}, {"frame": "free"}, {"order": 1}])
def test_a_mesh_in_two_pieces_is_refused(options):
    with pytest.raises(ValueError, match=r"the mesh is in 2 pieces: nothing joins nodes"):
        _body(_halves(), **options)


def test_rigid_interfaces_join_pieces():
    # The middle as one interface: each half then hangs on it, as in the whole bar.
    middle = {"middle": lambda x: np.abs(x[:, 0] - 0.2) < 1e-9, **ENDS}
    split, whole = (_body(mesh, interfaces=middle, modes=12) for mesh in (_halves(), bar()))
    np.testing.assert_allclose(split.frequencies, whole.frequencies, rtol=1e-6)
    with pytest.raises(ValueError, match="the mesh is in 2 pieces"):
        _body(_halves(), interfaces=middle, modes=12, frame="free")


@pytest.mark.parametrize("frame", ["interface", "free"])
def test_parts_that_turn_against_each_other_are_refused(frame):
    # Two bars that have the nodes of an edge in common, which is a hinge.
    one, edge = bar(), np.array([0.4, 0.0, 0.01])
    points = np.round(np.hstack([one.p, one.p + edge[:, None]]), 9)
    nodes, number = np.unique(points, axis=1, return_inverse=True)
    cells = number.ravel()[np.hstack([one.t, one.t + one.p.shape[1]])]
    interfaces = {"left": lambda x: x[:, 0] < 1e-9, "right": lambda x: x[:, 0] > 0.8 - 1e-9}
    with pytest.raises(ValueError, match="every other motion must strain the body"):
        _body(skfem.MeshHex(nodes, cells), interfaces=interfaces, frame=frame)


def test_negative_energies_of_modes_are_refused():
    # x² - 2 y² on two displacements, each with the mass one.
    stiffness = np.diag([1.0, -2.0])
    with pytest.raises(ValueError, match=r"the strain energy -2 J, against 2 J"):
        pieces.check_strain("body", stiffness, (stiffness, np.eye(2)), np.eye(2))


REFUSED = {
    "shared nodes": (
        {"left": ENDS["left"], "side": lambda x: x[:, 1] > 0.01 - 1e-9},
        "interfaces 'left' and 'side' share nodes",
    ),
    "twice": ({"left": ENDS["left"], "also": ENDS["left"]}, "interfaces 'left' and 'also' share"),
    "all": ({"all": lambda x: x[:, 0] > -1.0}, "interface 'all' has all 81 nodes"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_rigid_interfaces_are_apart(case):
    interfaces, words = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(words)):
        _body(bar(), interfaces=interfaces)


def test_elastic_interfaces_may_share_nodes():
    interfaces = {"left": ENDS["left"], "side": lambda x: x[:, 1] > 0.01 - 1e-9}
    free = _body(bar(), interfaces=interfaces, frame="free")
    np.testing.assert_array_equal(free.frequencies, _body(bar(), frame="free").frequencies)
