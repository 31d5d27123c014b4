"""Configurations of one rigid body as the group of Euclidean motions SE(3)."""

import equinox as eqx
import jax.numpy as jnp
from typing_extensions import override

from lie_jax.groups import quaternion
from lie_jax.groups.charts import SCREW_CHARTS, ScrewChart
from lie_jax.multibody.coordinates.poses import AbstractPoseSpace
from lie_jax.numerics import small


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

    charts = SCREW_CHARTS

    @property
    def _screw_chart(self) -> ScrewChart:
        return SCREW_CHARTS[self.chart]

    @override
    def retract(self, q, x):
        """Motion along x in the body frame."""
        translation = self._screw_chart.translation(x[3:], x[:3])
        orientation = self._storage.to_quaternion(q[3:])
        position = q[:3] + quaternion.rotate(orientation, translation)
        return jnp.concatenate([position, self._turn(q[3:], x[3:])])

    @override
    def inverse_retract(self, q0, q1):
        x = self._turn_between(q0[3:], q1[3:])
        back = quaternion.conjugate(self._storage.to_quaternion(q0[3:]))
        translation = quaternion.rotate(back, q1[:3] - q0[:3])
        return jnp.concatenate([self._screw_chart.translation_inv(x, translation), x])

    @override
    def tangent_operator(self, x, dx):
        """dψ(-x) of SE(3)."""
        return self._screw_chart.differential(-x, dx)

    @override
    def tangent_operator_inv(self, x, v):
        """dψ(-x)⁻¹ of SE(3)."""
        return self._screw_chart.differential_inv(-x, v)

    @override
    def tangent_operator_inv_derivative(self, x, dx, v):
        return small.matvec(self._screw_chart.differential_inv_derivative(-x, -dx), v)

    @override
    def rate_at_zero(self, v):
        return v / self._rotation_chart.slope

    @override
    def turning(self, v, acceleration):
        """1/2 [v, v̇] - c v³, with the curvature c of the chart and v as a matrix (4, 4)."""
        (linear, omega), (push, change) = small.split_at(v, 3), small.split_at(acceleration, 3)
        c = self._rotation_chart.curvature
        arc = small.cross(omega, 0.5 * push - c * small.cross(omega, linear))
        turned = 0.5 * small.cross(omega, change) + c * small.dot(omega, omega) * omega
        return jnp.concatenate([arc + 0.5 * small.cross(linear, change), turned])

    @override
    def hybrid_velocity(self, rotation, q, v):
        return small.matvec(rotation, v[:3]), v[3:]

    @override
    def hybrid_acceleration(self, rotation, q, v, dv):
        return small.matvec(rotation, dv[:3] + small.cross(v[3:], v[:3])), dv[3:]

    @override
    def generalized_force(self, rotation, q, force, torque):
        return jnp.concatenate([small.matvec(rotation.T, force), torque])

    @override
    def velocity(self, rotation, q, linear, omega):
        return jnp.concatenate([small.matvec(rotation.T, linear), omega])

    @override
    def acceleration(self, rotation, q, v, linear, angular):
        """(Rᵀ r̈ - ω × v[:3], ω̇)."""
        body_linear = small.matvec(rotation.T, linear) - small.cross(v[3:], v[:3])
        return jnp.concatenate([body_linear, angular])
