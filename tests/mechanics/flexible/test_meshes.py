"""Flexible bodies from meshes: matrices, files and interfaces, and what is refused."""

import re

import meshio
import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import skfem
import skfem.io.meshio
from skfem.helpers import ddot, sym_grad
from skfem.helpers import trace as trace_of

import lie_jax
from lie_jax.mechanics.flexible import finite_elements, meshes
from tests.meshes import bar

YOUNG, POISSON, DENSITY = 2.1e11, 0.3, 7800.0
MATERIAL = {"density": DENSITY, "young": YOUNG, "poisson": POISSON}
ENDS = {"left": lambda x: x[:, 0] < 1e-9, "right": lambda x: x[:, 0] > 0.4 - 1e-9}
# Sums of some hundred products.
ROUNDING = 1e-12
# Files of text have ten digits and more; matrices of these lose four.
IN_FILES = 1e-6
KINDS = {
    "hexahedra": (skfem.MeshHex, skfem.MeshHex2, skfem.ElementHex2),
    "tetrahedra": (skfem.MeshTet, skfem.MeshTet2, skfem.ElementTetP2),
}


def _body(mesh=None, **options):
    given = {**MATERIAL, "interfaces": ENDS, "modes": 8, **options}
    return lie_jax.FlexibleBody.from_mesh("bar", bar() if mesh is None else mesh, **given)


def _cells(mesh):
    """Nodes of hexahedra as VTK has them."""
    return skfem.io.meshio.to_meshio(mesh).cells_dict["hexahedron"].copy()


