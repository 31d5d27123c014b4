"""Readings of joints and forces at an instant: coordinates, reactions and powers."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.groups import quaternion
from lie_jax.mechanics.joints.base import BodyPose, Velocities, Wrench
from lie_jax.mechanics.mechanism import Label
from lie_jax.multibody import stacking
from lie_jax.multibody.stacking import Groups
from lie_jax.numerics import small

# Labels of joints by their places.
Labels = tuple[Label, ...]


class JointReaction(NamedTuple):
    """Action of a joint on its child: force (N), torque about the joint's point (N m), inertial.

    The joint's point is its `child_point`; the origin of the child's frame if it has none.
    """

    force: Float[Array, "*instants 3"]
    torque: Float[Array, "*instants 3"]


class Powers(NamedTuple):
    """Powers (W) by which forces and joints change the kinetic and potential energy.

    `forces` (n,) in the mechanism's order: all of a motor's, driver's or damper's power, and of a
    spring with a damper the damper's, as the spring's is a change of the potential energy. `joints`
    by their labels, as in `reactions`: zero but for drivers and other joints that move with time.
    `bodies` by their names: of damping in flexible bodies, and of the stiffness by their spin.
    """

    forces: Float[Array, " n"]
    joints: dict[Label, Float[Array, ""]]
    bodies: dict[str, Float[Array, ""]]


def coordinates(joints: Groups, labels: Labels, pose: tuple[Array, Array]) -> dict[Label, Array]:
    """Coordinates of the joints that have any, at poses of all bodies."""
    values = [
        stacking.each(lambda element, poses: element.coordinates(*poses), group, pose)
        if group.element.coordinate_units
        else ()
        for group in joints
    ]
    return by_label(joints, labels, values)


def axes(joints: Groups) -> list[tuple[int, Array, Array]]:
    """Bodies, points (m) and axes of the first motions of joints on parents, of the last ones on
    children; see `AbstractMultibodySystem.joint_axes`.
    """
    drawn = []
    for group in joints:
        for k in range(group.count):
            motions = jax.tree.map(lambda x, k=k: x[k], group.element).motions() or ()
            for side, motion in enumerate((*motions[:1], *motions[1:][-1:])):
                if motion.axis is None:
                    continue
                point, axis = (motion.parent_point, motion.child_point)[side], motion.axis
                if side == 1 and motion.orientation is not None:
                    axis = quaternion.rotate(quaternion.conjugate(motion.orientation), axis)
                point = jnp.zeros_like(axis) if point is None else point
                drawn.append((group.bodies[side][k], point, axis))
    return drawn


def reactions(
    joints: Groups, labels: Labels, t: Array, pose: tuple[Array, Array], multipliers: list[Array]
) -> dict[Label, JointReaction]:
    """Reactions of all joints; `multipliers` are those of each group, see `stacking.split`."""

    def on_child(element, poses, multipliers):
        wrench = element.reaction(t, *poses, multipliers)[1]
        rotation, point = poses[1].rotation, element.points[1]
        torque = -small.matvec(rotation, wrench.torque)
        if point is not None:
            torque = torque + small.cross(small.matvec(rotation, point), wrench.force)
        return -wrench.force, torque

    values = [
        map(JointReaction, *stacking.each(on_child, group, pose, of_group))
        for group, of_group in zip(joints, multipliers, strict=True)
    ]
    return by_label(joints, labels, values)


def force_powers(
    forces: Groups, t: Array, motion: Sequence[Array], u: Array | None
) -> Float[Array, " n"]:
    """Powers of forces and rates of their potential energies, in the mechanism's order.

    `motion`: rotation, position, ṙ and ω of all bodies.
    """

    def at(element, poses, velocities, inputs):
        rates = tuple(
            BodyPose(small.matmul(pose.rotation, small.hat(velocity.omega_body)), velocity.linear)
            for pose, velocity in zip(poses, velocities, strict=True)
        )
        _, growth = jax.jvp(element.potential_energy, (poses,), (rates,))
        return power(element.wrenches(t, poses, velocities, inputs), velocities) + growth

    by_place = {}
    for group in forces:
        values = stacking.each(at, group, motion, stacking.own_inputs(group, u))
        by_place |= dict(zip(group.places, values, strict=True))
    none = jnp.zeros(0, motion[1].dtype)
    return jnp.stack([by_place[place] for place in sorted(by_place)]) if by_place else none


def joint_powers(
    joints: Groups, labels: Labels, t: Array, motion: Sequence[Array], multipliers: list[Array]
) -> dict[Label, Array]:
    """Powers of the reactions of all joints on their bodies; arguments as above."""

    def at(element, poses, velocities, multipliers):
        return -power(element.reaction(t, *poses, multipliers), velocities)

    values = [
        stacking.each(at, group, motion, of_group)
        for group, of_group in zip(joints, multipliers, strict=True)
    ]
    return by_label(joints, labels, values)


def power(wrenches: Sequence[Wrench], velocities: Velocities) -> Array:
    """Power (W) of the wrenches of an element on the bodies at its ends."""
    terms = [
        small.dot(wrench.force, velocity.linear) + small.dot(wrench.torque, velocity.omega_body)
        for wrench, velocity in zip(wrenches, velocities, strict=True)
    ]
    return reduce(jnp.add, terms)


def by_label(joints: Groups, labels: Labels, values: Sequence[Iterable]) -> OrderedDict[Label, Any]:
    """Values of each group of joints by the joints' labels, in the order of these.

    A group may have none.
    """
    by_place = {}
    for group, of_group in zip(joints, values, strict=True):
        by_place |= dict(zip(group.places, of_group, strict=False))
    return in_order(labels, {labels[place]: value for place, value in by_place.items()})


def in_order(labels: Labels, values: Mapping[Label, Any]) -> OrderedDict[Label, Any]:
    """The values that labels have, in the order of the labels.

    JAX sorts the keys of plain dictionaries that pass through its transformations: values joined in
    the order of the dictionary would belong to other joints there.
    """
    return OrderedDict((label, values[label]) for label in labels if label in values)
