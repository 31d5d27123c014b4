"""Plot of the energy of a run, and of the work that changes it."""

from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import ArrayLike
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import waits
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.viz.inputs import Instants, RunInputs, of_run, reached_instants
from lie_jax.viz.plots import ABOVE, ROUNDING, check_run, use_style, widen
from lie_jax.viz.style import BLACK, literal

# Least range of the axis over the largest energy.
_FLAT = 0.1
# Works that are drawn one by one; others are one line.
_MOST_WORKS = 5

# Names and values (n,) in J.
Works = list[tuple[str, NDArray]]


@waits.announce("the plot of energies")
def energy(
    system: AbstractMultibodySystem, trajectory: Trajectory, inputs: ArrayLike | None = None
) -> Figure:
    """Kinetic, potential and total energy (J); below, the change of the total one and its causes.

    Causes are the work of each motor, damper, load and driver since the first instant, as far as
    there is any, and what is left over: the error of the run and of the work. The work is
    integrated by trapezoids: with half the time between saved instants its error is a quarter. It
    misses the impulses of events and of `ConvexContact`.

    **Arguments:** `inputs`: those of `lie_jax.simulate`, (steps, nu), if the run had no policy;
    without them a system that reads inputs has no work drawn. Raises `ValueError` for a
    trajectory of another system, for a batch of trajectories, and for inputs of another shape.
    """
    check_run("viz.energy", system, trajectory)
    run = reached_instants(trajectory)

    def at(q, v, memory):
        return system.kinetic_energy(q, v), system.with_memory(memory).potential_energy(q)

    kinetic, potential = map(np.asarray, jax.jit(jax.vmap(at))(run.q, run.v, run.memory))
    total = kinetic + potential
    change = total - total[0]
    given = of_run("viz.energy", system, trajectory, inputs)
    is_known = given is not None or not system.nu
    works = _works(system, run, given) if is_known else []
    # Rounding of energies is no work.
    least = ROUNDING * max(np.ptp(kinetic), np.ptp(potential))
    works = [(name, work) for name, work in works if np.ptp(work) > least]
    with use_style():
        figure, (above, below) = plt.subplots(2, 1, figsize=(7.0, 5.0), sharex=True)
        for values, name in ((kinetic, "kinetic"), (potential, "potential"), (total, "total")):
            above.plot(run.t, values, label=name)
        above.set(ylabel="energy / J")
        widen(above, _FLAT * np.max(np.abs(above.get_ylim())))
        above.legend(ncols=3, **ABOVE)
        below.plot(run.t, change, color=BLACK, label="change of the total")
        below.set(xlabel="t / s", ylabel="change of the total / J")
        below.yaxis.set_major_formatter("{x:.3g}")
        if works:
            for name, work in _few(works):
                below.plot(run.t, work, label=literal(name))
            left = change - np.sum([work for _, work in works], axis=0)
            below.plot(run.t, left, ":", color=BLACK, label="left over")
            below.set(ylabel="change and work / J")
            below.legend(ncols=2, fontsize="small", **ABOVE)
        if not is_known:
            below.set_title("inputs= adds the work of forces", loc="left", fontsize="small")
    return figure


def _works(system: AbstractMultibodySystem, run: Instants, given: RunInputs | None) -> Works:
    """Work of each force, in the mechanism's order, and of each joint since the first instant."""

    def at(t, q, v, multipliers, memory, u):
        return system.with_memory(memory).powers(t, q, v, multipliers, u)

    # Inputs jump between steps: an interval has its own ones at both of its ends.
    rows = run.t, run.q, run.v, run.multipliers, run.memory
    u = None if given is None else given.between(run.t)
    powers: Any = jax.jit(jax.vmap(at))
    begin, end = (
        jax.tree.map(np.asarray, powers(*jax.tree.map(lambda x, part=part: x[part], rows), u))
        for part in (slice(None, -1), slice(1, None))
    )
    half = 0.5 * np.diff(run.t)

    def work(begin: NDArray, end: NDArray) -> NDArray:
        return np.concatenate([[0.0], np.cumsum(half * (begin + end))])

    names = {
        place: group.titles[k] for group in system.forces for k, place in enumerate(group.places)
    }
    forces = zip(sorted(names), begin.forces.T, end.forces.T, strict=True)
    works = [(names[place], work(*ends)) for place, *ends in forces]
    for label, power in begin.joints.items():
        works.append((f"joint {', '.join(map(str, label))}", work(power, end.joints[label])))
    for name, power in begin.bodies.items():
        works.append((f"within {name}", work(power, end.bodies[name])))
    return works


def _few(works: Works) -> Works:
    """The largest works, and the sum of the others as one."""
    if len(works) <= _MOST_WORKS:
        return works
    by_size = sorted(works, key=lambda pair: -np.ptp(pair[1]))
    largest, others = by_size[: _MOST_WORKS - 1], by_size[_MOST_WORKS - 1 :]
    total = np.sum([work for _, work in others], axis=0)
    return [*largest, (f"{len(others)} others", total)]
