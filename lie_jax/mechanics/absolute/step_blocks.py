"""The matrices of many bodies in blocks along the forest that their joints make.

What `tangents` assembles into full matrices is here summed up where it stands: at a body, or
between a body and the one that it hangs from. Matrices have the bodies on their last axis.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics import body as rigid
from lie_jax.mechanics import stacking
from lie_jax.mechanics.absolute import tangents
from lie_jax.mechanics.absolute.elimination import Order
from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.coordinates.base import AbstractCoordinates
from lie_jax.mechanics.joints.base import Wrench
from lie_jax.mechanics.stacking import Connected
from lie_jax.numerics import gather, small
from lie_jax.numerics.block_matrix import BlockTree

Matrices = Float[Array, "nv nv bodies"]


class Sums(NamedTuple):
    """Matrices (nv, nv, N) of bodies: their own, the rows of a body by its parent's velocities, and
    the rows of its parent by its own; None where there are none.
    """

    own: Matrices
    by_parent: Matrices | None = None
    by_child: Matrices | None = None

    def with_blocks(
        self, order: Order, rows: Sequence[int], columns: Sequence[int], values: Array
    ) -> "Sums":
        """With the blocks (nv, nv, count) of these bodies, -1 for the ground, added."""
        n, parent_of = self.own.shape[2], order.forest.parent_of
        pairs = list(zip(rows, columns, strict=True))
        own = tuple(a if a == b else -1 for a, b in pairs)
        above = tuple(a if a >= 0 and b >= 0 and parent_of[a] == b else -1 for a, b in pairs)
        below = tuple(b if a >= 0 and b >= 0 and parent_of[b] == a else -1 for a, b in pairs)
        places = own, above, below
        at, by_parent, by_child = (
            _plus(x, p, values, n) for x, p in zip(self, places, strict=True)
        )
        return Sums(self.own if at is None else at, by_parent, by_child)

    def plus(self, other: "Sums", factor: Array) -> "Sums":
        """With the matrices of another one, times a factor."""

        def sum_of(a, b):
            return a if b is None else factor * b if a is None else a + factor * b

        return Sums(
            self.own + factor * other.own,
            sum_of(self.by_parent, other.by_parent),
            sum_of(self.by_child, other.by_child),
        )

    def times(self, order: Order, operator: "Operator") -> "Sums":
        """The columns of each body times its own operator."""
        own, by_parent, by_child = self
        if by_parent is not None:
            by_parent = _moved(by_parent, _of_parents(order, operator))
        if by_child is not None:
            by_child = _moved(by_child, operator)
        return Sums(_moved(own, operator), by_parent, by_child)


def _plus(values: Array | None, places: tuple[int, ...], blocks: Array, n: int) -> Array | None:
    if max(places, default=-1) < 0:
        return values
    added = gather.add_up(places, blocks, n, axis=2)
    return added if values is None else values + added


# Tangent operators (nv, nv, N), (3, 3, N) for those that leave translations as they are, or none.
Operator = Array | None


def _moved(blocks: Array, operator: Operator) -> Array:
    """Columns of blocks times operators."""
    if operator is None:
        return blocks
    if operator.shape[0] == blocks.shape[1]:
        return small.matmul(blocks, operator)
    return jnp.concatenate([blocks[:, :3], small.matmul(blocks[:, 3:], operator)], axis=1)


def _of_parents(order: Order, values: Operator) -> Operator:
    if values is None:
        return None
    return gather.pick(order.forest.parent_of, values, axis=values.ndim - 1)


class Columns(NamedTuple):
    """Bᵀ in blocks (nv, r, N): what the multipliers of a body's joint do to the body and to its
    parent.
    """

    own: Array
    parent: Array


def reactions(
    space: AbstractCoordinates,
    order: Order,
    joints: Sequence[Connected],
    t: Array,
    q: Float[Array, "bodies nq"],
    rotation: Array,
    position: Array,
) -> Columns:
    """The columns of Bᵀ from the joints' reactions to unit multipliers."""
    n, nv, r = q.shape[0], space.nv, order.rows
    if not r:
        none = jnp.zeros((nv, 0, n), q.dtype)
        return Columns(none, none)
    both = []
    for group in joints:
        wrenches = jax.vmap(_of_units, (0, 0, None), -1)(
            group.element, stacking.poses(group, rotation, position), t
        )
        both.append(jnp.pad(wrenches, ((0, 0), (0, 0), (0, r - wrenches.shape[2]), (0, 0))))
    # All joints' first bodies, then all second ones.
    count = sum(group.count for group in joints)
    stacked = jnp.concatenate([x[0] for x in both] + [x[1] for x in both], axis=2)
    own = gather.pick(order.own(count), stacked, axis=2)
    parent = gather.pick(order.parents(count), stacked, axis=2)
    if space.hybrid:
        return Columns(own, parent)
    frame = _frames(space, q, rotation)
    above = gather.pick(order.forest.parent_of, frame, axis=2)
    return Columns(_pulled(frame, own), _pulled(above, parent))


def _of_units(element, poses, t):
    """Wrenches (2, 6, rows) of each unit multiplier on parent and child."""

    def each(multipliers):
        both = element.reaction(t, *poses, multipliers)
        return jnp.stack([jnp.concatenate(wrench) for wrench in both])

    dtype = poses[0].position.dtype
    return jax.vmap(each, out_axes=2)(jnp.eye(element.rows, dtype=dtype))


