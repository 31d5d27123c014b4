"""Surfaces in a scene, each on a body: solids, shapes from the user, shapes of contacts."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lie_jax.io.visuals import Mesh
from lie_jax.viz import contacts, solids, surfaces, tubes
from lie_jax.viz.frames import Frames, extent
from lie_jax.viz.look import COLORS
from lie_jax.viz.solids import GROUND, Solid
from lie_jax.viz.surfaces import Surface

Color = tuple[int, int, int]

_GROUND: Color = (190, 190, 180)


class Part(NamedTuple):
    """A surface on a body, by its number, or on the ground, -1, in its frame (m)."""

    body: int
    surface: Surface | Mesh
    color: Color
    opacity: float


def rgb(color: str) -> Color:
    """Red, green and blue, 0 to 255, of a color `"#rrggbb"`."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def body_color(run: int, body: int) -> Color:
    """Color of a body, or of the ground, in a run by its number."""
    return _GROUND if body == GROUND else rgb(COLORS[(run + body) % (len(COLORS) - 1)])


def drawn_solids(scene: Frames) -> list[Solid | None]:
    """Solid of each body; None where a shape or a beam is drawn in its place."""
    on_beams, shaped = tubes.nodes(scene.system), {shape.body for shape in scene.shapes}
    return [
        None if on_beams[k] or name in shaped else solid
        for k, (name, solid) in enumerate(
            zip(scene.system.names, solids.solids(scene.system), strict=True)
        )
    ]


def size(scene: Frames) -> float:
    """Longest edge (m) of the space that the bodies reach."""
    low, high = extent(scene.system, scene.center)
    return float(np.max(high - low))


def axes_length(scene: Frames) -> float:
    """Length (m) of the axes of frames, to which marks of joints are in proportion."""
    on_beams = tubes.nodes(scene.system)
    bodies = solids.solids(scene.system)
    sizes = [float(np.max(body.sizes)) for k, body in enumerate(bodies) if not on_beams[k]]
    return 0.3 * max(sizes, default=0.1 * size(scene))


def of_shapes(scene: Frames, run: int, reach: float) -> Iterator[Part]:
    """Shapes from the user, and those of contacts, which one sees through.

    Planes and fields are drawn as far as `reach` (m).
    """
    number = {"ground": GROUND} | {name: k for k, name in enumerate(scene.system.names)}
    for shape in scene.shapes:
        if shape.body not in number:
            # Of a body of another run.
            continue
        k = number[shape.body]
        color, opacity = body_color(run, k), 1.0
        if isinstance(shape, Mesh):
            surface = shape
            if shape.color is not None:
                red, green, blue, opacity = (float(x) for x in shape.color)
                color = round(255 * red), round(255 * green), round(255 * blue)
        else:
            surface = surfaces.of_shape(shape, reach)
        yield Part(k, surface, color, opacity)
    for k, surface in contacts.surfaces(scene.system, reach):
        yield Part(k, surface, body_color(run, k), 0.4)
