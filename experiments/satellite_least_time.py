"""A satellite makes half a turn in the least time: Bilimoria and Wie's problem, switch by switch.

Inertia is the same about all axes, and torques about three body axes are limited alike. Turning
about one axis, half way with the largest torque and half way against it, is not the fastest:
torques about the other two gain more than they cost. Published is the least time 3.2430 in units of
√(J/u), of a turn about one axis 2 √π (Bilimoria and Wie, Time-optimal three-axis reorientation of a
rigid spacecraft, J. Guid. Control Dyn. 16, 1993).
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _plots, _report
from lie_jax import control
from lie_jax.groups import quaternion
from lie_jax.viz.style import COLORS

METHOD = lie_jax.RKMK("rk4")
# Steps of equal length over which torques are held; steps of a piece between switches.
HELD, PIECE = 40, 20
ONE_AXIS = 2.0 * np.sqrt(np.pi)
PUBLISHED = 3.2430
GOAL = (0.0, 0.0, 0.0, 1.0)
# Guess: torques at random, a duration.
SEED, GUESS = 1, 3.5
# A torque this near to its limit belongs to a piece.
FIRM = 0.9


def build() -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """A body that turns about its centre, with a torque about each of its axes."""
    body = lie_jax.Body("satellite", 1.0, jnp.eye(3))
    center = lie_jax.SphericalJoint("ground", "satellite")
    torques = [
        lie_jax.Torque("satellite", axis, "body", input=k) for k, axis in enumerate(np.eye(3))
    ]
    mechanism = lie_jax.Mechanism([body], [center], torques, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.Minimal())


def held(system: lie_jax.extend.AbstractMultibodySystem, state: lie_jax.State) -> control.Optimum:
    """The least time with torques that are held over steps."""
    space = system.space

    def turned(q, v):
        return jnp.concatenate([space.inverse_retract(jnp.asarray(GOAL), q), v])

    phase = control.Phase(
        system, METHOD, steps=HELD, duration=(0.5, 10.0), end=turned, limits=(-1.0, 1.0)
    )
    inputs = np.random.default_rng(SEED).uniform(-0.5, 0.5, (HELD, 3))
    return control.solve(phase, state, guess=control.Guess(inputs=inputs, duration=GUESS))


def pieces(inputs: np.ndarray, dt: float) -> tuple[list[np.ndarray], list[float]]:
    """Torques between their limits, piece by piece, and how long they last."""
    signs = np.sign(inputs)
    firm = np.all(np.abs(inputs) > FIRM, axis=1)
    seen, durations = [signs[firm][0]], [0.0]
    for row, is_firm in zip(signs, firm, strict=True):
        if is_firm and np.any(row != seen[-1]):
            seen.append(row)
            durations.append(0.0)
        durations[-1] += dt
    return seen, durations


def switched(
    system: lie_jax.extend.AbstractMultibodySystem,
    state: lie_jax.State,
    torques: list[np.ndarray],
    durations: list[float],
) -> control.Optimum:
    """The least time with these torques, whose switches are free."""
    space = system.space

    def turned(q, v):
        return jnp.concatenate([space.inverse_retract(jnp.asarray(GOAL), q), v])

    last = len(torques) - 1
    phases = [
        control.Phase(
            system,
            METHOD,
            steps=PIECE,
            duration=(0.01, 3.0),
            limits=(u, u),
            end=turned if i == last else None,
        )
        for i, u in enumerate(torques)
    ]
    guess = [
        control.Guess(inputs=np.tile(u, (PIECE, 1)), duration=d)
        for u, d in zip(torques, durations, strict=True)
    ]
    return control.solve(phases, state, guess=guess)


def _whole(best: control.Optimum) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, coordinates and rates of all pieces."""
    times = np.concatenate([np.asarray(t) for t in best.times])
    q, v = (np.concatenate([np.asarray(getattr(x, n)) for x in best.states]) for n in "qv")
    return times, q, v


