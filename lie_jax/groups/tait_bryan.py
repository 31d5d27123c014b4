"""Tait-Bryan angles (3,), xyz: R = Rx(α) Ry(β) Rz(γ), rad. The angles of [S3]

The body-fixed angular velocity is ω = H(q) q̇. At β = ±π/2 H has no inverse.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.groups.rotation_algebra import Matrix
from lie_jax.numerics import small

# At this bound rates of the angles are up to a thousand times the angular velocity.
_SMALLEST_COS_BETA = 1e-3

Angles = Float[Array, "3"]


def _rows(*rows) -> Matrix:
    return jnp.stack([jnp.stack(row) for row in rows])


def to_matrix(q: Angles) -> Matrix:
    """Rotation matrix (3, 3), body to inertial."""
    (sa, sb, sc), (ca, cb, cc) = jnp.sin(q), jnp.cos(q)
    return _rows(
        (cb * cc, -cb * sc, sb),
        (ca * sc + sa * sb * cc, ca * cc - sa * sb * sc, -sa * cb),
        (sa * sc - ca * sb * cc, sa * cc + ca * sb * sc, ca * cb),
    )


def from_matrix(r: Matrix) -> Angles:
    """Angles with |β| <= π/2 of a rotation matrix.

    At |β| = π/2 only α ± γ is determined: γ is 0, and there is no derivative. Next to it the angles
    amplify rounding consistently. Raises `ValueError` for a concrete matrix that is no rotation.
    """
    checks.rotation("tait_bryan.from_matrix: r", r)
    cos_beta = jnp.hypot(r[0, 0], r[0, 1])
    locked = cos_beta < 8.0 * jnp.finfo(r.dtype).eps
    alpha = jnp.where(
        locked,
        jnp.arctan2(r[2, 1], jnp.where(locked, r[1, 1], 1.0)),
        jnp.arctan2(-r[1, 2], jnp.where(locked, 1.0, r[2, 2])),
    )
    # γ from the rotation that remains after α: near |β| = π/2 both are nearly undetermined, and
    # only consistent angles reproduce the matrix.
    sine, cosine = jnp.sin(alpha), jnp.cos(alpha)
    gamma = jnp.arctan2(cosine * r[1, 0] + sine * r[2, 0], cosine * r[1, 1] + sine * r[2, 1])
    gamma = jnp.where(locked, 0.0, gamma)
    return jnp.stack([alpha, jnp.arctan2(r[0, 2], cos_beta), gamma])


def to_quaternion(q: Angles) -> Float[Array, "4"]:
    """Unit quaternion of the rotation."""
    turns = q[:, None] * jnp.eye(3, dtype=q.dtype)
    first = quaternion.multiply(quaternion.exp(turns[0]), quaternion.exp(turns[1]))
    return quaternion.multiply(first, quaternion.exp(turns[2]))


def from_quaternion(p: Float[Array, "4"]) -> Angles:
    """Angles with |β| <= π/2 of a unit quaternion; at |β| = π/2 as `from_matrix`."""
    return from_matrix(quaternion.to_matrix(p))


def regular(q: Float[Array, "*batch 3"]) -> Bool[Array, " *batch"]:
    """Whether cos β is above a thousandth: within |β| < π/2, where β starts and stays."""
    return jnp.cos(q[..., 1]) > _SMALLEST_COS_BETA


def invalid(q: np.ndarray) -> str | None:
    """Why angles (3,) cannot be used as coordinates (with the fix), or None."""
    beta = float(q[1])
    if np.cos(beta) > _SMALLEST_COS_BETA:
        return None
    return (
        f"the Tait-Bryan angle β = {beta:.9g} rad has cos β = {np.cos(beta):.3g}; it must be "
        f"above {_SMALLEST_COS_BETA:g}, for the angles are singular at β = ±π/2: choose other "
        "body axes, or coordinates without singularities such as those of lie_jax.R3SO3()"
    )


def velocity_matrix(q: Angles) -> Matrix:
    """H(q) of ω = H q̇, body components."""
    (_, sb, sc), (_, cb, cc) = jnp.sin(q), jnp.cos(q)
    zero, one = jnp.zeros_like(sb), jnp.ones_like(sb)
    return _rows((cb * cc, sc, zero), (-cb * sc, cc, zero), (sb, zero, one))


def velocity_matrix_inv(q: Angles) -> Matrix:
    """H(q)⁻¹ of q̇ = H⁻¹ ω; infinite or a large number at β = ±π/2."""
    (_, sb, sc), (_, cb, cc) = jnp.sin(q), jnp.cos(q)
    zero, one = jnp.zeros_like(sb), jnp.ones_like(sb)
    return _rows((cc / cb, -sc / cb, zero), (sc, cc, zero), (-sb * cc / cb, sb * sc / cb, one))


def velocity_matrix_rate(q: Angles, dq: Angles) -> Matrix:
    """Time derivative of H(q) for the rates q̇ (rad/s): ω̇ = H q̈ + Ḣ q̇."""
    return jax.jvp(velocity_matrix, (q,), (dq,))[1]


def lift(q: Angles, omega_body: Angles) -> Angles:
    """Rates q̇ = H(q)⁻¹ ω for the body-fixed angular velocity ω (rad/s)."""
    return small.matvec(velocity_matrix_inv(q), omega_body)


checks.take_one_element(globals())
