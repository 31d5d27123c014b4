"""Joints that move a coordinate, or several, as a function of the time."""

from collections.abc import Callable
from typing import Any, no_type_check

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import Parameter, Signal
from lie_jax.mechanics.joints.along import AbstractAlongJoints, JointCoordinate, coordinate_of
from lie_jax.mechanics.joints.base import AbstractJoint
from lie_jax.mechanics.joints.composed import AbstractComposedJoint
from lie_jax.mechanics.joints.conditions import (
    AbstractCondition,
    HeldPoint,
    SameOrientation,
)
from lie_jax.mechanics.joints.geometry import nearest_turn
from lie_jax.mechanics.signals import as_signal, check_signal, value_at
from lie_jax.numerics import small


class JointDriver(AbstractAlongJoints, AbstractJoint):
    """Moves a coordinate of a joint as a function of the time.

    The constraint is the coordinate minus its value, of an angle between -π and π. The driver's
    torque (N m) or force (N) on the child along the coordinate is minus the multiplier.

    **Arguments:**

    - `joint`: a joint of the mechanism, with coordinates; the driver is an element beside it.
    - `coordinate`: number of the coordinate, which joints with one coordinate do not need.
    - `value`: of the coordinate (rad or m), a function of the time (s) that returns one number,
      twice differentiable, or a constant that locks it. A function that is an `equinox.Module` with
      `__call__`, or a `jax.tree_util.Partial`, is not compiled anew when its parameters change.
    - `name`: the label in readings.

    Raises `ValueError` for values that break these rules.
    """

    rows = 1
    driven: JointCoordinate = fields.joint(coordinate_of)
    value: Signal = fields.signal("rad or m")

    @no_type_check
    def __init__(
        self,
        joint: AbstractJoint,
        coordinate: int | None = None,
        *,
        value: ArrayLike | Callable,
        name: str | None = None,
    ):
        self.driven = coordinate_of(joint, coordinate)
        self.parent, self.child = self.driven.joint.parent, self.driven.joint.child
        self.value, self.name = value, name

    @property
    @override
    def along(self):
        return (self.driven,)

    @property
    @override
    def counts_turns(self):
        # An angle and its value may differ by whole turns.
        return False

    @override
    def constraint(self, t, parent, child):
        error = self.principal(parent, child) - value_at(self.value, t)
        return nearest_turn(error, jnp.zeros_like(error)) if self.driven.is_angle else error

    @override
    def leaves_range(self, t, poses, velocities):
        return None


COORDINATES = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")


def check_coordinates(where: str, words: tuple[str, ...]) -> None:
    """Raise unless the words are some of `COORDINATES`, in their order."""
    for word in words:
        checks.one_of(where, word, COORDINATES)
    if not words or list(words) != sorted(set(words), key=COORDINATES.index):
        raise ValueError(
            f"{where} is {words!r}; it must hold at least one of the words "
            f"{', '.join(COORDINATES)}, each once and in this order."
        )


class CoordinateJoint(AbstractComposedJoint):
    """Chosen coordinates of the child against the parent, held or moved as functions of time.

    Against the ground these are absolute coordinates of a point of the body and of its orientation.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `coordinates`: some of `"x"`, `"y"`, `"z"`, the components of the vector from the parent's to
      the child's point along the parent's axes, and `"rotation_x"`, `"rotation_y"`, `"rotation_z"`,
      the turn about these axes from where the child has the `orientation`, in this order.
    - `values`: one for each of them (m or rad), constants or a function of the time (s) that
      returns them, twice differentiable; zeros without.
    - `parent_point`, `child_point`: (3,), in the bodies' frames, m.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where rotations are zero.

    The values of rotations are the components of a rotation vector, of which those that are not
    held count as zero. Their constraints are the components of the turn by which the child is ahead
    of it (sin φ n for a turn by φ about n, which also vanishes half a turn away), those of "x", "y"
    and "z" the errors (m). The multipliers are the force (N), at the child's point, and torque (N
    m) by which the child acts on the parent along those axes.
    """

    coordinates: Any = eqx.field(static=True, converter=tuple)
    values: Any = eqx.field(converter=as_signal, default=None)
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    def __check_init__(self):
        check_coordinates(f"{element_name(self)}.coordinates", self.coordinates)
        if self.values is not None:
            unit = "m or rad, one for each coordinate"
            check_signal(f"{element_name(self)}.values", self.values, (self.rows,), unit)

    @property
    @override
    def rows(self):
        return len(self.coordinates)

    @override
    def conditions(self, t):
        dtype = self.child_point.dtype
        held = np.asarray([[a == b for b in COORDINATES] for a in self.coordinates], dtype)
        values = jnp.zeros(6, dtype)
        if self.values is not None:
            values = small.matvec(jnp.asarray(held.T), value_at(self.values, t))
        distances = sum(word in COORDINATES[:3] for word in self.coordinates)
        conditions: list[AbstractCondition] = []
        if distances:
            wanted_point = self.parent_point + values[:3]
            along = jnp.asarray(held[:distances, :3])
            conditions.append(HeldPoint(wanted_point, self.child_point, along))
        if distances < self.rows:
            wanted = quaternion.multiply(quaternion.exp(values[3:]), self.orientation)
            about = None if self.rows - distances == 3 else jnp.asarray(held[distances:, 3:])
            conditions.append(SameOrientation(wanted, about))
        return tuple(conditions)
