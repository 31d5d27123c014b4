"""Rigid-body systems in joint coordinates: trees of bodies on floating bases or on the ground.

Accelerations come from the articulated-body algorithm, see `recursions`: their cost grows linearly
with the number of joints, and compile time with nothing.
"""

import dataclasses
from collections.abc import Callable
from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics.joints.base import BodyPose
from lie_jax.mechanics.mechanism import Label
from lie_jax.multibody import contact_impulses as impulses
from lie_jax.multibody import readings
from lie_jax.multibody.coordinates.se3 import SE3
from lie_jax.multibody.minimal import joint_places, kinematics, reactions, recursions, turn_places
from lie_jax.multibody.minimal.joints import TreeJoints
from lie_jax.multibody.minimal.kinematics import Kinematics, SpatialVectors
from lie_jax.multibody.minimal.layout import Layout, make_space
from lie_jax.multibody.minimal.linearization import (
    Branches,
    Columns,
    Forces,
    TreeLinearization,
    velocity_matrices,
)
from lie_jax.multibody.minimal.recursions import Accelerations
from lie_jax.multibody.minimal.state import Start
from lie_jax.multibody.minimal.tree import Tree, names_by_slot
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import gather, small, waits
from lie_jax.numerics.dense import product
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems import linearization
from lie_jax.systems.system import State


