"""Reduction of a mesh with derivatives by its materials and its shape.

Matrices of elements are computed by JAX. Sparse solutions and eigenvectors come from SciPy, as
those of `reduction`, by callbacks; their derivatives solve linear equations with these matrices.

Modes Ψ, M-orthonormal, with K Ψ = M Ψ Λ span what is kept. The derivative of the span alone has a
meaning: any basis of it gives the same motion, and single modes of equal frequency have no
derivative. Its part outside of the span solves

    K dΨ - M dΨ Λ + M Ψ μ = -(dK Ψ - dM Ψ Λ),   Ψᵀ M dΨ = 0,

which is regular as long as no mode left out has a frequency of those kept; the part within it is
left zero. With a diagonal Λ these are one bordered system for each mode.

Source: Nelson, "Simplified calculation of eigenvector derivatives" (1976).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse

from lie_jax.mechanics.flexible import finite_elements, reduction, spins
from lie_jax.mechanics.flexible.finite_elements import Elements, Material
from lie_jax.mechanics.flexible.meshes import SolidMesh
from lie_jax.mechanics.flexible.reduction import Basis
from lie_jax.numerics import rules

Array = Any


class Matrices(NamedTuple):
    """Stiffness (e, k, 3, k, 3) and mass (e, k, k) of the elements of each block."""

    stiffness: Sequence[Array]
    mass: Sequence[Array]


class Operator:
    """Products with the matrices of a mesh, for displacements (3n, c) of nodes."""

    def __init__(self, where: str, solid: SolidMesh):
        self.where, self.solid, self.n = where, solid, len(solid.nodes)

    def stiffness(self, of: Matrices, x: Array) -> Array:
        """K x."""
        return self._product(of.stiffness, "eaibj,ebjc->eaic", x)

    def mass(self, of: Matrices, x: Array) -> Array:
        """M x."""
        return self._product(of.mass, "eab,ebic->eaic", x)

    def _product(self, matrices: Sequence[Array], indices: str, x: Array) -> Array:
        x = x.reshape(self.n, 3, -1)
        total = jnp.zeros_like(x)
        for block, matrix in zip(self.solid.blocks, matrices, strict=True):
            total = total.at[block.nodes].add(jnp.einsum(indices, matrix, x[block.nodes]))
        return total.reshape(3 * self.n, -1)

    def sparse(self, of: Matrices) -> tuple[Any, Any]:
        """K and M (3n, 3n) of SciPy, from numbers."""
        stiffness, mass = (
            finite_elements.sparse_matrix(
                self.solid.blocks, [np.asarray(x, float) for x in part], self.n
            )
            for part in of
        )
        return stiffness, scipy.sparse.kron(mass, scipy.sparse.eye(3)).tocsc()


class _Kept(NamedTuple):
    """Rows that are free, and the modes to keep: numbers first to last, as messages count them."""

    operator: Operator
    rows: np.ndarray
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first

    def inner(self, product: Callable, of: Matrices, x: Array) -> Array:
        whole = jnp.zeros((3 * self.operator.n, x.shape[1]), x.dtype).at[self.rows].set(x)
        return product(of, whole)[self.rows]

    def inner_sparse(self, of: Matrices) -> tuple[Any, Any]:
        return tuple(x[self.rows][:, self.rows].tocsc() for x in self.operator.sparse(of))


def _on_host(function: Callable, shape: tuple[int, ...], dtype: Any, *values: Any) -> Array:
    def call(*values: Any) -> np.ndarray:
        values = jax.tree.map(np.asarray, values)
        if not all(np.isfinite(x).all() for x in jax.tree.leaves(values)):
            # One of many variants may be none; SciPy would raise, and end all of them.
            return np.full(shape, np.nan, dtype)
        return np.asarray(function(*values), dtype)

    result = jax.ShapeDtypeStruct(shape, dtype)
    return jax.pure_callback(call, result, *values, vmap_method="sequential")


def solve_held(kept: _Kept, of: Matrices, right: Array) -> Array:
    """K⁻¹ of the free rows times right sides (rows, c)."""

    def solve(_: Any, right: Array) -> Array:
        def host(of: Matrices, right: np.ndarray) -> np.ndarray:
            inner, _ = kept.inner_sparse(of)
            return reduction.solver(kept.operator.where, inner)(right)

        values = rules.stop_gradient(of), right
        return _on_host(host, right.shape, right.dtype, *values)

    def product(x: Array) -> Array:
        return kept.inner(kept.operator.stiffness, of, x)

    return jax.lax.custom_linear_solve(product, right, solve, symmetric=True)


def lowest_modes(kept: _Kept, of: Matrices) -> Array:
    """M-orthonormal modes (rows, m) of the lowest frequencies."""

    @jax.custom_jvp
    def modes(of: Matrices) -> Array:
        def host(of: Matrices) -> np.ndarray:
            inner, mass = kept.inner_sparse(of)
            shift = reduction.shift(inner, mass) if kept.first < 0 else 0.0
            solve = reduction.solver(kept.operator.where, (inner - shift * mass).tocsc())
            span = kept.first, kept.last
            shapes = reduction.lowest_modes(kept.operator.where, inner, mass, span, solve, shift)
            # Orthonormal to rounding.
            lower = np.linalg.cholesky(shapes.T @ (mass @ shapes))
            return scipy.linalg.solve_triangular(lower, shapes.T, lower=True).T

        shape = len(kept.rows), kept.size
        return _on_host(host, shape, of.mass[0].dtype, of)

    @modes.defjvp
    def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
        (of,), (change,) = primals, tangents
        shapes = modes(of)
        values = _ratios(kept, of, shapes)
        right = kept.inner(kept.operator.stiffness, change, shapes)
        right = kept.inner(kept.operator.mass, change, shapes) @ values - right
        return shapes, _change_outside(kept, of, shapes, values, right)

    return modes(of)


def _ratios(kept: _Kept, of: Matrices, shapes: Array) -> Array:
    """Λ (m, m), symmetric."""
    weighted = shapes.T @ kept.inner(kept.operator.mass, of, shapes)
    elastic = shapes.T @ kept.inner(kept.operator.stiffness, of, shapes)
    values = jnp.linalg.solve(weighted, elastic)
    return 0.5 * (values + values.T)


def _change_outside(kept: _Kept, of: Matrices, shapes: Array, values: Array, right: Array) -> Array:
    """dΨ (rows, m) of a right side."""
    weighted = kept.inner(kept.operator.mass, of, shapes)
    rows = len(shapes)

    def product(x: Array) -> Array:
        change, multipliers = x[:rows], x[rows:]
        across = kept.inner(kept.operator.mass, of, change) @ values
        across = kept.inner(kept.operator.stiffness, of, change) - across
        return jnp.concatenate([across + weighted @ multipliers, weighted.T @ change])

    def solve(_: Any, right: Array) -> Array:
        held = rules.stop_gradient((of, shapes, values))
        return _on_host(host, right.shape, right.dtype, *held, right)

    def host(of: Matrices, shapes: Array, values: Array, right: Array) -> np.ndarray:
        inner, mass = kept.inner_sparse(of)
        squares, turn = np.linalg.eigh(values)
        border = mass @ (shapes @ turn)
        # As large as the stiffness.
        scale = abs(inner).max() / np.abs(border).max()
        border = scipy.sparse.csc_matrix(scale * border)
        right = np.concatenate([right[:rows] @ turn, scale * (turn.T @ right[rows:] @ turn)])
        solution = np.empty_like(right)
        for k, square in enumerate(squares):
            matrix = scipy.sparse.bmat([[inner - square * mass, border], [border.T, None]])
            solution[:, k] = reduction.solver(kept.operator.where, matrix.tocsc())(right[:, k])
        solution = solution @ turn.T
        return np.concatenate([solution[:rows], scale * turn @ solution[rows:]])

    # One array: all of it depends on the tangents, which transposition asks for.
    right = jnp.concatenate([right, jnp.zeros((kept.size, kept.size), right.dtype)])
    return jax.lax.custom_linear_solve(product, right, solve, symmetric=True)[:rows]


def rigid_motions(nodes: Array, about: Array) -> Array:
    """As those of `reduction`, with derivatives by the places of the nodes."""
    n = len(nodes)
    turns = jnp.stack([jnp.cross(axis[None], nodes - about[None]) for axis in np.eye(3)], axis=2)
    return jnp.concatenate([np.tile(np.eye(3), (n, 1)), turns.reshape(3 * n, 3)], axis=1)


def basis_of(
    where: str,
    solid: SolidMesh,
    nodes: Array,
    of: Matrices,
    interfaces: Mapping[str, np.ndarray],
    modes: int,
    frame: str,
) -> Basis:
    """As that of `reduction`, of nodes (n, 3) and matrices that JAX traces."""
    operator, members = Operator(where, solid), list(interfaces.values())
    make = _free_modes if frame == "free" else _held_modes
    shapes = make(operator, nodes, of, members, modes)
    shapes = shapes @ _turn(operator, of, shapes)
    stiffness = shapes.T @ operator.stiffness(of, shapes)
    points, shifts, turns = [], [], []
    for part in members:
        center = nodes[part].mean(axis=0)
        rigid = rigid_motions(nodes[part], center)
        motions = jnp.linalg.solve(rigid.T @ rigid, rigid.T @ shapes[reduction.rows_of(part)])
        points.append(center)
        shifts.append(motions[:3])
        turns.append(motions[3:])
    return Basis(
        shapes.reshape(len(nodes), 3, -1),
        0.5 * (stiffness + stiffness.T),
        *map(jnp.stack, (points, shifts, turns)),
    )


def _held_modes(
    operator: Operator, nodes: Array, of: Matrices, members: Sequence[np.ndarray], modes: int
) -> Array:
    fixed = np.concatenate([reduction.rows_of(part) for part in members])
    free = np.setdiff1d(np.arange(3 * operator.n), fixed)
    kept = _Kept(operator, free, 6 * (len(members) - 1), modes)
    bases = []
    for part in members[1:]:
        rows = reduction.rows_of(part)
        motions = rigid_motions(nodes[part], nodes[part].mean(axis=0))
        bases.append(jnp.zeros((3 * operator.n, 6), nodes.dtype).at[rows].set(motions))
    if bases:
        bases = [jnp.concatenate(bases, axis=1)]
        inner = solve_held(kept, of, -operator.stiffness(of, bases[0])[free])
        bases = [bases[0].at[free].set(inner)]
    if kept.size:
        whole = jnp.zeros((3 * operator.n, kept.size), nodes.dtype)
        bases.append(whole.at[free].set(lowest_modes(kept, of)))
    return jnp.concatenate(bases, axis=1)


def _free_modes(
    operator: Operator, nodes: Array, of: Matrices, members: Sequence[np.ndarray], modes: int
) -> Array:
    kept = _Kept(operator, np.arange(3 * operator.n), -6, modes)
    shapes = lowest_modes(kept, of)[:, 6:]
    # Free of momentum: the frame floats.
    rigid = rigid_motions(nodes, nodes.mean(axis=0))
    weighted = operator.mass(of, rigid)
    return shapes - rigid @ jnp.linalg.solve(weighted.T @ rigid, weighted.T @ shapes)


def _turn(operator: Operator, of: Matrices, shapes: Array) -> Array:
    """Change of basis (m, m) to the modes of `reduction`; a constant, for the span counts alone."""
    of, shapes = rules.stop_gradient((of, shapes))
    stiffness, mass = (
        shapes.T @ times(of, shapes) for times in (operator.stiffness, operator.mass)
    )
    lower = jnp.linalg.cholesky(0.5 * (mass + mass.T))
    half = jax.scipy.linalg.solve_triangular(lower, 0.5 * (stiffness + stiffness.T), lower=True)
    _, turn = jnp.linalg.eigh(jax.scipy.linalg.solve_triangular(lower, half.T, lower=True))
    turn = jax.scipy.linalg.solve_triangular(lower.T, turn, lower=False)
    diagonal = shapes @ turn
    largest = jnp.take_along_axis(diagonal, jnp.abs(diagonal).argmax(axis=0)[None], axis=0)
    return turn / largest


def spin(
    operator: Operator,
    parts: Sequence[Elements],
    nodes: Array,
    of: Matrices,
    material: Material,
    modes: Array,
    held: np.ndarray,
    frame: str,
) -> Array:
    """As that of `spins`, (6, m, m), of a body whose frame is held."""
    if frame == "free":
        raise ValueError(
            f"{operator.where}: spin_stiffness= is True with frame='free', and the material or "
            "nodes= are traced by JAX: take frame='interface', or give known numbers."
        )
    free = np.setdiff1d(np.arange(3 * operator.n), reduction.rows_of(held))
    kept = _Kept(operator, free, 0, 0)
    load = -operator.mass(of, spins.accelerations(nodes, jnp).reshape(3 * operator.n, -1))
    displacements = jnp.zeros_like(load).at[free].set(solve_held(kept, of, load[free]))
    displacements, matrices = displacements.reshape(operator.n, 3, -1), []
    for k in range(len(spins.PRODUCTS)):
        stresses = finite_elements.stress(parts, material, displacements[:, :, k], jnp)
        across = finite_elements.stress_stiffness(parts, stresses, jnp)
        total = 0.0
        for part, matrix in zip(parts, across, strict=True):
            shapes = modes[part.block.nodes]
            total = total + jnp.einsum("eab,eaik,ebil->kl", matrix, shapes, shapes)
        matrices.append(total)
    return jnp.stack(matrices)
