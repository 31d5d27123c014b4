"""Solids with the inertia of bodies, and points of joints in a scene."""

from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from lie_jax.mechanics.body import MassProperties
from lie_jax.multibody.system import AbstractMultibodySystem

GROUND = -1


# Moments this near to each other, relative to the largest, are equal.
_EQUAL = 1e-6
# Thinnest side over the largest: a rod has no width, and gets a visible one.
_THIN = 0.02


class Solid(NamedTuple):
    """A solid of constant density with the inertia of a body: a box, a cylinder along its third
    axis, a ball; sizes (3,) along its axes and center (3,) in m, axes (3, 3) in the columns, in the
    body's frame.
    """

    kind: Literal["box", "cylinder", "ball"]
    sizes: NDArray
    center: NDArray
    axes: NDArray


def masses(system: AbstractMultibodySystem) -> MassProperties:
    """Masses, inertias and centres of mass of the bodies in the order of their names."""
    return jax.tree.map(lambda x: np.asarray(x)[list(system.slots)], system.bodies)


def centers(system: AbstractMultibodySystem, q: ArrayLike) -> NDArray:
    """Centres of mass (instants, bodies, 3) in m at configurations (instants, nq)."""
    rotation, position = jax.jit(jax.vmap(system.poses))(q)
    centers_in_bodies = masses(system).center_of_mass
    return np.asarray(position) + np.einsum("tbij,bj->tbi", rotation, centers_in_bodies)


def solids(system: AbstractMultibodySystem) -> list[Solid]:
    """Solid of each body: a ball, a cylinder or a box, as three, two or no moments agree."""
    table = masses(system)
    rows = zip(table.mass, table.inertia, table.center_of_mass, strict=True)
    return [_solid(float(mass), *others) for mass, *others in rows]


def _solid(mass: float, inertia: NDArray, center: NDArray) -> Solid:
    moments, axes = np.linalg.eigh(inertia)
    near = np.diff(moments) <= _EQUAL * moments[-1]
    if near[1] and not near[0]:
        # The moment that differs comes last.
        moments, axes = moments[::-1], axes[:, ::-1]
    axes = axes * np.sign(np.linalg.det(axes))
    unit = moments / (mass or 1.0)
    if near.all():
        kind, squares = "ball", 10.0 * unit
    elif near.any():
        kind, along = "cylinder", 12.0 * (unit[0] - 0.5 * unit[2])
        squares = np.asarray([8.0 * unit[2], 8.0 * unit[2], along])
    else:
        kind, squares = "box", 6.0 * (np.sum(unit) - 2.0 * unit)
    sizes = np.sqrt(np.maximum(squares, 0.0))
    return Solid(kind, np.maximum(sizes, _THIN * np.max(sizes, initial=1e-6)), center, axes)


def joint_points(system: AbstractMultibodySystem) -> dict[int, NDArray]:
    """Points (n, 3) of the joints on bodies and on the ground, in their frames (m), by the number
    of the body; by -1 for the ground.
    """
    points: dict[int, list[NDArray]] = {}
    for body, point in system.joint_points():
        points.setdefault(body, []).append(np.asarray(point))
    return {body: np.stack(on_body) for body, on_body in points.items()}


def joint_axes(system: AbstractMultibodySystem, reach: float) -> dict[int, NDArray]:
    """Segments (n, 2, 3) along the axes of hinges and sliders, `reach` (m) to either side of their
    points, by the number of the body as in `joint_points`.
    """
    axes: dict[int, list[NDArray]] = {}
    for body, point, axis in system.joint_axes():
        middle, along = np.asarray(point), reach * np.asarray(axis)
        axes.setdefault(body, []).append(np.stack([middle - along, middle + along]))
    return {body: np.stack(on_body) for body, on_body in axes.items()}
