"""Configuration spaces: a group law, absolute coordinates and a local chart.

A space says how a configuration q, a flat array of absolute coordinates, moves along local
coordinates x, a flat array of as many numbers as there are velocities:

- `retract(q, x)` is the configuration reached from q: the local-global transition map of [S0];
- `inverse_retract(q0, q1)` is the x that leads from q0 to q1;
- `lift(q, v)` is the time derivative q̇ of the coordinates for the velocity v;
- `tangent_operator(x, dx)` is T(x) ẋ = dexp(-x) ẋ, the velocity that belongs to ẋ;
- `tangent_operator_inv(x, v)` is T(x)⁻¹ v, the ẋ that belongs to a velocity, for angles below 2π.

Integrators see nothing else of a configuration, so each of them runs on every space.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import algebra, checks
from lie_jax.groups import quaternion, se3, so3

Vector = Float[Array, "3"]


class AbstractSpace(eqx.Module):
    """What a configuration space offers; see the module's text."""

    @property
    @abc.abstractmethod
    def nq(self) -> int:
        """Number of absolute coordinates."""

    @property
    @abc.abstractmethod
    def nv(self) -> int:
        """Number of velocities and of local coordinates."""

    @abc.abstractmethod
    def retract(self, q: Float[Array, " nq"], x: Float[Array, " nv"]) -> Float[Array, " nq"]:
        """Configuration reached from q along the local coordinates x."""

    @abc.abstractmethod
    def inverse_retract(
        self, q0: Float[Array, " nq"], q1: Float[Array, " nq"]
    ) -> Float[Array, " nv"]:
        """Local coordinates that lead from q0 to q1."""

    @abc.abstractmethod
    def lift(self, q: Float[Array, " nq"], v: Float[Array, " nv"]) -> Float[Array, " nq"]:
        """Time derivative of the absolute coordinates for a velocity v."""

    @abc.abstractmethod
    def tangent_operator(
        self, x: Float[Array, " nv"], dx: Float[Array, " nv"]
    ) -> Float[Array, " nv"]:
        """Velocity dexp(-x) dx that belongs to the rate dx of the local coordinates."""

    @abc.abstractmethod
    def tangent_operator_inv(
        self, x: Float[Array, " nv"], v: Float[Array, " nv"]
    ) -> Float[Array, " nv"]:
        """Rate of the local coordinates that belongs to a velocity v."""

    @abc.abstractmethod
    def invalid(self, q: np.ndarray) -> str | None:
        """Why the numbers q are no configuration (with the fix), or None when they are one."""


class Rn(AbstractSpace):
    """The vector space Rⁿ: retraction is addition, and each integrator its classical self."""

    n: int = eqx.field(static=True)

    @property
    def nq(self) -> int:
        """Number of absolute coordinates."""
        return self.n

    @property
    def nv(self) -> int:
        """Number of velocities."""
        return self.n

    def retract(self, q, x):
        """Q + x."""
        return q + x

    def inverse_retract(self, q0, q1):
        """q1 - q0."""
        return q1 - q0

    def lift(self, q, v):
        """V."""
        return v

    def tangent_operator(self, x, dx):
        """Dx."""
        return dx

    def tangent_operator_inv(self, x, v):
        """V."""
        return v

    def invalid(self, q):
        """Every array of n numbers is a configuration."""
        return None


class _Rotation(NamedTuple):
    """How an orientation is stored: the operations on its absolute coordinates p."""

    size: int
    from_quaternion: Callable
    to_matrix: Callable
    retract: Callable
    inverse_retract: Callable
    lift: Callable


def _compose_quaternion(p, x):
    return quaternion.renormalize(quaternion.multiply(p, quaternion.exp(x)))


def _rotation_vector_difference(p0, p1):
    return so3.bch(-p0, p1)


def _rotation_vector_lift(p, omega_body):
    return so3.dexp_inv_apply(-p, omega_body)


_ROTATIONS = {
    "quaternion": _Rotation(
        4,
        lambda p: p,
        quaternion.to_matrix,
        _compose_quaternion,
        lambda p0, p1: quaternion.log(quaternion.multiply(quaternion.conjugate(p0), p1)),
        quaternion.lift,
    ),
    "rotation_vector": _Rotation(
        3, quaternion.log, so3.exp, so3.bch, _rotation_vector_difference, _rotation_vector_lift
    ),
}
_CHARTS = ("exp",)


