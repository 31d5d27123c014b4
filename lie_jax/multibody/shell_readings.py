"""Readings of shells at an instant."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics.shells.element import Shell
from lie_jax.multibody import arguments, stacking
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import waits


class Shells(NamedTuple):
    """Elements of all shells of a mechanism, in the order of its forces.

    `strain` (n, 8): membrane strains 11, 22 and twice 12, curvatures likewise (1/m), shears 1 and
    2; `resultant` (n, 8): forces (N/m), moments (N) and shear forces (N/m) likewise; both means of
    an element along its axes 1 and 2. `position` (n, 4, 3): nodes, m, inertial.
    """

    strain: Float[Array, "n 8"]
    resultant: Float[Array, "n 8"]
    position: Float[Array, "n 4 3"]


@waits.announce("the shells")
def readings(system: AbstractMultibodySystem, q: Float[Array, " nq"]) -> Shells:
    """Strains, resultants and places of each `Shell` at a configuration q (nq,)."""
    (q,) = arguments.arrays("readings", system, None, q=q)
    pose = system.poses_by_slot(q)

    def at(element: Shell, poses: tuple) -> Shells:
        corners = jnp.stack([node.position for node in element.nodes(poses)])
        return Shells(element.strain(poses), element.resultant(poses), corners)

    rows = [
        (group.places, stacking.each(at, group, pose))
        for group in system.forces
        if isinstance(group.element, Shell)
    ]
    if not rows:
        return Shells(*(jnp.zeros(shape, q.dtype) for shape in ((0, 8), (0, 8), (0, 4, 3))))
    order = np.argsort([place for places, _ in rows for place in places])
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[order], *(x for _, x in rows))
