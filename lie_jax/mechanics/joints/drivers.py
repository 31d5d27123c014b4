"""Constraints that move a joint or single coordinates as a function of the time."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics.forces.base import as_signal, check_signal, value_at
from lie_jax.mechanics.joints.base import (
    AbstractJoint,
    Wrench,
    add_torques,
    angle_about,
    angle_change,
    as_direction,
    between_points_in_parent,
    check_direction,
    check_orientation,
    check_points,
    cosine_of_turn,
    force_in_parent,
    in_parent,
    named,
    turn,
    turned,
    turned_about,
    turning_torques,
)
from lie_jax.numerics import gather, small
from lie_jax.numerics.conversion import as_float


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

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    angle: Float[Array, "..."] | Callable = eqx.field(converter=as_signal)
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        check_direction(self)
        check_orientation(self)
        check_signal(f"{named(self)}.angle", self.angle, (), "rad")

    @property
    def rows(self):
        """One."""
        return 1

    def _at(self, t: Array) -> Array:
        """The orientation that the child should have."""
        return turned_about(self.axis, value_at(self.angle, t), self.orientation)

    def constraint(self, t, parent, child):
        """Error in the angle, positive if the child is ahead."""
        return angle_about(self.axis, turned(parent, child, self._at(t)))[None]

    def reaction(self, t, parent, child, multipliers):
        """The multiplier as torques about the axis."""
        torque = multipliers[0] * angle_change(self.axis, turned(parent, child, self._at(t)))
        none = jnp.zeros_like(self.axis)
        return Wrench(none, -torque), Wrench(none, in_parent(child, parent, torque))


class PrismaticDriver(AbstractJoint):
    """Moves the child along an axis of the parent by a given distance; the slider is another joint.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `axis`, `parent_point`,
    `child_point`: those of the prismatic or cylindrical joint that it drives; `distance`: of the
    child's point from the parent's along the axis (m), a function of the time (s) or a constant, as
    the angle of the `RevoluteDriver`.

    The constraint is the error in the distance (m). The driver's force on the child along the axis
    is minus the multiplier (N). Raises `ValueError` for other shapes and a zero axis.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    axis: Float[Array, "..."] = eqx.field(converter=as_direction)
    distance: Float[Array, "..."] | Callable = eqx.field(converter=as_signal)
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))

    def __check_init__(self):
        check_points(self)
        check_direction(self)
        check_signal(f"{named(self)}.distance", self.distance, (), "m")

    @property
    def rows(self):
        """One."""
        return 1

    def constraint(self, t, parent, child):
        """Distance that the child is ahead."""
        distance = small.dot(self.axis, between_points_in_parent(self, parent, child))
        return (distance - value_at(self.distance, t))[None]

    def reaction(self, t, parent, child, multipliers):
        """The multiplier as a force along the axis at the child's point."""
        return force_in_parent(self, parent, child, multipliers[0] * self.axis)


COORDINATES = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")


class CoordinateJoint(AbstractJoint):
    """Holds chosen coordinates of the child against the parent, or moves them as the time tells.

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

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    coordinates: tuple[str, ...] = eqx.field(static=True, converter=tuple)
    values: Float[Array, "..."] | Callable | None = eqx.field(
        converter=lambda values: None if values is None else as_signal(values), default=None
    )
    parent_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    child_point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    orientation: Float[Array, "..."] = eqx.field(converter=as_float, default=(1.0, 0.0, 0.0, 0.0))

    def __check_init__(self):
        check_points(self)
        check_orientation(self)
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
    def rows(self):
        """As many as there are coordinates."""
        return len(self.coordinates)

    def constraint(self, t, parent, child):
        """How far the child is ahead in each coordinate."""
        place, turns = self._held(t)
        apart = between_points_in_parent(self, parent, child) - place
        ahead = turn(parent, child, self._orientation_at(turns))
        return gather.pick(self._places, jnp.concatenate([apart, ahead]))

    def side(self, t, parent, child):
        """The cosine of the turn from where it should be, if no rotation is free."""
        if not set(COORDINATES[3:]) <= set(self.coordinates):
            return None
        return cosine_of_turn(parent, child, self._orientation_at(self._held(t)[1]))

    def reaction(self, t, parent, child, multipliers):
        """The multipliers as a force at the child's point and as torques."""
        force, torque = self._spread(multipliers)
        torques = turning_torques(parent, child, self._orientation_at(self._held(t)[1]), torque)
        return add_torques(force_in_parent(self, parent, child, force), torques)

    @property
    def _places(self) -> tuple[int, ...]:
        return tuple(COORDINATES.index(word) for word in self.coordinates)

    def _spread(self, values: Array) -> tuple[Array, Array]:
        """Numbers of the coordinates that are held, as two vectors with zeros for the others."""
        places = self._places
        own = tuple(places.index(i) if i in places else -1 for i in range(len(COORDINATES)))
        both = gather.pick(own, values)
        return both[:3], both[3:]

    def _held(self, t: Array) -> tuple[Array, Array]:
        """The position and the rotation vector that the child should have."""
        if self.values is None:
            return jnp.zeros_like(self.child_point), jnp.zeros_like(self.child_point)
        return self._spread(value_at(self.values, t))

    def _orientation_at(self, turns: Array) -> Array:
        return quaternion.multiply(quaternion.exp(turns), self.orientation)
