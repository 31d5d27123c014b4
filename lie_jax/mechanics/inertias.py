"""Contract of an inertia element, written on poses and velocities.

An inertia element names the bodies whose motion moves its mass (`"ground"` stands for the inertial
frame), as a piece of a beam between two nodes does. Its kinetic energy is in addition to that of
the bodies, which may then have no mass of their own.
"""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.mechanics.elements import AbstractElement
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Poses, Velocities, Wrench
from lie_jax.numerics import small

Vector = Float[Array, "3"]
# A shift (3,), inertial, and a turn (3,), body, of each body.
Directions = Float[Array, "slots 2 3"]


class AbstractInertia(AbstractElement):
    """An inertia element; `kinetic_energy` and `mass_moment` say all of it.

    Wrenches follow by derivatives: Lagrange's equations in hybrid components. Momentum is kept if
    a rigid motion of all bodies leaves the energy as it is.
    """

    @abc.abstractmethod
    def kinetic_energy(self, poses: Poses, velocities: Velocities) -> Float[Array, ""]:
        """Kinetic energy (J), quadratic in the velocities."""

    @abc.abstractmethod
    def mass_moment(self, poses: Poses) -> Vector:
        """Mass times the position of its centre (3,), inertial, kg m: gravity acts by it."""

    def momenta(self, poses: Poses, velocities: Velocities) -> Float[Array, "slots 6"]:
        """Derivatives of the kinetic energy by hybrid velocities: kg m/s, and kg m²/s in body axes.

        An element may write them out.
        """
        slopes = jax.grad(self.kinetic_energy, 1)(poses, velocities)
        return jnp.stack([jnp.concatenate(slope) for slope in slopes])

    def momentum(self, poses: Poses, velocities: Velocities) -> tuple[Vector, Vector]:
        """Linear and angular momentum about the world origin (3,), inertial components."""
        momenta = self.momenta(poses, velocities)
        linear, angular = jnp.zeros(3, momenta.dtype), jnp.zeros(3, momenta.dtype)
        for pose, momentum in zip(poses, momenta, strict=True):
            linear = linear + momentum[:3]
            turned = small.matvec(pose.rotation, momentum[3:])
            angular = angular + small.cross(pose.position, momentum[:3]) + turned
        return linear, angular

    def mass_matrix(self, poses: Poses) -> Float[Array, "slots 6 slots 6"]:
        """Mass matrix for hybrid velocities of the bodies."""
        none = jnp.zeros((len(poses), 2, 3), poses[0].position.dtype)

        def momenta(rates: Directions) -> Array:
            return self.momenta(poses, tuple(BodyVelocity(*rate) for rate in rates))

        columns = jax.jacfwd(momenta)(none)
        return columns.reshape(len(poses), 6, len(poses), 6)

    def wrenches(
        self, poses: Poses, velocities: Velocities, accelerations: Velocities, gravity: Vector
    ) -> tuple[Wrench, ...]:
        """Hybrid wrenches on the bodies that a motion needs, less the weight.

        `accelerations` are r̈ and ω̇, `gravity` is in inertial components. Equation of a body: the
        rate of its momenta p, and ω × p of the angular one, less the derivative of the kinetic and
        the potential energy along its pose.
        """
        rates = tuple(
            BodyPose(small.matmul(pose.rotation, small.hat(velocity.omega_body)), velocity.linear)
            for pose, velocity in zip(poses, velocities, strict=True)
        )
        momenta, growth = jax.jvp(self.momenta, (poses, velocities), (rates, accelerations))

        def lagrangian(directions: Directions) -> Array:
            there = move(poses, directions)
            weight = small.dot(gravity, self.mass_moment(there))
            return self.kinetic_energy(there, velocities) + weight

        along = jax.grad(lagrangian)(jnp.zeros((len(poses), 2, 3), gravity.dtype))
        result = []
        for k, velocity in enumerate(velocities):
            gyroscopic = small.cross(velocity.omega_body, momenta[k, 3:])
            shift, turn = along[k]
            result.append(Wrench(growth[k, :3] - shift, growth[k, 3:] + gyroscopic - turn))
        return tuple(result)

    def derivatives(
        self, poses: Poses, velocities: Velocities, accelerations: Velocities, gravity: Vector
    ) -> tuple[Float[Array, "slots 6 slots 6"], Float[Array, "slots 6 slots 6"]]:
        """Derivatives of `wrenches` along hybrid velocities, at constant ṙ, ω, r̈ and ω̇, and by
        hybrid velocities.
        """

        def wrenches(directions: Directions, changes: Directions) -> Array:
            faster = tuple(
                BodyVelocity(velocity.linear + change[0], velocity.omega_body + change[1])
                for velocity, change in zip(velocities, changes, strict=True)
            )
            acting = self.wrenches(move(poses, directions), faster, accelerations, gravity)
            return jnp.stack([jnp.concatenate(wrench) for wrench in acting])

        none = jnp.zeros((len(poses), 2, 3), gravity.dtype)
        along, by_velocity = jax.jacfwd(wrenches, (0, 1))(none, none)
        shape = (len(poses), 6, len(poses), 6)
        return along.reshape(shape), by_velocity.reshape(shape)


def move(poses: Poses, directions: Directions) -> Poses:
    """Poses after shifts and turns, to the first order in these."""
    return tuple(
        BodyPose(
            pose.rotation + small.matmul(pose.rotation, small.hat(direction[1])),
            pose.position + direction[0],
        )
        for pose, direction in zip(poses, directions, strict=True)
    )