def _matrices(mesh, order):
    solid = meshes.read("mesh", mesh, order)
    parts = finite_elements.elements("mesh", solid, solid.nodes)
    of = finite_elements.material_of("mesh", solid, DENSITY, YOUNG, POISSON)
    computed = finite_elements.mass(parts, of), finite_elements.stiffness(parts, of)
    return solid.nodes, *(
        finite_elements.sparse_matrix(solid.blocks, x, len(solid.nodes)) for x in computed
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", list(KINDS))
def test_matrices_are_those_of_scikit_fem(name, order):
    linear, quadratic, element = KINDS[name]
    mesh = bar(linear, cells=2)
    nodes, mass, stiffness = _matrices(mesh, order)
    if order == 2:
        mesh = quadratic.from_mesh(mesh)
    element = element() if order == 2 else mesh.elem()
    basis = skfem.Basis(mesh, skfem.ElementVector(element), intorder=5)
    scalar = basis.with_element(element)
    first = YOUNG * POISSON / (1 + POISSON) / (1 - 2 * POISSON)
    twice = YOUNG / (1 + POISSON)

    @skfem.BilinearForm
    def elastic(u, v, w):
        strain = sym_grad(u), sym_grad(v)
        return twice * ddot(*strain) + first * trace_of(strain[0]) * trace_of(strain[1])

    @skfem.BilinearForm
    def inertial(u, v, w):
        return DENSITY * u * v

    # Nodes by their places: the other library has another order.
    places = scalar.doflocs.T
    order = np.abs(nodes[:, None] - places[None]).max(axis=2).argmin(axis=1)
    np.testing.assert_allclose(nodes, places[order], rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(
        mass.toarray(),
        inertial.assemble(scalar).toarray()[np.ix_(order, order)],
        rtol=0,
        atol=ROUNDING * mass.max(),
    )
    whole = elastic.assemble(basis).toarray()
    # Rows of x, y and z at the same place.
    rows = np.concatenate(
        [[r for r in np.flatnonzero(np.abs(basis.doflocs.T - x).max(axis=1) < 1e-9)] for x in nodes]
    )
    np.testing.assert_allclose(
        stiffness.toarray(),
        whole[np.ix_(rows, rows)],
        rtol=0,
        atol=ROUNDING * stiffness.max(),
    )


@pytest.mark.parametrize("kind", ["hexahedron20", "hexahedron27", "tetra10"])
def test_quadratic_cells_of_files_have_their_nodes_in_the_order_of_vtk(kind):
    of = meshes.KINDS[kind]
    # A box, or the tetrahedron of its corner.
    sides = np.array([0.4, 0.1, 0.2])
    places = of.places * sides
    mesh = meshio.Mesh(places, [(kind, np.arange(len(places))[None])])
    nodes, mass, stiffness = _matrices(mesh, 2)
    np.testing.assert_array_equal(nodes, places)
    volume = np.prod(sides) / (6 if kind == "tetra10" else 1)
    np.testing.assert_allclose(mass.sum(), DENSITY * volume, rtol=1e-12)
    # A quadratic displacement has the energy of its strain: here bending in the plane x, z.
    u = np.stack([-places[:, 0] * places[:, 2], 0 * places[:, 0], places[:, 0] ** 2 / 2], axis=1)
    found = u.ravel() @ stiffness @ u.ravel()
    first, shear = YOUNG * POISSON / (1 + POISSON) / (1 - 2 * POISSON), YOUNG / 2 / (1 + POISSON)
    # ε_xx = -z alone, ∫ z² over the box or over the tetrahedron.
    squares = volume * sides[2] ** 2 * (1 / 10 if kind == "tetra10" else 1 / 3)
    np.testing.assert_allclose(found, (first + 2 * shear) * squares, rtol=1e-10)


def test_nodes_stay_in_the_order_of_the_mesh():
    mesh = bar()
    body = _body(mesh)
    np.testing.assert_array_equal(body.nodes[: mesh.p.shape[1]], mesh.p.T)
    assert len(body.nodes) == skfem.MeshHex2.from_mesh(mesh).doflocs.shape[1]
    np.testing.assert_allclose(body.mass, DENSITY * 0.4 * 0.02 * 0.01, rtol=1e-12)
    linear = _body(mesh, order=1)
    np.testing.assert_array_equal(linear.nodes, mesh.p.T)
    # Linear hexahedra are too stiff in bending.
    assert linear.frequencies[0] > 1.5 * body.frequencies[0]


def test_interfaces_by_numbers_functions_and_names_are_one():
    mesh = bar().with_boundaries({"left": lambda x: x[0] < 1e-9, "right": lambda x: x[0] > 0.39})
    body = _body(mesh)
    numbers = {name: np.flatnonzero(inside(mesh.p.T)) for name, inside in ENDS.items()}
    masks = {name: inside(mesh.p.T) for name, inside in ENDS.items()}
    for interfaces in (numbers, masks, {"left": "left", "right": "right"}):
        other = _body(mesh, interfaces=interfaces)
        np.testing.assert_array_equal(other.frequencies, body.frequencies)
    quadratic = skfem.MeshHex2.from_mesh(bar()).with_boundaries(
        {"left": lambda x: x[0] < 1e-9, "right": lambda x: x[0] > 0.39}
    )
    other = _body(quadratic, interfaces={"left": "left", "right": "right"})
    np.testing.assert_allclose(other.frequencies, body.frequencies, rtol=1e-9)


@pytest.mark.parametrize("suffix", ["msh", "vtu", "bdf", "inp"])
def test_files_give_the_body_of_their_mesh(tmp_path, suffix):
    mesh = bar()
    path = tmp_path / f"bar.{suffix}"
    cells = _cells(mesh)
    options = {"file_format": "nastran"} if suffix == "bdf" else {}
    options |= {"file_format": "gmsh22", "binary": False} if suffix == "msh" else {}
    meshio.Mesh(mesh.p.T, [("hexahedron", cells)]).write(path, **options)
    other = _body(path)
    np.testing.assert_allclose(other.frequencies, _body(mesh).frequencies, rtol=IN_FILES)
    np.testing.assert_allclose(other.nodes[: mesh.p.shape[1]], mesh.p.T, rtol=0, atol=IN_FILES)


def test_sets_of_files_are_interfaces():
    mesh = bar()
    left = np.flatnonzero(mesh.p[0] < 1e-9)
    quad = mesh.facets[:, np.flatnonzero((mesh.p[0][mesh.facets] > 0.39).all(axis=0))].T
    cells = [("hexahedron", _cells(mesh)), ("quad", quad)]
    groups = [np.zeros(len(cells[0][1]), int), np.full(len(quad), 7)]
    given = meshio.Mesh(
        mesh.p.T,
        cells,
        point_sets={"near": left},
        cell_sets={
            "gmsh:bounding_entities": [np.array([1, -99]), np.array([-98, 1])],
            "also far": [np.zeros(0, int), np.arange(len(quad))],
        },
        cell_data={"gmsh:physical": groups},
        field_data={"far": np.array([7, 2])},
    )
    for far in ("far", "also far"):
        other = _body(given, interfaces={"left": "near", "right": far})
        np.testing.assert_allclose(other.frequencies, _body(mesh).frequencies, rtol=1e-9)


def test_materials_may_differ_from_element_to_element():
    mesh = bar()
    count = mesh.t.shape[1]
    young = np.where(np.arange(count) % 2, YOUNG, 0.5 * YOUNG)
    body = _body(mesh, young=young, density=np.full(count, DENSITY))
    soft, hard = _body(mesh, young=0.5 * YOUNG), _body(mesh)
    assert np.all(soft.frequencies < body.frequencies)
    assert np.all(body.frequencies < hard.frequencies)


def test_print_shows_the_unit():
    text = repr(_body())
    assert text.startswith("FlexibleBody('bar', 0.624 kg, 0.4 x 0.02 x 0.01 m, ")
    assert text.endswith("interfaces 'left', 'right')")


def _inverted():
    mesh = bar()
    cells = _cells(mesh)
    cells[1] = cells[1][[4, 5, 6, 7, 0, 1, 2, 3]]
    return {"mesh": meshio.Mesh(mesh.p.T, [("hexahedron", cells)])}


def _folded():
    mesh = bar()
    nodes = mesh.p.copy()
    nodes[0, mesh.t[0, 2]] += 0.5
    return {"mesh": skfem.MeshHex(nodes, mesh.t)}


def _orphaned():
    mesh = bar()
    cells = _cells(mesh)
    points = np.vstack([mesh.p.T, [[9.0, 9.0, 9.0]]])
    return {"mesh": meshio.Mesh(points, [("hexahedron", cells)])}


def _doubled():
    cells = _cells(bar())
    return {"mesh": meshio.Mesh(bar().p.T, [("hexahedron", np.concatenate([cells, cells]))])}


def _surface():
    return {"mesh": meshio.Mesh(np.eye(3), [("triangle", [[0, 1, 2]])])}


def _wedges():
    return {"mesh": meshio.Mesh(np.zeros((6, 3)), [("wedge", [[0, 1, 2, 3, 4, 5]])])}


REFUSED = {
    "inverted": (_inverted, "element 1 of mesh= ('hexahedron27', counted from 0)"),
    "folded": (_folded, "too little volume"),
    "orphaned": (_orphaned, "belongs to no solid element"),
    "surface": (_surface, "and no solid ones"),
    "wedges": (_wedges, "has cells 'wedge'"),
    "another mesh": (lambda: {"mesh": np.eye(3)}, "mesh= is a ndarray"),
    "plane": (lambda: {"mesh": skfem.MeshTri()}, "mesh= is a MeshTri1"),
    "unit": (lambda: {"young": -1.0}, "young= is -1 Pa; it must be finite, above 0"),
    "poisson": (lambda: {"poisson": 0.5}, "above -1 and below 0.5"),
    "materials": (lambda: {"young": np.ones(3)}, "young= has the shape (3,)"),
    "order": (lambda: {"order": 3}, "order="),
    "set": (lambda: {"interfaces": {"a": "hub"}}, "is the set 'hub', which mesh= has not"),
    "function": (
        lambda: {"interfaces": {"a": lambda x: x[0] < 1.0}},
        "the function of interface 'a' returns bool of the shape (3,)",
    ),
    "two nodes": (lambda: {"interfaces": {"a": [0, 1]}}, "interface 'a' has 2 nodes"),
    "on a line": (lambda: {"interfaces": {"a": [0, 4, 8]}}, "interface 'a' lie on a line"),
    # Behind the mesh's own 20 nodes stand those that were added: no numbers of the file.
    "added nodes": (lambda: {"interfaces": {"a": [1, 2, 20]}}, "counted from 0 to 19"),
    "twice": (_doubled, "elements 4, 5, 6, 7 of mesh= (counted from 0) with the nodes of an"),
    "a complex material": (lambda: {"density": 1j}, "density= is 1j; it must be made of real"),
    "one of many": (
        lambda: {"density": np.array([1.0, 1.0, 0.0, 1.0])},
        "density= is 0 kg/m³ in element 2; it must be finite, above 0",
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_is_no_mesh_is_refused(case):
    options, words = REFUSED[case]
    given = options()
    with pytest.raises(ValueError, match=re.escape(words)):
        _body(given.pop("mesh", None), **given)


@pytest.mark.parametrize("suffix", ["msh", "vtu", "bdf", "step", "txt"])
def test_a_file_that_is_no_mesh_is_named(tmp_path, suffix, capfd):
    # meshio itself ends Python for some of these, and prints.
    path = tmp_path / f"bar.{suffix}"
    path.write_text("no mesh\n")
    with pytest.raises(ValueError, match=r"meshio does not read the file '.*bar\."):
        _body(path)
    assert capfd.readouterr() == ("", "")


def test_a_missing_file_and_library_are_named(monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"there is no file 'none\.msh'"):
        _body("none.msh")
    monkeypatch.setitem(__import__("sys").modules, "skfem", None)
    with pytest.raises(
        ImportError, match=r"needs scikit-fem, which is not installed: in the clone"
    ):
        _body()


def test_stress_is_that_of_a_loaded_bar():
    body = _body(bar(cells=8), modes=6)
    of, force = body.deformation, 100.0
    x = np.asarray(body.nodes)
    middle = np.abs(x[:, 0] - 0.2) < 1e-9
    # 20 mm wide, 10 mm high; a lever of 0.2 m from the end to the middle.
    area, moment = 0.02 * 0.01, 0.02 * 0.01**3 / 12
    expected = {0: np.full(middle.sum(), force / area), 2: -force * 0.2 * x[middle, 2] / moment}
    for axis, along in expected.items():
        amplitudes = np.linalg.solve(of.stiffness, force * np.asarray(of.shifts[1, axis]))
        stress = np.asarray(body.node_stresses(amplitudes))[middle]
        size = np.abs(along).max()
        # Poisson's contraction is free in the middle.
        np.testing.assert_allclose(stress[:, 0, 0], along, rtol=0, atol=5e-3 * size)
        np.testing.assert_allclose(stress[:, 1, 1], 0.0, rtol=0, atol=2e-2 * size)
    doubled = body.scale(stiffness=2.0).node_stresses(amplitudes)
    np.testing.assert_allclose(doubled[middle], 2.0 * stress, rtol=1e-12, atol=1e-6 * size)


def test_spin_stiffness_of_a_bar_is_that_of_its_tension():
    # A bar along x that turns about z: tension ρ A ω² (L² - x²) / 2 times slopes squared.
    length, cells = 0.4, 8
    mesh = bar(cells=cells)
    held = {"left": ENDS["left"]}
    body = _body(mesh, interfaces=held, modes=3, spin_stiffness=True)
    x, shapes = np.asarray(body.nodes), np.asarray(body.modes)
    middle = np.flatnonzero((np.abs(x[:, 1:]) < 1e-9).all(axis=1))
    middle = middle[np.argsort(x[middle, 0])]
    along, flap = x[middle, 0], shapes[middle, 2, 0]
    # Slopes of a smooth curve through the nodes.
    fine = np.linspace(0.0, length, 400)
    curve = scipy.interpolate.CubicSpline(along, flap, bc_type=((1, 0.0), (2, 0.0)))
    tension = DENSITY * 0.02 * 0.01 * (length**2 - fine**2) / 2
    expected = np.trapezoid(tension * curve(fine, 1) ** 2, fine)
    spin = np.asarray(body.deformation.spin)
    np.testing.assert_allclose(spin[2, 0, 0], expected, rtol=2e-2)
    np.testing.assert_allclose(spin[1, 0, 0], expected, rtol=2e-2)
    # About its own axis it is no longer, and each of the six is symmetric.
    assert abs(spin[0, 0, 0]) < 1e-2 * expected
    np.testing.assert_allclose(spin, spin.swapaxes(1, 2), rtol=0, atol=1e-9 * expected)


def test_spin_stiffness_of_a_free_bar_is_about_its_middle():
    moved = bar(cells=8).translated((1.0, 0.0, 0.0))
    bodies = [
        _body(mesh, interfaces={"a": np.arange(4)}, modes=2, frame="free", spin_stiffness=True)
        for mesh in (bar(cells=8), moved)
    ]
    spins = [np.asarray(body.deformation.spin) for body in bodies]
    np.testing.assert_allclose(spins[0], spins[1], rtol=1e-5, atol=1e-6 * np.abs(spins[0]).max())
    assert scipy.linalg.eigvalsh(spins[0][2])[0] > 0.0
