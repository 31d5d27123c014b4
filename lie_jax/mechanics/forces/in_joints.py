"""Forces along coordinates of joints: springs, motors and controllers."""

import abc
import dataclasses
import inspect
import re
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics import fields
from lie_jax.mechanics.fields import Parameter, Signal
from lie_jax.mechanics.forces.base import AbstractForce, entry
from lie_jax.mechanics.joints.along import (
    AbstractAlongJoints,
    JointKey,
    coordinate_of,
    require_key,
)
from lie_jax.mechanics.joints.base import Time
from lie_jax.mechanics.signals import value_at
from lie_jax.user_functions import closures

Number = Float[Array, ""]
if TYPE_CHECKING:
    # A constructor takes the joint itself.
    JointReference = fields.Converted[JointKey]
else:
    JointReference = JointKey


class AbstractJointForce(AbstractAlongJoints, AbstractForce):
    """A torque (N m) or force (N) along a coordinate of a joint.

    It acts on the joint's child, and its opposite on the parent, as the coordinate moves them.
    Angles count whole turns: in `lie_jax.Minimal()` those of the joint; in absolute coordinates a
    run counts them from its initial state, where they lie between -π and π, as outside of runs.

    **Arguments** that such forces share: `joint`: one of the mechanism's joints, with coordinates;
    `coordinate`: the number of the coordinate, which joints with one coordinate do not need. All
    others are given by name. Raises `ValueError` for joints without coordinates, for a coordinate
    that is not there, and, in a `Mechanism`, for joints that are not among its own.

    A force of one's own gives `effort`, and `energy` if it is conservative. Its fields are given by
    name, too.
    """

    is_relative = True
    joint: JointReference = fields.joint(require_key)
    coordinate: int | None = eqx.field(static=True, default=None)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        # They follow `coordinate`, which has a default.
        for name, kind in inspect.get_annotations(cls).items():
            if name in ("joint", "coordinate", "joints", "slots", "last"):
                raise TypeError(
                    f"the field {name!r} of {cls.__name__} has the name of a field of every "
                    "AbstractJointForce: give it another name."
                )
            field = vars(cls).get(name, eqx.field())
            is_field = isinstance(field, dataclasses.Field)
            if is_field and not re.search("ClassVar|AbstractVar", str(kind)):
                field.kw_only = True
                setattr(cls, name, field)

    def __check_init__(self):
        coordinate_of(self.joint, self.coordinate)

    @abc.abstractmethod
    def effort(self, t: Time, x: Number, rate: Number, u: Float[Array, " nu"] | None) -> Number:
        """Torque (N m) or force (N) at a coordinate x (rad, m) and its rate; u as in `wrenches`."""

    def energy(self, x: Number) -> Number:
        """Potential energy (J) of a conservative force; zero for any other."""
        return jnp.zeros_like(x)

    @property
    @override
    def along(self):
        return (coordinate_of(self.joint, self.coordinate),)

    @property
    def is_angle(self) -> bool:
        """Whether the coordinate is an angle (rad), not a distance (m)."""
        return self.along[0].is_angle

    @property
    @override
    def winds(self):
        has_energy = type(self).energy is not AbstractJointForce.energy
        return has_energy and self.counts_turns

    @override
    def wrenches(self, t, poses, velocities, u):
        rates = self.rates(poses, velocities)
        (x,), (rate,) = self.count_turns(t, poses, rates), rates
        where = f"{type(self).__name__}.effort"
        with closures.refuse_numbers(where, self.effort, "t, x, rate and u"):
            effort = jnp.asarray(self.effort(t, x, rate, u), x.dtype)
        if effort.shape:
            raise ValueError(
                f"{where} returns an array of shape {effort.shape}; it must "
                "be one number, the torque (N m) or force (N) along the coordinate."
            )
        return self.wrenches_of(poses, effort[None])

    @override
    def potential_energy(self, poses):
        # Only controllers read a time where they start, and they have no energy.
        return self.energy(self.count_turns(jnp.zeros_like(poses[0].position[0]), poses)[0])


class JointSpring(AbstractJointForce):
    """A spring and damper along a coordinate of a joint: -k (x - relaxed) - d ẋ.

    **Arguments:** `joint`, `coordinate`: see `AbstractJointForce`; `stiffness`: k, N m/rad or N/m;
    `damping`: d, N m s/rad or N s/m, neither negative; `relaxed`: the coordinate without a force,
    rad or m.
    """

    stiffness: Parameter = fields.non_negative("N m/rad or N/m")
    damping: Parameter = fields.non_negative("N m s/rad or N s/m", default=0.0)
    relaxed: Parameter = fields.number("rad or m", default=0.0)

    @override
    def effort(self, t, x, rate, u):
        return -self.stiffness * (x - self.relaxed) - self.damping * rate

    @override
    def energy(self, x):
        """½ k (x - relaxed)²."""
        return 0.5 * self.stiffness * (x - self.relaxed) ** 2


class JointMotor(AbstractJointForce):
    """A motor along a coordinate of a joint: the torque u[input] (N m) or force (N).

    **Arguments:** `joint`, `coordinate`: see `AbstractJointForce`; `input`: number of an entry of
    the inputs u, counted from 0. It has no potential energy.
    """

    is_load = True
    input: int = fields.input_number()

    @property
    @override
    def counts_turns(self):
        return False

    @override
    def effort(self, t, x, rate, u):
        return entry(u, self.input)


class JointController(AbstractJointForce):
    """Proportional-derivative controller of a coordinate: P (x_d - x) + D (ẋ_d - ẋ).

    In absolute coordinates, where poses do not tell turns, an angle is taken within half a turn of
    x_d at first, in `lie_jax.Minimal()` it is the joint's. It has no potential energy.

    **Arguments:** `joint`, `coordinate`: see `AbstractJointForce`; `reference`: x_d, rad or m, a
    constant or a differentiable function of the time (s) that returns one number; see the value of
    the `JointDriver` for functions that are not compiled anew; `proportional`: P, N m/rad or N/m;
    `derivative`: D, N m s/rad or N s/m; neither negative. Source: [S3] 4.4.
    """

    reference: Signal = fields.signal("rad or m")
    proportional: Parameter = fields.non_negative("N m/rad or N/m")
    derivative: Parameter = fields.non_negative("N m s/rad or N s/m", default=0.0)

    @override
    def start(self, t, values):
        return value_at(self.reference, t)[None]

    @override
    def effort(self, t, x, rate, u):
        reference, reference_rate = _reference_and_rate(self.reference, t)
        return self.proportional * (reference - x) + self.derivative * (reference_rate - rate)


def _reference_and_rate(reference: Any, t: Array) -> tuple[Array, Array]:
    return jax.jvp(lambda t: value_at(reference, t), (t,), (jnp.ones_like(t),))
