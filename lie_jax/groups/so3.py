"""The rotation group SO(3): elements are matrices (3, 3), algebra elements vectors (3,).

A matrix maps body to inertial components; see `rotation_algebra` for the differentials. All
functions take one element; use `jax.vmap` for batches.
"""

import jax.numpy as jnp
from jax.typing import DTypeLike

from lie_jax import checks
from lie_jax.groups import quaternion, series
from lie_jax.groups.rotation_algebra import *  # noqa: F403  the differentials of both groups
from lie_jax.groups.rotation_algebra import Matrix, Vector, with_square
from lie_jax.numerics import small


def identity(dtype: DTypeLike = float) -> Matrix:
    """The unit rotation."""
    return jnp.eye(3, dtype=dtype)


def hat(x: Vector) -> Matrix:
    """Skew matrix of a vector (3,): hat(x) y = x × y."""
    return small.hat(x)


def vee(x: Matrix) -> Vector:
    """Vector of the skew part of a matrix (3, 3); inverse of `hat`."""
    return -0.5 * small.axial(x)


def compose(a: Matrix, b: Matrix) -> Matrix:
    """Product of two rotations."""
    return small.matmul(a, b)


def inverse(a: Matrix) -> Matrix:
    """Inverse rotation."""
    return a.T


def act(a: Matrix, y: Vector) -> Vector:
    """The rotated vector."""
    return small.matvec(a, y)


def lift(a: Matrix, omega_body: Vector) -> Matrix:
    """Time derivative Ṙ = R hat(ω) for the body-fixed angular velocity ω (rad/s)."""
    return small.matmul(a, small.hat(omega_body))


def Ad(r: Matrix) -> Matrix:
    """Adjoint representation of the group: hat(Ad(r) y) = r hat(y) rᵀ."""
    return r


def exp(x: Vector) -> Matrix:
    """Rotation by |x| radians about x. [S4] (2.6)"""
    skew, square, t = with_square(x)
    return jnp.eye(3, dtype=x.dtype) + series.c1(t) * skew + series.c2(t) * square


def log(r: Matrix) -> Vector:
    """Principal rotation vector, |log(r)| <= π up to rounding, of a rotation matrix (3, 3).

    At π rounding decides the sign. `quaternion.from_matrix` checks that a matrix is a rotation.
    """
    return quaternion.log(quaternion.from_rotation(r))


def cay(x: Vector) -> Matrix:
    """Unscaled Cayley map (I - x̃)⁻¹(I + x̃): rotation by 2 arctan|x| about x. [S4] (3.7)

    The x are Rodrigues parameters tan(φ/2) n: every rotation by less than π has one.
    """
    skew, square, t = with_square(x)
    return jnp.eye(3, dtype=x.dtype) + 2.0 / (1.0 + t) * (skew + square)


def cay_inv(r: Matrix) -> Vector:
    """Rodrigues parameters of a rotation by less than π; infinite or NaN at π."""
    return quaternion.cay_inv(quaternion.from_rotation(r))


def cay2(x: Vector) -> Matrix:
    """Second-order Cayley map cay(x)²: rotation by 4 arctan|x| about x. [S0] Sect. 7

    Modified Rodrigues parameters x = tan(φ/4) n chart all rotations by less than 2π.
    """
    return quaternion.to_matrix(quaternion.cay2(x))


def cay2_inv(r: Matrix) -> Vector:
    """Modified Rodrigues parameters of a rotation; the ones with |x| <= 1, for angles up to π."""
    return quaternion.cay2_inv(quaternion.from_rotation(r))


def bch(x1: Vector, x2: Vector) -> Vector:
    """log(exp(x1) exp(x2)), the principal rotation vector of two in sequence. [S0] (74)"""
    return quaternion.log(quaternion.multiply(quaternion.exp(x1), quaternion.exp(x2)))


checks.take_one_element(globals())
