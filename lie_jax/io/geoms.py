"""Shapes of a file's geoms that may touch others."""

from typing import Any, NamedTuple

import numpy as np

from lie_jax.mechanics.contact.shapes import (
    AbstractShape,
    Box,
    Capsule,
    Ellipsoid,
    Plane,
    Points,
    Sphere,
)
from lie_jax.mechanics.joints.base import GROUND

# Vertices of the convex hull of a mesh that is a shape.
LARGEST_HULL = 64
# Distance over a mesh's extent within which facets are one: files of meshes have single precision.
_MERGED = 1e-6


def touching(file: Any) -> list[int]:
    """Numbers of the geoms that may touch others."""
    model = file.model
    if file.disables("CONTACT"):
        return []
    return np.flatnonzero(model.geom_contype | model.geom_conaffinity).tolist()


def has_ground(file: Any) -> bool:
    """Whether geoms of moving bodies may touch some of the world, which is no base of a robot."""
    bodies = file.model.geom_bodyid[touching(file)]
    return bool((bodies == 0).any()) and any(map(file.is_moved, bodies.tolist()))


def shapes(file: Any) -> dict[str, AbstractShape]:
    """Shapes by the names of their geoms; geoms without a shape here are absent."""
    made = ((file.name("geom", i), _shape(file, i)) for i in touching(file))
    return {name: shape for name, shape in made if shape is not None}


class Place(NamedTuple):
    """Body of a geom, or the ground, and in its frame the center (3,), m, and axes (3, 3)."""

    body: str
    center: np.ndarray
    axes: np.ndarray


def place(file: Any, geom: int) -> Place:
    """Place of a geom on the body of the mechanism that it is fixed to."""
    model = file.model
    body = int(model.body_weldid[model.geom_bodyid[geom]])
    is_moved = bool(model.body_jntnum[body])
    name = file.name("body", body) if is_moved else GROUND
    position, rotation = file.pose(body) if is_moved else (np.zeros(3), np.eye(3))
    center = rotation.T @ (file.data.geom_xpos[geom] - position)
    return Place(name, center, rotation.T @ file.data.geom_xmat[geom].reshape(3, 3))


def _shape(file: Any, geom: int) -> AbstractShape | None:
    model, kinds = file.model, file.mujoco.mjtGeom
    name, center, axes = place(file, geom)
    orientation = np.zeros(4)
    file.mujoco.mju_mat2Quat(orientation, axes.ravel())
    size, kind = model.geom_size[geom].copy(), kinds(model.geom_type[geom])
    if kind == kinds.mjGEOM_SPHERE:
        return Sphere(name, size[0], center)
    if kind == kinds.mjGEOM_CAPSULE:
        arm = size[1] * axes[:, 2]
        return Capsule(name, size[0], center - arm, center + arm)
    if kind == kinds.mjGEOM_BOX:
        return Box(name, 2.0 * size, center, orientation)
    if kind == kinds.mjGEOM_ELLIPSOID:
        return Ellipsoid(name, size, center, orientation)
    if kind == kinds.mjGEOM_PLANE:
        return Plane(name, center, axes[:, 2])
    if kind == kinds.mjGEOM_MESH:
        hull = _hull(model, int(model.geom_dataid[geom]))
        return None if hull is None else Points(name, center + hull @ axes.T)
    return None


def _hull(model: Any, mesh: int) -> np.ndarray | None:
    """Vertices (n, 3) of the convex hull of a mesh, in the frame of its geom.

    None for a flat mesh, and for more vertices than a shape has.
    """
    first = model.mesh_vertadr[mesh]
    vertices = model.mesh_vert[first : first + model.mesh_vertnum[mesh]].astype(float)
    merged = _MERGED * np.ptp(vertices, axis=0).max()
    from scipy.spatial import ConvexHull, QhullError  # slow to import

    try:
        chosen = ConvexHull(vertices, qhull_options=f"Qt C{merged:.3e}").vertices
    except QhullError:
        return None
    return vertices[chosen] if len(chosen) <= LARGEST_HULL else None
