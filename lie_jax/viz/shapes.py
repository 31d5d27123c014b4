"""What stands for bodies and joints in a scene."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.multibody import AbstractMultibodySystem

GROUND = -1


class Box(NamedTuple):
    """A box of constant density with the inertia of a body: sizes (3,) and center (3,) in m, axes
    (3, 3) in the columns, all in the body's frame.
    """

    sizes: NDArray
    center: NDArray
    axes: NDArray


def masses(system: AbstractMultibodySystem) -> MassProperties:
    """Masses, inertias and centres of mass of the bodies in the order of their names."""
    return jax.tree.map(lambda x: np.asarray(x)[list(system.slots)], system.bodies)


def centers(system: AbstractMultibodySystem, q: ArrayLike) -> NDArray:
    """Centres of mass (instants, bodies, 3) in m at configurations (instants, nq)."""
    rotation, position = jax.jit(jax.vmap(system.poses))(q)
    own = masses(system).center_of_mass
    return np.asarray(position) + np.einsum("tbij,bj->tbi", rotation, own)


def boxes(system: AbstractMultibodySystem) -> list[Box]:
    """That of each body."""
    own, found = masses(system), []
    for mass, inertia, center in zip(own.mass, own.inertia, own.center_of_mass, strict=True):
        moments, axes = np.linalg.eigh(inertia)
        if np.linalg.det(axes) < 0.0:
            axes = -axes
        squares = 6.0 * (np.sum(moments) - 2.0 * moments) / (mass or 1.0)
        # A rod has no width, but is to be seen.
        sizes = np.sqrt(np.maximum(squares, 0.0))
        found.append(Box(np.maximum(sizes, 0.02 * np.max(sizes, initial=1e-6)), center, axes))
    return found


def joint_points(system: AbstractMultibodySystem) -> dict[int, NDArray]:
    """Points (n, 3) of the joints on each body that has some, by its number, in its frame (m); on
    the ground by -1.
    """
    points: dict[int, list[NDArray]] = {}
    for body, point in system.joint_points():
        points.setdefault(body, []).append(np.asarray(point))
    return {body: np.stack(own) for body, own in points.items()}
