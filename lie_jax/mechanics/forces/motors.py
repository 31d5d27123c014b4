"""Motors: actuators that exert in a joint what an input says."""

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from lie_jax.mechanics.forces.base import AbstractForce, check_input, entry, torques_about
from lie_jax.mechanics.joints.base import (
    as_direction,
    check_direction,
    check_points,
    force_in_parent,
    named,
)
from lie_jax.numerics.conversion import as_float


class AbstractMotor(AbstractForce):
    """What motors have in common: two bodies, an axis and an input."""

    is_load: ClassVar[bool] = True
    parent: eqx.AbstractVar[str]
    child: eqx.AbstractVar[str]
    axis: eqx.AbstractVar[Float[Array, "..."]]
    input: eqx.AbstractVar[int]

    @property
    def bodies(self):
        """Parent and child."""
        return (self.parent, self.child)

    def _check(self):
        check_direction(self)
        check_input(self, named(self))


class RevoluteMotor(AbstractMotor):
    """A motor in a hinge: the torque u[input] (N m) on the child about the axis, its opposite on
    the parent.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis`: (3,), in the parent's
    frame, any length, as in the `RevoluteJoint`, which is another element; `input`: number of an
    entry of the inputs u. It has no potential energy. Raises `ValueError` for other shapes, a zero
    axis and a number that is no index.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    input: int = eqx.field(static=True)

    def __check_init__(self):
        self._check()

    def wrenches(self, t, poses, velocities, u):
        """The torque on the child, its opposite on the parent, and no force."""
        return torques_about(self.axis, poses, entry(u, self.input))


class PrismaticMotor(AbstractMotor):
    """A motor in a slider: the force u[input] (N) on the child's point along the axis, its
    opposite on the parent in the same place.

    **Arguments:** `parent`, `child`, `axis`, `parent_point`, `child_point`: as in the
    `PrismaticJoint`, which is another element; `input`: number of an entry of the inputs u. It has
    no potential energy. Raises `ValueError` for other shapes, a zero axis and a number that is no
    index.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    input: int = eqx.field(static=True)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))

    def __check_init__(self):
        self._check()
        check_points(self)

    def wrenches(self, t, poses, velocities, u):
        """The force at the child's point, and its opposite on the parent in the same place."""
        parent, child = poses
        return force_in_parent(self, parent, child, entry(u, self.input) * self.axis)
