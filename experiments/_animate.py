"""Moving pictures of mechanisms: each body as the lines between its joints."""

from collections.abc import Sequence
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float
from matplotlib.animation import FuncAnimation, PillowWriter

import lie_jax
from experiments import _plots

GROUND = -1
FRAMES_PER_SECOND = 20


def outlines(system: lie_jax.AbstractMultibodySystem) -> dict[int, np.ndarray]:
    """The joints' points (n, 3) of each body, by its number, and of the ground, by -1; own frame.

    A body with one joint gets its frame's origin as the other end.
    """
    points: dict[int, list] = {}
    for body, point in system.joint_points():
        points.setdefault(body, []).append(np.asarray(point))
    for body, own in points.items():
        if body != GROUND and len(own) == 1:
            own.append(np.zeros(3))
    return {body: np.asarray(own) for body, own in points.items()}


def write(
    path: Path,
    mechanism: lie_jax.AbstractMultibodySystem,
    rotation: Float[Array, "frames bodies 3 3"],
    position: Float[Array, "frames bodies 3"],
    title: str,
) -> None:
    """Write an animated GIF of the poses of a mechanism's bodies, a frame for each.

    `mechanism` has the joints' points, in any formulation; the poses may come from another one.
    """
    shapes = outlines(mechanism)
    rotations, positions = np.asarray(rotation), np.asarray(position)
    moving = {
        body: np.einsum("fij,pj->fpi", rotations[:, body], own) + positions[:, body, None]
        for body, own in shapes.items()
        if body != GROUND
    }
    lines(path, list(moving.values()), title, ground=shapes.get(GROUND))


def lines(
    path: Path,
    moving: Sequence[Float[np.ndarray, "frames points 3"]],
    title: str,
    *,
    ground: Float[np.ndarray, "points 3"] | None = None,
) -> None:
    """Write an animated GIF of moving lines through points, and of fixed points of the ground."""
    everything = np.concatenate([x.reshape(-1, 3) for x in moving])
    middle = 0.5 * (everything.min(axis=0) + everything.max(axis=0))
    half = 0.55 * float(np.max(np.ptp(everything, axis=0)))
    figure = plt.figure(figsize=(4.5, 4.5))
    axes = figure.add_subplot(projection="3d", title=title)
    axes.set(
        xlabel="x / m", ylabel="y / m", zlabel="z / m", xlim=middle[0] + [-half, half],
        ylim=middle[1] + [-half, half], zlim=middle[2] + [-half, half],
    )  # fmt: skip
    axes.locator_params(nbins=4)
    if ground is not None:
        axes.scatter(*ground.T, color=_plots.BLACK, marker="^", s=40)
    drawn = [axes.plot(*own[0].T, "o-", lw=3, ms=4)[0] for own in moving]

    def draw(frame):
        for line, points in zip(drawn, moving, strict=True):
            line.set(data_3d=points[frame].T)
        return drawn

    animation = FuncAnimation(figure, draw, frames=len(moving[0]))
    animation.save(path, writer=PillowWriter(fps=FRAMES_PER_SECOND), dpi=80)
    plt.close(figure)


def poses(system, q: Float[Array, "frames nq"]):
    """Rotations and positions of all bodies in each frame."""
    return jax.jit(jax.vmap(lambda q: system.poses(q)))(q)
