"""Step size of an explicit method relative to the limit of its stability.

Two stages of a step evaluate the system at two close states. The difference of their accelerations
gives the largest rate λ (1/s) at which a disturbance oscillates or decays, as in codes for stiff
equations (Hairer and Wanner, Solving Ordinary Differential Equations II, IV.2).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax.integrators import tableaux

# Displacements below this many units in the last place of numbers of order one give no estimate:
# the stages then differ by rounding errors of large forces that balance.
_NOISE = 1e6
# Growth of a mode in a step that does not count as unstable.
_GROWTH = 1.01
# By this factor: differences of a decay that grows are almost those of one with critical damping.
_LARGER = 1.04


def pair(nodes: tuple) -> tuple[int, int] | None:
    """Stages to compare: the last two at the same time if there are such, else the first and last.

    None for a method of one stage.
    """
    stages = range(len(nodes))
    simultaneous = [
        (i, j) for j in stages for i in range(j) if abs(float(nodes[i] - nodes[j])) < 1e-12
    ]
    if simultaneous:
        return simultaneous[-1]
    return (0, len(nodes) - 1) if len(nodes) > 1 else None


@functools.cache
def limit(a: tuple, b: tuple) -> float:
    """Largest h |λ| on the negative real or the imaginary axis that a method damps."""
    sizes = np.arange(0.01, 20.0, 0.01)

    def extent(direction: complex) -> float:
        unstable = np.abs(factors(a, b, direction * sizes)) > _GROWTH
        return float(sizes[np.argmax(unstable)] if unstable.any() else sizes[-1])

    return max(extent(-1.0 + 0j), extent(1j))


@functools.cache
def smallest_growing(a: tuple, b: tuple) -> float:
    """Smallest h |λ| of a mode that decays or oscillates and that a method lets grow."""
    sizes, angles = np.arange(0.01, 20.0, 0.01), np.linspace(0.5 * np.pi, np.pi, 40)
    growing = np.abs(factors(a, b, sizes[:, None] * np.exp(1j * angles))) > _GROWTH
    return float(sizes[np.argmax(growing.any(axis=1))])


@functools.cache
def region(a: tuple, b: tuple) -> np.ndarray:
    """Vertices (2, n) of a polygon around h² k and h d of all modes ẍ = -k x - d ẋ that a method
    does not let grow in steps h that are a little larger, too.
    """
    sizes, angles = np.arange(0.0, 20.0, 0.005), np.linspace(0.5 * np.pi, np.pi, 91)[:-1]
    real = sizes[np.abs(factors(a, b, -sizes)) <= _GROWTH]
    roots = sizes[:, None] * np.exp(1j * angles)
    roots = roots[np.abs(factors(a, b, roots)) <= _GROWTH]
    # Of two real roots the hull has no more than the ends of their ranges.
    ends = np.asarray([[0.0, 0.0], [0.0, real[-1]], [real[-1] ** 2, 2.0 * real[-1]]])
    points = np.concatenate([ends, np.stack([np.abs(roots) ** 2, -2.0 * roots.real], axis=1)])
    points = points * [1.0 / _LARGER**2, 1.0 / _LARGER]
    # So few that they cost little in a step; what lies between them is less than that factor.
    turns = np.linspace(0.0, 2.0 * np.pi, 40)
    furthest = np.argmax(points @ np.stack([np.cos(turns), np.sin(turns)]), axis=0)
    return points[np.unique(furthest)].T


def factors(a: tuple, b: tuple, z: np.ndarray) -> np.ndarray:
    """Factors by which a step of an explicit method multiplies modes with these h λ."""
    matrix = np.stack([tableaux.pad(row, len(b)) for row in a])
    stages, coefficients = np.ones(len(b)), [1.0]
    for _ in b:
        coefficients.append(float(np.asarray(b, float) @ stages))
        stages = matrix @ stages
    return np.polyval(coefficients[::-1], z)


class Estimate(NamedTuple):
    """Differences of two stages of a step, next to the limit of stability.

    `rate`: fourth power of h |λ| relative to the limit, exact for one mode that decays or
    oscillates, else too small. `gain`: square of the same ratio in a norm of displacements,
    velocities and accelerations, which no zero of one of them makes large. `size`: square of the
    differences; a mode multiplies them in each step by the factor by which it grows. `fast`: h |λ|
    is so large that the method may let the mode grow. `certain`: no mode that the method does not
    let grow has these differences, in any phase.
    """

    rate: Float[Array, ""]
    gain: Float[Array, ""]
    size: Float[Array, ""]
    fast: Bool[Array, ""]
    certain: Bool[Array, ""]


def estimate(
    displacement: Array,
    velocity: Array,
    acceleration: Array,
    dt: Array,
    limits: tuple[float, float, np.ndarray],
) -> Estimate:
    """Estimate from the differences (nv,) of two stages, for a method with given limits.

    `limits`: `limit`, `smallest_growing` and `region`. |Δa| = λ² |Δx| holds where accelerations
    follow displacements, λ a frequency, and where they follow velocities, λ a rate of decay:
    velocities of stages then differ by λ Δx. The fourth power saves three roots a step. Any mode
    has Δa = -k Δx - d Δv, of which |Δa| is largest at a vertex of the region.
    """
    differences = jax.lax.stop_gradient((displacement, velocity, acceleration))
    x, v, a = (jnp.sum(difference**2) for difference in differences)
    largest, growing, stable = limits
    square = dt * dt
    both = dt * jnp.sum(differences[0] * differences[1])
    k, d = stable
    parts = ((k * k, x), (2.0 * k * d, both), (d * d, square * v))
    most = jnp.max(sum(jnp.asarray(factor, x.dtype) * part for factor, part in parts))
    noise = _NOISE * jnp.finfo(x.dtype).eps * square
    significant = x > noise * noise
    # All are squares of displacements at h |λ| = limit.
    x, v, a = largest**4 * x, largest**2 * square * v, square * a * square
    rate = jnp.where(significant, a / jnp.where(significant, x, 1.0), 0.0)
    gain = jnp.where(significant, (a + v) / jnp.where(significant, x + v, 1.0), 0.0)
    ratio = growing / largest
    fast = (rate > ratio**4) | (gain > ratio**2)
    return Estimate(rate, gain, a + v, fast, significant & (a > most))
