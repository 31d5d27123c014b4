"""The adjoint representation of SE(3): elements are matrices (6, 6), algebra elements twists (6,).

The elements Ad(C) transform twists between frames. Canonical coordinates are those of `se3`:
exp(ad(X)) = Ad(exp(X)). The Cayley map differs: the position of cay(ad(X)), X = (y, x), is
`so3.dcay`(x) y, that of `se3.cay`(X) is (I + R) y. Source: [S4] Sect. 2(d), 3(d).
"""

import jax.numpy as jnp
from jax.typing import DTypeLike

from lie_jax import checks
from lie_jax.groups import se3, so3
from lie_jax.groups.rotation_algebra import directional_derivative
from lie_jax.groups.se3 import Matrix6, Pose, Twist
from lie_jax.numerics import small

dexp = se3.dexp
dexp_apply = se3.dexp_apply
dexp_inv = se3.dexp_inv
dexp_inv_apply = se3.dexp_inv_apply
ddexp = se3.ddexp
ddexp_inv = se3.ddexp_inv
ad = hat = se3.ad


def identity(dtype: DTypeLike = float) -> Matrix6:
    """The unit matrix."""
    return jnp.eye(6, dtype=dtype)


def to_pose(a: Matrix6) -> Pose:
    """Pose (4, 4) whose adjoint matrix is `a`."""
    r = a[:3, :3]
    return se3.pose(r, so3.vee(small.matmul(a[:3, 3:], r.T)))


def compose(a: Matrix6, b: Matrix6) -> Matrix6:
    """Product of two elements."""
    return small.matmul(a, b)


def inverse(a: Matrix6) -> Matrix6:
    """Inverse element."""
    return se3.Ad(se3.inverse(to_pose(a)))


def act(a: Matrix6, y: Twist) -> Twist:
    """The twist in the other frame."""
    return small.matvec(a, y)


def lift(a: Matrix6, v: Twist) -> Matrix6:
    """Time derivative a ad(V) for the body-fixed twist V. [S4] (2.57)"""
    return small.matmul(a, se3.ad(v))


def vee(x: Matrix6) -> Twist:
    """Twist of a matrix ad(X); inverse of `hat`."""
    return jnp.concatenate([so3.vee(x[:3, 3:]), so3.vee(x[:3, :3])])


def Ad(a: Matrix6) -> Matrix6:
    """Adjoint representation of the group: the element itself."""
    return a


def exp(x: Twist) -> Matrix6:
    """exp(ad(X)) = Ad(exp(X)). [S4] (2.59)"""
    return se3.Ad(se3.exp(x))


def log(a: Matrix6) -> Twist:
    """Twist whose exponential is the element, with a rotation of at most π."""
    return se3.log(to_pose(a))


def cay(x: Twist) -> Matrix6:
    """Cayley map (I - ad(X))⁻¹(I + ad(X)). [S4] (3.25), (3.29)"""
    return se3.Ad(se3.pose(so3.cay(x[3:]), so3.dcay_apply(x[3:], x[:3])))


def cay_inv(a: Matrix6) -> Twist:
    """Twist whose Cayley image is the element; infinite or NaN for a rotation by π."""
    c = to_pose(a)
    x = so3.cay_inv(c[:3, :3])
    return jnp.concatenate([so3.dcay_inv_apply(x, c[:3, 3]), x])


def dcay(x: Twist) -> Matrix6:
    """Right-trivialised differential of cay; dcay(0) = 2 I.

    ad(X) is the dual number x̃ + ε ỹ, so that the coupling block is the derivative of that of SO(3).
    """
    d = so3.dcay(x[3:])
    return se3.upper(d, so3.ddcay(x[3:], x[:3]), d)


def dcay_inv(x: Twist) -> Matrix6:
    """Inverse of dcay(x), for every x."""
    d = so3.dcay_inv(x[3:])
    return se3.upper(d, so3.ddcay_inv(x[3:], x[:3]), d)


ddcay = directional_derivative(dcay)
ddcay_inv = directional_derivative(dcay_inv)

checks.take_one_element(globals())
