"""Stops at the ends of a joint's range, and dry friction in joints."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.contact.laws import AbstractNormalLaw
from lie_jax.mechanics.elements import named
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.forces.base import AbstractPairForce
from lie_jax.mechanics.forces.windings import AbstractWinding
from lie_jax.mechanics.joints.geometry import (
    between_points_in_parent,
    force_in_parent,
    nearest_turn,
    slip_in_parent,
    torque_in_parent,
    turning,
)
from lie_jax.numerics import small


def _law() -> Any:
    """Field with a law of a normal force."""

    def check(where: str, value: Any) -> None:
        if not isinstance(value, AbstractNormalLaw):
            raise ValueError(f"{where} is {value!r}; it must be a law, such as HuntCrossley(1e4).")

    return eqx.field(metadata={"check": check})


def _ordered(element: Any, unit: str) -> None:
    lower, upper = element.lower, element.upper
    if not checks.traced(lower, upper) and not float(lower) < float(upper):
        raise ValueError(
            f"{named(element)}.lower is {float(lower)!r} {unit}, not below upper="
            f"{float(upper)!r}: exchange them."
        )


def _resistance(law: AbstractNormalLaw, ends: tuple[Array, Array], x: Array, rate: Array) -> Array:
    """Force of two stops along a coordinate x."""
    lower, upper = ends
    return law.force(lower - x, -rate) - law.force(x - upper, rate)


def _energy(law: AbstractNormalLaw, ends: tuple[Array, Array], x: Array) -> Array:
    lower, upper = ends
    return law.energy(lower - x) + law.energy(x - upper)


class RevoluteStop(AbstractWinding):
    """Stops at both ends of the range of a hinge's angle.

    When the child is turned by φ about the axis and φ is beyond an end, the law gives the torque on
    it for the angle and the rate beyond that end; the parent gets its opposite. φ counts whole
    turns as that of the `TorsionalSpringDamper`.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `axis`: (3,), of the hinge, in the parent's frame, of any length but zero.
    - `lower`, `upper`: ends of the range, rad.
    - `law`: such as `lie_jax.HuntCrossley(stiffness)`, with angles in the place of lengths, in N
      m/radᵖ.
    - `orientation`: (4,), unit quaternion that rotates the child's components into the parent's
      where φ is zero.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    axis: Parameter = fields.direction()
    lower: Parameter = fields.number("rad")
    upper: Parameter = fields.number("rad")
    law: AbstractNormalLaw = _law()
    orientation: Parameter = fields.orientation()

    def __check_init__(self):
        _ordered(self, "rad")

    @override
    def wrenches(self, t, poses, velocities, u):
        rate = self.rate(poses, velocities)
        angle = self.counted(t, poses, rate)
        torque = _resistance(self.law, (self.lower, self.upper), angle, rate)
        return torque_in_parent(poses, torque * self.axis)

    @property
    @override
    def winds(self):
        ends = self.lower, self.upper
        return checks.traced(ends) or bool(np.max(np.abs(np.asarray(ends))) > np.pi)

    @property
    @override
    def lacks_turns(self):
        return self.winds and self.last is None

    @override
    def potential_energy(self, poses):
        """Energy of the law's spring, φ within half a turn of its last value."""
        near = self._first(self.lower) if self.last is None else self.last.angle
        angle = nearest_turn(self.principal(poses), near)
        return _energy(self.law, (self.lower, self.upper), angle)


class PrismaticStop(AbstractPairForce):
    """Stops at both ends of the range of a slider's distance.

    At a distance s along the axis beyond an end, the law gives the force on the child's point along
    the axis; the parent gets its opposite in the same place.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `axis`: (3,), of the slider, in the parent's frame, of any length but zero.
    - `lower`, `upper`: ends of the range, m.
    - `law`: such as `lie_jax.HuntCrossley(stiffness)`.
    - `parent_point`, `child_point`: (3,), between which s is measured, in the bodies' frames, m.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    axis: Parameter = fields.direction()
    lower: Parameter = fields.number("m")
    upper: Parameter = fields.number("m")
    law: AbstractNormalLaw = _law()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()

    def __check_init__(self):
        _ordered(self, "m")

    @override
    def wrenches(self, t, poses, velocities, u):
        distance = small.dot(self.axis, between_points_in_parent(self, *poses))
        rate = small.dot(self.axis, slip_in_parent(self, poses, velocities))
        force = _resistance(self.law, (self.lower, self.upper), distance, rate)
        return force_in_parent(self, force * self.axis, *poses)

    @override
    def potential_energy(self, poses):
        """Energy of the law's spring."""
        distance = small.dot(self.axis, between_points_in_parent(self, *poses))
        return _energy(self.law, (self.lower, self.upper), distance)


def _friction(limit: Array, rate: Array, smooth: Array) -> Float[Array, ""]:
    return -limit * rate / jnp.sqrt(rate * rate + smooth * smooth)


def _smooth(unit: str, default: float) -> Any:
    return fields.parameter(
        lambda where, value: checks.positive(where, value, unit), default=default
    )


class RevoluteFriction(AbstractPairForce):
    """Dry friction in a hinge, smooth at rest.

    At the rate ω of the child about the axis, the torque on it is -T ω / √(ω² + ωₛ²), and the
    parent gets its opposite. It holds nothing at rest: under a torque r T, r < 1, the hinge creeps
    at ωₛ r / √(1 - r²).

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `axis`: (3,), of the hinge, in the parent's frame, of any length but zero.
    - `torque`: T, N m, not negative.
    - `velocity`: ωₛ, rad/s, positive.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    axis: Parameter = fields.direction()
    torque: Parameter = fields.non_negative("N m")
    velocity: Parameter = _smooth("rad/s", 1e-2)

    @override
    def wrenches(self, t, poses, velocities, u):
        rate = small.dot(self.axis, turning(poses, velocities))
        return torque_in_parent(poses, _friction(self.torque, rate, self.velocity) * self.axis)


class PrismaticFriction(AbstractPairForce):
    """Dry friction in a slider, smooth at rest.

    At the rate v of the child's point along the axis, the force on it is -F v / √(v² + vₛ²), and
    the parent gets its opposite in the same place. It creeps as `RevoluteFriction` does.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `axis`: (3,), of the slider, in the parent's frame, of any length but zero.
    - `force`: F, N, not negative.
    - `velocity`: vₛ, m/s, positive.
    - `parent_point`, `child_point`: (3,), the force acts at the child's, in the bodies' frames, m.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    axis: Parameter = fields.direction()
    force: Parameter = fields.non_negative("N")
    velocity: Parameter = _smooth("m/s", 1e-3)
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()

    @override
    def wrenches(self, t, poses, velocities, u):
        rate = small.dot(self.axis, slip_in_parent(self, poses, velocities))
        return force_in_parent(self, _friction(self.force, rate, self.velocity) * self.axis, *poses)
