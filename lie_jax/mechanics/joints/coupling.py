"""Coupling of the coordinates of two joints."""

from collections.abc import Sequence
from typing import Any, no_type_check

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.joints.along import (
    AbstractAlongJoints,
    JointCoordinate,
    coordinate_of,
    slots_of,
)
from lie_jax.mechanics.joints.base import AbstractJoint, pullback, stiffness_blocks
from lie_jax.mechanics.joints.geometry import nearest_turn


def _check_coefficients(where: str, value: Any) -> None:
    checks.real(where, value)
    if jnp.ndim(value) != 1 or not jnp.size(value):
        raise ValueError(
            f"{where} has shape {jnp.shape(value)}; it must be (n,), at least one coefficient of "
            "a polynomial, the constant first: write [0.0, ratio] for a fixed ratio."
        )
    checks.finite(where, value)


class CouplingJoint(AbstractAlongJoints, AbstractJoint):
    """The coordinate of a joint is a polynomial of that of another one.

    With s the leader's coordinate, the follower's is c₀ + c₁ s + c₂ s² + …, as for the fingers of a
    gripper, a rack or a `<mimic>` of URDF. Both joints are other elements of the mechanism.

    **Arguments:** `follower`, `leader`: joints of the mechanism with one coordinate (rad or m), or
    pairs of a joint and the number of one of its coordinates; `coefficients`: (n,), c₀ first;
    `name`: the label in readings.

    The constraint is the follower's coordinate minus the polynomial. Angles count whole turns: in
    `lie_jax.Minimal()` those of the joints; in absolute coordinates those of a run from its start,
    where the leader's angle is between -π and π and the follower's the nearest one, as they are
    outside of runs. The multiplier is the torque (N m) or force (N) by which the
    follower's child acts on the coupling along its coordinate; the leader feels the opposite times
    the polynomial's slope. Raises `ValueError` for other joints and values.
    """

    rows = 1
    follower: JointCoordinate = fields.joint(coordinate_of)
    leader: JointCoordinate = fields.joint(coordinate_of)
    coefficients: Parameter = fields.parameter(_check_coefficients)

    @no_type_check
    def __init__(
        self,
        follower: Any,
        leader: Any,
        coefficients: ArrayLike | Sequence[ArrayLike],
        *,
        name: str | None = None,
    ):
        self.follower, self.leader = coordinate_of(follower), coordinate_of(leader)
        if self.follower == self.leader:
            raise ValueError(
                f"CouplingJoint couples a coordinate of {self.leader.joint!r} with itself; "
                "follower= and leader= must be two coordinates."
            )
        self.parent, self.child = self.follower.joint.parent, self.follower.joint.child
        self.slots = slots_of(self.along)
        self.coefficients, self.name = coefficients, name

    @property
    @override
    def along(self):
        return self.follower, self.leader

    @property
    @override
    def points(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return (None,) * (1 + max(self.slots))

    def _follower_coordinate(self, leader: Array) -> Array:
        """Coordinate of the follower."""
        wanted = jnp.zeros_like(leader)
        for k in reversed(range(self.coefficients.shape[0])):
            wanted = wanted * leader + self.coefficients[k]
        return wanted

    @override
    def start(self, t, values):
        return jnp.stack([self._follower_coordinate(values[1]), values[1]])

    @override
    def constraint(self, t, *poses):  # pyright: ignore[reportIncompatibleMethodOverride]
        values, last = self.principal(*poses), self.last
        # A constraint has no velocities as arguments: take turns by constant rates.
        near = self.start(t, values) if last is None else last.angle + (t - last.t) * last.rate
        counted = jnp.where(self.turning, nearest_turn(values, near), values)
        return (counted[0] - self._follower_coordinate(counted[1]))[None]

    @property
    @override
    def lacks_turns(self):
        # Slopes of a line are the same in every turn.
        is_curved = self.coefficients.shape[-1] > 2
        return self.last is None and is_curved and bool(self.turning[1])

    @override
    def with_memory(self, last):
        return eqx.tree_at(lambda joint: joint.last, self, last, is_leaf=lambda x: x is None)

    @override
    def leaves_range(self, t, poses, velocities):
        return None if self.last is None else super().leaves_range(t, poses, velocities)

    @override
    def side(self, t, *poses):  # pyright: ignore[reportIncompatibleMethodOverride]
        return None

    @override
    def velocity_constraint(self, t, *motion):  # pyright: ignore[reportIncompatibleMethodOverride]
        return jnp.zeros(0, motion[0].position.dtype)

    @override
    def reaction(self, t, *args):  # pyright: ignore[reportIncompatibleMethodOverride]
        *poses, multipliers = args
        return pullback(lambda *poses: self.constraint(t, *poses), poses, multipliers)

    @override
    def stiffness(self, t, *args):  # pyright: ignore[reportIncompatibleMethodOverride]
        *poses, multipliers = args
        return stiffness_blocks(lambda *poses: self.reaction(t, *poses, multipliers), poses)