class TreeSystem(AbstractMultibodySystem):
    """A mechanism in joint coordinates, without constraints; made by `lie_jax.assemble`.

    Bodies and joints stand in the order of the tree: bases, then one link for each elementary
    motion of a joint. `owners` has the number of the joint of every motion, `titles` and `labels`
    the joints in words and as keys.
    """

    joints: TreeJoints
    tree: Tree = eqx.field(static=True)
    owners: tuple[int, ...] = eqx.field(static=True)
    titles: tuple[str, ...] = eqx.field(static=True)
    labels: tuple[Label, ...] = eqx.field(static=True)

    @property
    def coordinates(self) -> Layout:
        """Places of the bases' and links' coordinates in q."""
        counts = tuple(nq for nq, _ in self.joints.counts)
        return Layout(7 * self.tree.bases, self.tree.motions, counts)

    @property
    def velocities(self) -> Layout:
        """Places of the bases' and links' velocities in v."""
        counts = tuple(nv for _, nv in self.joints.counts)
        return Layout(6 * self.tree.bases, self.tree.motions, counts)

    @property
    @override
    def space(self) -> AbstractSpace:
        return make_space(self.tree.bases, self.coordinates, self.velocities)

    @property
    @override
    def slow_to_compile(self):
        return bool(self.tree.motions)

    @override
    def poses(self, q):
        rotation, position, *_ = self._frames(self.kinematics(q))
        return gather.pick(self.slots, rotation), gather.pick(self.slots, position)

    @override
    def poses_and_jacobians(self, q, bodies):
        motion, slots = self.kinematics(q), tuple(self.slots[body] for body in bodies)
        rotation = gather.pick(slots, motion.rotation, axis=2)
        position, arm = (gather.pick(slots, x, axis=1) for x in (motion.position, motion.arm))
        moved = jnp.asarray(self._motion_mask[list(slots)].T, q.dtype)
        linear, omega = (self._columns(motion)[..., None] * moved[None]).reshape(2, 3, self.nv, -1)
        linear = linear + small.cross(omega, jnp.broadcast_to(arm[:, None], omega.shape))
        back = small.transpose(rotation)
        rows = jnp.concatenate([small.matmul(back, linear), small.matmul(back, omega)])
        return jnp.moveaxis(rotation, -1, 0), position.T, jnp.moveaxis(rows, -1, 0)

    @override
    def mass_matrix(self, q: Float[Array, " nq"]) -> Float[Array, "nv nv"]:
        """Mass matrix, by the composite-rigid-body algorithm."""
        motion = self.kinematics(q)
        inertia = recursions.inertias(self.bodies, motion)
        factors = recursions.mass_matrix_factors(self.tree, motion, inertia)
        twists, momenta = (self.velocities.flat(*factor) for factor in factors)
        products = product(momenta, twists.T)
        branches = self._branches()
        no_motors = jnp.zeros((self.tree.bases, 6), q.dtype)
        armature = self.velocities.flat(no_motors, self.joints.inertia().T)
        return branches.within * products + (branches.beyond * products).T + jnp.diag(armature)

    @override
    @waits.announce("the forces")
    def force(self, t, q, v, u=None):
        terms = self._terms(t, q, v, u)
        return -self.velocities.flat(*recursions.inverse_dynamics(self.tree, *terms, None))

    @override
    def owner(self, equation):
        """The floating base or joint that an equation belongs to, in words, for messages."""
        bases, counts = self.tree.bases, self.velocities.by_motion
        if equation < 6 * bases:
            return f"body {self.names[self.tree.bodies[equation // 6]]!r}"
        ends = accumulate(counts, initial=6 * bases)
        return self.titles[self.owners[sum(end <= equation for end in ends) - 1]]

    @override
    @waits.announce("the residual")
    def residual(self, t, q, v, acceleration, multipliers, u=None):
        accelerations, terms = self.split(acceleration), self._terms(t, q, v, u)
        return self.velocities.flat(*recursions.inverse_dynamics(self.tree, *terms, accelerations))

    @override
    @waits.announce("the accelerations")
    def acceleration(self, t, q, v, u=None):
        """v̇ (nv,), by the articulated-body algorithm."""
        terms = self._terms(t, q, v, u)
        return self.velocities.flat(*recursions.forward_dynamics(self.tree, *terms))

    @override
    def kinetic_energy(self, q, v):
        # Rates that a joint does not have are zero.
        motors = jnp.sum(self.joints.inertia().T * self._rates(v) ** 2)
        return super().kinetic_energy(q, v) + 0.5 * motors

    @override
    def potential_energy(self, q):
        return super(TreeSystem, self._following(jnp.zeros((), q.dtype), q)).potential_energy(q)

    @override
    def _powers(self, t, q, v, multipliers, u):
        following = super(TreeSystem, self._following(t, q))
        return following._powers(t, q, v, multipliers, u)

    @override
    def _joint_reactions(self, t, q, v, acceleration, multipliers, u):
        on_children = reactions.on_children(
            self.tree, self.joints, *self._transmitted(t, q, v, acceleration, u)
        )
        links = zip(self.owners, self.joint_links, strict=True)
        return readings.in_order(self.labels, reactions.by_label(self.labels, links, on_children))

    def _transmitted(self, t, q, v, acceleration, u) -> tuple[Kinematics, SpatialVectors]:
        """Motion, and the wrench that each frame takes from the nearer side."""
        motion, _, inertia, bias = self._terms(t, q, v, u)
        x = self.split(acceleration)
        return motion, recursions.transmitted_wrenches(self.tree, motion, inertia, bias, x)

    @override
    def memory_after(self, t, q, v):
        """Memory of the forces at an instant, except those that follow a joint's coordinate."""
        free = tuple(group for group in self.forces if group.followed is None)
        others = super(TreeSystem, dataclasses.replace(self, forces=free))
        kept = iter(others.memory_after(t, q, v) if free else ())
        return tuple(next(kept) if group.followed is None else None for group in self.forces)

    @override
    def _joint_coordinates(self, q, v, t):
        values, start = {}, 7 * self.tree.bases
        counts = self.coordinates.by_motion[: len(self.owners)]
        for owner, count in zip(self.owners, counts, strict=True):
            if count == 1:
                label = self.labels[owner]
                before = values.get(label, q[..., :0])
                values[label] = jnp.concatenate([before, q[..., start : start + 1]], axis=-1)
            start += count
        return readings.in_order(self.labels, values)

    @property
    @override
    def connections(self):
        return list(
            zip(self.tree.nearer, range(self.tree.bases, len(self.tree.bodies)), strict=True)
        )

    @override
    def translate(self, q, shift):
        bases, links = jnp.split(q, [7 * self.tree.bases])
        moved = bases.reshape(-1, 7).at[:, :3].add(shift[: self.tree.bases])
        return jnp.concatenate([moved.reshape(-1), links])

    @override
    def joint_points(self):
        return joint_places.points(self)

    @override
    def joint_axes(self):
        return joint_places.axes(self)

    @property
    def joint_links(self) -> tuple[int, ...]:
        """The link of every motion of a joint."""
        return self.tree.links[: len(self.owners)]

    @property
    @override
    def names_by_slot(self) -> tuple[str, ...]:
        """Names of the bodies by their places in `bodies`, of the ground for frames in joints."""
        return names_by_slot(self.tree, self.named)

    @property
    def named(self) -> tuple[str, ...]:
        """Names of the bodies, then of further frames of them, by their numbers."""
        return self.names

    @property
    @override
    def slots(self) -> tuple[int, ...]:
        return self.tree.slots[: len(self.names)]

    def kinematics(self, q: Array, v: Array | None = None) -> Kinematics:
        """Motion of bases and links; at rest without velocities."""
        checks.instant("q", q, self.nq)
        v = jnp.zeros(self.nv, q.dtype) if v is None else v
        checks.instant("v", v, self.nv)
        return self._kinematics(self.joints, q, v)

    def _kinematics(
        self, joints: TreeJoints, q: Array, v: Array, beyond_joints: Callable | None = None
    ) -> Kinematics:
        bases = self.tree.bases
        return kinematics.kinematics(
            self.tree,
            joints,
            BodyPose(*jax.vmap(SE3().pose)(q[: 7 * bases].reshape(bases, 7))),
            v[: 6 * bases].reshape(bases, 6),
            self.coordinates.links(q, joints.widest[0]),
            self._rates(v),
            beyond_joints,
        )

    def _frames(self, motion: Kinematics) -> tuple[Array, Array, Array, Array]:
        """Rotation, position, ṙ and ω of bases and links."""
        linear, omega = motion.twist.reshape(2, 3, -1)
        velocity = linear + small.cross(omega, motion.arm)
        omega_body = jnp.sum(motion.rotation * omega[:, None], axis=0)
        rotation = jnp.moveaxis(motion.rotation, -1, 0)
        return rotation, motion.position.T, velocity.T, omega_body.T

    @override
    def _instant(self, t, q, v):
        return jnp.asarray(t, q.dtype), *self._frames(self.kinematics(q, v))

    def _following(self, t: Array, q: Array) -> "TreeSystem":
        """The system at q, whose forces have the turns of the joints that they follow."""
        return dataclasses.replace(self, forces=turn_places.with_memory(self.forces, t, q))

    def _terms(
        self, t, q: Array, v: Array, u: Array | None
    ) -> tuple[Kinematics, Array, Array, Array]:
        """Kinematics, inertias added to the joints, inertias, and bias less applied wrenches."""
        motion = self.kinematics(q, v)
        inertia, t = recursions.inertias(self.bodies, motion), jnp.asarray(t, q.dtype)
        applied = self._following(t, q)._applied_wrenches((t, *self._frames(motion)), u)
        force = applied.force.T
        torque = small.matvec(motion.rotation, applied.torque.T) + small.cross(motion.arm, force)
        bias = recursions.bias(motion, inertia) - jnp.concatenate([force, torque])
        return motion, self.joints.inertia(), inertia, bias

    def _rates(self, v: Float[Array, " nv"]) -> Float[Array, "links widest"]:
        """Velocities of the links, zeros where a link has fewer than the widest."""
        return self.velocities.links(v, self.joints.widest[1])

    @eqx.filter_jit
    def initial_state(self, start: Start) -> State:
        """State of a start."""
        poses, twists, coordinates, rates = start
        return State(self.coordinates.flat(poses, coordinates), self.velocities.flat(twists, rates))

    @property
    def _owners(self) -> tuple[int, ...]:
        """Base or link that each velocity moves, links counted after the bases."""
        tree = self.tree
        links = zip(tree.links, self.velocities.by_motion, strict=True)
        bases = [base for base in range(tree.bases) for _ in range(6)]
        return (*bases, *(tree.bases + link for link, count in links for _ in range(count)))

    @property
    def _motion_mask(self) -> Float[np.ndarray, "frames nv"]:
        """1 where a velocity moves a base or link."""
        tree, owners = self.tree, np.asarray(self._owners, int)
        links = range(tree.forest.roots, tree.forest.roots + len(tree.links))
        slots = np.asarray([*range(tree.bases), *links], int)
        beyond = tree.forest.ancestors[np.ix_(slots, slots[owners])]
        return beyond + (np.arange(len(slots))[:, None] == owners)

    def _branches(self) -> Branches:
        tree, owners = self.tree, self._owners
        nearer = (*[-1] * tree.bases, *tree.nearer)
        numbers = np.asarray(owners, int)
        within = self._motion_mask[numbers]
        beyond = within - (numbers[:, None] == numbers)
        dtype = self.gravity.dtype
        return Branches(
            owners,
            tuple(nearer[frame] for frame in owners),
            jnp.asarray(beyond, dtype),
            jnp.asarray(within, dtype),
        )

    @override
    @waits.announce("the linearization")
    def linearization(
        self, t, q, v, acceleration, multipliers, u=None
    ) -> linearization.AbstractLinearization:
        return self.tree_linearization(t, q, v, acceleration, u)

    def tree_linearization(self, t, q, v, acceleration, u=None) -> TreeLinearization:
        """Residual and its derivatives without constraints, by composite bodies."""
        system = dataclasses.replace(
            self._following(jnp.asarray(t, q.dtype), q), gravity=jnp.zeros_like(self.gravity)
        )
        motion, joint_inertia, inertia, bias = system._terms(t, q, v, u)
        tree, branches, bases = self.tree, self._branches(), self.tree.bases
        accelerations = recursions.frame_accelerations(tree, motion, self.split(acceleration))
        # Gravity acts as if everything were accelerated against it.
        weight = jnp.concatenate([self.gravity, jnp.zeros_like(self.gravity)])[:, None]
        wrench = bias + small.matvec(inertia, accelerations - weight)
        terms = [inertia, velocity_matrices(inertia, motion.twist), wrench[:, None]]
        sums = recursions.sums_beyond(tree, jnp.moveaxis(jnp.concatenate(terms, axis=1), -1, 0))
        sums = gather.pick(branches.owners, jnp.moveaxis(sums, 0, -1), axis=2)
        columns = self._columns(motion)
        armature = self.velocities.flat(jnp.zeros((bases, 6), q.dtype), joint_inertia.T)
        total = accelerations + motion.drift
        return TreeLinearization(
            space=self.space,
            residual=small.dot(columns, sums[:, 12]) + armature * acceleration,
            branches=branches,
            columns=columns,
            nearer=gather.pick(branches.nearer, motion.twist, axis=1),
            own=gather.pick(branches.owners, motion.twist, axis=1),
            acceleration=gather.pick(branches.nearer, total, axis=1) - weight,
            inertia=sums[:, :6],
            rates=sums[:, 6:12],
            wrench=sums[:, 12],
            armature=armature,
            forces=Forces(
                tree, branches, system.forces, jnp.asarray(t, q.dtype), u,
                self._frames(motion), motion.arm.T,
            ),
        )  # fmt: skip

    @override
    def places(self, t, q, v):
        motion = self.kinematics(q, v)
        moved = jnp.asarray(self._motion_mask.T, q.dtype)[:, None]
        twists = self._columns(motion).T[:, :, None] * moved
        units = jax.vmap(lambda twist: self._frames(motion._replace(twist=twist))[2:])(twists)
        return impulses.places_at(self.forces, self._frames(motion), units)

    def unit_motions(self, q: Array, motion: Kinematics) -> Callable:
        """Function of slots that returns their unit motions (3, nv, slots): linear, angular."""
        columns = self._columns(motion)[..., None]
        moved = jnp.asarray(self._motion_mask, q.dtype)

        def of(slots: tuple[int, ...]) -> tuple[Array, Array]:
            moves = gather.pick(slots, moved).T[None]
            angular = columns[3:] * moves
            return columns[:3] * moves, angular

        return of

    def frame_accelerations(self, q: Array, motion: Kinematics, x: Array) -> SpatialVectors:
        """Accelerations of all frames beyond their drift, for rates x (nv,) of the velocities."""
        return recursions.frame_accelerations(self.tree, motion, self.split(x))

    def _columns(self, motion: Kinematics) -> Columns:
        """Twist that each unit velocity gives to the frame that it moves."""
        rotation = motion.rotation[..., : self.tree.bases]
        none = jnp.zeros_like(rotation)
        of_bases = small.block_2x2(rotation, none, none, rotation)
        return self.velocities.flat(of_bases.T, jnp.moveaxis(motion.columns, -1, 0)).T

    def split(self, acceleration: Float[Array, " nv"]) -> Accelerations:
        """Numbers like v by bases and links."""
        bases = acceleration[: 6 * self.tree.bases].reshape(-1, 6)
        return Accelerations(bases, self._rates(acceleration))
