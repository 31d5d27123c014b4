"""Meshes of solids as files and libraries have them: nodes, elements and named sets of nodes.

Elements are tetrahedra and hexahedra. Nodes keep the numbers of the mesh; a quadratic displacement
on a linear mesh adds nodes behind them, at the middles of edges, faces and cells.
"""

import contextlib
import io
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lie_jax import checks
from lie_jax.numerics.conversion import as_float

Array = np.ndarray

_EDGES = {
    "tetra": ((0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3)),
    "hexahedron": (
        *((0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4)),
        *((0, 4), (1, 5), (2, 6), (3, 7)),
    ),
}
_FACES = (0, 4, 7, 3), (1, 5, 6, 2), (0, 1, 5, 4), (3, 2, 6, 7), (0, 1, 2, 3), (4, 5, 6, 7)
# Corners around each face.
_AROUND = {"tetra": ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)), "hexahedron": _FACES}
_CORNERS = {
    "tetra": ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "hexahedron": (
        *((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)),
        *((0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)),
    ),
}


class Kind(NamedTuple):
    """Kind of elements: its name in scikit-fem, and the corners whose mean each node is, in the
    order of VTK, which meshio has for all files.
    """

    element: str
    shape: str
    parents: tuple[tuple[int, ...], ...]

    @property
    def places(self) -> Array:
        """Reference places (k, 3) of the nodes."""
        corners = np.array(_CORNERS[self.shape], float)
        return np.array([corners[list(parent)].mean(axis=0) for parent in self.parents])


def _kind(element: str, shape: str, *more: tuple[tuple[int, ...], ...]) -> Kind:
    corners = tuple((k,) for k in range(len(_CORNERS[shape])))
    return Kind(element, shape, (*corners, *itertools.chain(*more)))


# By meshio's names.
KINDS = {
    "tetra": _kind("ElementTetP1", "tetra"),
    "tetra10": _kind("ElementTetP2", "tetra", _EDGES["tetra"]),
    "hexahedron": _kind("ElementHex1", "hexahedron"),
    "hexahedron20": _kind("ElementHexS2", "hexahedron", _EDGES["hexahedron"]),
    "hexahedron27": _kind(
        "ElementHex2", "hexahedron", _EDGES["hexahedron"], _FACES, (tuple(range(8)),)
    ),
}
_QUADRATIC = {"tetra": "tetra10", "hexahedron": "hexahedron27"}
# Cells that are no solids, and may stand beside them.
_THIN = ("vertex", "line", "triangle", "quad")


class Block(NamedTuple):
    """Elements of one kind: numbers (e,) of the elements, and of their nodes (e, k), as VTK has
    them.
    """

    kind: str
    numbers: Array
    nodes: Array


class SolidMesh(NamedTuple):
    """Nodes (n, 3), m, elements, and named sets of nodes.

    The nodes from the number `first_added` on are no nodes of the mesh: they lie at the means of
    their `parents` (k, 8), numbers of nodes in which -1 stands for none. `oriented` tells whether
    an element whose nodes have the other order is inside out.
    """

    nodes: Array
    blocks: tuple[Block, ...]
    sets: dict[str, Array]
    first_added: int
    parents: Array
    oriented: bool

    def places(self, nodes: Any, xp: Any) -> Any:
        """All nodes (n, 3) from those of the mesh (k, 3)."""
        if not len(self.parents):
            return nodes
        there = (self.parents >= 0)[:, :, None].astype(float)
        picked = nodes[np.maximum(self.parents, 0)] * there
        return xp.concatenate([nodes, picked.sum(axis=1) / there.sum(axis=1)])

    def fill(self, members: Array) -> Array:
        """These nodes, and the added ones all of whose parents they are."""
        inside = np.zeros(len(self.nodes) + 1, bool)
        inside[members] = True
        inside[-1] = True
        added = inside[self.parents].all(axis=1) if len(self.parents) else np.zeros(0, bool)
        return np.union1d(members, self.first_added + np.flatnonzero(added))


