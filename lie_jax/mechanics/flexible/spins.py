"""Stiffness of modes by the stress of a spin, from a mesh.

A body that turns at ω is stretched by -∫ ρ ω × (ω × x). The stress σ of that load adds
∫ ∇u · σ ∇u to the stiffness against u, the same for each component of u. It is a sum of six
constant matrices, one for each product of components of ω.

Source: Simo, Vu-Quoc, "The role of non-linear theories in transient dynamic analysis of flexible
structures" (1987).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from lie_jax.mechanics.flexible import finite_elements, reduction
from lie_jax.mechanics.flexible.finite_elements import Elements, Material

Array = np.ndarray

# ω_x², ω_y², ω_z², ω_x ω_y, ω_y ω_z, ω_z ω_x, as `Deformation.spin` has them.
PRODUCTS = (0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 0)


def accelerations(places: Any, xp: Any = np) -> Any:
    """ω × (ω × x) (n, 3, 6) at places (n, 3), for one of each of the six products."""
    columns = []
    for a, b in PRODUCTS:
        product = np.zeros((3, 3))
        product[a, b] = product[b, a] = 1.0
        columns.append(places @ (product - np.trace(product) * np.eye(3)))
    return xp.stack(columns, axis=2)


def stiffness(
    where: str,
    model: reduction.Model,
    parts: Sequence[Elements],
    of: Material,
    modes: Array,
    held: Array | None,
) -> Array:
    """Stiffness (6, m, m) of modes (n, 3, m), with held nodes; None for a free body."""
    n, m = len(model.nodes), modes.shape[2]
    if held is None:
        moment = (model.mass @ model.nodes).sum(axis=0)
        center = moment / model.mass.sum()
        displacements = _free_displacements(where, model, accelerations(model.nodes - center))
    else:
        displacements = _held_displacements(where, model, accelerations(model.nodes), held)
    matrices = []
    for k in range(len(PRODUCTS)):
        stresses = finite_elements.stress(parts, of, displacements[:, :, k])
        across = finite_elements.stress_stiffness(parts, stresses)
        matrix = finite_elements.sparse_matrix([part.block for part in parts], across, n)
        loaded = (matrix @ modes.reshape(n, -1)).reshape(modes.shape)
        matrices.append(np.einsum("iak,ial->kl", modes, loaded))
    return np.array(matrices).reshape(len(PRODUCTS), m, m)


def _loads(model: reduction.Model, accelerated: Array) -> Array:
    n = len(model.nodes)
    return -(model.mass @ accelerated.reshape(n, -1)).reshape(3 * n, -1)


def _held_displacements(
    where: str, model: reduction.Model, accelerated: Array, held: Array
) -> Array:
    n = len(model.nodes)
    free = np.setdiff1d(np.arange(3 * n), reduction.rows_of(held))
    displacements = np.zeros((3 * n, accelerated.shape[2]))
    solve = reduction.solver(where, model.stiffness[free][:, free].tocsc())
    displacements[free] = solve(_loads(model, accelerated)[free])
    return displacements.reshape(n, 3, -1)


def _free_displacements(where: str, model: reduction.Model, accelerated: Array) -> Array:
    """Displacements of the free body, whose rigid acceleration balances the load."""
    n = len(model.nodes)
    rigid = reduction.rigid_motions(model.nodes, model.nodes.mean(axis=0))
    weighted = np.asarray(model.whole_mass @ rigid)
    scale = abs(model.stiffness).max() / np.abs(weighted).max()
    border = scipy.sparse.csc_matrix(scale * weighted)
    matrix = scipy.sparse.bmat([[model.stiffness, border], [border.T, None]]).tocsc()
    load = np.concatenate([_loads(model, accelerated), np.zeros((6, accelerated.shape[2]))])
    return reduction.solver(where, matrix)(load)[: 3 * n].reshape(n, 3, -1)
