"""Kinematic pairs, such as hinges and sliders: each lists the conditions of which it is made."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import OptionalParameter, Parameter
from lie_jax.mechanics.joints.composed import AbstractComposedJoint
from lie_jax.mechanics.joints.conditions import (
    Coincide,
    HeldDirection,
    HeldPoint,
    Parallel,
    SameOrientation,
)
from lie_jax.mechanics.joints.geometry import (
    angle_about,
    between_points_in_parent,
    force_in_parent,
    perpendicular,
    relative_rotation,
    slip_in_parent,
    torque_in_parent,
    turn_angles,
    turning,
)
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.numerics import small


class AbstractLowerPair(AbstractComposedJoint):
    """A joint whose coordinates are angles about and distances along the axes of its motions."""

    @override
    def coordinates(self, parent, child):
        # Subclasses declare the fields, in the order of their arguments.
        joint: Any = self
        rotation = relative_rotation(parent, child, joint.orientation)
        between = between_points_in_parent(self, parent, child)
        return jnp.stack(
            [
                angle_about(axis, rotation) if kind == "turn" else small.dot(axis, between)
                for kind, axis in ((motion.kind, motion.axis) for motion in self.motions() or ())
            ]
        )

    @override
    def coordinate_rate(self, number, poses, velocities):
        if self._has_own_coordinates:
            return super().coordinate_rate(number, poses, velocities)
        kind, axis = self._motion(number)
        if kind == "turn":
            return small.dot(axis, turning(poses, velocities))
        return small.dot(axis, slip_in_parent(self, poses, velocities))

    @override
    def wrenches_along(self, number, poses, effort):
        if self._has_own_coordinates:
            return super().wrenches_along(number, poses, effort)
        kind, axis = self._motion(number)
        if kind == "turn":
            return torque_in_parent(poses, effort * axis)
        return force_in_parent(self, effort * axis, *poses)

    @property
    def _has_own_coordinates(self) -> bool:
        """Whether a subclass has coordinates for which the closed forms here do not hold."""
        return type(self).coordinates is not AbstractLowerPair.coordinates

    def _motion(self, number: int) -> tuple[str, Any]:
        motion = (self.motions() or ())[number]
        return motion.kind, motion.axis


class SphericalJoint(AbstractComposedJoint):
    """Ball joint: a point of the parent and a point of the child coincide.

    The constraint is the inertial vector from the parent's to the child's point; its multipliers
    are the force (N, inertial) by which the child pulls at the parent.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `parent_point`, `child_point`: (3,), points that coincide, in the bodies' frames, m.
    - `armature`: kg m², not negative: inertia added about every axis, in `lie_jax.Minimal()` alone.

    Raises `ValueError` for values that break these rules.
    """

    rows = 3
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    armature: OptionalParameter = fields.non_negative("kg m²", default=None)

    @override
    def motions(self):
        return (Motion("swivel", None, *self.points, armature=self.armature),)

    @override
    def conditions(self, t):
        return (Coincide(*self.points),)


class RevoluteJoint(AbstractLowerPair):
    """Hinge: a point and an axis of the parent coincide with a point and an axis of the child.

    The coordinate is the angle (rad) by which the child is turned about the axis from `orientation`
    on. The five constraints are the inertial vector between the points (m) and the two components
    of the child's axis across the parent's; multipliers are in N and N m.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `axis`: (3,), in the parent's frame, of any length but zero.
    - `parent_point`, `child_point`: (3,), points of the axis that coincide, in the bodies' frames,
      m.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where the angle is zero.
    - `armature`: kg m², not negative: inertia added to the coordinate, in `lie_jax.Minimal()`
      alone; n² times that of a motor's rotor behind a gear of ratio n.

    Raises `ValueError` for values that break these rules.
    """

    rows = 5
    coordinate_units = ("rad",)
    axis: Parameter = fields.direction()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()
    armature: OptionalParameter = fields.non_negative("kg m²", default=None)

    @override
    def motions(self):
        return (Motion("turn", self.axis, *self.points, self.orientation, self.armature),)

    @override
    def conditions(self, t):
        return Coincide(*self.points), Parallel(self.axis, self.orientation)


def _check_skew(where: str, value: Any) -> None:
    checks.scalar(where, value, "rad")
    checks.finite(where, value)
    if not checks.has_tracers(value) and not 0.0 < float(value) < np.pi:
        raise ValueError(
            f"{where} is {float(value)!r}; it must lie between 0 and π (rad): axes that are "
            "parallel are one hinge, for which take lie_jax.RevoluteJoint."
        )


class UniversalJoint(AbstractComposedJoint):
    """Cardan joint: points coincide, an axis of the parent and one of the child keep their angle.

    The two axes are the arms of the joint's cross; the child turns about both. The coordinates are
    the angles (rad) by which the cross is turned about the parent's axis, and by which the child is
    turned about its own. The four constraints are the inertial vector between the points (m) and
    the error in the cosine of the angle between the axes; multipliers are a force (N) and, over the
    sine of that angle, a torque about the normal of the cross (N m).

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `axis`, `child_axis`: (3,), in the parent's and in the child's frame, of any length but zero.
    - `parent_point`, `child_point`: (3,), points that coincide, in the bodies' frames, m.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where both angles are zero and the axes have their `angle`; coordinates alone need it.
    - `angle`: between the axes, more than 0 and less than π, rad; a right angle without.

    Raises `ValueError` for values that break these rules.
    """

    rows = 4
    coordinate_units = ("rad", "rad")
    axis: Parameter = fields.direction()
    child_axis: Parameter = fields.direction("child's")
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()
    angle: OptionalParameter = fields.parameter(_check_skew, default=None)

    @override
    def motions(self):
        """Raises `ValueError` if the axes have another angle at the joint's orientation."""
        second_axis = quaternion.rotate(self.orientation, self.child_axis)
        cosine, held = small.dot(self.axis, second_axis), self._cosines()
        if not checks.has_tracers(cosine, held):
            wanted = 0.0 if held is None else float(held[0])
            limit = float(jnp.finfo(cosine.dtype).eps) ** 0.5
            if not abs(float(cosine) - wanted) <= limit:
                must = "be perpendicular" if held is None else f"have the cosine {wanted:.3g}"
                raise ValueError(
                    f"{element_name(self)}: the angle between its axes has the cosine "
                    f"{float(cosine):.3g} when the child has the orientation of the joint; they "
                    f"must {must} there, for that is where the joint's coordinates are "
                    "zero: correct orientation= or angle=."
                )
        return (
            Motion("turn", self.axis, self.parent_point),
            Motion("turn", second_axis, None, self.child_point, self.orientation),
        )

    @override
    def conditions(self, t):
        held = HeldDirection(self.child_axis, self.axis[None], self._cosines())
        return Coincide(*self.points), held

    @override
    def coordinates(self, parent, child):
        second_axis = quaternion.rotate(self.orientation, self.child_axis)
        rotation = relative_rotation(parent, child, self.orientation)
        return jnp.stack(turn_angles(self.axis, second_axis, rotation))

    def _cosines(self) -> Float[Array, "1"] | None:
        return None if self.angle is None else jnp.cos(self.angle)[None]


