"""Elements along coordinates of joints: forces in joints, drivers and couplings.

Such an element names joints of its mechanism, and `Mechanism` refuses others. `assemble` gives it
these joints: axes, points and orientations are written once, and derivatives by them are whole.

Poses alone give angles between -π and π. In a run in absolute coordinates the element remembers
its angles and their rates at the last instant; whole turns bring each angle nearest to its
extrapolation by the two rates. In joint coordinates the turns are those of the coordinates in q.
"""

import abc
import dataclasses
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import AbstractElement, element_name, replace_fields
from lie_jax.mechanics.joints.base import AbstractJoint, BodyPose, Poses, Time, Velocities, Wrench
from lie_jax.mechanics.joints.geometry import DOUBT, Winding, extrapolate, nearest_turn

# Angle or distance, rate, and torque or force, of each coordinate of an element.
Coordinates = Float[Array, " coordinates"]


class JointKey(NamedTuple):
    """Type, bodies and name of a joint of a mechanism, and units of its coordinates."""

    kind: type
    parent: str
    child: str
    name: str | None
    units: tuple[str, ...]

    def __repr__(self):
        return f"{self.kind.__name__}({', '.join(map(repr, self.words))})"

    @property
    def words(self) -> tuple[str, ...]:
        """Names that distinguish the joint from others of its type."""
        return (self.parent, self.child) if self.name is None else (self.name,)

    def fits(self, joint: AbstractJoint) -> bool:
        """Whether it is the key of this joint."""
        return self == key_of(joint)


class JointCoordinate(NamedTuple):
    """The coordinate of a joint with this number."""

    joint: JointKey
    number: int

    def __repr__(self):
        return f"({self.joint!r}, {self.number})"

    @property
    def is_angle(self) -> bool:
        """Whether it is an angle (rad), not a distance (m)."""
        return self.joint.units[self.number] == "rad"


def nameless(reference: Any) -> Any:
    """A reference to a joint, or several of them, without names of bodies and joint."""
    if isinstance(reference, JointKey):
        return reference._replace(parent="", child="", name=None)
    if isinstance(reference, JointCoordinate):
        return reference._replace(joint=nameless(reference.joint))
    return tuple(map(nameless, reference))


def key_of(joint: AbstractJoint) -> JointKey:
    """Key of a joint."""
    return JointKey(type(joint), joint.parent, joint.child, joint.name, joint.coordinate_units)


def require_key(joint: Any) -> JointKey:
    """Key of a joint that has coordinates; raises `ValueError` for anything else."""
    if isinstance(joint, JointKey):
        return joint
    if not isinstance(joint, AbstractJoint):
        raise ValueError(
            f"the joint of a force, driver or coupling is {joint!r}; it must be one of the "
            "mechanism's joints: give the object that is in joints=, such as a "
            "lie_jax.RevoluteJoint."
        )
    if not joint.coordinate_units:
        raise ValueError(
            f"{element_name(joint)} has no coordinates, along which a force, driver or coupling "
            "could act; take a joint with coordinates, such as a lie_jax.RevoluteJoint, or a force "
            "between bodies, such as lie_jax.Bushing."
        )
    return key_of(joint)


def coordinate_of(joint: Any, number: Any = None) -> JointCoordinate:
    """A coordinate of a joint: the one with this number, or the only one.

    `joint` may be a pair of joint and number. Raises `ValueError` for anything else, and for joints
    with several coordinates without a number.
    """
    if number is None and isinstance(joint, tuple | list) and not isinstance(joint, JointKey):
        if len(joint) != 2:
            raise ValueError(
                f"a coordinate of a joint is given as {joint!r}; it must be a joint, or a pair of "
                "a joint and the number of its coordinate: write (joint, 0)."
            )
        joint, number = joint
    key = require_key(joint)
    count = len(key.units)
    if number is None and count == 1:
        return JointCoordinate(key, 0)
    number = int(number) if isinstance(number, np.integer) else number
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        listed = ", ".join(f"{k} ({unit})" for k, unit in enumerate(key.units))
        raise ValueError(
            f"coordinate= of {key!r} is {number!r}; it must be the number of one of the "
            f"coordinates of the joint, which are {listed}: choose one."
        )
    return JointCoordinate(key, number)


