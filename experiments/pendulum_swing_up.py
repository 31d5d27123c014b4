"""A spherical double pendulum swings up with torques that could not lift it.

The shoulder's torques are limited to a fraction of what holds the pendulum level, and those of the
elbow to a fraction of what holds the lower link level. The first guess lifts the pendulum as one
stiff rod with the torques that this takes; the limits then come down in a row of problems, each of
which starts from the one before.
"""

import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from experiments import _animate, _control, _plots
from experiments._control import Task
from lie_jax import control
from models import double_pendulum

DURATION = 2.4
STEPS = 60
DT = DURATION / STEPS
# Limits of the shoulder's and the elbow's torques about the axes x and y of the world, N m.
LIMITS = ((100.0, 100.0), (12.0, 2.0), (10.0, 1.5), (9.0, 1.2))
# Torques that count alike in the cost: about x and y in the shoulder, in the elbow, N m.
SIZES = (10.0, 8.0, 2.0, 1.6)
# Bodies of revolution, so that none of them spins as long as the motion stays in a plane.
INERTIA = (np.diag([0.3, 0.3, 0.05]), np.diag([0.1, 0.1, 0.02]))
# The vertical plane of the first guess, from the x axis: along no axis of a link or of the limits.
PLANE = 0.3
PENALTY = 1e7
ITERATIONS = 300
NODES = 6
FRAME = 1


def task(limits: tuple[float, float]) -> Task:
    """From hanging to standing, at rest; the links may have turned about the vertical."""
    forces = []
    for k, axis in enumerate(np.eye(3)[:2]):
        forces += [
            lie_jax.Torque("link 0", axis, input=k),
            # In the elbow: on the lower link, and its opposite on the upper one.
            lie_jax.Torque("link 1", axis, input=2 + k),
            lie_jax.Torque("link 0", -axis, input=2 + k),
        ]
    system, state = double_pendulum.build(
        lie_jax.Minimal(),
        inertia=jnp.asarray(INERTIA),
        orientation=((1.0, 0.0, 0.0, 0.0),) * 2,
        omega_body=np.zeros((2, 3)),
        forces=forces,
    )
    sizes, largest = np.asarray(SIZES), np.repeat(limits, 2)

    def running(t, q, v, u):
        return jnp.sum((u / jnp.asarray(sizes)) ** 2)

    def end(q, v):
        # What spin about its own axis is left to a link is free.
        rates = v.reshape(2, 3)[:, :2]
        return jnp.concatenate([_from_upright(directions(system, q)), rates]).reshape(-1)

    return Task(system, state, DT, running, end, (-largest, largest))


def directions(system: lie_jax.AbstractSystem, q: Float[Array, " nq"]) -> Float[Array, "2 3"]:
    """Unit vectors along the links, away from the joint above."""
    return -system.poses(q)[0][:, :, 2]


# Hanging would be infinitely far; this makes it far.
_FAR = 1e-4


def _from_upright(direction: Float[Array, "2 3"]) -> Float[Array, "2 2"]:
    # Stereographic, from the point below: horizontal components alone vanish there, too.
    return 2.0 * direction[:, :2] / (1.0 + _FAR + direction[:, 2:])


class Guess(NamedTuple):
    """Inputs (steps, 4), N m, and states before and after all steps."""

    inputs: Array
    states: lie_jax.State


def guess(problem: Task) -> Guess:
    """The pendulum turned as one stiff rod in a vertical plane, and the torques that this takes."""
    axis = jnp.asarray([np.cos(PLANE), np.sin(PLANE), 0.0])
    system = problem.system

    def angle(t):
        s = t / DURATION
        return jnp.pi * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)

    def moving(t):
        turned, rate = jax.jvp(angle, (t,), (jnp.ones_like(t),))
        q = jnp.concatenate([lie_jax.quaternion.exp(turned * axis), problem.state.q[4:]])
        return lie_jax.State(q, jnp.concatenate([rate * axis, jnp.zeros(3)]))

    def torques(t):
        state = moving(t)
        acceleration = jnp.concatenate([jax.grad(jax.grad(angle))(t) * axis, jnp.zeros(3)])
        none = jnp.zeros(4)
        needed = system.residual(t, state.q, state.v, acceleration, jnp.zeros(0), none)
        # All but what would stop the links from turning about themselves.
        slope = jax.jacfwd(lambda u: system.force(t, state.q, state.v, u))(none)
        return jnp.linalg.lstsq(slope, needed)[0]

    times = DT * jnp.arange(STEPS + 1)
    inputs, states = jax.jit(lambda t: (jax.vmap(torques)(t[:-1] + 0.5 * DT), jax.vmap(moving)(t)))(
        times
    )
    return Guess(inputs, states)


