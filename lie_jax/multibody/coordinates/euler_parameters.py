"""Euler parameters as redundant coordinates of each body."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import euler_parameters
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.numerics import small
from lie_jax.spaces.base import AbstractVectorSpace


class EulerParameters(AbstractVectorSpace, AbstractCoordinates):
    """Rigid-body configurations as positions and Euler parameters: q = (r, p) in R⁷, v = q̇.

    r is the position of the body frame's origin (m, inertial), p (4,) a unit quaternion, scalar
    first, held by one constraint (|p|² - 1)/2 = 0 for each body. The mass matrix is singular along
    p; together with the constraint it is not. The orientation is that of p/|p|, so that a norm
    which is off by the error of a method leaves rotations rotations, and the reactions of joints do
    not mix with that of the constraint.

    **Arguments:** `normalized`: whether that is so. Without it, rotation matrices and velocities
    are the polynomials of p that they are for unit p, as in [S3]: for methods that keep the norm to
    rounding, such as `GeneralizedAlpha`, where it saves iterations. Source: [S3] Sect. 2.1.2
    ("EP"), (12), (14), corrected.
    """

    nq = 7
    rows = 1
    normalized: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        checks.one_of("EulerParameters(normalized=)", self.normalized, (True, False))

    @property
    @override
    def keeps_rotations(self):
        return self.normalized

    def _square(self, p: Array) -> Array:
        return small.dot(p, p) if self.normalized else jnp.ones((), p.dtype)

    @override
    def configuration(self, position, orientation):
        """(r, p); raises `ValueError` unless `orientation` has norm one."""
        checks.unit_quaternion("configuration: orientation", orientation)
        return jnp.concatenate([position, orientation])

    @override
    def pose(self, q):
        p = q[3:]
        skew = small.hat(p[1:])
        turned = p[0] * skew + small.matmul(skew, skew)
        return jnp.eye(3, dtype=q.dtype) + (2.0 / self._square(p)) * turned, q[:3]

    @override
    def hybrid_velocity(self, rotation, q, v):
        p, dp = q[3:], v[3:]
        h = euler_parameters.velocity_matrix(p)
        return v[:3], small.matvec(h, dp) / self._square(p)

    @override
    def hybrid_acceleration(self, rotation, q, v, dv):
        """(r̈, H p̈ / |p|² - 2 (p·ṗ / |p|²) ω)."""
        p, dp, ddp = q[3:], v[3:], dv[3:]
        square = self._square(p)
        if self.normalized:
            ddp = ddp - 2.0 * small.dot(p, dp) / square * dp
        return dv[:3], small.matvec(euler_parameters.velocity_matrix(p), ddp) / square

    @override
    def generalized_force(self, rotation, q, force, torque):
        p = q[3:]
        h = euler_parameters.velocity_matrix(p)
        return jnp.concatenate([force, small.matvec(h.T, torque) / self._square(p)])

    @override
    def velocity(self, rotation, q, linear, omega):
        """(ṙ, ṗ) with p·ṗ = 0."""
        rate = small.matvec(euler_parameters.velocity_matrix_inv(q[3:]), omega)
        return jnp.concatenate([linear, rate])

    @override
    def acceleration(self, rotation, q, v, linear, angular):
        """(r̈, p̈) with p·p̈ = -ṗ·ṗ."""
        p, dp = q[3:], v[3:]
        square = small.dot(p, p)
        h = euler_parameters.velocity_matrix(p)
        growth = 2.0 * small.dot(p, dp) / square
        turning = angular + small.matvec(h, growth * dp) / square
        along = small.matvec(euler_parameters.velocity_matrix_inv(p), turning)
        return jnp.concatenate([linear, along - (small.dot(dp, dp) / square) * p])

    @override
    def constraint(self, q):
        return 0.5 * (small.dot(q[3:], q[3:]) - 1.0)[None]

    @override
    def reaction(self, q, multipliers):
        return jnp.concatenate([jnp.zeros(3, q.dtype), multipliers * q[3:]])

    @override
    def invalid(self, q):
        p = np.asarray(q[3:])
        norm = float(np.linalg.norm(p))
        if abs(norm - 1.0) <= np.sqrt(np.finfo(p.dtype).eps):
            return None
        return (
            f"the Euler parameters {p.tolist()} have norm {norm:.9g}; they must be a unit "
            "quaternion, scalar first: divide them by their norm"
        )
