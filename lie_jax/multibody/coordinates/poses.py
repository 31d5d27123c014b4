"""Configuration spaces of one rigid body: the local-global transition maps of [S0] Table 1.

A space is a group (`R3SO3` or `SE3`), a way to store the orientation and a chart, the map from the
local coordinates of a step to the group. Local coordinates of the chart "cayley" are Rodrigues
parameters tan(φ/2) n: unscaled as in the paper, half the rotation of a small step.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.groups.charts import ROTATION_CHARTS, STORAGES, AbstractChart, Chart, Storage
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.numerics import small

Vector = Float[Array, "3"]


class AbstractPoseSpace(AbstractCoordinates):
    """Poses of one rigid body: q = (r, orientation), six velocities.

    r is the position of the body frame's origin in the inertial frame (m). The orientation is a
    unit quaternion (`coordinates="quaternion"`, 7 numbers in all), a rotation vector ψ with
    |ψ| <= π (`coordinates="rotation_vector"`, 6 numbers), or Tait-Bryan angles xyz with
    |β| < π/2 (`coordinates="tait_bryan"`, 6 numbers), singular at the ends.

    With `lie_jax.RungeKutta`, which integrates these numbers as if they were a vector space, a
    space is [S3]'s classical formulation 1 with the coordinates as rotation parameters.
    """

    nv = 6
    # The charts of the group by name.
    charts: ClassVar[Mapping[str, Any]]
    coordinates: eqx.AbstractVar[str]
    chart: eqx.AbstractVar[Any]

    def __check_init__(self):
        name = type(self).__name__
        checks.one_of(f"{name}(coordinates=)", self.coordinates, tuple(STORAGES))
        if not (self.charts is ROTATION_CHARTS and isinstance(self.chart, AbstractChart)):
            checks.one_of(f"{name}(chart=)", self.chart, tuple(self.charts))
        elif objection := self.chart.objection():
            raise ValueError(
                f"{name}(chart=) is a {type(self.chart).__name__}, which {objection}: see "
                "lie_jax.extend.AbstractChart."
            )

    @property
    def _storage(self) -> Storage:
        return STORAGES[self.coordinates]

    @property
    def _rotation_chart(self) -> Chart | AbstractChart:
        is_own = isinstance(self.chart, AbstractChart)
        return self.chart if is_own else ROTATION_CHARTS[self.chart]

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

    @override
    @checks.one_element
    def configuration(self, position: Vector, orientation: Float[Array, "4"]):
        """(r, orientation's numbers); raises `ValueError` for another shape or norm."""
        checks.unit_quaternion("configuration: orientation", orientation)
        return jnp.concatenate([position, self._storage.from_quaternion(orientation)])

    @override
    def pose(self, q):
        position, p = small.split_at(q, 3)
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

    @override
    def deviation(self, q):
        of_orientation = jnp.broadcast_to(self._storage.deviation(q[3:]), (3,))
        return jnp.concatenate([jnp.zeros_like(of_orientation), of_orientation])

    @override
    def regular(self, q):
        return self._storage.regular(q[..., 3:])

    @override
    def invalid(self, q):
        return self._storage.invalid(np.asarray(q[3:]))
