"""Configuration spaces of one rigid body: the local-global transition maps of [S0] Table 1.

A space is a group (`R3SO3` or `SE3`), a way to store the orientation and a chart, the map from the
local coordinates of a step to the group. Local coordinates of the chart "cayley" are Rodrigues
parameters tan(φ/2) n: unscaled as in the paper, half the rotation of a small step.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import closed_forms, quaternion, se3, so3, tait_bryan
from lie_jax.mechanics.coordinates.base import AbstractCoordinates
from lie_jax.numerics import small

Vector = Float[Array, "3"]


class _Storage(NamedTuple):
    """How an orientation is stored: between its absolute coordinates p and a unit quaternion."""

    size: int
    from_quaternion: Callable
    to_quaternion: Callable
    to_matrix: Callable
    lift: Callable


def _rotation_vector_lift(p, omega_body):
    return so3.dexp_inv_apply(-p, omega_body)


_STORAGES = {
    "quaternion": _Storage(
        4, quaternion.renormalize, lambda p: p, quaternion.to_matrix, quaternion.lift
    ),
    "rotation_vector": _Storage(3, quaternion.log, quaternion.exp, so3.exp, _rotation_vector_lift),
    "tait_bryan": _Storage(
        3,
        tait_bryan.from_quaternion,
        tait_bryan.to_quaternion,
        tait_bryan.to_matrix,
        tait_bryan.lift,
    ),
}


class _Chart(NamedTuple):
    """Local coordinates of rotations: ψ, its inverse, dψ(x) y, dψ(x)⁻¹ y, the derivative of the
    matrix dψ(x)⁻¹ along u, dψ(0) = slope I, and the angle that turns stay below.
    """

    map: Callable
    inverse: Callable
    differential: Callable
    differential_inv: Callable
    differential_inv_derivative: Callable
    slope: float
    largest: float


_ROTATION_CHARTS = {
    "exp": _Chart(
        quaternion.exp,
        quaternion.log,
        so3.dexp_apply,
        so3.dexp_inv_apply,
        closed_forms.so3_ddexp_inv,
        1.0,
        2.0 * np.pi,
    ),
    "cayley": _Chart(
        quaternion.cay,
        quaternion.cay_inv,
        so3.dcay_apply,
        so3.dcay_inv_apply,
        closed_forms.so3_ddcay_inv,
        2.0,
        np.pi,
    ),
    "cayley2": _Chart(
        quaternion.cay2,
        quaternion.cay2_inv,
        so3.dcay2_apply,
        so3.dcay2_inv_apply,
        closed_forms.so3_ddcay2_inv,
        4.0,
        2.0 * np.pi,
    ),
}


class _ScrewChart(NamedTuple):
    """Local coordinates (y, x) of poses: position from (x, y), y from it, and dψ on twists."""

    translation: Callable
    translation_inv: Callable
    differential: Callable
    differential_inv: Callable
    differential_inv_derivative: Callable


def _cay_translation(x, y):
    return y + quaternion.rotate(quaternion.cay(x), y)


def _cay_translation_inv(x, position):
    return 0.5 * (position - small.cross(x, position))


_SCREW_CHARTS = {
    "exp": _ScrewChart(
        so3.dexp_apply,
        so3.dexp_inv_apply,
        se3.dexp_apply,
        se3.dexp_inv_apply,
        closed_forms.se3_ddexp_inv,
    ),
    "cayley": _ScrewChart(
        _cay_translation,
        _cay_translation_inv,
        se3.dcay_apply,
        se3.dcay_inv_apply,
        closed_forms.se3_ddcay_inv,
    ),
}


class AbstractPoseSpace(AbstractCoordinates):
    """Poses of one rigid body: q = (r, orientation), six velocities.

    r is the position of the body frame's origin in the inertial frame (m). The orientation is a
    unit quaternion (`coordinates="quaternion"`, 7 numbers in all), a rotation vector ψ with
    |ψ| <= π (`coordinates="rotation_vector"`, 6 numbers), or Tait-Bryan angles xyz with
    |β| < π/2 (`coordinates="tait_bryan"`, 6 numbers), singular at the ends.

    With `lie_jax.RungeKutta`, which integrates these numbers as if they were a vector space, a
    space is [S3]'s classical formulation 1 with the coordinates as rotation parameters.
    """

    coordinates: eqx.AbstractVar[str]
    chart: eqx.AbstractVar[str]

    def __check_init__(self):
        name = type(self).__name__
        checks.one_of(f"{name}(coordinates=)", self.coordinates, tuple(_STORAGES))
        checks.one_of(f"{name}(chart=)", self.chart, self.charts())

    @classmethod
    @abc.abstractmethod
    def charts(cls) -> tuple[str, ...]:
        """The charts of the group by name."""

    @property
    def _storage(self) -> _Storage:
        return _STORAGES[self.coordinates]

    @property
    def _rotation_chart(self) -> _Chart:
        return _ROTATION_CHARTS[self.chart]

    def _turn(self, p: Array, x: Vector) -> Array:
        q = self._storage.to_quaternion(p)
        return self._storage.from_quaternion(quaternion.multiply(q, self._rotation_chart.map(x)))

    def _turn_between(self, p0: Array, p1: Array) -> Vector:
        q0, q1 = self._storage.to_quaternion(p0), self._storage.to_quaternion(p1)
        return self._rotation_chart.inverse(quaternion.multiply(quaternion.conjugate(q0), q1))

    @property
    def nq(self) -> int:
        """Number of absolute coordinates: 7 or 6."""
        return 3 + self._storage.size

    @property
    def nv(self) -> int:
        """Number of velocities: 6."""
        return 6

    @property
    def canonical(self) -> bool:
        """Whether the chart is the exponential map."""
        return self.chart == "exp"

    @checks.one_element
    def configuration(
        self, position: Vector, orientation: Float[Array, "4"]
    ) -> Float[Array, " nq"]:
        """Absolute coordinates of a position (m) and an orientation given as a unit quaternion.

        Raises `ValueError` for another shape or norm.
        """
        checks.unit_quaternion("configuration: orientation", orientation)
        return jnp.concatenate([position, self._storage.from_quaternion(orientation)])

    def pose(self, q: Float[Array, " nq"]) -> tuple[Float[Array, "3 3"], Vector]:
        """Rotation matrix (3, 3), body to inertial, and position (3,) of the body frame."""
        position, p = small.parted(q, 3)
        return self._storage.to_matrix(p), position

    def lift(self, q, v):
        """Time derivative of the coordinates: (ṙ, rate of the orientation's numbers)."""
        linear, omega = self.hybrid_velocity(self.pose(q)[0], q, v)
        return jnp.concatenate([linear, self._storage.lift(q[3:], omega)])

    def magnitude(self, q):
        """The distance |r| from the world origin for translations, one radian for rotations."""
        distance = jnp.sqrt(jnp.sum(q[:3] ** 2))
        return jnp.concatenate([jnp.broadcast_to(distance, 3), jnp.ones_like(q[:3])])

    def turn(self, v):
        """Turns by less than 2π, by less than π with the chart "cayley"."""
        angle = v[3:] / self._rotation_chart.largest
        return jnp.concatenate([jnp.zeros_like(angle), jnp.broadcast_to(jnp.sum(angle**2), (3,))])

    def regular(self, q):
        """Whether the orientation's numbers are away from a singularity."""
        if self.coordinates != "tait_bryan":
            return super().regular(q)
        return tait_bryan.regular(q[..., 3:])

    def invalid(self, q):
        """A quaternion must have unit norm, a rotation vector at most the norm π; see also
        `tait_bryan.invalid`.
        """
        orientation = np.asarray(q[3:])
        if self.coordinates == "tait_bryan":
            return tait_bryan.invalid(orientation)
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
