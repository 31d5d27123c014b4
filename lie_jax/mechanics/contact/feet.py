"""Distances of points from surfaces z = height(x, y), by the feet of their perpendiculars."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics import small

# Newton iterations for the foot of a perpendicular, and those whose derivatives are taken: each
# doubles the order to which derivatives of a solution are right.
_ITERATIONS, _DIFFERENTIATED = 12, 2


def _of_both(height: Callable) -> Callable[[Float[Array, "2"]], Float[Array, ""]]:
    # A flat field may return a number of Python.
    return lambda xy: height(xy[0], xy[1]) + 0.0 * xy[0]


def above(height: Callable, point: Float[Array, "3"]) -> tuple[Array, Array]:
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
