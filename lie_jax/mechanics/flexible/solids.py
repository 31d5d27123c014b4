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
    places: Array | None,
    of: Material,
    members: Mapping[str, np.ndarray],
    modes: Any,
    frame: str,
    spin_stiffness: bool,
) -> sums.ReducedMesh:
    """The mesh by its modes, with nodes at other places (n, 3) if these are given; derivatives
    where JAX traces places or material.
    """
    if checks.has_tracers(places, of):
        return _reduce_traced(where, solid, places, of, members, modes, frame, spin_stiffness)
    if places is not None:
        solid = solid._replace(nodes=np.asarray(places, float))
    parts = finite_elements.elements(where, solid, solid.nodes)
    matrices = (
        finite_elements.sparse_matrix(solid.blocks, compute(parts, of), len(solid.nodes))
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


def _reduce_traced(
    where: str,
    solid: SolidMesh,
    places: Array | None,
    of: Material,
    members: Mapping[str, np.ndarray],
    modes: Any,
    frame: str,
    spin_stiffness: bool,
) -> sums.ReducedMesh:
    if not isinstance(modes, int | np.integer):
        raise ValueError(
            f"{where}: modes= is an array, and the material or nodes= are traced by JAX; modes of "
            "one's own would not move with them: give their number."
        )
    # Elements are checked where the mesh has them.
    finite_elements.elements(where, solid, solid.nodes)
    nodes = jnp.asarray(solid.nodes if places is None else places)
    of = Material(*map(jnp.asarray, of))
    parts = finite_elements.elements(where, solid, nodes, jnp)
    matrices = differentiable.Matrices(
        finite_elements.stiffness(parts, of, jnp), finite_elements.mass(parts, of, jnp)
    )
    if matrices.stiffness[0].dtype != np.dtype(float):
        raise ValueError(
            f"{where}: the material or nodes= are traced by JAX in single precision, in which the "
            "small strains of bending drown in the stiffness of the elements: call "
            "lie_jax.configure() for double precision, or make the body of known numbers and "
            "differentiate by the factors of FlexibleBody.scale(mass=, stiffness=)."
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
    return sums.ReducedMesh(nodes, weighted, total, basis, shapes, spin, stresses)
