"""Pressure on shells."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.forces.base import AbstractForce
from lie_jax.mechanics.joints.base import Wrench
from lie_jax.mechanics.joints.geometry import force_at
from lie_jax.mechanics.shells.element import corner_points
from lie_jax.mechanics.shells.surface import Surface
from lie_jax.mechanics.signals import as_signal, check_signal, value_at
from lie_jax.numerics import small

_AT = 1.0 / np.sqrt(3.0)
_SIGNS = np.asarray([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])


class Pressure(AbstractForce):
    """Pressure on a quadrilateral between four nodes, made by `lie_jax.shells.pressure`.

    The surface is bilinear between the nodes, and the force on each the exact share of the pressure
    along its normal, which follows the surface. **Arguments:** `first`, `second`, `third`,
    `fourth`, `points`: those of `lie_jax.shells.Shell`; `value`: Pa, a constant or a function of
    the time (s), positive for forces along the normal.
    """

    is_load = True
    shares_bodies = True
    first: str = eqx.field(static=True, metadata=fields.BODY)
    second: str = eqx.field(static=True, metadata=fields.BODY)
    third: str = eqx.field(static=True, metadata=fields.BODY)
    fourth: str = eqx.field(static=True, metadata=fields.BODY)
    value: Any = eqx.field(converter=as_signal)
    points: Parameter = corner_points()

    def __check_init__(self):
        check_signal(f"{element_name(self)}.value", self.value, (), "Pa")

    @override
    def wrenches(self, t, poses, velocities, u):
        corners = [
            pose.position + small.matvec(pose.rotation, point)
            for pose, point in zip(poses, self.points, strict=True)
        ]
        # Derivatives along ξ and η on opposite edges.
        along = 0.5 * (corners[1] - corners[0]), 0.5 * (corners[2] - corners[3])
        across = 0.5 * (corners[3] - corners[0]), 0.5 * (corners[2] - corners[1])
        forces = [jnp.zeros_like(corners[0])] * 4
        for xi in (-_AT, _AT):
            for eta in (-_AT, _AT):
                first = 0.5 * ((1.0 - eta) * along[0] + (1.0 + eta) * along[1])
                second = 0.5 * ((1.0 - xi) * across[0] + (1.0 + xi) * across[1])
                normal = small.cross(first, second)
                shares = 0.25 * (1.0 + xi * _SIGNS[:, 0]) * (1.0 + eta * _SIGNS[:, 1])
                forces = [f + float(s) * normal for f, s in zip(forces, shares, strict=True)]
        value = value_at(self.value, t)
        return tuple(
            Wrench(*force_at(pose, point, value * force))
            for pose, point, force in zip(poses, self.points, forces, strict=True)
        )


def pressure(surface: Any, value: Any) -> tuple[Pressure, ...]:
    """Pressure on all elements of a surface, for `Mechanism(forces=)`.

    **Arguments:** `value`: Pa, a constant or a function of the time (s), positive for forces along
    the normals, from the side on which elements are clockwise. It follows the surface as that
    moves. Raises `ValueError` for values that break these rules.
    """
    if not isinstance(surface, Surface):
        raise ValueError(
            f"pressure(surface=) is a {type(surface).__name__}; it must be the result of "
            "lie_jax.shells.surface(...)."
        )
    value = as_signal(value)
    check_signal("pressure(value=)", value, (), "Pa")
    return tuple(
        Pressure(e.first, e.second, e.third, e.fourth, value, e.points) for e in surface.elements
    )
