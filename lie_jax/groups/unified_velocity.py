"""Unified local velocities of a rigid body: six translational velocities instead of (U, Ω).

Each is the velocity of a body-fixed point y along a direction b, wᵢ = bᵢ · (U + Ω × yᵢ), with U
the velocity of the frame's origin and Ω the angular velocity, both in body components. The
projection D collects them: w = D (U, Ω), with twists translation first. Source: [S2] Sect. 3, 4.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.numerics import conversion

Six = Float[Array, "6 3"]
Matrix6 = Float[Array, "6 6"]

# Ratio of smallest to largest singular value, in machine epsilons, below which six lines are
# dependent up to rounding.
_DEPENDENT_EPS = 100.0


def hexahedron(half_lengths: Any = (1.0, 1.0, 1.0), scale: Any = 0.5**0.5) -> tuple[Six, Six]:
    """Points and directions (6, 3) on the faces of a hexahedron. [S2] (26)-(31)

    `half_lengths`: half the edges (l₁, l₂, l₃), m; `scale`: length of the directions. With the
    defaults D is orthogonal; det D = -8 scale⁶ l₁ l₂ l₃.
    """
    half_lengths = conversion.as_float(half_lengths)
    checks.shape("hexahedron: half_lengths", half_lengths, (3,), "half of three edges, m")
    l1, l2, l3 = half_lengths
    x, y, z = jnp.eye(3, dtype=half_lengths.dtype)
    directions = scale * jnp.stack([x, -x, y, -y, z, -z])
    points = jnp.stack([-l2 * y, l2 * y, -l3 * z, l3 * z, -l1 * x, l1 * x])
    return points, directions


def tetrahedron(length: Any = 1.0, scale: Any = 1.0) -> tuple[Six, Six]:
    """Points and directions (6, 3) on the edges of a tetrahedron. [S2] (74)-(79)

    `length`: distance of three corners from the fourth, the frame's origin, m; `scale`: length of
    the first three directions. det D = scale⁶ length³.
    """
    length = conversion.as_float(length)
    checks.scalar("tetrahedron: length", length, "m")
    x, y, z = jnp.eye(3, dtype=length.dtype)
    directions = scale * jnp.stack([x, y, z, y - x, z - y, x - z])
    points = 0.5 * length * jnp.stack([x, y, z, x + y, y + z, x + z])
    return points, directions


def projection(points: Six, directions: Six) -> Matrix6:
    """The projection D (6, 6) with rows (bᵢ, yᵢ × bᵢ) for points y (m) and directions b. [S2] (70)

    Raises `ValueError` with the determinant when the six velocities do not determine the motion.
    """
    moments = jnp.cross(points, directions)
    matrix = jnp.concatenate([directions, moments], axis=1)
    if not checks.has_tracers(matrix):
        _check_independent(np.asarray(points), np.asarray(directions), np.asarray(matrix))
    return matrix


def _check_independent(points: np.ndarray, directions: np.ndarray, matrix: np.ndarray) -> None:
    checks.finite("unified_velocity.projection: points", points)
    checks.finite("unified_velocity.projection: directions", directions)
    # Coordinates without units, centred at the points: the rank depends on neither unit nor origin.
    arms = points - points.mean(axis=0)
    size = np.sqrt(np.mean(np.sum(arms**2, axis=1)))
    rows = np.concatenate([directions, np.cross(arms, directions) / (size or 1.0)], axis=1)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    values = np.linalg.svd(rows / np.where(lengths > 0.0, lengths, 1.0), compute_uv=False)
    if not values[-1] > _DEPENDENT_EPS * np.finfo(matrix.dtype).eps * values[0]:
        raise ValueError(
            f"unified_velocity.projection: the points {points.tolist()} with the directions "
            f"{directions.tolist()} give a projection with determinant "
            f"{np.linalg.det(matrix):.3g}, zero up to rounding: six velocities along these lines "
            "do not determine the motion. Choose lines of which no motion is orthogonal to all, "
            "such as those of `hexahedron` or `tetrahedron`."
        )


checks.take_one_element(globals())
