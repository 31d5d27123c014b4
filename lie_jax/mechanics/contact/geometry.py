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

from lie_jax.mechanics.contact.own_shapes import gives
from lie_jax.mechanics.contact.shapes import AbstractShape, Plane
from lie_jax.mechanics.joints.base import BodyPose
from lie_jax.numerics import small


class Touching(NamedTuple):
    """Gap (m), negative where shapes overlap, normal and point (m) of each place of a pair."""

    gap: Float[Array, " n"]
    normal: Float[Array, "n 3"]
    point: Float[Array, "n 3"]


def _at(pose: BodyPose, point: Float[Array, "3"]) -> Float[Array, "3"]:
    return pose.position + small.matvec(pose.rotation, point)


def _balls_on_ground(
    shape: AbstractShape, ground: AbstractShape, pose: BodyPose, of_ground: BodyPose
) -> Touching:
    def touch(center, radius):
        center = _at(pose, center)
        local = small.matvec(of_ground.rotation.T, center - of_ground.position)
        above = ground.distance(local)
        assert above is not None
        height, normal = above[0], small.matvec(of_ground.rotation, above[1])
        gap = height - radius
        return Touching(gap, normal, center - (radius + 0.5 * gap) * normal)

    balls = shape.balls()
    assert balls is not None
    return jax.vmap(touch)(*balls)


def _convex_on_plane(
    shape: AbstractShape, plane: Plane, pose: BodyPose, of_plane: BodyPose
) -> Touching:
    normal = small.matvec(of_plane.rotation, plane.normal)
    lowest = shape.support(-small.matvec(pose.rotation.T, normal))
    assert lowest is not None
    point = _at(pose, lowest)
    gap = small.dot(normal, point - _at(of_plane, plane.point))
    return Touching(gap[None], normal[None], (point - 0.5 * gap * normal)[None])


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


def finder(first: AbstractShape, second: AbstractShape) -> Callable | None:
    """Function that finds the places where two shapes in this order touch; None without one."""
    if gives(first, "segment") and gives(second, "segment"):
        return _round_shapes
    if gives(first, "balls") and gives(second, "distance"):
        return _balls_on_ground
    is_plane = isinstance(second, Plane) and type(second).distance is Plane.distance
    if gives(first, "support") and is_plane:
        return _convex_on_plane
    return None


def can_touch(one: AbstractShape, other: AbstractShape) -> bool:
    """Whether a contact of two shapes, in any order, is known."""
    return finder(one, other) is not None or finder(other, one) is not None


def touching(shapes: tuple[AbstractShape, AbstractShape], poses: tuple[BodyPose, ...]) -> Touching:
    """Places where two shapes touch, or are next to each other."""
    find = finder(*shapes)
    assert find is not None
    return find(*shapes, *poses)
