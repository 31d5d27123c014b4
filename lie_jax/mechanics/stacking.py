"""Joints and forces stacked by kind, and where they are attached to the bodies.

Elements that differ in numbers only are evaluated together by `vmap`: compile time does not grow
with their number. What they exchange with the bodies goes through products with constant matrices.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.callables import snapshots
from lie_jax.mechanics.body import Body, MassProperties
from lie_jax.mechanics.forces.base import AbstractForce, entry
from lie_jax.mechanics.joints.base import GROUND, AbstractJoint, BodyPose, BodyVelocity, Wrench
from lie_jax.mechanics.mechanism import connected
from lie_jax.numerics import gather, small

Rotations = Float[Array, "bodies 3 3"]
Vectors = Float[Array, "bodies 3"]


class Connected(eqx.Module):
    """Elements of one kind, stacked, and where they are attached.

    `bodies[slot][k]` is the number of the body at that slot of element k, or -1 for the ground;
    `places[k]` is where the element stands among those that were given; `inputs[k]` is the number
    of the input it reads, for elements that read a single one.
    """

    element: Any
    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)
    inputs: tuple[int, ...] = eqx.field(static=True)

    @property
    def count(self) -> int:
        """How many elements are stacked."""
        return len(self.bodies[0])


def stack(members: list[Any]) -> Any:
    """One element with the leaves of all members stacked along a new first axis."""
    return jax.tree.map(lambda *leaves: stack_arrays(leaves), *members)


def stack_arrays(arrays: Sequence[ArrayLike]) -> Array:
    """As `jnp.stack`; arrays that are known need no compilation."""
    if checks.traced(arrays):
        return jnp.stack(arrays)
    return jax.device_put(np.stack([np.asarray(array) for array in arrays]))


class InitialMotion(NamedTuple):
    """Initial poses and velocities, as a `Body` has them, of one body or of many stacked."""

    position: Float[Array, "..."]
    orientation: Float[Array, "..."]
    velocity: Float[Array, "..."]
    omega_body: Float[Array, "..."]


def initial_motion(bodies: Sequence[Body]) -> InitialMotion:
    """Those of bodies, stacked."""
    return stack(
        [InitialMotion(b.position, b.orientation, b.velocity, b.omega_body) for b in bodies]
    )


def by_kind(
    elements: tuple[AbstractJoint, ...] | tuple[AbstractForce, ...],
    names: tuple[str, ...],
    apart: Sequence[bool] | None = None,
) -> tuple[Connected, ...]:
    """Stack the elements that differ in numbers only, in the order of first appearance.

    Elements for which `apart` differs are not stacked together.
    """
    apart = [False] * len(elements) if apart is None else apart
    number = {name: i for i, name in enumerate(names)} | {GROUND: -1}
    kinds: dict = {}
    for place, element in enumerate(elements):
        anonymous, reads = _without_names(element), getattr(element, "input", None)
        leaves, structure = jax.tree.flatten(anonymous)
        kind = tuple((np.shape(leaf), leaf.dtype) for leaf in leaves)
        key = (structure, kind, apart[place], snapshots.identities(anonymous))
        indices = [number[name] for name in connected(element)]
        kinds.setdefault(key, []).append((anonymous, indices, place, reads))
    return tuple(
        Connected(
            stack([element for element, *_ in members]),
            tuple(zip(*[indices for _, indices, *_ in members], strict=True)),
            tuple(place for *_, place, _ in members),
            tuple(reads for *_, reads in members if reads is not None),
        )
        for members in kinds.values()
    )


def owner(
    groups: tuple[Connected, ...], names: tuple[str, ...], row: int, kind: str = "rows"
) -> str:
    """The element that a row of the constraints of these groups belongs to, in words.

    `kind` is `"rows"` or `"velocity_rows"`, as joints call their numbers, or `"each"` for one row
    of each.
    """
    for group in groups:
        rows = getattr(group.element, kind, 1)
        k = row // rows if rows else group.count
        if k < group.count:
            ends = ", ".join(
                repr(names[slot[k]] if slot[k] >= 0 else GROUND) for slot in group.bodies
            )
            return f"{type(group.element).__name__}({ends})"
        row -= group.count * rows
    raise IndexError(f"{row} rows beyond the last one")


def without_loads(system: Any) -> Any:
    """A system like this one, without gravity and the forces that are loads."""
    return dataclasses.replace(
        system,
        forces=tuple(group for group in system.forces if not group.element.is_load),
        gravity=jnp.zeros_like(system.gravity),
    )


def _without_names(element):
    blank: dict[str, str | int] = {
        field.name: ""
        for field in dataclasses.fields(element)
        if field.name in ("parent", "child", "body")
    }
    # Each then gets its own entry of the inputs as the only one.
    if getattr(element, "input", None) is not None:
        blank["input"] = 0
    return dataclasses.replace(element, **blank)


def _select(indices: tuple[int, ...], values: Array, ground: Array) -> Array:
    """Values (K, ...) of the bodies with these numbers; `ground` (...) stands for -1."""
    n = values.shape[0]
    if indices == tuple(range(n)):
        return values
    ground_rows = jnp.asarray([i < 0 for i in indices], values.dtype)
    ground_values = jnp.tensordot(ground_rows, ground, 0)
    if all(i < 0 for i in indices):
        return ground_values
    return gather.pick(indices, values) + ground_values


def _add_up(indices: tuple[int, ...], values: Array, n: int) -> Array:
    """Sum (n, ...) of the elements' values (K, ...) at each body, without the ground's."""
    if indices == tuple(range(n)):
        return values
    if all(i < 0 for i in indices):
        return jnp.zeros((n, *values.shape[1:]), values.dtype)
    return gather.add_up(indices, values, n)


def poses(group: Connected, rotation: Rotations, position: Vectors) -> tuple[BodyPose, ...]:
    """Poses at each slot of the elements of a group, stacked, from those of the bodies."""
    identity, origin = jnp.eye(3, dtype=rotation.dtype), jnp.zeros(3, rotation.dtype)
    return tuple(
        BodyPose(_select(slot, rotation, identity), _select(slot, position, origin))
        for slot in group.bodies
    )


def velocities(group: Connected, velocity: Vectors, omega: Vectors) -> tuple[BodyVelocity, ...]:
    """Velocities at each slot of the elements of a group, stacked, from ṙ and ω of the bodies."""
    rest = jnp.zeros(3, velocity.dtype)
    return tuple(
        BodyVelocity(_select(slot, velocity, rest), _select(slot, omega, rest))
        for slot in group.bodies
    )


def number_of_inputs(groups: tuple[Connected, ...]) -> int:
    """How many inputs the forces of these groups read by number."""
    return 1 + max((number for group in groups for number in group.inputs), default=-1)


def own_inputs(group: Connected, u: Float[Array, " nu"] | None) -> Array | None:
    """What each element of a group gets of the inputs: all of them, or the one that it reads."""
    if group.inputs:
        return jnp.stack([entry(u, number)[None] for number in group.inputs])
    return None if u is None else jnp.broadcast_to(u, (group.count, *u.shape))


def split(groups: tuple[Connected, ...], multipliers: Array, last: int) -> list[Array]:
    """Multipliers (count, rows + velocity_rows) of each group of joints.

    Those of position constraints come first, those of velocity constraints from the place `last`.
    """
    parts, start = [], 0
    for group in groups:
        own = []
        for first, rows in ((start, group.element.rows), (last, group.element.velocity_rows)):
            size = group.count * rows
            own.append(multipliers[first : first + size].reshape(group.count, rows))
        start, last = start + own[0].size, last + own[1].size
        parts.append(jnp.concatenate(own, axis=1) if own[1].size else own[0])
    return parts


def add_wrenches(total: Wrench, group: Connected, wrenches: tuple[Wrench, ...]) -> Wrench:
    """The bodies' wrenches (stacked) with those of a group, one for each slot, added."""
    n = total.force.shape[0]
    for slot, wrench in zip(group.bodies, wrenches, strict=True):
        total = Wrench(
            total.force + _add_up(slot, wrench.force, n),
            total.torque + _add_up(slot, wrench.torque, n),
        )
    return total


