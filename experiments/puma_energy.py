"""The motion of [S3] 4.4 by the motors that need the least effort, against the PD controllers.

Effort is ∫ Σ (τ/τ_PD)² dt, with each motor's largest torque in the controlled motion: windings warm
with the square of the torque, whatever the power at the shaft, and each motor counts by its size,
as one chosen for the controlled motion would have. The same torques are the limits.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import lie_jax
from experiments import _control, _plots, _report
from experiments._control import Task
from lie_jax import control, viz
from models import puma560

STEPS = 50
DURATION = 1.0
DT = DURATION / STEPS
# The controllers' shortest time constant is 0.4 ms.
FINE = 200


class Motion(NamedTuple):
    """Times (n,), s, angles, rates (n, 6), and torques (n - 1, 6), N m, between them."""

    times: np.ndarray
    angles: np.ndarray
    rates: np.ndarray
    torques: np.ndarray


def _command() -> puma560.AccelerateAndBrake:
    return puma560.AccelerateAndBrake(
        jnp.asarray(puma560.ANGLES), jnp.asarray(puma560.ACCELERATION), jnp.asarray(puma560.SWITCH)
    )


def goal() -> Array:
    """Angles (6,) at which the command ends, rad."""
    return _command()(jnp.asarray(DURATION))


def controlled() -> Motion:
    """The motion under the PD controllers and what torques they exert."""
    system, state = puma560.build(lie_jax.Minimal())
    steps = FINE * STEPS
    run = lie_jax.simulate(system, _control.INTEGRATOR, state, dt=DURATION / steps, steps=steps)
    command = _command()
    gains = jnp.asarray(puma560.PROPORTIONAL), jnp.asarray(puma560.DERIVATIVE)

    def torque(t, q, v):
        angle, rate = jax.jvp(command, (t,), (jnp.ones_like(t),))
        return gains[0] * (angle - q) + gains[1] * (rate - v)

    torques = jax.jit(jax.vmap(torque))(run.t, run.q, run.v)
    times, angles, rates = (np.asarray(x) for x in (run.t, run.q, run.v))
    held = np.asarray(torques)
    return Motion(times, angles, rates, 0.5 * (held[1:] + held[:-1]))


def task(largest: np.ndarray) -> Task:
    """From rest to rest within a second; `largest` (6,) are the largest torques, N m."""
    system, state = puma560.build(lie_jax.Minimal(), motors=True)
    sizes, target = jnp.asarray(largest), goal()

    def running(t, q, v, u):
        return jnp.sum((u / sizes) ** 2)

    def end(q, v):
        return jnp.concatenate([q - target, v])

    return Task(system, state, DT, running, end, (-largest, largest))


def driven(problem: Task, inputs: Array) -> Motion:
    """The motion of given torques, finely enough for its power."""
    inputs = jnp.repeat(inputs, 20, axis=0)
    steps = inputs.shape[0]
    run = lie_jax.simulate(
        problem.system,
        _control.INTEGRATOR,
        problem.state,
        dt=DURATION / steps,
        steps=steps,
        inputs=inputs,
    )
    times, angles, rates = (np.asarray(x) for x in (run.t, run.q, run.v))
    return Motion(times, angles, rates, np.asarray(inputs))


def balance(motion: Motion, largest: np.ndarray) -> dict[str, Any]:
    """Effort, energies and ends of a motion."""
    durations = np.diff(motion.times)[:, None]
    # A torque that is held does this work, whatever the rate does meanwhile.
    work = motion.torques * np.diff(motion.angles, axis=0)
    efforts = np.sum(durations * (motion.torques / largest) ** 2, axis=0)
    return {
        "effort_s": float(np.sum(efforts)),
        "effort_of_each_s": efforts.tolist(),
        "work_J": float(np.sum(work)),
        "absolute_work_J": float(np.sum(np.abs(work))),
        "largest_power_W": float(np.max(np.sum(np.abs(work) / durations, axis=1))),
        "largest_torques_N_m": np.max(np.abs(motion.torques), axis=0).tolist(),
        "end_angle_error_rad": float(np.max(np.abs(motion.angles[-1] - np.asarray(goal())))),
        "end_rate_error_rad_s": float(np.max(np.abs(motion.rates[-1]))),
    }


ROWS = {
    "effort_s": "effort / s",
    "absolute_work_J": "∫ |τ ω| dt / J",
    "work_J": "∫ τ ω dt / J",
    "largest_power_W": "largest power / W",
    "end_angle_error_rad": "angles at the end / rad",
    "end_rate_error_rad_s": "rates at the end / rad/s",
}


def _table(balances: dict[str, dict]) -> None:
    print(f"\n{'':26}" + "".join(f"{name:>16}" for name in balances))
    for key, title in ROWS.items():
        print(f"{title:26}" + "".join(f"{b[key]:16.4g}" for b in balances.values()))
    for key, title in (
        ("effort_of_each_s", "effort of motor"),
        ("largest_torques_N_m", "largest torque of"),
    ):
        for i in range(6):
            row = "".join(f"{b[key][i]:16.4g}" for b in balances.values())
            print(f"{title + ' ' + str(i + 1):26}{row}")


def _plot(
    path: Path,
    motions: dict[str, Motion],
    largest: np.ndarray,
    solutions: tuple[control.Solution, control.Optimum],
) -> None:
    figure, (angle_axes, torque_axes, wrist_axes, search_axes) = _control.figure(
        "Puma 560: least effort (solid) and PD controllers (dashed)"
    )
    for style, motion in zip(("-", "--"), motions.values(), strict=True):
        for axes in (angle_axes, torque_axes, wrist_axes):
            axes.set_prop_cycle(None)
        for i in range(6):
            label = f"joint {i + 1}" if style == "-" else None
            angle_axes.plot(motion.times, np.rad2deg(motion.angles[:, i]), style, label=label)
            axes = torque_axes if i < 3 else wrist_axes
            if i == 3:
                axes.set_prop_cycle(None)
            axes.plot(
                motion.times[1:], motion.torques[:, i] / largest[i], style, label=label, lw=1.2
            )
    angle_axes.set(xlabel="t / s", ylabel="angle / °")
    torque_axes.set(xlabel="t / s", ylabel="torque / largest of PD", title="arm")
    wrist_axes.set(xlabel="t / s", ylabel="torque / largest of PD", title="wrist")
    for axes in (angle_axes, torque_axes, wrist_axes):
        axes.legend(fontsize=8)
    _control.history(search_axes, *solutions)
    _plots.save(figure, path)


def main(folder: Path) -> None:
    """Solve by both methods, compare with the controllers, write numbers, plot and animation."""
    pd = controlled()
    largest = np.max(np.abs(pd.torques), axis=0)
    problem = task(largest)
    # The controllers' torques, averaged over each step.
    guess = jnp.asarray(pd.torques.reshape(STEPS, -1, 6).mean(axis=1))
    found = _control.by_ilqr(problem, guess, penalty=1e4)
    # The controllers' motion at the ends of steps. Where torques are guessed too, whose sizes
    # differ by a factor of 25 000, the search takes short steps.
    states = lie_jax.State(jnp.asarray(pd.angles[::FINE]), jnp.asarray(pd.rates[::FINE]))
    again = _control.by_nodes(problem, STEPS, control.Guess(states=states))
    result = _control.checked(problem, found, again)
    motions = {"least effort": driven(problem, found.inputs), "PD": pd}
    balances = {name: balance(motion, largest) for name, motion in motions.items()}
    _table(balances)
    # From rest to rest the motors' work is what the weights gain.
    heights = jax.jit(jax.vmap(problem.system.potential_energy))(
        found.trajectory.q[jnp.array([0, -1])]
    )
    result |= {"motions": balances, "potential_gained_J": float(heights[1] - heights[0])}
    print(f"the links' potential energy grows by {result['potential_gained_J']:.4f} J")
    _report.write_json(folder / "results.json", result)
    _plot(folder / "puma.png", motions, largest, (found, again))
    # One frame for each step.
    viz.video(folder / "puma.gif", (problem.system, found.trajectory), speed=0.4)
