"""Sums over the mass of a mesh that rigid motion and modes have in the equations of motion."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lie_jax import checks
from lie_jax.mechanics.flexible.deformation import Deformation
from lie_jax.mechanics.flexible.reduction import Basis, Model
from lie_jax.numerics.conversion import as_float

Array = Any


class ReducedMesh(NamedTuple):
    """A mesh by its modes: places x (n, 3) of nodes, m x, Σ m, the basis, m ψ (n, 3, m), and,
    None for none, the stiffness (6, m, m) by a spin and the stress (n, 3, 3, m) at nodes.
    """

    nodes: Array
    weighted_nodes: Array
    mass: Array
    basis: Basis
    weighted_modes: Array
    spin: Array | None = None
    stresses: Array | None = None

    @property
    def _xp(self) -> Any:
        return jnp if checks.has_tracers(*self[:3], *self.basis) else np

    def rigid_inertia(self) -> tuple[Array, Array, Array]:
        """Mass, inertia (3, 3) about the centre of mass, and that centre (3,), at rest."""
        center = self.weighted_nodes.sum(axis=0) / self.mass
        spread = self.nodes.T @ self.weighted_nodes - self.mass * self._xp.outer(center, center)
        return self.mass, self._xp.trace(spread) * np.eye(3) - spread, center

    def deformation(self, damping_time: Any) -> Deformation:
        """Deformation by the modes."""
        basis = self.basis
        arrays = {
            "first": self.weighted_modes.sum(axis=0),
            "mixed": self._xp.einsum("ia,ibk->abk", self.nodes, self.weighted_modes),
            "second": self._xp.einsum("iak,ibl->abkl", basis.modes, self.weighted_modes),
            "stiffness": basis.stiffness,
            "points": basis.points,
            "shifts": basis.shifts,
            "turns": basis.turns,
        }
        known = {key: as_float(value) for key, value in arrays.items()}
        damping = None if damping_time is None else as_float(damping_time) * known["stiffness"]
        spin = None if self.spin is None else as_float(self.spin)
        return Deformation(**known, damping=damping, spin=spin)


def of_model(model: Model, basis: Basis, spin: Array | None = None) -> ReducedMesh:
    """From the matrices of a mesh."""
    x, shapes = model.nodes, basis.modes
    weighted = (model.mass @ shapes.reshape(len(x), -1)).reshape(shapes.shape)
    return ReducedMesh(x, model.mass @ x, float(model.mass.sum()), basis, weighted, spin)
