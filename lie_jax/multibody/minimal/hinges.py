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
from lie_jax.mechanics.coupled import PARALLEL
from lie_jax.mechanics.forces.tendons import CouplingForce
from lie_jax.mechanics.forces.windings import AbstractWinding
from lie_jax.mechanics.joints.coupling import CouplingJoint
from lie_jax.mechanics.joints.geometry import Winding, angle_about
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.mechanics.joints.pairs import RevoluteJoint
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.multibody import stacking
from lie_jax.multibody.stacking import Connected, Groups
from lie_jax.numerics import gather, small


class Hinges(eqx.Module):
    """Angles (rad) of a group's elements: sign times the coordinate at its place, plus offset.

    Signs and offsets are those of the elements, (count,), or of their joints, (count, n).
    """

    places: tuple[int, ...] = eqx.field(static=True)
    sign: Float[Array, "..."]
    offset: Float[Array, "..."]

    def windings(self, t: Float[Array, ""], q: Float[Array, " nq"]) -> Winding:
        """The angles at a time t (s)."""
        angle = self.sign * gather.pick(self.places, q).reshape(self.sign.shape) + self.offset
        return Winding(jnp.broadcast_to(t, angle.shape), angle, jnp.zeros_like(angle))


# Numbers of the joints that an element follows, -1 for a distance, and signs and offsets of its
# angles.
Followed = tuple[tuple[int, ...], Array, Array]


def followed(
    mechanism: Mechanism, motions: Sequence[tuple[Motion, ...]], element: Any
) -> Followed | None:
    """The hinges whose coordinates all angles of an element follow, if there are such."""
    if isinstance(element, AbstractWinding):
        hinge = _followed(mechanism, motions, element)
        return None if hinge is None else ((hinge[0],), *hinge[1:])
    if not isinstance(element, CouplingJoint | CouplingForce):
        return None
    # A distance follows nothing.
    still = np.zeros((), mechanism.gravity.dtype)
    of_joints = [
        _followed(mechanism, motions, joint)
        if isinstance(joint, RevoluteJoint)
        else (-1, still, still)
        for joint in element.joints
    ]
    hinges = [hinge for hinge in of_joints if hinge is not None]
    if len(hinges) < len(of_joints):
        return None
    numbers, *angles = zip(*hinges, strict=True)
    signs, offsets = map(stacking.stack, angles)
    return numbers, signs, offsets


def _followed(
    mechanism: Mechanism, motions: Sequence[tuple[Motion, ...]], force: Any
) -> tuple[int, Array, Array] | None:
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
                if abs(float(cosine)) > PARALLEL:
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
    """A group of elements with the hinges that they follow, if all of them do.

    `followed`: those of the elements by their places; `starts`: the place in q of the coordinate of
    each joint.
    """
    here = [hinges for place in group.places if (hinges := followed[place]) is not None]
    if len(here) < group.count:
        return group
    numbers, *angles = zip(*here, strict=True)
    places = tuple(starts.get(number, -1) for of_element in numbers for number in of_element)
    return dataclasses.replace(group, hinges=Hinges(places, *map(stacking.stack, angles)))


def near_coordinates(groups: Groups, t: Float[Array, ""], q: Float[Array, " nq"]) -> Groups:
    """Groups of cut joints whose angles have the turns of the coordinates that they follow."""
    return tuple(
        group
        if group.hinges is None
        else eqx.tree_at(
            lambda group: group.element.near,
            group,
            group.hinges.windings(t, q).angle,
            is_leaf=lambda x: x is None,
        )
        for group in groups
    )
