"""Contracts of formulations: coordinates of a mechanism, and absolute coordinates of one body.

Absolute coordinates are the configuration space of one body and the kinematics of its coordinates:
the pose of a configuration, and velocities, accelerations and forces in hybrid components. Those
are inertial for linear quantities (ṙ and r̈ of the body frame's origin, forces) and body-fixed for
angular ones (ω, ω̇, torques about the origin). Equations of motion are written once in hybrid
components and pulled back to each formulation.

The rotation matrix of the configuration is an argument: callers have computed it already.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.groups import quaternion
from lie_jax.numerics import dense, small
from lie_jax.spaces import derivatives
from lie_jax.spaces.base import AbstractSpace

Vector = Float[Array, "3"]
Rotation = Float[Array, "3 3"]
Configuration = Float[Array, " nq"]
Velocity = Float[Array, " nv"]


class AbstractFormulation(eqx.Module):
    """Coordinates in which `lie_jax.assemble` writes a mechanism: absolute or joint coordinates."""


class AbstractCoordinates(AbstractSpace, AbstractFormulation):
    """Absolute coordinates of each body.

    Coordinates of one's own give `nq`, `pose` and `configuration`, and inherit a space, for q̇ as
    velocities `AbstractVectorSpace`; with redundant coordinates they give `rows` and `constraint`.
    The kinematics follow from the pose by differentiation; nv must be 6 + rows. A method that
    replaces one of these derivatives by its closed form saves time and changes no result.
    """

    # Number of constraints among the coordinates themselves.
    rows = 0
    # Whether velocities are ṙ and ω themselves and translations add, whatever the rotation.
    hybrid: ClassVar[bool] = False

    @property
    def keeps_rotations(self) -> bool:
        """Whether `pose` returns rotations for redundant coordinates off their constraints, too.

        Constraints then change along velocities as reactions act on bodies.
        """
        return True

    @abc.abstractmethod
    def configuration(self, position: Vector, orientation: Float[Array, "4"]) -> Configuration:
        """Absolute coordinates of a position (m) and an orientation given as a unit quaternion."""

    @abc.abstractmethod
    def pose(self, q: Configuration) -> tuple[Rotation, Vector]:
        """Rotation matrix (3, 3), body to inertial, and position (3,) of the body frame."""

    def translate(self, q: Configuration, shift: Vector) -> Configuration:
        """Configuration of the body moved by a vector (m), inertial components."""
        rotation, position = self.pose(q)
        orientation = quaternion.from_rotation(rotation)
        there = self.configuration(position + shift, orientation)
        return q + (there - self.configuration(position, orientation))

    def hybrid_velocity(
        self, rotation: Rotation, q: Configuration, v: Velocity
    ) -> tuple[Vector, Vector]:
        """ṙ (m/s, inertial) and ω (rad/s, body) of a velocity v; linear in v."""
        _, (rate, linear) = jax.jvp(self.pose, (q,), (self.lift(q, v),))
        return linear, -0.5 * small.axial(small.matmul(rotation.T, rate))

    def hybrid_acceleration(
        self, rotation: Rotation, q: Configuration, v: Velocity, dv: Velocity
    ) -> tuple[Vector, Vector]:
        """r̈ (m/s², inertial) and ω̇ (rad/s², body) for a velocity v and its time derivative dv."""

        def velocity(q, v):
            return self.hybrid_velocity(self.pose(q)[0], q, v)

        return jax.jvp(velocity, (q, v), (self.lift(q, v), dv))[1]

    def generalized_force(
        self, rotation: Rotation, q: Configuration, force: Vector, torque: Vector
    ) -> Velocity:
        """Force (N, inertial) and torque (N m, body) pulled back: the transpose of
        `hybrid_velocity`.
        """
        zero = jnp.zeros(self.nv, q.dtype)
        _, transpose = jax.vjp(lambda v: self.hybrid_velocity(rotation, q, v), zero)
        return transpose((force, torque))[0]

    def velocity(
        self, rotation: Rotation, q: Configuration, linear: Vector, omega: Vector
    ) -> Velocity:
        """Velocity v of ṙ and ω: inverse of `hybrid_velocity`."""
        return self._solve(q, linear, omega, jnp.zeros(6 + self.rows, q.dtype))

    def acceleration(
        self, rotation: Rotation, q: Configuration, v: Velocity, linear: Vector, angular: Vector
    ) -> Velocity:
        """v̇ of r̈ and ω̇: inverse of `hybrid_acceleration`.

        Redundant coordinates stay on their own constraints.
        """
        drift = derivatives.derivative_along(self, lambda q: self._rates(q, v), q, v)
        return self._solve(q, linear, angular, drift)

    def _rates(self, q: Configuration, v: Velocity) -> Array:
        """ṙ, ω and the rates of the constraints among the coordinates (6 + rows,)."""
        rates = self.hybrid_velocity(self.pose(q)[0], q, v)
        return jnp.concatenate([*rates, derivatives.derivative_along(self, self.constraint, q, v)])

    def _solve(self, q: Configuration, linear: Vector, angular: Vector, drift: Array) -> Velocity:
        """The velocity, or its derivative, whose rates are these and zero, less the drift."""
        zero = jnp.zeros(self.nv, q.dtype)
        rates = jnp.concatenate([linear, angular, jnp.zeros(self.rows, q.dtype)])
        return dense.solve(jax.jacfwd(lambda v: self._rates(q, v))(zero), rates - drift)

    def constraint(self, q: Configuration) -> Float[Array, " rows"]:
        """Constraints among the coordinates, zero when they hold."""
        return jnp.zeros(0, q.dtype)

    def reaction(self, q: Configuration, multipliers: Float[Array, " rows"]) -> Velocity:
        """Transpose of the constraints' Jacobian along velocities, times multipliers."""
        zero = jnp.zeros(self.nv, q.dtype)
        _, transpose = jax.vjp(
            lambda v: derivatives.derivative_along(self, self.constraint, q, v), zero
        )
        return transpose(multipliers)[0]

    def regular(self, q: Float[Array, "*bodies nq"]) -> Bool[Array, " *bodies"]:
        """Whether each q is away from the singularities of the coordinates, if they have any."""
        return jnp.ones(q.shape[:-1], bool)

    def invalid(self, q) -> str | None:
        """Every array of nq numbers is a configuration unless a formulation says otherwise."""
        return None