class AbstractAlongJoints(AbstractElement):
    """An element along coordinates of joints, whose angles count whole turns.

    `along` are the coordinates; `slots` the places among `bodies` of parent and child of each
    joint; `joints` has the joints without names from `assemble` on, and `last` the coordinates of
    the instant before in a run.
    """

    slots: tuple[int, ...] = eqx.field(
        static=True, init=False, repr=False, default=(0, 1), metadata=fields.PRESET
    )
    joints: Any = eqx.field(init=False, repr=False, default=None, metadata=fields.PRESET)
    last: Any = eqx.field(init=False, repr=False, default=None, metadata=fields.PRESET)

    @property
    @abc.abstractmethod
    def along(self) -> tuple[JointCoordinate, ...]:
        """Coordinates of joints."""

    @property
    def counts_turns(self) -> bool:
        """Whether the element depends on whole turns of an angle."""
        return bool(np.any(self.turning))

    @property
    def turning(self) -> np.ndarray:
        """Whether each coordinate is an angle."""
        return np.asarray([coordinate.is_angle for coordinate in self.along])

    @property
    @override
    def bodies(self):
        """Names of the bodies of all joints, each once."""
        return each_once([coordinate.joint for coordinate in self.along])

    @property
    @override
    def words(self):
        if getattr(self, "name", None) is not None:
            return (self.name,)  # pyright: ignore[reportAttributeAccessIssue]
        keys = [coordinate.joint for coordinate in self.along]
        return tuple(dict.fromkeys(word for key in keys for word in key.words))

    @override
    def objection(self, joints):
        for key, _ in self.along:
            found = [joint for joint in joints if key.fits(joint)]
            if not found:
                return (
                    f"acts along a coordinate of {key!r}, which is none of the mechanism's joints; "
                    "it must be one of them: add it to joints=, or take forces between bodies "
                    "without a joint, such as lie_jax.Bushing or PathForce."
                )
            if len(found) > 1:
                return (
                    f"acts along a coordinate of {key!r}, of which the mechanism has "
                    f"{len(found)}; joints of one type between two bodies need names: make them "
                    "with name=."
                )
        return None

    @override
    def attach(self, joints):
        objection = self.objection(joints)
        if objection is not None:
            raise ValueError(f"{element_name(self)} {objection}")
        found = [next(joint for joint in joints if key.fits(joint)) for key, _ in self.along]
        return replace_fields(self, joints=tuple(without_names(joint) for joint in found))

    def _ends(self, motion: Sequence[Any]) -> list[tuple]:
        """Poses or velocities of parent and child of each joint."""
        at = [motion[slot] for slot in self.slots]
        return list(zip(at[::2], at[1::2], strict=True))

    def _each(self) -> list[tuple[AbstractJoint, int]]:
        if self.joints is None:
            raise ValueError(
                f"{element_name(self)} knows its joints in an assembled mechanism alone: evaluate "
                "the forces of lie_jax.assemble(mechanism, formulation)[0]."
            )
        numbers = (number for _, number in self.along)
        return list(zip(self.joints, numbers, strict=True))

    def principal(self, *poses: BodyPose) -> Coordinates:
        """Coordinates (rad, m), angles between -π and π."""
        pairs = zip(self._each(), self._ends(poses), strict=True)
        return jnp.stack([_all_coordinates(joint, ends)[k] for (joint, k), ends in pairs])

    def rates(self, poses: Poses, velocities: Velocities) -> Coordinates:
        """Rates of the coordinates (rad/s, m/s)."""
        ends = zip(self._ends(poses), self._ends(velocities), strict=True)
        pairs = zip(self._each(), ends, strict=True)
        return jnp.stack([joint.coordinate_rate(k, *motion) for (joint, k), motion in pairs])

    def start(self, t: Time, values: Coordinates) -> Coordinates:
        """Coordinates within half a turn of which angles are taken without a past."""
        return jnp.zeros_like(values)

    def count_turns(self, t: Time, poses: Poses, rates: Coordinates | None = None) -> Coordinates:
        """Coordinates with their turns at a time (s), given their rates; without them within half a
        turn of the last instant's.
        """
        values = self.principal(*poses)
        if not self.counts_turns:
            return values
        if self.last is None:
            near = self.start(t, values)
        elif rates is None:
            near = self.last.angle
        else:
            near = extrapolate(self.last, t, rates)
        return jnp.where(self.turning, nearest_turn(values, near), values)

    def wrenches_of(self, poses: Poses, efforts: Coordinates) -> tuple[Wrench, ...]:
        """Wrenches on the bodies of torques (N m) and forces (N) along the coordinates."""
        acting: list[list[Wrench]] = [[] for _ in range(1 + max(self.slots))]
        pairs = zip(self._each(), self._ends(poses), efforts, strict=True)
        wrenches = [
            wrench
            for (joint, k), ends, effort in pairs
            for wrench in joint.wrenches_along(k, ends, effort)
        ]
        for slot, wrench in zip(self.slots, wrenches, strict=True):
            acting[slot].append(wrench)
        return tuple(Wrench(*(reduce(jnp.add, x) for x in zip(*of, strict=True))) for of in acting)

    def memory_after(self, t, poses, velocities):
        """The coordinates and their rates; None where no turn matters."""
        if not self.counts_turns:
            return None
        rates = self.rates(poses, velocities)
        return Winding(t, self.count_turns(t, poses, rates), rates)

    def leaves_range(self, t, poses, velocities) -> Any:
        """Whether an angle is more than a quarter turn from its extrapolation."""
        rates = self.rates(poses, velocities)
        away = self.count_turns(t, poses, rates) - extrapolate(self.last, t, rates)
        return jnp.any(self.turning & (jnp.abs(away) > DOUBT))


def _all_coordinates(joint: AbstractJoint, ends: tuple[BodyPose, BodyPose]) -> Coordinates:
    """Coordinates of a joint; raises `ValueError` for others than its units say."""
    values, count = joint.coordinates(*ends), len(joint.coordinate_units)
    if jnp.shape(values) != (count,):
        raise ValueError(
            f"{type(joint).__name__}.coordinates returns an array of shape {jnp.shape(values)}, "
            f"and coordinate_units has {count}; it must have shape ({count},): correct one of them."
        )
    return values


def each_once(keys: Sequence[JointKey]) -> tuple[str, ...]:
    """Names of the bodies of joints, each once."""
    return tuple(dict.fromkeys(name for key in keys for name in (key.parent, key.child)))


def slots_of(along: Sequence[JointCoordinate]) -> tuple[int, ...]:
    """Places of parents and children of joints among the bodies, each of which counts once."""
    keys = [coordinate.joint for coordinate in along]
    names = each_once(keys)
    return tuple(names.index(name) for key in keys for name in (key.parent, key.child))


def without_names(joint: AbstractJoint) -> AbstractJoint:
    """The joint without names and armature: elements that differ in these alone are stacked."""
    blank: dict[str, Any] = {"parent": "", "child": "", "name": None, "armature": None}
    names = {field.name for field in dataclasses.fields(joint)}
    return replace_fields(joint, **{name: value for name, value in blank.items() if name in names})
