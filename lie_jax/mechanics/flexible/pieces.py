"""Whether a mesh is in one piece, and stiff against all but rigid motions.

A body in two pieces has modes without stiffness: it would fall apart in a run, without an error.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph

from lie_jax.mechanics.flexible.meshes import enumeration

Array = np.ndarray

# Part of the sum of the sizes of all terms by which the strain energy of a mode is above rounding:
# parts on a hinge have 1e-17, a wire of 1 m and 1 mm of a thousand elements 3e-14.
_STRAIN = 1e-15


def check_one_piece(where: str, n: int, groups: Iterable[Array]) -> None:
    """Raise unless groups (k, s) of s nodes each join all of n nodes."""
    rows, columns = [], []
    for group in groups:
        first = np.broadcast_to(group[:, :1], group.shape)
        rows.append(first.ravel())
        columns.append(group.ravel())
    row, column = np.concatenate(rows), np.concatenate(columns)
    graph = scipy.sparse.coo_array((np.ones(len(row), bool), (row, column)), shape=(n, n))
    count, piece = scipy.sparse.csgraph.connected_components(graph, directed=False)
    if count == 1:
        return
    one, other = (np.flatnonzero(piece == k) for k in (0, 1))
    raise ValueError(
        f"{where}: the mesh is in {count} pieces: nothing joins {enumeration('node', other)} to "
        f"{enumeration('node', one)}; a body must be in one piece: merge nodes that stand twice at "
        "one place (mesh.remove_duplicate_nodes() of scikit-fem, Coherence of Gmsh), or make a "
        "body of each piece."
    )


def pairs_of(matrix: Any) -> Array:
    """Pairs (k, 2) of the nodes that a stiffness (3n, 3n) couples."""
    coupled = scipy.sparse.coo_array(matrix)
    there = coupled.data != 0.0
    return np.stack([coupled.coords[0][there] // 3, coupled.coords[1][there] // 3], axis=1)


def check_strain(where: str, stiffness: Any, weighted: Sequence[Array], shapes: Array) -> None:
    """Raise where a combination of modes (3n, m) has no strain energy, or a negative one;
    `weighted` are their stiffness and mass (m, m).
    """
    try:
        _, turn = scipy.linalg.eigh(*weighted, subset_by_index=[0, 0])
    except np.linalg.LinAlgError as error:
        raise ValueError(mass_words(where)) from error
    least = shapes @ turn[:, 0]
    energy = least @ (stiffness @ least)
    size = np.abs(least) @ (abs(stiffness) @ np.abs(least))
    if not energy > _STRAIN * size:
        raise ValueError(
            f"{where}: stiffness= gives a mode beside the rigid motions the strain energy "
            f"{energy:.2g} J, against {size:.2g} J of its single terms; every other motion must "
            "strain the body: join parts that turn or slide against each other, or take fewer and "
            "longer elements along a thin wire."
        )


def mass_words(where: str) -> str:
    """What to say of a mass matrix that is not positive definite."""
    return (
        f"{where}: mass= is not positive definite; every motion must have a mass above zero: give "
        "nodes without mass a small one, and check the signs."
    )
