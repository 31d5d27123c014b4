"""Frames of a scene: instants, poses, shapes and traces of a run."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from lie_jax.groups import quaternion
from lie_jax.io.visuals import Mesh
from lie_jax.mechanics.contact.shapes import AbstractShape
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.viz import contacts, deformed, plots, shells, solids, springs, tubes
from lie_jax.viz.deformed import Deformed
from lie_jax.viz.style import BLACK, COLORS

# Colour of forces, and the length of the largest one over that of the scene.
_FORCE, _LONGEST = "#C81E1E", 0.4

Run = tuple[AbstractMultibodySystem, Trajectory]
Shape = AbstractShape | Mesh | Deformed


class Lines(NamedTuple):
    """Line segments (frames, segments, 2, 3), m, of a color, and a thickness in pixels or m."""

    name: str
    points: NDArray
    color: str
    thickness: float
    units: Literal["screen", "world"]


class Frames(NamedTuple):
    """Times (frames,), poses of the bodies at them, the position of a run in the scene, its look.

    `lines` move on their own: forces of contacts, from their places along the forces on the first
    bodies, beams, springs and cables.
    """

    system: Any
    t: NDArray
    position: NDArray
    orientation: NDArray
    center: NDArray
    offset: NDArray
    lines: tuple[Lines, ...]
    shapes: tuple[Shape, ...]
    traces: tuple[str, ...]


def prepare(
    where: str,
    runs: tuple[Run, ...],
    spacing: float | None,
    shapes: Sequence[Shape],
    traces: Sequence[str] | None,
) -> list[Frames]:
    """Frames of all runs, beside each other; at instants `spacing` (s) apart, or at all saved."""
    if not runs:
        raise ValueError(f"{where} was given no run; give at least one pair (system, trajectory).")
    scenes, edge = [], 0.0
    for run in runs:
        if not isinstance(run, tuple | list) or len(run) != 2:
            raise ValueError(
                f"{where}(runs=) holds a {type(run).__name__}; each run is a pair (system, "
                "trajectory): put the two in parentheses."
            )
        system, trajectory = run
        plots.check_run(where, system, trajectory)
        t, q, v = _at_even_times(trajectory, spacing)
        scene = at_instants(system, t, q, v, len(scenes), shapes, traces)
        low, high = extent(system, scene.center)
        if scenes:
            scene = scene._replace(offset=np.asarray([edge - low[0], 0.0, 0.0]))
        edge = (
            high[0] + scene.offset[0] + 0.3 * (high[0] - low[0]) + 0.2 * float(np.max(high - low))
        )
        scenes.append(scene)
    return scenes


def at_instants(
    system: AbstractMultibodySystem,
    t: NDArray,
    q: NDArray,
    v: NDArray,
    run: int,
    shapes: Sequence[Shape],
    traces: Sequence[str] | None,
) -> Frames:
    """Frames at times (instants,), configurations and velocities; the number of the run colors."""
    rotation, position = jax.jit(jax.vmap(lambda q: system.frame_poses(q)))(q)
    orientation = jax.jit(jax.vmap(jax.vmap(quaternion.from_matrix)))(rotation)
    center = solids.centers(system, q)
    low, high = extent(system, center)
    pushes = contacts.forces(system, t, q, v)
    longest = np.max(np.linalg.norm(pushes[:, :, 1], axis=-1), initial=0.0)
    pushes[:, :, 1] *= _LONGEST * float(np.max(high - low)) / (longest or 1.0)
    pushes[:, :, 1] += pushes[:, :, 0]
    color = COLORS[run % len(COLORS)]
    drawn = (
        Lines("forces", pushes, _FORCE, 3.0, "screen"),
        Lines("beams", tubes.lines(system, q), color, tubes.thickness(system), "world"),
        Lines("shells", shells.edges(system, q), color, 1.5, "screen"),
        Lines("springs", springs.lines(system, q), BLACK, 2.0, "screen"),
        Lines("cables", springs.cables(system, q), BLACK, 3.0, "screen"),
        *(
            Lines(f"edges of {name}", ends, color, 1.0, "screen")
            for name, ends in deformed.lines(system, q, shapes)
        ),
    )
    lines = tuple(line for line in drawn if line.points.shape[1])
    named = tuple(system.names if traces is None else traces)
    poses = np.asarray(position), np.asarray(orientation)
    return Frames(system, t, *poses, center, np.zeros(3), lines, tuple(shapes), named)


def _at_even_times(trajectory: Trajectory, spacing: float | None) -> tuple[NDArray, ...]:
    # The nearest saved instants: configurations cannot be averaged.
    t, q, v = (np.asarray(x) for x in (trajectory.t, trajectory.q, trajectory.v))
    finite = np.isfinite(t) & np.all(np.isfinite(np.concatenate([q, v], axis=1)), axis=1)
    t, q, v = t[finite], q[finite], v[finite]
    if spacing is None or len(t) < 2:
        return t, q, v
    wanted = t[0] + np.arange(int((t[-1] - t[0]) / spacing) + 1) * spacing
    middle = 0.5 * (t[1:] + t[:-1])
    nearest = np.searchsorted(middle, wanted)
    return wanted, q[nearest], v[nearest]


def extent(system: AbstractMultibodySystem, center: NDArray) -> tuple[NDArray, NDArray]:
    """Corners of the space that the bodies reach, in every orientation."""
    # Nodes of beams are not drawn as solids.
    on_beams, bodies = tubes.nodes(system), solids.solids(system)
    sizes = [float(np.linalg.norm(body.sizes)) for k, body in enumerate(bodies) if not on_beams[k]]
    reach = 0.5 * max(sizes, default=tubes.thickness(system))
    points = center.reshape(-1, 3)
    return points.min(axis=0) - reach, points.max(axis=0) + reach