def library(where: str, name: str) -> Any:
    """scikit-fem (`"skfem"`) or meshio; raises `ImportError` with the extra."""
    try:
        return __import__(name)
    except ImportError as error:
        package = {"skfem": "scikit-fem"}.get(name, name)
        raise ImportError(
            f"{where} needs {package}, which is not installed: in the clone of lie_jax run "
            "pip install '.[fe]'."
        ) from error


def read(where: str, mesh: Any, order: int) -> SolidMesh:
    """Mesh of scikit-fem, of meshio or of a file, with displacements of order 1 or 2."""
    checks.one_of(f"{where}: order=", order, (1, 2))
    if isinstance(mesh, str | Path):
        path = Path(mesh)
        if not path.exists():
            raise FileNotFoundError(f"{where}: there is no file {str(path)!r}; give its path.")
        mesh = _read_file(where, path)
    if hasattr(mesh, "doflocs") and hasattr(mesh, "elem"):
        solid = _of_skfem(where, mesh)
    elif hasattr(mesh, "points") and hasattr(mesh, "cells"):
        solid = _of_meshio(where, mesh)
    else:
        raise ValueError(
            f"{where}: mesh= is a {type(mesh).__name__}; it must be a mesh of scikit-fem or "
            "meshio, or the path of a file that meshio reads (.msh, .vtu, .bdf, .inp)."
        )
    if solid.nodes.shape[1] != 3 or not np.isfinite(solid.nodes).all():
        raise ValueError(
            f"{where}: mesh= has nodes of the shape {solid.nodes.shape}; they must be finite, "
            "with three coordinates in m."
        )
    _check_nodes(where, solid)
    return _quadratic_mesh(solid) if order == 2 else solid


def _read_file(where: str, path: Path) -> Any:
    """Mesh of meshio, which prints, and ends Python for files that it cannot read."""
    reader, said = library(where, "meshio"), io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return reader.read(path)
    except (Exception, SystemExit) as error:
        words = " ".join(
            f"{said.getvalue()} {'' if isinstance(error, SystemExit) else error}".split()
        )
        raise ValueError(
            f"{where}: meshio does not read the file {str(path)!r} "
            f"({words or type(error).__name__}); it must be a mesh in a format that its ending "
            "names: save it as .msh of Gmsh 4.1, .vtu, .bdf or .inp, or read it by "
            "meshio.read(path, file_format=) and give that mesh; in Gmsh's files all surfaces and "
            "volumes need a physical group, or none has one."
        ) from error


def _check_nodes(where: str, solid: SolidMesh) -> None:
    """Raise where nodes belong to no element, or elements have all nodes of another one."""
    used = np.unique(np.concatenate([block.nodes.ravel() for block in solid.blocks]))
    if used[0] < 0 or used[-1] >= len(solid.nodes):
        raise ValueError(
            f"{where}: elements of mesh= have nodes from {used[0]} to {used[-1]}; nodes are "
            f"counted from 0 to {len(solid.nodes) - 1}."
        )
    unused = np.setdiff1d(np.arange(len(solid.nodes)), used)
    if len(unused):
        verb = "belong" if len(unused) > 1 else "belongs"
        raise ValueError(
            f"{where}: {enumeration('node', unused)} of mesh= {verb} to no solid element, and "
            "nothing holds what has none: leave them out, as mesh.remove_orphaned_nodes() of "
            "meshio does."
        )
    for block in solid.blocks:
        _, first = np.unique(np.sort(block.nodes, axis=1), axis=0, return_index=True)
        twice = np.setdiff1d(np.arange(len(block.nodes)), first)
        if len(twice):
            repeated = enumeration("element", block.numbers[twice])
            raise ValueError(
                f"{where}: {repeated} of mesh= (counted from 0) with the nodes of an earlier one "
                "would count its mass and stiffness once more: leave out what is there twice. "
                "Gmsh's format 2 writes an element of two physical groups twice: save format 4.1."
            )


