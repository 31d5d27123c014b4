"""Plots of trajectories.

Each function returns a `matplotlib.figure.Figure`: `figure.savefig("plot.png")`, or
`matplotlib.pyplot.show()`.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lie_jax import checks
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import waits
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.systems.system import AbstractSystem
from lie_jax.viz import solids
from lie_jax.viz.style import STYLE, literal

ABOVE: Any = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}

# Least range of an axis over the largest value; extent across a plane over that in it.
ROUNDING, _PLANE = 1e-9, 1e-3


@contextlib.contextmanager
def use_style() -> Iterator[None]:
    """Draw in the style of lie_jax."""
    # The first figure of a process loads matplotlib's backend. A notebook's backend sets
    # parameters; the end of the context would reset them, and hide all further figures.
    plt.draw_if_interactive()
    with plt.rc_context(STYLE):
        yield


def check_run(where: str, system: Any, trajectory: Any) -> None:
    """Raise `ValueError` for anything but a system of bodies and one trajectory of it."""
    if not isinstance(system, AbstractMultibodySystem):
        raise ValueError(
            f"{where}(system=) is a {type(system).__name__}; it must be a system of bodies. "
            "lie_jax.assemble returns the pair (system, state): unpack it."
        )
    check_trajectory(where, trajectory)
    checks.shape(f"{where}(trajectory=).q[0]", trajectory.q[0], (system.nq,), "of this system")


def check_trajectory(where: str, trajectory: Any) -> None:
    """Raise `ValueError` for anything but one trajectory."""
    if not isinstance(trajectory, Trajectory):
        raise ValueError(
            f"{where}(trajectory=) is a {type(trajectory).__name__}; it must be what "
            "lie_jax.simulate returns."
        )
    if np.ndim(trajectory.t) != 1:
        raise ValueError(
            f"{where}(trajectory=) is a batch of trajectories with times of shape "
            f"{np.shape(trajectory.t)}; take one: jax.tree.map(lambda x: x[0], trajectory)."
        )


@waits.announce("the plot of motions")
def motion(system: AbstractMultibodySystem, trajectory: Trajectory) -> Figure:
    """Positions of the bodies' centres of mass (m), angular velocities (rad/s, body axes).

    Raises `ValueError` for a trajectory of another system, and for a batch of trajectories.
    """
    check_run("viz.motion", system, trajectory)
    center = solids.centers(system, trajectory.q)
    twists = jax.jit(jax.vmap(system.twists))(trajectory.q, trajectory.v)
    omega = np.asarray(twists)[:, :, 3:]
    n = len(system.names)
    with use_style():
        figure, grid = plt.subplots(n, 2, figsize=(9.0, 1.2 + 1.8 * n), sharex=True, squeeze=False)
        for column, values, unit, title, labels in (
            (grid[:, 0], center, "m", "Centre of mass", ("x", "y", "z")),
            (grid[:, 1], omega, "rad/s", "Angular velocity (body)", ("ω₁", "ω₂", "ω₃")),
        ):
            for body, axes in enumerate(column):
                for i, label in enumerate(labels):
                    axes.plot(trajectory.t, values[:, body, i], label=label)
                widen(axes, ROUNDING * np.max(np.abs(values)))
                axes.set_ylabel(f"{literal(system.names[body])} / {unit}")
            column[0].set_title(title, loc="left")
            column[0].legend(ncols=3, handlelength=1.2, columnspacing=1.0, **ABOVE)
            column[-1].set_xlabel("t / s")
    return figure


def widen(axes: Axes, least: float) -> None:
    """Give constant values room: the axis would show their rounding alone."""
    low, high = axes.get_ylim()
    if high - low < least:
        middle = 0.5 * (low + high)
        axes.set_ylim(middle - 0.5 * least, middle + 0.5 * least)


@waits.announce("the plot of drift")
def drift(system: AbstractSystem, trajectory: Trajectory) -> Figure:
    """Largest violation of the constraints and of their rates at each instant.

    Raises `ValueError` for a system without constraints.
    """
    check_trajectory("viz.drift", trajectory)
    if not system.nc:
        raise ValueError(
            "viz.drift(system=) has no constraints, and so no drift; viz.energy shows how well its "
            "energy is kept."
        )

    def at(t, q, v):
        return system.constraint(t, q), system.constraint_rate(t, q, v)

    violations = jax.jit(jax.vmap(at))(trajectory.t, trajectory.q, trajectory.v)
    names = "positions / m, rad", "velocities / m/s, rad/s"
    with use_style():
        figure, axes = plt.subplots(figsize=(7.0, 3.5))
        for values, name in zip(violations, names, strict=True):
            worst = np.max(np.abs(np.asarray(values)), axis=1, initial=0.0)
            # A logarithmic axis has no zero.
            axes.semilogy(trajectory.t, np.where(worst > 0.0, worst, np.nan), label=name)
        axes.set(xlabel="t / s", ylabel="violation of constraints")
        axes.legend(ncols=2, **ABOVE)
    return figure


@waits.announce("the plot of paths")
def paths(system: AbstractMultibodySystem, trajectory: Trajectory) -> Figure:
    """Paths of the bodies' centres of mass (m), with equal axes.

    Motions in a plane of two inertial axes are drawn in that plane, others in space. Raises
    `ValueError` for a trajectory of another system, and for a batch of trajectories.
    """
    check_run("viz.paths", system, trajectory)
    center = solids.centers(system, trajectory.q)
    points = center[np.isfinite(center).all(axis=(1, 2))].reshape(-1, 3)
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    extent, labels = high - low, ("x / m", "y / m", "z / m")
    across = int(np.argmin(extent))
    is_plane = extent[across] <= _PLANE * np.max(extent)
    shown = [k for k in range(3) if not (is_plane and k == across)]
    with use_style():
        figure = plt.figure(figsize=(5.5, 5.0))
        axes = cast(Any, figure.add_subplot(projection=None if is_plane else "3d"))
        for body, name in enumerate(system.names):
            (line,) = axes.plot(*center[:, body, shown].T, label=literal(name))
            axes.plot(*center[:1, body, shown].T, "o", color=line.get_color())
        axes.set(**{f"{axis}label": labels[k] for axis, k in zip("xyz", shown, strict=False)})
        if is_plane:
            axes.set_aspect("equal", adjustable="datalim")
        else:
            half, middle = 0.55 * np.max(extent), 0.5 * (low + high)
            limits = zip("xyz", middle - half, middle + half, strict=True)
            axes.set(**{f"{axis}lim": (least, most) for axis, least, most in limits})
            axes.set_box_aspect((1.0, 1.0, 1.0))
            axes.locator_params(nbins=4)
        axes.legend(ncols=min(3, len(system.names)), **ABOVE)
    return figure
