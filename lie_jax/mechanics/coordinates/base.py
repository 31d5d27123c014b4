"""What a formulation in absolute coordinates says of one rigid body.

A body space is the configuration space of one body together with the kinematics of its coordinates:
what pose a configuration is, and how velocities, accelerations and forces translate into hybrid
components. Those are inertial for what is linear (ṙ and r̈ of the body frame's origin, forces) and
body-fixed for what is angular (ω, ω̇, torques about the origin). Equations of motion are written
once in hybrid components; each formulation is pulled back from them.

The rotation matrix of the configuration is handed in, for it is known where these functions are
called.
"""

import abc

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.spaces.base import AbstractSpace

Vector = Float[Array, "3"]
Rotation = Float[Array, "3 3"]
Configuration = Float[Array, " nq"]
Velocity = Float[Array, " nv"]


class AbstractBodySpace(AbstractSpace):
    """Configurations of one rigid body with the kinematics of their coordinates; see the module."""

    @property
    def hybrid(self) -> bool:
        """Whether velocities are ṙ and ω themselves and translations add, whatever the rotation."""
        return False

    @property
    def keeps_rotations(self) -> bool:
        """Whether poses are those of a rigid body off the constraints among coordinates, too.

        Constraints then change along velocities as reactions act on bodies.
        """
        return True

    @abc.abstractmethod
    def configuration(self, position: Vector, orientation: Float[Array, "4"]) -> Configuration:
        """Absolute coordinates of a position (m) and an orientation given as a unit quaternion."""

    @abc.abstractmethod
    def pose(self, q: Configuration) -> tuple[Rotation, Vector]:
        """Rotation matrix (3, 3), body to inertial, and position (3,) of the body frame."""

    @abc.abstractmethod
    def hybrid_velocity(
        self, rotation: Rotation, q: Configuration, v: Velocity
    ) -> tuple[Vector, Vector]:
        """ṙ (m/s, inertial) and ω (rad/s, body) of a velocity v; linear in v."""

    @abc.abstractmethod
    def hybrid_acceleration(
        self, rotation: Rotation, q: Configuration, v: Velocity, dv: Velocity
    ) -> tuple[Vector, Vector]:
        """r̈ (m/s², inertial) and ω̇ (rad/s², body) for a velocity v and its time derivative dv."""

    @abc.abstractmethod
    def generalized_force(
        self, rotation: Rotation, q: Configuration, force: Vector, torque: Vector
    ) -> Velocity:
        """Force (N, inertial) and torque (N m, body) pulled back: the transpose of
        `hybrid_velocity`.
        """

    @abc.abstractmethod
    def velocity(
        self, rotation: Rotation, q: Configuration, linear: Vector, omega: Vector
    ) -> Velocity:
        """The velocity v that belongs to ṙ and ω: inverse of `hybrid_velocity`."""

    @abc.abstractmethod
    def acceleration(
        self, rotation: Rotation, q: Configuration, v: Velocity, linear: Vector, angular: Vector
    ) -> Velocity:
        """The v̇ that belongs to r̈ and ω̇: inverse of `hybrid_acceleration`.

        Redundant coordinates stay on their own constraints.
        """

    @property
    def rows(self) -> int:
        """Number of constraints among the coordinates themselves."""
        return 0

    def constraint(self, q: Configuration) -> Float[Array, " rows"]:
        """Constraints among the coordinates, zero when they hold."""
        return jnp.zeros(0, q.dtype)

    def reaction(self, q: Configuration, multipliers: Float[Array, " rows"]) -> Velocity:
        """Their Jacobian along velocities, transposed, times multipliers."""
        return jnp.zeros(self.nv, q.dtype)

    def regular(self, q: Float[Array, "*bodies nq"]) -> Bool[Array, " *bodies"]:
        """Whether each q is away from the singularities of the coordinates, if they have any."""
        return jnp.ones(q.shape[:-1], bool)
