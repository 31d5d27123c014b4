"""Surfaces in a scene: of shapes, and of bodies that have none, by their inertia."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import trimesh
from jaxtyping import ArrayLike
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from lie_jax.groups import quaternion
from lie_jax.mechanics.contact import shapes
from lie_jax.viz.solids import Solid

# Squares along the edge of ground that is drawn.
_SQUARES = 48
# Edges around a cylinder.
_AROUND = 48


class Surface(NamedTuple):
    """Vertices (n, 3), m, in the frame of a body, and faces (m, 3)."""

    vertices: NDArray
    faces: NDArray


def of_solid(solid: Solid) -> Surface:
    """Surface of a box, a cylinder or a ball."""
    if solid.kind == "ball":
        unit = trimesh.creation.icosphere(subdivisions=3, radius=0.5)
    elif solid.kind == "cylinder":
        unit = trimesh.creation.cylinder(0.5, 1.0, _AROUND)
    else:
        unit = trimesh.creation.box((1.0, 1.0, 1.0))
    return Surface((unit.vertices * solid.sizes) @ solid.axes.T + solid.center, unit.faces)


def of_shape(shape: Any, reach: float) -> Surface:
    """Surface of a shape of `lie_jax.contact`; planes and fields are drawn as far as `reach`."""
    match shape:
        case shapes.Sphere():
            ball = trimesh.creation.icosphere(subdivisions=3, radius=float(shape.radius))
            return Surface(ball.vertices + np.asarray(shape.center), ball.faces)
        case shapes.Capsule():
            along = np.asarray(shape.end) - np.asarray(shape.start)
            # trimesh's capsule lies along z, with its middle at the origin.
            bar = trimesh.creation.capsule(float(np.linalg.norm(along)), float(shape.radius))
            turn = from_z(along)
            middle = 0.5 * (np.asarray(shape.start) + np.asarray(shape.end))
            return Surface(bar.vertices @ turn.T + middle, bar.faces)
        case shapes.Box():
            box = trimesh.creation.box(np.asarray(shape.size))
            return Surface(box.vertices @ _turn(shape).T + np.asarray(shape.center), box.faces)
        case shapes.Points():
            hull = trimesh.convex.convex_hull(np.asarray(shape.points))
            return Surface(hull.vertices, hull.faces)
        case shapes.Ellipsoid():
            ball = trimesh.creation.icosphere(subdivisions=3)
            stretched = ball.vertices * np.asarray(shape.semi_axes)
            return Surface(stretched @ _turn(shape).T + np.asarray(shape.center), ball.faces)
        case shapes.Plane():
            turn, point = from_z(shape.normal), np.asarray(shape.point)
            return _ground(reach, lambda flat: flat @ turn.T + point)
        case shapes.HeightField():
            return _ground(reach, lambda flat: _lift(shape, flat))
    return _of_own(shape)


def _of_own(shape: shapes.AbstractShape) -> Surface:
    """Surface of the balls of a shape, or of the points farthest in many directions; else none."""
    balls = shape.balls()
    if balls is not None:
        meshes = [
            trimesh.creation.icosphere(
                subdivisions=2, radius=max(float(radius), 0.0)
            ).apply_translation(np.asarray(center))
            for center, radius in zip(*balls, strict=True)
        ]
        whole: Any = trimesh.util.concatenate(meshes)
        return Surface(np.asarray(whole.vertices), np.asarray(whole.faces))
    directions = trimesh.creation.icosphere(subdivisions=3).vertices
    farthest = [shape.support(jax.numpy.asarray(x)) for x in directions]
    points = [np.asarray(point) for point in farthest if point is not None]
    if not points:
        return Surface(np.zeros((0, 3)), np.zeros((0, 3), int))
    hull = trimesh.convex.convex_hull(np.stack(points))
    return Surface(hull.vertices, hull.faces)


def from_z(along: ArrayLike) -> NDArray:
    """A rotation (3, 3) of z into a direction; of no length, any."""
    direction = np.asarray(along)
    if not np.any(direction):
        return np.eye(3)
    return Rotation.align_vectors(direction[None], np.asarray([[0.0, 0.0, 1.0]]))[0].as_matrix()


def _turn(shape: Any) -> NDArray:
    return np.asarray(quaternion.to_matrix(jax.numpy.asarray(shape.orientation)))


def _lift(field: shapes.HeightField, flat: NDArray) -> NDArray:
    x, y = (jax.numpy.asarray(flat[:, k]) for k in (0, 1))
    return np.stack([x, y, np.asarray(jax.vmap(field.height)(x, y))], axis=1)


def _ground(reach: float, place: Callable[[NDArray], NDArray]) -> Surface:
    line = np.linspace(-reach, reach, _SQUARES + 1)
    x, y = np.meshgrid(line, line, indexing="ij")
    vertices = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)
    corner = np.arange(x.size).reshape(x.shape)
    a, b = corner[:-1, :-1].ravel(), corner[1:, :-1].ravel()
    c, d = corner[1:, 1:].ravel(), corner[:-1, 1:].ravel()
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return Surface(place(vertices), faces)
