"""Unit quaternions (4,), scalar first, Hamilton product: the group S³ that covers SO(3) twice.

Algebra elements are rotation vectors (3,): exp(x) turns by |x| radians, as `so3.exp` does, and
q and -q are the same rotation. The differentials are those of SO(3). All groups share the names
`compose`, `inverse` and `act`, here of `multiply`, `conjugate` and `rotate`.
"""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import series
from lie_jax.groups.rotation_algebra import *  # noqa: F403  the differentials of both groups
from lie_jax.groups.rotation_algebra import Matrix, Vector
from lie_jax.numerics import small

Quaternion = Float[Array, "4"]


def identity(dtype: DTypeLike = float) -> Quaternion:
    """The quaternion of no rotation, (1, 0, 0, 0)."""
    return jnp.asarray([1.0, 0.0, 0.0, 0.0], dtype)


def multiply(p: Quaternion, q: Quaternion) -> Quaternion:
    """Hamilton product p q: first q, then p, as for matrices."""
    return small.hamilton_product(p, q)


def conjugate(q: Quaternion) -> Quaternion:
    """Conjugate; the inverse rotation of a unit quaternion."""
    return q * jnp.asarray([1.0, -1.0, -1.0, -1.0], q.dtype)


def rotate(q: Quaternion, y: Vector) -> Vector:
    """The rotated vector R(q) y."""
    qy = small.cross(q[1:], y)
    return y + 2.0 * (q[0] * qy + small.cross(q[1:], qy))


compose = multiply
inverse = conjugate
act = rotate


def hat(x: Vector) -> Quaternion:
    """The pure quaternion (0, x/2) whose quaternion exponential is exp(x)."""
    return jnp.concatenate([jnp.zeros(1, x.dtype), 0.5 * x])


def vee(q: Quaternion) -> Vector:
    """Rotation vector of a pure quaternion; inverse of `hat`."""
    return 2.0 * q[1:]


def lift(q: Quaternion, omega_body: Vector) -> Quaternion:
    """Time derivative q̇ = ½ q (0, ω) for the body-fixed angular velocity ω (rad/s)."""
    return multiply(q, hat(omega_body))


def renormalize(q: Quaternion) -> Quaternion:
    """Unit quaternion of one whose norm is off by rounding.

    One Newton step for the inverse square root, so an error of δ in the norm becomes 1.5 δ².
    """
    return q * (0.5 * (3.0 - small.dot(q, q)))


def exp(x: Vector) -> Quaternion:
    """Unit quaternion of the rotation by |x| radians about x. [S0] (62), corrected"""
    t = 0.25 * small.dot(x, x)
    scalar, ratio = series.c0_and_c1(t)
    return jnp.concatenate([scalar[None], 0.5 * ratio * x])


def log(q: Quaternion) -> Vector:
    """Principal rotation vector, |log(q)| <= π up to rounding, of a unit quaternion."""
    q = _principal(q)
    return 2.0 * series.arctan_ratio(small.dot(q[1:], q[1:]), q[0]) * q[1:]


def _principal(q: Quaternion) -> Quaternion:
    return jnp.where(q[0] < 0.0, -1.0, 1.0) * q


def cay(x: Vector) -> Quaternion:
    """Unit quaternion (1, x) / √(1 + |x|²) of the rotation `so3.cay`(x). [S0] (41), corrected"""
    norm = jnp.sqrt(1.0 + small.dot(x, x))
    return jnp.concatenate([jnp.ones(1, x.dtype), x]) / norm


def cay_inv(q: Quaternion) -> Vector:
    """Rodrigues parameters tan(φ/2) n; infinite or NaN for a rotation by exactly π."""
    return q[1:] / q[0]


def cay2(x: Vector) -> Quaternion:
    """Unit quaternion cay(x)² = (1 - |x|², 2 x) / (1 + |x|²): stereographic projection."""
    t = small.dot(x, x)
    return jnp.concatenate([(1.0 - t)[None], 2.0 * x]) / (1.0 + t)


def cay2_inv(q: Quaternion) -> Vector:
    """Modified Rodrigues parameters tan(φ/4) n with |x| <= 1, for the rotation angle φ <= π."""
    q = _principal(q)
    return q[1:] / (1.0 + q[0])


def to_matrix(q: Quaternion) -> Matrix:
    """Rotation matrix (3, 3) of a unit quaternion."""
    # By components: products of arrays compile a twentieth faster, but steps of small mechanisms
    # take as much longer.
    w, x, y, z = jax.lax.unstack(q)
    rows = [
        1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y),
        2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x),
        2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y),
    ]  # fmt: skip
    return jnp.stack(rows).reshape(3, 3)


Ad = to_matrix


def from_matrix(r: Matrix) -> Quaternion:
    """Unit quaternion of a rotation matrix (3, 3), with a positive largest component.

    Raises `ValueError` with the defect of a concrete matrix that is no rotation.
    """
    checks.rotation("quaternion.from_matrix: r", r)
    return from_rotation(r)


def from_rotation(r: Matrix) -> Quaternion:
    """`from_matrix` without its check: for matrices that are rotations by construction."""
    # The row of 4 q qᵀ with the largest diagonal entry (Shepperd): no division by a small number.
    trace = jnp.trace(r)
    axial = -small.axial(r)
    block = r + r.T + (1.0 - trace) * jnp.eye(3, dtype=r.dtype)
    four_qq = small.block_2x2((1.0 + trace)[None, None], axial[None], axial[:, None], block)
    largest = jnp.argmax(jnp.diagonal(four_qq)) == jnp.arange(4)
    row = jnp.sum(jnp.where(largest[:, None], four_qq, 0.0), axis=0)
    return row / (2.0 * jnp.sqrt(jnp.sum(jnp.where(largest, row, 0.0))))


checks.take_one_element(globals())
