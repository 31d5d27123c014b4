"""Shells in a scene: edges of their elements."""

from collections import Counter

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lie_jax.mechanics.shells.element import Shell
from lie_jax.multibody import shell_readings
from lie_jax.multibody.system import AbstractMultibodySystem


def edges(system: AbstractMultibodySystem, q: ArrayLike) -> NDArray:
    """Segments (instants, segments, 2, 3) along the edges of all elements, inertial, m."""
    if not any(isinstance(group.element, Shell) for group in system.forces):
        return np.zeros((np.shape(q)[0], 0, 2, 3))
    corners = jax.jit(jax.vmap(lambda q: shell_readings.readings(system, q).position))(q)
    corners = np.asarray(corners)
    ends = np.stack([corners, np.roll(corners, -1, axis=2)], axis=3)
    return ends.reshape(len(ends), -1, 2, 3)


def nodes(system: AbstractMultibodySystem) -> Counter[int]:
    """Numbers of the bodies whose frames are nodes, with the count of elements that end there."""
    number = {slot: k for k, slot in enumerate(system.frame_slots)}
    counts: Counter[int] = Counter()
    for group in system.forces:
        if not isinstance(group.element, Shell):
            continue
        at_frame = ~np.any(np.asarray(group.element.points), axis=2)
        for corner, slots in enumerate(group.bodies):
            counts.update(
                number[slot]
                for slot, is_node in zip(slots, at_frame[:, corner], strict=True)
                if is_node and slot in number
            )
    return counts
