"""Shapes of contacts in a scene, and the forces that act on them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import trimesh
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from lie_jax.groups import quaternion
from lie_jax.mechanics.contact import shapes
from lie_jax.mechanics.contact.element import Contact
from lie_jax.mechanics.multibody import AbstractMultibodySystem


class Mesh(NamedTuple):
    """Vertices (n, 3), m, in the frame of a body, and faces (m, 3)."""

    vertices: NDArray
    faces: NDArray


# Squares along the edge of ground that is drawn.
_SQUARES = 48


def meshes(system: AbstractMultibodySystem, reach: float) -> Iterator[tuple[int, Mesh]]:
    """Each shape of the contacts once, with the number of its body, -1 for the ground.

    Planes and fields are drawn as far as `reach` (m).
    """
    number = {slot: k for k, slot in enumerate(system.slots)}
    drawn = set()
    for group in system.forces:
        if not isinstance(group.element, Contact):
            continue
        for side, k in np.ndindex(2, group.count):
            shape = jax.tree.map(lambda x, k=k: np.asarray(x[k]), group.element.shapes[side])
            body = number.get(group.bodies[side][k], -1)
            values = [x.tobytes() for x in jax.tree.leaves(shape)]
            known = body, type(shape), jax.tree.structure(shape), *values
            if known not in drawn:
                drawn.add(known)
                yield body, _mesh(shape, reach)


def _mesh(shape: Any, reach: float) -> Mesh:
    match shape:
        case shapes.Sphere():
            ball = trimesh.creation.icosphere(subdivisions=3, radius=float(shape.radius))
            return Mesh(ball.vertices + shape.center, ball.faces)
        case shapes.Capsule():
            along = shape.end - shape.start
            # trimesh's capsule lies along z, with its middle at the origin.
            bar = trimesh.creation.capsule(float(np.linalg.norm(along)), float(shape.radius))
            turn = _from_z(along)
            middle = 0.5 * (shape.start + shape.end)
            return Mesh(bar.vertices @ turn.T + middle, bar.faces)
        case shapes.Box():
            box = trimesh.creation.box(shape.size)
            return Mesh(box.vertices @ _turn(shape).T + shape.center, box.faces)
        case shapes.Points():
            hull = trimesh.convex.convex_hull(np.asarray(shape.points))
            return Mesh(hull.vertices, hull.faces)
        case shapes.Ellipsoid():
            ball = trimesh.creation.icosphere(subdivisions=3)
            stretched = ball.vertices * shape.semi_axes
            return Mesh(stretched @ _turn(shape).T + shape.center, ball.faces)
        case shapes.Plane():
            flat = _squares(reach)
            turn = _from_z(shape.normal)
            return Mesh(flat.vertices @ turn.T + shape.point, flat.faces)
        case shapes.HeightField():
            flat = _squares(reach)
            x, y = flat.vertices[:, 0], flat.vertices[:, 1]
            heights = jax.vmap(shape.height)(jax.numpy.asarray(x), jax.numpy.asarray(y))
            return Mesh(np.stack([x, y, np.asarray(heights)], axis=1), flat.faces)
    raise TypeError(f"no picture of a {type(shape).__name__}")


def _from_z(along: ArrayLike) -> NDArray:
    """A rotation (3, 3) of z into a direction; of no length, any."""
    direction = np.asarray(along)
    if not np.any(direction):
        return np.eye(3)
    return Rotation.align_vectors(direction[None], np.asarray([[0.0, 0.0, 1.0]]))[0].as_matrix()


def _turn(shape: Any) -> NDArray:
    return np.asarray(quaternion.to_matrix(jax.numpy.asarray(shape.orientation)))


def _squares(reach: float) -> Mesh:
    line = np.linspace(-reach, reach, _SQUARES + 1)
    x, y = np.meshgrid(line, line, indexing="ij")
    vertices = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)
    corner = np.arange(x.size).reshape(x.shape)
    a, b = corner[:-1, :-1].ravel(), corner[1:, :-1].ravel()
    c, d = corner[1:, 1:].ravel(), corner[:-1, 1:].ravel()
    return Mesh(vertices, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))


def forces(system: AbstractMultibodySystem, t: ArrayLike, q: ArrayLike, v: ArrayLike) -> NDArray:
    """Points (instants, places, 3) and forces there on the first bodies: (instants, places, 2, 3).

    In inertial components, m and N.
    """
    at = jax.jit(jax.vmap(system.contacts))(t, q, v)
    force = at.normal_force[..., None] * at.normal + at.tangential_force
    return np.stack([np.asarray(at.point), np.asarray(force)], axis=2)
