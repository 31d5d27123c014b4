"""Given forces and torques on one body, and friction between two."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.forces.base import AbstractForce, AbstractPairForce, entry
from lie_jax.mechanics.joints.base import Wrench
from lie_jax.mechanics.joints.geometry import force_at, torque_in_parent, turning
from lie_jax.mechanics.signals import as_signal, check_signal, value_at
from lie_jax.numerics import small

_COMPONENTS = {"world": "inertial components", "body": "body components"}


class AbstractLoad(AbstractForce):
    """A given load on one body, along axes fixed in the world or in the body."""

    is_load = True
    body: str = eqx.field(static=True, metadata=fields.BODY)

    # Defaults of fields of all subclasses, which come after those of the load.
    frame, input = "world", None

    # Name and unit of the field with the load.
    load: ClassVar[tuple[str, str]]

    def __check_init__(self):
        checks.one_of(f"{element_name(self)}.frame", self.frame, tuple(_COMPONENTS))
        field, unit = self.load
        meaning = f"{unit}, {_COMPONENTS[self.frame]}"
        check_signal(f"{element_name(self)}.{field}", getattr(self, field), (3,), meaning)

    def _load_at(self, t: Array, u: Float[Array, " nu"] | None) -> Array:
        """Load at a time, times the input if the element has one."""
        load = value_at(getattr(self, self.load[0]), t)
        return load if self.input is None else entry(u, self.input) * load


class PointForce(AbstractLoad):
    """A force at a body-fixed point, with a direction fixed in the world or in the body.

    A constant force has the potential -F·p in the world's frame, none in the body's or with an
    input.

    **Arguments:**

    - `body`: its name.
    - `force`: (3,), a constant (N), or a function of the time (s) that returns one; see the angle
      of the `JointDriver` for functions that are not compiled anew.
    - `point`: (3,), in the body frame, m.
    - `frame`: `"world"` for inertial components, `"body"` for components that turn with the body (a
      follower force).
    - `input`: number of an entry of the inputs u; the force is then u[input] times `force`, as of a
      propeller.
    """

    load = "force", "N"
    force: Any = eqx.field(converter=as_signal)
    point: Parameter = fields.point()
    frame: str = eqx.field(static=True, default="world")
    input: int | None = fields.input_number(default=None)

    @override
    def wrenches(self, t, poses, velocities, u):
        force = self._load_at(t, u)
        if self.frame == "body":
            force = small.matvec(poses[0].rotation, force)
        return (force_at(poses[0], self.point, force),)

    @override
    def potential_energy(self, poses):
        """-F·p for a constant force of constant direction, else zero."""
        if callable(self.force) or self.frame == "body" or self.input is not None:
            return jnp.zeros((), poses[0].position.dtype)
        point = poses[0].position + small.matvec(poses[0].rotation, self.point)
        return -small.dot(self.force, point)


class Torque(AbstractLoad):
    """A torque on a body, with a direction fixed in the world or in the body.

    It has no potential.

    **Arguments:**

    - `body`: its name.
    - `torque`: (3,), a constant (N m), or a function of the time (s) that returns one.
    - `frame`: `"world"` for inertial components, `"body"` for components that turn with the body.
    - `input`: number of an entry of the inputs u; the torque is then u[input] times `torque`.
    """

    load = "torque", "N m"
    torque: Any = eqx.field(converter=as_signal)
    frame: str = eqx.field(static=True, default="world")
    input: int | None = fields.input_number(default=None)

    @override
    def wrenches(self, t, poses, velocities, u):
        torque = self._load_at(t, u)
        if self.frame == "world":
            torque = small.matvec(poses[0].rotation.T, torque)
        return (Wrench(jnp.zeros_like(torque), torque),)


class PartOfLoad(AbstractForce):
    """The wrenches of a load times a `part`."""

    is_load = True
    element: AbstractForce
    part: Parameter

    @property
    @override
    def bodies(self):
        return self.element.bodies

    @override
    def wrenches(self, t, poses, velocities, u):
        return tuple(
            Wrench(self.part * wrench.force, self.part * wrench.torque)
            for wrench in self.element.wrenches(t, poses, velocities, u)
        )

    @override
    def potential_energy(self, poses):
        return self.part * self.element.potential_energy(poses)


class ViscousFriction(AbstractPairForce):
    """Viscous friction in a joint that turns: the torque -d (ω_child - ω_parent) on the child.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `coefficient`: d, N m s/rad, not negative.
    """

    is_relative = True
    coefficient: Parameter = fields.non_negative("N m s/rad")

    @override
    def wrenches(self, t, poses, velocities, u):
        return torque_in_parent(poses, -self.coefficient * turning(poses, velocities))
