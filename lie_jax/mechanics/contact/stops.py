"""Stops at the ends of a joint's range, and dry friction in joints."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.contact.laws import AbstractNormalLaw
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import OptionalParameter, Parameter
from lie_jax.mechanics.forces.in_joints import AbstractJointForce

# Rates below which friction is smooth: rad/s, m/s.
_SMOOTH_ANGLE, _SMOOTH_DISTANCE = 1e-2, 1e-3


def _law() -> Any:
    """Field with a law of a normal force."""

    def check(where: str, value: Any) -> None:
        if not isinstance(value, AbstractNormalLaw):
            raise ValueError(f"{where} is {value!r}; it must be a law, such as HuntCrossley(1e4).")

    return eqx.field(metadata={"check": check})


class JointStop(AbstractJointForce):
    """Stops at both ends of the range of a joint's coordinate.

    Beyond an end the law gives the torque or force for the angle or distance, and its rate, beyond
    that end.

    **Arguments:** `joint`, `coordinate`: see `AbstractJointForce`; `lower`, `upper`: ends of the
    range, rad or m; `law`: such as `lie_jax.contact.HuntCrossley(stiffness)`, for angles in
    N m/radᵖ. Raises `ValueError` for a range that is none.
    """

    lower: Parameter = fields.number("rad or m")
    upper: Parameter = fields.number("rad or m")
    law: AbstractNormalLaw = _law()

    def __check_init__(self):
        lower, upper = self.lower, self.upper
        if not checks.has_tracers(lower, upper) and not float(lower) < float(upper):
            raise ValueError(
                f"{element_name(self)}.lower is {float(lower)!r}, not below "
                f"upper={float(upper)!r}: exchange them."
            )

    @property
    @override
    def winds(self):
        ends = self.lower, self.upper
        beyond = checks.has_tracers(ends) or bool(np.max(np.abs(np.asarray(ends))) > np.pi)
        return self.is_angle and beyond

    @property
    @override
    def lacks_turns(self):
        return self.winds and self.last is None

    @override
    def effort(self, t, x, rate, u):
        return self.law.force(self.lower - x, -rate) - self.law.force(x - self.upper, rate)

    @override
    def energy(self, x):
        """Energy of the law's spring."""
        return self.law.energy(self.lower - x) + self.law.energy(x - self.upper)


class JointFriction(AbstractJointForce):
    """Dry friction in a joint, smooth at rest.

    At the rate v of the coordinate it is -F v / √(v² + vₛ²). It holds nothing at rest: under a
    torque or force r F, r < 1, the joint creeps at vₛ r / √(1 - r²).

    **Arguments:** `joint`, `coordinate`: see `AbstractJointForce`; `limit`: F, N m or N, not
    negative; `velocity`: vₛ, positive, 0.01 rad/s or 0.001 m/s without.
    """

    limit: Parameter = fields.non_negative("N m or N")
    velocity: OptionalParameter = fields.positive("rad/s or m/s", default=None)

    @property
    @override
    def counts_turns(self):
        return False

    @override
    def effort(self, t, x, rate, u):
        smooth = self.velocity
        if smooth is None:
            smooth = _SMOOTH_ANGLE if self.is_angle else _SMOOTH_DISTANCE
        return -self.limit * rate / jnp.sqrt(rate * rate + smooth * smooth)
