"""What a trajectory tells of joints: their coordinates, and the forces in them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.mechanics import stacking
from lie_jax.mechanics.joints.base import GROUND, BodyPose, Wrench
from lie_jax.mechanics.mechanism import Label, labels
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
    found = {}
    for group in joints:
        if group.element.coordinate_units:
            each = jax.vmap(lambda element, *poses: element.coordinates(*poses))
            values = each(group.element, *stacking.poses(group, rotation, position))
            found |= dict(zip(group.places, values, strict=True))
    called = _labels(joints, names)
    return {called[place]: found[place] for place in sorted(found)}


def continued(
    joints: tuple[Connected, ...], names: tuple[str, ...], values: dict[Label, Array]
) -> dict[Label, Array]:
    """Coordinates (n, k) at instants in order, with whole turns added where angles jump."""
    called = _labels(joints, names)
    units = {called[i]: group.element.coordinate_units for group in joints for i in group.places}

    def each(unit: str, own: Array) -> Array:
        return jnp.unwrap(own) if unit == "rad" else own

    return {
        name: jnp.stack([each(*pair) for pair in zip(units[name], own.T, strict=True)], axis=1)
        for name, own in values.items()
    }


def reactions(
    joints: tuple[Connected, ...],
    names: tuple[str, ...],
    t: Float[Array, ""],
    rotation: Rotations,
    position: Vectors,
    multipliers: list[Array],
) -> dict[Label, JointReaction]:
    """Of all joints, with the multipliers of each group as `attachments.split` has them."""
    found = {}
    for group, own in zip(joints, multipliers, strict=True):
        poses = stacking.poses(group, rotation, position)
        _, wrenches = jax.vmap(lambda element, poses, own: element.reaction(t, *poses, own))(
            group.element, poses, own
        )
        points = group.element.points[1]
        points = jnp.zeros_like(wrenches.force) if points is None else points
        values = jax.vmap(_on_child)(poses[1], points, wrenches)
        for k, place in enumerate(group.places):
            found[place] = JointReaction(values.force[k], values.torque[k])
    called = _labels(joints, names)
    return {called[place]: found[place] for place in sorted(found)}


def _on_child(pose: BodyPose, point: Array, wrench: Wrench) -> JointReaction:
    about_origin = small.matvec(pose.rotation, wrench.torque)
    arm = small.matvec(pose.rotation, point)
    return JointReaction(-wrench.force, small.cross(arm, wrench.force) - about_origin)


def _labels(joints: tuple[Connected, ...], names: tuple[str, ...]) -> tuple[Label, ...]:
    """Labels of the joints of a mechanism, in its order."""
    named = (*names, GROUND)
    pairs = {
        place: (named[parent], named[child])
        for group in joints
        for place, parent, child in zip(group.places, *group.bodies, strict=True)
    }
    return labels([pairs[place] for place in sorted(pairs)])
