"""Mass, stiffness and stress of a mesh of solids: isoparametric elements, linear elasticity.

Shape functions and points of integration are those of scikit-fem. All functions take NumPy's
arrays, or JAX's with `xp=jax.numpy`, with derivatives by places and materials.

Source: Zienkiewicz, Taylor, "The finite element method" (2000), volume 1.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.sparse

from lie_jax import checks
from lie_jax.mechanics.flexible import meshes
from lie_jax.mechanics.flexible.meshes import Block, SolidMesh
from lie_jax.numerics.conversion import as_float

Array = Any

# Exact for products of two quadratic displacements in straight elements.
_DEGREE = 5
# Least volume of the edges of an element against that of a box with edges as long.
_FLAT = 1e-3


class Elements(NamedTuple):
    """Elements of one block at their points of integration: shape functions (q, k), their
    gradients (e, q, k, 3) in 1/m, and volumes (e, q) in m³.
    """

    block: Block
    values: Array
    gradients: Array
    volumes: Array


class Material(NamedTuple):
    """Density (kg/m³) and Lamé's constants (Pa) of all elements (e,)."""

    density: Array
    first: Array
    shear: Array


def material(density: Array, young: Array, poisson: Array) -> Material:
    """Isotropic material."""
    first = young * poisson / ((1.0 + poisson) * (1.0 - 2.0 * poisson))
    return Material(density, first, 0.5 * young / (1.0 + poisson))


def material_of(where: str, solid: SolidMesh, *constants: Any) -> Material:
    """Isotropic material from density, Young's modulus and Poisson's number, checked; traced ones
    out of bounds are NaN, so that no run with them is successful.
    """
    count, constants_of = sum(len(block.numbers) for block in solid.blocks), []
    rules = (
        ("density", "kg/m³", 0.0, np.inf),
        ("young", "Pa", 0.0, np.inf),
        ("poisson", "", -1.0, 0.5),
    )
    for (name, unit, low, high), value in zip(rules, constants, strict=True):
        value = as_float(value)
        checks.real(f"{where}: {name}=", value)
        if np.shape(value) not in ((), (count,)):
            raise ValueError(
                f"{where}: {name}= has the shape {np.shape(value)}; it must be one number, or one "
                f"for each of {count} elements."
            )
        if checks.has_tracers(value):
            value = jnp.where((value > low) & (value < high), value, jnp.nan)
        else:
            value = np.asarray(value, float)
            bad = np.flatnonzero(~((value > low) & (value < high)))
            if len(bad):
                value_there = f"{value.flat[bad[0]]:g}{unit and f' {unit}'}"
                at = f" in {meshes.enumeration('element', bad)}" if np.ndim(value) else ""
                below = "" if np.isinf(high) else f" and below {high:g}"
                advice = "check the unit" if unit else "rubber has 0.49, steel 0.3"
                raise ValueError(
                    f"{where}: {name}= is {value_there}{at}; it must be finite, above "
                    f"{low:g}{below}: {advice}."
                )
        constants_of.append(value if np.ndim(value) else value * np.ones(count))
    return material(*constants_of)


def elements(
    where: str, solid: SolidMesh, nodes: Array, xp: Any = np, *, at_nodes: bool = False
) -> tuple[Elements, ...]:
    """Elements with their nodes at these places, at points of integration, or `at_nodes`; raises
    for elements inside out or flat.
    """
    return tuple(_block(where, solid, block, nodes, xp, at_nodes) for block in solid.blocks)


def _block(
    where: str, solid: SolidMesh, block: Block, nodes: Array, xp: Any, at_nodes: bool
) -> Elements:
    skfem, kind = meshes.library(where, "skfem"), meshes.KINDS[block.kind]
    element = getattr(skfem, kind.element)()
    points, weights = skfem.quadrature.get_quadrature(type(element), _DEGREE)
    if at_nodes:
        points, weights = kind.places.T, np.ones(len(kind.places))
    order = meshes.local_order(kind, element, back=True)
    parts = [element.lbasis(points, i) for i in order]
    values = np.array([np.broadcast_to(part[0], weights.shape) for part in parts]).T
    slopes = np.array([np.broadcast_to(part[1], points.shape) for part in parts]).transpose(2, 0, 1)
    tangents = xp.einsum("qki,eka->eqia", slopes, nodes[block.nodes])
    one, two, three = (tangents[:, :, i] for i in range(3))
    across = [xp.cross(two, three), xp.cross(three, one), xp.cross(one, two)]
    volume = (one * across[0]).sum(axis=-1)
    sign = np.ones(len(volume)) if solid.oriented else xp.sign(volume[:, 0])
    quality = _quality(volume * sign[:, None], tangents, xp)
    if xp is np:
        _check(where, block, quality)
    else:
        # As a material out of bounds.
        volume = xp.where((quality < _FLAT)[:, None], xp.nan, volume)
    normals = xp.stack(across, axis=2) / volume[:, :, None, None]
    gradients = xp.einsum("qki,eqia->eqka", slopes, normals)
    return Elements(block, values, gradients, xp.abs(volume) * weights[None])


def _quality(volume: Array, tangents: Array, xp: Any) -> Array:
    """Least volume (e,) of each element against that of a box with edges as long."""
    box = xp.prod((tangents**2).sum(axis=-1), axis=-1) ** 0.5
    return xp.where(box > 0.0, volume / xp.where(box > 0.0, box, 1.0), 0.0).min(axis=1)