class AbstractPoseSpace(AbstractSpace):
    """Poses of one rigid body: q = (r, orientation), six velocities.

    r is the position of the body frame's origin in the inertial frame (m). The orientation is a
    unit quaternion (`coordinates="quaternion"`, 7 numbers in all) or a rotation vector ψ with
    |ψ| <= π (`coordinates="rotation_vector"`, 6 numbers).
    """

    coordinates: eqx.AbstractVar[str]
    chart: eqx.AbstractVar[str]

    def __check_init__(self):
        name = type(self).__name__
        checks.one_of(f"{name}(coordinates=)", self.coordinates, tuple(_ROTATIONS))
        checks.one_of(f"{name}(chart=)", self.chart, _CHARTS)

    @property
    def _rotation(self) -> _Rotation:
        return _ROTATIONS[self.coordinates]

    @property
    def nq(self) -> int:
        """Number of absolute coordinates: 7 or 6."""
        return 3 + self._rotation.size

    @property
    def nv(self) -> int:
        """Number of velocities: 6."""
        return 6

    def configuration(
        self, position: Vector, orientation: Float[Array, "4"]
    ) -> Float[Array, " nq"]:
        """Absolute coordinates of a position (m) and an orientation given as a unit quaternion."""
        return jnp.concatenate([position, self._rotation.from_quaternion(orientation)])

    def pose(self, q: Float[Array, " nq"]) -> tuple[Float[Array, "3 3"], Vector]:
        """Rotation matrix (3, 3), body to inertial, and position (3,) of the body frame."""
        return self._rotation.to_matrix(q[3:]), q[:3]

    def lift(self, q, v):
        """Time derivative of the coordinates: (ṙ, rate of the orientation's numbers)."""
        velocity = self.origin_velocity(self.pose(q)[0], v)
        return jnp.concatenate([velocity, self._rotation.lift(q[3:], v[3:])])

    @abc.abstractmethod
    def origin_velocity(self, rotation: Float[Array, "3 3"], v: Float[Array, "6"]) -> Vector:
        """Inertial components of the velocity ṙ of the frame's origin (m/s)."""

    @abc.abstractmethod
    def origin_acceleration(
        self, rotation: Float[Array, "3 3"], v: Float[Array, "6"], dv: Float[Array, "6"]
    ) -> Vector:
        """Inertial components of r̈ (m/s²) for velocities v and their time derivatives dv."""

    @abc.abstractmethod
    def velocity_from_world(self, rotation: Float[Array, "3 3"], velocity: Vector) -> Vector:
        """The first three velocities for a given ṙ: inverse of `origin_velocity`."""

    def invalid(self, q):
        """A quaternion must have unit norm, a rotation vector at most the norm π."""
        orientation = np.asarray(q[3:])
        norm = float(np.linalg.norm(orientation))
        slack = np.sqrt(np.finfo(orientation.dtype).eps)
        if self.coordinates == "quaternion" and abs(norm - 1.0) > slack:
            return (
                f"the quaternion {orientation.tolist()} has norm {norm:.9g}; it must be a unit "
                "quaternion, scalar first: divide it by its norm"
            )
        if self.coordinates == "rotation_vector" and norm > np.pi + slack:
            return (
                f"the rotation vector {orientation.tolist()} has norm {norm:.9g} > π; use the "
                "principal one, ψ (1 - 2π/|ψ|)"
            )
        return None


class R3SO3(AbstractPoseSpace):
    """Rigid-body configurations as the direct product R³ × SO(3), v = (ṙ, ω).

    The linear velocity ṙ has inertial components, the angular velocity ω body components.

    **Arguments:** `coordinates`: `"quaternion"` or `"rotation_vector"`, how an orientation is
    stored; `chart`: `"exp"`, the local coordinates. Raises `ValueError` for any other word.
    Source: [S3] (29), [S0] Table 1, with r' = r + Δr.
    """

    coordinates: str = eqx.field(static=True, default="quaternion")
    chart: str = eqx.field(static=True, default="exp")

    def retract(self, q, x):
        """Add the translation, turn by the rotation vector in the body frame."""
        return jnp.concatenate([q[:3] + x[:3], self._rotation.retract(q[3:], x[3:])])

    def inverse_retract(self, q0, q1):
        """Difference of positions and rotation vector from q0 to q1."""
        return jnp.concatenate([q1[:3] - q0[:3], self._rotation.inverse_retract(q0[3:], q1[3:])])

    def tangent_operator(self, x, dx):
        """The translation as it is, dexp(-x) on the rotation."""
        return jnp.concatenate([dx[:3], so3.dexp_apply(-x[3:], dx[3:])])

    def tangent_operator_inv(self, x, v):
        """The translation as it is, dexp_inv(-x) on the rotation."""
        return jnp.concatenate([v[:3], so3.dexp_inv_apply(-x[3:], v[3:])])

    def origin_velocity(self, rotation, v):
        """v[:3]."""
        return v[:3]

    def origin_acceleration(self, rotation, v, dv):
        """dv[:3]."""
        return dv[:3]

    def velocity_from_world(self, rotation, velocity):
        """The velocity itself."""
        return velocity


