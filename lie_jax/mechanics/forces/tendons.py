"""Tendons: forces along combinations of joint coordinates, and along lines through points."""

import abc
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
from lie_jax.mechanics.fields import OptionalParameter, Parameter
from lie_jax.mechanics.forces.base import AbstractForce, entry
from lie_jax.mechanics.forces.springs import passed_through
from lie_jax.mechanics.forces.windings import DOUBT
from lie_jax.mechanics.joints.base import BodyPose, Poses, Velocities, pulled_back
from lie_jax.mechanics.joints.geometry import Winding, nearest_turn, predicted
from lie_jax.mechanics.joints.pairs import PrismaticJoint, RevoluteJoint
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float


def _range(of: str, **default: Any) -> Any:
    """Field with the ends (2,) of a range."""

    def check(where: str, value: Any) -> None:
        checks.shape(where, value, (2,), f"the smallest and the largest {of}")
        # In NumPy: inside `jax.jit` an entry of a constant array would be a tracer.
        ends = None if checks.traced(value) else tuple(np.asarray(value).tolist())
        if ends is not None and not ends[0] <= ends[1]:
            raise ValueError(
                f"{where} is {ends}; it must be the smallest and the largest {of}: exchange them."
            )

    return fields.parameter(check, **default)


class AbstractTendon(AbstractForce):
    """A force F along a length ℓ that the poses of bodies determine: its power is F ℓ̇."""

    is_relative = True
    # Names of bodies, which may repeat, and their places among `bodies`.
    ends: tuple[str, ...] = eqx.field(static=True, metadata=fields.BODY)
    slots: tuple[int, ...] = eqx.field(static=True)
    stiffness: Parameter = fields.non_negative("N/m")
    damping: Parameter = fields.non_negative("N s/m")
    relaxed: Parameter = _range("length at which the spring has no force")
    input: int | None = fields.input_number(default=None)
    limits: OptionalParameter = _range("force", default=None)

    def __init__(self, ends, stiffness, damping, relaxed, input, limits):
        self.ends = tuple(ends)
        self.slots = tuple(map(self.bodies.index, self.ends))
        self.stiffness, self.damping, self.relaxed = stiffness, damping, relaxed
        self.input, self.limits = input, limits

    @property
    @override
    def bodies(self):
        """Names of the bodies, each once."""
        return tuple(dict.fromkeys(self.ends))

    @abc.abstractmethod
    def _coordinates(self, *poses: BodyPose) -> Float[Array, " coordinates"]:
        """Coordinates of which the length is a linear function."""

    @abc.abstractmethod
    def _length(self, coordinates: Float[Array, " coordinates"]) -> Float[Array, ""]:
        """Length, a linear function of the coordinates; or its rate, of their rates."""

    def _counted(self, coordinates: Array, now: tuple[Array, Array] | None = None) -> Array:
        """Coordinates with their whole turns; `now`: the time, and the rates of the coordinates."""
        return coordinates

    def _measured(self, poses: Poses, velocities: Velocities) -> tuple[Array, Array]:
        """Coordinates and their rates."""
        moving = tuple(
            BodyPose(small.matmul(pose.rotation, small.hat(velocity.omega_body)), velocity.linear)
            for pose, velocity in zip(poses, velocities, strict=True)
        )
        return jax.jvp(self._coordinates, poses, moving)

    def _stretch(self, coordinates: Array) -> Array:
        shortest, longest = self.relaxed
        length = self._length(coordinates)
        # Slopes are halves at both ends of the range: their sum is right where it is one length.
        return jnp.maximum(length - longest, 0.0) + jnp.minimum(length - shortest, 0.0)

    @override
    def wrenches(self, t, poses, velocities, u):
        coordinates, rates = self._measured(poses, velocities)
        stretch = self._stretch(self._counted(coordinates, (t, rates)))
        force = -self.stiffness * stretch - self.damping * self._length(rates)
        if self.input is not None:
            force = force + entry(u, self.input)
        if self.limits is not None:
            force = jnp.clip(force, *self.limits)
        return pulled_back(lambda *poses: self._length(self._coordinates(*poses)), poses, force)

    @override
    def potential_energy(self, poses):
        """½ k times the square of the stretch; zero for an element with an input or limits."""
        stretch = self._stretch(self._counted(self._coordinates(*poses)))
        is_spring = self.input is None and self.limits is None
        return 0.5 * self.stiffness * stretch * stretch if is_spring else jnp.zeros_like(stretch)


