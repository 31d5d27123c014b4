"""Systems of rigid bodies: what mechanisms offer in every formulation."""

import abc
import dataclasses
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics import stacking
from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.mechanism import Label
from lie_jax.mechanics.stacking import Connected
from lie_jax.system import AbstractSystem


class AbstractMultibodySystem(AbstractSystem):
    """A mechanism in some formulation; made by `lie_jax.assemble`.

    `bodies`, `forces` and `gravity` are physical parameters, stacked; `names` are the bodies' names
    in the mechanism's order.
    """

    bodies: eqx.AbstractVar[MassProperties]
    joints: eqx.AbstractVar[Any]
    forces: eqx.AbstractVar[tuple[Connected, ...]]
    gravity: eqx.AbstractVar[Float[Array, "..."]]
    names: eqx.AbstractVar[tuple[str, ...]]

    @abc.abstractmethod
    def poses(
        self, q: Float[Array, " nq"]
    ) -> tuple[Float[Array, "bodies 3 3"], Float[Array, "bodies 3"]]:
        """Rotation matrices (N, 3, 3), body to inertial, and positions (N, 3) of body frames."""

    @abc.abstractmethod
    def twists(self, q: Float[Array, " nq"], v: Float[Array, " nv"]) -> Float[Array, "bodies 6"]:
        """Body-fixed twists (N, 6): Rᵀṙ and ω, both in body components."""

    @abc.abstractmethod
    def kinetic_energy(self, q: Float[Array, " nq"], v: Float[Array, " nv"]) -> Float[Array, ""]:
        """Kinetic energy (J)."""

    @abc.abstractmethod
    def potential_energy(self, q: Float[Array, " nq"]) -> Float[Array, ""]:
        """Potential energy (J) of gravity, zero at the world origin, and of conservative forces."""

    @abc.abstractmethod
    def momentum(
        self, q: Float[Array, " nq"], v: Float[Array, " nv"]
    ) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Linear and angular momentum about the world origin (3,), inertial, kg m/s, kg m²/s."""

    @abc.abstractmethod
    def joint_coordinates(self, q: Float[Array, "*instants nq"]) -> dict[Label, Array]:
        """Angles (rad) and distances (m) of joints at q (nq,), or at instants q (n, nq).

        Keys are (parent, child), for the second joint between them (parent, child, 2), ...
        """

    @property
    def slots(self) -> tuple[int, ...]:
        """Places in `bodies` of the mechanism's bodies, in its order."""
        return tuple(range(len(self.names)))

    @abc.abstractmethod
    def joint_points(self) -> list[tuple[int, Array]]:
        """Numbers of bodies, -1 for the ground, and points (3,) of their joints, body frame (m)."""

    @property
    @override
    def nu(self):
        return 1 + max((number for group in self.forces for number in group.inputs), default=-1)

    @override
    def recalling(self, memory):
        return dataclasses.replace(self, forces=stacking.recalling(self.forces, memory))

    @override
    def departed(self, t, q, v):
        return stacking.departed(self.forces, *self._instant(t, q, v))

    @abc.abstractmethod
    def _instant(self, t, q: Array, v: Array) -> tuple[Array, ...]:
        """Time, and rotation, position, ṙ and ω of all slots of `bodies`."""
