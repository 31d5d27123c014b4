"""Surfaces of bodies in pictures."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lie_jax.io import geoms
from lie_jax.io.compiled import CompiledFile


class Mesh(NamedTuple):
    """A surface of triangles on a body, for pictures.

    **Arguments:** `body`: the name of a body, or `"ground"`; `vertices`: (n, 3), in the body's
    frame, m; `faces`: (m, 3), rows of numbers of vertices, counted from 0; `color`: red, green,
    blue and opacity between 0 and 1, or None for the colour of the body.
    """

    body: str
    vertices: NDArray
    faces: NDArray
    color: tuple[float, float, float, float] | None = None


# Points around a round surface, and from pole to pole of a ball.
_AROUND, _FROM_POLE_TO_POLE = 24, 13
# Geoms of the first groups are seen in MuJoCo's viewer; the others are shapes for contacts.
_SEEN = 3


def visuals(file: CompiledFile) -> tuple[Mesh, ...]:
    """Surfaces of the geoms of moving bodies and of the ground that are seen; planes are not."""
    model = file.model
    seen = np.flatnonzero(model.geom_group < _SEEN)
    pictures = [i for i in seen if not (model.geom_contype[i] or model.geom_conaffinity[i])]
    # A body with pictures is not drawn by the shapes that touch, too.
    pictured = {int(model.geom_bodyid[i]) for i in pictures}
    drawn = [i for i in seen if i in pictures or int(model.geom_bodyid[i]) not in pictured]
    made = ((int(i), _surface(file, int(i))) for i in drawn)
    return tuple(_place(file, i, *surface) for i, surface in made if surface is not None)


def _place(file: CompiledFile, geom: int, vertices: NDArray, faces: NDArray) -> Mesh:
    model, number = file.model, int(file.model.geom_matid[geom])
    color = model.geom_rgba[geom] if number < 0 else model.mat_rgba[number]
    place = geoms.place(file, geom)
    points = vertices @ place.axes.T + place.center
    red, green, blue, alpha = (float(x) for x in color)
    return Mesh(place.body, points, faces, (red, green, blue, alpha))


def _surface(file: CompiledFile, geom: int) -> tuple[NDArray, NDArray] | None:
    """Vertices and faces in the frame of the geom."""
    model, kinds = file.model, file.mujoco.mjtGeom
    kind, size = kinds(model.geom_type[geom]), model.geom_size[geom]
    if kind == kinds.mjGEOM_MESH:
        return _mesh(model, int(model.geom_dataid[geom]))
    if kind == kinds.mjGEOM_BOX:
        return _box(size)
    angle = np.linspace(0.0, np.pi, _FROM_POLE_TO_POLE)
    radii, heights = np.sin(angle), np.cos(angle)
    if kind == kinds.mjGEOM_SPHERE:
        return _revolve(size[0] * radii, size[0] * heights)
    if kind == kinds.mjGEOM_ELLIPSOID:
        vertices, faces = _revolve(radii, heights)
        return vertices * size, faces
    if kind == kinds.mjGEOM_CAPSULE:
        middle = _FROM_POLE_TO_POLE // 2
        radii, heights = (
            np.insert(size[0] * x, middle, size[0] * x[middle]) for x in (radii, heights)
        )
        return _revolve(
            radii, heights + size[1] * np.where(np.arange(len(heights)) <= middle, 1, -1)
        )
    if kind == kinds.mjGEOM_CYLINDER:
        r, h = size[:2]
        return _revolve(np.asarray([0.0, r, r, 0.0]), np.asarray([h, h, -h, -h]))
    return None


def _mesh(model: Any, mesh: int) -> tuple[NDArray, NDArray]:
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    begin, faces = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
    vertices = np.asarray(model.mesh_vert[first : first + count], float)
    return vertices, np.array(model.mesh_face[begin : begin + faces])


def _box(half: NDArray) -> tuple[NDArray, NDArray]:
    signs = np.asarray(list(np.ndindex(2, 2, 2))) * 2.0 - 1.0
    faces = [
        *((0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1)),
        *((2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)),
    ]
    return signs * half, np.asarray(faces)


def _revolve(radii: NDArray, heights: NDArray) -> tuple[NDArray, NDArray]:
    """Surface of a line of points (radius, height) that turns about z."""
    angle = 2.0 * np.pi * np.arange(_AROUND) / _AROUND
    x, y = np.outer(radii, np.cos(angle)), np.outer(radii, np.sin(angle))
    vertices = np.stack([x, y, np.broadcast_to(heights[:, None], x.shape)], axis=2).reshape(-1, 3)
    number = np.arange(len(vertices)).reshape(x.shape)
    a, b = number[:-1].ravel(), number[1:].ravel()
    c, d = np.roll(number, -1, axis=1)[:-1].ravel(), np.roll(number, -1, axis=1)[1:].ravel()
    return vertices, np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)])
