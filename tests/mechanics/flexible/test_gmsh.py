"""Meshes in Gmsh's format 4.1, as Gmsh itself writes them: surfaces before volumes, by groups."""

import numpy as np
import pytest
import skfem.io.meshio

import lie_jax
from tests.meshes import bar

# Files have all digits; nodes of an interface come in another order.
ROUNDING = 1e-9


def _lines(mesh, of_volume):
    """Lines of a file whose ends are the groups 1 and 2, and whose volume has these groups."""
    points, first = mesh.p.T, 101
    cells = skfem.io.meshio.to_meshio(mesh).cells_dict["hexahedron"]
    # Corners around a face along x: of the least and of the largest x.
    ends = []
    for side in (points[:, 0] < 1e-9, points[:, 0] > 0.4 - 1e-9):
        corners = np.flatnonzero(side)
        away = points[corners, 1:] - points[corners, 1:].mean(axis=0)
        ends.append(corners[np.argsort(np.arctan2(*away.T))])
    size, groups = "0 0 0 1 1 1", " ".join(map(str, of_volume))
    names = ['2 1 "left"', '2 2 "right"', '3 3 "steel"', '3 4 "all"']
    nodes = [*range(first, first + len(points))]
    return [
        *("$MeshFormat", "4.1 0 8", "$EndMeshFormat"),
        *("$PhysicalNames", len(names), *names, "$EndPhysicalNames"),
        *("$Entities", "0 0 2 1", f"1 {size} 1 1 0", f"2 {size} 1 2 0"),
        *(f"1 {size} {len(of_volume)} {groups} 0", "$EndEntities"),
        *("$Nodes", f"1 {len(points)} {first} {nodes[-1]}", f"3 1 0 {len(points)}"),
        *(*nodes, *(" ".join(map(repr, map(float, x))) for x in points), "$EndNodes"),
        *("$Elements", f"3 {2 + len(cells)} 1 {2 + len(cells)}"),
        *("2 1 3 1", " ".join(map(str, [1, *(ends[0] + first)]))),
        *("2 2 3 1", " ".join(map(str, [2, *(ends[1] + first)]))),
        f"3 1 5 {len(cells)}",
        *(" ".join(map(str, [3 + k, *(cell + first)])) for k, cell in enumerate(cells)),
        *("$EndElements", ""),
    ]


def _body(mesh, interfaces):
    return lie_jax.FlexibleBody.from_mesh(
        "bar",
        mesh,
        density=7800.0,
        young=2.1e11,
        poisson=0.3,
        interfaces=interfaces,
        modes=8,
    )


@pytest.mark.parametrize("of_volume", [(3,), (3, 4)])
def test_groups_of_surfaces_are_interfaces(tmp_path, of_volume):
    mesh, path = bar(), tmp_path / "bar.msh"
    path.write_text("\n".join(map(str, _lines(mesh, of_volume))))
    by_groups = _body(path, {"left": "left", "right": "right"})
    by_places = _body(
        mesh, {"left": lambda x: x[:, 0] < 1e-9, "right": lambda x: x[:, 0] > 0.4 - 1e-9}
    )
    np.testing.assert_allclose(by_groups.frequencies, by_places.frequencies, rtol=ROUNDING)


def test_groups_of_some_entities_alone_are_named(tmp_path):
    path = tmp_path / "bar.msh"
    path.write_text("\n".join(map(str, _lines(bar(), ()))))
    with pytest.raises(ValueError, match=r"volumes need a physical group, or none has one"):
        _body(path, {"left": "left"})
