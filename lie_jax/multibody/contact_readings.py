"""Readings of contacts at an instant."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.mechanics.contact import geometry
from lie_jax.mechanics.contact.element import Contact
from lie_jax.multibody import stacking
from lie_jax.multibody.stacking import Groups


class Contacts(NamedTuple):
    """Places of all contacts of a mechanism, in the order of its forces, inertial components.

    A box has eight places against a plane or field, `Points` one each, a capsule two, other pairs
    one. `gap` (n,), negative
    where shapes overlap, m; `normal` (n, 3), out of the second shape; `point` (n, 3), m. On the
    first body act `normal_force` (n,) along the normal and `tangential_force` (n, 3), N; `slip`
    (n, 3) is its velocity against the second, in the plane of contact, m/s. First is the shape
    that is no plane, of two round ones the first argument of `Contact`.
    """

    gap: Float[Array, " n"]
    normal: Float[Array, "n 3"]
    point: Float[Array, "n 3"]
    normal_force: Float[Array, " n"]
    tangential_force: Float[Array, "n 3"]
    slip: Float[Array, "n 3"]


def contacts(forces: Groups, motion: Sequence[Array]) -> Contacts:
    """Readings of the contacts among forces, at rotation, position, ṙ and ω of all bodies."""

    def at(element, poses, velocities):
        touching = geometry.touching(element.shapes, poses)
        acting = element.forces(touching, poses, velocities)
        return Contacts(*touching, acting.normal, acting.tangential, acting.slip)

    none = jnp.zeros(0, motion[1].dtype)
    vectors = jnp.zeros((0, 3), motion[1].dtype)
    rows = {-1: Contacts(none, vectors, vectors, none, vectors, vectors)}
    for group in forces:
        if isinstance(group.element, Contact):
            values = stacking.each(at, group, motion)
            for k, place in enumerate(group.places):
                rows[place] = jax.tree.map(lambda x, k=k: x[k], values)
    ordered = [rows[place] for place in sorted(rows)]
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *ordered)


def penetrations(forces: Groups, motion: Sequence[Array]) -> tuple[Array, Array]:
    """Overlap of each force, (forces,), group by group, and the most for which its law holds, m.

    Zero for forces that are no contacts.
    """

    def at(element, poses, velocities):
        overlap, most = element.penetration(geometry.touching(element.shapes, poses), poses)
        deepest = jnp.argmax(overlap - most)
        return overlap[deepest], most[deepest]

    none = jnp.zeros(0, motion[1].dtype)
    rows = [(none, none)]
    for group in forces:
        if isinstance(group.element, Contact):
            rows.append(stacking.each(at, group, motion))
        else:
            without = jnp.zeros(group.count, none.dtype)
            rows.append((without, without))
    overlaps, mosts = zip(*rows, strict=True)
    return jnp.concatenate(overlaps), jnp.concatenate(mosts)