class SE3(AbstractPoseSpace):
    """Rigid-body configurations as the group of Euclidean motions SE(3), v = (Rᵀ ṙ, ω).

    Both parts of the velocity have body components: v is the body-fixed twist.

    **Arguments:** `coordinates`: `"quaternion"` or `"rotation_vector"`, how an orientation is
    stored; `chart`: `"exp"`, the local coordinates. Raises `ValueError` for any other word.
    Source: [S0] (64), (68).
    """

    coordinates: str = eqx.field(static=True, default="quaternion")
    chart: str = eqx.field(static=True, default="exp")

    def retract(self, q, x):
        """Screw motion along x in the body frame."""
        translation = so3.dexp_apply(x[3:], x[:3])
        rotation = self._rotation.to_matrix(q[3:])
        return jnp.concatenate(
            [
                q[:3] + algebra.matvec(rotation, translation),
                self._rotation.retract(q[3:], x[3:]),
            ]
        )

    def inverse_retract(self, q0, q1):
        """Twist of the screw motion from q0 to q1."""
        x = self._rotation.inverse_retract(q0[3:], q1[3:])
        rotation = self._rotation.to_matrix(q0[3:])
        translation = algebra.matvec(rotation.T, q1[:3] - q0[:3])
        return jnp.concatenate([so3.dexp_inv_apply(x, translation), x])

    def tangent_operator(self, x, dx):
        """dexp(-x) of SE(3)."""
        return se3.dexp_apply(-x, dx)

    def tangent_operator_inv(self, x, v):
        """dexp_inv(-x) of SE(3)."""
        return se3.dexp_inv_apply(-x, v)

    def origin_velocity(self, rotation, v):
        """R v[:3]."""
        return algebra.matvec(rotation, v[:3])

    def origin_acceleration(self, rotation, v, dv):
        """R (dv[:3] + ω × v[:3])."""
        return algebra.matvec(rotation, dv[:3] + algebra.cross(v[3:], v[:3]))

    def velocity_from_world(self, rotation, velocity):
        """Rᵀ ṙ."""
        return algebra.matvec(rotation.T, velocity)


class Power(AbstractSpace):
    """n copies of one space, stored one after the other: the configurations of n bodies."""

    factor: AbstractSpace
    n: int = eqx.field(static=True)

    @property
    def nq(self) -> int:
        """Number of absolute coordinates of all copies."""
        return self.n * self.factor.nq

    @property
    def nv(self) -> int:
        """Number of velocities of all copies."""
        return self.n * self.factor.nv

    def _each(self, function: Callable, *arrays: Array) -> Array:
        if self.n == 1:
            return function(*arrays)
        return jax.vmap(function)(*(a.reshape(self.n, -1) for a in arrays)).reshape(-1)

    def retract(self, q, x):
        """Each copy's retraction."""
        return self._each(self.factor.retract, q, x)

    def inverse_retract(self, q0, q1):
        """Each copy's inverse retraction."""
        return self._each(self.factor.inverse_retract, q0, q1)

    def lift(self, q, v):
        """Each copy's lift."""
        return self._each(self.factor.lift, q, v)

    def tangent_operator(self, x, dx):
        """Each copy's tangent operator."""
        return self._each(self.factor.tangent_operator, x, dx)

    def tangent_operator_inv(self, x, v):
        """Each copy's inverse tangent operator."""
        return self._each(self.factor.tangent_operator_inv, x, v)

    def invalid(self, q):
        """The first copy that is no configuration."""
        for i, part in enumerate(np.asarray(q).reshape(self.n, -1)):
            reason = self.factor.invalid(part)
            if reason is not None:
                return f"body {i}: {reason}"
        return None
