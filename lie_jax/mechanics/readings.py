"""Readings of joints at the poses of a trajectory: their coordinates and reactions."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics import mechanism, stacking
from lie_jax.mechanics.joints.base import GROUND
from lie_jax.mechanics.mechanism import Label
from lie_jax.mechanics.stacking import Connected, Rotations, Vectors
from lie_jax.numerics import small


class JointReaction(NamedTuple):
    """Action of a joint on its child: force (N), torque about the joint's point (N m), inertial.

    The joint's point is its `child_point`; the origin of the child's frame if it has none.
    """

    force: Float[Array, "*instants 3"]
    torque: Float[Array, "*instants 3"]


def coordinates(
    joints: tuple[Connected, ...], names: tuple[str, ...], rotation: Rotations, position: Vectors
) -> dict[Label, Array]:
    """Coordinates of the joints that have any, at poses of the bodies with these names."""
    values = {}
    read = jax.vmap(lambda element, *poses: element.coordinates(*poses))
    for group in joints:
        if group.element.coordinate_units:
            of_group = read(group.element, *stacking.poses(group, rotation, position))
            values |= dict(zip(group.places, of_group, strict=True))
    labels = _labels(joints, names)
    return {labels[place]: values[place] for place in sorted(values)}


def continued(
    joints: tuple[Connected, ...], names: tuple[str, ...], values: dict[Label, Array]
) -> dict[Label, Array]:
    """Coordinates (n, k) at instants in order, with whole turns added where angles jump."""
    labels = _labels(joints, names)
    angular = {
        labels[place]: np.asarray([unit == "rad" for unit in group.element.coordinate_units])
        for group in joints
        for place in group.places
    }
    return {
        label: jnp.where(angular[label][None], jnp.unwrap(series, axis=0), series)
        for label, series in values.items()
    }


def reactions(
    joints: tuple[Connected, ...],
    names: tuple[str, ...],
    t: Float[Array, ""],
    rotation: Rotations,
    position: Vectors,
    multipliers: list[Array],
) -> dict[Label, JointReaction]:
    """Reactions of all joints; `multipliers` are those of each group, see `stacking.split`."""

    @jax.vmap
    def on_child(element, poses, multipliers):
        _, wrench = element.reaction(t, *poses, multipliers)
        rotation, point = poses[1].rotation, element.points[1]
        torque = -small.matvec(rotation, wrench.torque)
        if point is not None:
            torque = torque + small.cross(small.matvec(rotation, point), wrench.force)
        return JointReaction(-wrench.force, torque)

    values = {}
    for group, of_group in zip(joints, multipliers, strict=True):
        poses = stacking.poses(group, rotation, position)
        force, torque = on_child(group.element, poses, of_group)
        pairs = map(JointReaction, force, torque)
        values |= dict(zip(group.places, pairs, strict=True))
    labels = _labels(joints, names)
    return {labels[place]: values[place] for place in sorted(values)}


def _labels(joints: tuple[Connected, ...], names: tuple[str, ...]) -> tuple[Label, ...]:
    """Labels of the joints of a mechanism, in its order."""
    named = (*names, GROUND)
    pairs = {
        place: (named[parent], named[child])
        for group in joints
        for place, parent, child in zip(group.places, *group.bodies, strict=True)
    }
    return mechanism.labels([pairs[place] for place in sorted(pairs)])
