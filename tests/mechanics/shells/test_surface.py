"""Surfaces of shells from meshes: masses, frames, folds, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import shells

ROUNDING = 1e-14


def square(n=2, side=1.0):
    """Nodes and quads of a square of n × n elements."""
    along = np.linspace(0.0, side, n + 1)
    nodes = np.asarray([[x, y, 0.0] for x in along for y in along])
    first = np.asarray([i * (n + 1) + j for i in range(n) for j in range(n)])
    return nodes, np.stack([first, first + n + 1, first + n + 2, first + 1], axis=1)


def surface(mesh, **options):
    return shells.surface("s", mesh, 0.01, 2e11, 0.3, 7850.0, **options)


def test_nodes_carry_the_mass_of_the_plate():
    plate = surface(square())
    assert_allclose(sum(float(b.mass) for b in plate.nodes), 78.5, rtol=ROUNDING)
    assert_allclose(
        [float(plate.nodes[k].mass) for k in (0, 1, 4)], 78.5 / 16 * np.asarray([1, 2, 4])
    )
    assert_allclose(plate.nodes[4].inertia, 78.5 / 4 * 0.01**2 / 12 * np.eye(3), rtol=1e-12)


def test_meshes_of_other_libraries_are_read():
    nodes, quads = square()
    meshio = SimpleNamespace(points=nodes, get_cells_type=lambda kind: quads)
    scikit_fem = SimpleNamespace(p=nodes[:, :2].T, t=quads.T)
    pair = surface((nodes, quads))
    for mesh in (meshio, scikit_fem):
        other = surface(mesh)
        assert_allclose([e.rest for e in other.elements], [e.rest for e in pair.elements])


def test_normals_are_means_on_smooth_edges_and_those_of_each_side_on_folds():
    def roof(angle):
        nodes = np.asarray(
            [
                [x * np.cos(angle), y, -abs(x) * np.sin(angle)]
                for x in (-1.0, 0.0, 1.0)
                for y in (0, 1)
            ]
        )
        plate = surface((nodes, np.asarray([[0, 2, 3, 1], [2, 4, 5, 3]])))
        return [shells_frame(e, slot)[:, 2] for e, slot in zip(plate.elements, (1, 0), strict=True)]

    smooth = roof(np.radians(10.0))
    assert_allclose(smooth, [[0, 0, 1]] * 2, atol=1e-14)
    a = np.radians(30.0)
    assert_allclose(roof(a), [[-np.sin(a), 0, np.cos(a)], [np.sin(a), 0, np.cos(a)]], atol=1e-14)


def shells_frame(element, slot):
    return np.asarray(lie_jax.groups.quaternion.to_matrix(element.orientations[slot]))


def test_a_clamped_node_keeps_its_place_in_its_holder():
    holder = lie_jax.Body(
        "hub", 1.0, np.eye(3), position=(1.0, 2.0, 3.0), orientation=(0.5, 0.5, 0.5, 0.5)
    )
    nodes, quads = square()
    plate = surface((nodes, quads), clamped=[0, 1], holder=holder)
    assert [b.name for b in plate.nodes] == [f"s {k}" for k in range(2, 9)]
    element = plate.elements[0]
    assert element.bodies == ("hub", "s 3", "s 4", "hub")
    turn = np.asarray(lie_jax.groups.quaternion.to_matrix(holder.orientation))
    assert_allclose(turn @ element.points[3] + np.asarray([1.0, 2.0, 3.0]), nodes[1], atol=1e-14)
    assert_allclose(turn @ shells_frame(element, 3), shells_frame(element, 1), atol=1e-14)


def with_node(k, place, n=2):
    nodes, quads = square(n)
    nodes[k] = place
    return nodes, quads


def with_quad(k, quad):
    nodes, quads = square()
    quads[k] = quad
    return nodes, quads


NODES, QUADS = square()
UNSYMMETRIC = np.eye(8)
UNSYMMETRIC[0, 1] = 0.5
WRONG = {
    "no mesh": ({"mesh": 3}, "must be a pair"),
    "flat nodes": ({"mesh": (NODES[:, :2], QUADS)}, "nodes has shape"),
    "no numbers": ({"mesh": (np.full((9, 3), np.nan), QUADS)}, "nodes"),
    "triangles": ({"mesh": (NODES, QUADS[:, :3])}, "integers .m, 4."),
    "floats": ({"mesh": (NODES, 1.0 * QUADS)}, "integers .m, 4."),
    "no quads": ({"mesh": (NODES, QUADS[:0])}, "no quadrilaterals"),
    "from one": ({"mesh": (NODES, QUADS + 1)}, "count from 0"),
    "a node twice": ({"mesh": with_quad(0, [0, 3, 4, 4])}, "four different ones"),
    "a free node": ({"mesh": (np.vstack([NODES, [[5.0, 5, 5]]]), QUADS)}, "belongs to no element"),
    "winding": ({"mesh": with_quad(0, [0, 1, 4, 3])}, "opposite winding"),
    "together": ({"mesh": with_node(8, [0.5, 0.5, 0.0])}, "merge them"),
    "an element twice": ({"mesh": (NODES, np.vstack([QUADS, QUADS[1:2]]))}, "same nodes"),
    "inverted": ({"mesh": with_node(4, [1.2, 1.2, 0.0])}, "is inverted"),
    "reentrant": ({"mesh": with_node(8, [0.7, 0.7, 0.0])}, "is inverted"),
    "straight": ({"mesh": with_node(8, [0.755, 0.755, 0.0])}, "is distorted"),
    "warped": ({"mesh": with_node(8, [1.0, 1.0, 1.0])}, "is warped"),
    "thickness": ({"thickness": 0.0}, "thickness"),
    "thickness in mm": ({"thickness": 10.0}, "thinner than it is wide: give both in m"),
    "density": ({"density": -1.0}, "density"),
    "young": ({"young": 0.0}, "young"),
    "no young": ({"young": None}, "give both"),
    "poisson": ({"poisson": 0.6}, "Poisson's ratio"),
    "both": ({"section": np.eye(8)}, "takes the place"),
    "unsymmetric": ({"section": UNSYMMETRIC, "young": None, "poisson": None}, r"at \(0, 1\)"),
    "section": ({"section": -np.eye(8), "young": None, "poisson": None}, "positive definite"),
    "name": ({"name": ""}, "name"),
    "clamped": ({"clamped": [9]}, "0 to 8"),
    "a mask": ({"clamped": np.ones(9, bool)}, "flatnonzero"),
    "ragged": ({"clamped": [[0], [1, 2]]}, "0 to 8"),
    "all clamped": ({"clamped": list(range(9))}, "may move"),
    "holder": ({"holder": 3}, "holder"),
    "idle holder": ({"holder": lie_jax.Body("hub", 1.0, np.eye(3))}, "holds no nodes"),
    "normals": ({"normals": np.ones((3, 3))}, "normals"),
    "reversed": ({"normals": [[0.0, 0.0, -1.0]] * 9}, "60 degrees"),
}


@pytest.mark.parametrize("given, words", WRONG.values(), ids=WRONG)
def test_wrong_surfaces_are_refused_by_name(given, words):
    plate = {
        "name": "s", "mesh": (NODES, QUADS), "thickness": 0.01,
        "young": 2e11, "poisson": 0.3, "density": 7850.0,
    }  # fmt: skip
    with pytest.raises(ValueError, match=words):
        shells.surface(**(plate | given))


ELEMENT = surface((NODES, QUADS)).elements[0]
REST = np.asarray(ELEMENT.rest)
WRONG_ELEMENTS = {
    "no area": ({"rest": np.zeros((6, 6))}, "spans no area"),
    "clockwise": ({"rest": REST[[2, 3, 0, 1, 4, 5]]}, "spans no area"),
    "turns": ({"rest": np.add(REST, [0, 0, 0, 2, 2, 2])}, "at most 3.0 rad"),
    "no quaternions": ({"orientations": np.zeros((4, 4))}, "unit quaternion"),
    "long quaternions": ({"orientations": np.ones((4, 4))}, "unit quaternion"),
}


@pytest.mark.parametrize("given, words", WRONG_ELEMENTS.values(), ids=WRONG_ELEMENTS)
def test_wrong_elements_are_refused_by_name(given, words):
    element = {"section": ELEMENT.section, "rest": REST}
    with pytest.raises(ValueError, match=words):
        shells.Shell("a", "b", "c", "d", **(element | given))


def test_sections_in_single_precision_may_be_off_by_its_rounding():
    turn = np.eye(8, dtype=np.float32)
    turn[:2, :2] = [[0.6, 0.8], [-0.8, 0.6]]
    section = turn.T @ np.asarray(ELEMENT.section, np.float32) @ turn
    section[0, 1] *= 1.0 + 3e-7
    shells.surface("s", (NODES, QUADS), 0.01, None, None, 1.0, section=section)


def test_clamped_nodes_may_be_a_set():
    assert len(surface((NODES, QUADS), clamped={0, 1}).nodes) == 7


def test_nodes_of_a_slit_may_lie_together():
    nodes, quads = square()
    cut = np.vstack([nodes, nodes[5:6]])
    quads[3] = [9 if k == 5 else k for k in quads[3]]
    assert len(surface((cut, quads), slit=[9]).nodes) == 10


def test_pressure_refuses_what_is_no_surface():
    with pytest.raises(ValueError, match="surface"):
        shells.pressure(3, 1.0)
    with pytest.raises(ValueError, match="value"):
        shells.pressure(surface(square()), [1.0, 2.0])
