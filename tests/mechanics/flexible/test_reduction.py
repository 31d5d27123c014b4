"""Flexible bodies from matrices: modes, their span, and what is refused."""

import re

import jax
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from lie_jax.mechanics.flexible import reduction
from lie_jax.mechanics.flexible.body import FlexibleBody
from tests.meshes import lattice

MESH = lattice()


def _body(mesh=MESH, **options):
    given = {"interfaces": mesh.ends, "modes": 8, **options}
    return FlexibleBody.from_matrices("bar", mesh.nodes, mesh.mass, mesh.stiffness, **given)


def _frequencies(mesh, held):
    """Angular frequencies of the mesh with these nodes held."""
    free = np.setdiff1d(np.arange(mesh.stiffness.shape[0]), reduction.rows_of(held))
    mass = np.kron(mesh.mass, np.eye(3))
    values = scipy.linalg.eigvalsh(mesh.stiffness[np.ix_(free, free)], mass[np.ix_(free, free)])
    return np.sqrt(np.maximum(values, 0.0))


def test_the_undeformed_body_has_the_mass_of_the_mesh():
    body, masses = _body(), MESH.mass.sum(axis=1)
    center = masses @ MESH.nodes / masses.sum()
    away = MESH.nodes - center
    spread = away.T @ MESH.mass @ away
    np.testing.assert_allclose(body.mass, 0.5, rtol=1e-13)
    np.testing.assert_allclose(body.center_of_mass, center, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(body.inertia, np.trace(spread) * np.eye(3) - spread, atol=1e-15)


def test_many_modes_have_the_frequencies_of_the_mesh():
    # All of them: interfaces that move as one leave 6 of 12 displacements at the right end.
    few, many = _body(modes=8), _body(modes=24)
    exact = _frequencies(MESH, MESH.ends["left"])
    # A rigid end is stiffer than the mesh, and modes that are left out make it stiffer.
    assert np.all(many.frequencies[:6] >= exact[:6] * (1.0 - 1e-9))
    assert np.all(few.frequencies >= many.frequencies[:8] * (1.0 - 1e-9))
    np.testing.assert_allclose(many.frequencies[:2], exact[:2], rtol=2e-2)


def test_free_modes_have_the_frequencies_of_the_free_mesh():
    body = _body(frame="free", modes=6)
    exact = _frequencies(MESH, np.zeros(0, int))
    assert np.all(exact[:6] < 1e-3 * exact[6])
    np.testing.assert_allclose(body.frequencies, exact[6:12], rtol=1e-8)


def test_sparse_and_whole_matrices_give_the_same_body():
    body = _body()
    mass = scipy.sparse.csr_array(np.kron(MESH.mass, np.eye(3)))
    stiffness = scipy.sparse.csr_array(MESH.stiffness)
    other = FlexibleBody.from_matrices(
        "bar", MESH.nodes, mass, stiffness, interfaces=MESH.ends, modes=8
    )
    np.testing.assert_allclose(
        other.deformation.stiffness, body.deformation.stiffness, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(other.modes, body.modes, atol=1e-9)


def test_interfaces_move_as_rigid_bodies():
    body = _body()
    right, of = MESH.ends["right"], body.deformation
    arms = MESH.nodes[right] - np.asarray(of.points[1])
    moved = np.asarray(of.shifts[1])[None] + np.stack(
        [np.cross(np.asarray(of.turns[1]).T, arm).T for arm in arms]
    )
    np.testing.assert_allclose(body.modes[right], moved, atol=1e-12)
    np.testing.assert_allclose(of.shifts[0], 0.0, atol=1e-14)
    np.testing.assert_allclose(of.turns[0], 0.0, atol=1e-12)


def _skewed():
    stiffness = MESH.stiffness.copy()
    stiffness[0, 5] += 1.0
    return {"stiffness": stiffness}


def _held():
    return {"stiffness": MESH.stiffness + np.diag(np.eye(3 * len(MESH.nodes))[0]) * 1e3}


def _loose():
    """A part that no spring holds."""
    nodes = np.concatenate([MESH.nodes, [[9.0, 0, 0]]])
    mass = scipy.linalg.block_diag(MESH.mass, [[0.1]])
    return {
        "nodes": nodes,
        "mass": mass,
        "stiffness": scipy.linalg.block_diag(MESH.stiffness, np.zeros((3, 3))),
    }


def test_traced_matrices_are_refused():
    def build(factor):
        body = FlexibleBody.from_matrices(
            "bar", MESH.nodes, MESH.mass, factor * MESH.stiffness, interfaces=MESH.ends, modes=8
        )
        return body.mass

    with pytest.raises(ValueError, match=r"traced by JAX; they must be known numbers"):
        jax.make_jaxpr(build)(1.0)


REFUSED = {
    "asymmetric": (_skewed, "differs from its transpose by"),
    "supported": (_held, "translation along x"),
    "loose": (_loose, "the mesh is in 2 pieces: nothing joins node 20 to nodes 0, 1, 2, 3, 4"),
    "negative stiffness": (lambda: {"stiffness": -MESH.stiffness}, "on its diagonal, in row"),
    "negative mass": (lambda: {"mass": -MESH.mass}, "mass= has -"),
    "indefinite mass": (
        lambda: {"mass": MESH.mass - 0.9 * MESH.mass.diagonal().min()},
        "mass= is not positive definite",
    ),
    "complex": (lambda: {"stiffness": MESH.stiffness + 0j}, "stiffness= has dtype complex128"),
    "sparse and complex": (
        lambda: {"stiffness": scipy.sparse.csr_array(MESH.stiffness + 0j)},
        "stiffness= has dtype complex128",
    ),
    "four axes": (
        lambda: {"stiffness": MESH.stiffness.reshape(20, 3, 20, 3)},
        "has the shape (20, 3, 20, 3); it must be (60, 60)",
    ),
    "other size": (lambda: {"stiffness": np.eye(4)}, "has the shape (4, 4); it must be (60, 60)"),
    "nodes": (lambda: {"nodes": np.zeros((3, 2))}, "nodes= has the shape (3, 2)"),
    "two nodes": (lambda: {"interfaces": {"a": [0, 1]}}, "interface 'a' has 2 nodes"),
    "no interface": (lambda: {"interfaces": {}}, "interfaces= is {}"),
    "on a line": (lambda: {"interfaces": {"a": [0, 4, 8]}}, "lie on a line"),
    "floats": (lambda: {"interfaces": {"a": [0.0, 1.0, 2.0]}}, "interface 'a' has float64"),
    "no set": (lambda: {"interfaces": {"a": "hub"}}, "the set 'hub', of which matrices have none"),
    "beyond": (lambda: {"interfaces": {"a": [1, 2, 20]}}, "has nodes from 1 to 20"),
    "float modes": (lambda: {"modes": 8.0}, "modes= is 8.0; it must be an integer, or (20, 3, m)"),
    "text": (lambda: {"modes": "8"}, "modes= is '8'; it must be an integer"),
    "no mode": (lambda: {"modes": np.zeros((20, 3, 1))}, "mode 0 of modes= is zero"),
    "a mode alone": (lambda: {"modes": np.ones((20, 3))}, "modes= has the shape (20, 3)"),
    "NaN in modes": (lambda: {"modes": np.full((20, 3, 1), np.nan)}, "modes= is nan at index"),
    "damping": (lambda: {"damping_time": -1e-3}, "damping_time= is -0.001"),
    "amplitudes": (lambda: {"amplitudes": [np.nan] * 8}, ".amplitudes is nan at index (0,)"),
    "amplitudes in mm": (lambda: {"amplitudes": [5.0] * 8}, "check the unit of amplitudes"),
    "few modes": (lambda: {"modes": 5}, "modes= is 5; it must be 6 at least"),
    "rigid modes": (
        lambda: {"modes": reduction.rigid_motions(MESH.nodes, np.zeros(3))[:, :2]},
        "must not contain a rigid motion",
    ),
    "many modes": (lambda: {"modes": 60}, "modes= asks for 54 vibrations"),
    # Two bending modes of a square bar have one frequency.
    "cut": (lambda: {"frame": "free", "modes": 5}, "together: take 4 or 6"),
    "frame": (lambda: {"frame": "mean"}, "frame="),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_is_no_model_is_refused(case):
    options, words = REFUSED[case]
    given = {
        "nodes": MESH.nodes,
        "mass": MESH.mass,
        "stiffness": MESH.stiffness,
        "interfaces": MESH.ends,
        "modes": 8,
        **options(),
    }
    with pytest.raises(ValueError, match=re.escape(words)):
        FlexibleBody.from_matrices("bar", **given)


@pytest.mark.parametrize("factor", [{"mass": 0.0}, {"stiffness": -1.0}, {"stiffness": np.nan}])
def test_factors_are_above_zero(factor):
    with pytest.raises(ValueError, match=r"scale\((mass|stiffness)=\) is .*; it must be positive"):
        _body().scale(**factor)


def test_what_follows_from_the_mesh_is_no_argument():
    with pytest.raises(TypeError, match=r"center_of_mass= is no argument.*position=, orientation="):
        _body(center_of_mass=(0.0, 0.0, 0.0))


def test_interfaces_by_functions_are_those_by_numbers():
    by_places = {"left": lambda x: x[:, 0] < 0.05, "right": lambda x: x[:, 0] > 0.35}
    np.testing.assert_array_equal(_body(interfaces=by_places).modes, _body().modes)


def test_readings_take_one_number_for_each_mode():
    for wrong in (np.zeros(3), np.zeros((8, 2))):
        with pytest.raises(ValueError, match=r"node_positions: amplitudes has shape"):
            _body().node_positions(wrong)


def test_matrices_have_no_stresses():
    with pytest.raises(ValueError, match="make the body by from_mesh"):
        _body().node_stresses(np.zeros(8))
