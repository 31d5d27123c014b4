"""Shapes of bodies that touch each other in a `lie_jax.contact.Contact`.

A shape belongs to a body, or to the `"ground"`, and lies in the frame of that body.
"""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics import fields
from lie_jax.mechanics.contact import feet
from lie_jax.mechanics.elements import AbstractElement, element_name
from lie_jax.mechanics.fields import Parameter
from lie_jax.numerics import small
from lie_jax.user_functions import closures, snapshots


def _lengths(meaning: str) -> Any:
    """Field with three positive lengths."""

    def check(where: str, value: Any) -> None:
        checks.shape(where, value, (3,), f"m, {meaning}")
        for i, length in enumerate(value):
            checks.positive(f"{where}[{i}]", length, "m")

    return fields.parameter(check)


class AbstractShape(AbstractElement):
    """A shape of a body.

    A shape of one's own gives one of these, each None by default, in the body's frame: `balls`, to
    touch all ground; `segment`, to touch round shapes; `support`, to touch planes; `distance`, to
    be ground. A shape may give several. Its fields are made by `lie_jax.extend.fields`.

    **Arguments** that shapes share: `body`: the name of a body, or `"ground"`; `center`: (3,), in
    the body's frame, m; `orientation`: (4,), the unit quaternion that rotates the shape's
    components into the body's. Raises `ValueError` for values that break these rules.
    """

    body: str = fields.body_name()

    def depth(self, direction: Float[Array, "3"]) -> Float[Array, ""] | None:
        """Distance (m) from its middle to its surface along a unit vector of the body's frame; None
        for the ground.

        By default half of the extent of `balls` or `support`.
        """
        balls = self.balls()
        if balls is not None:
            heights = jnp.sum(balls[0] * direction[None], axis=1)
            return 0.5 * (jnp.max(heights + balls[1]) - jnp.min(heights - balls[1]))
        highest, lowest = self.support(direction), self.support(-direction)
        if highest is None or lowest is None:
            return None
        return 0.5 * small.dot(direction, highest - lowest)

    def balls(self) -> tuple[Float[Array, "n 3"], Float[Array, " n"]] | None:
        """Centres (body frame, m) and radii of balls that touch a plane wherever the shape does.

        None for a shape that no number of balls stands for.
        """
        return None

    def segment(self) -> tuple[Float[Array, "2 3"], Float[Array, ""]] | None:
        """Ends of a line (body frame, m) and the radius around it, for a round shape, else None."""
        return None

    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"] | None:
        """Point (body frame, m) of a convex shape farthest along a unit vector; None for others."""
        return None

    def distance(
        self, point: Float[Array, "3"]
    ) -> tuple[Float[Array, ""], Float[Array, "3"]] | None:
        """Distance (m) of a point (body frame, m) from the surface of ground, negative below it,
        and the unit normal there, out of the material; None for other shapes.
        """
        return None


class Sphere(AbstractShape):
    """A sphere.

    **Arguments:**

    - `body`: the name of a body, or `"ground"`.
    - `radius`: positive, m.
    - `center`: (3,), in the body's frame, m.

    Raises `ValueError` for values that break these rules.
    """

    radius: Parameter = fields.positive("m")
    center: Parameter = fields.point()

    @override
    def balls(self):
        return self.center[None], self.radius[None]

    @override
    def segment(self):
        return jnp.stack([self.center, self.center]), self.radius


class Capsule(AbstractShape):
    """A cylinder with half spheres at its ends.

    **Arguments:**

    - `body`: the name of a body, or `"ground"`.
    - `radius`: positive, m.
    - `start`, `end`: (3,), the ends of its axis, where the spheres have their centres, two points
      in the body's frame, m.

    Raises `ValueError` for values that break these rules.
    """

    radius: Parameter = fields.positive("m")
    start: Parameter = fields.point()
    end: Parameter = fields.point()

    def __check_init__(self):
        if not checks.has_tracers(self.start, self.end) and np.array_equal(self.start, self.end):
            raise ValueError(
                f"{element_name(self)} has its start and its end at one point; they must be two: "
                "take lie_jax.contact.Sphere for a ball."
            )

    @override
    def depth(self, direction):
        return self.radius

    @override
    def balls(self):
        return jnp.stack([self.start, self.end]), jnp.stack([self.radius, self.radius])

    @override
    def segment(self):
        return jnp.stack([self.start, self.end]), self.radius