class CouplingForce(AbstractTendon):
    """A spring, a damper and an input along a combination of the coordinates of joints.

    With the coordinates s of hinges (rad) and sliders (m), ℓ = c₁ s₁ + c₂ s₂ + …, as of a tendon
    over pulleys in joints, or of one joint. F = u[input] - k e - d ℓ̇, e the distance of ℓ from the
    range in which the spring is relaxed, and F between its limits, as of a servo that saturates.
    Joint i gets the torque (N m) or force (N) cᵢ F on its child, and its opposite on the parent.

    **Arguments:** `joints`: each a `RevoluteJoint` or `PrismaticJoint`, whose bodies, axis, points
    and orientation define the coordinate; `coefficients`: (n,), c; `stiffness`: k, N/m, or N m/rad
    where ℓ is an angle; `damping`: d, N s/m or N m s/rad, neither negative; `relaxed`: (2,), the
    smallest and the largest ℓ at which the spring has no force; `input`: number of an entry of the
    inputs u, None for none; `limits`: (2,), the smallest and the largest F, None for none.

    Angles count whole turns, as those of the `TorsionalSpringDamper`. Springs have a potential
    energy, ½ k e², if the element has neither input nor limits. Raises `ValueError` for other
    joints and values.
    """

    # Joints without names: elements that differ in numbers and names of bodies are stacked.
    parts: tuple[RevoluteJoint | PrismaticJoint, ...]  # pyright: ignore[reportGeneralTypeIssues]
    coefficients: Parameter = fields.parameter(checks.finite)

    @no_type_check
    def __init__(
        self,
        joints: Sequence[RevoluteJoint | PrismaticJoint],
        coefficients: ArrayLike | Sequence[ArrayLike],
        *,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        relaxed: ArrayLike | Sequence[ArrayLike] = (0.0, 0.0),
        input: int | None = None,
        limits: ArrayLike | Sequence[ArrayLike] | None = None,
    ):
        joints = list(joints) if isinstance(joints, Sequence) else [joints]
        for joint in joints or [None]:
            if not isinstance(joint, RevoluteJoint | PrismaticJoint):
                raise ValueError(
                    f"CouplingForce(joints=) has a {type(joint).__name__}; it must be a list of "
                    "lie_jax.RevoluteJoint and lie_jax.PrismaticJoint, at least one: give those of "
                    "the mechanism."
                )
        ends = (end for joint in joints for end in (joint.parent, joint.child))
        super().__init__(ends, stiffness, damping, relaxed, input, limits)
        blank: dict[str, Any] = {"parent": "", "child": "", "armature": None}
        self.parts = tuple(dataclasses.replace(joint, **blank) for joint in joints)
        self.coefficients = coefficients

    def __check_init__(self):
        where = f"{named(self)}.coefficients"
        checks.shape(where, self.coefficients, (len(self.parts),), "one number for each joint")

    @property
    def joints(self) -> tuple[RevoluteJoint | PrismaticJoint, ...]:
        """The joints with the names of their bodies."""
        pairs = zip(self.ends[::2], self.ends[1::2], strict=True)
        return tuple(
            dataclasses.replace(joint, parent=parent, child=child)
            for joint, (parent, child) in zip(self.parts, pairs, strict=True)
        )

    @property
    def _turning(self) -> np.ndarray:
        return np.asarray([isinstance(joint, RevoluteJoint) for joint in self.parts])

    @property
    @override
    def winds(self):
        is_spring = self.input is None and self.limits is None
        return is_spring and bool(np.any(self._turning))

    @property
    @override
    def lacks_turns(self):
        # The spring of an element with an input or limits has no potential energy.
        elastic = checks.traced(self.stiffness) or bool(np.any(np.asarray(self.stiffness)))
        turns = bool(np.any(self._turning)) and not self.winds
        return self.last is None and turns and elastic

    @override
    def _coordinates(self, *poses):
        at = [poses[slot] for slot in self.slots]
        pairs = zip(self.parts, at[::2], at[1::2], strict=True)
        return jnp.concatenate([joint.coordinates(*ends) for joint, *ends in pairs])

    @override
    def _length(self, coordinates):
        return small.dot(self.coefficients, coordinates)

    @override
    def _counted(self, coordinates, now=None):
        near = jnp.zeros_like(coordinates)
        if self.last is not None:
            near = self.last.angle if now is None else predicted(self.last, *now)
        return jnp.where(self._turning, nearest_turn(coordinates, near), coordinates)

    @override
    def remember(self, t, poses, velocities):
        """The coordinates and their rates."""
        coordinates, rates = self._measured(poses, velocities)
        return Winding(t, self._counted(coordinates, (t, rates)), rates)

    @override
    def departed(self, t, poses, velocities):
        """Whether an angle is more than a quarter turn from its extrapolation."""
        coordinates, rates = self._measured(poses, velocities)
        away = self._counted(coordinates, (t, rates)) - predicted(self.last, t, rates)
        return jnp.any(self._turning & (jnp.abs(away) > DOUBT))


