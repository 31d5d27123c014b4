"""Checks of the constructors for mechanisms that no constructor has made."""

import equinox as eqx
import numpy as np

from lie_jax.mechanics.body import Body
from lie_jax.mechanics.mechanism import Mechanism


def check(where: str, mechanism: Mechanism) -> None:
    """Raise `ValueError` for a mechanism that the constructors of its parts refuse.

    Of a batch of mechanisms each member's masses and inertias are checked.
    """
    try:
        batched = np.ndim(mechanism.gravity) != 1
        for body in mechanism.bodies:
            members = _members(body)
            batched = batched or not all(member is body for member in members)
            for member in members:
                _check(member)
        if not batched:
            for part in (*mechanism.joints, *mechanism.forces, mechanism):
                _check(part)
    except ValueError as error:
        raise ValueError(
            f"{where} holds a mechanism that lie_jax does not construct: {error}"
        ) from error


def _check(part: eqx.Module) -> None:
    for base in type(part).__mro__:
        if "__check_init__" in vars(base):
            base.__check_init__(part)


def _members(body: Body) -> list[Body]:
    """Bodies with one mass and one inertia each, of a batch in a body at rest at the origin."""
    mass, inertia = np.asarray(body.mass), np.asarray(body.inertia)
    shape = np.broadcast_shapes(mass.shape, inertia.shape[:-2])
    if shape == ():
        return [body]
    masses, inertias = np.broadcast_to(mass, shape), np.broadcast_to(inertia, (*shape, 3, 3))
    return [
        Body(body.name, masses[index], inertias[index], check_inertia=body.check_inertia)
        for index in np.ndindex(shape)
    ]
