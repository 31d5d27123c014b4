"""A cart with a force as input and the cost of a regulator; a mass pushed from rest to rest."""

import equinox as eqx
import jax
import jax.numpy as jnp

import lie_jax
from lie_jax.spaces.base import Rn
from tests.systems import OnALine

DT, STEPS = 0.1, 40


class Cart(lie_jax.extend.AbstractSystem):
    """A mass on a line with a force as input, on a spring."""

    mass: float = 2.0
    stiffness: float = 0.0
    cubic: float = 0.0

    @property
    def space(self):
        return Rn(1)

    def mass_matrix(self, q):
        return jnp.full((1, 1), self.mass, q.dtype)

    def force(self, t, q, v, u):
        spring = self.stiffness * q + self.cubic * q**3
        return -spring if u is None else u - spring


START = lie_jax.State(jnp.asarray([1.0]), jnp.asarray([-0.5]))
ZERO = jnp.zeros((STEPS, 1))
MIDPOINT = lie_jax.RKMK("midpoint")


def regulate(t, q, v, u):
    return 0.5 * (3.0 * jnp.sum(q**2) + 0.5 * jnp.sum(v**2) + 0.2 * jnp.sum(u**2))


def settle(q, v):
    return 0.5 * (10.0 * jnp.sum(q**2) + 4.0 * jnp.sum(v**2))


class Mass(OnALine):
    """A mass on a line, pushed by an input."""

    mass: jax.Array | float

    @property
    def nu(self):
        return 1

    def mass_matrix(self, q):
        return self.mass * jnp.eye(1, dtype=q.dtype)

    def force(self, t, q, v, u):
        assert u is not None
        return u


AT_ZERO = lie_jax.State(jnp.zeros(1), jnp.zeros(1))


class Rest(eqx.Module):
    """At rest at a place."""

    place: jax.Array

    def __call__(self, q, v, *parameters):
        return jnp.concatenate([q - self.place, v])


def effort(t, q, v, u, *parameters):
    return 0.5 * jnp.sum(u**2)
