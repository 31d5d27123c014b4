"""Sums over the mass of a mesh that rigid motion and modes have in the equations of motion."""

from typing import Any, NamedTuple

import numpy as np

from lie_jax.mechanics.flexible.deformation import Deformation
from lie_jax.mechanics.flexible.reduction import Basis
from lie_jax.numerics.conversion import as_float

Array = Any


class Undeformed(NamedTuple):
    """Mass, inertia (3, 3) about the centre of mass, and that centre (3,), of the body at rest."""

    mass: Array
    inertia: Array
    center: Array


def undeformed(nodes: Array, weighted: Array, total: Array, xp: Any = np) -> Undeformed:
    """Rigid body of nodes x (n, 3), from the mass matrix times x (n, 3) and the whole mass."""
    center = weighted.sum(axis=0) / total
    spread = nodes.T @ weighted - total * xp.outer(center, center)
    return Undeformed(total, xp.trace(spread) * np.eye(3) - spread, center)


def deformation(
    nodes: Array,
    weighted: Array,
    basis: Basis,
    damping_time: Any,
    spin: Array | None,
    xp: Any = np,
) -> Deformation:
    """Deformation by modes, from the mass matrix times the modes (n, 3, m)."""
    arrays = {
        "first": weighted.sum(axis=0),
        "mixed": xp.einsum("ia,ibk->abk", nodes, weighted),
        "second": xp.einsum("iak,ibl->abkl", basis.modes, weighted),
        "stiffness": basis.stiffness,
        "points": basis.points,
        "shifts": basis.shifts,
        "turns": basis.turns,
    }
    known = {key: as_float(value) for key, value in arrays.items()}
    damping = None if damping_time is None else as_float(damping_time) * known["stiffness"]
    return Deformation(**known, damping=damping, spin=None if spin is None else as_float(spin))
