"""Free rigid body of [S2] Sect. 6: unified velocities against quaternions, Figs. 8 to 13."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from experiments import _plots, _report
from lie_jax.groups import quaternion, so3
from lie_jax.numerics import small
from models import free_body

METHODS = {
    # What the paper compares with: Munthe-Kaas on unit quaternions, angular velocities.
    "quaternions": lie_jax.R3SO3(),
    "hexahedron": lie_jax.UnifiedVelocity(),
    "tetrahedron": lie_jax.UnifiedVelocity(*lie_jax.groups.unified_velocity.tetrahedron()),
}
STYLES = {"quaternions": "-", "hexahedron": "--", "tetrahedron": ":"}
# [S2] shows Figs. 8 to 11 for 1e-4 s, and takes the results for 1e-5 s as converged.
SHOWN, CONVERGED = 10_000, 100_000
STEP_COUNTS = (100, 200, 500, 1_000, 2_000, 5_000, SHOWN, 50_000)
# By then the body has turned over once, and rounding has not been amplified yet.
ONE_TURN = 0.25


class Motion(NamedTuple):
    """At every step of 1 s: t (n,), observed point (n, 3), ω (n, 3), quaternion (n, 4), R."""

    t: np.ndarray
    point: np.ndarray
    omega: np.ndarray
    quaternion: np.ndarray
    rotation: np.ndarray

    def omega_error(self, t: float, expected) -> float:
        """Norm of ω - expected at time t, rad/s."""
        index = round(t * (len(self.t) - 1))
        return float(np.linalg.norm(self.omega[index] - np.asarray(expected)))


def motion(name: str, steps: int) -> Motion:
    """RKMK4 with this many steps."""
    system, state = free_body.build(METHODS[name])
    trajectory = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1.0 / steps, steps=steps)

    @jax.jit
    @jax.vmap
    def observe(q, v):
        point, omega = free_body.observed_point(system, q), free_body.omega_body(system, q, v)
        return point, omega, q[3:], system.poses(q)[0][0]

    seen = observe(trajectory.q, trajectory.v)
    return Motion(np.asarray(trajectory.t), *(np.asarray(x) for x in seen))


@jax.jit
def _products(p):
    """Rotations (n, 3, 3) from the turns of the steps multiplied up: matrices, quaternions."""
    turns = jax.vmap(quaternion.multiply)(jax.vmap(quaternion.conjugate)(p[:-1]), p[1:])

    def step(carry, turn):
        matrix, q = carry
        x = quaternion.log(turn)
        matrix = small.matmul(matrix, so3.exp(x))
        q = quaternion.multiply(q, quaternion.exp(x))
        return (matrix, q), (matrix, quaternion.to_matrix(q))

    return jax.lax.scan(step, (quaternion.to_matrix(p[0]), p[0]), turns)[1]


def determinants(run: Motion) -> dict[str, np.ndarray]:
    """Deviation det R - 1 after each step, for three ways to keep an orientation.

    "stored": as `lie_jax` does, unit quaternions put back on the sphere after each step;
    "matrices": a product of matrices, as the paper's unified velocities are integrated;
    "quaternions": a product of quaternions, as its method to compare with.
    """
    rotations = (run.rotation[1:], *_products(jnp.asarray(run.quaternion)))
    names = ("stored", "matrices", "quaternions")
    return {
        name: np.linalg.det(np.asarray(r)) - 1.0 for name, r in zip(names, rotations, strict=True)
    }


def measure() -> tuple[dict, dict[str, Motion]]:
    """Numbers of the figures, and the motions for 1e-4 s."""
    truth = free_body.REFERENCE
    h = np.asarray([1.0 / n for n in STEP_COUNTS])
    methods, shown = {}, {}
    for name in METHODS:
        converged = motion(name, CONVERGED)
        runs = [motion(name, n) for n in STEP_COUNTS]
        shown[name] = runs[STEP_COUNTS.index(SHOWN)]
        against = {
            "omega_minus_converged": (1.0, converged.omega[-1]),
            "omega_error": (1.0, truth[1.0][1]),
            "omega_error_after_one_turn": (ONE_TURN, truth[ONE_TURN][1]),
        }
        errors = {key: [r.omega_error(*at) for r in runs] for key, at in against.items()}
        orders = np.diff(np.log(errors["omega_error_after_one_turn"])) / np.diff(np.log(h))
        drifts = [determinants(run) for run in runs]
        methods[name] = errors | {
            "order_after_one_turn": orders.tolist(),
            "converged_omega_error": converged.omega_error(1.0, truth[1.0][1]),
            "point_error_m": {
                t: float(np.linalg.norm(shown[name].point[round(t * SHOWN)] - point))
                for t, (point, _) in truth.items()
            },
            "largest_determinant_error": {
                key: [float(np.abs(run[key]).max()) for run in drifts] for key in drifts[0]
            },
        }
    first = shown["quaternions"]
    return {
        "h": h.tolist(),
        "methods": methods,
        "point_minus_quaternions_m": {
            name: {
                "after one turn": float(np.abs(run.point - first.point)[run.t <= ONE_TURN].max()),
                "after 1 s": float(np.abs(run.point - first.point).max()),
            }
            for name, run in shown.items()
        },
    }, shown


def _print(results: dict) -> None:
    print("error of ω (rad/s) after one turn (0.25 s), order; after 1 s; against h = 1e-5 s")
    for name, case in results["methods"].items():
        print(f"\n{name}; h = 1e-5 s errs by {case['converged_omega_error']:.1e} after 1 s")
        for row in zip(
            results["h"],
            case["omega_error_after_one_turn"],
            [float("nan"), *case["order_after_one_turn"]],
            case["omega_error"],
            case["omega_minus_converged"],
            strict=True,
        ):
            print("  h = {:.0e}  {:8.1e}  {:5.2f}  {:8.1e}  {:8.1e}".format(*row))


def plot_motions(shown: dict[str, Motion], folder: Path) -> None:
    """Figs. 8 to 10: the observed point in space and against time, angular velocities."""
    figure = plt.figure(figsize=(5.2, 5.2))
    axis = figure.add_subplot(projection="3d")
    for name, run in shown.items():
        axis.plot(*run.point.T, STYLES[name], label=name, linewidth=0.7)
    ticks = (-1.0, 0.0, 1.0)
    axis.set(xlabel="x (m)", ylabel="y (m)", zlabel="z (m)", box_aspect=(1, 1, 1))
    axis.set(xticks=ticks, yticks=ticks, zticks=ticks)
    axis.set_title("Fig. 8: path of the point (0, 0, 1)")
    axis.legend(loc="upper left", fontsize=8)
    _plots.save(figure, folder / "path.png")
    for number, field, labels, unit in (
        (9, "point", "xyz", "m"),
        (10, "omega", ("Ω₁", "Ω₂", "Ω₃"), "rad/s"),
    ):
        figure, axes = plt.subplots(3, 1, sharex=True, figsize=(6.5, 5.6))
        for i, (axis, label) in enumerate(zip(axes, labels, strict=True)):
            for name, run in shown.items():
                axis.plot(run.t, getattr(run, field)[:, i], STYLES[name], label=name, linewidth=1.2)
            axis.set(ylabel=f"{label} ({unit})", xlim=(0.0, 1.0))
        what = "components of the point" if number == 9 else "body-fixed angular velocity"
        axes[0].set_title(f"Fig. {number}: {what}, h = 1e-4 s")
        axes[-1].set_xlabel("t (s)")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        _plots.save(figure, folder / f"{field}.png")


# How each curve of Figs. 11 and 13 keeps the orientation, and the run that it is of.
_DETERMINANTS = {
    "quaternions multiplied up": ("quaternions", "quaternions"),
    "unified velocities, matrices multiplied up": ("hexahedron", "matrices"),
    "unified velocities, as stored by lie_jax": ("hexahedron", "stored"),
}


def plot_determinants(results: dict, shown: dict[str, Motion], folder: Path) -> None:
    """Figs. 11 and 13: determinant of the rotation matrix against time and against step size."""
    figure, axis = plt.subplots(figsize=(6.5, 4.4))
    for label, (name, storage) in _DETERMINANTS.items():
        run = shown[name]
        axis.plot(run.t[1:], determinants(run)[storage], label=label, linewidth=0.8)
    axis.set(xlabel="t (s)", ylabel="det R - 1", xlim=(0.0, 1.0))
    axis.set_title("Fig. 11: determinant of the rotation matrix, h = 1e-4 s")
    figure.legend(loc="outside lower center")
    _plots.save(figure, folder / "determinant.png")

    figure, axis = plt.subplots(figsize=(6.5, 4.4))
    for (label, (name, storage)), marker in zip(_DETERMINANTS.items(), "ovs", strict=True):
        error = results["methods"][name]["largest_determinant_error"][storage]
        axis.loglog(results["h"], error, marker=marker, label=label)
    axis.set(xlabel="step size h (s)", ylabel="largest |det R - 1| within 1 s")
    axis.set_title("Fig. 13: determinant against step size")
    figure.legend(loc="outside lower center")
    _plots.save(figure, folder / "determinant_steps.png")


def plot_convergence(results: dict, path: Path) -> None:
    """Fig. 12: error of the angular velocity against the step size, after 1 s and one turn."""
    figure, axes = plt.subplots(1, 2, sharey=True, figsize=(8.5, 4.4))
    for axis, key, title in (
        (axes[0], "omega_minus_converged", "Fig. 12: after 1 s, against h = 1e-5 s"),
        (axes[1], "omega_error_after_one_turn", "after one turn (0.25 s), true error"),
    ):
        for (name, case), marker in zip(results["methods"].items(), "ovs", strict=True):
            axis.loglog(results["h"], case[key], STYLES[name], marker=marker, label=name)
        steps = np.asarray([5e-3, 5e-4])
        line = 1.5 * (steps / steps[0]) ** 4
        axis.loglog(steps, line, ":", color=_plots.BLACK, linewidth=0.8)
        axis.annotate("order 4", (steps[1], line[1]), fontsize=8, ha="right", va="bottom")
        axis.set(xlabel="step size h (s)", title=title)
    axes[0].set_ylabel("error of Ω (rad/s)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    _plots.save(figure, path)


def main(folder: Path) -> None:
    """Measure, print a table, write numbers and plots."""
    results, shown = measure()
    _print(results)
    plot_motions(shown, folder)
    plot_determinants(results, shown, folder)
    plot_convergence(results, folder / "convergence.png")
    _report.write_json(folder / "results.json", results)