def applied(
    bodies: MassProperties,
    forces: tuple[Connected, ...],
    gravity: Float[Array, "3"],
    t: Float[Array, ""],
    rotation: Rotations,
    position: Vectors,
    velocity: Vectors,
    omega: Vectors,
    u: Float[Array, " nu"] | None,
) -> Wrench:
    """Hybrid wrenches of gravity and of all forces on each body, stacked."""
    weight = bodies.mass[:, None] * gravity[None, :]
    total = Wrench(weight, _torques_of(rotation, bodies.center_of_mass, weight))
    for group in forces:
        wrenches = jax.vmap(
            lambda element, own, poses, velocities: element.wrenches(t, poses, velocities, own)
        )(
            group.element,
            own_inputs(group, u),
            poses(group, rotation, position),
            velocities(group, velocity, omega),
        )
        total = add_wrenches(total, group, wrenches)
    return total


def _at_instant(
    method: str,
    group: Connected,
    t: Float[Array, ""],
    rotation: Rotations,
    position: Vectors,
    velocity: Vectors,
    omega: Vectors,
) -> Any:
    """A method (t, poses, velocities) of each element of a group, stacked."""
    return jax.vmap(lambda element, *motion: getattr(element, method)(t, *motion))(
        group.element,
        poses(group, rotation, position),
        velocities(group, velocity, omega),
    )


