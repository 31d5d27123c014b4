"""Readings of mechanisms of whose bodies some may be flexible, in every formulation."""

import abc

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity
from lie_jax.multibody import arguments
from lie_jax.multibody.flexible import Flexibility
from lie_jax.multibody.system import AbstractMultibodySystem


class AbstractFlexibleSystem(AbstractMultibodySystem):
    """A mechanism whose q ends with the amplitudes of flexible bodies, kind by kind, v with their
    rates.

    Frames are the bodies, then their `interfaces`.
    """

    flexibility: eqx.AbstractVar[Flexibility]
    interfaces: eqx.AbstractVar[tuple[str, ...]]

    @abc.abstractmethod
    def body_motion(self, q: Array, v: Array) -> tuple[BodyPose, BodyVelocity]:
        """Poses and velocities of the bodies in the mechanism's order."""

    @override
    def kinetic_energy(self, q, v):
        energy = super().kinetic_energy(q, v)
        if not self.flexibility.groups:
            return energy
        return energy + self.flexibility.kinetic_energy(*self._flexible_motion(q, v))

    @override
    def potential_energy(self, q):
        energy = super().potential_energy(q)
        if not self.flexibility.groups:
            return energy
        pose, amplitudes = BodyPose(*self.poses(q)), self.all_amplitudes(q)
        return energy + self.flexibility.potential_energy(pose, self.gravity, amplitudes)

    @override
    def momentum(self, q, v):
        momentum = super().momentum(q, v)
        if not self.flexibility.groups:
            return momentum
        more = self.flexibility.momentum(*self._flexible_motion(q, v))
        return momentum[0] + more[0], momentum[1] + more[1]

    @override
    def _body_powers(self, q, v):
        _, (_, omega), *amplitudes = self._flexible_motion(q, v)
        return self.flexibility.powers(self.names, omega, *amplitudes)

    def amplitudes(self, q: Float[Array, "*instants nq"]) -> dict[str, Array]:
        """Amplitudes (m,) of flexible bodies by their names; (n, m) at instants of q (n, nq)."""
        rows = None if np.ndim(q) < 2 else len(q)
        (q,) = arguments.arrays("amplitudes", self, rows, q=q)
        return self.flexibility.by_name(self.names, self.all_amplitudes(q))

    def _flexible_motion(self, q: Array, v: Array) -> tuple[BodyPose, BodyVelocity, Array, Array]:
        return *self.body_motion(q, v), self.all_amplitudes(q), self.all_rates(v)

    def all_amplitudes(self, q: Float[Array, "*instants nq"]) -> Float[Array, "*instants modes"]:
        """Amplitudes of all flexible bodies, kind by kind."""
        return q[..., q.shape[-1] - sum(self.flexibility.modes) :]

    def all_rates(self, v: Float[Array, "*instants nv"]) -> Float[Array, "*instants modes"]:
        """Rates of these amplitudes, or their accelerations of accelerations."""
        return v[..., v.shape[-1] - sum(self.flexibility.modes) :]
