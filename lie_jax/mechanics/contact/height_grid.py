"""Heights of ground on a grid, as a smooth function."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.numerics import small
from lie_jax.numerics.conversion import in_precision

# Values at the two nodes of a cell, and slopes and curvatures there, of the four cubic B-splines
# that reach into it: coefficients of 1, t, t², t³ times six.
_CUBICS = np.asarray(
    [[1.0, -3.0, 3.0, -1.0], [4.0, 0.0, -6.0, 3.0], [1.0, 3.0, 3.0, -3.0], [0.0, 0.0, 0.0, 1.0]]
)


class HeightGrid(eqx.Module):
    """Height z(x, y) of ground through given heights, for `lie_jax.contact.HeightField`.

    Natural cubic splines in x and y: twice continuously differentiable, through all heights. Beyond
    its edges the ground goes on straight, with the slope of the edge.

    **Arguments:** `heights`: (n, m), m, at the places corner + (i, j) spacing, two or more along x
    and along y; `spacing`: distance of neighbours, positive, m, one number or two, along x and y;
    `corner`: (2,), place of the first height, m. Arrays are parameters, of which there are
    derivatives. Raises `ValueError` for values that break these rules.
    """

    coefficients: Float[Array, "rows columns"]
    spacing: Float[Array, "2"]
    corner: Float[Array, "2"]

    def __init__(self, heights: Any, spacing: Any, corner: Any = (0.0, 0.0)):
        names = "heights", "spacing", "corner"
        for name, value in zip(names, (heights, spacing, corner), strict=True):
            checks.real(f"HeightGrid({name}=)", value)
        # Files of terrain often have single precision.
        default = jnp.result_type(float)
        numbers, sizes, place = (in_precision(x, default) for x in (heights, spacing, corner))
        if numbers.ndim != 2 or min(numbers.shape) < 2:
            raise ValueError(
                f"HeightGrid(heights=) has shape {numbers.shape}; it must have shape (n, m), with "
                "two heights or more along x and along y."
            )
        checks.finite("HeightGrid(heights=)", numbers)
        if sizes.shape in ((), (1,)):
            sizes = jnp.broadcast_to(sizes, (2,))
        checks.shape("HeightGrid(spacing=)", sizes, (2,), "m, along x and y")
        for i in range(2):
            checks.positive("HeightGrid(spacing=)", sizes[i], "m")
        checks.shape("HeightGrid(corner=)", place, (2,), "m")
        checks.finite("HeightGrid(corner=)", place)
        along_x, along_y = (_spline_coefficients(n).astype(numbers.dtype) for n in numbers.shape)
        self.coefficients = along_x @ numbers @ along_y.T
        self.spacing, self.corner = sizes, place

    def __call__(self, x: Float[Array, ""], y: Float[Array, ""]) -> Float[Array, ""]:
        """Height (m) at one place x, y (m); `jax.vmap` gives those of several."""
        place = (jnp.stack([x, y]) - self.corner) / self.spacing
        last = np.asarray(self.coefficients.shape) - 4
        still = jax.lax.stop_gradient(jnp.floor(place))
        cell = jnp.clip(still, 0, last.astype(place.dtype))
        weights = [_weights(place[k] - cell[k]) for k in range(2)]
        near = jax.lax.dynamic_slice(self.coefficients, tuple(cell.astype(jnp.int32)), (4, 4))
        return small.dot(weights[0], small.matvec(near, weights[1]))


def _weights(t: Array) -> Float[Array, "4"]:
    """Values of four B-splines at the part t of a cell; straight lines before and after it."""
    inside = jnp.where(t < 0.0, 0.0, jnp.where(t > 1.0, 1.0, t))
    cubics = jnp.asarray(_CUBICS / 6.0, t.dtype)
    powers = jnp.stack([jnp.ones_like(t), inside, inside**2, inside**3])
    rates = jnp.stack([jnp.zeros_like(t), jnp.ones_like(t), 2.0 * inside, 3.0 * inside**2])
    return small.matvec(cubics, powers + (t - inside) * rates)


@functools.cache
def _spline_coefficients(n: int) -> np.ndarray:
    """Matrix (n + 2, n) from values at n nodes to the coefficients of B-splines, whose second
    derivative vanishes at both ends.
    """
    values = np.zeros((n + 2, n + 2))
    for i in range(n):
        values[i + 1, i : i + 3] = np.asarray([1.0, 4.0, 1.0]) / 6.0
    values[0, :3] = values[-1, -3:] = [1.0, -2.0, 1.0]
    return np.linalg.inv(values)[:, 1:-1]
