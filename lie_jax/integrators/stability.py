"""How near a step of an explicit method is to the limit of its stability.

Two stages of a step see the system at two states close to each other. How their accelerations
differ tells the largest rate λ (1/s) at which a disturbance oscillates or decays: the way of codes
for stiff equations (Hairer and Wanner, Solving Ordinary Differential Equations II, IV.2).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Accelerations that differ by less than this many units in the last place of numbers of order one
# tell nothing, for the states differ by rounding errors of large forces that balance.
_NOISE = 1e6
# A step that lets a mode grow by less is not called unstable.
_GROWTH = 1.01


class Stage(NamedTuple):
    """Displacement from the start of the step and acceleration, each (nv,)."""

    displacement: Array
    acceleration: Array


def pair(nodes: tuple) -> tuple[int, int] | None:
    """The stages to compare: the last two at one time if there are such, else the first and last.

    None for a method of one stage.
    """
    stages = range(len(nodes))
    same = [(i, j) for j in stages for i in range(j) if abs(float(nodes[i] - nodes[j])) < 1e-12]
    if same:
        return same[-1]
    return (0, len(nodes) - 1) if len(nodes) > 1 else None


@functools.cache
def limit(a: tuple, b: tuple) -> float:
    """The largest h |λ| on the negative real or the imaginary axis that a method damps."""
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


def estimate(one: Stage, other: Stage, dt: Array) -> Float[Array, ""]:
    """Fourth power of step size h times |λ| from two stages: exact for a single mode, below it for
    several.

    |Δa| = λ² |Δx| holds where accelerations follow displacements, λ a frequency, and where they
    follow velocities, λ a rate of decay: velocities of stages then differ by λ Δx. The power spares
    every step three roots.
    """
    one, other = jax.lax.stop_gradient((one, other))
    x = jnp.sum((one.displacement - other.displacement) ** 2)
    a = jnp.sum((one.acceleration - other.acceleration) ** 2)
    square = dt * dt
    noise = _NOISE * jnp.finfo(x.dtype).eps * square
    tells = x > noise * noise
    return jnp.where(tells, square * (a / jnp.where(tells, x, 1.0)) * square, 0.0)
