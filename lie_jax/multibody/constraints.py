"""Constraints of stacked joints at a motion of their bodies: values, rates and their rates.

Motions are rotation, position, ṙ and ω of all bodies, as in `stacking`. Values of all joints stand
by kind: those of position constraints, then those of velocity constraints.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.mechanics.body import Vectors
from lie_jax.mechanics.joints.base import BodyVelocity, Poses, Velocities, Wrench, moving
from lie_jax.multibody import stacking
from lie_jax.multibody.stacking import Groups
from lie_jax.multibody.system import Instant
from lie_jax.numerics import gather


def count(joints: Groups, kind: str) -> int:
    """Number of constraints of all joints; `kind` is `"rows"` or `"velocity_rows"`."""
    return sum(group.count * getattr(group.element, kind) for group in joints)


def positions(joints: Groups, t: Array, pose: tuple[Array, ...]) -> Float[Array, " rows"]:
    """Values of the position constraints."""
    values = [
        stacking.each(lambda element, poses: element.constraint(t, *poses), group, pose)
        for group in joints
    ]
    return _concatenate(values, pose[1])


def velocities(joints: Groups, instant: Instant) -> Float[Array, " velocity_rows"]:
    """Values of the velocity constraints."""
    t, *motion = instant

    def values_of(element, poses, velocities):
        return element.velocity_constraint(t, *poses, *velocities)

    values = [
        stacking.each(values_of, group, motion) for group in joints if group.element.velocity_rows
    ]
    return _concatenate(values, motion[1])


def rates(joints: Groups, instant: Instant) -> Float[Array, " all_rows"]:
    """Rates of the position constraints, then the velocity constraints."""
    t, *motion = instant
    values = [
        stacking.each(lambda element, *acting: joint_rates(element, t, *acting), group, motion)
        for group in joints
    ]
    return _by_kind(joints, values, motion[1])


def rates_and_growth(
    joints: Groups, instant: Instant, linear: Vectors, angular: Vectors, share: Array
) -> tuple[Float[Array, " all_rows"], Float[Array, " all_rows"]]:
    """`rates`, and their rates where bodies have the accelerations r̈ (inertial) and ω̇ (body), and
    a `share` of the time and of the motion passes.
    """
    t, *motion = instant

    def second(element, poses, velocities, changes):
        along = jax.tree.map(lambda x: share * x, moving(poses, velocities))
        tangents = share, along, tuple(BodyVelocity(*change) for change in changes)
        start = t, poses, velocities
        return jax.jvp(lambda *args: joint_rates(element, *args), start, tangents)

    pairs = [
        stacking.each(
            second,
            group,
            motion,
            tuple((gather.pick(slot, linear), gather.pick(slot, angular)) for slot in group.bodies),
        )
        for group in joints
    ]
    values, growth = ([pair[i] for pair in pairs] for i in range(2))
    return _by_kind(joints, values, motion[1]), _by_kind(joints, growth, motion[1])


def joint_rates(
    joint: Any, t: Array, poses: Poses, velocities: Velocities
) -> Float[Array, " all_rows"]:
    """Rates of a joint's position constraints, then its velocity constraints."""
    tangents = jnp.ones_like(t), *moving(poses, velocities)
    _, rates = jax.jvp(joint.constraint, (t, *poses), tangents)
    others = joint.velocity_constraint(t, *poses, *velocities)
    return jnp.concatenate([rates, others])


def reactions(
    joints: Groups, t: Array, pose: tuple[Array, ...], multipliers: list[Array]
) -> Wrench:
    """Sum of the hybrid wrenches on each body for multipliers of each group."""

    def react(element, poses, multipliers):
        return element.reaction(t, *poses, multipliers)

    total = Wrench(jnp.zeros_like(pose[1]), jnp.zeros_like(pose[1]))
    for group, of_group in zip(joints, multipliers, strict=True):
        wrenches = stacking.each(react, group, pose, of_group)
        total = stacking.add_wrenches(total, group, wrenches)
    return total


def unit_reactions(
    joints: Groups, t: Array, pose: tuple[Array, ...]
) -> list[tuple[Float[Array, "6 all_rows count"], ...]]:
    """Hybrid wrenches on the bodies at each slot for unit multipliers, of each group."""

    def wrenches_of(element, poses):
        def wrenches(multipliers):
            return [jnp.concatenate(w) for w in element.reaction(t, *poses, multipliers)]

        units = jnp.eye(element.rows + element.velocity_rows, dtype=pose[1].dtype)
        return jax.vmap(wrenches, out_axes=1)(units)

    return [tuple(stacking.each(wrenches_of, group, pose, out_axes=-1)) for group in joints]


def sides(joints: Groups, t: Array, pose: tuple[Array, ...]) -> Float[Array, " joints"]:
    """The joints' `side`, one for joints without; empty if no joint has one."""
    by_group = [
        stacking.each(lambda element, poses: element.side(t, *poses), group, pose)
        for group in joints
    ]
    dtype = pose[1].dtype
    if all(sides is None for sides in by_group):
        return jnp.zeros(0, dtype)
    ones = [jnp.ones(group.count, dtype) for group in joints]
    return jnp.concatenate([b if a is None else a for a, b in zip(by_group, ones, strict=True)])


def memory_after(joints: Groups, instant: Instant) -> tuple:
    """Memory of each group of joints after an instant of a run, None for those without."""
    t, *motion = instant
    return tuple(
        stacking.each(lambda element, *pair: element.memory_after(t, *pair), group, motion)
        for group in joints
    )


def with_memory(joints: Groups, memory: tuple) -> Groups:
    """The joints, which recall what `memory_after` has kept."""
    return tuple(
        dataclasses.replace(group, element=group.element.with_memory(last))
        for group, last in zip(joints, memory, strict=True)
    )


def leaves_range(joints: Groups, instant: Instant) -> Bool[Array, " joints"]:
    """Whether the recalled instant leads to this one in no known way, for each joint with memory;
    empty if no joint has one.
    """
    t, *motion = instant
    by_group = [
        stacking.each(lambda element, *pair: element.leaves_range(t, *pair), group, motion)
        for group in joints
    ]
    if all(flags is None for flags in by_group):
        return jnp.zeros(0, bool)
    none = [jnp.zeros(group.count, bool) for group in joints]
    return jnp.concatenate([b if a is None else a for a, b in zip(by_group, none, strict=True)])


def closing(joints: Groups) -> Groups:
    """The joints for a search of poses, as each one's `closing` returns them."""
    return tuple(dataclasses.replace(group, element=group.element.closing()) for group in joints)


def _concatenate(values: list[Array], like: Array) -> Array:
    return jnp.concatenate([jnp.zeros(0, like.dtype), *(x.reshape(-1) for x in values)])


def _by_kind(joints: Groups, values: list[Array], like: Array) -> Array:
    parts = [
        part
        for last in (False, True)
        for group, x in zip(joints, values, strict=True)
        for part in [x[:, group.element.rows :] if last else x[:, : group.element.rows]]
    ]
    return _concatenate(parts, like)
