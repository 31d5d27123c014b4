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
from jaxtyping import Array, Float

# Displacements below this many units in the last place of numbers of order one give no estimate:
# the stages then differ by rounding errors of large forces that balance.
_NOISE = 1e6
# Growth of a mode in a step that does not count as unstable.
_GROWTH = 1.01


class Stage(NamedTuple):
    """Displacement from the start of the step and acceleration, each (nv,)."""

    displacement: Array
    acceleration: Array


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
    stages = len(b)
    matrix = np.zeros((stages, stages))
    for i, row in enumerate(a):
        matrix[i, : len(row)] = [float(x) for x in row]
    weights, ones = np.asarray([float(x) for x in b]), np.ones(stages)
    sizes = np.arange(0.01, 20.0, 0.01)

    def extent(direction: complex) -> float:
        for size in sizes:
            z = direction * size
            inner = np.linalg.solve(np.eye(stages) - z * matrix, ones)
            if abs(1.0 + z * weights @ inner) > _GROWTH:
                return float(size)
        return float(sizes[-1])

    return max(extent(-1.0 + 0j), extent(1j))


def estimate(first: Stage, second: Stage, dt: Array) -> Float[Array, ""]:
    """Fourth power of step size h times |λ| from two stages: exact for one mode, else too small.

    |Δa| = λ² |Δx| holds where accelerations follow displacements, λ a frequency, and where they
    follow velocities, λ a rate of decay: velocities of stages then differ by λ Δx. The fourth power
    saves three roots a step.
    """
    first, second = jax.lax.stop_gradient((first, second))
    x = jnp.sum((first.displacement - second.displacement) ** 2)
    a = jnp.sum((first.acceleration - second.acceleration) ** 2)
    square = dt * dt
    noise = _NOISE * jnp.finfo(x.dtype).eps * square
    significant = x > noise * noise
    return jnp.where(significant, square * (a / jnp.where(significant, x, 1.0)) * square, 0.0)