def descend() -> tuple[Task, control.Solution, list[dict]]:
    """Problems with smaller and smaller limits: the last one, its solution, and numbers of all."""
    problem = task(LIMITS[0])
    inputs, rows, solution = guess(problem), [], None
    for limits in LIMITS:
        largest = np.repeat(limits, 2)
        problem = problem._replace(limits=(-largest, largest))
        inputs = jnp.clip(inputs, -largest, largest)
        solution = _control.by_ilqr(problem, inputs, penalty=PENALTY, max_iterations=ITERATIONS)
        inputs = solution.inputs
        rows.append({"limits_N_m": limits} | _control.numbers(solution))
        print(
            f"limits {limits[0]:5.1f} and {limits[1]:5.1f} N m: cost {rows[-1]['cost']:.6f}, "
            f"gradient {rows[-1]['gradient_norm']:.1e}, end {rows[-1]['violation']:.1e} after "
            f"{rows[-1]['iterations']} iterations",
            flush=True,
        )
    assert solution is not None
    return problem, solution, rows


# Lengths of the links, m; the lower one is drawn with the centre of mass in its middle.
_LENGTHS = (1.0, 0.8)


def ends(system: lie_jax.AbstractSystem, trajectory: lie_jax.Trajectory) -> np.ndarray:
    """Positions (instants, 2, 3) of the elbow and of the lower link's end, m."""
    along = jax.jit(jax.vmap(lambda q: directions(system, q)))(trajectory.q)
    return np.cumsum(np.asarray(along) * np.reshape(_LENGTHS, (2, 1)), axis=1)


def holding() -> tuple[float, float]:
    """Least torques (N m) in the shoulder that hold the upper link level, with the lower one
    hanging, and in the elbow that hold the lower one level.
    """
    weight = -double_pendulum.GRAVITY[2] * np.asarray(double_pendulum.MASS)
    centers = -np.asarray(double_pendulum.CENTER_OF_MASS)[:, 2]
    length = -double_pendulum.SECOND_JOINT[2]
    return float(weight @ [centers[0], length]), float(weight[1] * centers[1])


def _plot(path: Path, places: np.ndarray, solutions: dict[str, control.Solution]) -> None:
    figure, (height_axes, top_axes, input_axes, search_axes) = _control.figure(
        "Swing-up of the spherical double pendulum with the least effort"
    )
    times = DT * np.arange(STEPS + 1)
    for i, name in enumerate(("elbow", "end of the lower link")):
        height_axes.plot(times, places[:, i, 2], label=name)
        top_axes.plot(places[:, i, 0], places[:, i, 1], label=name)
    height_axes.set(xlabel="t / s", ylabel="z / m", title="height over the shoulder")
    height_axes.legend(fontsize=8)
    top_axes.set(xlabel="x / m", ylabel="y / m", title="seen from above", aspect="equal")
    inputs = np.asarray(solutions["iLQR"].inputs) / np.repeat(LIMITS[-1], 2)
    names = [f"{joint}, {axis}" for joint in ("shoulder", "elbow") for axis in "xy"]
    _control.stairs(input_axes, inputs, DT, dict(enumerate(names)))
    input_axes.set(xlabel="t / s", ylabel="torque / limit", title="inputs")
    input_axes.legend(fontsize=7, ncols=2)
    _control.history(search_axes, solutions)
    _plots.save(figure, path)


def main(folder: Path) -> None:
    """Lower the limits, check by the other method, write numbers, plot and animation."""
    problem, found, rows = descend()
    # From near the optimum: from far away another one is found, or none.
    again = _control.by_shooting(problem, _control.shaken(problem, found.inputs), NODES)
    names = ("iLQR", "multiple shooting")
    result = _control.checked(problem, found, again, names)
    trajectory = found.trajectory
    places = ends(problem.system, trajectory)
    upright = directions(problem.system, trajectory.q[-1])
    largest = problem.limits[1]
    # About a horizontal axis both components count.
    ratios = np.sqrt(2.0) * np.asarray(LIMITS[-1]) / holding()
    # Singular values of the elbow's path seen from above: how far it leaves its plane.
    spread = np.linalg.svd(places[:, 1, :2] - places[0, 1, :2], compute_uv=False)
    result |= {
        "continuation": rows,
        "limits_over_holding": ratios.tolist(),
        "tilt_at_the_end_rad": float(jnp.max(jnp.linalg.norm(upright[:, :2], axis=1))),
        "rates_at_the_end_rad_s": float(jnp.max(jnp.abs(trajectory.v[-1]))),
        "largest_rate_rad_s": float(jnp.max(jnp.abs(trajectory.v))),
        "out_of_plane": float(spread[1] / spread[0]),
        "at_a_limit": int(jnp.sum(jnp.abs(found.inputs) >= largest * (1.0 - 1e-12))),
    }
    print(
        f"limits over what holds the links level: {ratios[0]:.2f} shoulder, {ratios[1]:.2f} elbow; "
        f"{result['at_a_limit']} of {found.inputs.size} inputs at a limit; tilt at the end "
        f"{result['tilt_at_the_end_rad']:.1e} rad"
    )
    (folder / "results.json").write_text(json.dumps(result, indent=2) + "\n")
    _plot(folder / "swing_up.png", places, dict(zip(names, (found, again), strict=True)))
    moving = [
        np.stack([np.zeros_like(places[:, 0]), places[:, 0]], axis=1)[::FRAME], places[::FRAME]
    ]  # fmt: skip
    _animate.lines(
        folder / "swing_up.gif", moving, "Swing-up, the least effort", ground=np.zeros((1, 3))
    )
