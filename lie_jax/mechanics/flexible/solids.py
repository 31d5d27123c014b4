"""From a mesh of an elastic solid to a few modes."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from lie_jax import checks
from lie_jax.mechanics.flexible import differentiable, finite_elements, reduction, spins, sums
from lie_jax.mechanics.flexible.finite_elements import Material
from lie_jax.mechanics.flexible.meshes import SolidMesh

Array = Any


def reduce(
    where: str,
    solid: SolidMesh,
    moved: Array | None,
    of: Material,
    members: Mapping[str, np.ndarray],
    modes: Any,
    frame: str,
    spin_stiffness: bool,
) -> sums.Reduced:
    """The mesh by its modes, with nodes at other places (n, 3) if they are moved; derivatives where
    JAX traces places or material.
    """
    if checks.has_tracers(moved, of):
        return _traced(where, solid, moved, of, members, modes, frame, spin_stiffness)
    if moved is not None:
        solid = solid._replace(nodes=np.asarray(moved, float))
    parts = finite_elements.elements(where, solid, solid.nodes)
    matrices = (
        finite_elements.assembled(solid.blocks, compute(parts, of), len(solid.nodes))
        for compute in (finite_elements.mass, finite_elements.stiffness)
    )
    model = reduction.model_of(where, solid.nodes, *matrices)
    basis = reduction.basis_of(where, model, members, modes, frame)
    spin = None
    if spin_stiffness:
        held = next(iter(members.values())) if frame == "interface" else None
        spin = spins.stiffness(where, model, parts, of, basis.modes, held)
    stresses = finite_elements.node_stresses(where, solid, solid.nodes, of, basis.modes)
    return sums.of_model(model, basis, spin)._replace(stresses=stresses)


def _traced(
    where: str,
    solid: SolidMesh,
    moved: Array | None,
    of: Material,
    members: Mapping[str, np.ndarray],
    modes: Any,
    frame: str,
    spin_stiffness: bool,
) -> sums.Reduced:
    if not isinstance(modes, int | np.integer):
        raise ValueError(
            f"{where}: modes= is an array, and the material or nodes= are traced by JAX; modes of "
            "one's own would not move with them: give their number."
        )
    # Elements are checked where the mesh has them.
    finite_elements.elements(where, solid, solid.nodes)
    nodes = jnp.asarray(solid.nodes if moved is None else moved)
    of = Material(*map(jnp.asarray, of))
    parts = finite_elements.elements(where, solid, nodes, jnp)
    matrices = differentiable.Matrices(
        finite_elements.stiffness(parts, of, jnp), finite_elements.mass(parts, of, jnp)
    )
    basis = differentiable.basis_of(where, solid, nodes, matrices, members, int(modes), frame)
    operator, n = differentiable.Operator(where, solid), len(solid.nodes)
    weighted = operator.mass(matrices, nodes.reshape(-1, 1)).reshape(n, 3)
    shapes = operator.mass(matrices, basis.modes.reshape(3 * n, -1)).reshape(basis.modes.shape)
    total = sum(matrix.sum() for matrix in matrices.mass)
    spin = None
    if spin_stiffness:
        held = next(iter(members.values()))
        spin = differentiable.spin(operator, parts, nodes, matrices, of, basis.modes, held, frame)
    stresses = finite_elements.node_stresses(where, solid, nodes, of, basis.modes, jnp)
    return sums.Reduced(nodes, weighted, total, basis, shapes, spin, stresses)
