"""Rigid-body systems in absolute coordinates on R³ × SO(3) or SE(3).

Bodies, and joints and forces of one kind, are stored stacked and evaluated by `vmap`: compile time
does not grow with their number.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import algebra
from lie_jax.mechanics import attachments
from lie_jax.mechanics import body as rigid
from lie_jax.mechanics.attachments import Connected
from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.joints import Wrench
from lie_jax.pose_spaces import AbstractPoseSpace
from lie_jax.spaces import Power
from lie_jax.system import AbstractSystem


class LieSystem(AbstractSystem):
    """A mechanism in absolute coordinates; made by `lie_jax.assemble`.

    q (nq,) holds the bodies' configurations one after the other, v (nv,) their velocities; the
    formulation (`R3SO3` or `SE3`) says what they are. `bodies`, `joints`, `forces` and `gravity`
    are the physical parameters, stacked by kind.
    """

    bodies: MassProperties
    joints: tuple[Connected, ...]
    forces: tuple[Connected, ...]
    gravity: Float[Array, "..."]
    formulation: AbstractPoseSpace
    names: tuple[str, ...] = eqx.field(static=True)

    @property
    def space(self) -> Power:
        """The configuration space of all bodies."""
        return Power(self.formulation, len(self.names))

    @property
    def nc(self) -> int:
        """Number of constraints of all joints."""
        return sum(group.count * group.element.rows for group in self.joints)

    def poses(
        self, q: Float[Array, " nq"]
    ) -> tuple[Float[Array, "bodies 3 3"], Float[Array, "bodies 3"]]:
        """Rotation matrices (N, 3, 3), body to inertial, and positions (N, 3) of body frames."""
        return jax.vmap(self.formulation.pose)(self._split(q))

    def twists(self, q: Float[Array, " nq"], v: Float[Array, " nv"]) -> Float[Array, "bodies 6"]:
        """Body-fixed twists (N, 6): Rᵀṙ and ω, both in body components, in every formulation."""
        rotation, _ = self.poses(q)
        velocity, omega = self._velocities(rotation, v)
        return jnp.concatenate(
            [jax.vmap(algebra.matvec)(rotation.transpose(0, 2, 1), velocity), omega], axis=1
        )

    def mass_matrix(self, q: Float[Array, " nq"]) -> Float[Array, "nv nv"]:
        """Mass matrix, with one block (6, 6) for each body."""
        rotation, _ = self.poses(q)
        hybrid = jax.vmap(rigid.mass_matrix)(self.bodies, rotation)
        frame = jax.vmap(self._hybrid_from_velocity)(rotation)
        blocks = jnp.einsum("nij,nik,nkl->njl", frame, hybrid, frame)
        n = len(self.names)
        eye = jnp.eye(n, dtype=q.dtype)
        return jnp.einsum("nij,nm->nimj", blocks, eye).reshape(6 * n, 6 * n)

    def force(self, t, q, v, u=None):
        """Applied and gyroscopic forces f (nv,): M v̇ + Bᵀλ = f."""
        t = jnp.asarray(t, q.dtype)
        rotation, position = self.poses(q)
        velocity, omega = self._velocities(rotation, v)
        bias = self._inertia_forces(rotation, v, omega, jnp.zeros_like(v))
        applied = self._applied(t, rotation, position, velocity, omega, u)
        return self._pull_back(rotation, applied.force - bias.force, applied.torque - bias.torque)

    def constraint(self, t, q):
        """Position constraints Φ (nc,) of all joints."""
        t = jnp.asarray(t, q.dtype)
        rotation, position = self.poses(q)
        values = [
            jax.vmap(lambda element, *poses: element.constraint(t, *poses))(
                group.element, *attachments.poses(group, rotation, position)
            ).reshape(-1)
            for group in self.joints
        ]
        return _concatenate(values, q.dtype)

    def constraint_jacobian(self, t, q):
        """Jacobian B (nc, nv) of the constraints along velocities, from the joints' reactions."""
        t = jnp.asarray(t, q.dtype)
        rotation, position = self.poses(q)

        def row(multipliers):
            reaction = self._reactions(t, rotation, position, multipliers)
            return self._pull_back(rotation, reaction.force, reaction.torque)

        return jax.vmap(row)(jnp.eye(self.nc, dtype=q.dtype))

    def residual(self, t, q, v, acceleration, multipliers, u=None):
        """M v̇ + Bᵀλ - f (nv,), evaluated body by body without forming M or B."""
        t = jnp.asarray(t, q.dtype)
        rotation, position = self.poses(q)
        velocity, omega = self._velocities(rotation, v)
        inertia = self._inertia_forces(rotation, v, omega, acceleration)
        applied = self._applied(t, rotation, position, velocity, omega, u)
        reaction = self._reactions(t, rotation, position, multipliers)
        return self._pull_back(
            rotation,
            inertia.force - applied.force + reaction.force,
            inertia.torque - applied.torque + reaction.torque,
        )

    def acceleration(self, t, q, v, u=None):
        """v̇ (nv,): Newton and Euler for each body, or the index-1 form if there are joints."""
        if self.nc:
            return super().acceleration(jnp.asarray(t, q.dtype), q, v, u)
        t = jnp.asarray(t, q.dtype)
        rotation, position = self.poses(q)
        velocity, omega = self._velocities(rotation, v)
        applied = self._applied(t, rotation, position, velocity, omega, u)
        linear, angular = jax.vmap(rigid.forward_dynamics)(
            self.bodies, rotation, omega, applied.force, applied.torque
        )
        bias = jax.vmap(self.formulation.origin_acceleration)(
            rotation, self._split(v), jnp.zeros_like(self._split(v))
        )
        own = jax.vmap(self.formulation.velocity_from_world)(rotation, linear - bias)
        return jnp.concatenate([own, angular], axis=1).reshape(-1)

    def kinetic_energy(self, q: Float[Array, " nq"], v: Float[Array, " nv"]) -> Float[Array, ""]:
        """Kinetic energy (J)."""
        rotation, _ = self.poses(q)
        velocity, omega = self._velocities(rotation, v)
        return jnp.sum(jax.vmap(rigid.kinetic_energy)(self.bodies, rotation, velocity, omega))

    def potential_energy(self, q: Float[Array, " nq"]) -> Float[Array, ""]:
        """Potential energy (J) of gravity, zero at the world origin, and of conservative forces."""
        rotation, position = self.poses(q)
        return attachments.potential_energy(
            self.bodies, self.forces, self.gravity, rotation, position
        )

    def momentum(
        self, q: Float[Array, " nq"], v: Float[Array, " nv"]
    ) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Linear and angular momentum about the world origin (3,), inertial, kg m/s, kg m²/s."""
        rotation, position = self.poses(q)
        velocity, omega = self._velocities(rotation, v)
        linear, angular = jax.vmap(rigid.momentum)(self.bodies, rotation, position, velocity, omega)
        return jnp.sum(linear, axis=0), jnp.sum(angular, axis=0)

    def _split(self, flat: Array) -> Array:
        return flat.reshape(len(self.names), -1)

    def _velocities(self, rotation: Array, v: Array) -> tuple[Array, Array]:
        each = self._split(v)
        return jax.vmap(self.formulation.origin_velocity)(rotation, each), each[:, 3:]

    def _hybrid_from_velocity(self, rotation: Array) -> Array:
        basis = jnp.eye(6, dtype=rotation.dtype)
        linear = jax.vmap(self.formulation.origin_velocity, (None, 0))(rotation, basis)
        return jnp.concatenate([linear, basis[:, 3:]], axis=1).T

    def _inertia_forces(self, rotation: Array, v: Array, omega: Array, dv: Array) -> Wrench:
        each_dv = self._split(dv)
        linear = jax.vmap(self.formulation.origin_acceleration)(rotation, self._split(v), each_dv)
        return Wrench(
            *jax.vmap(rigid.inverse_dynamics)(self.bodies, rotation, omega, linear, each_dv[:, 3:])
        )

    def _pull_back(self, rotation: Array, force: Array, torque: Array) -> Array:
        own = jax.vmap(self.formulation.velocity_from_world)(rotation, force)
        return jnp.concatenate([own, torque], axis=1).reshape(-1)

    def _applied(
        self,
        t: Array,
        rotation: Array,
        position: Array,
        velocity: Array,
        omega: Array,
        u: Array | None,
    ) -> Wrench:
        return attachments.applied(
            self.bodies, self.forces, self.gravity, t, rotation, position, velocity, omega, u
        )

    def _reactions(self, t: Array, rotation: Array, position: Array, multipliers: Array) -> Wrench:
        total = Wrench(jnp.zeros_like(position), jnp.zeros_like(position))
        start = 0
        for group in self.joints:
            size = group.count * group.element.rows
            own = multipliers[start : start + size].reshape(group.count, -1)
            start += size
            poses = attachments.poses(group, rotation, position)
            wrenches = jax.vmap(lambda element, poses, own: element.reaction(t, *poses, own))(
                group.element, poses, own
            )
            total = attachments.gather(total, group, wrenches)
        return total


def _concatenate(values: list[Array], dtype: Any) -> Array:
    return jnp.concatenate(values) if values else jnp.zeros(0, dtype)
