"""The main job: identify a body from a recording, predict what it did next, check the simulator."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array

import lie_jax
from experiments import _plots, _report
from lie_jax import viz
from lie_jax.estimation import transforms
from lie_jax.mechanics.body import inertia_about_origin
from models import heavy_top, pinned_body

# The recording has 200 samples a second; two steps of RKMK4 between samples keep the error of
# integration below 0.01 mm, a fiftieth of the markers' noise.
STEPS_PER_SAMPLE = 2
FITTED_SECONDS = 2.25
# Numbers of samples of the growing horizon: 0.05, 0.15, 0.3, 0.75 s, then all.
HORIZONS = (11, 31, 61, 151)
SLOW_MOTION = 0.25

Parameters = dict[str, Any]
TRANSFORMS = {
    "center_of_mass": transforms.free,
    "inertia": transforms.inertia,
    "friction": transforms.positive,
    "orientation": transforms.orientation,
    "omega_body": transforms.free,
}
NOISE = pinned_body.Observations(
    jnp.asarray(pinned_body.MARKER_NOISE), jnp.asarray(pinned_body.GYRO_NOISE)
)


def start_values(observations: pinned_body.Observations) -> Parameters:
    """A crude guess: a ball of 0.2 m radius, and what the first sample shows of the motion."""
    radius = 0.2
    return {
        "center_of_mass": jnp.asarray([0.0, 0.0, radius]),
        "inertia": 0.4 * pinned_body.MASS * radius**2 * jnp.eye(3),
        "friction": jnp.asarray(0.01),
        "orientation": _orientation_of_markers(observations.markers[0]),
        "omega_body": observations.gyro[0],
    }


def _orientation_of_markers(markers: Array) -> Array:
    """Quaternion of the frame that two markers and the joint span."""

    def frame(a, b):
        x = a / jnp.linalg.norm(a)
        z = jnp.cross(a, b)
        z = z / jnp.linalg.norm(z)
        return jnp.stack([x, jnp.cross(z, x), z], axis=1)

    body = frame(*jnp.asarray(pinned_body.MARKERS))
    return lie_jax.groups.quaternion.from_matrix(frame(markers[:3], markers[3:]) @ body.T)


def predict(parameters: Parameters, dt: float, samples: int) -> pinned_body.Observations:
    """Readings of markers and gyro at so many samples, `STEPS_PER_SAMPLE` steps of dt apart."""
    system, state = pinned_body.build(**parameters)
    trajectory = lie_jax.simulate(
        system,
        lie_jax.RKMK("rk4"),
        state,
        dt=dt,
        steps=(samples - 1) * STEPS_PER_SAMPLE,
        save=STEPS_PER_SAMPLE,
        throw=False,
    )
    return pinned_body.observe(system, trajectory)


def fit(
    start: Parameters, observations: pinned_body.Observations, dt: float, progress: bool = True
) -> lie_jax.estimation.Identification:
    """Identify the body from observations."""
    samples = len(observations.markers)
    return lie_jax.estimation.identify(
        lambda parameters: predict(parameters, dt, samples),
        start,
        observations,
        noise=NOISE,
        transforms=TRANSFORMS,
        horizons=(*(h for h in HORIZONS if h < samples), samples),
        progress=progress,
    )


def quantities(parameters: Parameters) -> Parameters:
    """The quantities that are asked for, from the fitted ones."""
    return {
        "center_of_mass": parameters["center_of_mass"],
        "inertia_about_pivot": inertia_about_origin(
            jnp.asarray(pinned_body.MASS), parameters["inertia"], parameters["center_of_mass"]
        ),
        "friction": parameters["friction"],
    }


def main(folder: Path) -> None:
    """Do the main job and write its files."""
    began = time.perf_counter()
    recording = pinned_body.read_recording()
    samples = int(np.sum(recording.t <= FITTED_SECONDS))
    dt = pinned_body.sample_interval(recording.t) / STEPS_PER_SAMPLE
    print(
        f"A body on a ball joint, recorded for {recording.t[-1]:g} s: {len(recording.t)} samples.\n"
        f"Fitting the first {FITTED_SECONDS:g} s ({samples} samples) over growing horizons ..."
    )
    known = jax.tree.map(lambda x: x[:samples], recording.observations)
    start = start_values(known)
    result = fit(start, known, dt)
    if not bool(result.converged):
        print("\nThe fit did NOT converge; what follows is where it stopped.")

    predicted = predict(result.estimates, dt, len(recording.t))
    error = np.asarray(predicted.markers - recording.observations.markers)[samples:]
    heldout_rms_mm = 1e3 * float(np.sqrt(np.mean(error**2)))
    estimates, errors = result.propagate(quantities)
    _print_identification(result, estimates, errors, quantities(start), heldout_rms_mm)
    tops = _heavy_top_errors()

    written = {name: np.asarray(value).tolist() for name, value in estimates.items()} | {
        "standard_errors": {name: np.asarray(value).tolist() for name, value in errors.items()},
        "heldout_rms_mm": heldout_rms_mm,
        "converged": bool(result.converged),
        "initial_orientation": np.asarray(result.estimates["orientation"]).tolist(),
        "initial_omega_body": np.asarray(result.estimates["omega_body"]).tolist(),
        "heavy_top_error_m": tops,
    }
    _report.write_json(folder / "estimates.json", written)
    _plot_markers(folder / "markers.png", recording, predicted, samples)
    _plot_residuals(folder / "residuals.png", recording, predicted, samples)
    _plot_convergence(folder / "convergence.png", result, recording)
    _write_scene(folder / "scene.html", result.estimates, dt, len(recording.t))
    print(
        f"\nWrote {folder}/estimates.json, markers.png, residuals.png, convergence.png, and the "
        f"body in motion, {folder}/scene.html, to be opened in a browser "
        f"({time.perf_counter() - began:.0f} s)."
    )


def _print_identification(result, estimates, errors, start, heldout_rms_mm) -> None:
    print(f"\n{'parameter':24}{'estimate':>14}{'std. error':>12}{'start':>12}  unit")

    def row(name, value, error, begin, unit):
        print(f"{name:24}{float(value):14.7f}{float(error):12.1e}{float(begin):12.4f}  {unit}")

    for i, axis in enumerate("xyz"):
        row(
            f"center of mass {axis}",
            *(d["center_of_mass"][i] for d in (estimates, errors, start)),
            unit="m",
        )
    for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)):
        row(
            f"inertia about pivot {'xyz'[i]}{'xyz'[j]}",
            *(d["inertia_about_pivot"][i, j] for d in (estimates, errors, start)),
            unit="kg m²",
        )
    row("friction", *(d["friction"] for d in (estimates, errors, start)), unit="N m s/rad")
    rms, correlation = result.statistics.rms, result.statistics.autocorrelation
    n = len(result.residuals.markers)
    strongest = max(float(jnp.max(jnp.abs(c))) for c in correlation)
    print(
        f"\nresiduals: markers {1e3 * _rms(rms.markers):.3f} mm (noise "
        f"{1e3 * pinned_body.MARKER_NOISE:g} mm), gyro {_rms(rms.gyro):.4f} rad/s (noise "
        f"{pinned_body.GYRO_NOISE:g} rad/s),\n  largest lag-1 autocorrelation {strongest:.3f} "
        f"(white noise: within {2 / np.sqrt(n):.3f} in 19 of 20 channels)"
        f"\nheld-out 0.75 s: markers {heldout_rms_mm:.3f} mm RMS"
    )


def _rms(channels: Array) -> float:
    return float(jnp.sqrt(jnp.mean(channels**2)))


def _heavy_top_errors() -> dict[str, float]:
    h, steps = 1e-4, 10000
    reference = np.asarray(heavy_top.REFERENCE[1.0])
    print(
        f"\nHeavy top of Holzinger, Arnold and Gerstmayr after 1 s with h = {h:g} s: error of the "
        "centre of mass"
    )
    cases: Sequence[tuple[str, lie_jax.RKMK | lie_jax.GeneralizedAlpha, bool]] = (
        ("RKMK4, free", lie_jax.RKMK("rk4"), False),
        ("generalized-α, free", lie_jax.GeneralizedAlpha(0.9), False),
        ("generalized-α, constrained", lie_jax.GeneralizedAlpha(0.9), True),
    )
    errors = {}
    for name, integrator, constrained in cases:
        system, state = heavy_top.build(constrained=constrained)
        trajectory = lie_jax.simulate(system, integrator, state, dt=h, steps=steps, save=steps)
        place = heavy_top.center_of_mass(system, trajectory.q[-1])
        errors[name] = float(np.linalg.norm(np.asarray(place) - reference))
        newton = float(jnp.mean(trajectory.stats.newton_iterations))
        counted = f", {newton:.2f} Newton iterations a step" if newton else ""
        print(f"  {name:28}{errors[name]:.2e} m{counted}")
    return errors


def _mark_heldout(axis, recording, samples) -> None:
    axis.axvspan(recording.t[samples], recording.t[-1], color="#eeeeee", zorder=0)


def _plot_markers(path: Path, recording, predicted, samples: int) -> None:
    figure, axes = plt.subplots(3, 2, figsize=(11, 7), sharex=True, sharey="row")
    for column, marker in enumerate("AB"):
        for row, component in enumerate("xyz"):
            axis, k = axes[row, column], 3 * column + row
            _mark_heldout(axis, recording, samples)
            axis.plot(
                recording.t,
                recording.observations.markers[:, k],
                ".",
                color=_plots.SKY,
                markersize=3,
                label="measured",
            )
            axis.plot(
                recording.t[:samples],
                predicted.markers[:samples, k],
                color=_plots.BLACK,
                linewidth=0.9,
                label="fitted",
            )
            axis.plot(
                recording.t[samples:],
                predicted.markers[samples:, k],
                color=_plots.RED,
                linewidth=1.1,
                label="predicted, not seen by the fit",
            )
            axis.set_ylabel(f"{component} (m)")
        axes[0, column].set_title(f"marker {marker}")
        axes[2, column].set_xlabel("time (s)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    _plots.save(figure, path)


def _plot_residuals(path: Path, recording, predicted, samples: int) -> None:
    figure, axes = plt.subplots(3, 2, figsize=(11, 7), width_ratios=(4, 1), sharey="row")
    residual = jax.tree.map(lambda a, b: np.asarray(a - b), recording.observations, predicted)
    rows = (
        ("marker A (mm)", 1e3 * residual.markers[:, :3], 1e3 * pinned_body.MARKER_NOISE),
        ("marker B (mm)", 1e3 * residual.markers[:, 3:], 1e3 * pinned_body.MARKER_NOISE),
        ("gyro (rad/s)", residual.gyro, pinned_body.GYRO_NOISE),
    )
    for (axis, histogram), (label, values, noise) in zip(axes, rows, strict=True):
        _mark_heldout(axis, recording, samples)
        for k, component in enumerate("xyz"):
            axis.plot(recording.t, values[:, k], ".", markersize=2.5, label=component)
        for level in (-2 * noise, 2 * noise):
            axis.axhline(level, color=_plots.BLACK, linewidth=0.7, linestyle="--")
        axis.set_ylabel(label)
        grid = np.linspace(-4 * noise, 4 * noise, 41)
        histogram.hist(
            values[:samples].ravel(), grid, density=True, orientation="horizontal", color=_plots.SKY
        )
        density = np.exp(-0.5 * (grid / noise) ** 2) / (noise * np.sqrt(2 * np.pi))
        histogram.plot(density, grid, color=_plots.BLACK, linewidth=1)
        histogram.set_xticks([])
    axes[0, 0].set_title("measured - predicted; grey: not seen by the fit; dashed: ±2 noise levels")
    axes[0, 1].set_title("fitted part, stated noise")
    axes[0, 0].legend(ncols=3, loc="upper left", markerscale=3)
    axes[2, 0].set_xlabel("time (s)")
    _plots.save(figure, path)


def _plot_convergence(path: Path, result: lie_jax.estimation.Identification, recording) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    history = result.history
    iteration = np.arange(1, len(history.cost) + 1)
    per_value = 2.0 * np.asarray(history.cost) / (9.0 * np.asarray(history.samples))
    for horizon in np.unique(np.asarray(history.samples)):
        own = np.asarray(history.samples) == horizon
        left.semilogy(
            iteration[own],
            per_value[own],
            "o-",
            markersize=3,
            label=f"first {recording.t[horizon - 1]:g} s",
        )
    left.axhline(1.0, color=_plots.BLACK, linewidth=0.8, linestyle="--")
    left.set(xlabel="iteration", ylabel="mean squared residual / noise²")
    left.legend(title="fitted on the")
    for name, value in jax.vmap(quantities)(history.estimates).items():
        final = np.asarray(value)[-1]
        distance = np.abs(np.asarray(value) - final).reshape(len(iteration), -1).max(axis=1)
        right.semilogy(
            iteration[:-1],
            np.maximum(distance[:-1] / np.abs(final).max(), 1e-16),
            "o-",
            markersize=3,
            label=name.replace("_", " "),
        )
    right.set(xlabel="iteration", ylabel="relative distance from the final estimate")
    right.legend()
    _plots.save(figure, path)


def _write_scene(path: Path, parameters: Parameters, dt: float, samples: int) -> None:
    """The body on its joint, as it was identified."""
    system, state = pinned_body.build(constrained=True, **parameters)
    steps = (samples - 1) * STEPS_PER_SAMPLE
    moving = lie_jax.simulate(
        system,
        lie_jax.GeneralizedAlpha(0.9),
        lie_jax.project(system, state, 0.0),
        dt=dt,
        steps=steps,
        save=STEPS_PER_SAMPLE,
    )
    viz.export(path, (system, moving), speed=SLOW_MOTION)