def _plot(
    path: Path, first: control.Optimum, best: control.Optimum, torques: list[np.ndarray]
) -> None:
    figure, axes = _plots.plt.subplots(2, 2, figsize=(10.0, 6.5))
    figure.suptitle("Half a turn of a satellite in the least time")
    (torque_axes, rate_axes), (path_axes, angle_axes) = axes
    times, q, v = _whole(best)
    edges = np.concatenate([[0.0], np.cumsum(best.duration)])
    shifts = 2.5 * np.arange(3)[::-1]
    for i, (name, shift) in enumerate(zip("xyz", shifts, strict=True)):
        color = COLORS[i]
        torque_axes.stairs(
            np.asarray(torques)[:, i] + shift, edges, baseline=None, color=color, lw=2.0,
        )  # fmt: skip
        torque_axes.stairs(
            np.asarray(first.inputs)[:, i] + shift, np.asarray(first.times), baseline=None,
            color=color, lw=1.0, ls=":",
        )  # fmt: skip
        rate_axes.plot(times, v[:, i], color=color, label=f"about {name}")
    for axis in (torque_axes, rate_axes):
        for t in edges[1:-1]:
            axis.axvline(t, color=_plots.BLACK, lw=0.6, ls="--")
        axis.set(xlabel="t / √(J/u)")
    rate_axes.legend(fontsize=8, loc="upper right")
    torque_axes.set(
        yticks=shifts, yticklabels=[f"about {name}" for name in "xyz"],
        title="torques between -u and u; dotted: held over 40 steps",
    )  # fmt: skip
    rate_axes.set(ylabel="rate / √(u/J)", title="rates in the body")
    turn = jax.vmap(quaternion.to_matrix)
    seen = np.asarray(turn(jnp.asarray(q)))
    for i, name in enumerate("xyz"):
        path_axes.plot(seen[:, 0, i], seen[:, 1, i], color=COLORS[i], label=f"{name} axis")
    circle: Any = np.exp(1j * np.linspace(0.0, 2.0 * np.pi, 200))
    path_axes.plot(circle.real, circle.imag, color=_plots.BLACK, lw=0.6)
    path_axes.set(xlabel="x", ylabel="y", aspect="equal", title="body axes, seen along z")
    path_axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    angle_axes.plot(times, np.rad2deg(2.0 * np.arccos(np.clip(np.abs(q[:, 0]), 0.0, 1.0))),
                    label="least time")  # fmt: skip
    half = np.linspace(0.0, ONE_AXIS, 200)
    middle = 0.5 * ONE_AXIS
    about_one = np.where(half < middle, 0.5 * half**2, np.pi - 0.5 * (ONE_AXIS - half) ** 2)
    angle_axes.plot(half, np.rad2deg(about_one), ls="--", label="about one axis")
    angle_axes.set(xlabel="t / √(J/u)", ylabel="angle from the start / °", title="attitude")
    angle_axes.legend(fontsize=8)
    _plots.save(figure, path)


def main(folder: Path) -> None:
    """Solve with held torques, then with free switches; write numbers and a picture."""
    system, state = build()
    first = held(system, state)
    torques, durations = pieces(np.asarray(first.inputs), float(first.duration) / HELD)
    best = switched(system, state, torques, durations)
    total = float(np.sum(best.duration))
    results: dict[str, Any] = {
        "held": float(first.duration),
        "held_iterations": int(first.iterations),
        "least": total,
        "iterations": int(best.iterations),
        "converged": bool(first.converged) and bool(best.converged),
        "violation": float(best.violation),
        "pieces": [float(d) for d in best.duration],
        "torques": np.asarray(torques).tolist(),
        "about_one_axis": ONE_AXIS,
        "published": PUBLISHED,
    }
    print(f"{HELD} held torques: {results['held']:.8f}, {results['held_iterations']} iterations\n"
          f"{len(torques)} pieces: {total:.10f}, {results['iterations']} iterations, "
          f"{100.0 * (1.0 - total / ONE_AXIS):.1f} % less than about one axis")  # fmt: skip
    for u, d in zip(torques, results["pieces"], strict=True):
        print(f"  {u.astype(int)} for {d:.9f}")
    _report.write_json(folder / "results.json", results)
    _plot(folder / "least_time.png", first, best, torques)
