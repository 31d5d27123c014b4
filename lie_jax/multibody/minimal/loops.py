"""Mechanisms with loops in joint coordinates: the joints that close them are constraints.

The tree of all other joints has its recursions as without loops. A cut joint pulls at its two
bodies: its row of B is the unit reaction on them times their twists for unit velocities. The
multipliers follow from the Schur complement B M⁻¹ Bᵀ, with M⁻¹ by articulated bodies. Source:
Featherstone, "Rigid Body Dynamics Algorithms" (2008), chapter 8.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics.joints.base import Wrench
from lie_jax.mechanics.mechanism import Label
from lie_jax.multibody import constraints, readings, stacking, turns
from lie_jax.multibody.minimal import recursions
from lie_jax.multibody.minimal.kinematics import Kinematics
from lie_jax.multibody.minimal.linearization import TreeLinearization
from lie_jax.multibody.minimal.system import TreeSystem
from lie_jax.multibody.minimal.turn_places import with_memory
from lie_jax.multibody.stacking import Groups
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.multibody.validity import MultibodyValidity
from lie_jax.numerics import gather, rules, small, waits
from lie_jax.numerics.schur import SchurMatrix
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems import linearization
from lie_jax.systems.algebra import Algebra
from lie_jax.systems.linearization import AbstractLinearization, tangent_columns
from lie_jax.systems.system import AbstractSystem, Time


class LoopValidity(MultibodyValidity):
    """Limits of the forces, and of the joints that close loops."""

    @override
    def branch_signs(self, t, q):
        pose = self.system._pose(q)
        return constraints.sides(self.system.cuts, jnp.asarray(t, q.dtype), pose)

    @override
    def joint_name(self, number):
        return stacking.owner(self.system.cuts, number)


class LoopAlgebra(Algebra):
    """Schur complement of the cut joints' rows, with solutions along the tree."""

    @override
    def bounds(self, t, q):
        return self.system.rows(t, q, self.system.kinematics(q))[1]

    @override
    def saddle(self, t, q):
        system = self.system
        motion = system.kinematics(q)
        inertia, joint_inertia = recursions.inertias(system.bodies, motion), system.joints.inertia()
        none = jnp.zeros_like(motion.twist)
        still, *others = rules.stop_gradient((motion, joint_inertia, inertia))
        _, factors = recursions.articulated_bodies(system.tree, still, others[0], others[1], none)

        def times(x):
            accelerations = system.split(x)
            needed = recursions.inverse_dynamics(
                system.tree, motion, joint_inertia, inertia, none, accelerations
            )
            return system.velocities.flat(*needed)

        def over(forces):
            forces = system.split(forces)
            accelerations = recursions.free_accelerations(system.tree, still, factors, forces)
            return system.velocities.flat(*accelerations)

        rows, bounds = system.rows(t, q, motion)
        # Forces and torques on a base move it with different ease.
        diagonal = jnp.diagonal(factors.bases, axis1=0, axis2=1).reshape(-1, 2, 3)
        of_bases = jnp.repeat(jnp.max(diagonal, axis=2), 3, axis=1)
        ease = system.velocities.flat(of_bases, factors.inverses)
        sizes = linearization.row_sizes(bounds, 1.0 / ease)
        return SchurMatrix(times, over, rows, sizes, ease)


