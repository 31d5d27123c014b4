"""The matrices of many bodies in blocks along the forest that their joints make.

What `tangents` assembles into full matrices is here summed up where it stands: at a body, or
between a body and the one that it hangs from.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import algebra
from lie_jax.block_trees import BlockTree, product
from lie_jax.body_spaces import AbstractBodySpace
from lie_jax.mechanics import attachments
from lie_jax.mechanics import body as rigid
from lie_jax.mechanics.attachments import Connected
from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.elimination import Order
from lie_jax.mechanics.formulations import tangents
from lie_jax.mechanics.joint_parts import Wrench

Matrices = Float[Array, "bodies nv nv"]


class Sums(NamedTuple):
    """Matrices (N, nv, nv) of bodies: their own, the rows of a body by its parent's velocities, and
    the rows of its parent by its own; None where there are none.
    """

    own: Array
    by_parent: Array | None
    by_child: Array | None

    def with_blocks(
        self, order: Order, rows: Sequence[int], columns: Sequence[int], values: Array
    ) -> "Sums":
        """With the blocks (count, nv, nv) of these bodies, -1 for the ground, added."""
        n, parent_of = self.own.shape[0], order.forest.parent_of
        pairs = list(zip(rows, columns, strict=True))
        own = tuple(a if a == b else -1 for a, b in pairs)
        above = tuple(a if a >= 0 and b >= 0 and parent_of[a] == b else -1 for a, b in pairs)
        below = tuple(b if a >= 0 and b >= 0 and parent_of[b] == a else -1 for a, b in pairs)
        return Sums(*(_plus(x, p, values, n) for x, p in zip(self, (own, above, below))))

    def plus(self, other: "Sums", factor: Array) -> "Sums":
        """With the matrices of another one, times a factor."""

        def sum_of(a, b):
            return a if b is None else factor * b if a is None else a + factor * b

        return Sums(*(sum_of(a, b) for a, b in zip(self, other, strict=True)))

    def times(self, order: Order, operator: Matrices | None) -> "Sums":
        """The columns of each body times its own matrix (N, nv, nv)."""
        if operator is None:
            return self
        own, by_parent, by_child = self
        if by_parent is not None:
            above = algebra.pick(order.forest.parent_of, operator)
            by_parent = _products(by_parent, above)
        if by_child is not None:
            by_child = _products(by_child, operator)
        return Sums(_products(own, operator), by_parent, by_child)


def _plus(values: Array | None, places: tuple[int, ...], blocks: Array, n: int) -> Array | None:
    if max(places, default=-1) < 0:
        return values
    added = algebra.add_up(places, blocks, n)
    return added if values is None else values + added


_products = jax.vmap(product)


class Columns(NamedTuple):
    """Bᵀ in blocks (N, nv, r): what the multipliers of a body's joint do to the body and to its
    parent.
    """

    own: Array
    parent: Array


def reactions(
    space: AbstractBodySpace,
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
        none = jnp.zeros((n, nv, 0), q.dtype)
        return Columns(none, none)
    both = []
    for group in joints:
        wrenches = jax.vmap(_of_units, (0, 0, None))(
            group.element, attachments.poses(group, rotation, position), t
        )
        both.append(jnp.pad(wrenches, ((0, 0), (0, 0), (0, r - wrenches.shape[2]), (0, 0))))
    # All joints' first bodies, then all second ones.
    count = sum(group.count for group in joints)
    stacked = jnp.concatenate([x[:, 0] for x in both] + [x[:, 1] for x in both])
    own = algebra.pick(order.own(count), stacked)
    parent = algebra.pick(order.parents(count), stacked)
    if space.hybrid:
        return Columns(own.swapaxes(1, 2), parent.swapaxes(1, 2))

    def pulled(q, rotation, wrenches):
        return jax.vmap(
            lambda w: space.generalized_force(rotation, q, w[:3], w[3:]), out_axes=1
        )(wrenches)

    above = [algebra.pick(order.forest.parent_of, x) for x in (q, rotation)]
    pull = jax.vmap(pulled)
    return Columns(pull(q, rotation, own), pull(*above, parent))


def _of_units(element, poses, t):
    """Wrenches (2, rows, 6) of each unit multiplier on parent and child."""

    def each(multipliers):
        both = element.reaction(t, *poses, multipliers)
        return jnp.stack([jnp.concatenate(wrench) for wrench in both])

    dtype = poses[0].position.dtype
    return jax.vmap(each, out_axes=1)(jnp.eye(element.rows, dtype=dtype))


class Motion(NamedTuple):
    """Coordinates, velocities, accelerations of all bodies (N, ...), and their poses."""

    q: Float[Array, "bodies nq"]
    v: Float[Array, "bodies nv"]
    dv: Float[Array, "bodies nv"]
    rotation: Float[Array, "bodies 3 3"]
    position: Float[Array, "bodies 3"]


def matrices(
    space: AbstractBodySpace,
    order: Order,
    bodies: MassProperties,
    gravity: Float[Array, "3"],
    joints: Sequence[Connected],
    forces: Sequence[Connected],
    multipliers: Sequence[Array],
    t: Array,
    u: Array | None,
    motion: Motion,
) -> tuple[Sums, Sums, Matrices | None]:
    """Stiffness and damping, and the mass matrices of the bodies if they come with them."""
    q, v, dv, rotation, position = motion
    total = Wrench(jnp.zeros_like(position), jnp.zeros_like(position))
    changes = []
    if forces:
        moving = tangents.motions(space, q, v)
        changes, total = tangents.of_terms(tangents.of_forces(forces, t, u), moving)
    if space.hybrid:
        mass, stiffness, damping = jax.vmap(rigid.motion_matrices)(
            bodies, rotation, v[:, 3:], dv[:, :3] - gravity, dv[:, 3:]
        )
    else:
        mass = None
        for group, own in zip(joints, multipliers, strict=True):
            wrenches = jax.vmap(lambda element, poses, own: element.reaction(t, *poses, own))(
                group.element, attachments.poses(group, rotation, position), own
            )
            total = attachments.gather(total, group, wrenches)
        none = jnp.zeros((q.shape[0], 0), q.dtype)
        by_q, by_v = tangents.of_bodies(space, bodies, gravity, total, q, v, dv, none)
        stiffness, damping = by_q.swapaxes(1, 2), by_v.swapaxes(1, 2)
    frame = None if space.hybrid else _frames(space, q, rotation)
    of_poses, of_rates = Sums(stiffness, None, None), Sums(damping, None, None)
    for group, own in zip(joints, multipliers, strict=True):
        blocks = jax.vmap(lambda element, poses, own: element.stiffness(t, *poses, own))(
            group.element, attachments.poses(group, rotation, position), own
        )
        for i, row in enumerate(group.bodies):
            for j, column in enumerate(group.bodies):
                if i != j and not group.element.couples or max(row) < 0 or max(column) < 0:
                    continue
                values = blocks[:, i, j]
                if frame is not None:
                    values = _products(
                        _products(_turned(algebra.pick(row, frame)), values),
                        algebra.pick(column, frame),
                    )
                of_poses = of_poses.with_blocks(order, row, column, values)
    for term, *both in changes:
        at = [term.group.bodies[k] for k in term.free]
        for i, row in enumerate(at):
            for j, column in enumerate(at):
                of_poses, of_rates = (
                    total
                    if values is None
                    else total.with_blocks(order, row, column, _pulled(frame, row, values[:, i, j]))
                    for total, values in zip((of_poses, of_rates), both, strict=True)
                )
    return of_poses, of_rates, mass


def _turned(blocks: Array) -> Array:
    return blocks.swapaxes(1, 2)


def _pulled(frame: Array | None, row: tuple[int, ...], values: Array) -> Array:
    # From (velocities, wrench) to (force on the body, velocities).
    if frame is None:
        return _turned(values)
    return _products(_turned(algebra.pick(row, frame)), _turned(values))


def _frames(space: AbstractBodySpace, q: Array, rotation: Array) -> Array:
    basis = jnp.eye(space.nv, dtype=q.dtype)

    def frame(q, rotation):
        columns = jax.vmap(space.hybrid_velocity, (None, None, 0))(rotation, q, basis)
        return jnp.concatenate(columns, axis=1).T

    return jax.vmap(frame)(q, rotation)


def tree(order: Order, dynamic: Sums, columns: Columns, operator: Matrices | None) -> BlockTree:
    """The matrix [[dynamic, Bᵀ], [B T, 0]] with T the operator of each body, None for one."""
    own_rows, parent_rows = _turned(columns.own), _turned(columns.parent)
    if operator is not None:
        own_rows = _products(own_rows, operator)
        parent_rows = _products(parent_rows, algebra.pick(order.forest.parent_of, operator))
    missing = np.asarray(order.multipliers).reshape(len(order.joints), order.rows) < 0
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
