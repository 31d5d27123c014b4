"""Coupling of the coordinates of two joints."""

import dataclasses
from collections.abc import Sequence
from typing import Any, no_type_check

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import named
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.joints.base import (
    AbstractJoint,
    BodyPose,
    Poses,
    Time,
    Velocities,
    moving,
    pulled_back,
    stiffness_blocks,
)
from lie_jax.mechanics.joints.geometry import DOUBT, Winding, nearest_turn, predicted
from lie_jax.mechanics.joints.pairs import PrismaticJoint, RevoluteJoint


def _check_coefficients(where: str, value: Any) -> None:
    checks.real(where, value)
    if jnp.ndim(value) != 1 or not jnp.size(value):
        raise ValueError(
            f"{where} has shape {jnp.shape(value)}; it must be (n,), at least one coefficient of "
            "a polynomial, the constant first: write [0.0, ratio] for a fixed ratio."
        )
    checks.finite(where, value)


def _place(joint: AbstractJoint) -> tuple[type, str, str]:
    return type(joint), joint.parent, joint.child


class CouplingJoint(AbstractJoint):
    """The coordinate of a hinge or slider is a polynomial of that of another one.

    With s the leader's coordinate, the follower's is c₀ + c₁ s + c₂ s² + …, as for the fingers of a
    gripper, a rack or a `<mimic>` of URDF. Both joints are other elements of the mechanism.

    **Arguments:** `follower`, `leader`: a `RevoluteJoint` or `PrismaticJoint`, whose bodies, axis,
    points and orientation define the coordinate (rad or m); `coefficients`: (n,), c₀ first.

    The constraint is the follower's coordinate minus the polynomial. Angles count whole turns: in
    `lie_jax.Minimal()` those of the joints; in absolute coordinates those of a run from its start,
    where the leader's angle is between -π and π and the follower's the nearest one, as they are
    outside of runs. The multiplier is the torque (N m) or force (N) by which the
    follower's child acts on the coupling along its coordinate; the leader feels the opposite times
    the polynomial's slope. Raises `ValueError` for other joints and values.
    """

    rows = 1
    leader_parent: str = eqx.field(static=True, metadata=fields.BODY)
    leader_child: str = eqx.field(static=True, metadata=fields.BODY)
    # Places among the bodies of follower's parent and child, then of the leader's.
    slots: tuple[int, ...] = eqx.field(static=True)
    pair: tuple[RevoluteJoint | PrismaticJoint, RevoluteJoint | PrismaticJoint]
    # Coordinates of follower and leader, from which angles differ by less than half a turn; as a
    # `Winding` those of the last instant of a run.
    near: Float[Array, "..."] | Winding | None
    coefficients: Parameter = fields.parameter(_check_coefficients)

    # Other types raise `ValueError` below.
    @no_type_check
    def __init__(
        self,
        follower: RevoluteJoint | PrismaticJoint,
        leader: RevoluteJoint | PrismaticJoint,
        coefficients: ArrayLike | Sequence[ArrayLike],
    ):
        for name, joint in (("follower", follower), ("leader", leader)):
            if not isinstance(joint, RevoluteJoint | PrismaticJoint):
                raise ValueError(
                    f"CouplingJoint({name}=) is a {type(joint).__name__}; it must be a "
                    "lie_jax.RevoluteJoint or lie_jax.PrismaticJoint."
                )
        if _place(follower) == _place(leader):
            raise ValueError(
                f"CouplingJoint couples the joint between {follower.parent!r} and "
                f"{follower.child!r} with itself; follower= and leader= must be two joints."
            )
        self.parent, self.child = follower.parent, follower.child
        self.leader_parent, self.leader_child = leader.parent, leader.child
        self.slots = tuple(map(self.bodies.index, self._ends))
        # Couplings that differ in numbers and names of bodies are stacked.
        blank: dict[str, Any] = {"parent": "", "child": "", "armature": None}
        self.pair = dataclasses.replace(follower, **blank), dataclasses.replace(leader, **blank)
        self.coefficients = coefficients
        self.near = None

    @property
    def _ends(self) -> tuple[str, ...]:
        return self.parent, self.child, self.leader_parent, self.leader_child

    @property
    @override
    def bodies(self):
        """Names of follower's and leader's bodies, each once."""
        return tuple(dict.fromkeys(self._ends))

    @property
    @override
    def points(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return (None,) * (1 + max(self.slots))

    @property
    def joints(self) -> tuple[RevoluteJoint | PrismaticJoint, RevoluteJoint | PrismaticJoint]:
        """Follower and leader with the names of their bodies."""
        ends, (follower, leader) = self._ends, self.pair
        return (
            dataclasses.replace(follower, parent=ends[0], child=ends[1]),
            dataclasses.replace(leader, parent=ends[2], child=ends[3]),
        )

    @override
    def objection(self, others):
        places = [_place(joint) for joint in others]
        for joint in self.joints:
            if _place(joint) not in places:
                return (
                    f"couples the {named(joint)}, which is none of the mechanism's joints; it must "
                    "be one of them: add it to joints=."
                )
        return None

    @property
    def _turning(self) -> np.ndarray:
        return np.asarray([joint.coordinate_units == ("rad",) for joint in self.pair])

    def _principal(self, *poses: BodyPose) -> Float[Array, "2"]:
        """Coordinates of follower and leader, angles between -π and π."""
        at = [poses[slot] for slot in self.slots]
        pairs = zip(self.pair, (at[:2], at[2:]), strict=True)
        return jnp.concatenate([joint.coordinates(*ends) for joint, ends in pairs])

    def _counted(self, values: Array, near: Array) -> Float[Array, "2"]:
        return jnp.where(self._turning, nearest_turn(values, near), values)

    def _wanted(self, leader: Array) -> Array:
        """Coordinate of the follower."""
        wanted = jnp.zeros_like(leader)
        for k in reversed(range(self.coefficients.shape[0])):
            wanted = wanted * leader + self.coefficients[k]
        return wanted

    def _coordinates(self, t: Time, poses: Poses) -> Float[Array, "2"]:
        """Coordinates with their turns at a time (s)."""
        values, near = self._principal(*poses), self.near
        if near is None:
            near = jnp.stack([self._wanted(values[1]), values[1]])
        elif isinstance(near, Winding):
            near = near.angle + (t - near.t) * near.rate
        return self._counted(values, near)

    @override
    def constraint(self, t, *poses):  # pyright: ignore[reportIncompatibleMethodOverride]
        follower, leader = self._coordinates(t, poses)
        return (follower - self._wanted(leader))[None]

    def _rates(self, poses: Poses, velocities: Velocities) -> Float[Array, "2"]:
        return jax.jvp(self._principal, poses, moving(poses, velocities))[1]

    @property
    @override
    def lacks_turns(self):
        # Slopes of a line are the same in every turn.
        is_curved = self.coefficients.shape[-1] > 2
        return self.near is None and is_curved and bool(self._turning[1])

    @override
    def remember(self, t, poses, velocities):
        """The coordinates and their rates."""
        return Winding(t, self._coordinates(t, poses), self._rates(poses, velocities))

    @override
    def recalling(self, last):
        return eqx.tree_at(lambda joint: joint.near, self, last, is_leaf=lambda x: x is None)

    @override
    def departed(self, t, poses, velocities):
        """Whether an angle is more than a quarter turn from its extrapolation."""
        last = self.near
        if not isinstance(last, Winding):
            return None
        away = self._coordinates(t, poses) - predicted(last, t, self._rates(poses, velocities))
        return jnp.any(self._turning & (jnp.abs(away) > DOUBT))

    @override
    def side(self, t, *poses):  # pyright: ignore[reportIncompatibleMethodOverride]
        return None

    @override
    def velocity_constraint(self, t, *motion):  # pyright: ignore[reportIncompatibleMethodOverride]
        return jnp.zeros(0, motion[0].position.dtype)

    @override
    def reaction(self, t, *args):  # pyright: ignore[reportIncompatibleMethodOverride]
        *poses, multipliers = args
        return pulled_back(lambda *poses: self.constraint(t, *poses), poses, multipliers)

    @override
    def stiffness(self, t, *args):  # pyright: ignore[reportIncompatibleMethodOverride]
        *poses, multipliers = args
        return stiffness_blocks(lambda *poses: self.reaction(t, *poses, multipliers), poses)
