"""Beams in a scene: tubes along their lines."""

from collections import Counter

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lie_jax.mechanics.beams.element import Beam
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.viz import shells

# Points along each element.
_POINTS = 7


def lines(system: AbstractMultibodySystem, q: ArrayLike) -> NDArray:
    """Segments (instants, segments, 2, 3) of the lines of all beams, inertial, m."""
    points = jax.jit(jax.vmap(lambda q: system.beams(q, points=_POINTS).position))(q)
    ends = np.stack([np.asarray(points)[:, :, :-1], np.asarray(points)[:, :, 1:]], axis=3)
    return ends.reshape(len(ends), -1, 2, 3)


def thickness(system: AbstractMultibodySystem) -> float:
    """Diameter (m) of a full circle with the mean bending and axial stiffness of the beams.

    A circle of radius r has EI = EA r²/4.
    """
    stiffness = [
        np.diagonal(np.asarray(group.element.stiffness), axis1=1, axis2=2)
        for group in system.forces
        if isinstance(group.element, Beam)
    ]
    if not stiffness:
        return 0.0
    along, bending = (np.concatenate(stiffness)[:, k] for k in (0, slice(4, 6)))
    return float(np.median(4.0 * np.sqrt(np.mean(bending, axis=1) / along)))


def nodes(system: AbstractMultibodySystem) -> Counter[int]:
    """Numbers of the bodies whose frames are nodes of beams or shells, with the count of elements
    that end there.
    """
    number = {slot: k for k, slot in enumerate(system.frame_slots)}
    found = shells.nodes(system)
    for group in system.forces:
        if not isinstance(group.element, Beam):
            continue
        points = group.element.parent_point, group.element.child_point
        for point, slots in zip(points, group.bodies, strict=True):
            at_frame = ~np.any(np.asarray(point), axis=1)
            found.update(
                number[slot]
                for slot, is_node in zip(slots, at_frame, strict=True)
                if is_node and slot in number
            )
    return found
