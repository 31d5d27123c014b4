"""Gaps between shapes, with the normals and points where they touch.

Everything is in inertial components. A normal points out of the second shape, towards the first. A
point lies in the middle of the overlap, or of the gap: forces that act there on both bodies keep
their momentum and angular momentum.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.groups import quaternion
from lie_jax.mechanics.contact.shapes import (
    AbstractShape,
    Box,
    Capsule,
    Ellipsoid,
    HeightField,
    Plane,
    Points,
    Sphere,
)
from lie_jax.mechanics.joints.base import BodyPose
from lie_jax.numerics import small


class Touching(NamedTuple):
    """Gap (m), negative where shapes overlap, normal and point (m) of each place of a pair."""

    gap: Float[Array, " n"]
    normal: Float[Array, "n 3"]
    point: Float[Array, "n 3"]


def _at(pose: BodyPose, point: Float[Array, "3"]) -> Float[Array, "3"]:
    return pose.position + small.matvec(pose.rotation, point)


def _balls_on(
    ground: Callable[[Array], tuple[Array, Array]], shape: AbstractShape, pose: BodyPose
) -> Touching:
    """Places of a shape's balls on a `ground` that gives the height of a point and the normal."""

    def touch(center, radius):
        center = _at(pose, center)
        height, normal = ground(center)
        gap = height - radius
        return Touching(gap, normal, center - (radius + 0.5 * gap) * normal)

    balls = shape.balls()
    assert balls is not None
    return jax.vmap(touch)(*balls)


def _balls_on_plane(
    shape: AbstractShape, plane: Plane, pose: BodyPose, of_plane: BodyPose
) -> Touching:
    normal = small.matvec(of_plane.rotation, plane.normal)
    origin = _at(of_plane, plane.point)
    return _balls_on(lambda point: (small.dot(normal, point - origin), normal), shape, pose)


# Newton iterations for the foot of a perpendicular, and those whose derivatives are taken: each
# doubles the order to which derivatives of a solution are right.
_ITERATIONS, _DIFFERENTIATED = 12, 2


def _balls_on_field(
    shape: AbstractShape, field: HeightField, pose: BodyPose, of_field: BodyPose
) -> Touching:
    def ground(point):
        local = small.matvec(of_field.rotation.T, point - of_field.position)
        distance, upwards = _above(field.height, local)
        return distance, small.matvec(of_field.rotation, upwards)

    return _balls_on(ground, shape, pose)


def _of_both(height: Callable) -> Callable[[Float[Array, "2"]], Float[Array, ""]]:
    # A flat field may return a number of Python.
    return lambda xy: height(xy[0], xy[1]) + 0.0 * xy[0]


def _above(height: Callable, point: Float[Array, "3"]) -> tuple[Array, Array]:
    """Distance of a point from a surface z = height(x, y), negative below it, and the normal."""

    def plane_at(xy):
        z, slope = jax.value_and_grad(_of_both(height))(xy)
        upwards = jnp.concatenate([-slope, jnp.ones_like(slope[:1])])
        upwards = upwards / jnp.sqrt(small.dot(upwards, upwards))
        return small.dot(upwards, point - jnp.concatenate([xy, z[None]])), upwards, point[2] - z

    # From its foot a point lies along the normal, outside or inside.
    distance, upwards, _ = plane_at(_foot(height, point))
    plumb, upwards_there, drop = plane_at(point[:2])
    # Accept the foot only if it is no farther than the point straight below, and on the same side.
    # Far above narrow hills the distance has several minima, and the search may end at another one:
    # the tangent plane straight below replaces it.
    close = jnp.finfo(point.dtype).eps ** 0.5
    is_foot = jnp.abs(distance) <= 1.001 * jnp.abs(drop) + close
    is_foot = is_foot & ((distance * drop >= 0.0) | (jnp.abs(drop) <= close))
    return jnp.where(is_foot, distance, plumb), jnp.where(is_foot, upwards, upwards_there)


def _foot(height: Callable, point: Float[Array, "3"]) -> Float[Array, "2"]:
    """Coordinates of the point of a surface z = height(x, y) next to a point."""
    at = _of_both(height)

    def step(point, xy):
        # Of half the square of the distance: x - p + (z - p_z) ∇z = 0.
        z, slope = jax.value_and_grad(at)(xy)
        above = z - point[2]
        matrix = jnp.eye(2, dtype=xy.dtype) + slope[:, None] * slope[None, :]
        bent = matrix + above * jax.hessian(at)(xy)
        # Where the distance has no minimum nearby, the curvature is left out.
        convex = (bent[0, 0] > 0.0) & (small.adjugate(bent)[1] > 0.0)
        matrix = jnp.where(convex, bent, matrix)
        cofactors, determinant = small.adjugate(matrix)
        left = xy - point[:2] + above * slope
        return xy - small.matvec(cofactors, left) / determinant

    still = jax.lax.stop_gradient(point)
    xy = jax.lax.fori_loop(0, _ITERATIONS, lambda _, xy: step(still, xy), still[:2])
    xy = jax.lax.stop_gradient(xy)
    for _ in range(_DIFFERENTIATED):
        xy = step(point, xy)
    return xy


