"""A spherical double pendulum swings up until it stands with the least effort.

Both ball joints have a torque about each axis. The pendulum comes through its lowest position on a
swing in one plane and has to stand at rest, turned over in the plane at right angles to it.
It is unstable at its end and far from linear: iLQR needs the second derivatives of the steps.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from experiments import _control, _plots, _report
from experiments._control import Task
from lie_jax import control, viz
from lie_jax.groups import quaternion
from models import double_pendulum

DURATION = 1.5
STEPS = 100
DT = DURATION / STEPS
# Torques that count alike in the cost, about the axes x, y, z of the world: shoulder, elbow, N m.
# Different ones about x and y leave no plane of the swing as good as any other.
SIZES = (10.0, 6.0, 10.0, 2.0, 1.2, 2.0)
# About the y axis at the start, rad/s; the end is half a turn about the x axis away.
SWING = 1.0
PENALTY = 1e6
# The inputs from which the second method starts differ by this part of the largest.
SHAKEN = 0.02


def task() -> Task:
    """From the lowest position of a swing to standing at rest."""
    forces = []
    for k, axis in enumerate(np.eye(3)):
        forces += [
            lie_jax.Torque("link 0", axis, input=k),
            # In the elbow: on the lower link, and its opposite on the upper one.
            lie_jax.Torque("link 1", axis, input=3 + k),
            lie_jax.Torque("link 0", -axis, input=3 + k),
        ]
    system, state = double_pendulum.build(
        lie_jax.Minimal(),
        orientation=((1.0, 0.0, 0.0, 0.0),) * 2,
        omega_body=((0.0, SWING, 0.0),) * 2,
        forces=forces,
    )
    sizes, standing = np.asarray(SIZES), lifted(jnp.asarray(DURATION))

    def running(t, q, v, u):
        return jnp.sum((u / jnp.asarray(sizes)) ** 2)

    def end(q, v):
        # Twice the vector part: the rotation vector to first order, and smooth everywhere.
        turns = jax.vmap(lambda a, b: quaternion.multiply(quaternion.conjugate(a), b))(
            standing.reshape(2, 4), q.reshape(2, 4)
        )
        return jnp.concatenate([2.0 * turns[:, 1:].reshape(-1), v])

    return Task(system, state, DT, running, end)


def lifted(t: Float[Array, ""]) -> Float[Array, "8"]:
    """Configurations of a stiff pendulum that leaves the swing and stands up."""
    s = t / DURATION
    up = jnp.pi * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    aside = SWING * t * (1.0 - s) ** 3
    x, y = jnp.eye(3)[:2]
    upper = quaternion.multiply(quaternion.exp(aside * y), quaternion.exp(up * x))
    return jnp.concatenate([upper, jnp.asarray([1.0, 0.0, 0.0, 0.0])])


def guess(problem: Task) -> Array:
    """The torques (steps, 6) of that motion, in the middle of steps."""
    system = problem.system

    def velocity(t):
        q, rate = jax.jvp(lifted, (t,), (jnp.ones_like(t),))
        omega = 2.0 * quaternion.multiply(quaternion.conjugate(q[:4]), rate[:4])[1:]
        return jnp.concatenate([omega, jnp.zeros(3)])

    def torques(t):
        q, v, acceleration = lifted(t), velocity(t), jax.jacfwd(velocity)(t)
        needed = system.residual(t, q, v, acceleration, jnp.zeros(0), jnp.zeros(6))
        slope = jax.jacfwd(lambda u: system.force(t, q, v, u))(jnp.zeros(6))
        return jnp.linalg.solve(slope, needed)

    return jax.jit(jax.vmap(torques))(DT * (jnp.arange(STEPS) + 0.5))


# Lengths of the links, m; the lower one is drawn with the centre of mass in its middle.
_LENGTHS = (1.0, 0.8)


def ends(
    system: lie_jax.extend.AbstractMultibodySystem, trajectory: lie_jax.Trajectory
) -> np.ndarray:
    """Positions (instants, 2, 3) of the elbow and of the lower link's end, m."""
    along = -jax.jit(jax.vmap(lambda q: system.poses(q)[0][:, :, 2]))(trajectory.q)
    return np.cumsum(np.asarray(along) * np.reshape(_LENGTHS, (2, 1)), axis=1)


def holding() -> float:
    """Torque in the shoulder that holds the straight pendulum level, N m."""
    weight = -double_pendulum.GRAVITY[2] * np.asarray(double_pendulum.MASS)
    centers = -np.asarray(double_pendulum.CENTER_OF_MASS)[:, 2]
    centers[1] -= double_pendulum.SECOND_JOINT[2]
    return float(weight @ centers)


def _plot(
    path: Path, places: np.ndarray, solution: control.Solution, other: control.Optimum
) -> None:
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
    names = [f"{joint}, {axis}" for joint in ("shoulder", "elbow") for axis in "xyz"]
    _control.stairs(input_axes, np.asarray(solution.inputs), DT, dict(enumerate(names)))
    input_axes.set(xlabel="t / s", ylabel="torque / N m", title="inputs")
    input_axes.legend(fontsize=7, ncols=2)
    _control.history(search_axes, solution, other)
    _plots.save(figure, path)


def main(folder: Path) -> None:
    """Solve by both methods, compare, write numbers, plot and animation."""
    problem = task()
    start = guess(problem)
    found = _control.by_ilqr(problem, start, penalty=PENALTY, second_order=True)
    # From near the optimum: from the stiff lift another one is found. States are those of the first
    # method: open loop, the change of the inputs leads far away.
    noise = np.random.default_rng(0).standard_normal(found.inputs.shape)
    size = np.max(np.abs(found.inputs), axis=0)
    states = lie_jax.State(found.trajectory.q, found.trajectory.v)
    shaken = control.Guess(inputs=found.inputs + SHAKEN * size * noise, states=states)
    again = _control.by_nodes(problem, STEPS, shaken)
    result = _control.checked(problem, found, again)
    trajectory = found.trajectory
    places = ends(problem.system, trajectory)
    shoulder, elbow = (np.linalg.norm(found.inputs[:, k : k + 3], axis=1) for k in (0, 3))

    def effort(inputs):
        return float(DT * jnp.sum((inputs / jnp.asarray(SIZES)) ** 2))

    # Singular values of the lower end's path: how far it leaves its plane.
    spread = np.linalg.svd(places[:, 1] - np.mean(places[:, 1], axis=0), compute_uv=False)
    result |= {
        "effort_of_the_stiff_lift": effort(start),
        "largest_torques_N_m": [float(np.max(shoulder)), float(np.max(elbow))],
        "holding_N_m": holding(),
        "largest_rate_rad_s": float(jnp.max(jnp.abs(trajectory.v))),
        "out_of_plane": float(spread[2] / spread[1]),
        "end": np.asarray(problem.end(trajectory.q[-1], trajectory.v[-1])).tolist(),
    }
    print(
        f"{result['methods']['iLQR']['cost'] / effort(start):.3f} of the effort of the stiff lift; "
        f"torques up to {np.max(shoulder):.1f} N m in the shoulder ({holding():.1f} N m hold the "
        f"straight pendulum level) and {np.max(elbow):.1f} N m in the elbow; rates up to "
        f"{result['largest_rate_rad_s']:.1f} rad/s; out of plane {result['out_of_plane']:.2f}"
    )
    _report.write_json(folder / "results.json", result)
    _plot(folder / "swing_up.png", places, found, again)
    # One frame for each step.
    viz.video(folder / "swing_up.gif", (problem.system, trajectory), speed=0.3)
