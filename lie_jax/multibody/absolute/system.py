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
from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench
from lie_jax.multibody import constraints, readings, stacking, turns
from lie_jax.multibody.absolute import (
    assembly,
    elements,
    flexible_blocks,
    inertias,
    linearization,
)
from lie_jax.multibody.absolute.algebra import AbsoluteAlgebra
from lie_jax.multibody.absolute.attachments import Attachments, Matrices
from lie_jax.multibody.absolute.flexible_blocks import body_motions
from lie_jax.multibody.absolute.layout import Layout
from lie_jax.multibody.absolute.readings import AbstractAbsoluteSystem
from lie_jax.multibody.absolute.validity import AbsoluteValidity
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.multibody.flexible import Flexibility, Loads
from lie_jax.multibody.readings import Labels
from lie_jax.multibody.stacking import Connected
from lie_jax.multibody.system import Instant
from lie_jax.numerics import waits
from lie_jax.numerics.block_graph import Blocks
from lie_jax.spaces.base import AbstractSpace


class RigidBodySystem(AbstractAbsoluteSystem):
    """A mechanism in absolute coordinates; made by `lie_jax.assemble`.

    q (nq,) holds the bodies' configurations in order, v (nv,) their velocities, in the coordinates
    of the formulation, then amplitudes of flexible bodies and their rates. Slots of motion are the
    bodies, then their `interfaces`. `labels` are those of joints in readings. Constraints are those
    of joints on positions, among coordinates of each body, of joints on velocities, each by kind.
    """

    joints: tuple[Connected, ...]
    inertias: tuple[Connected, ...]
    formulation: AbstractCoordinates
    flexibility: Flexibility
    labels: Labels = eqx.field(static=True)
    interfaces: tuple[str, ...] = eqx.field(static=True)

    @property
    def space(self) -> AbstractSpace:
        """The configuration space of all bodies, then of all amplitudes."""
        return self.layout.space

    @property
    def layout(self) -> Layout:
        """Nodes of the velocities."""
        return Layout(self.formulation, len(self.names), self.flexibility.modes)

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
        return bool(self._joint_rows or self.velocity_rows or self.inertias)

    @property
    def _joint_rows(self) -> int:
        return constraints.count(self.joints, "rows")

    @override
    def poses(self, q):
        checks.instant("q", q, self.nq)
        # Without the barrier XLA repeats the rotations for each of their many uses.
        return jax.lax.optimization_barrier(jax.vmap(self.formulation.pose)(self.split(q)))

    def mass_matrix(self, q: Float[Array, " nq"]) -> Float[Array, "nv nv"]:
        """Mass matrix, one block a body; singular along what redundant coordinates forbid."""
        blocks = self.mass_blocks(q, *self.attachments(q))
        return linearization.full(blocks, self.layout, q.dtype)

    def mass_blocks(self, q: Array, pose: BodyPose, at: Attachments) -> list[Blocks]:
        """Blocks of the mass matrix, from the poses of all slots."""
        n = len(self.names)
        between = inertias.mass_blocks(self.inertias, pose, at)
        pose = BodyPose(*(x[:n] for x in pose))
        frames = None if self.formulation.hybrid or at.frames is None else at.frames[:, :, :n]
        rigid = elements.diagonal(elements.masses(self.rigid_bodies, pose.rotation, frames))
        parts = self.flexibility, self.layout, pose, self.all_amplitudes(q), frames
        return [rigid, *between, *flexible_blocks.mass_blocks(*parts)]

    @override
    @waits.announce("the forces")
    def force(self, t, q, v, u=None):
        instant = self._instant(t, q, v)
        missing = self._missing_loads(instant, q, v, jnp.zeros_like(v), u)
        return -self._pull_back(instant, q, missing)

    def constraint(self, t, q):
        """Position constraints Φ of all joints, then among the coordinates."""
        t, pose = jnp.asarray(t, q.dtype), self.poses_by_slot(q)
        values = [constraints.positions(self.joints, t, pose)]
        if self.formulation.rows:
            values.append(jax.vmap(self.formulation.constraint)(self.split(q)).reshape(-1))
        return jnp.concatenate(values)

    @override
    def velocity_constraint(self, t, q, v):
        return constraints.velocities(self.joints, self._instant(t, q, v))

    def constraint_jacobian(self, t, q):
        """Jacobian B (nc, nv) of the constraints along velocities, from the joints' reactions."""
        if not self.in_blocks:
            return super().constraint_jacobian(t, q)
        columns = self.columns(t, q, *self.attachments(q))
        return linearization.constraint_rows(*columns, self.layout)

    @property
    def in_blocks(self) -> bool:
        """Whether derivatives are written in blocks, by elements."""
        flexible = self.flexibility.groups and self.formulation.rows
        return self.formulation.keeps_rotations and not flexible

    def attachments(self, q: Array) -> tuple[BodyPose, Attachments]:
        """Poses of all slots, and how velocities move them."""
        pose, amplitudes, frames = BodyPose(*self.poses(q)), self.all_amplitudes(q), self._frames(q)
        at = flexible_blocks.attach(self.flexibility, self.layout, pose, amplitudes, frames)
        return self.flexibility.frames(pose, amplitudes), at

    def _frames(self, q: Array) -> Matrices | None:
        """Frames (6, nv, N) of the velocities of bodies, None for hybrid velocities."""
        if self.formulation.hybrid:
            return None
        return elements.body_frames(self.formulation, self.split(q))

    def columns(
        self, t, q: Array, pose: BodyPose, at: Attachments
    ) -> tuple[list[elements.JointColumns], Array]:
        """Columns of Bᵀ of joints, and of constraints among coordinates (nv, rows, nodes)."""
        t = jnp.asarray(t, q.dtype)
        units = jnp.eye(self.formulation.rows, dtype=q.dtype)
        reaction = jax.vmap(self.formulation.reaction, (None, 0), 1)
        coordinates = jax.vmap(lambda q: reaction(q, units), out_axes=2)(self.split(q))
        joints = elements.joint_columns(self.joints, t, pose, at)
        return joints, self.layout.with_amplitudes(coordinates)

    @override
    @waits.announce("the residual")
    def residual(self, t, q, v, acceleration, multipliers, u=None):
        t, rotation, position, *_ = instant = self._instant(t, q, v)
        missing = self._missing_loads(instant, q, v, acceleration, u)
        if not self.formulation.keeps_rotations:
            # Bᵀλ for velocities q̇ without the Jacobian B.
            _, transpose = jax.vjp(lambda v: self.constraint_rate(t, q, v), jnp.zeros_like(v))
            return transpose(multipliers)[0] + self._pull_back(instant, q, missing)
        reaction = self.reactions_on_slots(t, (rotation, position), multipliers)
        wrench = Wrench(*map(jnp.add, missing.wrench, reaction))
        result = self._pull_back(instant, q, missing._replace(wrench=wrench))
        if not self.formulation.rows:
            return result
        of_bodies = self.split(q), self.coordinate_multipliers(multipliers)
        of_coordinates = jax.vmap(self.formulation.reaction)(*of_bodies).reshape(-1)
        return result + jnp.pad(of_coordinates, (0, result.size - of_coordinates.size))

    @override
    def owner(self, equation):
        bodies = len(self.names) * self.formulation.nv
        if bodies <= equation < self.nv:
            number = self.flexibility.body_of(equation - bodies)
            return f"the amplitudes of body {self.names[number]!r}"
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
        if not self.in_blocks:
            return super().linearization(t, q, v, acceleration, multipliers, u)
        return assembly.linearization(self, t, (q, v, acceleration), multipliers, u)

    @property
    def _has_more_inertia(self) -> bool:
        return bool(self.flexibility.groups or self.inertias)

    @waits.announce("the accelerations")
    def acceleration(self, t, q, v, u=None):
        """v̇ (nv,): Newton and Euler for each body, or the index-1 form if there are joints."""
        if self._joint_rows or self.velocity_rows or self._has_more_inertia:
            return super().acceleration(jnp.asarray(t, q.dtype), q, v, u)
        instant = self._instant(t, q, v)
        applied, (_, rotation, _, _, omega) = self._applied_wrenches(instant, u), instant
        linear, angular = jax.vmap(rigid.forward_dynamics)(self.bodies, rotation, omega, *applied)
        return jax.vmap(self.formulation.acceleration)(
            rotation, self.split(q), self.split(v), linear, angular
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
        pose, amplitudes = BodyPose(*self.poses(q)), self.all_amplitudes(q)
        velocity = BodyVelocity(*self._velocities(pose.rotation, q, v))
        slots = self.flexibility.frames(pose, amplitudes)
        moving = self.flexibility.velocities(pose, velocity, amplitudes, self.all_rates(v))
        return jnp.asarray(t, q.dtype), *slots, *moving

    @property
    @override
    def connections(self):
        return [ends for group in self.joints for ends in zip(*group.bodies, strict=True)]

    @override
    def translate(self, q, shift):
        moved = jax.vmap(self.formulation.translate)(self.split(q), shift).reshape(-1)
        return jnp.concatenate([moved, self.all_amplitudes(q)])

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
            return readings.coordinates(self.joints, self.labels, self.poses_by_slot(q))

        if q.ndim == 1:
            return at(q)
        return turns.unwrap(self.joints, self.labels, self.space, at, (q, v, t))

    @property
    @override
    def constraint_labels(self):
        return self.labels

    @override
    def _constraints(self, q):
        return self.joints, self.constraint_labels

    @property
    def rigid_bodies(self) -> MassProperties:
        """Mass properties of the bodies, undeformed, without those of further slots."""
        return jax.tree.map(lambda x: x[: len(self.names)], self.bodies)

    def _inertia_forces(
        self, rotation: Array, q: Array, v: Array, omega: Array, dv: Array
    ) -> Wrench:
        linear, angular = jax.vmap(self.formulation.hybrid_acceleration)(
            rotation, self.split(q), self.split(v), self.split(dv)
        )
        return Wrench(
            *jax.vmap(rigid.inverse_dynamics)(self.rigid_bodies, rotation, omega, linear, angular)
        )

    def _missing_loads(
        self, instant: Instant, q: Array, v: Array, acceleration: Array, u: Array | None
    ) -> Loads:
        """Wrenches on slots, and forces along amplitudes, that the bodies' motion needs, less those
        that act.
        """
        n = len(self.names)
        rotation, position, linear, omega = (x[:n] for x in instant[1:])
        inertia = self._inertia_forces(rotation, q, v, omega, acceleration)
        along = jnp.zeros(0, q.dtype)
        if self.flexibility.groups:
            split = self.split(q), self.split(v), self.split(acceleration)
            of_bodies = BodyPose(rotation, position), BodyVelocity(linear, omega)
            motion = elements.Motion(*split, *of_bodies)
            amplitudes = self.all_amplitudes(q), self.all_rates(v), self.all_rates(acceleration)
            moving = body_motions(self.formulation, self.gravity, motion, amplitudes)
            added, along = self.flexibility.forces(moving)
            more = ((0, self.flexibility.interfaces), (0, 0))
            inertia = Wrench(*(jnp.pad(x + y, more) for x, y in zip(inertia, added, strict=True)))
        if self.inertias:
            split = self.split(q), self.split(v), self.split(acceleration)
            accelerations = jax.vmap(self.formulation.hybrid_acceleration)(rotation, *split)
            slots = len(instant[1])
            between = inertias.wrenches(
                self.inertias, instant[1:], accelerations, self.gravity, slots
            )
            inertia = Wrench(*map(jnp.add, inertia, between))
        applied = self._applied_wrenches(instant, u)
        return Loads(Wrench(*map(jnp.subtract, inertia, applied)), along)

    def _pull_back(self, instant: Instant, q: Array, loads: Loads) -> Array:
        n = len(self.names)
        pose = BodyPose(instant[1][:n], instant[2][:n])
        pulled = self.flexibility.pull_back(pose, self.all_amplitudes(q), loads.wrench)
        of_bodies = jax.vmap(self.formulation.generalized_force)(
            pose.rotation, self.split(q), *pulled.wrench
        ).reshape(-1)
        return jnp.concatenate([of_bodies, loads.along + pulled.along])

    def joint_multipliers(self, multipliers: Array) -> list[Array]:
        """Multipliers of each group of joints."""
        return stacking.split(self.joints, multipliers, self.nc - self.velocity_rows)

    def coordinate_multipliers(self, multipliers: Array) -> Float[Array, "bodies rows"]:
        """Multipliers of the constraints among coordinates."""
        of_coordinates = multipliers[self._joint_rows : self.nc - self.velocity_rows]
        return of_coordinates.reshape(len(self.names), -1)

    def reactions_on_slots(self, t: Array, pose: tuple[Array, Array], multipliers: Array) -> Wrench:
        """Hybrid wrenches of all joints."""
        return constraints.reactions(self.joints, t, pose, self.joint_multipliers(multipliers))
