"""An arm and its springs are designed together: stiffnesses are optimised with the torques.

An arm of two links hangs in a vertical plane and moves from rest to rest between two places. A
spring lies in parallel with each motor, relaxed half way. The two stiffnesses are parameters of the
search, which finds them with the torques of least effort. A scan over the stiffnesses, with torques
optimised in each of its points, has its lowest point at the same place.
"""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _plots, _report
from lie_jax import control
from lie_jax.viz.style import COLORS

METHOD = lie_jax.RKMK("rk4")
STEPS, DURATION = 40, 0.8
# Of the upper and the lower link: kg, m.
MASSES, LENGTHS = (2.0, 1.5), (0.4, 0.35)
# Friction in the joints, N m s/rad.
DAMPING = 0.3
# Angles of the joints at the ends of the motion, rad; all zero, the arm hangs.
FIRST, LAST = (0.4, 0.7), (1.6, 1.2)
# The springs' angles without torques, rad; their largest stiffness, and where the search starts,
# N m/rad.
RELAXED = (1.0, 0.95)
STIFFEST, START = 200.0, (5.0, 5.0)
# Steps of the scans along each stiffness and of the grid about the best ones, N m/rad.
ASIDE = (np.linspace(-12.0, 12.0, 13), np.linspace(-0.45, 1.05, 11))
FINE = np.array([0.5, 0.1])


def build(stiffness: Any) -> lie_jax.extend.AbstractMultibodySystem:
    """The arm with its springs; input i is the torque of motor i, N m."""
    bodies, joints, forces = [], [], []
    place = 0.0
    for i, (mass, length) in enumerate(zip(MASSES, LENGTHS, strict=True)):
        across = mass * length**2 / 12.0
        bodies.append(
            lie_jax.Body(
                f"link {i}", mass, np.diag([across, across, 1e-2 * across]),
                position=(0.0, 0.0, -place), center_of_mass=(0.0, 0.0, -0.5 * length),
            )
        )  # fmt: skip
        parent = f"link {i - 1}" if i else "ground"
        point = (0.0, 0.0, -LENGTHS[i - 1] if i else 0.0)
        joint = lie_jax.RevoluteJoint(parent, f"link {i}", (0.0, -1.0, 0.0), point)
        joints.append(joint)
        forces.append(lie_jax.JointMotor(joint, input=i))
        forces.append(
            lie_jax.JointSpring(joint, stiffness=stiffness[i], damping=DAMPING, relaxed=RELAXED[i])
        )
        place += length
    mechanism = lie_jax.Mechanism(bodies, joints, forces)
    return lie_jax.assemble(mechanism, lie_jax.Minimal())[0]


def effort(t, q, v, u, *parameters):
    """∫ of it is the heat in the windings, N² m² s."""
    return jnp.sum(u**2)


def there(q, v, *parameters):
    """Zero where the arm rests at its goal."""
    return jnp.concatenate([q - jnp.asarray(LAST), v])


def _phase(system: Any) -> control.Phase:
    return control.Phase(system, METHOD, steps=STEPS, duration=DURATION, running=effort, end=there)


def _start() -> lie_jax.State:
    return lie_jax.State(jnp.asarray(FIRST), jnp.zeros(2))


def _ways() -> lie_jax.State:
    """States of a straight motion of the joints, which the search starts from."""
    s = np.linspace(0.0, 1.0, STEPS + 1)[:, None]
    way = np.subtract(LAST, FIRST)[None]
    q = np.asarray(FIRST) + way * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    v = way * 30.0 * s**2 * (1.0 - s) ** 2 / DURATION
    return lie_jax.State(jnp.asarray(q), jnp.asarray(v))


def designed() -> control.Optimum:
    """The best springs with the torques."""
    return control.solve(
        _phase(build),
        _start(),
        parameters=jnp.asarray(START),
        parameter_limits=(jnp.zeros(2), jnp.full(2, STIFFEST)),
        guess=control.Guess(states=_ways()),
    )


def at(stiffness: Any, near: control.Optimum | None = None) -> control.Optimum:
    """The best torques with given springs, near an optimum if one is given."""
    guess = control.Guess(states=_ways() if near is None else near.states)
    if near is not None:
        guess = control.Guess(inputs=near.inputs, states=near.states)
    return control.solve(_phase(build(jnp.asarray(stiffness))), _start(), guess=guess)


def scan(best: control.Optimum, axis: int) -> list[float]:
    """Costs along one stiffness, each from the optimum beside it on the way from the best one."""
    center, costs = np.asarray(best.parameters), {}
    for side in (-1.0, 1.0):
        beside = best
        for move in sorted(ASIDE[axis] * side):
            if move >= 0.0:
                beside = at(center + side * move * np.eye(2)[axis], beside)
                costs[side * move] = float(beside.cost) if bool(beside.converged) else np.nan
    return [costs[move] for move in ASIDE[axis]]


