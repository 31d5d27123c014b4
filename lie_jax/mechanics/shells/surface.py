"""Surfaces of shell elements with the bodies that are their nodes."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.joints.base import GROUND
from lie_jax.mechanics.shells import laws
from lie_jax.mechanics.shells.element import Shell, check_section, screws_between
from lie_jax.mechanics.shells.mesh import Mesh, as_mesh, check, element_normals
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float

# Cosine of the angle between normals of elements from which an edge between them is a fold.
_SMOOTH = 0.87


class Surface(NamedTuple):
    """`nodes` and `elements` of a shell: for `Mechanism(bodies=)` and `Mechanism(forces=)`."""

    nodes: tuple[Body, ...]
    elements: tuple[Shell, ...]


def surface(
    name: str,
    mesh: Any,
    thickness: ArrayLike,
    young: ArrayLike | None,
    poisson: ArrayLike | None,
    density: ArrayLike,
    *,
    section: Any = None,
    normals: Any = None,
    clamped: Any = (),
    holder: Any = GROUND,
    slit: Any = (),
) -> Surface:
    """A shell at rest in the shape of a mesh of quadrilaterals.

    **Arguments:**

    - `name`: the nodes are bodies with the names "name 0", "name 1", ... by their numbers in the
      mesh, with axes along the inertial ones.
    - `mesh`: the middle surface: a pair of nodes (n, 3), m, inertial, and quads (m, 4), the numbers
      of the nodes of each element, counter-clockwise seen from one side; or a mesh of
      quadrilaterals by meshio or scikit-fem.
    - `thickness`, m; `young`, Pa; `poisson`: of an isotropic material; `density`, kg/m³.
    - `section` (8, 8): of `lie_jax.shells.Shell`, in place of `young` and `poisson`, which are None
      then; the axis 1 of an element leads from the middle of its edge 14 to that of its edge 23.
    - `normals` (n, 3): of the surface at the nodes, of any length; by default the mean of the
      elements around a node which are less than 30 degrees from each other, so that folds stay.
    - `clamped`: numbers of nodes that the `holder`, `"ground"` or a `Body`, holds as they stand,
      without a joint and without a body.
    - `slit`: numbers of nodes that may lie where others do, as at a cut.

    Nodes carry a quarter of the mass of the elements at them, as points of the plate: moments of
    inertia are those of the thickness alone. A clamped node has no inertia. Raises `ValueError` for
    values that break these rules, and for elements that are inverted, distorted or warped.
    """
    checks.name("surface(name=)", name)
    checks.positive("surface(thickness=)", thickness, "m")
    checks.positive("surface(density=)", density, "kg/m³")
    law = _section(thickness, young, poisson, section)
    if not (holder == GROUND or isinstance(holder, Body)):
        raise ValueError(f"surface(holder=) is {holder!r}; it must be 'ground' or a lie_jax.Body.")
    shape = as_mesh(mesh)
    held, cut = (
        _numbers(k, x, len(shape.nodes)) for k, x in (("clamped", clamped), ("slit", slit))
    )
    check(shape, cut)
    if len(held) == len(shape.nodes):
        raise ValueError("surface(clamped=) names all nodes; leave out those that may move.")
    if isinstance(holder, Body) and not len(held):
        raise ValueError(
            f"surface(holder=) is the body {holder.name!r}, which holds no nodes: give their "
            "numbers in clamped=, or leave out holder=."
        )
    _check_thickness(thickness, shape)
    given = None if normals is None else _normals(normals, shape)
    frames = _concrete(_frames(shape.nodes, shape.quads, _neighbours(shape), given))
    thick = as_float(thickness)
    mass = as_float(density) * thick * frames.areas
    node_masses = _concrete(_node_masses(shape.quads, mass, thick, len(shape.nodes)))
    nodes = _concrete(shape.nodes)
    bodies = tuple(
        Body(f"{name} {k}", *(x[k] for x in node_masses), position=nodes[k])
        for k in np.setdiff1d(np.arange(len(nodes)), held)
    )
    names = np.asarray([f"{name} {k}" for k in range(len(nodes))], object)
    names[held] = holder if isinstance(holder, str) else holder.name
    points = np.zeros((len(shape.quads), 4, 3))
    orientations = frames.orientations
    if held.size:
        at_holder = np.isin(shape.quads, held)
        points, orientations = _concrete(
            _in_holder(holder, nodes[shape.quads], orientations, at_holder)
        )
    elements = []
    for k, (first, second, third, fourth) in enumerate(names[shape.quads].tolist()):
        numbers = law, frames.rest[k], points[k], orientations[k]
        elements.append(Shell(first, second, third, fourth, *numbers))
    return Surface(bodies, tuple(elements))


def _section(thickness: Any, young: Any, poisson: Any, section: Any) -> Any:
    if section is None:
        if young is None or poisson is None:
            raise ValueError(
                "surface(young=, poisson=) are None; give both, Pa and a ratio, or section= (8, 8)."
            )
        return _concrete(laws.isotropic(thickness, young, poisson))
    if young is not None or poisson is not None:
        raise ValueError(
            "surface(section=) takes the place of young and poisson; give None for these."
        )
    check_section("surface(section=)", as_float(section))
    return _concrete(as_float(section))


def _numbers(where: str, value: Any, count: int) -> np.ndarray:
    """Different numbers of nodes in order."""
    try:
        numbers = np.asarray(list(value) if isinstance(value, set | frozenset) else value)
    except ValueError:
        numbers = np.asarray(np.nan)
    if numbers.shape == (0,):
        return np.zeros(0, int)
    whole = numbers.ndim == 1 and np.issubdtype(numbers.dtype, np.integer)
    if not whole or numbers.min() < 0 or numbers.max() >= count:
        raise ValueError(
            f"surface({where}=) is {value!r}; it must have numbers of nodes, 0 to {count - 1}: "
            "give a list of integers, of a mask np.flatnonzero(mask)."
        )
    return np.unique(numbers)


def _check_thickness(thickness: Any, mesh: Mesh) -> None:
    if checks.has_tracers(thickness, mesh.nodes):
        return
    size = float(np.ptp(np.asarray(mesh.nodes, float), axis=0).max())
    if float(thickness) >= size:
        raise ValueError(
            f"surface(thickness=) is {float(thickness):.6g} m, and the whole mesh is {size:.6g} m "
            "large; a shell must be thinner than it is wide: give both in m."
        )


def _normals(normals: Any, mesh: Mesh) -> Array:
    given, count = as_float(normals), len(mesh.nodes)
    checks.shape("surface(normals=)", given, (count, 3), "one for each node, of any length")
    checks.finite("surface(normals=)", given)
    if checks.has_tracers(given, mesh.nodes):
        return given
    along = np.asarray(given, float)[mesh.quads]
    size = np.linalg.norm(along, axis=2)
    of_elements, _ = element_normals(np.asarray(mesh.nodes, float)[mesh.quads])
    off = np.einsum("mkc,mc->mk", along, of_elements) < 0.5 * size
    if np.any(off | (size == 0.0)):
        k, corner = np.argwhere(off | (size == 0.0))[0].tolist()
        raise ValueError(
            f"surface(normals=) is {along[k, corner].tolist()} at node {mesh.quads[k][corner]}, "
            f"and the normal of element {k} is {of_elements[k].round(6).tolist()}; they must be "
            "less than 60 degrees apart: reverse the normals or the order of elements' nodes."
        )
    return given


class _Neighbours(NamedTuple):
    """Corners (numbers 4 element + slot) by pairs, of which the second one's normal counts in the
    mean at the first one.
    """

    at: np.ndarray
    of: np.ndarray


def _neighbours(mesh: Mesh) -> _Neighbours:
    """Pairs of corners at one node whose elements are no fold."""
    corner_of: list[list[int]] = [[] for _ in range(len(mesh.nodes))]
    for corner, node in enumerate(mesh.quads.reshape(-1)):
        corner_of[node].append(corner)
    pairs = np.asarray([(a, b) for at in corner_of for a in at for b in at])
    at, of = pairs.T
    if not checks.has_tracers(mesh.nodes):
        of_elements, _ = element_normals(np.asarray(mesh.nodes, float)[mesh.quads])
        cosine = np.sum(of_elements[at // 4] * of_elements[of // 4], axis=1)
        at, of = pairs[cosine > _SMOOTH].T
    return _Neighbours(at, of)


class _Frames(NamedTuple):
    """Screws at rest (m, 6, 6), orientations (m, 4, 4) of nodes, and areas (m,), m²."""

    rest: Any
    orientations: Any
    areas: Any


@jax.jit
def _frames(nodes: Array, quads: Array, neighbours: _Neighbours, normals: Array | None) -> _Frames:
    corners = nodes[quads]
    ahead = jnp.roll(corners, -1, axis=1) - corners
    at_corners = jnp.cross(ahead, jnp.roll(corners, 1, axis=1) - corners)
    if normals is None:
        flat = at_corners.reshape(-1, 3)
        means = jnp.zeros_like(flat).at[neighbours.at].add(flat[neighbours.of])
        directions = means.reshape(corners.shape)
    else:
        directions = normals[quads]
    of_nodes = _unit(directions)
    first = _unit(corners[:, 1] + corners[:, 2] - corners[:, 0] - corners[:, 3])
    third = _unit(jnp.sum(at_corners, axis=1))
    middle = jnp.stack([first, jnp.cross(third, first), third], axis=2)
    turn = jax.vmap(lambda m, n, e: jax.vmap(lambda n: _turn(m, n) @ e)(n))
    rotations = turn(third, of_nodes, middle)
    screws = jax.vmap(screws_between)(rotations, corners)
    rest = jnp.concatenate([screws.y, screws.phi], axis=2)
    areas = jnp.sum(jax.vmap(lambda x: laws.geometry(x).weights)(rest), axis=1)
    return _Frames(rest, jax.vmap(jax.vmap(quaternion.from_matrix))(rotations), areas)


def _turn(start: Float[Array, "3"], end: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """The least rotation from one unit vector to another."""
    skew = small.hat(jnp.cross(start, end))
    return jnp.eye(3, dtype=start.dtype) + skew + skew @ skew / (1.0 + small.dot(start, end))


def _unit(x: Array) -> Array:
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def _node_masses(quads: np.ndarray, mass: Any, thickness: Any, count: int) -> tuple[Any, Any]:
    """Masses (n,) and inertias (n, 3, 3) of nodes."""
    share = 0.25 * jnp.asarray(mass)[:, None] * jnp.ones(4)[None]
    masses = jnp.zeros(count, share.dtype).at[quads.reshape(-1)].add(share.reshape(-1))
    return masses, (masses * thickness**2 / 12.0)[:, None, None] * jnp.eye(3)[None]


def _in_holder(holder: Any, places: Any, orientations: Any, at_holder: np.ndarray) -> Any:
    """Points and orientations (m, 4, ...) of nodes in their bodies, for those of a holder."""
    if isinstance(holder, Body):
        back = quaternion.inverse(holder.orientation)
        rotation = quaternion.to_matrix(holder.orientation)
        places = (jnp.asarray(places) - holder.position[None, None]) @ rotation
        relative = jax.vmap(jax.vmap(lambda q: quaternion.compose(back, q)))(
            jnp.asarray(orientations)
        )
    else:
        relative = orientations
    which = at_holder[:, :, None]
    return jnp.where(which, places, 0.0), jnp.where(which, relative, orientations)


def _concrete(values: Any) -> Any:
    """NumPy's arrays in place of JAX's where they are known: many small pieces are cut of them."""
    return values if checks.has_tracers(values) else jax.tree.map(np.asarray, values)
