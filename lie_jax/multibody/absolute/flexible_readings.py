"""Readings of mechanisms in absolute coordinates, of whose bodies some may be flexible."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity
from lie_jax.multibody import arguments, stacking
from lie_jax.multibody.absolute.flexible import Flexibility
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.multibody.stacking import Connected
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import small


class AbstractFlexibleSystem(AbstractMultibodySystem):
    """A mechanism whose q holds the coordinates of all bodies, then amplitudes of flexible ones.

    Slots of motion are the bodies, then their `interfaces`.
    """

    formulation: eqx.AbstractVar[AbstractCoordinates]
    flexibility: eqx.AbstractVar[Flexibility]
    interfaces: eqx.AbstractVar[tuple[str, ...]]
    inertias: eqx.AbstractVar[tuple[Connected, ...]]

    @override
    def poses_by_slot(self, q):
        return self.flexibility.frames(BodyPose(*self.poses(q)), self.all_amplitudes(q))

    @property
    @override
    def frame_slots(self):
        return tuple(range(len(self.names_by_slot)))

    @override
    def frame_poses(self, q):
        return self.poses_by_slot(q)

    @property
    @override
    def names_by_slot(self):
        return *self.names, *self.interfaces

    @override
    def kinetic_energy(self, q, v):
        energy = super().kinetic_energy(q, v)
        for values in self._of_inertias("kinetic_energy", q, v):
            energy = energy + jnp.sum(values)
        if not self.flexibility.groups:
            return energy
        return energy + self.flexibility.kinetic_energy(*self._flexible_motion(q, v))

    @override
    def potential_energy(self, q):
        energy = super().potential_energy(q)
        for moment in self._of_inertias("mass_moment", q):
            energy = energy - small.dot(self.gravity, jnp.sum(moment, axis=0))
        if not self.flexibility.groups:
            return energy
        pose, amplitudes = BodyPose(*self.poses(q)), self.all_amplitudes(q)
        return energy + self.flexibility.potential_energy(pose, self.gravity, amplitudes)

    @override
    def momentum(self, q, v):
        momentum = super().momentum(q, v)
        for linear, angular in self._of_inertias("momentum", q, v):
            sums = jnp.sum(linear, axis=0), jnp.sum(angular, axis=0)
            momentum = momentum[0] + sums[0], momentum[1] + sums[1]
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
        first = len(self.names) * self.formulation.nq
        return self.flexibility.by_name(self.names, q[..., first:])

    def _of_inertias(self, name: str, q: Array, v: Array | None = None) -> list:
        """Values of a function of all inertia elements, stacked by kind."""
        if not self.inertias:
            return []
        moving = self._instant(0.0, q, jnp.zeros(self.nv, q.dtype) if v is None else v)[1:]
        motion = moving[:2] if v is None else moving
        return [
            stacking.each(lambda e, *parts: getattr(e, name)(*parts), group, motion)
            for group in self.inertias
        ]

    def _flexible_motion(self, q: Array, v: Array) -> tuple[BodyPose, BodyVelocity, Array, Array]:
        pose = BodyPose(*self.poses(q))
        velocity = BodyVelocity(*self._velocities(pose.rotation, q, v))
        return pose, velocity, self.all_amplitudes(q), self.all_rates(v)

    def all_amplitudes(self, q: Array) -> Array:
        """Amplitudes of all flexible bodies, kind by kind."""
        return q[len(self.names) * self.formulation.nq :]

    def all_rates(self, v: Array) -> Array:
        """Rates of these amplitudes, or their accelerations of accelerations."""
        return v[len(self.names) * self.formulation.nv :]

    def split(self, flat: Array) -> Array:
        """Coordinates or velocities of bodies (N, ...)."""
        beyond = sum(self.flexibility.modes)
        return flat[: flat.size - beyond].reshape(len(self.names), -1)

    def _velocities(self, rotation: Array, q: Array, v: Array) -> tuple[Array, Array]:
        checks.instant("v", v, self.nv)
        return jax.vmap(self.formulation.hybrid_velocity)(rotation, self.split(q), self.split(v))
