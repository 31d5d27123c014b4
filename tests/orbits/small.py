"""Systems of one freedom whose periodic motions have closed forms."""

import jax
import jax.numpy as jnp

import lie_jax
from lie_jax.spaces.base import Rn


class _Free(lie_jax.extend.AbstractSystem):
    """A unit mass with one coordinate."""

    @property
    def space(self):
        return Rn(1)

    def mass_matrix(self, q):
        return jnp.ones((1, 1), q.dtype)


class Circle(_Free):
    """q'' = -q + μ (1 - q² - q'²) q': the unit circle is a limit cycle.

    Its period is 2π, and its multiplier exp(-2π μ) by the divergence along it.
    """

    damping: jax.Array

    def force(self, t, q, v, u):
        return -q + self.damping * (1.0 - q**2 - v**2) * v


class Swing(_Free):
    """q'' = -g sin q, a pendulum of unit length: its period is 4 K(sin(a/2)) / √g."""

    gravity: jax.Array

    def force(self, t, q, v, u):
        return -self.gravity * jnp.sin(q)


class Driven(_Free):
    """q'' = -q - d q' + cos ωt."""

    damping: jax.Array
    rate: jax.Array

    def force(self, t, q, v, u):
        return -q - self.damping * v + jnp.cos(self.rate * t)


class Wheel(_Free):
    """A wheel of spokes without a rim on a spoke: q'' = sin q, q from the vertical."""

    def force(self, t, q, v, u):
        return jnp.sin(q)


class VanDerPol(_Free):
    """q'' = -q + (1 - q²) q'."""

    def force(self, t, q, v, u):
        return -q + (1.0 - q**2) * v