class Box(AbstractShape):
    """A box; its eight vertices touch.

    **Arguments:**

    - `body`: the name of a body, or `"ground"`.
    - `size`: (3,), lengths of its edges along its own axes, positive, m.
    - `center`: (3,), in the body's frame, m.
    - `orientation`: (4,), unit quaternion that rotates the shape's components into the body's.

    Raises `ValueError` for values that break these rules.
    """

    size: Parameter = _lengths("edges along the box's own axes")
    center: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def depth(self, direction):
        along = small.matvec(quaternion.to_matrix(self.orientation).T, direction)
        return 0.5 * small.dot(self.size, jnp.abs(along))

    @override
    def balls(self):
        signs = jnp.asarray([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        rotation = quaternion.to_matrix(self.orientation)
        corners = 0.5 * signs.astype(self.size.dtype) * self.size[None]
        vertices = self.center[None] + jnp.sum(rotation[None] * corners[:, None, :], axis=2)
        return vertices, jnp.zeros(8, self.size.dtype)


# Thickness of points over their extent that counts as none.
_FLAT = 1e-6


def _check_points(where: str, value: Any) -> None:
    meaning = "m, body components, one point a row"
    checks.trailing(where, value, (3,), meaning)
    if np.ndim(value) != 2:
        raise ValueError(f"{where} has shape {np.shape(value)}; it must be (n, 3): {meaning}.")
    checks.finite(where, value)
    if checks.has_tracers(value):
        return
    points = np.asarray(value, float)
    extents = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    if len(points) < 4 or extents[2] <= _FLAT * extents[0]:
        raise ValueError(
            f"{where} are {len(points)} points in one plane; they must span a volume, whose middle "
            "bounds the overlap: add a point inside the body, which touches nothing."
        )


class Points(AbstractShape):
    """Points that touch, such as the vertices of a convex hull.

    **Arguments:**

    - `body`: the name of a body, or `"ground"`.
    - `points`: (n, 3), at least four that do not lie in one plane, in the body's frame, m.

    Raises `ValueError` for values that break these rules.
    """

    points: Parameter = fields.parameter(_check_points)

    @override
    def balls(self):
        return self.points, jnp.zeros(self.points.shape[0], self.points.dtype)


class Ellipsoid(AbstractShape):
    """An ellipsoid.

    **Arguments:**

    - `body`: the name of a body, or `"ground"`.
    - `semi_axes`: (3,), along its own axes, positive, m.
    - `center`: (3,), in the body's frame, m.
    - `orientation`: (4,), unit quaternion that rotates the shape's components into the body's.

    Raises `ValueError` for values that break these rules.
    """

    semi_axes: Parameter = _lengths("along the ellipsoid's own axes")
    center: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def support(self, direction):
        rotation = quaternion.to_matrix(self.orientation)
        along = self.semi_axes * small.matvec(rotation.T, direction)
        farthest = self.semi_axes * along / jnp.sqrt(small.dot(along, along))
        return self.center + small.matvec(rotation, farthest)


class Plane(AbstractShape):
    """The surface of a half space.

    **Arguments:**

    - `body`: the name of a body, or `"ground"`.
    - `point`: (3,), on the surface, in the body's frame, m.
    - `normal`: (3,), out of the material, body components, of any length but zero.

    Raises `ValueError` for values that break these rules.
    """

    point: Parameter = fields.point()
    normal: Parameter = fields.direction("body's", default=(0.0, 0.0, 1.0))

    @override
    def distance(self, point):
        return small.dot(self.normal, point - self.point), self.normal


def _as_height(value: Any) -> Any:
    # A plain function becomes static; a module or a Partial keeps its arrays as parameters.
    if isinstance(value, snapshots.Function | eqx.Module | jax.tree_util.Partial):
        return value
    return snapshots.watch(value) if callable(value) else value


def _takes_two(function: Callable) -> bool:
    """Whether a function can be called with two arguments, as far as its signature says."""
    of_user = function.function if isinstance(function, snapshots.Function) else function
    try:
        signature = inspect.signature(of_user)
    except (TypeError, ValueError):  # There is none, as of some functions written in C.
        return True
    try:
        signature.bind(0.0, 0.0)
    except TypeError:
        return False
    return True


def _check_height(where: str, value: Any) -> None:
    if not callable(value):
        raise ValueError(
            f"{where} is {value!r}; it must be a function of x and y (m), such as "
            "lambda x, y: 0.1 * jnp.sin(x)."
        )
    if not _takes_two(value):
        raise ValueError(
            f"{where} is {value!r}; the function must take two arguments, x and y (m), such as "
            "lambda x, y: 0.1 * jnp.sin(x)."
        )
    with closures.refuse_numbers(where, value, "two arguments, x and y (m)"):
        result = jax.eval_shape(value, jnp.asarray(0.0), jnp.asarray(0.0))
    checks.shape(f"{where}(x, y)", result, (), "m")


class HeightField(AbstractShape):
    """Ground of varying height, the material below z = height(x, y).

    Its distance from a ball is found by the foot of the perpendicular that is nearest to the point
    below the ball: hollows must be wider than the balls that touch them.

    **Arguments:**

    - `body`: the name of a body, or `"ground"`.
    - `height`: a function of x and y (m, in the body's frame), numbers that JAX traces, whose value
      (m) has continuous second derivatives, such as a `HeightGrid`. A module with arrays, or a
      `jax.tree_util.Partial`, keeps them as parameters.

    Raises `ValueError` for values that break these rules.
    """

    height: Callable = fields.parameter(_check_height, _as_height)

    @override
    def distance(self, point):
        return feet.above(self.height, point)
