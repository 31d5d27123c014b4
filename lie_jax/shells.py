"""Shells: elements between four bodies that are their nodes, surfaces of a mesh, and pressure."""

from lie_jax.mechanics.shells.element import Shell
from lie_jax.mechanics.shells.laws import isotropic
from lie_jax.mechanics.shells.loads import Pressure, pressure
from lie_jax.mechanics.shells.surface import Surface, surface
from lie_jax.multibody.shell_readings import Shells, readings

__all__ = [
    "Pressure",
    "Shell",
    "Shells",
    "Surface",
    "isotropic",
    "pressure",
    "readings",
    "surface",
]
