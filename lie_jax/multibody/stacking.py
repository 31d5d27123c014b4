"""Joints and forces stacked by kind, and their places among the bodies.

Elements that differ in numbers and names of bodies only are evaluated together by `vmap`: compile
time does not grow with their number. Poses and wrenches are exchanged with the bodies by products
with constant matrices.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.mechanics.body import Body, Rotations
from lie_jax.mechanics.elements import (
    AbstractElement,
    element_name,
    fields_with_role,
    replace_fields,
)
from lie_jax.mechanics.forces.base import entry
from lie_jax.mechanics.joints.along import nameless
from lie_jax.mechanics.joints.base import GROUND, BodyPose, BodyVelocity, Wrench
from lie_jax.numerics import gather
from lie_jax.numerics.conversion import in_precision
from lie_jax.user_functions import snapshots


class Connected(eqx.Module):
    """Elements of one kind, stacked, and the bodies that they connect.

    `bodies[slot][k]` is the number of the body at that slot of element k, or -1 for the ground;
    `places[k]` is the element's number in the mechanism; `titles[k]` names it in messages;
    `inputs[k]` is the number of the input that it reads, for elements that read a single one;
    `followed` are the joint coordinates in q that its elements' angles follow, if they do.
    """

    element: Any
    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)
    titles: tuple[str, ...] = eqx.field(static=True)
    inputs: tuple[int, ...] = eqx.field(static=True)
    followed: Any = None

    @property
    def count(self) -> int:
        """Number of stacked elements."""
        return len(self.bodies[0])


Groups = tuple[Connected, ...]


def stack(members: Sequence[Any]) -> Any:
    """One element with the leaves of all members stacked along a new first axis."""

    def stack_leaves(*leaves: ArrayLike) -> Array:
        if checks.has_tracers(leaves):
            return jnp.stack(leaves)
        # Without compilation.
        return jax.device_put(np.stack([np.asarray(leaf) for leaf in leaves]))

    return jax.tree.map(stack_leaves, *members)


def initial_motion(bodies: Sequence[Body]) -> tuple[Array, Array, Array, Array]:
    """Initial positions, orientations, ṙ and ω of bodies, stacked."""
    return stack([(b.position, b.orientation, b.velocity, b.omega_body) for b in bodies])


def stack_by_kind(
    elements: Sequence[AbstractElement],
    names: tuple[str, ...],
    apart: Sequence[bool] | None = None,
) -> Groups:
    """Groups of the elements that differ in numbers only, in the order of first appearance.

    Elements for which `apart` differs are not stacked together.
    """
    apart = [False] * len(elements) if apart is None else apart
    number = {name: i for i, name in enumerate(names)} | {GROUND: -1}
    kinds: dict = {}
    for place, element in enumerate(elements):
        anonymous, reads = _anonymous(element)
        leaves, structure = jax.tree.flatten(anonymous)
        forms = tuple((np.shape(leaf), leaf.dtype) for leaf in leaves)
        key = (structure, forms, apart[place], snapshots.identities(anonymous))
        indices = [number[name] for name in element.bodies]
        kinds.setdefault(key, []).append((anonymous, indices, place, element_name(element), reads))
    return tuple(
        Connected(
            stack([element for element, *_ in members]),
            tuple(zip(*[indices for _, indices, *_ in members], strict=True)),
            tuple(place for _, _, place, *_ in members),
            tuple(title for *_, title, _ in members),
            tuple(reads for *_, reads in members if reads is not None),
        )
        for members in kinds.values()
    )


def owner(groups: Groups, row: int, kind: str | None = None) -> str:
    """Element of these groups to which a row belongs, in words.

    `kind` is `"rows"` or `"velocity_rows"`, the attribute of joints with the number of rows; None
    for one row of each element.
    """
    for group in groups:
        rows = getattr(group.element, kind) if kind else 1
        k = row // rows if rows else group.count
        if k < group.count:
            return group.titles[k]
        row -= group.count * rows
    raise IndexError(f"{row} rows beyond the last one")


def _anonymous(element: AbstractElement) -> tuple[AbstractElement, int | None]:
    """The element without names of bodies, reading input 0, and the number of its input."""
    blank: dict[str, Any] = dict.fromkeys(fields_with_role(element, "body"), "")
    blank |= dict.fromkeys(fields_with_role(element, "name"))
    blank |= {name: nameless(getattr(element, name)) for name in fields_with_role(element, "joint")}
    reads = None
    if len(fields_with_role(element, "input")) > 1:
        raise ValueError(
            f"{element_name(element)} has two fields with the number of an input; it may have one: "
            "for more keep the numbers in static fields, and read u, which then holds all inputs."
        )
    for name in fields_with_role(element, "input"):
        reads = getattr(element, name)
        if reads is not None:
            # Each element gets its own entry of the inputs as the only one.
            blank[name] = 0
    copy = replace_fields(element, **blank)
    leaves, structure = jax.tree_util.tree_flatten_with_path(copy)
    return jax.tree.unflatten(structure, [_stackable(element, *leaf) for leaf in leaves]), reads


def _stackable(element: AbstractElement, path: tuple, leaf: Any) -> Any:
    """Leaf of an element as an array; a function, such as a network's activation, as static."""
    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return leaf
    if callable(leaf):
        return snapshots.watch(leaf)
    raise ValueError(
        f"{element_name(element)}{jax.tree_util.keystr(path)} is {leaf!r}, and no array; a field "
        "of a joint or force must be a parameter, a function, or static: declare it by "
        "lie_jax.extend.fields.number(unit), or by equinox.field(static=True) if it is a word or a "
        "flag."
    )