class Motion(NamedTuple):
    """Coordinates, velocities, accelerations of all bodies (N, ...), and their poses."""

    q: Float[Array, "bodies nq"]
    v: Float[Array, "bodies nv"]
    dv: Float[Array, "bodies nv"]
    rotation: Float[Array, "bodies 3 3"]
    position: Float[Array, "bodies 3"]


def matrices(
    space: AbstractCoordinates,
    order: Order,
    bodies: MassProperties,
    gravity: Float[Array, "3"],
    joints: Sequence[Connected],
    forces: Sequence[Connected],
    multipliers: Sequence[Array],
    t: Array,
    u: Array | None,
    motion: Motion,
) -> tuple[Sums, Sums, Matrices]:
    """Stiffness, damping and the mass matrices of the bodies."""
    q, v, dv, rotation, position = motion
    total = Wrench(jnp.zeros_like(position), jnp.zeros_like(position))
    changes = []
    if forces:
        moving = tangents.motions(space, q, v)
        changes, total = tangents.of_terms(tangents.of_forces(forces, t, u), moving)
    if space.hybrid:
        mass, stiffness, damping = rigid.motion_matrices(
            bodies, rotation, v[:, 3:], dv[:, :3] - gravity[None], dv[:, 3:]
        )
        frame = None
    else:
        for group, own in zip(joints, multipliers, strict=True):
            wrenches = jax.vmap(lambda element, poses, own: element.reaction(t, *poses, own))(
                group.element, stacking.poses(group, rotation, position), own
            )
            total = stacking.add_wrenches(total, group, wrenches)
        none = jnp.zeros((q.shape[0], 0), q.dtype)
        both = tangents.of_bodies(space, bodies, gravity, total, q, v, dv, none)
        stiffness, damping = (by.transpose(2, 1, 0) for by in both)
        frame = _frames(space, q, rotation)
        mass = small.matmul(_pulled(frame, masses(bodies, rotation)), frame)
    of_poses, of_rates = Sums(stiffness), Sums(damping)
    for group, own in zip(joints, multipliers, strict=True):
        blocks = jax.vmap(
            lambda element, poses, own: element.stiffness(t, *poses, own), out_axes=-1
        )(group.element, stacking.poses(group, rotation, position), own)
        pairs = [(row, column) for row in group.bodies for column in group.bodies]
        for (row, column), values in zip(pairs, blocks, strict=True):
            if values is None or max(row) < 0 or max(column) < 0:
                continue
            if frame is not None:
                right = gather.pick(column, frame, axis=2)
                values = small.matmul(_pulled(gather.pick(row, frame, axis=2), values), right)
            of_poses = of_poses.with_blocks(order, row, column, values)
    for term, by_q, by_v in changes:
        at = [(k, term.group.bodies[slot]) for k, slot in enumerate(term.free)]
        for (i, row), (j, column) in [(a, b) for a in at for b in at]:
            left = None if frame is None else gather.pick(row, frame, axis=2)

            def placed(sums, values, i=i, j=j, row=row, column=column, left=left):
                values = values[:, i, j].transpose(2, 1, 0)
                values = values if left is None else _pulled(left, values)
                return sums.with_blocks(order, row, column, values)

            of_poses = placed(of_poses, by_q)
            if by_v is not None:
                of_rates = placed(of_rates, by_v)
    return of_poses, of_rates, mass


def _pulled(frame: Array, wrenches: Array) -> Array:
    return small.matmul(frame.swapaxes(0, 1), wrenches)


def _frames(space: AbstractCoordinates, q: Array, rotation: Array) -> Array:
    """Hybrid velocities (6, nv, N) of the unit velocities of all bodies."""
    basis = jnp.eye(space.nv, dtype=q.dtype)

    def frame(q, rotation):
        columns = jax.vmap(space.hybrid_velocity, (None, None, 0), 1)(rotation, q, basis)
        return jnp.concatenate(columns)

    return jax.vmap(frame, out_axes=2)(q, rotation)


def masses(bodies: MassProperties, rotation: Array) -> Matrices:
    """Mass matrices for hybrid velocities."""
    return jax.vmap(rigid.mass_matrix, out_axes=2)(bodies, rotation)


def operators(space: AbstractCoordinates, x: Float[Array, "bodies nv"]) -> Array:
    """The tangent operators of all bodies at their local coordinates."""
    basis = jnp.eye(space.nv, dtype=x.dtype)
    if space.hybrid:
        basis = basis[3:]

    def operator(x):
        return jax.vmap(
            lambda dx: space.tangent_operator(x, space.rate_at_zero(dx))[-len(basis) :], out_axes=1
        )(basis)

    return jax.vmap(operator, out_axes=2)(x)


def tree(order: Order, dynamic: Sums, columns: Columns, operator: Operator) -> BlockTree:
    """The matrix [[dynamic, Bᵀ], [B T, 0]] with T the operator of each body, None for one."""
    own_rows, parent_rows = (x.swapaxes(0, 1) for x in columns)
    own_rows = _moved(own_rows, operator)
    parent_rows = _moved(parent_rows, _of_parents(order, operator))
    missing = np.asarray(order.multipliers, int).reshape(len(order.joints), order.rows).T < 0
    return BlockTree(
        dynamic.own,
        columns.own,
        own_rows,
        jnp.asarray(missing, dynamic.own.dtype),
        columns.parent,
        parent_rows,
        dynamic.by_parent,
        dynamic.by_child,
        order.forest,
        order.multipliers,
    )
