"""Limits of mechanisms: laws of forces, and depths of contacts at a start."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics.contact.element import Contact
from lie_jax.multibody import contact_readings, stacking
from lie_jax.systems.validity import Validity


class MultibodyValidity(Validity):
    """Limits of the forces of a mechanism's `system`."""

    @override
    def leaves_range(self, t, q, v):
        none, forces = jnp.zeros(0, bool), self.system.forces
        if not any(group.element.is_bounded for group in forces):
            return none
        now, *motion = self.system._instant(t, q, v)
        flags = [
            stacking.each(lambda element, *pair: element.leaves_range(now, *pair), group, motion)
            if group.element.is_bounded
            else jnp.zeros(group.count, bool)
            for group in forces
        ]
        return jnp.concatenate([none, *flags])

    @override
    def invalid_start(self, t, q, v):
        touches = any(isinstance(group.element, Contact) for group in self.system.forces)
        if not touches or checks.has_tracers(self, q, v):
            return None
        # Evaluate known numbers even while JAX traces the caller.
        with jax.ensure_compile_time_eval():
            found = _penetrations(self.system, jnp.asarray(t, q.dtype), q, v)
            overlap, most = map(np.asarray, found)
        if np.all(overlap <= most):
            return None
        number = int(np.argmin(overlap <= most))
        return (
            f"{self.force_name(number)} overlaps by {overlap[number]:.3g} m at the start, and the "
            f"middle of a shape is {most[number]:.3g} m deep: beyond it no side is the outer one. "
            "Move the bodies apart, or put them on the ground by "
            "lie_jax.robotics.stand(system, state)."
        )

    @override
    def force_name(self, number):
        return stacking.owner(self.system.forces, number)


@eqx.filter_jit
def _penetrations(system: Any, t: Array, q: Array, v: Array):
    _, *motion = system._instant(t, q, v)
    return contact_readings.penetrations(system.forces, motion)