def enumeration(noun: str, numbers: Array) -> str:
    """The first of these numbers with their noun, for a message."""
    first = ", ".join(map(str, numbers[:5]))
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"{noun}s {first}{more}" if len(numbers) > 1 else f"{noun} {first}"


def _of_skfem(where: str, mesh: Any) -> SolidMesh:
    element = mesh.elem()
    kinds = {kind.element: name for name, kind in KINDS.items()}
    name = kinds.get(type(element).__name__)
    if name is None:
        raise ValueError(
            f"{where}: mesh= is a {type(mesh).__name__}; it must have tetrahedra or hexahedra, "
            "MeshTet, MeshTet2, MeshHex or MeshHex2."
        )
    numbers = mesh.dofs.element_dofs.T[:, local_order(KINDS[name], element, back=True)]
    sets = {
        key: np.unique(mesh.facets[:, np.asarray(facets)])
        for key, facets in (mesh.boundaries or {}).items()
    }
    nodes = np.asarray(mesh.doflocs, float).T
    block = Block(name, np.arange(len(numbers)), numbers)
    solid = SolidMesh(nodes, (block,), {}, len(nodes), np.zeros((0, 8), int), False)
    return solid._replace(sets=_add_middles(solid, sets))


def local_order(kind: Kind, element: Any, *, back: bool = False) -> Array:
    """Numbers in VTK's order of the nodes of scikit-fem's element; `back`: the inverse."""
    places, theirs = kind.places, np.asarray(element.doflocs, float)
    near = np.abs(theirs[:, None] - places[None]).max(axis=2) < 1e-9
    return near.T.argmax(axis=1) if back else near.argmax(axis=1)


def _add_middles(solid: SolidMesh, sets: Mapping[str, Array]) -> dict[str, Array]:
    """Sets of corners, with the nodes between these of quadratic elements."""
    if not sets:
        return {}
    parts_of = {key: [np.asarray(corners)] for key, corners in sets.items()}
    for block in solid.blocks:
        for k, parents in enumerate(KINDS[block.kind].parents):
            if len(parents) > 1:
                for key, corners in sets.items():
                    inside = np.isin(block.nodes[:, parents], corners).all(axis=1)
                    parts_of[key].append(block.nodes[inside, k])
    return {key: np.unique(np.concatenate(parts)) for key, parts in parts_of.items()}


def _of_meshio(where: str, mesh: Any) -> SolidMesh:
    points, blocks, first = np.asarray(mesh.points, float), [], 0
    for cells in mesh.cells:
        if cells.type in KINDS:
            count = len(cells.data)
            blocks.append(Block(cells.type, first + np.arange(count), np.asarray(cells.data)))
            first += count
        elif not cells.type.startswith(_THIN):
            raise ValueError(
                f"{where}: mesh= has cells {cells.type!r}; it must have tetrahedra and hexahedra "
                f"alone, {', '.join(map(repr, KINDS))}: mesh it with these."
            )
    if not blocks:
        kinds = sorted({cells.type for cells in mesh.cells})
        raise ValueError(
            f"{where}: mesh= has cells {kinds} and no solid ones; it must have tetrahedra or "
            "hexahedra: save the mesh of the volume, not of its surface."
        )
    return SolidMesh(
        points, tuple(blocks), _sets_of_meshio(mesh), len(points), np.zeros((0, 8), int), True
    )


