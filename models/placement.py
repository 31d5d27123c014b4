"""Initial motion of the bodies of a mechanism from the function that places them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jaxtyping import Array, Float

import lie_jax


class Motion(NamedTuple):
    """Of n bodies: positions (n, 3), m, orientations (n, 4), unit quaternions, velocities (n, 3),
    m/s, and angular velocities (n, 3), body components, rad/s.
    """

    position: Float[Array, "n 3"]
    orientation: Float[Array, "n 4"]
    velocity: Float[Array, "n 3"]
    omega_body: Float[Array, "n 3"]


def motion(place: Callable, coordinates: Array, rates: Array) -> Motion:
    """Motion of bodies whose rotations (n, 3, 3) and positions (n, 3) are functions of coordinates
    that change at these rates.
    """
    (rotation, position), (change, velocity) = jax.jvp(place, (coordinates,), (rates,))
    omega = jax.vmap(lambda r, dr: lie_jax.groups.so3.vee(r.T @ dr))(rotation, change)
    orientation = jax.vmap(lie_jax.groups.quaternion.from_matrix)(rotation)
    return Motion(position, orientation, velocity, omega)
