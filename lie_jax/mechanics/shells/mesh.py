"""Meshes of quadrilaterals: how they are read, and what is refused."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from lie_jax import checks
from lie_jax.numerics.conversion import as_float

# Cosine of the largest angle between the normals of an element and of one of its corners.
_FLATTEST = 0.7
# Least area at a corner, in parts of the mean one, by which it is no straight angle.
_SHARPEST = 0.05
# Distance of nodes at one place, in parts of the size of the mesh.
_TOGETHER = 1e-9


class Mesh(NamedTuple):
    """`nodes` (n, 3), m, inertial, and the numbers of those of each quadrilateral, (m, 4)."""

    nodes: Any
    quads: Int[np.ndarray, "m 4"]


def as_mesh(mesh: Any) -> Mesh:
    """Mesh of a pair (nodes, quads), of `meshio` or of `scikit-fem`; raises for all else."""
    if hasattr(mesh, "points") and hasattr(mesh, "get_cells_type"):
        nodes, quads = mesh.points, mesh.get_cells_type("quad")
    elif hasattr(mesh, "p") and hasattr(mesh, "t"):
        nodes, quads = np.asarray(mesh.p).T, np.asarray(mesh.t).T
        nodes = np.pad(nodes, ((0, 0), (0, max(0, 3 - nodes.shape[1]))))
    else:
        try:
            nodes, quads = mesh
        except (TypeError, ValueError):
            raise ValueError(
                f"surface(mesh=) is a {type(mesh).__name__}; it must be a pair (nodes, quads) of "
                "arrays (n, 3) in m and (m, 4) of numbers of nodes, or a mesh of quadrilaterals by "
                "meshio or scikit-fem."
            ) from None
    nodes = as_float(nodes)
    shape = np.shape(nodes)
    if len(shape) != 2 or shape[1] != 3:
        checks.shape("surface(mesh=): nodes", nodes, (4, 3), "m, inertial; four or more")
    checks.finite("surface(mesh=): nodes", nodes)
    try:
        numbers = np.asarray(quads)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if (
        numbers.ndim != 2
        or numbers.shape[1:] != (4,)
        or not np.issubdtype(numbers.dtype, np.integer)
    ):
        raise ValueError(
            f"surface(mesh=): quads have shape {numbers.shape} and dtype {numbers.dtype}; they "
            "must be integers (m, 4), numbers of the nodes of each quadrilateral, from 0."
        )
    result = Mesh(nodes, numbers)
    _check_numbers(result)
    return result


def check(mesh: Mesh, slit: Int[np.ndarray, " k"]) -> None:
    """Raise unless concrete nodes make elements that are neither inverted nor warped."""
    _check_winding(mesh.quads)
    if checks.has_tracers(mesh.nodes):
        return
    nodes = np.asarray(mesh.nodes, float)
    _check_places(nodes, slit)
    corners = nodes[mesh.quads]
    normals, at_corners = element_normals(corners)
    size = np.linalg.norm(at_corners, axis=2)
    areas = np.einsum("mkc,mc->mk", at_corners, normals)
    mean = np.mean(size, axis=1, keepdims=True)
    inverted = np.any(~(areas > 0.0), axis=1)
    straight = np.any(~(areas > _SHARPEST * mean), axis=1)
    warped = np.any(areas < _FLATTEST * size, axis=1)
    for wrong, what, fix in (
        (inverted, "is inverted or has a reentrant corner", "give its nodes one after another"),
        (straight, "is distorted: a corner is nearly straight or its nodes nearly meet", "remesh"),
        (warped, "is warped: normals of its corners are over 45 degrees apart", "divide it"),
    ):
        if np.any(wrong):
            k = int(np.argmax(wrong))
            raise ValueError(
                f"surface(mesh=): element {k} with the nodes {mesh.quads[k].tolist()} at "
                f"{corners[k].round(6).tolist()} {what}; {fix}."
            )


def element_normals(corners: Any) -> tuple[np.ndarray, np.ndarray]:
    """Unit normals (m, 3) of elements, and products of edges (m, 4, 3) at their corners."""
    ahead, back = np.roll(corners, -1, axis=1) - corners, np.roll(corners, 1, axis=1) - corners
    at_corners = np.cross(ahead, back)
    normals = np.sum(at_corners, axis=1)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return normals / np.where(length > 0.0, length, 1.0), at_corners


def _check_numbers(mesh: Mesh) -> None:
    count = len(mesh.nodes)
    if not len(mesh.quads):
        raise ValueError("surface(mesh=) has no quadrilaterals; give quads (m, 4).")
    outside = (mesh.quads < 0) | (mesh.quads >= count)
    if np.any(outside):
        k = int(np.argmax(np.any(outside, axis=1)))
        raise ValueError(
            f"surface(mesh=): element {k} has the nodes {mesh.quads[k].tolist()}; numbers of "
            f"{count} nodes are 0 to {count - 1}: count from 0."
        )
    repeated = np.any(np.diff(np.sort(mesh.quads, axis=1), axis=1) == 0, axis=1)
    if np.any(repeated):
        k = int(np.argmax(repeated))
        raise ValueError(
            f"surface(mesh=): element {k} has the nodes {mesh.quads[k].tolist()}; they must be "
            "four different ones: there are no triangles."
        )
    _, first, which = np.unique(
        np.sort(mesh.quads, axis=1), axis=0, return_index=True, return_inverse=True
    )
    again = first[which.reshape(-1)] != np.arange(len(mesh.quads))
    if np.any(again):
        k = int(np.argmax(again))
        raise ValueError(
            f"surface(mesh=): elements {int(first[which.reshape(-1)[k]])} and {k} have the same "
            f"nodes {mesh.quads[k].tolist()}; leave one out: the plate would be there twice."
        )
    alone = np.setdiff1d(np.arange(count), mesh.quads)
    if alone.size:
        raise ValueError(
            f"surface(mesh=): node {int(alone[0])} belongs to no element; leave it out."
        )


def _check_winding(quads: np.ndarray) -> None:
    first, second = quads.reshape(-1), np.roll(quads, -1, axis=1).reshape(-1)
    edges, which, counts = np.unique(
        np.sort(np.stack([first, second], axis=1), axis=1),
        axis=0,
        return_inverse=True,
        return_counts=True,
    )
    forward = np.bincount(which.reshape(-1), weights=first < second, minlength=len(edges))
    # Where three elements meet two of them pass along the edge in one direction.
    wrong = (counts == 2) & (forward != 1)
    if np.any(wrong):
        k = int(np.argmax(wrong))
        pair = (np.flatnonzero(which.reshape(-1) == k) // 4).tolist()
        raise ValueError(
            f"surface(mesh=): elements {pair[0]} and {pair[1]} have the edge {edges[k].tolist()} "
            "and opposite winding; nodes of all elements must be counter-clockwise from one side: "
            "reverse those of one."
        )


def _check_places(nodes: np.ndarray, slit: np.ndarray) -> None:
    from scipy.spatial import KDTree  # slow to import

    size = float(np.max(np.ptp(nodes, axis=0)))
    pairs = KDTree(nodes).query_pairs(_TOGETHER * size, output_type="ndarray")
    pairs = pairs[~np.any(np.isin(pairs, slit), axis=1)]
    if len(pairs):
        a, b = pairs[0].tolist()
        raise ValueError(
            f"surface(mesh=): nodes {a} and {b} are both at {nodes[a].round(6).tolist()}; elements "
            "hold together by common nodes alone: merge them, or name one in slit= if the surface "
            "is cut there."
        )