def _ellipsoid_on_plane(
    shape: Ellipsoid, plane: Plane, pose: BodyPose, of_plane: BodyPose
) -> Touching:
    normal = small.matvec(of_plane.rotation, plane.normal)
    rotation = small.matmul(pose.rotation, quaternion.to_matrix(shape.orientation))
    along = shape.semi_axes * small.matvec(rotation.T, normal)
    support = jnp.sqrt(small.dot(along, along))
    center = _at(pose, shape.center)
    gap = small.dot(normal, center - _at(of_plane, plane.point)) - support
    lowest = center - small.matvec(rotation, shape.semi_axes * along) / support
    return Touching(gap[None], normal[None], (lowest - 0.5 * gap * normal)[None])


def nearest_on_axes(
    first: AbstractShape, second: AbstractShape, pose: BodyPose, other: BodyPose
) -> tuple[Array, Array] | None:
    """Nearest points of the axes of two round shapes; None for others."""
    one, two = first.segment(), second.segment()
    if one is None or two is None:
        return None
    a, b = (_at(pose, end) for end in one[0])
    c, d = (_at(other, end) for end in two[0])
    return _nearest(a, b - a, c, d - c)


def _round_shapes(
    first: AbstractShape, second: AbstractShape, pose: BodyPose, other: BodyPose
) -> Touching:
    one, two = first.segment(), second.segment()
    nearest = nearest_on_axes(first, second, pose, other)
    assert one is not None and two is not None and nearest is not None
    radius, other_radius = one[1], two[1]
    near, far = nearest
    line = near - far
    square = small.dot(line, line)
    # False at zero alone: numbers that are NaN stay so.
    apart = square != 0.0
    # Lines that cross have no normal: any one is taken.
    upwards = jnp.asarray([0.0, 0.0, 1.0], line.dtype)
    distance = jnp.where(apart, jnp.sqrt(jnp.where(apart, square, 1.0)), 0.0)
    normal = jnp.where(apart, line / jnp.where(apart, distance, 1.0), upwards)
    gap = distance - radius - other_radius
    point = far + (other_radius + 0.5 * gap) * normal
    return Touching(gap[None], normal[None], point[None])


def _nearest(a: Array, along: Array, c: Array, other: Array) -> tuple[Array, Array]:
    """Nearest points of the lines a + s `along` and c + t `other`, s and t from 0 to 1.

    Where lines are parallel, or a line is a point, all pairs of points that are nearest form a
    line: one of them is taken.
    """
    w = a - c
    aa, ab, bb = small.dot(along, along), small.dot(along, other), small.dot(other, other)
    aw, bw = small.dot(along, w), small.dot(other, w)
    determinant = aa * bb - ab * ab
    tiny = 64.0 * jnp.finfo(a.dtype).eps * aa * bb
    crossing = determinant > tiny
    s = jnp.where(crossing, (ab * bw - bb * aw) / jnp.where(crossing, determinant, 1.0), 0.5)
    s = jnp.clip(s, 0.0, 1.0)
    t = jnp.clip(_ratio(ab * s + bw, bb), 0.0, 1.0)
    s = jnp.clip(_ratio(ab * t - aw, aa), 0.0, 1.0)
    return a + s * along, c + t * other


def _ratio(x: Array, square: Array) -> Array:
    """Ratio x / square, zero where the square is."""
    there = square != 0.0
    return jnp.where(there, x / jnp.where(there, square, 1.0), 0.0)


_ROUND = (Sphere, Capsule)
_BALLS = (*_ROUND, Box, Points)
# Pairs of kinds of shapes, first and second, and what finds the places where they touch.
PAIRS: dict[tuple[type, type], Callable] = {
    **{(kind, Plane): _balls_on_plane for kind in _BALLS},
    **{(kind, HeightField): _balls_on_field for kind in _BALLS},
    (Ellipsoid, Plane): _ellipsoid_on_plane,
    **{(one, other): _round_shapes for one in _ROUND for other in _ROUND},
}


def touching(shapes: tuple[AbstractShape, AbstractShape], poses: tuple[BodyPose, ...]) -> Touching:
    """Places where two shapes touch, or are next to each other."""
    first, second = shapes
    return PAIRS[type(first), type(second)](first, second, *poses)
