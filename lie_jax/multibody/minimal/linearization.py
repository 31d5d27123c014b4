"""Derivatives of inverse dynamics along a tree, by composite bodies.

A velocity k with the column S moves everything beyond its joint as one rigid body. In the frame of
what moves, its coordinate changes twists by Ψ̇ = V × S and accelerations by Ψ̈ = A × S + V × Ψ̇ alone,
V and A those of the nearer frame: sums of inertias I, of the matrices B of velocity-dependent
wrenches and of wrenches over all bodies beyond a joint give every entry. Source: Carpentier and
Mansard (2018), "Analytical derivatives of rigid body dynamics algorithms", in world axes.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity
from lie_jax.multibody import stacking
from lie_jax.multibody.minimal import recursions
from lie_jax.multibody.minimal.tree import Tree
from lie_jax.multibody.stacking import Connected
from lie_jax.numerics import gather, small
from lie_jax.numerics.dense import DenseMatrix, product
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.linearization import (
    AbstractLinearization,
    Factor,
    MatrixLinearization,
    tangent_rows,
)

# Twists or wrenches, one for each velocity.
Columns = Float[Array, "6 nv"]


class Branches(eqx.Module):
    """Velocities along the tree.

    `owners` and `nearer`: frame that each velocity moves, and the frame before it, -1 for the
    ground; `beyond` (nv, nv): whether the first velocity's frame hangs, over others, from that of
    the second; `within`: the same, or both move one frame.
    """

    owners: tuple[int, ...] = eqx.field(static=True)
    nearer: tuple[int, ...] = eqx.field(static=True)
    beyond: Float[Array, "nv nv"]
    within: Float[Array, "nv nv"]


class TreeLinearization(AbstractLinearization):
    """Linearization of a tree by its composite bodies.

    `columns`, and `nearer` and `own`: twist of each velocity, twists of the frames before it and of
    its own; `acceleration`: of the frame before it, less gravity; `inertia`, `rates` and `wrench`:
    sums of I, B and wrenches beyond each velocity's joint; `armature` (nv,). `pull` returns the
    part of forces that change, see `Forces`.
    """

    space: AbstractSpace
    residual: Float[Array, " nv"]
    branches: Branches
    columns: Columns
    nearer: Columns
    own: Columns
    acceleration: Columns
    inertia: Float[Array, "6 6 nv"]
    rates: Float[Array, "6 6 nv"]
    wrench: Columns
    armature: Float[Array, " nv"]
    forces: "Forces"

    @override
    def dense(self):
        dtype = self.residual.dtype
        mass, stiffness, damping = (self._sum(self.columns, *x) for x in np.eye(3).tolist())
        return MatrixLinearization(
            space=self.space,
            residual=self.residual,
            constraints=jnp.zeros((0, self.space.nv), dtype),
            bounds=None,
            rates=lambda along: jnp.zeros(0, dtype),
            velocity_rows=0,
            mass=mass,
            stiffness=stiffness,
            damping=damping,
        )

    @override
    def step_matrix(self, x, stiffness, damping, mass=1.0):
        moved = self.columns
        if x is not None:
            # The operator joins velocities of one frame alone.
            moved = tangent_rows(self.space, x, moved)
        return DenseMatrix(self._sum(moved, mass, stiffness, damping))

    def _sum(
        self, moved: Columns, mass: Factor, stiffness: Factor, damping: Factor
    ) -> Float[Array, "nv nv"]:
        """M M + d C + k K with factors m, k and d, where coordinates move along `moved`."""
        columns, moved = self.columns, stiffness * moved
        turned = _cross(self.nearer, moved)
        accelerations = mass * columns + damping * _cross(self.nearer + self.own, columns)
        accelerations += _cross(self.acceleration, moved) + _cross(self.nearer, turned)
        velocities = damping * columns + turned
        needed = small.matvec(self.inertia, accelerations) + small.matvec(self.rates, velocities)
        needed += _dual_cross(moved, self.wrench)
        left = jnp.concatenate(
            [
                small.matvec(self.inertia, columns),
                small.matvec(small.transpose(self.rates), columns),
            ]
        )
        right = jnp.concatenate([accelerations, velocities])
        matrix = self.branches.within * product(left.T, right)
        matrix += self.branches.beyond.T * product(columns.T, needed)
        matrix += mass * jnp.diag(self.armature)
        supplied = self.forces.matrix(columns, moved, velocities)
        return matrix if supplied is None else matrix - supplied


class Forces(eqx.Module):
    """Groups of forces on frames in motion.

    `motion`: rotation, position, ṙ and ω of all frames, stacked; `arm` (frames, 3): from the
    reference point to their origins.
    """

    tree: Tree = eqx.field(static=True)
    branches: Branches
    groups: tuple[Connected, ...]
    t: Float[Array, ""]
    u: Array | None
    motion: tuple[Array, Array, Array, Array]
    arm: Float[Array, "frames 3"]

    def matrix(
        self, columns: Columns, moved: Columns, velocities: Columns
    ) -> Float[Array, "nv nv"] | None:
        """Change of what forces supply along each velocity of `columns`, in its own frame.

        Frames are `moved`, and change their twists by `velocities` seen from themselves.
        """
        frames, nv = self.arm.shape[0], columns.shape[1]
        acting, values = [], []
        for group in self.groups:
            pairs = self._pairs(group)
            if pairs:
                for slot, wrenches in enumerate(self._changes(group, pairs, moved, velocities)):
                    acting += ((group.bodies[slot][element], column) for element, column in pairs)
                    values.append(wrenches)
        movers = _movers(self.tree, self.branches.owners)
        if not any(movers[body] for body, _ in acting):
            return None
        changes = jnp.concatenate(values)
        entries = [
            (row, column, number)
            for number, (body, column) in enumerate(acting)
            for row in movers[body]
        ]
        # Springs in joints have few entries. Forces everywhere are added up along the tree.
        if len(entries) <= frames * nv:
            rows, _, numbers = map(np.asarray, zip(*entries, strict=True))
            supplied = jnp.sum(columns.T[rows] * changes[numbers], axis=1)
            places = tuple(row * nv + column for row, column, _ in entries)
            return gather.add_up_by_table(places, supplied, nv * nv).reshape(nv, nv)
        places = tuple(body * nv + column if body >= 0 else -1 for body, column in acting)
        table = gather.add_up_by_table(places, changes, frames * nv).reshape(frames, nv, 6)
        beyond = recursions.sums_beyond(self.tree, table.swapaxes(1, 2))
        owned = gather.pick(self.branches.owners, beyond)
        return jnp.sum(columns.T[:, :, None] * owned, axis=1)

    def _pairs(self, group: Connected) -> list[tuple[int, int]]:
        """Numbers of elements and of the velocities that change their wrenches."""
        movers, pairs = _movers(self.tree, self.branches.owners), []
        for element in range(group.count):
            by_body = [movers[slot[element]] for slot in group.bodies]
            columns = set().union(*by_body)
            # A velocity that moves all bodies of an element together does not change its wrenches
            # between them.
            if group.element.is_relative:
                columns.difference_update(set(by_body[0]).intersection(*by_body[1:]))
            pairs += ((element, column) for column in sorted(columns))
        return pairs

    def _changes(
        self,
        group: Connected,
        pairs: list[tuple[int, int]],
        moved: Columns,
        velocities: Columns,
    ) -> list[Float[Array, "pairs 6"]]:
        """Changes of the wrenches on each slot, for elements and velocities in pairs."""
        elements, columns = (tuple(numbers) for numbers in zip(*pairs, strict=True))
        rows = np.asarray(elements)
        chosen = dataclasses.replace(
            group,
            element=jax.tree.map(lambda x: x[rows], group.element),
            bodies=tuple(tuple(slot[k] for k in elements) for slot in group.bodies),
            inputs=(),
        )
        inputs = stacking.own_inputs(group, self.u)
        inputs = None if inputs is None else inputs[rows]
        dtype = moved.dtype
        movers = _movers(self.tree, self.branches.owners)
        masks = jnp.asarray(
            [[float(c in movers[b[e]]) for b in group.bodies] for e, c in pairs], dtype
        )
        arms = jnp.stack([gather.pick(slot, self.arm) for slot in chosen.bodies], axis=1)
        index = np.asarray(columns)

        def derivative(element, poses, rates, u, arms, masks, moved, faster):
            def wrenches(poses, rates):
                return element.wrenches(self.t, poses, rates, u)

            shifts, changes = [], []
            for pose, rate, arm, mask in zip(poses, rates, arms, masks, strict=True):
                linear, angular = mask * moved[:3], mask * moved[3:]
                turn = small.matmul(small.hat(angular), pose.rotation)
                shifts.append(BodyPose(turn, linear + small.cross(angular, arm)))
                push, spin = mask * faster[:3], mask * faster[3:]
                carried = small.cross(angular, rate.linear) + push + small.cross(spin, arm)
                changes.append(BodyVelocity(carried, small.matvec(pose.rotation.T, spin)))
            tangents = tuple(shifts), tuple(changes)
            found, rates_of_change = jax.jvp(wrenches, (poses, rates), tangents)
            results = []
            for pose, arm, mask, wrench, change in zip(
                poses, arms, masks, found, rates_of_change, strict=True
            ):
                force = change.force - small.cross(mask * moved[3:], wrench.force)
                torque = small.matvec(pose.rotation, change.torque) + small.cross(arm, force)
                results.append(jnp.concatenate([force, torque]))
            return results

        return stacking.each(
            derivative, chosen, self.motion, inputs, arms, masks,
            moved.T[index], velocities.T[index],
        )  # fmt: skip


def velocity_matrices(inertia: Float[Array, "6 6 n"], twist: Float[Array, "6 n"]) -> Array:
    """Matrices B (6, 6, n): B x = V ×* I x - I (V × x) + x ×* I V."""
    v, omega = twist.reshape(2, 3, -1)
    spin, none = small.hat(omega), jnp.zeros((3, 3, twist.shape[1]), twist.dtype)
    turned = small.matmul(inertia, small.block_2x2(spin, small.hat(v), none, spin))
    force, moment = map(small.hat, small.matvec(inertia, twist).reshape(2, 3, -1))
    return -small.transpose(turned) - turned - small.block_2x2(none, force, force, moment)


@functools.lru_cache(maxsize=64)
def _movers(tree: Tree, owners: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """Velocities that move each frame; none moves the ground, -1."""
    by_owner: dict[int, list[int]] = {}
    for column, owner in enumerate(owners):
        by_owner.setdefault(owner, []).append(column)
    frames = range(tree.bases + len(tree.nearer))
    return {-1: ()} | {
        frame: tuple(sorted(k for x in {frame, *_before(tree, frame)} for k in by_owner.get(x, ())))
        for frame in frames
    }


def _before(tree: Tree, body: int) -> set[int]:
    before = set()
    while body >= tree.bases and body >= 0:
        body = tree.nearer[body - tree.bases]
        before.add(body)
    return before


def _cross(a: Columns, b: Columns) -> Columns:
    """Twists a × b."""
    (v, omega), (linear, angular) = a.reshape(2, 3, -1), b.reshape(2, 3, -1)
    first = small.cross(omega, linear) + small.cross(v, angular)
    return jnp.concatenate([first, small.cross(omega, angular)])


def _dual_cross(a: Columns, wrench: Columns) -> Columns:
    """Wrenches a ×* w."""
    (v, omega), (force, torque) = a.reshape(2, 3, -1), wrench.reshape(2, 3, -1)
    second = small.cross(omega, torque) + small.cross(v, force)
    return jnp.concatenate([small.cross(omega, force), second])