def remember(forces: tuple[Connected, ...], t: Float[Array, ""], *motion: Array) -> tuple:
    """What the elements of each group keep of an instant; `motion`: rotation, position, ṙ, ω."""
    return tuple(_at_instant("remember", group, t, *motion) for group in forces)


def recalling(forces: tuple[Connected, ...], memory: tuple) -> tuple[Connected, ...]:
    """The groups, whose elements have in `last` what they have kept."""
    return tuple(
        group
        if last is None
        else eqx.tree_at(lambda group: group.element.last, group, last, is_leaf=lambda x: x is None)
        for group, last in zip(forces, memory, strict=True)
    )


def departed(forces: tuple[Connected, ...], t: Float[Array, ""], *motion: Array) -> Array:
    """Which elements have left their law since what they recall (forces,), group by group."""
    return jnp.concatenate(
        [
            jnp.zeros(0, bool),
            *(
                jnp.zeros(group.count, bool)
                if getattr(group.element, "last", None) is None
                else _at_instant("departed", group, t, *motion)
                for group in forces
            ),
        ]
    )


def sides(
    joints: tuple[Connected, ...], t: Float[Array, ""], rotation: Rotations, position: Vectors
) -> Float[Array, " joints"]:
    """`AbstractJoint.side` of each joint, group by group, one for those without; empty if no joint
    has one.
    """

    def of_each(element, *poses):
        return element.side(t, *poses)

    each = [jax.vmap(of_each)(group.element, *poses(group, rotation, position)) for group in joints]
    none = jnp.zeros(0, position.dtype)
    if all(side is None for side in each):
        return none
    whole = [
        jnp.ones(group.count, position.dtype) if side is None else side
        for group, side in zip(joints, each, strict=True)
    ]
    return jnp.concatenate([none, *whole])


def potential_energy(
    bodies: MassProperties,
    forces: tuple[Connected, ...],
    gravity: Float[Array, "3"],
    rotation: Rotations,
    position: Vectors,
) -> Float[Array, ""]:
    """Potential energy (J) of gravity, zero at the world origin, and of conservative forces."""
    center = position + jax.vmap(small.matvec)(rotation, bodies.center_of_mass)
    energy = -jnp.sum(bodies.mass[:, None] * center * gravity[None, :])
    for group in forces:
        each = jax.vmap(lambda element, *poses: element.potential_energy(poses))
        energy = energy + jnp.sum(each(group.element, *poses(group, rotation, position)))
    return energy


_torques_of: Callable = jax.vmap(
    lambda rotation, point, force: small.cross(point, small.matvec(rotation.T, force))
)
