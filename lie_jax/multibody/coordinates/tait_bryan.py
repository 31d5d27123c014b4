"""Tait-Bryan angles as coordinates of each body."""

import jax.numpy as jnp
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import quaternion, tait_bryan
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.numerics import small
from lie_jax.spaces.base import AbstractVectorSpace


class TaitBryan(AbstractVectorSpace, AbstractCoordinates):
    """Rigid-body configurations as positions and angles: q = (r, α, β, γ) in R⁶, v = q̇.

    r is the position of the body frame's origin (m, inertial), R = Rx(α) Ry(β) Rz(γ) its
    orientation (rad). Singular at β = ±π/2: configurations with cos β below a thousandth are
    refused at the start of a simulation, and end one. Source: [S3] Sect. 2.1.2 ("Rxyz"), (12),
    (14), corrected.
    """

    nq = 6

    @override
    def configuration(self, position, orientation):
        """(r, α, β, γ) with |β| <= π/2; raises `ValueError` unless `orientation` has norm one."""
        checks.unit_quaternion("configuration: orientation", orientation)
        angles = tait_bryan.from_matrix(quaternion.to_matrix(orientation))
        return jnp.concatenate([position, angles])

    @override
    def pose(self, q):
        return tait_bryan.to_matrix(q[3:]), q[:3]

    # Closed forms of what follows from the pose, for the time loop: ω = H α̇.
    @override
    def hybrid_velocity(self, rotation, q, v):
        return v[:3], small.matvec(tait_bryan.velocity_matrix(q[3:]), v[3:])

    @override
    def hybrid_acceleration(self, rotation, q, v, dv):
        h = tait_bryan.velocity_matrix(q[3:])
        rate = tait_bryan.velocity_matrix_rate(q[3:], v[3:])
        return dv[:3], small.matvec(h, dv[3:]) + small.matvec(rate, v[3:])

    @override
    def generalized_force(self, rotation, q, force, torque):
        h = tait_bryan.velocity_matrix(q[3:])
        return jnp.concatenate([force, small.matvec(h.T, torque)])

    @override
    def velocity(self, rotation, q, linear, omega):
        return jnp.concatenate([linear, tait_bryan.lift(q[3:], omega)])

    @override
    def acceleration(self, rotation, q, v, linear, angular):
        """(r̈, H⁻¹ (ω̇ - Ḣ α̇))."""
        rate = tait_bryan.velocity_matrix_rate(q[3:], v[3:])
        without_drift = angular - small.matvec(rate, v[3:])
        return jnp.concatenate([linear, tait_bryan.lift(q[3:], without_drift)])

    @override
    def regular(self, q):
        return tait_bryan.regular(q[..., 3:])

    @override
    def invalid(self, q):
        return tait_bryan.invalid(q[3:])
