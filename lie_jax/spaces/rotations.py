"""Rotations as unit quaternions: the configurations of spherical joints."""

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from lie_jax.groups import quaternion
from lie_jax.groups.charts import EXP, QUATERNION
from lie_jax.numerics import small
from lie_jax.spaces.base import AbstractSpace


class UnitQuaternions(AbstractSpace):
    """Rotations stored as unit quaternions (4,), with body-fixed ω (3,) and exponential chart."""

    nq = 4
    nv = 3

    @override
    def retract(self, q, x):
        return quaternion.renormalize(quaternion.multiply(q, EXP.map(x)))

    @override
    def inverse_retract(self, q0, q1):
        return EXP.inverse(quaternion.multiply(quaternion.conjugate(q0), q1))

    @override
    def lift(self, q, v):
        return quaternion.lift(q, v)

    @override
    def tangent_operator(self, x, dx):
        return EXP.differential(-x, dx)

    @override
    def tangent_operator_inv(self, x, v):
        return EXP.differential_inv(-x, v)

    @override
    def rate_at_zero(self, v):
        return v

    @override
    def turning(self, v, acceleration):
        return 0.5 * small.cross(v, acceleration)

    @override
    def magnitude(self, q):
        """One radian."""
        return jnp.ones_like(q[:3])

    @override
    def turn(self, v):
        """Relative to 2π."""
        return jnp.broadcast_to(jnp.sum(v * v) / EXP.largest**2, (3,))

    @override
    def deviation(self, q):
        return jnp.broadcast_to(QUATERNION.deviation(q), (3,))

    @override
    def invalid(self, q):
        return QUATERNION.invalid(np.asarray(q))
