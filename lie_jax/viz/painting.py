"""Pictures of a scene by matplotlib: polygons, seen from afar, of which the farthest come first."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import trimesh
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from lie_jax.viz import parts, solids, surfaces, tubes
from lie_jax.viz.frames import Frames
from lie_jax.viz.style import VIEWS

# Edges of triangles over the size of the scene: polygons are sorted by the distance of their
# middles, which is wrong for long ones.
_LONGEST = 0.06
# Width (points) of the edges of surfaces, which hides the seams.
SEAM = 0.4
_DARK = (40, 40, 40)


class Polygons(NamedTuple):
    """Triangles (n, 3, 3), m, colors (n, 4) between 0 and 1, widths (n,) of edges in points.

    Lines are triangles whose last two corners coincide.
    """

    corners: NDArray
    colors: NDArray
    widths: NDArray


def together(pieces: Sequence[Polygons]) -> Polygons:
    """Polygons of all pieces."""
    return Polygons(*(np.concatenate(field) for field in zip(*pieces, strict=True)))


def segments(ends: NDArray, color: Any, width: float) -> Polygons:
    """Lines between ends (n, 2, 3), of a color 0 to 255 and a width in points."""
    corners = ends[:, [0, 1, 1]]
    return Polygons(corners, _colors(color, 1.0, len(ends)), np.full(len(ends), width))


def triangles(surface: Any, color: Any, opacity: float, longest: float) -> Polygons:
    """Faces of a surface, in triangles with edges no longer than `longest` (m)."""
    vertices, faces = np.asarray(surface.vertices, float), np.asarray(surface.faces)
    vertices, faces, *_ = trimesh.remesh.subdivide_to_size(vertices, faces, longest)
    colors = _colors(color, opacity, len(faces))
    return Polygons(vertices[faces], colors, np.full(len(faces), SEAM if opacity == 1.0 else 0.0))


def _colors(color: Any, opacity: float, count: int) -> NDArray:
    return np.tile([*(x / 255.0 for x in color), opacity], (count, 1))


class Attached(NamedTuple):
    """Polygons in the frames of bodies, and numbers (n,) of these, -1 for the ground."""

    bodies: NDArray
    polygons: Polygons


def attach_parts(scene: Frames, run: int) -> Attached:
    """Solids, shapes, and joints with their axes and lines to centres of mass."""
    size, length = parts.size(scene), parts.marks_size(scene)
    pieces = [
        (k, segments(_divide(arms), parts.body_color(run, k), 3.0)) for k, arms in parts.arms(scene)
    ]
    for k, axes in solids.joint_axes(scene.system, parts.AXIS * length).items():
        pieces.append((k, segments(_divide(axes), _DARK, 1.5)))
    ball = trimesh.creation.icosphere(subdivisions=2, radius=parts.BALL * length)
    for k, of_body in solids.joint_points(scene.system).items():
        for point in of_body:
            moved = surfaces.Surface(ball.vertices + point, ball.faces)
            pieces.append((k, triangles(moved, _DARK, 1.0, size)))
    for part in (*parts.of_solids(scene, run), *parts.of_shapes(scene, run, reach=size)):
        longest = _LONGEST * size
        pieces.append((part.body, triangles(part.surface, part.color, part.opacity, longest)))
    if not pieces:
        return Attached(np.zeros(0, int), segments(np.zeros((0, 2, 3)), _DARK, 0.0))
    bodies = np.concatenate([np.full(len(piece.widths), k) for k, piece in pieces])
    return Attached(bodies, together([piece for _, piece in pieces]))


def _divide(ends: NDArray) -> NDArray:
    """Pieces (m, 2, 3) of segments (n, 2, 3): long ones are sorted wrongly."""
    points = np.linspace(ends[:, 0], ends[:, 1], 11, axis=1)
    return np.stack([points[:, :-1], points[:, 1:]], axis=2).reshape(-1, 2, 3)


def rotations(scene: Frames, frame: int) -> NDArray:
    """Rotation matrices (bodies, 3, 3) of bodies in a frame."""
    return Rotation.from_quat(np.roll(scene.orientation[frame], -1, axis=1)).as_matrix()


def polygons_at(fixed: Attached, scene: Frames, frame: int) -> Polygons:
    """Polygons of bodies where these are in a frame, inertial."""
    # The ground comes last, which has the number -1.
    rotation = np.concatenate([rotations(scene, frame), np.eye(3)[None]])
    position = np.concatenate([scene.position[frame], np.zeros((1, 3))])
    corners = np.einsum("nij,npj->npi", rotation[fixed.bodies], fixed.polygons.corners)
    corners += position[fixed.bodies][:, None] + scene.offset
    return fixed.polygons._replace(corners=corners)


def lines(scene: Frames, run: int, frame: int, points_per_metre: float) -> Polygons:
    """Forces, beams, springs, cables and traces of a frame."""
    pieces = [
        segments(
            line.points[frame] + scene.offset,
            parts.rgb(line.color),
            line.thickness * (points_per_metre if line.units == "world" else 0.7),
        )
        for line in scene.lines
    ]
    on_beams = tubes.nodes(scene.system)
    for k, name in enumerate(scene.system.names):
        if name in scene.traces and on_beams[k] < 2:
            trace = np.stack([scene.center[:-1, k], scene.center[1:, k]], axis=1) + scene.offset
            pieces.append(segments(trace, parts.body_color(run, k), 0.8))
    return together([segments(np.zeros((0, 2, 3)), _DARK, 0.0), *pieces])


def camera(view: str) -> NDArray:
    """Unit vectors (3, 3) in the rows: to the right, up, and towards the camera."""
    towards = np.asarray(VIEWS[view]) / np.linalg.norm(VIEWS[view])
    right = np.cross([0.0, 0.0, 1.0], towards)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(towards, right), towards])


def seen(polygons: Polygons, axes: NDArray) -> dict[str, Any]:
    """Properties of a `matplotlib.collections.PolyCollection` that shows the polygons."""
    points = polygons.corners @ axes.T
    order = np.argsort(np.mean(points[:, :, 2], axis=1))
    points, colors, widths = points[order], polygons.colors[order], polygons.widths[order]
    normal = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    area = np.linalg.norm(normal, axis=1)
    # Light from above the camera's left shoulder; lines have no shade.
    cosine = np.abs(normal @ np.asarray([-0.36, 0.48, 0.8])) / np.where(area > 0.0, area, 1.0)
    colors = colors.copy()
    colors[:, :3] *= np.where(area > 0.0, 0.65 + 0.35 * cosine, 1.0)[:, None]
    edges = np.where(widths[:, None] > 0.0, colors, 0.0)
    return {
        "verts": points[:, :, :2],
        "facecolors": colors,
        "edgecolors": edges,
        "linewidths": widths,
    }
