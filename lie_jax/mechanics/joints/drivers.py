"""Joints that move a coordinate, or several, as a function of the time."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import named
from lie_jax.mechanics.fields import Parameter, Signal
from lie_jax.mechanics.joints import composed
from lie_jax.mechanics.joints.base import AbstractJoint, Wrench
from lie_jax.mechanics.joints.composed import AbstractComposedJoint
from lie_jax.mechanics.joints.conditions import SameOrientation, StayAt, StayOnPlane
from lie_jax.mechanics.joints.geometry import (
    angle_about,
    angle_change,
    in_parent,
    turned,
    turned_about,
)
from lie_jax.mechanics.signals import as_signal, check_signal, value_at
from lie_jax.numerics import gather


class RevoluteDriver(AbstractJoint):
    """Turns the child about an axis of the parent by a given angle; the hinge is another joint.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis` (or normal) and
    `orientation`: those of the revolute, cylindrical or planar joint that it drives; `angle`: that
    joint's angle (rad), a function of the time (s) that returns one number, twice differentiable,
    or a constant that locks it. A function that is an `equinox.Module` with `__call__`, or a
    `jax.tree_util.Partial`, is not compiled anew when its parameters change.

    The constraint is the error in the angle (rad), between -π and π. The driver's torque on the
    child about the axis is minus the multiplier (N m). Raises `ValueError` for other shapes, a zero
    axis and an orientation that is no unit quaternion.
    """

    axis: Parameter = fields.direction()
    angle: Signal = fields.signal("rad")
    orientation: Parameter = fields.orientation()

    @property
    @override
    def rows(self):
        return 1

    def _rotation_ahead(self, t: Array, parent: Any, child: Any) -> Array:
        wanted = turned_about(self.axis, value_at(self.angle, t), self.orientation)
        return turned(parent, child, wanted)

    @override
    def constraint(self, t, parent, child):
        return angle_about(self.axis, self._rotation_ahead(t, parent, child))[None]

    @override
    def reaction(self, t, parent, child, multipliers):
        gradient = angle_change(self.axis, self._rotation_ahead(t, parent, child))
        torque, none = multipliers[0] * gradient, jnp.zeros_like(self.axis)
        return Wrench(none, -torque), Wrench(none, in_parent(child, parent, torque))


class PrismaticDriver(AbstractComposedJoint):
    """Moves the child along an axis of the parent by a given distance; the slider is another joint.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis`, `parent_point`,
    `child_point`: those of the prismatic or cylindrical joint that it drives; `distance`: of the
    child's point from the parent's along the axis (m), a function of the time (s) or a constant, as
    the angle of the `RevoluteDriver`.

    The constraint is the error in the distance (m). The driver's force on the child along the axis
    is minus the multiplier (N). Raises `ValueError` for other shapes and a zero axis.
    """

    axis: Parameter = fields.direction()
    distance: Signal = fields.signal("m")
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()

    @property
    @override
    def conditions(self):
        return (StayOnPlane(self.parent_point, self.child_point, self.axis),)

    @override
    def constraint(self, t, parent, child):
        """Distance from the plane where the child's point should be."""
        return super().constraint(t, parent, child) - value_at(self.distance, t)


COORDINATES = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")


class CoordinateJoint(AbstractJoint):
    """Chosen coordinates of the child against the parent, held or moved as functions of time.

    Against the ground these are absolute coordinates of a point of the body and of its orientation.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `coordinates`: some of `"x"`,
    `"y"`, `"z"`, the components of the vector from the parent's to the child's point along the
    parent's axes, and `"rotation_x"`, `"rotation_y"`, `"rotation_z"`, the turn about these axes
    from where the child has the `orientation`, in this order; `values`: one for each of them (m or
    rad), constants or a function of the time (s) that returns them, twice differentiable; zeros
    without; `parent_point`, `child_point`, `orientation`: as for the `RevoluteJoint`.

    The values of rotations are the components of a rotation vector, of which those that are not
    held count as zero. Their constraints are the components of the turn by which the child is ahead
    of it (sin φ n for a turn by φ about n, which also vanishes half a turn away), those of "x", "y"
    and "z" the errors (m). The multipliers are the force (N), at the child's point, and torque (N
    m) by which the child acts on the parent along those axes. Raises `ValueError` for other words
    and shapes and an orientation that is no unit quaternion.
    """

    coordinates: Any = eqx.field(static=True, converter=tuple)
    values: Any = eqx.field(
        converter=lambda values: None if values is None else as_signal(values), default=None
    )
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    def __check_init__(self):
        where = f"{named(self)}.coordinates"
        for word in self.coordinates:
            checks.one_of(where, word, COORDINATES)
        if not self.coordinates or list(self.coordinates) != sorted(
            set(self.coordinates), key=COORDINATES.index
        ):
            raise ValueError(
                f"{where} is {self.coordinates!r}; it must hold at least one of the words "
                f"{', '.join(COORDINATES)}, each once and in this order."
            )
        if self.values is not None:
            unit = "m or rad, one for each coordinate"
            check_signal(f"{named(self)}.values", self.values, (self.rows,), unit)

    @property
    @override
    def rows(self):
        return len(self.coordinates)

    def _held(self, t: Array) -> tuple[Array, tuple[StayAt, SameOrientation]]:
        """Position (3,) that the child should have, and conditions on all six coordinates."""
        none = jnp.zeros(6, self.child_point.dtype)
        values = none if self.values is None else self._spread(value_at(self.values, t))
        wanted = quaternion.multiply(quaternion.exp(values[3:]), self.orientation)
        position = StayAt(self.parent_point, self.child_point)
        return values[:3], (position, SameOrientation(wanted))

    @override
    def constraint(self, t, parent, child):
        position, conditions = self._held(t)
        ahead = composed.constraint(conditions, parent, child)
        ahead = jnp.concatenate([ahead[:3] - position, ahead[3:]])
        return gather.pick(self._numbers, ahead)

    @override
    def side(self, t, parent, child):
        """Cosine of the turn from the wanted orientation, if no rotation is free."""
        if not set(COORDINATES[3:]) <= set(self.coordinates):
            return None
        return self._held(t)[1][1].side(parent, child)

    @override
    def reaction(self, t, parent, child, multipliers):
        return composed.reaction(self._held(t)[1], parent, child, self._spread(multipliers))

    @override
    def stiffness(self, t, parent, child, multipliers):
        return composed.stiffness(self._held(t)[1], parent, child, self._spread(multipliers))

    @property
    def _numbers(self) -> tuple[int, ...]:
        return tuple(COORDINATES.index(word) for word in self.coordinates)

    def _spread(self, values: Array) -> Array:
        """Values of the held coordinates among all six, with zeros for the free ones."""
        numbers = self._numbers
        sources = (numbers.index(i) if i in numbers else -1 for i in range(len(COORDINATES)))
        return gather.pick(tuple(sources), values)
