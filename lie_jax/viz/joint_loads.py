"""Plot of the forces and torques in joints."""

from collections.abc import Iterable, Sequence

import jax
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import ArrayLike
from matplotlib.figure import Figure

from lie_jax.mechanics.joints.base import GROUND
from lie_jax.mechanics.mechanism import Label
from lie_jax.multibody.readings import JointReaction
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import waits
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.viz.inputs import Instants, reached_instants
from lie_jax.viz.plots import ABOVE, check_run, use_style, widen
from lie_jax.viz.style import literal

# Least range of an axis over the largest value of all joints.
_FLAT = 0.1
# Least range in units of the rounding of the largest force or torque, which a length turns into the
# other.
_ROUNDING = 1e4


@waits.announce("the plot of reactions")
def reactions(
    system: AbstractMultibodySystem,
    trajectory: Trajectory,
    joints: Sequence[Label] | None = None,
    frame: str = GROUND,
) -> Figure:
    """Forces (N) and torques about the joint's `child_point` (N m) by which joints act on children.

    A row for each joint, as `system.reactions` has them.

    **Arguments:** `joints`: labels, as `[("ground", "rod")]`; all joints without. `frame`: name of
    the body in whose components forces and torques are drawn; inertial ones for `"ground"`. Raises
    `ValueError` for other labels and frames, for a trajectory of another system, and for a batch of
    trajectories.
    """
    check_run("viz.reactions", system, trajectory)
    if frame not in (GROUND, *system.names):
        raise ValueError(
            f"viz.reactions(frame=) is {frame!r}; it must be the name of a body, or 'ground': take "
            f"one of {', '.join(system.names)}."
        )
    run = reached_instants(trajectory)
    every, length = _in_frame(system, run, frame)
    labels = list(every) if joints is None else [_require_known(label, every) for label in joints]
    if not labels:
        raise ValueError(
            "viz.reactions(system=) has no joints, and reactions are those of joints: take "
            "viz.energy, which draws the work of forces."
        )
    n = len(labels)
    force, torque = (
        max(_largest(getattr(reaction, part)) for reaction in every.values())
        for part in ("force", "torque")
    )
    eps = _ROUNDING * np.finfo(run.q.dtype).eps
    # Points at the origin have no size, and their joints no torques.
    least = {"force": eps * torque / length if length else 0.0, "torque": eps * force * length}
    with use_style():
        figure, grid = plt.subplots(n, 2, figsize=(9.0, 1.2 + 1.8 * n), sharex=True, squeeze=False)
        for column, part, unit in ((0, "force", "N"), (1, "torque", "N m")):
            size = max(_largest(getattr(every[label], part)) for label in labels)
            for axes, label in zip(grid[:, column], labels, strict=True):
                for values, name in zip(getattr(every[label], part).T, "xyz", strict=True):
                    axes.plot(run.t, values, label=name)
                widen(axes, max(_FLAT * size, least[part]))
                words = label if isinstance(label, str) else " – ".join(map(str, label))
                axes.set_ylabel(f"{literal(words)} / {unit}")
            where = "inertial" if frame == GROUND else f"axes of {literal(frame)}"
            # The exponent of the numbers stands below.
            grid[0, column].set_title(f"{part.capitalize()} ({where})", loc="left", pad=16)
            grid[0, column].legend(ncols=3, handlelength=1.2, columnspacing=1.0, **ABOVE)
            grid[-1, column].set_xlabel("t / s")
    return figure


def _in_frame(
    system: AbstractMultibodySystem, run: Instants, frame: str
) -> tuple[dict[Label, JointReaction], float]:
    """Reactions (n, 3) of all joints by label, in components of a frame, and the size of the
    system, m: the largest coordinate of a body or radius of gyration.
    """

    def at(t, q, v, acceleration, multipliers, memory, u):
        rows = t, q, v, acceleration, multipliers, u
        found = system.with_memory(memory).reactions(*rows)
        rotations, positions = system.poses(q)
        if frame == GROUND:
            return found, positions
        rotation = rotations[system.names.index(frame)]
        return jax.tree.map(lambda x: rotation.T @ x, found), positions

    found, positions = jax.tree.map(np.asarray, jax.jit(jax.vmap(at))(*run))
    gyration = np.sqrt(_largest(system.bodies.inertia) / _largest(system.bodies.mass))
    return found, max(_largest(positions), gyration)


def _largest(values: ArrayLike) -> float:
    return float(np.max(np.abs(np.asarray(values))))


def _require_known(label: Label, known: Iterable[Label]) -> Label:
    label = label if isinstance(label, str) else tuple(label)
    if label not in known:
        raise ValueError(
            f"viz.reactions(joints=) has {label!r}, which is the label of no joint; the labels are "
            f"{', '.join(map(repr, known))}: correct it."
        )
    return label
