"""Small systems that several tests share."""

import jax
import jax.numpy as jnp

import lie_jax
from lie_jax.spaces.base import Rn
from lie_jax.spaces.rotations import UnitQuaternions


class OnALine(lie_jax.extend.AbstractSystem):
    """A unit mass on a line, without forces of its own."""

    @property
    def space(self):
        return Rn(1)

    def mass_matrix(self, q):
        return jnp.eye(1, dtype=q.dtype)


class Oscillator(lie_jax.extend.AbstractSystem):
    """Two masses on springs with damping and an input: x'' = -K x - c x' + sin t + u."""

    stiffness: jax.Array

    @property
    def space(self):
        return Rn(2)

    def mass_matrix(self, q):
        return jnp.diag(jnp.asarray([2.0, 3.0], q.dtype))

    def force(self, t, q, v, u=None):
        pushed = jnp.sin(t) * jnp.ones(2, q.dtype)
        return -self.stiffness @ q - 0.1 * v + pushed + (0.0 if u is None else u)


class Spinner(lie_jax.extend.AbstractSystem):
    """A body that turns about a fixed point, with a torque in body axes as input."""

    moments: jax.Array

    @property
    def space(self):
        return UnitQuaternions()

    def mass_matrix(self, q):
        return jnp.diag(self.moments)

    def force(self, t, q, v, u=None):
        gyroscopic = -jnp.cross(v, self.moments * v)
        return gyroscopic if u is None else gyroscopic + u


class Pendulum(lie_jax.extend.AbstractSystem):
    """A point mass (kg) on a rod of unit length, in the plane: small enough to compile fast."""

    mass: jax.Array

    @property
    def space(self):
        return Rn(2)

    @property
    def nc(self):
        return 1

    def mass_matrix(self, q):
        return self.mass * jnp.eye(2, dtype=q.dtype)

    def force(self, t, q, v, u=None):
        return jnp.stack([jnp.full_like(self.mass, 0.3), -9.81 * self.mass])

    def constraint(self, t, q):
        return jnp.sum(q * q)[None] - 1.0


OSCILLATOR = Oscillator(jnp.asarray([[5.0, -2.0], [-2.0, 4.0]]))
OSCILLATOR_START = lie_jax.State(jnp.asarray([1.0, -0.5]), jnp.asarray([0.3, 0.7]))
PENDULUM_START = lie_jax.State([0.6, -0.8], [0.8, 0.6])


class Kepler(lie_jax.extend.AbstractSystem):
    """A planet on an eccentric ellipse, small enough to compile fast."""

    attraction: jax.Array

    @property
    def space(self):
        return Rn(2)

    def mass_matrix(self, q):
        return jnp.eye(2)

    def force(self, t, q, v, u):
        return -self.attraction * q / jnp.sum(q * q) ** 1.5


ECCENTRICITY = 0.7
# At the pericentre, period 2π.
PERICENTRE = lie_jax.State(
    [1.0 - ECCENTRICITY, 0.0], [0.0, ((1.0 + ECCENTRICITY) / (1.0 - ECCENTRICITY)) ** 0.5]
)