class RigidJoint(AbstractComposedJoint):
    """Weld: the child is fixed to the parent.

    There is no coordinate. The six constraints are the inertial vector between the points (m) and
    the turn of the child against the parent, parent's components (rad if small); multipliers are in
    N and N m. Its reaction is the reading of a sensor of force and torque at that place, see
    `AbstractMultibodySystem.reactions`.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `parent_point`, `child_point`: (3,), points that coincide, in the bodies' frames, m.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where they are fixed.

    Raises `ValueError` for values that break these rules.
    """

    rows = 6
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def motions(self):
        return (Motion("weld", None, *self.points, self.orientation),)

    @override
    def conditions(self, t):
        return Coincide(*self.points), SameOrientation(self.orientation)


class PrismaticJoint(AbstractLowerPair):
    """Slider: the child moves along an axis of the parent without turning.

    The coordinate is the distance (m) of the child's point from the parent's along the axis. The
    five constraints are the two components of the vector between the points across the axis (m),
    and the turn of the child against the parent, parent's components (its rotation vector if small,
    rad); multipliers are in N and N m.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `axis`: (3,), in the parent's frame, of any length but zero.
    - `parent_point`, `child_point`: (3,), in the bodies' frames, m; the axis runs through the
      parent's, and the child's moves along it.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where it moves.
    - `armature`: kg, not negative: inertia added to the coordinate, in `lie_jax.Minimal()` alone;
      n² times that of a motor's rotor behind a gear of ratio n.

    Raises `ValueError` for values that break these rules.
    """

    rows = 5
    coordinate_units = ("m",)
    axis: Parameter = fields.direction()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()
    armature: OptionalParameter = fields.non_negative("kg", default=None)

    @override
    def motions(self):
        return (Motion("slide", self.axis, *self.points, self.orientation, self.armature),)

    @override
    def conditions(self, t):
        return HeldPoint(*self.points, perpendicular(self.axis)), SameOrientation(self.orientation)


class CylindricalJoint(AbstractLowerPair):
    """Shaft in a sleeve: the child turns about an axis of the parent and slides along it.

    The coordinates are the angle (rad) by which the child is turned about the axis and the distance
    (m) of the child's point from the parent's along it. The four constraints are the components
    across the axis of the vector between the points (m) and of the child's axis; multipliers are in
    N and N m.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `axis`: (3,), in the parent's frame, of any length but zero.
    - `parent_point`, `child_point`: (3,), points of the axis, in the bodies' frames, m.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where the angle is zero.

    Raises `ValueError` for values that break these rules.
    """

    rows = 4
    coordinate_units = ("rad", "m")
    axis: Parameter = fields.direction()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def motions(self):
        return (
            Motion("turn", self.axis, self.parent_point),
            Motion("slide", self.axis, None, self.child_point, self.orientation),
        )

    @override
    def conditions(self, t):
        return HeldPoint(*self.points, perpendicular(self.axis)), Parallel(
            self.axis, self.orientation
        )


class PlanarJoint(AbstractLowerPair):
    """A plane of the child slides and turns on a plane of the parent.

    The coordinates are the two components of the vector between the points along the plane (m), in
    the directions x and y if the normal is z, and the angle (rad) by which the child is turned
    about the normal. The three constraints are the vector between the points along the normal (m)
    and the two components of the child's normal across the parent's; multipliers are in N and N m.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `normal`: (3,), of the planes, in the parent's frame, of any length but zero.
    - `parent_point`, `child_point`: (3,), points of the planes, in the bodies' frames, m.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where the angle is zero.

    Raises `ValueError` for values that break these rules.
    """

    rows = 3
    coordinate_units = ("m", "m", "rad")
    normal: Parameter = fields.direction()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()

    @override
    def motions(self):
        first_axis, second_axis = perpendicular(self.normal)
        return (
            Motion("slide", first_axis, self.parent_point),
            Motion("slide", second_axis),
            Motion("turn", self.normal, None, self.child_point, self.orientation),
        )

    @override
    def conditions(self, t):
        return HeldPoint(*self.points, self.normal[None]), Parallel(self.normal, self.orientation)