def _check(where: str, block: Block, quality: Array) -> None:
    bad = np.flatnonzero(quality < _FLAT)
    if not len(bad):
        return
    numbers = meshes.enumeration("element", block.numbers[bad])
    worst = bad[quality[bad].argmin()]
    what = "inside out" if quality[worst] < -_FLAT else "flat or folded"
    raise ValueError(
        f"{where}: {numbers} of mesh= ({block.kind!r}, counted from 0) have too little volume: "
        f"element {block.numbers[worst]} has {quality[worst]:.3g} of a box with edges as long, "
        f"{what}; each must have {_FLAT} at all of its points: mend or remesh them, and give nodes "
        "in the order of VTK (a mesh of tetrahedra from scikit-fem by mesh.oriented(), before it "
        "is saved)."
    )


def stiffness(parts: Sequence[Elements], of: Material, xp: Any = np) -> list[Array]:
    """Stiffness (e, k, 3, k, 3) of each element of each block, N/m."""
    result = []
    for part in parts:
        first, shear = (values[part.block.numbers] for values in (of.first, of.shear))
        e, q, k, _ = part.gradients.shape
        flat = part.gradients.reshape(e, q, 3 * k)
        products = xp.swapaxes(flat * part.volumes[:, :, None], 1, 2) @ flat
        products = products.reshape(e, k, 3, k, 3)
        trace = xp.einsum("eaibi->eab", products)[:, :, None, :, None]
        both = xp.swapaxes(products, 2, 4) + trace * np.eye(3)[None, None, :, None, :]
        lame = (x.reshape(-1, 1, 1, 1, 1) for x in (first, shear))
        result.append(next(lame) * products + next(lame) * both)
    return result


def mass(parts: Sequence[Elements], of: Material, xp: Any = np) -> list[Array]:
    """Mass (e, k, k) of each element of each block, kg."""
    products = (np.einsum("qa,qb->qab", part.values, part.values) for part in parts)
    return [
        xp.einsum("eq,qab->eab", of.density[part.block.numbers][:, None] * part.volumes, product)
        for part, product in zip(parts, products, strict=True)
    ]


def stress(
    parts: Sequence[Elements], of: Material, displacements: Array, xp: Any = np
) -> list[Array]:
    """Stress (e, q, 3, 3) of displacements (n, 3), Pa."""
    result = []
    for part in parts:
        slope = xp.einsum("eka,eqkb->eqab", displacements[part.block.nodes], part.gradients)
        strain = 0.5 * (slope + xp.swapaxes(slope, 2, 3))
        trace = xp.einsum("eqaa->eq", strain)[:, :, None, None] * np.eye(3)[None, None]
        first, shear = (x[part.block.numbers].reshape(-1, 1, 1, 1) for x in (of.first, of.shear))
        result.append(first * trace + 2.0 * shear * strain)
    return result


def node_stresses(
    where: str, solid: SolidMesh, nodes: Array, of: Material, modes: Array, xp: Any = np
) -> Array:
    """Stress (n, 3, 3, m) of modes (n, 3, m) at the nodes, the mean over their elements, Pa."""
    parts = elements(where, solid, nodes, xp, at_nodes=True)
    n, m = len(nodes), modes.shape[2]
    count = np.zeros(n)
    total = xp.zeros((n, 3, 3, m))
    for part in parts:
        np.add.at(count, part.block.nodes, 1.0)
    for k in range(m):
        for part, values in zip(parts, stress(parts, of, modes[:, :, k], xp), strict=True):
            if xp is np:
                np.add.at(total[..., k], part.block.nodes, values)
            else:
                total = total.at[part.block.nodes, :, :, k].add(values)
    return total / count[:, None, None, None]


def stress_stiffness(
    parts: Sequence[Elements], stresses: Sequence[Array], xp: Any = np
) -> list[Array]:
    """∫ ∇u · σ ∇v (e, k, k) of each element, N/m: the same for each component."""
    return [
        xp.einsum("eqai,eqij,eqbj->eab", x.gradients * x.volumes[:, :, None, None], s, x.gradients)
        if xp is not np
        else np.swapaxes(_flat(x.gradients @ s * x.volumes[:, :, None, None]), 1, 2)
        @ _flat(x.gradients)
        for x, s in zip(parts, stresses, strict=True)
    ]


def _flat(values: Array) -> Array:
    """(e, q 3, k) of (e, q, k, 3)."""
    e, q, k, _ = values.shape
    return values.transpose(0, 1, 3, 2).reshape(e, 3 * q, k)


def _numbers(blocks: Sequence[Block], size: int) -> tuple[Array, Array]:
    """Rows and columns of the numbers of element matrices, flat, with `size` rows for each node."""
    pairs = []
    for block in blocks:
        rows = size * block.nodes[:, :, None] + np.arange(size)
        rows = rows.reshape(len(rows), -1)
        pairs.append([x.ravel() for x in np.broadcast_arrays(rows[:, :, None], rows[:, None, :])])
    rows, columns = (np.concatenate(x) for x in zip(*pairs, strict=True))
    return rows, columns


def sparse_matrix(blocks: Sequence[Block], matrices: Sequence[Array], n: int) -> Any:
    """Sparse matrix of n nodes from element matrices."""
    size = 3 if matrices[0].ndim == 5 else 1
    values = np.concatenate([np.asarray(x).ravel() for x in matrices])
    whole = scipy.sparse.csc_matrix((values, _numbers(blocks, size)), shape=(size * n, size * n))
    return ((whole + whole.T) / 2).tocsc()
