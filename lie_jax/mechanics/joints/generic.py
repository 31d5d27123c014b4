"""A joint that holds a chosen set of the six relative directions of two bodies."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.groups import quaternion
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.joints.composed import AbstractComposedJoint
from lie_jax.mechanics.joints.conditions import (
    AbstractCondition,
    HeldDirection,
    HeldPoint,
    Parallel,
    SameOrientation,
)
from lie_jax.mechanics.joints.drivers import COORDINATES, check_coordinates
from lie_jax.mechanics.joints.geometry import (
    angle_about,
    between_points_in_parent,
    relative_rotation,
    turn_angles,
)
from lie_jax.mechanics.joints.motions import Kind, Motion
from lie_jax.numerics import small


class GenericJoint(AbstractComposedJoint):
    """Generic joint: any of three translations and three rotations are held, the others are free.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`; `name`: the label in readings.
    - `held`: at least one of `"x"`, `"y"`, `"z"`, `"rotation_x"`, `"rotation_y"`, `"rotation_z"`,
      in this order.
    - `parent_point`, `child_point`: (3,), the joint's place in the bodies' frames, m.
    - `parent_orientation`: (4,), unit quaternion that rotates components along the joint's axes x,
      y, z into the parent's.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where rotations are zero.

    Held translations: components, along the joint's axes on the parent, of the vector between the
    points (m). Held rotations, whatever the free ones are:

    - one: the child turns about the first free axis on the parent, then about the second free axis
      on the child, as on the arms of a `UniversalJoint`; the value is the cosine between these two;
    - two: the free axis of the child stays parallel to the parent's, as in a `RevoluteJoint`; the
      values are two components of the child's axis across the parent's;
    - three: no turn, as in a `RigidJoint`; the values are sin φ n of the child's turn by φ about n,
      parent's components.

    Multipliers are in N and N m. Coordinates are the distances along free translations (m), then
    the angles about free rotations (rad), in the order of x, y, z; three free rotations have none.
    A plane loop needs the two translations of its plane alone at one of its joints, where hinges
    hold the plane: then no constraint is redundant. Every choice of `held` has a meaning; raises
    `ValueError` for none, for other words and another order.
    """

    held: tuple[str, ...] = eqx.field(static=True, converter=tuple)
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()
    parent_orientation: Parameter = fields.orientation()
    orientation: Parameter = fields.orientation()

    def __check_init__(self):
        check_coordinates(f"{element_name(self)}.held", self.held)

    @property
    @override
    def rows(self):
        return len(self.held)

    @property
    def coordinate_units(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Units of the free distances and angles."""
        slides, turns = self._free()
        return ("m",) * len(slides) + ("rad",) * (len(turns) % 3)

    @override
    def motions(self):
        axes, (slides, turns) = self._axes(), self._free()
        steps: list[tuple[Kind, Array | None]] = []
        steps.extend(("slide", axes[k]) for k in slides)
        if len(turns) == 3:
            steps.append(("swivel", None))
        else:
            steps.extend(("turn", axes[k]) for k in turns)
        if not steps:
            steps.append(("weld", None))
        # A swivel has every orientation as a coordinate.
        home = None if len(turns) == 3 else self.orientation
        if len(steps) == 1:
            return (Motion(*steps[0], *self.points, home),)
        inner = (Motion(*step) for step in steps[1:-1])
        return (
            Motion(*steps[0], self.parent_point),
            *inner,
            Motion(*steps[-1], None, self.child_point, home),
        )

    @override
    def conditions(self, t):
        axes, (slides, turns) = self._axes(), self._free()
        conditions: list[AbstractCondition] = []
        if len(slides) < 3:
            directions = axes[np.asarray([k for k in range(3) if k not in slides])]
            conditions.append(HeldPoint(*self.points, directions))
        if len(turns) == 2:
            first, second = turns
            back = quaternion.conjugate(self.orientation)
            child_axis = quaternion.rotate(back, axes[second])
            conditions.append(HeldDirection(child_axis, axes[first][None]))
        if len(turns) == 1:
            conditions.append(Parallel(axes[turns[0]], self.orientation))
        if not turns:
            conditions.append(SameOrientation(self.orientation))
        return tuple(conditions)

    @override
    def coordinates(self, parent, child):
        axes, (slides, turns) = self._axes(), self._free()
        between = between_points_in_parent(self, parent, child)
        values = [small.dot(axes[k], between) for k in slides]
        rotation = relative_rotation(parent, child, self.orientation)
        if len(turns) == 1:
            values.append(angle_about(axes[turns[0]], rotation))
        if len(turns) == 2:
            first, second = turns
            values += turn_angles(axes[first], axes[second], rotation)
        return jnp.stack(values) if values else jnp.zeros(0, between.dtype)

    def _free(self) -> tuple[list[int], list[int]]:
        """Numbers of the axes along which the child slides, and about which it turns."""
        free = [k for k, word in enumerate(COORDINATES) if word not in self.held]
        return [k for k in free if k < 3], [k - 3 for k in free if k >= 3]

    def _axes(self) -> Float[Array, "3 3"]:
        """The joint's axes in the rows, parent's components."""
        return quaternion.to_matrix(self.parent_orientation).T
