"""Parts of one's own, each a class of at most twelve lines, and small mechanisms with them."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from lie_jax.extend import fields

Z = np.asarray([0.0, 0.0, 1.0])
MASS, INERTIA, GRAVITY = 2.0, 0.5, 9.81
DT, STEPS = 5e-3, 40
END = DT * STEPS


class Screw(lie_jax.extend.AbstractJoint):
    pitch: Float[Array, ""]
    rows, coordinate_units = 5, ("rad",)

    def coordinates(self, parent, child):
        turn = parent.rotation.T @ child.rotation
        return jnp.arctan2(turn[1, 0], turn[0, 0])[None]

    def motions(self):
        return (lie_jax.extend.Motion("screw", Z, pitch=self.pitch),)

    def constraint(self, t, parent, child):
        (x, y, z), turn = child.position - parent.position, parent.rotation.T @ child.rotation
        along = turn[1, 0] * jnp.cos(z / self.pitch) - turn[0, 0] * jnp.sin(z / self.pitch)
        return jnp.stack([x, y, turn[0, 2], turn[1, 2], along])


class Constant(lie_jax.extend.AbstractJointForce):
    size: Float[Array, ""]

    def effort(self, t, x, rate, u):
        return self.size

    def energy(self, x):
        return -self.size * x


class Bowl(lie_jax.extend.AbstractShape):
    radius: fields.Parameter = fields.positive("m")

    def distance(self, point):
        away = jnp.sqrt(point @ point)
        return self.radius - away, -point / away


class Disc(lie_jax.extend.AbstractShape):
    radius: fields.Parameter = fields.positive("m")

    def support(self, direction):
        flat = direction * jnp.asarray([1.0, 1.0, 0.0])
        return self.radius * flat / jnp.sqrt(flat @ flat + 1e-20)


class Euler(lie_jax.extend.AbstractIntegrator):
    def init(self, system, t, dt, state, u):
        return None

    def step(self, system, t, dt, state, carry, u):
        q, v = state.q, state.v
        moved = system.space.retract(q, dt * v)
        return lie_jax.extend.Step(lie_jax.State(moved, v + dt * system.acceleration(t, q, v, u)))

    def accelerations(self, system, t, state, carry, u):
        found = system.acceleration(t, state.q, state.v, u)
        return lie_jax.extend.Accelerations(found, jnp.zeros(0))


class Robust(eqx.Module):
    scale: float = 1e-3

    def __call__(self, predicted, observed):
        square = ((predicted - observed) / self.scale) ** 2
        return jnp.sqrt(2.0 * (jnp.sqrt(1.0 + square) - 1.0) + 1e-30)


class HalfSine(lie_jax.extend.AbstractChart):
    def map(self, x):
        return jnp.concatenate([jnp.sqrt(1.0 - x @ x)[None], x])

    def inverse(self, q):
        return jnp.where(q[0] < 0.0, -q[1:], q[1:])


class Sled(lie_jax.extend.AbstractSystem):
    mass: Float[Array, ""]

    @property
    def space(self):
        return lie_jax.extend.Rn(1)

    def mass_matrix(self, q):
        return self.mass[None, None]

    def force(self, t, q, v, u):
        return jnp.ones(1) if u is None else 1.0 + u


# N/m², of a spring with the overlap's square.
STIFFNESS = 1e4
LAW = lie_jax.contact.HuntCrossley(STIFFNESS, 2.0)


def slider(joints=(), forces=(), gravity=(0.0, 0.0, 0.0)):
    """A body on a slider along z, with a motor, or on other joints."""
    body = lie_jax.Body("b", MASS, INERTIA * np.eye(3))
    axis = lie_jax.PrismaticJoint("ground", "b", Z)
    held = joints or [axis]
    motor = [lie_jax.JointMotor(held[0], input=0)]
    return lie_jax.Mechanism([body], held, [*motor, *forces(held[0])] if forces else motor, gravity)


def pushed(size):
    return slider(forces=lambda joint: [Constant(joint, size=size)])