class LoopSystem(TreeSystem):
    """A mechanism with loops in joint coordinates; made by `lie_jax.assemble`.

    `cuts` are the joints that are constraints, stacked by kind, `cut_labels` their labels,
    `all_labels` those of all joints in the mechanism's order. Constraints are those of cut joints
    on positions, then those on velocities; joints stand by kind.
    """

    cuts: Groups
    cut_labels: tuple[Label, ...] = eqx.field(static=True)
    all_labels: tuple[Label, ...] = eqx.field(static=True)

    @property
    @override
    def nc(self):
        return constraints.count(self.cuts, "rows") + self.velocity_rows

    @property
    @override
    def velocity_rows(self):
        return constraints.count(self.cuts, "velocity_rows")

    @override
    def no_places(self):
        left = (
            f"{self.nc} constraints are left in joint coordinates, of joints that close loops or "
            "have no motions of their own: use lie_jax.GeneralizedAlpha()."
        )
        return super().no_places() or left

    @override
    def constraint(self, t, q):
        return constraints.positions(self._cuts(q), jnp.asarray(t, q.dtype), self._pose(q))

    @override
    def velocity_constraint(self, t, q, v):
        return constraints.velocities(self._cuts(q), self._instant(t, q, v))

    @override
    def constraint_rate(self, t, q, v):
        return constraints.rates(self._cuts(q), self._instant(t, q, v))

    @override
    def constraint_rates(self, t, q, v, x, share=1.0):
        motion, share = self.kinematics(q, v), jnp.asarray(share, q.dtype)
        frames = self._frames(motion)
        growing = self.frame_accelerations(q, motion, x)
        linear, angular = (share * motion.drift + growing).reshape(2, 3, -1)
        turning = share * small.cross(motion.twist[3:], frames[2].T)
        linear = linear + small.cross(angular, motion.arm) + turning
        angular_body = jnp.sum(motion.rotation * angular[:, None], axis=0)
        instant = jnp.asarray(t, q.dtype), *frames
        return constraints.rates_and_growth(self._cuts(q), instant, linear.T, angular_body.T, share)

    @override
    def constraint_jacobian(self, t, q):
        return self.rows(t, q, self.kinematics(q))[0]

    @override
    @waits.announce("the accelerations")
    def acceleration(self, t, q, v, u=None):
        return AbstractSystem.acceleration(self, t, q, v, u)

    @override
    def residual(self, t, q, v, acceleration, multipliers, u=None):
        pulled = super(LoopSystem, self._with_cut_reactions(q, multipliers))
        return pulled.residual(t, q, v, acceleration, multipliers, u)

    @override
    @waits.announce("the linearization")
    def linearization(self, t, q, v, acceleration, multipliers, u=None) -> AbstractLinearization:
        tree = self._with_cut_reactions(q, multipliers).tree_linearization(t, q, v, acceleration, u)
        rows, bounds = self.rows(t, q, self.kinematics(q))
        return LoopLinearization(
            space=self.space,
            residual=tree.residual,
            tree=tree,
            constraints=rows,
            bounds=bounds,
            rates=self.algebra.change_of_rates(t, q, v),
            velocity_rows=self.velocity_rows,
        )

    @override
    def closing(self):
        return dataclasses.replace(self, cuts=constraints.closing(self.cuts))

    @property
    @override
    def algebra(self):
        return LoopAlgebra(self)

    @property
    @override
    def validity(self):
        return LoopValidity(self)

    @override
    def owner(self, equation):
        if equation < self.nv:
            return super().owner(equation)
        row, first = equation - self.nv, self.nc - self.velocity_rows
        if row < first:
            return stacking.owner(self.cuts, row, "rows")
        return stacking.owner(self.cuts, row - first, "velocity_rows")

    @property
    @override
    def connections(self):
        cuts = [ends for group in self.cuts for ends in zip(*group.bodies, strict=True)]
        return super().connections + cuts

    @override
    def joint_points(self):
        frames, bodies = self.tree.bodies, len(self.named)
        return super().joint_points() + [
            (frames[slot] if slot >= 0 else -1, point)
            for group in self.cuts
            for slots, points in zip(group.bodies, group.element.points, strict=True)
            if points is not None
            for slot, point in zip(slots, points, strict=True)
            if slot < 0 or frames[slot] < bodies
        ]

    @override
    def joint_axes(self):
        frames, bodies = self.tree.bodies, len(self.named)
        return super().joint_axes() + [
            (frames[slot] if slot >= 0 else -1, point, axis)
            for slot, point, axis in readings.axes(self.cuts)
            if slot < 0 or frames[slot] < bodies
        ]

    @override
    def _joint_coordinates(self, q, v, t):
        def at(q):
            return readings.coordinates(self.cuts, self.cut_labels, self._pose(q))

        if q.ndim == 1:
            closing = at(q)
        else:
            closing = turns.unwrap(self.cuts, self.cut_labels, self.space, at, (q, v, t))
        values = super()._joint_coordinates(q, None, None) | closing
        return readings.in_order(self.all_labels, values)

    @property
    @override
    def constraint_labels(self):
        return self.cut_labels

    @override
    def _constraints(self, q):
        return self._cuts(q), self.constraint_labels

    @override
    def _joint_reactions(self, t, q, v, acceleration, multipliers, u):
        instant = t, q, v, acceleration, multipliers, u
        of_cuts = AbstractMultibodySystem._joint_reactions(self, *instant)
        of_tree = super(LoopSystem, self._with_cut_reactions(q, multipliers))._joint_reactions(
            *instant
        )
        return readings.in_order(self.all_labels, of_tree | of_cuts)

    def _pose(self, q: Array) -> tuple[Array, Array]:
        """Rotations and positions of bases and links."""
        rotation, position, *_ = self._frames(self.kinematics(q))
        return rotation, position

    def _by_group(self, multipliers: Array) -> list[Array]:
        return stacking.split(self.cuts, multipliers, self.nc - self.velocity_rows)

    def _cuts(self, q: Array) -> Groups:
        """Cut joints whose angles have their turns."""
        return with_memory(self.cuts, jnp.zeros((), q.dtype), q)

    def _with_cut_reactions(self, q: Array, multipliers: Array) -> "LoopSystem":
        """The system with the reactions of the cut joints among its forces."""
        pulling = tuple(
            dataclasses.replace(
                group, element=Reaction(group.element, of_group), inputs=(), followed=None
            )
            for group, of_group in zip(self._cuts(q), self._by_group(multipliers), strict=True)
        )
        return dataclasses.replace(self, forces=(*self.forces, *pulling))

    def rows(self, t: Time, q: Array, motion: Kinematics) -> tuple[Array, Array]:
        """B (nc, nv), and bounds of its entries."""
        rotation, position, *_ = self._frames(motion)
        now = jnp.asarray(t, position.dtype)
        reactions = constraints.unit_reactions(self._cuts(q), now, (rotation, position))
        moving = self.unit_motions(q, motion)
        positions, velocities = [], []
        for group, on_slots in zip(self.cuts, reactions, strict=True):
            rows = group.element.rows + group.element.velocity_rows
            both = jnp.zeros((2, rows, self.nv, group.count), now.dtype)
            for slots, wrenches in zip(group.bodies, on_slots, strict=True):
                if max(slots) >= 0:
                    arm = gather.pick(slots, motion.arm, axis=1)
                    turn = gather.pick(slots, motion.rotation, axis=2)
                    linear, angular = moving(slots)
                    linear = linear + small.cross(angular, arm[:, None])
                    torques = small.matmul(turn, wrenches[3:])
                    both += _entries(linear, angular, wrenches[:3], torques)
            flat = both.transpose(0, 3, 1, 2)
            for part, of_kind in (
                (positions, flat[:, :, : group.element.rows]),
                (velocities, flat[:, :, group.element.rows :]),
            ):
                part.append(of_kind.reshape(2, -1, self.nv))
        rows, bounds = jnp.concatenate([*positions, *velocities], axis=1)
        return rows, jax.lax.stop_gradient(bounds)


