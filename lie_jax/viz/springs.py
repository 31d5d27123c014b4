"""Springs in a scene as coils between their points, cables and rods as lines."""

from collections.abc import Callable

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lie_jax.mechanics.forces.springs import CartesianSpringDamper, LinearSpringDamper
from lie_jax.mechanics.forces.tendons import PathForce
from lie_jax.mechanics.joints.distance import DistanceJoint
from lie_jax.multibody.minimal.system import TreeSystem
from lie_jax.multibody.system import AbstractMultibodySystem

# Turns of a coil, points of each, the parts of the line before and after them, and its radius over
# the mean length.
_TURNS, _POINTS, _STRAIGHT, _RADIUS = 6, 8, 0.15, 0.05


def lines(system: AbstractMultibodySystem, q: ArrayLike) -> NDArray:
    """Segments (instants, segments, 2, 3) of all springs between two points, inertial, m."""
    placed, drawn = _placement(system, q), []
    for group in system.forces:
        if not isinstance(group.element, CartesianSpringDamper | LinearSpringDamper):
            continue
        points = np.asarray(group.element.parent_point), np.asarray(group.element.child_point)
        for k in range(group.count):
            drawn.append(
                _coil(*(placed(group.bodies[side][k], points[side][k]) for side in (0, 1)))
            )
    return _concatenate(drawn, q)


def cables(system: AbstractMultibodySystem, q: ArrayLike) -> NDArray:
    """Segments (instants, segments, 2, 3) of lines of `PathForce`s and of the massless rods of
    `DistanceJoint`s, inertial, m.
    """
    placed, drawn = _placement(system, q), []
    # Joints of a tree hold no distance; those that close its loops may.
    joints = getattr(system, "cuts", ()) if isinstance(system, TreeSystem) else system.joints
    for group in (*system.forces, *joints):
        element = group.element
        if isinstance(element, PathForce):
            slots, points = element.slots, np.asarray(element.places)
        elif isinstance(element, DistanceJoint):
            ends = np.asarray(element.parent_point), np.asarray(element.child_point)
            slots, points = (0, 1), np.stack(ends, axis=1)
        else:
            continue
        for k in range(group.count):
            line = [placed(group.bodies[i][k], x) for i, x in zip(slots, points[k], strict=True)]
            drawn.append(np.stack([np.stack(line[:-1], 1), np.stack(line[1:], 1)], axis=2))
    return _concatenate(drawn, q)


def _placement(system: AbstractMultibodySystem, q: ArrayLike) -> Callable[[int, NDArray], NDArray]:
    """Function from the place of a body and a point (3,) of it to the inertial points (instants, 3)
    at configurations (instants, nq).
    """
    rotation, position = (np.asarray(x) for x in jax.jit(jax.vmap(system.frame_poses))(q))
    number = {slot: k for k, slot in enumerate(system.frame_slots)}

    def inertial(slot: int, point: NDArray) -> NDArray:
        if slot not in number:
            return np.broadcast_to(point, (len(position), 3))
        k = number[slot]
        return position[:, k] + rotation[:, k] @ point

    return inertial


def _concatenate(drawn: list[NDArray], q: ArrayLike) -> NDArray:
    return np.concatenate([np.zeros((len(np.asarray(q)), 0, 2, 3)), *drawn], axis=1)


def _coil(start: NDArray, end: NDArray) -> NDArray:
    """Segments (instants, segments, 2, 3) of a coil from start to end (instants, 3)."""
    along = end - start
    length = np.linalg.norm(along, axis=1, keepdims=True)
    # The inertial axis that is most across the line at first.
    axis = np.eye(3)[np.argmin(np.abs(along[0]))]
    first = np.cross(along, axis)
    first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-12)
    second = np.cross(along / np.maximum(length, 1e-12), first)
    turned = np.linspace(0.0, 1.0, _TURNS * _POINTS + 1)
    parts = np.concatenate([[0.0], _STRAIGHT + (1.0 - 2.0 * _STRAIGHT) * turned, [1.0]])
    radius = np.full(len(parts), _RADIUS * float(np.mean(length)))
    radius[[0, 1, -2, -1]] = 0.0
    angle = 2.0 * np.pi * _TURNS * np.concatenate([[0.0], turned, [1.0]])
    points = start[:, None] + parts[:, None] * along[:, None]
    points = points + (radius * np.cos(angle))[:, None] * first[:, None]
    points = points + (radius * np.sin(angle))[:, None] * second[:, None]
    return np.stack([points[:, :-1], points[:, 1:]], axis=2)
