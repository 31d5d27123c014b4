"""A quadrotor turns over once and is back where it hovered, with the least effort.

The attitude at the end is that at the start, so that no condition at the end asks for a turn:
hovering meets them all. A loop of attitudes with one full turn cannot be changed bit by bit into
one without, though: it is the first guess that turns, and the search keeps to its kind. The stored
quaternion tells the two kinds apart: it ends with the opposite sign.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import lie_jax
from experiments import _control, _plots, _report
from experiments._control import Task
from lie_jax import contact, control, viz
from models import quadrotor

DT = 0.02
STEPS = 40
# Limits of each thrust in hover thrusts.
LARGEST = 2.0
# Time of the turn in the first guess, s.
TURN = 0.4


def task() -> Task:
    """From hover to hover in the same place and attitude; the cost is in hover thrusts squared."""
    system, state = quadrotor.build()
    hover = quadrotor.hover_thrusts()

    def running(t, q, v, u):
        return jnp.sum((u / hover - 1.0) ** 2)

    def end(q, v):
        return jnp.concatenate([system.space.inverse_retract(state.q, q), v])

    return Task(system, state, DT, running, end, (0.0, LARGEST * float(hover[0])))


def guess() -> Array:
    """Hover, but for thrusts on the axis y that turn about x and stop it again."""
    half = round(0.5 * TURN / DT)
    middle = STEPS // 2
    # A constant angular acceleration for half a turn, and its opposite.
    push = quadrotor.INERTIA[0] * 2.0 * np.pi / (half * DT) ** 2 / (2.0 * quadrotor.ARM)
    thrusts = np.tile(np.asarray(quadrotor.hover_thrusts()), (STEPS, 1))
    thrusts[middle - half : middle, [1, 3]] += [push, -push]
    thrusts[middle : middle + half, [1, 3]] -= [push, -push]
    return jnp.asarray(np.clip(thrusts, 0.0, task().limits[1]))


def turn(system: lie_jax.extend.AbstractSystem, trajectory: lie_jax.Trajectory) -> Array:
    """Angle (instants,) about the body axis x that has been turned through, rad."""
    relative = jax.vmap(system.space.inverse_retract)(trajectory.q[:-1], trajectory.q[1:])
    return jnp.concatenate([jnp.zeros(1), jnp.cumsum(relative[:, 3])])


def _plot(path: Path, problem: Task, solution: control.Solution, other: control.Optimum) -> None:
    figure, (path_axes, input_axes, turn_axes, search_axes) = _control.figure(
        "Flip of a quadrotor with the least effort"
    )
    position = np.asarray(solution.trajectory.q)[:, :3]
    times = DT * np.arange(STEPS + 1)
    path_axes.plot(position[:, 1], position[:, 2], ".-", ms=3)
    path_axes.set(xlabel="y / m", ylabel="z / m", aspect="equal", title="path, seen along x")
    thrusts = np.asarray(solution.inputs) / float(quadrotor.hover_thrusts()[0])
    _control.stairs(
        input_axes, thrusts, DT, dict(enumerate(("0, front", "1, left", "2, behind", "3, right")))
    )
    input_axes.axhline(LARGEST, color=_plots.BLACK, ls=":")
    input_axes.set(xlabel="t / s", ylabel="thrust / hover", title="inputs")
    input_axes.legend(fontsize=8)
    turned = np.rad2deg(turn(problem.system, solution.trajectory))
    turn_axes.plot(times, turned)
    turn_axes.set(xlabel="t / s", ylabel="turn about x / °", title="attitude")
    _control.history(search_axes, solution, other)
    _plots.save(figure, path)


def shapes() -> list[contact.Capsule]:
    """The quadrotor in its GIF: two arms, and a mast that shows where up is."""
    arms = quadrotor.ARM * quadrotor.DIRECTIONS
    lines = *arms.reshape(2, 2, 3).transpose(1, 0, 2), np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.08]])
    return [contact.Capsule(quadrotor.BODY, 0.01, start, end) for start, end in lines]


def main(folder: Path) -> None:
    """Solve by both methods, compare, write numbers, plot and animation."""
    problem = task()
    found = _control.by_ilqr(problem, guess(), penalty=1e3)
    again = _control.by_nodes(problem, STEPS, control.Guess(inputs=guess()))
    result = _control.checked(problem, found, again)
    trajectory, other = found.trajectory, _control.run(problem, again.inputs)
    hover = float(quadrotor.hover_thrusts()[0])
    result |= {
        "turn_rad": float(turn(problem.system, trajectory)[-1]),
        "turn_of_the_other_rad": float(turn(problem.system, other)[-1]),
        "quaternion_at_the_end": trajectory.q[-1, 3:].tolist(),
        "highest_m": float(jnp.max(trajectory.q[:, 2])),
        "aside_m": float(jnp.max(jnp.abs(trajectory.q[:, 1]))),
        "out_of_plane_m": float(jnp.max(jnp.abs(trajectory.q[:, 0]))),
        "largest_rate_rad_s": float(jnp.max(jnp.abs(trajectory.v[:, 3]))),
        "smallest_thrust": float(jnp.min(found.inputs)) / hover,
        "largest_thrust": float(jnp.max(found.inputs)) / hover,
        "at_a_limit": int(jnp.sum((found.inputs <= 0.0) | (found.inputs >= problem.limits[1]))),
    }
    print(
        f"turn {np.rad2deg(result['turn_rad']):.6f}°, up to {result['highest_m']:.3f} m up and "
        f"{result['aside_m']:.3f} m aside, {result['largest_rate_rad_s']:.1f} rad/s; thrusts "
        f"{result['smallest_thrust']:.2f} to {result['largest_thrust']:.2f} of hover, "
        f"{result['at_a_limit']} of {found.inputs.size} at a limit"
    )
    _report.write_json(folder / "results.json", result)
    _plot(folder / "flip.png", problem, found, again)
    # One frame for each step.
    viz.video(folder / "flip.gif", (problem.system, trajectory), speed=0.4, shapes=shapes())
