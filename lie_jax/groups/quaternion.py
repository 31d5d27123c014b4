"""Unit quaternions (4,), scalar first, Hamilton product: the group S³ that covers SO(3) twice.

Algebra elements are rotation vectors (3,): exp(x) turns by |x| radians, as `so3.exp` does, and
q and -q are the same rotation.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import algebra, series

Vector = Float[Array, "3"]
Quaternion = Float[Array, "4"]
Matrix = Float[Array, "3 3"]


def identity(dtype=float) -> Quaternion:
    """The quaternion of no rotation, (1, 0, 0, 0)."""
    return jnp.asarray([1.0, 0.0, 0.0, 0.0], dtype)


def multiply(p: Quaternion, q: Quaternion) -> Quaternion:
    """Hamilton product p q: first q, then p, as for matrices."""
    return algebra.hamilton_product(p, q)


def conjugate(q: Quaternion) -> Quaternion:
    """Conjugate; the inverse rotation of a unit quaternion."""
    return q * jnp.asarray([1.0, -1.0, -1.0, -1.0], q.dtype)


def renormalize(q: Quaternion) -> Quaternion:
    """Put a quaternion whose norm is off by rounding back on the unit sphere.

    One Newton step for the inverse square root, so an error of δ in the norm becomes 1.5 δ².
    """
    return q * (0.5 * (3.0 - algebra.dot(q, q)))


def exp(x: Vector) -> Quaternion:
    """Unit quaternion of the rotation by |x| radians about x. [S0] (62), corrected"""
    t = 0.25 * algebra.dot(x, x)
    return jnp.concatenate([series.c0(t)[None], 0.5 * series.c1(t) * x])


def log(q: Quaternion) -> Vector:
    """Principal rotation vector, |log(q)| <= π, of a unit quaternion."""
    q = jnp.where(q[0] < 0.0, -1.0, 1.0) * q
    return 2.0 * series.arctan_ratio(algebra.dot(q[1:], q[1:]), q[0]) * q[1:]


def to_matrix(q: Quaternion) -> Matrix:
    """Rotation matrix (3, 3) of a unit quaternion."""
    skew = algebra.hat(q[1:])
    return jnp.eye(3, dtype=q.dtype) + 2.0 * (q[0] * skew + algebra.matmul(skew, skew))


def from_matrix(r: Matrix) -> Quaternion:
    """Unit quaternion of a rotation matrix (3, 3), with a positive largest component.

    Read from the row of 4 q qᵀ with the largest diagonal entry (Shepperd), so that no component is
    found by a division by a small number.
    """
    trace = jnp.trace(r)
    axial = -algebra.axial(r)
    scalar_row = jnp.concatenate([(1.0 + trace)[None], axial])
    block = r + r.T + (1.0 - trace) * jnp.eye(3, dtype=r.dtype)
    four_qq = jnp.concatenate(
        [scalar_row[None, :], jnp.concatenate([axial[:, None], block], axis=1)], axis=0
    )
    pick = jnp.argmax(jnp.diagonal(four_qq)) == jnp.arange(4)
    row = jnp.sum(jnp.where(pick[:, None], four_qq, 0.0), axis=0)
    return row / (2.0 * jnp.sqrt(jnp.sum(jnp.where(pick, row, 0.0))))


def rotate(q: Quaternion, y: Vector) -> Vector:
    """The rotated vector R(q) y."""
    qy = algebra.cross(q[1:], y)
    return y + 2.0 * (q[0] * qy + algebra.cross(q[1:], qy))


def lift(q: Quaternion, omega_body: Vector) -> Quaternion:
    """Time derivative q̇ = ½ q (0, ω) for the body-fixed angular velocity ω (rad/s)."""
    half = jnp.concatenate([jnp.zeros(1, q.dtype), 0.5 * omega_body])
    return multiply(q, half)
