"""The group of rigid-body poses SE(3): homogeneous matrices (4, 4), twists (6,).

Twists are translation first, X = (y, x) with translation y and rotation x. `dexp` and `dcay` are
right-trivialised, as in `so3`; the body twist of C = C₀ exp(X) is dexp(-X) Ẋ. The paper [S4]
orders twists rotation first: its rows and columns are permuted by [3, 4, 5, 0, 1, 2] here.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import so3
from lie_jax.groups.rotation_algebra import Matrix, Vector, directional_derivative
from lie_jax.numerics import small

Twist = Float[Array, "6"]
Pose = Float[Array, "4 4"]
Matrix6 = Float[Array, "6 6"]


def pose(r: Matrix, p: Vector) -> Pose:
    """Homogeneous matrix (4, 4) of a rotation matrix and a position."""
    top = jnp.concatenate([r, p[:, None]], axis=1)
    return jnp.concatenate([top, jnp.asarray([[0.0, 0.0, 0.0, 1.0]], r.dtype)], axis=0)


# Numbers of the blocks of a matrix (6, 6) viewed as (2, 3, 2, 3).
_BLOCK = np.asarray([[0, 1], [2, 3]])[:, None, :, None]


def upper(a: Matrix, b: Matrix, d: Matrix) -> Matrix6:
    """Block matrix (a, b; 0, d)."""
    # Selection instead of concatenation: XLA evaluates the operands of a concatenation anew for
    # every entry of a batch, which costs a factor of two to three.
    a, b, d = (block[None, :, None, :] for block in (a, b, d))
    blocks = jnp.where(_BLOCK == 1, b, jnp.where(_BLOCK == 3, d, a))
    return jnp.where(_BLOCK == 2, 0.0, blocks).reshape(6, 6)


def identity(dtype: DTypeLike = float) -> Pose:
    """The unit element."""
    return jnp.eye(4, dtype=dtype)


def compose(a: Pose, b: Pose) -> Pose:
    """Product of two poses."""
    return small.matmul(a, b)


def inverse(c: Pose) -> Pose:
    """Inverse pose."""
    return pose(c[:3, :3].T, -small.matvec(c[:3, :3].T, c[:3, 3]))


def act(c: Pose, y: Vector) -> Vector:
    """World position of a point given in the body frame."""
    return small.matvec(c[:3, :3], y) + c[:3, 3]


def lift(c: Pose, v: Twist) -> Pose:
    """Time derivative Ċ = C hat(V) for the body-fixed twist V."""
    return small.matmul(c, hat(v))


def hat(x: Twist) -> Pose:
    """Matrix (4, 4) of a twist."""
    top = jnp.concatenate([so3.hat(x[3:]), x[:3, None]], axis=1)
    return jnp.concatenate([top, jnp.zeros((1, 4), x.dtype)], axis=0)


def vee(x: Pose) -> Twist:
    """Twist of a matrix (4, 4); inverse of `hat`."""
    return jnp.concatenate([x[:3, 3], so3.vee(x[:3, :3])])


def exp(x: Twist) -> Pose:
    """Screw motion along a twist. [S4] (2.26), corrected"""
    return pose(so3.exp(x[3:]), so3.dexp_apply(x[3:], x[:3]))


def log(c: Pose) -> Twist:
    """Twist whose exponential is the pose, with a rotation of at most π."""
    x = so3.log(c[:3, :3])
    return jnp.concatenate([so3.dexp_inv_apply(x, c[:3, 3]), x])


def dexp(x: Twist) -> Matrix6:
    """Right-trivialised differential of exp: [[dexp x, (D_x dexp)(y)], [0, dexp x]] for (y, x).

    The tangent operator of a chart with body-fixed velocities is dexp(-X). The coupling block as a
    formula: `closed_forms.so3_ddexp`. [S4] (2.29), (2.33)
    """
    d = so3.dexp(x[3:])
    return upper(d, so3.ddexp(x[3:], x[:3]), d)


def dexp_apply(x: Twist, y: Twist) -> Twist:
    """dexp(x) y without forming the matrix."""
    return _screw_apply(so3.dexp_apply, x, y)


def dexp_inv(x: Twist) -> Matrix6:
    """Inverse of dexp(x), for a rotation below 2π. [S4] (2.39), (2.40)

    A large number, infinite or NaN at 2π, meaningless beyond, as `so3.dexp_inv`.
    """
    d = so3.dexp_inv(x[3:])
    return upper(d, so3.ddexp_inv(x[3:], x[:3]), d)


def dexp_inv_apply(x: Twist, y: Twist) -> Twist:
    """dexp_inv(x) y without forming the matrix, for a rotation below 2π."""
    return _screw_apply(so3.dexp_inv_apply, x, y)


def _screw_apply(of_rotation: Callable[..., Array], x: Twist, y: Twist) -> Twist:
    # The coupling block is the derivative of that of SO(3) along the translation.
    rotation, coupling = jax.jvp(lambda w: of_rotation(w, y[3:]), (x[3:],), (x[:3],))
    return jnp.concatenate([of_rotation(x[3:], y[:3]) + coupling, rotation])


ddexp = directional_derivative(dexp, "[S4] (2.47), (2.48)")
ddexp_inv = directional_derivative(dexp_inv, "[S4] (2.52), corrected")


def cay(x: Twist) -> Pose:
    """Unscaled Cayley map (I - X̂)⁻¹(I + X̂). [S4] (3.14)"""
    r = so3.cay(x[3:])
    return pose(r, x[:3] + small.matvec(r, x[:3]))


def cay_inv(c: Pose) -> Twist:
    """Twist whose Cayley image is the pose, for a rotation by less than π; infinite or NaN at π."""
    x = so3.cay_inv(c[:3, :3])
    return jnp.concatenate([0.5 * (c[:3, 3] - small.cross(x, c[:3, 3])), x])


def dcay(x: Twist) -> Matrix6:
    """Right-trivialised differential of cay; dcay(0) = 2 I. [S4] (3.16)"""
    d = so3.dcay(x[3:])
    r = so3.cay(x[3:])
    return upper(jnp.eye(3, dtype=x.dtype) + r, small.matmul(so3.hat(x[:3]), d), d)


def dcay_apply(x: Twist, y: Twist) -> Twist:
    """dcay(x) y without forming the matrix."""
    rotation = so3.dcay_apply(x[3:], y[3:])
    turned = small.matvec(so3.cay(x[3:]), y[:3])
    return jnp.concatenate([y[:3] + turned + small.cross(x[:3], rotation), rotation])


def dcay_inv(x: Twist) -> Matrix6:
    """Inverse of dcay(x). [S4] (3.17)"""
    half = 0.5 * (jnp.eye(3, dtype=x.dtype) - so3.hat(x[3:]))
    return upper(half, -small.matmul(half, so3.hat(x[:3])), so3.dcay_inv(x[3:]))


def dcay_inv_apply(x: Twist, y: Twist) -> Twist:
    """dcay_inv(x) y without forming the matrix."""
    z = y[:3] - small.cross(x[:3], y[3:])
    translation = 0.5 * (z - small.cross(x[3:], z))
    return jnp.concatenate([translation, so3.dcay_inv_apply(x[3:], y[3:])])


ddcay = directional_derivative(dcay, "[S4] (3.22)")
ddcay_inv = directional_derivative(dcay_inv, "[S4] (3.23)")


def ad(x: Twist) -> Matrix6:
    """Adjoint representation of the algebra: ad(X) Y is the Lie bracket."""
    w = so3.hat(x[3:])
    return upper(w, so3.hat(x[:3]), w)


def Ad(c: Pose) -> Matrix6:
    """Adjoint representation of the group: hat(Ad(C) Y) = C hat(Y) C⁻¹."""
    r = c[:3, :3]
    return upper(r, small.matmul(so3.hat(c[:3, 3]), r), r)


checks.take_one_element(globals())
