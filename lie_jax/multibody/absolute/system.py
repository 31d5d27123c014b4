"""Rigid-body systems in absolute coordinates: each body has coordinates of its own.

Bodies, and joints and forces of one kind, are stored stacked and evaluated by `vmap`: compile time
does not grow with their number.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import body as rigid
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench
from lie_jax.multibody import constraints, readings, stacking, turns
from lie_jax.multibody.absolute import elements, linearization
from lie_jax.multibody.absolute.algebra import AbsoluteAlgebra
from lie_jax.multibody.absolute.linearization import ElementLinearization
from lie_jax.multibody.absolute.validity import AbsoluteValidity
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.multibody.readings import Labels
from lie_jax.multibody.stacking import Connected
from lie_jax.multibody.system import AbstractMultibodySystem, Instant
from lie_jax.numerics import waits
from lie_jax.spaces.products import Power


class RigidBodySystem(AbstractMultibodySystem):
    """A mechanism in absolute coordinates; made by `lie_jax.assemble`.

    q (nq,) holds the bodies' configurations in order, v (nv,) their velocities, in the coordinates
    of the formulation. `labels` are those of the joints in readings. Constraints are those of
    joints on positions, then those among coordinates of each body, then those of joints on
    velocities; joints stand by kind.
    """

    joints: tuple[Connected, ...]
    formulation: AbstractCoordinates
    labels: Labels = eqx.field(static=True)

    @property
    def space(self) -> Power:
        """The configuration space of all bodies."""
        return Power(self.formulation, len(self.names))

    @property
    def nc(self) -> int:
        """Number of constraints of all joints and among the coordinates."""
        return self._joint_rows + len(self.names) * self.formulation.rows + self.velocity_rows

    @property
    def velocity_rows(self) -> int:
        """Number of velocity constraints of all joints."""
        return constraints.count(self.joints, "velocity_rows")

    @property
    @override
    def slow_to_compile(self):
        return bool(self._joint_rows or self.velocity_rows)

    @property
    def _joint_rows(self) -> int:
        return constraints.count(self.joints, "rows")

    @override
    def poses(self, q):
        checks.instant("q", q, self.nq)
        # Without the barrier XLA repeats the rotations for each of their many uses.
        return jax.lax.optimization_barrier(jax.vmap(self.formulation.pose)(self._split(q)))

    def mass_matrix(self, q: Float[Array, " nq"]) -> Float[Array, "nv nv"]:
        """Mass matrix, one block a body; singular along what redundant coordinates forbid."""
        pose, frames = self.frames(q)
        blocks = elements.masses(self.bodies, pose.rotation, frames)
        return linearization.full([elements.diagonal(blocks)], blocks)

    @override
    @waits.announce("the forces")
    def force(self, t, q, v, u=None):
        instant = self._instant(t, q, v)
        wrench = self._missing_wrenches(instant, q, v, jnp.zeros_like(v), u)
        return -self._pull_back(instant[1], q, wrench)

    def constraint(self, t, q):
        """Position constraints Φ of all joints, then among the coordinates."""
        t, pose = jnp.asarray(t, q.dtype), self.poses(q)
        values = [constraints.positions(self.joints, t, pose)]
        if self.formulation.rows:
            values.append(jax.vmap(self.formulation.constraint)(self._split(q)).reshape(-1))
        return jnp.concatenate(values)

    @override
    def velocity_constraint(self, t, q, v):
        return constraints.velocities(self.joints, self._instant(t, q, v))

    def constraint_jacobian(self, t, q):
        """Jacobian B (nc, nv) of the constraints along velocities, from the joints' reactions."""
        if not self.formulation.keeps_rotations:
            return super().constraint_jacobian(t, q)
        pose, frames = self.frames(q)
        return linearization.constraint_rows(*self.columns(t, q, pose, frames))

    def frames(self, q: Array) -> tuple[BodyPose, Array | None]:
        """Poses, and frames (6, nv, N) of the velocities, None for hybrid velocities."""
        pose = BodyPose(*self.poses(q))
        if self.formulation.hybrid:
            return pose, None
        return pose, elements.body_frames(self.formulation, self._split(q))

    def columns(
        self, t, q: Array, pose: BodyPose, frames: Array | None
    ) -> tuple[list[elements.JointColumns], Array]:
        """Columns of Bᵀ of the joints, and of the constraints among coordinates (nv, rows, N)."""
        t = jnp.asarray(t, q.dtype)
        units = jnp.eye(self.formulation.rows, dtype=q.dtype)
        reaction = jax.vmap(self.formulation.reaction, (None, 0), 1)
        coordinates = jax.vmap(lambda q: reaction(q, units), out_axes=2)(self._split(q))
        return elements.joint_columns(self.joints, t, pose, frames), coordinates

    @override
    @waits.announce("the residual")
    def residual(self, t, q, v, acceleration, multipliers, u=None):
        t, rotation, position, *_ = instant = self._instant(t, q, v)
        wrench = self._missing_wrenches(instant, q, v, acceleration, u)
        if not self.formulation.keeps_rotations:
            # Bᵀλ for velocities q̇ without the Jacobian B.
            _, transpose = jax.vjp(lambda v: self.constraint_rate(t, q, v), jnp.zeros_like(v))
            return transpose(multipliers)[0] + self._pull_back(rotation, q, wrench)
        reaction = self._reactions(t, (rotation, position), multipliers)
        result = self._pull_back(rotation, q, Wrench(*map(jnp.add, wrench, reaction)))
        if not self.formulation.rows:
            return result
        of_bodies = self._split(q), self._coordinate_multipliers(multipliers)
        return result + jax.vmap(self.formulation.reaction)(*of_bodies).reshape(-1)

    @override
    def owner(self, equation):
        if equation < self.nv:
            return f"body {self.names[equation // self.formulation.nv]!r}"
        row = equation - self.nv
        if row < self._joint_rows:
            return stacking.owner(self.joints, row, "rows")
        of_velocities = row - self.nc + self.velocity_rows
        if of_velocities >= 0:
            return stacking.owner(self.joints, of_velocities, "velocity_rows")
        body = (row - self._joint_rows) // self.formulation.rows
        return f"the coordinates of body {self.names[body]!r}"

    @waits.announce("the linearization")
    def linearization(self, t, q, v, acceleration, multipliers, u=None):
        """Residual and its derivatives, by bodies, joints and forces."""
        if not self.formulation.keeps_rotations:
            return super().linearization(t, q, v, acceleration, multipliers, u)
        residual = self.residual(t, q, v, acceleration, multipliers, u)
        t, space = jnp.asarray(t, q.dtype), self.formulation
        pose, frames = self.frames(q)
        velocity = BodyVelocity(*self._velocities(pose.rotation, q, v))
        split_q, split_v, split_acceleration = map(self._split, (q, v, acceleration))
        motion = elements.Motion(split_q, split_v, split_acceleration, pose, velocity)
        if space.hybrid:
            bodies = elements.hybrid_matrices(self.bodies, self.gravity, motion)
        else:
            weightless = dataclasses.replace(self, gravity=jnp.zeros_like(self.gravity))
            loads = weightless._applied_wrenches((t, *pose, *velocity), u)
            reactions = self._reactions(t, pose, multipliers)
            constant = Wrench(*map(jnp.subtract, reactions, loads))
            coordinate_multipliers = self._coordinate_multipliers(multipliers)
            bodies = elements.body_matrices(
                space, self.bodies, self.gravity, constant, coordinate_multipliers, motion
            )
        by_group = self._joint_multipliers(multipliers)
        joints = elements.joint_blocks(self.joints, by_group, t, pose, frames)
        pair = None if frames is None else (frames, elements.frame_derivatives(space, motion))
        stiffness, damping = elements.force_blocks(self.forces, t, u, motion, pair)
        columns, coordinate_columns = self.columns(t, q, pose, frames)
        return ElementLinearization(
            formulation=space,
            order=self.algebra.order,
            stabilized=self.algebra.stabilized_order,
            residual=residual,
            mass=bodies.mass,
            stiffness=[elements.diagonal(bodies.stiffness), *joints, *stiffness],
            damping=[elements.diagonal(bodies.damping), *damping],
            joints=columns,
            coordinate_columns=coordinate_columns,
            joint_rates=lambda: elements.joint_rates(self.joints, t, motion, pair),
            coordinate_rates=lambda: elements.coordinate_rates(space, motion),
            rates=self.algebra.change_of_rates(t, q, v),
        )

    @waits.announce("the accelerations")
    def acceleration(self, t, q, v, u=None):
        """v̇ (nv,): Newton and Euler for each body, or the index-1 form if there are joints."""
        if self._joint_rows or self.velocity_rows:
            return super().acceleration(jnp.asarray(t, q.dtype), q, v, u)
        instant = self._instant(t, q, v)
        applied, (_, rotation, _, _, omega) = self._applied_wrenches(instant, u), instant
        linear, angular = jax.vmap(rigid.forward_dynamics)(self.bodies, rotation, omega, *applied)
        return jax.vmap(self.formulation.acceleration)(
            rotation, self._split(q), self._split(v), linear, angular
        ).reshape(-1)

    @override
    def memory_after(self, t, q, v):
        of_joints = constraints.memory_after(self.joints, self._instant(t, q, v))
        return *super().memory_after(t, q, v), *of_joints

    @override
    def _with_memory(self, memory):
        joints = constraints.with_memory(self.joints, memory[len(self.forces) :])
        recalling = super()._with_memory(memory[: len(self.forces)])
        return dataclasses.replace(recalling, joints=joints)

    @override
    def closing(self):
        return dataclasses.replace(self, joints=constraints.closing(self.joints))

    @property
    @override
    def algebra(self):
        return AbsoluteAlgebra(self)

    @property
    @override
    def validity(self):
        return AbsoluteValidity(self)

    @override
    def _instant(self, t, q, v):
        rotation, position = self.poses(q)
        return jnp.asarray(t, q.dtype), rotation, position, *self._velocities(rotation, q, v)

    @property
    @override
    def connections(self):
        return [ends for group in self.joints for ends in zip(*group.bodies, strict=True)]

    @override
    def translate(self, q, shift):
        return jax.vmap(self.formulation.translate)(self._split(q), shift).reshape(-1)

    @override
    def joint_points(self):
        return [
            pair
            for group in self.joints
            for bodies, points in zip(group.bodies, group.element.points, strict=True)
            if points is not None
            for pair in zip(bodies, points, strict=True)
        ]

    @override
    def joint_axes(self):
        return readings.axes(self.joints)

    @override
    def _joint_coordinates(self, q, v, t):
        def at(q):
            return readings.coordinates(self.joints, self.labels, self.poses(q))

        if q.ndim == 1:
            return at(q)
        return turns.unwrap(self.joints, self.labels, self.space, at, (q, v, t))

    @override
    def _constraints(self, q):
        return self.joints, self.labels

    def _split(self, flat: Array) -> Array:
        return flat.reshape(len(self.names), -1)

    def _velocities(self, rotation: Array, q: Array, v: Array) -> tuple[Array, Array]:
        checks.instant("v", v, self.nv)
        return jax.vmap(self.formulation.hybrid_velocity)(rotation, self._split(q), self._split(v))

    def _inertia_forces(
        self, rotation: Array, q: Array, v: Array, omega: Array, dv: Array
    ) -> Wrench:
        linear, angular = jax.vmap(self.formulation.hybrid_acceleration)(
            rotation, self._split(q), self._split(v), self._split(dv)
        )
        return Wrench(
            *jax.vmap(rigid.inverse_dynamics)(self.bodies, rotation, omega, linear, angular)
        )

    def _missing_wrenches(
        self, instant: Instant, q: Array, v: Array, acceleration: Array, u: Array | None
    ) -> Wrench:
        """Wrenches that the bodies' motion needs, less those that act on them."""
        inertia = self._inertia_forces(instant[1], q, v, instant[4], acceleration)
        return Wrench(*map(jnp.subtract, inertia, self._applied_wrenches(instant, u)))

    def _pull_back(self, rotation: Array, q: Array, wrench: Wrench) -> Array:
        return jax.vmap(self.formulation.generalized_force)(
            rotation, self._split(q), *wrench
        ).reshape(-1)

    def _joint_multipliers(self, multipliers: Array) -> list[Array]:
        return stacking.split(self.joints, multipliers, self.nc - self.velocity_rows)

    def _coordinate_multipliers(self, multipliers: Array) -> Float[Array, "bodies rows"]:
        return self._split(multipliers[self._joint_rows : self.nc - self.velocity_rows])

    def _reactions(self, t: Array, pose: tuple[Array, Array], multipliers: Array) -> Wrench:
        return constraints.reactions(self.joints, t, pose, self._joint_multipliers(multipliers))
