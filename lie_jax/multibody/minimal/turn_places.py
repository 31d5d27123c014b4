"""Coordinates in q as those of forces, drivers and couplings along the same joints.

Angles in q count whole turns. An element all of whose joints are in the tree takes its turns from
there, and needs no past.
"""

import dataclasses
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.mechanics.elements import AbstractElement
from lie_jax.mechanics.joints.along import AbstractAlongJoints
from lie_jax.mechanics.joints.base import AbstractJoint
from lie_jax.mechanics.joints.geometry import Winding
from lie_jax.mechanics.joints.motions import COUNTS, Motion
from lie_jax.multibody.stacking import Connected, Groups
from lie_jax.numerics import gather

# Places in q of the coordinates of each joint.
Places = Sequence[tuple[int, ...]]


class Followed(eqx.Module):
    """Places in q of the coordinates of a group's elements, one after the other."""

    places: tuple[int, ...] = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def windings(self, t: Float[Array, ""], q: Float[Array, " nq"]) -> Winding:
        """The coordinates (rad, m) of all elements at a time t (s)."""
        angle = gather.pick(self.places, q).reshape(self.count, -1)
        return Winding(jnp.broadcast_to(t, angle.shape), angle, jnp.zeros_like(angle))


def places_of(motions: Sequence[tuple[Motion, ...]], first: int) -> Places:
    """Places in q, from `first` on, of the angles and distances of joints with these motions."""
    counts = [COUNTS[motion.kind][0] for of_joint in motions for motion in of_joint]
    starts = iter(accumulate(counts, initial=first))
    return [
        tuple(start for motion, start in zip(of_joint, starts, strict=False) if _is_scalar(motion))
        for of_joint in motions
    ]


def _is_scalar(motion: Motion) -> bool:
    return COUNTS[motion.kind] == (1, 1)


def of_element(
    element: AbstractElement, joints: Sequence[AbstractJoint], places: Places
) -> tuple[int, ...] | None:
    """Places in q of the coordinates of an element that counts turns; None where q lacks one."""
    if not isinstance(element, AbstractAlongJoints) or not element.counts_turns:
        return None
    found = []
    for key, number in element.along:
        of_joint = next((at for at, j in zip(places, joints, strict=True) if key.fits(j)), ())
        # A joint of one's own may have other motions than coordinates.
        if len(of_joint) != len(key.units):
            return None
        found.append(of_joint[number])
    return tuple(found)


def with_turn_places(group: Connected, by_place: Sequence[tuple[int, ...] | None]) -> Connected:
    """A group with the places of the coordinates that its elements follow, if they do."""
    here: list[Any] = [by_place[place] for place in group.places]
    if None in here:
        return group
    places = tuple(place for of_element in here for place in of_element)
    return dataclasses.replace(group, followed=Followed(places, group.count))


def with_memory(groups: Groups, t: Float[Array, ""], q: Float[Array, " nq"]) -> Groups:
    """Groups whose angles have the turns of the coordinates that they follow."""
    return tuple(
        group
        if group.followed is None
        else eqx.tree_at(
            lambda group: group.element.last,
            group,
            group.followed.windings(t, q),
            is_leaf=lambda x: x is None,
        )
        for group in groups
    )
