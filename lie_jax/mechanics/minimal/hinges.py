"""Joint coordinates as the angles of springs, controllers and couplings about the same axis.

The coordinate of a hinge counts whole turns. An element between the two bodies of a joint that
turns about one axis alone, and about that axis, takes its turns from there, and needs no past.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics import stacking
from lie_jax.mechanics.forces.windings import AbstractWinding
from lie_jax.mechanics.joints.base import AbstractJoint
from lie_jax.mechanics.joints.coupling import CouplingJoint
from lie_jax.mechanics.joints.geometry import Winding, angle_about
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.mechanics.joints.pairs import RevoluteJoint
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.mechanics.stacking import Connected, Groups
from lie_jax.numerics import gather, small

# Cosine of the angle between two axes that count as parallel.
_PARALLEL = 0.999


class Hinges(eqx.Module):
    """Angles (rad) of a group's elements: sign times the coordinate at its place, plus offset."""

    places: tuple[int, ...] = eqx.field(static=True)
    sign: Float[Array, "..."]
    offset: Float[Array, "..."]

    def windings(self, t: Float[Array, ""], q: Float[Array, " nq"]) -> Winding:
        """The angles at a time t (s)."""
        angle = self.sign * gather.pick(self.places, q) + self.offset
        return Winding(jnp.broadcast_to(t, angle.shape), angle, jnp.zeros_like(angle))


# Number of the joint that an element follows, and the sign and offset of its angle.
Followed = tuple[int, Array, Array]


def followed_hinge(
    mechanism: Mechanism, motions: Sequence[tuple[Motion, ...]], force: Any
) -> Followed | None:
    """The hinge whose coordinate a force's angle follows, if there is one."""
    return _followed(mechanism, motions, force) if isinstance(force, AbstractWinding) else None


def _followed(
    mechanism: Mechanism, motions: Sequence[tuple[Motion, ...]], force: Any
) -> Followed | None:
    for number, joint in enumerate(mechanism.joints):
        is_hinge = [motion.kind for motion in motions[number]] == ["turn"]
        if is_hinge and {joint.parent, joint.child} == set(force.bodies):
            swapped = np.asarray(force.parent != joint.parent)
            pair = force.axis, force.orientation, motions[number][0], swapped
            if checks.traced(pair):
                cosine, offset = _cosine_and_offset(*pair)
                return number, jnp.sign(cosine), offset
            # Inside `jax.jit`, too, where these values are constants.
            with jax.ensure_compile_time_eval():
                cosine, offset = _cosine_and_offset(*pair)
                if abs(float(cosine)) > _PARALLEL:
                    return number, jnp.sign(cosine), offset
    return None


@jax.jit
def _cosine_and_offset(
    axis: Array, orientation: Array, hinge: Motion, swapped: Array
) -> tuple[Array, Array]:
    """Cosine between the axes, and the element's angle where the joint's is zero (rad).

    `swapped`: whether element and joint name their bodies in turn.
    """
    element_home = quaternion.to_matrix(orientation)
    home = jnp.eye(3, dtype=axis.dtype)
    if hinge.orientation is not None:
        home = quaternion.to_matrix(hinge.orientation)
    # The joint seen from its child turns backwards, about the axis in the child's components.
    joint_axis = jnp.where(swapped, -small.matvec(home.T, hinge.axis), hinge.axis)
    relative = small.matmul(jnp.where(swapped, home.T, home), element_home.T)
    return small.dot(axis, joint_axis), angle_about(axis, relative)


def with_hinges(
    group: Connected, followed: Sequence[Followed | None], starts: dict[int, int]
) -> Connected:
    """A group of forces with the hinges that it follows, if it follows any.

    `followed`: those of all forces; `starts`: the place in q of the coordinate of each joint.
    """
    followed_here = [hinge for place in group.places if (hinge := followed[place]) is not None]
    if not followed_here:
        return group
    numbers, *angles = zip(*followed_here, strict=True)
    hinges = Hinges(tuple(starts[number] for number in numbers), *map(stacking.stack, angles))
    return dataclasses.replace(group, hinges=hinges)


def with_coordinates(
    group: Connected,
    mechanism: Mechanism,
    motions: Sequence[tuple[Motion, ...]],
    cuts: Sequence[AbstractJoint],
    starts: dict[int, int],
) -> Connected:
    """A group of cut joints with the coordinates that its angles follow, if they all do.

    `starts`: as in `with_hinges`, of the joints that have these motions.
    """
    if not isinstance(group.element, CouplingJoint):
        return group
    # A distance follows nothing.
    still = np.zeros((), mechanism.gravity.dtype)
    rows = []
    for place in group.places:
        coupling = cuts[place]
        assert isinstance(coupling, CouplingJoint)
        for joint in coupling.joints:
            is_hinge = isinstance(joint, RevoluteJoint)
            hinge = _followed(mechanism, motions, joint) if is_hinge else (-1, still, still)
            if hinge is None:
                return group
            rows.append((starts.get(hinge[0], -1), *hinge[1:]))
    places, *angles = zip(*rows, strict=True)
    return dataclasses.replace(group, hinges=Hinges(places, *map(stacking.stack, angles)))


def near_coordinates(groups: Groups, t: Float[Array, ""], q: Float[Array, " nq"]) -> Groups:
    """Groups of cut joints whose angles have the turns of the coordinates that they follow."""
    return tuple(
        group
        if group.hinges is None
        else eqx.tree_at(
            lambda group: group.element.near,
            group,
            group.hinges.windings(t, q).angle.reshape(-1, 2),
            is_leaf=lambda x: x is None,
        )
        for group in groups
    )
