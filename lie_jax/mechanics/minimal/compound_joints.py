"""Joints with two or three numbers as rows of hinges and sliders, for joint coordinates.

Between the joints of a row are bodies without mass. The twists of hinges and sliders are constant
in the frames of the bodies that they move, and recursions along the tree know no other joints.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion, so3
from lie_jax.mechanics import stacking
from lie_jax.mechanics.elements import named
from lie_jax.mechanics.joints.base import (
    AbstractJoint,
    BodyPose,
    BodyVelocity,
)
from lie_jax.mechanics.joints.geometry import perpendicular
from lie_jax.mechanics.joints.pairs import (
    CylindricalJoint,
    PlanarJoint,
    PrismaticJoint,
    RevoluteJoint,
    UniversalJoint,
)
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.mechanics.minimal import joints as tree_joints
from lie_jax.mechanics.stacking import Connected
from lie_jax.numerics import small

# How many massless bodies stand in the row of a joint.
MASSLESS: dict[type, int] = {CylindricalJoint: 1, UniversalJoint: 1, PlanarJoint: 2}


class Rows(NamedTuple):
    """Joints of single numbers in place of those of a mechanism, in the same order.

    `owners[k]` is the number of the mechanism's joint that joint k belongs to; `massless` are names
    of the massless bodies, in the order of `groups`, the joints that they belong to.
    """

    joints: tuple[AbstractJoint, ...]
    owners: tuple[int, ...]
    massless: tuple[str, ...]
    groups: tuple[Connected, ...]


def rows_of(mechanism: Mechanism) -> Rows:
    """The rows of the joints of a mechanism.

    Raises `ValueError` for a universal joint whose axes are not perpendicular at its orientation.
    """
    for joint in mechanism.joints:
        if isinstance(joint, UniversalJoint):
            _check_cross(joint)
    several = [k for k, joint in enumerate(mechanism.joints) if type(joint) in MASSLESS]
    groups = stacking.by_kind(tuple(mechanism.joints[k] for k in several), mechanism.names)
    # No user would put a line break into a name.
    between = {
        several[place]: tuple(
            f"{several[place]}\n{i}" for i in range(MASSLESS[type(group.element)])
        )
        for group in groups
        for place in group.places
    }
    rows = [_row(joint, between.get(k, ())) for k, joint in enumerate(mechanism.joints)]
    return Rows(
        tuple(joint for row in rows for joint in row),
        tuple(k for k, row in enumerate(rows) for _ in row),
        tuple(name for names in between.values() for name in names),
        groups,
    )


def _check_cross(joint: UniversalJoint) -> None:
    cosine = small.dot(joint.axis, quaternion.rotate(joint.orientation, joint.child_axis))
    if checks.traced(cosine):
        return
    if not abs(float(cosine)) <= float(jnp.finfo(cosine.dtype).eps) ** 0.5:
        raise ValueError(
            f"{named(joint)}: the angle between its axes has the cosine {float(cosine):.3g} when "
            "the child has the orientation of the joint; they must be perpendicular there, for "
            "that is where the joint's coordinates are zero: correct orientation=."
        )


def _row(joint: Any, between: Sequence[str]) -> tuple[AbstractJoint, ...]:
    """The joints that stand for one, with massless bodies of these names between them."""
    if type(joint) not in MASSLESS:
        return (joint,)
    parent, child, start, end = joint.parent, joint.child, joint.parent_point, joint.child_point
    origin, home = jnp.zeros_like(start), joint.orientation
    # Massless bodies do not turn unless a hinge turns them.
    straight = jnp.asarray((1.0, 0.0, 0.0, 0.0), home.dtype)
    if isinstance(joint, PlanarJoint):
        x, y = perpendicular(joint.normal)
        first, second = between
        return (
            PrismaticJoint(parent, first, x, start, origin, straight),
            PrismaticJoint(first, second, y, origin, origin, straight),
            RevoluteJoint(second, child, joint.normal, origin, end, home),
        )
    (middle,) = between
    hinge = RevoluteJoint(parent, middle, joint.axis, start, origin, straight)
    if isinstance(joint, UniversalJoint):
        other = quaternion.rotate(home, joint.child_axis)
        return hinge, RevoluteJoint(middle, child, other, origin, end, home)
    return hinge, PrismaticJoint(middle, child, joint.axis, origin, end, home)


def with_massless(
    groups: tuple[Connected, ...],
    rotation: Float[Array, "bodies 3 3"],
    position: Float[Array, "bodies 3"],
    velocity: Float[Array, "bodies 3"],
    omega: Float[Array, "bodies 3"],
) -> tuple[Array, Array, Array, Array]:
    """Poses and velocities ṙ, ω of bodies, and after them those of massless bodies of groups."""
    parts: list[tuple[Array, ...]] = [(rotation, position, velocity, omega)]
    for group in groups:
        found = jax.vmap(_between)(
            group.element,
            stacking.poses(group, rotation, position),
            stacking.velocities(group, velocity, omega),
        )
        parts.append(tuple(x.reshape(-1, *x.shape[2:]) for x in found))
    rotation, position, velocity, omega = (jnp.concatenate(x) for x in zip(*parts, strict=True))
    return rotation, position, velocity, omega


def _between(
    joint: Any, poses: tuple[BodyPose, ...], velocities: tuple[BodyVelocity, ...]
) -> tuple[Array, Array, Array, Array]:
    """Poses and velocities of the massless bodies of one joint, stacked."""
    count = MASSLESS[type(joint)]

    def placed(parent: BodyPose, child: BodyPose) -> BodyPose:
        # A joint is found by its coordinates alone: what does not fit is left to the last of a row.
        x = joint.coordinates(parent, child)[:count]
        row: list[AbstractJoint | None] = [*_row(joint, ("",) * count)[:count]]
        moved = tree_joints.stack(row, [False] * count, x.dtype).poses(x[:, None])
        found = [parent]
        for i in range(count):
            own, (rotation, place) = found[-1], (moved.rotation[i], moved.position[i])
            found.append(
                BodyPose(
                    small.matmul(own.rotation, rotation),
                    own.position + small.matvec(own.rotation, place),
                )
            )
        return stacking.stack(found[1:])

    rates = tuple(
        BodyPose(so3.lift(pose.rotation, velocity.omega_body), velocity.linear)
        for pose, velocity in zip(poses, velocities, strict=True)
    )
    pose, rate = jax.jvp(placed, poses, rates)
    turning = jax.vmap(lambda r, dr: so3.vee(small.matmul(r.T, dr)))(pose.rotation, rate.rotation)
    return pose.rotation, pose.position, rate.position, turning
