"""Controllers: actuators that make a joint follow a reference."""

from typing import Any

import jax
from jaxtyping import Array
from typing_extensions import override

from lie_jax.mechanics import fields
from lie_jax.mechanics.fields import Parameter, Signal
from lie_jax.mechanics.forces.base import AbstractPairForce
from lie_jax.mechanics.forces.windings import AbstractWinding
from lie_jax.mechanics.joints.geometry import (
    between_points_in_parent,
    force_in_parent,
    slip_in_parent,
    torque_in_parent,
)
from lie_jax.mechanics.signals import value_at
from lie_jax.numerics import small


def _reference_and_rate(reference: Any, t: Array) -> tuple[Array, Array]:
    return jax.jvp(lambda t: value_at(reference, t), (t,), (jax.numpy.ones_like(t),))


class PDController(AbstractWinding):
    """Proportional-derivative controller of a hinge's angle.

    When the child is turned by φ about the axis, the torque on it about the axis is
    P (φ_d - φ) + D (φ̇_d - φ̇), and the parent gets its opposite. φ counts whole turns as that of the
    `TorsionalSpringDamper`, but is taken within half a turn of φ_d at first. The controller has no
    potential energy.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `axis`: (3,), of the hinge, in the parent's frame, of any length but zero.
    - `reference`: φ_d, rad, a constant or a differentiable function of the time (s) that returns
      one number; see the angle of the `RevoluteDriver` for functions that are not compiled anew.
    - `proportional`: P, N m/rad; `derivative`: D, N m s/rad; neither negative.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where φ is zero.

    Raises `ValueError` for values that break these rules.
    Source: [S3] 4.4.
    """

    is_relative = True
    axis: Parameter = fields.direction()
    reference: Signal = fields.signal("rad")
    proportional: Parameter = fields.non_negative("N m/rad")
    derivative: Parameter = fields.non_negative("N m s/rad", default=0.0)
    orientation: Parameter = fields.orientation()

    @override
    def _first(self, t):
        return value_at(self.reference, t)

    @override
    def wrenches(self, t, poses, velocities, u):
        reference, reference_rate = _reference_and_rate(self.reference, t)
        rate = self.rate(poses, velocities)
        error = reference - self.counted(t, poses, rate)
        torque = self.proportional * error + self.derivative * (reference_rate - rate)
        return torque_in_parent(poses, torque * self.axis)


class PrismaticPDController(AbstractPairForce):
    """Proportional-derivative controller of a slider's distance.

    At the distance s along the axis, the force on the child's point along the axis is
    P (s_d - s) + D (ṡ_d - ṡ), and the parent gets its opposite in the same place. It has no
    potential energy.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `axis`: (3,), of the slider, in the parent's frame, of any length but zero.
    - `reference`: s_d, m, a constant or a differentiable function of the time (s) that returns one
      number; see the angle of the `RevoluteDriver` for functions that are not compiled anew.
    - `proportional`: P, N/m; `derivative`: D, N s/m; neither negative.
    - `parent_point`, `child_point`: (3,), between which s is measured, in the bodies' frames, m.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    axis: Parameter = fields.direction()
    reference: Signal = fields.signal("m")
    proportional: Parameter = fields.non_negative("N/m")
    derivative: Parameter = fields.non_negative("N s/m", default=0.0)
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()

    @override
    def wrenches(self, t, poses, velocities, u):
        reference, reference_rate = _reference_and_rate(self.reference, t)
        error = reference - small.dot(self.axis, between_points_in_parent(self, *poses))
        error_rate = reference_rate - small.dot(self.axis, slip_in_parent(self, poses, velocities))
        force = self.proportional * error + self.derivative * error_rate
        return force_in_parent(self, force * self.axis, *poses)
