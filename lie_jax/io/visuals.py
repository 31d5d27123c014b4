"""Surfaces of bodies that are seen and do not touch."""

from typing import NamedTuple

from numpy.typing import NDArray


class Mesh(NamedTuple):
    """A surface of triangles on a body, for pictures.

    **Arguments:** `body`: the name of a body, or `"ground"`; `vertices`: (n, 3), in the body's
    frame, m; `faces`: (m, 3), rows of numbers of vertices, counted from 0; `color`: red, green,
    blue and opacity between 0 and 1, or None for the colour of the body.
    """

    body: str
    vertices: NDArray
    faces: NDArray
    color: tuple[float, float, float, float] | None = None
