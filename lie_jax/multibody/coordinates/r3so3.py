"""Configurations of one rigid body as R³ × SO(3)."""

import equinox as eqx
import jax.numpy as jnp
from typing_extensions import override

from lie_jax.groups.charts import ROTATION_CHARTS, AbstractChart
from lie_jax.multibody.coordinates.poses import AbstractPoseSpace
from lie_jax.numerics import small


class R3SO3(AbstractPoseSpace):
    """Rigid-body configurations as the direct product R³ × SO(3), v = (ṙ, ω).

    The linear velocity ṙ has inertial components, the angular velocity ω body components.

    **Arguments:** `coordinates`: `"quaternion"`, `"rotation_vector"` or `"tait_bryan"`, how an
    orientation is stored; `chart`: the local coordinates of the rotation in a step: `"exp"`,
    rotation vectors;
    `"cayley"`, Rodrigues parameters, for turns by less than π; `"cayley2"`, modified Rodrigues
    parameters, for turns by less than 2π; or a `lie_jax.extend.AbstractChart` of one's own. Raises
    `ValueError` for anything else.
    Source: [S3] (29), [S0] Table 1 (1b, 1c, 2b, 2c), with r' = r + Δr.
    """

    coordinates: str = eqx.field(static=True, default="quaternion")
    chart: str | AbstractChart = eqx.field(static=True, default="exp")

    hybrid = True
    charts = ROTATION_CHARTS

    @override
    def retract(self, q, x):
        """Add the translation, turn by the rotation in the body frame."""
        (position, p), (y, x) = small.split_at(q, 3), small.split_at(x, 3)
        return jnp.concatenate([position + y, self._turn(p, x)])

    @override
    def inverse_retract(self, q0, q1):
        (r0, p0), (r1, p1) = small.split_at(q0, 3), small.split_at(q1, 3)
        return jnp.concatenate([r1 - r0, self._turn_between(p0, p1)])

    @override
    def tangent_operator(self, x, dx):
        """The translation as it is, dψ(-x) on the rotation."""
        (_, x), (dy, dx) = small.split_at(x, 3), small.split_at(dx, 3)
        return jnp.concatenate([dy, self._rotation_chart.differential(-x, dx)])

    @override
    def tangent_operator_inv(self, x, v):
        """The translation as it is, dψ(-x)⁻¹ on the rotation."""
        (_, x), (linear, omega) = small.split_at(x, 3), small.split_at(v, 3)
        return jnp.concatenate([linear, self._rotation_chart.differential_inv(-x, omega)])

    @override
    def tangent_operator_inv_derivative(self, x, dx, v):
        """Zero for the translation, the derivative of dψ(-x)⁻¹ for the rotation."""
        change = self._rotation_chart.differential_inv_derivative(-x[3:], -dx[3:])
        return jnp.concatenate([jnp.zeros_like(v[:3]), small.matvec(change, v[3:])])

    @override
    def rate_at_zero(self, v):
        linear, omega = small.split_at(v, 3)
        return jnp.concatenate([linear, omega / self._rotation_chart.slope])

    @override
    def turning(self, v, acceleration):
        """Zero for the translation, 1/2 ω × ω̇ + c |ω|² ω with the curvature c of the chart."""
        (linear, omega), (_, change) = small.split_at(v, 3), small.split_at(acceleration, 3)
        curved = self._rotation_chart.curvature * small.dot(omega, omega) * omega
        return jnp.concatenate([jnp.zeros_like(linear), 0.5 * small.cross(omega, change) + curved])

    @override
    def hybrid_velocity(self, rotation, q, v):
        return small.split_at(v, 3)

    @override
    def hybrid_acceleration(self, rotation, q, v, dv):
        return small.split_at(dv, 3)

    @override
    def generalized_force(self, rotation, q, force, torque):
        return jnp.concatenate([force, torque])

    @override
    def velocity(self, rotation, q, linear, omega):
        return jnp.concatenate([linear, omega])

    @override
    def acceleration(self, rotation, q, v, linear, angular):
        return jnp.concatenate([linear, angular])
