"""Readings of beams at an instant."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics.beams.element import Beam
from lie_jax.multibody import stacking
from lie_jax.multibody.stacking import Groups


class Beams(NamedTuple):
    """Elements of all beams of a mechanism, in the order of its forces.

    `strain` (n, 6): stretch and shears, then twist and curvatures, rad/m; `resultant` (n, 6): force
    (N) and moment (N m) in the section; both in the section's axes, constant along an element.
    `rotation` (n, points, 3, 3) and `position` (n, points, 3), m: inertial frames of sections at
    points evenly along each element, its nodes included.
    """

    strain: Float[Array, "n 6"]
    resultant: Float[Array, "n 6"]
    rotation: Float[Array, "n points 3 3"]
    position: Float[Array, "n points 3"]


def beams(forces: Groups, motion: Sequence[Array], points: int) -> Beams:
    """Readings of the beams among forces, at rotation, position, ṙ and ω of all bodies."""
    dtype = motion[1].dtype
    xi = jnp.linspace(0.0, 1.0, points, dtype=dtype)

    def at(element, poses, velocities):
        line = jax.vmap(lambda part: element.line(poses, part))(xi)
        return Beams(element.strain(poses), element.resultant(poses, velocities), *line)

    rows = []
    for group in forces:
        if isinstance(group.element, Beam):
            rows.append((group.places, stacking.each(at, group, motion)))
    if not rows:
        empty = ((0, 6), (0, 6), (0, points, 3, 3), (0, points, 3))
        return Beams(*(jnp.zeros(shape, dtype) for shape in empty))
    order = np.argsort([place for places, _ in rows for place in places])
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[order], *(x for _, x in rows))