def _sets_of_meshio(mesh: Any) -> dict[str, Array]:
    """Named sets of points, and points of named sets of cells and of Gmsh's physical groups."""
    sets: dict[str, list[Array]] = {}
    for key, points in (getattr(mesh, "point_sets", None) or {}).items():
        sets.setdefault(key, []).append(np.asarray(points, int).ravel())
    for key, members in (getattr(mesh, "cell_sets", None) or {}).items():
        if key.startswith("gmsh:"):
            # Numbers of Gmsh's entities, not of cells.
            continue
        for cells, chosen in zip(mesh.cells, members, strict=True):
            if chosen is not None and len(chosen):
                sets.setdefault(key, []).append(np.asarray(cells.data)[np.asarray(chosen)].ravel())
    groups = (mesh.cell_data or {}).get("gmsh:physical", ())
    for key, (tag, dimension) in (mesh.field_data or {}).items() if len(groups) else ():
        for cells, tags in zip(mesh.cells, groups, strict=True):
            if cells.dim == dimension:
                sets.setdefault(key, []).append(cells.data[np.asarray(tags) == tag].ravel())
    unique = {key: np.unique(np.concatenate(parts)) for key, parts in sets.items()}
    return {key: members for key, members in unique.items() if len(members)}


def _quadratic_mesh(solid: SolidMesh) -> SolidMesh:
    """The mesh with quadratic elements in place of linear ones."""
    linear = [block for block in solid.blocks if block.kind in _QUADRATIC]
    if not linear:
        return solid
    keys, sizes = [], []
    for block in linear:
        for parents in KINDS[_QUADRATIC[block.kind]].parents[len(_CORNERS[block.kind]) :]:
            key = np.full((len(block.nodes), 8), -1)
            key[:, : len(parents)] = np.sort(block.nodes[:, list(parents)], axis=1)
            keys.append(key)
            sizes.append(len(key))
    parents, inverse = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    columns = iter(np.split(solid.first_added + inverse.ravel(), np.cumsum(sizes)[:-1]))
    blocks = []
    for block in solid.blocks:
        if block.kind not in _QUADRATIC:
            blocks.append(block)
            continue
        kind = _QUADRATIC[block.kind]
        count = len(KINDS[kind].parents) - len(_CORNERS[block.kind])
        added = [next(columns) for _ in range(count)]
        blocks.append(Block(kind, block.numbers, np.column_stack([block.nodes, *added])))
    quadratic = SolidMesh(
        solid.nodes, tuple(blocks), {}, solid.first_added, parents, solid.oriented
    )
    quadratic = quadratic._replace(nodes=quadratic.places(solid.nodes, np))
    return quadratic._replace(sets={key: quadratic.fill(x) for key, x in solid.sets.items()})


def move_nodes(where: str, solid: SolidMesh, nodes: Any) -> Any:
    """All nodes (n, 3) from other places of the mesh's own, which JAX may trace."""
    nodes = as_float(nodes)
    checks.shape(
        f"{where}: nodes=", nodes, (solid.first_added, 3), "places of the nodes of mesh=, m"
    )
    checks.finite(f"{where}: nodes=", nodes)
    if checks.has_tracers(nodes):
        return solid.places(nodes, jnp)
    return solid.places(np.asarray(nodes), np)


def outer_edges(solid: SolidMesh) -> Array:
    """Numbers of nodes (k, 2) of the edges of faces that belong to one element."""
    keys, edges = [], []
    for block in solid.blocks:
        kind = KINDS[block.kind]
        middle = {frozenset(parents): k for k, parents in enumerate(kind.parents)}
        for face in _AROUND[kind.shape]:
            key = np.full((len(block.nodes), 4), -1)
            key[:, : len(face)] = np.sort(block.nodes[:, list(face)], axis=1)
            around = []
            for a, b in zip(face, (*face[1:], face[0]), strict=True):
                k = middle.get(frozenset((a, b)))
                around += [(a, b)] if k is None else [(a, k), (k, b)]
            # Faces of triangles and of linear elements have fewer: their last edges twice.
            around += [around[-1]] * (8 - len(around))
            keys.append(key)
            edges.append(block.nodes[:, np.array(around)])
    _, first, count = np.unique(np.concatenate(keys), axis=0, return_index=True, return_counts=True)
    outer = np.concatenate(edges)[first[count == 1]].reshape(-1, 2)
    return np.unique(np.sort(outer, axis=1), axis=0).astype(np.int32)
