"""Tait-Bryan angles as coordinates of each body."""

import jax.numpy as jnp

from lie_jax import checks
from lie_jax.groups import quaternion, tait_bryan
from lie_jax.mechanics.coordinates.base import AbstractBodySpace
from lie_jax.numerics import small
from lie_jax.spaces.base import AbstractVectorSpace


class TaitBryan(AbstractVectorSpace, AbstractBodySpace):
    """Rigid-body configurations as positions and angles: q = (r, α, β, γ) in R⁶, v = q̇.

    r is the position of the body frame's origin (m, inertial), R = Rx(α) Ry(β) Rz(γ) its
    orientation (rad). Singular at β = ±π/2: configurations with cos β below a thousandth are
    refused at the start of a simulation, and end one. Source: [S3] Sect. 2.1.2 ("Rxyz"), (12),
    (14), corrected.
    """

    @property
    def nq(self) -> int:
        """Six."""
        return 6

    def configuration(self, position, orientation):
        """(r, α, β, γ) with |β| <= π/2 of a position (m) and a unit quaternion.

        Raises `ValueError` for another norm.
        """
        checks.unit_quaternion("configuration: orientation", orientation)
        angles = tait_bryan.from_matrix(quaternion.to_matrix(orientation))
        return jnp.concatenate([position, angles])

    def pose(self, q):
        """Rotation matrix (3, 3), body to inertial, and position (3,)."""
        return tait_bryan.to_matrix(q[3:]), q[:3]

    def hybrid_velocity(self, rotation, q, v):
        """(ṙ, H α̇)."""
        return v[:3], small.matvec(tait_bryan.velocity_matrix(q[3:]), v[3:])

    def hybrid_acceleration(self, rotation, q, v, dv):
        """(r̈, H α̈ + Ḣ α̇)."""
        h = tait_bryan.velocity_matrix(q[3:])
        rate = tait_bryan.velocity_matrix_rate(q[3:], v[3:])
        return dv[:3], small.matvec(h, dv[3:]) + small.matvec(rate, v[3:])

    def generalized_force(self, rotation, q, force, torque):
        """(f, Hᵀ τ)."""
        h = tait_bryan.velocity_matrix(q[3:])
        return jnp.concatenate([force, small.matvec(h.T, torque)])

    def velocity(self, rotation, q, linear, omega):
        """(ṙ, H⁻¹ ω)."""
        return jnp.concatenate([linear, tait_bryan.lift(q[3:], omega)])

    def acceleration(self, rotation, q, v, linear, angular):
        """(r̈, H⁻¹ (ω̇ - Ḣ α̇))."""
        rate = tait_bryan.velocity_matrix_rate(q[3:], v[3:])
        rest = angular - small.matvec(rate, v[3:])
        return jnp.concatenate([linear, tait_bryan.lift(q[3:], rest)])

    def regular(self, q):
        """Whether β is on the branch |β| < π/2 and not too close to its ends."""
        return tait_bryan.regular(q[..., 3:])

    def invalid(self, q):
        """Angles next to the singularity are refused."""
        return tait_bryan.invalid(q[3:])
