"""Readings of mechanisms in absolute coordinates: of inertias between bodies, and of frames."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity
from lie_jax.multibody import stacking
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.multibody.flexible_readings import AbstractFlexibleSystem
from lie_jax.multibody.stacking import Connected
from lie_jax.numerics import small


class AbstractAbsoluteSystem(AbstractFlexibleSystem):
    """A mechanism whose q holds the coordinates of all bodies, then amplitudes of flexible ones.

    Slots of motion are the bodies, then their `interfaces`.
    """

    formulation: eqx.AbstractVar[AbstractCoordinates]
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
        return energy

    @override
    def potential_energy(self, q):
        energy = super().potential_energy(q)
        for moment in self._of_inertias("mass_moment", q):
            energy = energy - small.dot(self.gravity, jnp.sum(moment, axis=0))
        return energy

    @override
    def momentum(self, q, v):
        momentum = super().momentum(q, v)
        for linear, angular in self._of_inertias("momentum", q, v):
            sums = jnp.sum(linear, axis=0), jnp.sum(angular, axis=0)
            momentum = momentum[0] + sums[0], momentum[1] + sums[1]
        return momentum

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

    @override
    def body_motion(self, q, v):
        pose = BodyPose(*self.poses(q))
        return pose, BodyVelocity(*self._velocities(pose.rotation, q, v))

    def split(self, flat: Array) -> Array:
        """Coordinates or velocities of bodies (N, ...)."""
        beyond = sum(self.flexibility.modes)
        return flat[: flat.size - beyond].reshape(len(self.names), -1)

    def _velocities(self, rotation: Array, q: Array, v: Array) -> tuple[Array, Array]:
        checks.instant("v", v, self.nv)
        return jax.vmap(self.formulation.hybrid_velocity)(rotation, self.split(q), self.split(v))
