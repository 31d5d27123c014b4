"""Configuration spaces of one rigid body: the local-global transition maps of [S0] Table 1.

A space is a group (`R3SO3` or `SE3`), a way to store the orientation and a chart, the map from the
local coordinates of a step to the group. Local coordinates of the chart "cayley" are Rodrigues
parameters tan(φ/2) n: unscaled as in the paper, half the rotation of a small step.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.groups.charts import (
    ROTATION_CHARTS,
    SCREW_CHARTS,
    STORAGES,
    Chart,
    ScrewChart,
    Storage,
)
from lie_jax.mechanics.coordinates.base import AbstractBodySpace
from lie_jax.numerics import small

Vector = Float[Array, "3"]


class AbstractPoseSpace(AbstractBodySpace):
    """Poses of one rigid body: q = (r, orientation), six velocities.

    r is the position of the body frame's origin in the inertial frame (m). The orientation is a
    unit quaternion (`coordinates="quaternion"`, 7 numbers in all), a rotation vector ψ with
    |ψ| <= π (`coordinates="rotation_vector"`, 6 numbers), or Tait-Bryan angles xyz with
    |β| < π/2 (`coordinates="tait_bryan"`, 6 numbers), singular at the ends.

    With `lie_jax.RungeKutta`, which integrates these numbers as if they were a vector space, a
    space is [S3]'s classical formulation 1 with the coordinates as rotation parameters.
    """

    coordinates: eqx.AbstractVar[str]
    chart: eqx.AbstractVar[str]

    def __check_init__(self):
        name = type(self).__name__
        checks.one_of(f"{name}(coordinates=)", self.coordinates, tuple(STORAGES))
        checks.one_of(f"{name}(chart=)", self.chart, self.charts())

    @classmethod
    @abc.abstractmethod
    def charts(cls) -> tuple[str, ...]:
        """The charts of the group by name."""

    @property
    def _storage(self) -> Storage:
        return STORAGES[self.coordinates]

    @property
    def _rotation_chart(self) -> Chart:
        return ROTATION_CHARTS[self.chart]

    def _turn(self, p: Array, x: Vector) -> Array:
        q = self._storage.to_quaternion(p)
        return self._storage.from_quaternion(quaternion.multiply(q, self._rotation_chart.map(x)))

    def _turn_between(self, p0: Array, p1: Array) -> Vector:
        q0, q1 = self._storage.to_quaternion(p0), self._storage.to_quaternion(p1)
        return self._rotation_chart.inverse(quaternion.multiply(quaternion.conjugate(q0), q1))

    @property
    def nq(self) -> int:
        """Number of absolute coordinates: 7 or 6."""
        return 3 + self._storage.size

    @property
    def nv(self) -> int:
        """Number of velocities: 6."""
        return 6

    @checks.one_element
    def configuration(
        self, position: Vector, orientation: Float[Array, "4"]
    ) -> Float[Array, " nq"]:
        """Absolute coordinates of a position (m) and an orientation given as a unit quaternion.

        Raises `ValueError` for another shape or norm.
        """
        checks.unit_quaternion("configuration: orientation", orientation)
        return jnp.concatenate([position, self._storage.from_quaternion(orientation)])

    def pose(self, q: Float[Array, " nq"]) -> tuple[Float[Array, "3 3"], Vector]:
        """Rotation matrix (3, 3), body to inertial, and position (3,) of the body frame."""
        position, p = small.parted(q, 3)
        return self._storage.to_matrix(p), position

    def lift(self, q, v):
        """Time derivative of the coordinates: (ṙ, rate of the orientation's numbers)."""
        linear, omega = self.hybrid_velocity(self.pose(q)[0], q, v)
        return jnp.concatenate([linear, self._storage.lift(q[3:], omega)])

    def magnitude(self, q):
        """The distance |r| from the world origin for translations, one radian for rotations."""
        distance = jnp.sqrt(jnp.sum(q[:3] ** 2))
        return jnp.concatenate([jnp.broadcast_to(distance, 3), jnp.ones_like(q[:3])])

    def turn(self, v):
        """Turns by less than 2π, by less than π with the chart "cayley"."""
        angle = v[3:] / self._rotation_chart.largest
        return jnp.concatenate([jnp.zeros_like(angle), jnp.broadcast_to(jnp.sum(angle**2), (3,))])

    def regular(self, q):
        """Whether the orientation's numbers are away from a singularity."""
        return self._storage.regular(q[..., 3:])

    def invalid(self, q):
        """Reason of the storage: a quaternion must have unit norm, for example."""
        return self._storage.invalid(np.asarray(q[3:]))


class R3SO3(AbstractPoseSpace):
    """Rigid-body configurations as the direct product R³ × SO(3), v = (ṙ, ω).

    The linear velocity ṙ has inertial components, the angular velocity ω body components.

    **Arguments:** `coordinates`: `"quaternion"`, `"rotation_vector"` or `"tait_bryan"`, how an
    orientation is stored; `chart`: the local coordinates of the rotation in a step: `"exp"`,
    rotation vectors;
    `"cayley"`, Rodrigues parameters, for turns by less than π; `"cayley2"`, modified Rodrigues
    parameters, for turns by less than 2π. Raises `ValueError` for any other word.
    Source: [S3] (29), [S0] Table 1 (1b, 1c, 2b, 2c), with r' = r + Δr.
    """

    coordinates: str = eqx.field(static=True, default="quaternion")
    chart: str = eqx.field(static=True, default="exp")

    @property
    def hybrid(self):
        """True."""
        return True

    @classmethod
    def charts(cls):
        """`"exp"`, `"cayley"` and `"cayley2"`."""
        return tuple(ROTATION_CHARTS)

    def retract(self, q, x):
        """Add the translation, turn by the rotation in the body frame."""
        (position, p), (y, x) = small.parted(q, 3), small.parted(x, 3)
        return jnp.concatenate([position + y, self._turn(p, x)])

    def inverse_retract(self, q0, q1):
        """Difference of positions and local coordinates of the rotation from q0 to q1."""
        (r0, p0), (r1, p1) = small.parted(q0, 3), small.parted(q1, 3)
        return jnp.concatenate([r1 - r0, self._turn_between(p0, p1)])

    def tangent_operator(self, x, dx):
        """The translation as it is, dψ(-x) on the rotation."""
        (_, x), (dy, dx) = small.parted(x, 3), small.parted(dx, 3)
        return jnp.concatenate([dy, self._rotation_chart.differential(-x, dx)])

    def tangent_operator_inv(self, x, v):
        """The translation as it is, dψ(-x)⁻¹ on the rotation."""
        (_, x), (linear, omega) = small.parted(x, 3), small.parted(v, 3)
        return jnp.concatenate([linear, self._rotation_chart.differential_inv(-x, omega)])

    def tangent_operator_inv_derivative(self, x, dx, v):
        """Zero for the translation, that of dψ(-x)⁻¹ for the rotation."""
        change = self._rotation_chart.differential_inv_derivative(-x[3:], -dx[3:])
        return jnp.concatenate([jnp.zeros_like(v[:3]), small.matvec(change, v[3:])])

    def rate_at_zero(self, v):
        """The translation as it is, the angular velocity divided by the slope of the chart."""
        linear, omega = small.parted(v, 3)
        return jnp.concatenate([linear, omega / self._rotation_chart.slope])

    def hybrid_velocity(self, rotation, q, v):
        """The two halves of v."""
        return small.parted(v, 3)

    def hybrid_acceleration(self, rotation, q, v, dv):
        """The two halves of dv."""
        return small.parted(dv, 3)

    def generalized_force(self, rotation, q, force, torque):
        """(f, τ)."""
        return jnp.concatenate([force, torque])

    def velocity(self, rotation, q, linear, omega):
        """(ṙ, ω)."""
        return jnp.concatenate([linear, omega])

    def acceleration(self, rotation, q, v, linear, angular):
        """(r̈, ω̇)."""
        return jnp.concatenate([linear, angular])


class SE3(AbstractPoseSpace):
    """Rigid-body configurations as the group of Euclidean motions SE(3), v = (Rᵀ ṙ, ω).

    Both parts of the velocity have body components: v is the body-fixed twist.

    **Arguments:** `coordinates`: `"quaternion"`, `"rotation_vector"` or `"tait_bryan"`, how an
    orientation is stored; `chart`: the local coordinates of a step: `"exp"`, screw coordinates,
    or `"cayley"`,
    extended Rodrigues parameters, for turns by less than π. Raises `ValueError` for any other word.
    Source: [S0] Table 1 (1a, 1d, 2a, 2d), (64), (68).
    """

    coordinates: str = eqx.field(static=True, default="quaternion")
    chart: str = eqx.field(static=True, default="exp")

    @classmethod
    def charts(cls):
        """`"exp"` and `"cayley"`."""
        return tuple(SCREW_CHARTS)

    @property
    def _screw_chart(self) -> ScrewChart:
        return SCREW_CHARTS[self.chart]

    def retract(self, q, x):
        """Motion along x in the body frame."""
        translation = self._screw_chart.translation(x[3:], x[:3])
        orientation = self._storage.to_quaternion(q[3:])
        position = q[:3] + quaternion.rotate(orientation, translation)
        return jnp.concatenate([position, self._turn(q[3:], x[3:])])

    def inverse_retract(self, q0, q1):
        """Local coordinates of the motion from q0 to q1."""
        x = self._turn_between(q0[3:], q1[3:])
        back = quaternion.conjugate(self._storage.to_quaternion(q0[3:]))
        translation = quaternion.rotate(back, q1[:3] - q0[:3])
        return jnp.concatenate([self._screw_chart.translation_inv(x, translation), x])

    def tangent_operator(self, x, dx):
        """dψ(-x) of SE(3)."""
        return self._screw_chart.differential(-x, dx)

    def tangent_operator_inv(self, x, v):
        """dψ(-x)⁻¹ of SE(3)."""
        return self._screw_chart.differential_inv(-x, v)

    def tangent_operator_inv_derivative(self, x, dx, v):
        """That of dψ(-x)⁻¹ of SE(3)."""
        return small.matvec(self._screw_chart.differential_inv_derivative(-x, -dx), v)

    def rate_at_zero(self, v):
        """The twist divided by the slope of the chart."""
        return v / self._rotation_chart.slope

    def hybrid_velocity(self, rotation, q, v):
        """(R v[:3], ω)."""
        return small.matvec(rotation, v[:3]), v[3:]

    def hybrid_acceleration(self, rotation, q, v, dv):
        """(R (dv[:3] + ω × v[:3]), ω̇)."""
        return small.matvec(rotation, dv[:3] + small.cross(v[3:], v[:3])), dv[3:]

    def generalized_force(self, rotation, q, force, torque):
        """(Rᵀ f, τ)."""
        return jnp.concatenate([small.matvec(rotation.T, force), torque])

    def velocity(self, rotation, q, linear, omega):
        """(Rᵀ ṙ, ω)."""
        return jnp.concatenate([small.matvec(rotation.T, linear), omega])

    def acceleration(self, rotation, q, v, linear, angular):
        """(Rᵀ r̈ - ω × v[:3], ω̇)."""
        own = small.matvec(rotation.T, linear) - small.cross(v[3:], v[:3])
        return jnp.concatenate([own, angular])