def grid(best: control.Optimum) -> np.ndarray:
    """Costs (3, 3) about the best stiffnesses."""
    center, moves = np.asarray(best.parameters), np.arange(-1, 2)
    found = [[at(center + FINE * [i, j], best) for j in moves] for i in moves]
    return np.asarray([[float(x.cost) for x in row] for row in found])


def lowest(table: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Stiffnesses at the lowest point of the parabola through nine costs."""
    x, y = np.meshgrid(np.arange(-1, 2), np.arange(-1, 2), indexing="ij")
    x, y = x.ravel(), y.ravel()
    rows = np.stack([np.ones(9), x, y, x * x, x * y, y * y], axis=1)
    _, *slope, xx, xy, yy = np.linalg.lstsq(rows, table.ravel(), rcond=None)[0]
    move = -np.linalg.solve([[2.0 * xx, xy], [xy, 2.0 * yy]], slope)
    return center + FINE * move


def _plot(
    path: Path, best: control.Optimum, bare: control.Optimum, scans: list[list[float]]
) -> None:
    figure, axes = _plots.plt.subplots(2, 2, figsize=(10.0, 6.8))
    figure.suptitle("An arm and its springs, designed together")
    (way_axes, torque_axes), (scan_axes, angle_axes) = axes
    for number, q in enumerate(np.asarray(best.states.q)[::4]):
        angles = np.cumsum(q)
        x, z = (np.concatenate([[0.0], np.cumsum(s * np.asarray(LENGTHS) * f(angles))])
                for s, f in ((1.0, np.sin), (-1.0, np.cos)))  # fmt: skip
        shade = _plots.plt.get_cmap("viridis")(number / (STEPS // 4))
        way_axes.plot(x, z, "o-", ms=3, color=shade)
    way_axes.set(xlabel="x / m", ylabel="z / m", aspect="equal", title="motion")
    times = np.asarray(best.times)
    for i, name in enumerate(("shoulder", "elbow")):
        torque_axes.stairs(np.asarray(bare.inputs)[:, i], times, baseline=None, color=COLORS[i],
                           ls="--", label=f"{name}, no springs")  # fmt: skip
        torque_axes.stairs(np.asarray(best.inputs)[:, i], times, baseline=None, color=COLORS[i],
                           lw=2.0, label=f"{name}, best springs")  # fmt: skip
        angle_axes.plot(times, np.rad2deg(np.asarray(best.states.q)[:, i]), color=COLORS[i],
                        label=f"{name}, best springs")  # fmt: skip
        angle_axes.plot(times, np.rad2deg(np.asarray(bare.states.q)[:, i]), "--", color=COLORS[i],
                        label=f"{name}, no springs")  # fmt: skip
    torque_axes.set(xlabel="t / s", ylabel="torque / N m", title="motors")
    angle_axes.set(xlabel="t / s", ylabel="angle / °", title="joints")
    for each in (torque_axes, angle_axes):
        each.legend(fontsize=7)
    for i, (name, costs) in enumerate(zip(("shoulder", "elbow"), scans, strict=True)):
        place = float(best.parameters[i])
        axis = scan_axes if i == 0 else scan_axes.twiny()
        axis.plot(place + ASIDE[i], costs, ".-", color=COLORS[i], label=name)
        axis.plot(place, float(best.cost), "*", ms=12, color=COLORS[i])
        axis.set_xlabel(f"stiffness of the {name} / N m/rad", color=COLORS[i])
        axis.grid(i == 0)
    scan_axes.set(ylabel="effort / N² m² s")
    _plots.save(figure, path)


def main(folder: Path) -> None:
    """Search, scan; write numbers and a picture."""
    best, bare = designed(), at((0.0, 0.0))
    stiffness = np.asarray(best.parameters)
    print(
        f"springs {stiffness} N m/rad; effort {float(best.cost):.8f}, {int(best.iterations)} "
        f"iterations; without springs {float(bare.cost):.8f}",
        flush=True)  # fmt: skip
    scans, fine = [scan(best, axis) for axis in range(2)], grid(best)
    scanned = lowest(fine, stiffness)
    found = np.concatenate([*scans, fine.ravel()])
    results: dict[str, Any] = {
        "cost": float(best.cost),
        "without_springs": float(bare.cost),
        "iterations": int(best.iterations),
        "gradient_norm": float(best.gradient_norm),
        "violation": float(best.violation),
        "converged": bool(best.converged) and bool(bare.converged),
        "stiffness_N_m_rad": stiffness.tolist(),
        "scans": scans,
        "grid": fine.tolist(),
        "lowest_of_scan_N_m_rad": scanned.tolist(),
        "lowest_cost_of_scans": float(np.nanmin(found)),
        "lost_in_scans": int(np.sum(np.isnan(found))),
    }
    print(f"the grid's parabola is lowest at {scanned} N m/rad; {results['lost_in_scans']} of "
          f"{found.size} points have no result")  # fmt: skip
    _report.write_json(folder / "results.json", results)
    _plot(folder / "springs.png", best, bare, scans)