def each(
    function: Callable, group: Connected, motion: Sequence[Array], *args: Any, out_axes: int = 0
) -> Any:
    """Results of function(element, poses, velocities, *args) for each element of a group, stacked.

    `motion`: rotation, position, ṙ and ω of the bodies, or rotation and position for functions
    without velocities; `args` are stacked.
    """
    return jax.vmap(function, out_axes=out_axes)(group.element, *ends(group, motion), *args)


def ends(group: Connected, motion: Sequence[Array]) -> list[tuple]:
    """Poses of the bodies at each slot of a group, stacked, and velocities if `motion` has them."""
    rotation, position, *rates = motion

    def rotations(slot: tuple[int, ...]) -> Rotations:
        picked = gather.pick(slot, rotation)
        if min(slot) >= 0:
            return picked
        on_ground = jnp.asarray([body < 0 for body in slot], rotation.dtype)
        return picked + on_ground[:, None, None] * jnp.eye(3, dtype=rotation.dtype)[None]

    acting: list[tuple] = [
        tuple(BodyPose(rotations(slot), gather.pick(slot, position)) for slot in group.bodies)
    ]
    if rates:
        velocity, omega = rates
        acting.append(
            tuple(
                BodyVelocity(gather.pick(slot, velocity), gather.pick(slot, omega))
                for slot in group.bodies
            )
        )
    return acting


def own_inputs(group: Connected, u: Float[Array, " nu"] | None) -> Array | None:
    """Inputs of each element of a group, stacked: all of them, or the one that it reads."""
    u = in_precision(u, None)
    if group.inputs:
        return jnp.stack([entry(u, number)[None] for number in group.inputs])
    return None if u is None else jnp.broadcast_to(u, (group.count, *u.shape))


def split(groups: Groups, multipliers: Array, last: int) -> list[Array]:
    """Multipliers (count, rows + velocity_rows) of each group of joints.

    Multipliers of position constraints come first, those of velocity constraints from `last` on.
    """

    def part(start: int, count: int, rows: int) -> Array:
        return multipliers[start : start + count * rows].reshape(count, rows)

    parts, start = [], 0
    for group in groups:
        positions = part(start, group.count, group.element.rows)
        velocities = part(last, group.count, group.element.velocity_rows)
        start, last = start + positions.size, last + velocities.size
        all_rows = [positions, velocities]
        parts.append(jnp.concatenate(all_rows, axis=1) if velocities.size else positions)
    return parts


def add_wrenches(total: Wrench, group: Connected, wrenches: tuple[Wrench, ...]) -> Wrench:
    """The bodies' wrenches (stacked) with those of a group, one for each slot, added."""
    n = total.force.shape[0]
    for slot, wrench in zip(group.bodies, wrenches, strict=True):
        total = Wrench(
            total.force + gather.add_up(slot, wrench.force, n),
            total.torque + gather.add_up(slot, wrench.torque, n),
        )
    return total


def with_memory(forces: Groups, memory: tuple) -> Groups:
    """The groups with these memories in the field `last` of their elements."""
    return tuple(
        group
        if last is None
        else eqx.tree_at(lambda group: group.element.last, group, last, is_leaf=lambda x: x is None)
        for group, last in zip(forces, memory, strict=True)
    )
