"""Checks of shapes of one's own: their methods return what the search for places takes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax import checks
from lie_jax.mechanics.contact.shapes import AbstractShape
from lie_jax.mechanics.elements import element_name
from lie_jax.user_functions import closures

# Results of what a shape can do: their words, and their shapes, n for any number.
_RESULTS = {
    "balls": ("centres (n, 3) and radii (n,)", [("n", 3), ("n",)]),
    "segment": ("ends (2, 3) and a radius ()", [(2, 3), ()]),
    "support": ("a point (3,)", [(3,)]),
    "distance": ("a distance () and a normal (3,)", [(), (3,)]),
}
_ARGUMENTS = {"support": ["direction"], "distance": ["point"]}
# Points from which surfaces are searched, m, and as unit vectors directions.
_POINTS = np.asarray(
    [[0.3, -0.5, 0.8], [-0.7, 0.2, 0.4], [0.4, 0.6, -0.7], [-0.2, -0.6, -0.5], [0.9, 0.3, 0.1]]
)
# Newton steps to the surface.
_STEPS = 30
# Of central differences, m.
_SHIFT = 1e-3
# Distances and normals may come from searches of their own, in single precision.
_ROUNDING = 1e-3


def gives(shape: AbstractShape, ability: str) -> bool:
    """Whether the class of a shape has this method itself."""
    return getattr(type(shape), ability) is not getattr(AbstractShape, ability)


def check(shape: AbstractShape) -> None:
    """Raise `ValueError` for a shape of one's own whose methods return something else."""
    if type(shape).__module__.startswith("lie_jax."):
        return
    for ability, (words, wanted) in _RESULTS.items():
        if not gives(shape, ability):
            continue
        function, where = getattr(shape, ability), f"{element_name(shape)}.{ability}"
        place = jnp.asarray([0.0, 0.0, 1.0])
        results = closures.shapes(
            where, function, dict.fromkeys(_ARGUMENTS.get(ability, []), place)
        )
        shapes = [x.shape for x in jax.tree.leaves(results)]
        count = shapes[0][:1] if shapes and ability == "balls" else ()
        if shapes != [tuple(count[0] if n == "n" and count else n for n in x) for x in wanted]:
            raise ValueError(
                f"{where} returns arrays of the shapes {shapes}; it must return {words}, arrays of "
                "jax.numpy."
            )
    if checks.has_tracers(shape):
        return
    # Known values, also where JAX traces the function that makes the shape.
    with jax.ensure_compile_time_eval():
        if gives(shape, "distance"):
            _check_distance(shape)
        if gives(shape, "support"):
            _check_support(shape)


def _check_distance(shape: AbstractShape) -> None:
    """Distances and normals at the surface belong to each other, so that energy is kept."""
    distance: Callable[..., Any] = shape.distance

    def slopes_at(point):
        # A function with a derivative rule of its own may lack one of both modes.
        shifts = _SHIFT * jnp.eye(3, dtype=point.dtype)
        heights, _ = jax.vmap(distance)(
            jnp.concatenate([point[None] + shifts, point[None] - shifts])
        )
        return (heights[:3] - heights[3:]) / (2.0 * _SHIFT)

    @jax.jit
    @jax.vmap
    def at_surface(point):
        def closer(_, point):
            slopes = slopes_at(point)
            return point - distance(point)[0] * slopes / jnp.sum(slopes * slopes)

        point = jax.lax.fori_loop(0, _STEPS, closer, point)
        height, normal = distance(point)
        return point, height, normal, slopes_at(point)

    for point, height, normal, slopes in zip(*map(np.asarray, at_surface(_POINTS)), strict=True):
        # Where the steps have not found the surface, nothing is known of it.
        if not np.all(np.isfinite([height, *normal, *slopes])) or abs(height) > _ROUNDING:
            continue
        length = np.sqrt(normal @ normal)
        if abs(length - 1.0) > _ROUNDING or np.max(np.abs(slopes - normal)) > _ROUNDING:
            raise ValueError(
                f"{element_name(shape)}.distance: on the surface at {_list(point)} the normal is "
                f"{_list(normal)}, of length {length:.3g}, and the derivative of the distance by "
                f"the point is {_list(slopes)}; both must be one unit vector, out of the "
                "material: return a distance in m, which grows by 1 m in each, and that vector."
            )


def _check_support(shape: AbstractShape) -> None:
    """The point farthest along a direction is farther along it than the points of others."""
    both = np.concatenate([_POINTS, -_POINTS])
    directions = both / np.sqrt(np.sum(both**2, axis=1, keepdims=True))
    points = np.asarray(jax.jit(jax.vmap(shape.support))(directions))
    along = directions @ points.T
    most = np.max(np.abs(along))
    farther = np.argwhere(along > np.diag(along)[:, None] + _ROUNDING * most)
    if len(farther):
        i, j = farther[0]
        raise ValueError(
            f"{element_name(shape)}.support({_list(directions[i])}) is {_list(points[i])}, "
            f"but its point {_list(points[j])}, in another direction, is farther along; it must "
            "be the farthest point along the direction: look at its sign."
        )


def _list(numbers: np.ndarray) -> str:
    return "(" + ", ".join(f"{x:.3g}" for x in numbers) + ")"