class PathForce(AbstractTendon):
    """A spring, a damper and an input along a line that runs straight from point to point.

    ℓ is the length of the line, as of a cable through eyelets without friction. F is that of the
    `CouplingForce`; it pushes the ends apart, and a tension is negative.

    **Arguments:** `points`: pairs of the name of a body, or `"ground"`, and a point (3,) of it (m),
    in the order of the line; `stiffness`: k, N/m; `damping`: d, N s/m, neither negative; `relaxed`:
    (2,), the smallest and the largest ℓ at which the spring has no force, m; `input`: number of an
    entry of the inputs u, None for none; `limits`: (2,), the smallest and the largest F, N, None
    for none. Raises `ValueError` for other values.

    Points that follow each other must not meet: the line has no direction there and the force is
    NaN. A run in which one passes through the other in a step ends with `Result.departed`.
    """

    places: Parameter = fields.parameter(checks.finite)

    @no_type_check
    def __init__(
        self,
        points: Sequence[tuple[str, ArrayLike | Sequence[float]]],
        *,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        relaxed: ArrayLike | Sequence[ArrayLike] = (0.0, 0.0),
        input: int | None = None,
        limits: ArrayLike | Sequence[ArrayLike] | None = None,
    ):
        pairs = list(points) if isinstance(points, Sequence) else []
        are_pairs = all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs)
        if len(pairs) < 2 or not are_pairs:
            raise ValueError(
                f"PathForce(points=) is a {type(points).__name__} of {len(pairs)}; it must be a "
                "list of pairs, at least two: write [('ground', (0, 0, 1)), ('body', (0, 0, 0))]."
            )
        for name, point in pairs:
            checks.name("the body in PathForce(points=)", name)
            checks.shape(f"the point of {name!r} in PathForce(points=)", point, (3,), "m")
        names = (name for name, _ in pairs)
        super().__init__(names, stiffness, damping, relaxed, input, limits)
        self.places = jnp.stack([as_float(point) for _, point in pairs])

    def _lines(self, poses: Poses) -> Float[Array, "lines 3"]:
        points = jnp.stack(
            [
                poses[slot].position + small.matvec(poses[slot].rotation, point)
                for slot, point in zip(self.slots, self.places, strict=True)
            ]
        )
        return points[1:] - points[:-1]

    @override
    def _coordinates(self, *poses):
        return jnp.sqrt(jnp.sum(self._lines(poses) ** 2, axis=1))

    @override
    def _length(self, coordinates):
        return jnp.sum(coordinates)

    @override
    def remember(self, t, poses, velocities):
        """The lines between the points."""
        return self._lines(poses)

    @override
    def departed(self, t, poses, velocities):
        """Whether one point has passed through the next one."""
        return jnp.any(jax.vmap(passed_through)(self.last, self._lines(poses)))
