"""Meshes for tests of flexible bodies: springs in NumPy alone, and solids of scikit-fem."""

from typing import Any, NamedTuple

import numpy as np
import skfem


class Lattice(NamedTuple):
    """Nodes (n, 3), m, masses (n, n) and stiffness (3n, 3n) of springs between near nodes, and the
    nodes of both ends.
    """

    nodes: np.ndarray
    mass: np.ndarray
    stiffness: np.ndarray
    ends: dict[str, np.ndarray]


def lattice(cells: int = 4, side: float = 0.1, spring: float = 1e4, mass: float = 0.5) -> Lattice:
    """A bar along x of cubes, whose edges and diagonals are springs: rigid motions strain none.

    Its mass matrix couples nodes, as that of finite elements does.
    """
    grid = np.stack(np.meshgrid(np.arange(cells + 1), [0, 1], [0, 1], indexing="ij"), axis=-1)
    nodes = side * grid.reshape(-1, 3)
    n = len(nodes)
    stiffness = np.zeros((n, 3, n, 3))
    between = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            way = nodes[i] - nodes[j]
            length = np.linalg.norm(way)
            if length > 1.8 * side:
                continue
            part = spring * np.outer(way, way) / length**2
            stiffness[i, :, i] += part
            stiffness[j, :, j] += part
            stiffness[i, :, j] -= part
            stiffness[j, :, i] -= part
            between[i, j] = between[j, i] = 0.1
    weights = between + np.diag(1.0 + between.sum(axis=1))
    ends = {
        "left": np.flatnonzero(nodes[:, 0] < 0.5 * side),
        "right": np.flatnonzero(nodes[:, 0] > (cells - 0.5) * side),
    }
    scale = mass / weights.sum()
    return Lattice(nodes, scale * weights, stiffness.reshape(3 * n, 3 * n), ends)


def bar(kind: Any = None, cells: int = 4) -> Any:
    """Mesh of scikit-fem of a bar of 0.4 m along x, 20 mm wide and 10 mm high, from x = 0 on."""
    kind = skfem.MeshHex if kind is None else kind
    along = np.linspace(0.0, 0.4, cells + 1)
    return kind.init_tensor(along, np.array([-0.01, 0.01]), np.array([-0.005, 0.005]))