def _entries(
    linear: Float[Array, "3 nv n"],
    angular: Float[Array, "3 nv n"],
    forces: Float[Array, "3 rows n"],
    torques: Float[Array, "3 rows n"],
) -> Float[Array, "2 rows nv n"]:
    """Powers of forces and torques at unit velocities, and their bounds."""

    def size(x: Array) -> Array:
        return jnp.sqrt(jnp.sum(jax.lax.stop_gradient(x) ** 2, axis=0))

    power = jnp.sum(forces[:, :, None] * linear[:, None], axis=0)
    power += jnp.sum(torques[:, :, None] * angular[:, None], axis=0)
    bound = size(forces)[:, None] * size(linear)[None]
    bound += size(torques)[:, None] * size(angular)[None]
    return jnp.stack([power, bound])


class Reaction(eqx.Module):
    """Force element: action of a cut joint on its bodies for constant multipliers."""

    joint: Any
    multipliers: Float[Array, "..."]
    last: ClassVar[None] = None
    is_load: ClassVar[bool] = False
    # A joint of one's own may depend on where both bodies are.
    is_relative: ClassVar[bool] = False

    def wrenches(self, t, poses, velocities, u):
        """Wrenches on the joint's bodies."""
        reactions = self.joint.reaction(t, *poses, self.multipliers)
        return tuple(Wrench(-force, -torque) for force, torque in reactions)


class LoopLinearization(AbstractLinearization):
    """Linearization of the tree, on which the reactions act, and the rows of the cut joints.

    `constraints`, `bounds`, `rates` and `velocity_rows` as in `AbstractDenseLinearization`.
    """

    space: AbstractSpace
    residual: Float[Array, " nv"]
    tree: TreeLinearization
    constraints: Float[Array, "nc nv"]
    bounds: Float[Array, "nc nv"]
    rates: Callable
    velocity_rows: int = eqx.field(static=True)

    @override
    def dense(self):
        return dataclasses.replace(
            self.tree.dense(),
            constraints=self.constraints,
            bounds=self.bounds,
            rates=self.rates,
            velocity_rows=self.velocity_rows,
        )

    @override
    def step_matrix(self, x, stiffness, damping, mass=1.0):
        if self.velocity_rows:
            return self.dense().step_matrix(x, stiffness, damping, mass)
        dynamic = self.tree.step_matrix(x, stiffness, damping, mass).entries
        along = tangent_columns(self.space, x, jnp.eye(self.space.nv, dtype=dynamic.dtype))
        return linearization.saddle(dynamic, self.constraints, along, self.bounds)
