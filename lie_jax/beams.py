"""Beams: elements between bodies that are their nodes, lines of elements, sections and loads."""

from lie_jax.mechanics.beams.element import Beam
from lie_jax.mechanics.beams.inertia import BeamInertia
from lie_jax.mechanics.beams.lines import Line, distributed, line
from lie_jax.mechanics.beams.loads import NodeLoad
from lie_jax.mechanics.beams.sections import Section, circle, of_material, rectangle, tube

__all__ = [
    "Beam",
    "BeamInertia",
    "Line",
    "NodeLoad",
    "Section",
    "circle",
    "distributed",
    "line",
    "of_material",
    "rectangle",
    "tube",
]
