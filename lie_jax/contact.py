"""Contact between bodies: its element, shapes of bodies, and laws of its forces."""

from lie_jax.mechanics.contact.element import Contact
from lie_jax.mechanics.contact.height_grid import HeightGrid
from lie_jax.mechanics.contact.laws import (
    Coulomb,
    HuntCrossley,
    SmoothLinear,
)
from lie_jax.mechanics.contact.shapes import (
    Box,
    Capsule,
    Ellipsoid,
    HeightField,
    Plane,
    Points,
    Sphere,
)

__all__ = [
    "Box",
    "Capsule",
    "Contact",
    "Coulomb",
    "Ellipsoid",
    "HeightField",
    "HeightGrid",
    "HuntCrossley",
    "Plane",
    "Points",
    "SmoothLinear",
    "Sphere",
]
