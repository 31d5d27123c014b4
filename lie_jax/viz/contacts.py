"""Shapes of contacts in a scene, and the forces that act on them."""

from collections.abc import Iterator

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lie_jax.mechanics.contact.element import Contact
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.viz.surfaces import Surface, of_shape


def surfaces(system: AbstractMultibodySystem, reach: float) -> Iterator[tuple[int, Surface]]:
    """Each shape of the contacts once, with the number of its body, -1 for the ground.

    Planes and fields are drawn as far as `reach` (m).
    """
    number = {slot: k for k, slot in enumerate(system.frame_slots)}
    drawn = set()
    for group in system.forces:
        if not isinstance(group.element, Contact):
            continue
        for side, k in np.ndindex(2, group.count):
            shape = jax.tree.map(lambda x, k=k: np.asarray(x[k]), group.element.shapes[side])
            body = number.get(group.bodies[side][k], -1)
            values = [x.tobytes() for x in jax.tree.leaves(shape)]
            known = body, type(shape), jax.tree.structure(shape), *values
            if known not in drawn:
                drawn.add(known)
                yield body, of_shape(shape, reach)


def forces(system: AbstractMultibodySystem, t: ArrayLike, q: ArrayLike, v: ArrayLike) -> NDArray:
    """Points (instants, places, 3) and forces there on the first bodies: (instants, places, 2, 3).

    In inertial components, m and N.
    """
    at = jax.jit(jax.vmap(system.contacts))(t, q, v)
    force = at.normal_force[..., None] * at.normal + at.tangential_force
    return np.stack([np.asarray(at.point), np.asarray(force)], axis=2)
