"""Stiffness and damping matrices of bodies in absolute coordinates, element by element.

A body, joint or force is differentiated along the velocities of its own bodies only. The cost grows
with the number of bodies and elements, where derivatives of the whole residual cost all bodies for
each of their velocities. Blocks are moved by gathers with fixed indices: these matrices take part
in iterations, which first derivatives of a run do not go through.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics import body as rigid
from lie_jax.mechanics import stacking
from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.coordinates.base import AbstractCoordinates
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench
from lie_jax.mechanics.stacking import Connected
from lie_jax.system import TangentMatrices


class Term(NamedTuple):
    """What elements of one kind add to the residual.

    `wrenches(parameters, poses, velocities)` gives the hybrid wrench on each of an element's
    bodies; `parameters` is all that differs between the elements, stacked; `damped` says whether
    velocities matter.
    """

    group: Connected
    parameters: Any
    wrenches: Callable
    damped: bool

    @property
    def free(self) -> tuple[int, ...]:
        """The slots that hold bodies and not only the ground."""
        return tuple(k for k, slot in enumerate(self.group.bodies) if max(slot) >= 0)


def of_joints(groups: Sequence[Connected], t: Array, multipliers: Sequence[Array]) -> list[Term]:
    """The reactions of joints under the multipliers (count, rows) of each group."""

    def wrenches(parameters, poses, velocities):
        element, own = parameters
        return element.reaction(t, *poses, own)

    return [
        Term(group, (group.element, own), wrenches, False)
        for group, own in zip(groups, multipliers, strict=True)
    ]


def of_forces(groups: Sequence[Connected], t: Array, u: Array | None) -> list[Term]:
    """Minus the forces of elements."""

    def wrenches(parameters, poses, velocities):
        element, own = parameters
        return jax.tree.map(jnp.negative, element.wrenches(t, poses, velocities, own))

    return [
        Term(group, (group.element, stacking.own_inputs(group, u)), wrenches, True)
        for group in groups
    ]


class _Moving(NamedTuple):
    # Pose and hybrid velocity of a body, their derivatives along its unit velocities with v held,
    # and the hybrid velocities that the unit velocities are.
    motion: tuple[BodyPose, BodyVelocity]
    along: tuple[BodyPose, BodyVelocity]
    units: BodyVelocity


class _Blocks(NamedTuple):
    # Derivatives (T, nv, ...) of what acts on the bodies `rows`, along the unit velocities of the
    # bodies `columns`; -1 stands for the ground.
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    values: Array


class Changes(NamedTuple):
    """Derivatives (count, free, free, nv, 6) of what the elements of a term do to their bodies.

    Hybrid wrenches on the free slots of the first axis, along the unit velocities of those of the
    second, and with respect to these velocities if they matter.
    """

    term: Term
    stiffness: Array
    damping: Array | None


class _Body(NamedTuple):
    # What differs between the bodies besides coordinates and velocities.
    properties: MassProperties
    dv: Array
    multipliers: Array
    wrench: Wrench


def matrices(
    space: AbstractCoordinates,
    bodies: MassProperties,
    gravity: Float[Array, "3"],
    terms: Sequence[Term],
    q: Float[Array, "bodies nq"],
    v: Float[Array, "bodies nv"],
    dv: Float[Array, "bodies nv"],
    multipliers: Float[Array, "bodies rows"],
) -> TangentMatrices:
    """Stiffness and damping of bodies under gravity and of terms.

    Stacked are the bodies' coordinates, velocities, accelerations dv, and the multipliers of the
    constraints among coordinates.
    """
    n = v.shape[0]
    moving = motions(space, q, v)
    changes, total = of_terms(terms, moving)
    stiffness, damping = _placed(changes)
    home = space.configuration(jnp.zeros(3, q.dtype), jnp.eye(4, dtype=q.dtype)[0])

    def pulled_back(rows, wrenches):
        def each(q, wrenches):
            rotation, _ = space.pose(q)
            return jax.vmap(lambda w: space.generalized_force(rotation, q, w[:3], w[3:]))(wrenches)

        return jax.vmap(each)(_of_bodies(rows, q, home), wrenches)

    def assembled(blocks: list[_Blocks], own):
        everyone = tuple(range(n))
        if not blocks:
            return _full(_Blocks(everyone, everyone, own), n)
        # All at once, for the same reason as the other gather.
        joined = _joined(blocks)
        of_terms = joined._replace(values=pulled_back(joined.rows, joined.values))
        return _full(_joined([_Blocks(everyone, everyone, own), of_terms]), n)

    by_q, by_v = of_bodies(space, bodies, gravity, total, q, v, dv, multipliers)
    return TangentMatrices(assembled(stiffness, by_q), assembled(damping, by_v))


def of_bodies(
    space: AbstractCoordinates,
    bodies: MassProperties,
    gravity: Float[Array, "3"],
    total: Wrench,
    q: Float[Array, "bodies nq"],
    v: Float[Array, "bodies nv"],
    dv: Float[Array, "bodies nv"],
    multipliers: Float[Array, "bodies rows"],
) -> tuple[Float[Array, "bodies nv nv"], Float[Array, "bodies nv nv"]]:
    """Stiffness and damping of the bodies alone, under constant hybrid wrenches besides gravity.

    The first axis of a matrix has the velocities along which it is taken.
    """

    def own(body: _Body, q, v):
        rotation, _ = space.pose(q)
        _, omega = space.hybrid_velocity(rotation, q, v)
        linear, angular = space.hybrid_acceleration(rotation, q, v, body.dv)
        # A body at rest under gravity needs the force that accelerates it upwards without gravity.
        force, torque = rigid.inverse_dynamics(
            body.properties, rotation, omega, linear - gravity, angular
        )
        pulled = space.generalized_force(
            rotation, q, force + body.wrench.force, torque + body.wrench.torque
        )
        return pulled + space.reaction(q, body.multipliers) if space.rows else pulled

    def of_body(body, q, v):
        by_q = _along(space, lambda q: own(body, q, v), q)
        return by_q, jax.jacfwd(lambda v: own(body, q, v))(v).T

    return jax.vmap(of_body)(_Body(bodies, dv, multipliers, total), q, v)


def _along(space: AbstractCoordinates, function: Callable, q: Array) -> Any:
    """Derivatives of function(q), first axis the unit velocities."""
    basis = jnp.eye(space.nv, dtype=q.dtype)
    return jax.vmap(lambda e: jax.jvp(function, (q,), (space.lift(q, e),))[1])(basis)


def motions(
    space: AbstractCoordinates, q: Float[Array, "bodies nq"], v: Float[Array, "bodies nv"]
) -> _Moving:
    """How all bodies move."""
    return jax.vmap(lambda q, v: _moving(space, q, v))(q, v)


def _moving(space: AbstractCoordinates, q: Array, v: Array) -> _Moving:
    def motion(q, v):
        rotation, position = space.pose(q)
        velocity = space.hybrid_velocity(rotation, q, v)
        return BodyPose(rotation, position), BodyVelocity(*velocity)

    units = jax.vmap(lambda e: motion(q, e)[1])(jnp.eye(space.nv, dtype=q.dtype))
    return _Moving(motion(q, v), _along(space, lambda q: motion(q, v), q), units)


def of_terms(terms: Sequence[Term], moving: _Moving) -> tuple[list[Changes], Wrench]:
    """Stiffness and damping of those that act on bodies, and all wrenches on each body."""
    (pose, velocity), _, _ = moving
    total = Wrench(jnp.zeros_like(velocity.linear), jnp.zeros_like(velocity.linear))
    terms = [term for term in terms if term.free]
    if not terms:
        return [], total
    ground = jax.tree.map(lambda x: jnp.zeros_like(x[0]), moving)
    identity = BodyPose(jnp.eye(3, dtype=pose.position.dtype), ground.motion[0].position)
    ground = ground._replace(motion=(identity, ground.motion[1]))
    # One gather for all: XLA would repeat what leads to each of many.
    everywhere = sum((slot for term in terms for slot in term.group.bodies), ())
    moving = jax.tree.map(lambda x, at_rest: _of_bodies(everywhere, x, at_rest), moving, ground)
    start, found = 0, []
    for term in terms:
        slots = []
        for bodies in term.group.bodies:
            part = slice(start, start + len(bodies))
            slots.append(jax.tree.map(lambda x, part=part: x[part], moving))
            start += len(bodies)
        wrenches, *changes = jax.vmap(lambda *a, term=term: _derivatives(term, *a))(
            term.parameters, tuple(slots)
        )
        total = stacking.add_wrenches(total, term.group, wrenches)
        found.append(Changes(term, changes[0], changes[1] if term.damped else None))
    return found, total


def _placed(changes: list[Changes]) -> tuple[list[_Blocks], list[_Blocks]]:
    """Stiffness and damping as blocks with their places."""
    stiffness, damping = [], []
    for term, *both in changes:
        at = [term.group.bodies[k] for k in term.free]
        rows, columns = zip(
            *((row[k], column[k]) for k in range(term.group.count) for row in at for column in at),
            strict=True,
        )
        for blocks, values in zip((stiffness, damping), both, strict=True):
            if values is not None:
                nv = values.shape[-2]
                blocks.append(_Blocks(rows, columns, values.reshape(-1, nv, 6)))
    return stiffness, damping


def _derivatives(term: Term, parameters: Any, slots: tuple[_Moving, ...]):
    """Wrenches of one element, and the derivatives (free, free, nv, 6) of those on free slots.

    They are taken along the velocities and, if they matter, with respect to the velocities of the
    second axis.
    """
    motions = {k: slot.motion for k, slot in enumerate(slots)}

    def wrenches(moved):
        poses, velocities = zip(*(motions | moved).values(), strict=True)
        acting = tuple(term.wrenches(parameters, poses, velocities))
        return jnp.stack([jnp.concatenate(acting[k]) for k in term.free]), acting

    def pushed(moved):
        return wrenches({k: (motions[k][0], velocity) for k, velocity in moved.items()})

    free = {k: slots[k] for k in term.free}
    at = {k: slot.motion for k, slot in free.items()}
    by_q, acting = _one_by_one(wrenches, at, {k: slot.along for k, slot in free.items()})
    if not term.damped:
        return acting, by_q
    at = {k: slot.motion[1] for k, slot in free.items()}
    by_v, _ = _one_by_one(pushed, at, {k: slot.units for k, slot in free.items()})
    return acting, by_q, by_v


def _one_by_one(function: Callable, at: dict, tangents: dict) -> tuple[Array, Any]:
    """Derivatives (..., len(at), nv, ...) as one argument after the other moves along its tangents.

    They come with what the function has to say besides.
    """

    def change(which, tangents):
        moved = {
            k: jax.tree.map(lambda x, own=own: own * x, tangents[k])
            for k, own in zip(at, which, strict=True)
        }
        return jax.jvp(function, (at,), (moved,), has_aux=True)[1:]

    which = jnp.eye(len(at), dtype=jax.tree.leaves(at)[0].dtype)
    each = jax.vmap(jax.vmap(change, (None, 0), (1, 0)), (0, None), (1, 0))
    derivatives, besides = each(which, tangents)
    return derivatives, jax.tree.map(lambda x: x[0, 0], besides)


def _of_bodies(indices: tuple[int, ...], values: Array, ground: Array) -> Array:
    """Values of the bodies with these numbers; an index of -1 is that of the last row."""
    return jnp.concatenate([values, ground[None]])[np.asarray(indices)]


def _joined(blocks: list[_Blocks]) -> _Blocks:
    rows, columns, values = zip(*blocks, strict=True)
    return _Blocks(sum(rows, ()), sum(columns, ()), jnp.concatenate(values))


def _full(blocks: _Blocks, n: int) -> Array:
    """The matrix (n nv, n nv) with these blocks, which add up where they meet."""
    found: dict[tuple[int, int], list[int]] = {}
    for k, place in enumerate(zip(blocks.rows, blocks.columns, strict=True)):
        if min(place) >= 0:
            found.setdefault(place, []).append(k)
    # Each place of the full matrix looks up its blocks, as many as the busiest one has. The sum
    # over all blocks for each place, as a product with 0 and 1, would grow with the cube of n.
    table = np.full((max(map(len, found.values())), n, n), len(blocks.rows))
    for (row, column), sources in found.items():
        table[: len(sources), row, column] = sources
    size = blocks.values.shape[-1]
    values = jnp.concatenate([blocks.values, jnp.zeros_like(blocks.values[:1])])
    return jnp.sum(values[table], axis=0).transpose(0, 3, 1, 2).reshape(n * size, n * size)
