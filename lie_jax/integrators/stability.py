"""Step size of an explicit method relative to the limit of its stability.

Two stages of a step evaluate the system at two close states. The difference of their accelerations
gives the largest rate λ (1/s) at which a disturbance oscillates or decays, as in codes for stiff
equations (Hairer and Wanner, Solving Ordinary Differential Equations II, IV.2).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.integrators import tableaux

# Displacements below this many units in the last place of numbers of order one give no estimate:
# the stages then differ by rounding errors of large forces that balance.
_NOISE = 1e6
# Growth of a mode in a step that does not count as unstable.
_GROWTH = 1.01


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
    stages, weights = len(b), np.asarray(b, float)
    matrix = np.stack([tableaux.padded(row, stages) for row in a])
    sizes = np.arange(0.01, 20.0, 0.01)

    def extent(direction: complex) -> float:
        z = direction * sizes
        inner = np.linalg.solve(np.eye(stages) - z[:, None, None] * matrix, np.ones((stages, 1)))
        unstable = np.abs(1.0 + z * (inner[:, :, 0] @ weights)) > _GROWTH
        return float(sizes[np.argmax(unstable)] if unstable.any() else sizes[-1])

    return max(extent(-1.0 + 0j), extent(1j))


def estimate(displacement: Array, acceleration: Array, dt: Array) -> Float[Array, ""]:
    """Fourth power of step size h times |λ|: exact for one mode, else too small.

    From the differences (nv,) of two stages in displacement and acceleration.

    |Δa| = λ² |Δx| holds where accelerations follow displacements, λ a frequency, and where they
    follow velocities, λ a rate of decay: velocities of stages then differ by λ Δx. The fourth power
    saves three roots a step.
    """
    displacement, acceleration = jax.lax.stop_gradient((displacement, acceleration))
    x, a = jnp.sum(displacement**2), jnp.sum(acceleration**2)
    square = dt * dt
    noise = _NOISE * jnp.finfo(x.dtype).eps * square
    significant = x > noise * noise
    return jnp.where(significant, square * (a / jnp.where(significant, x, 1.0)) * square, 0.0)
