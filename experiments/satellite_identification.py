"""Inertial parameters of a satellite with reaction wheels from its gyro, and what they can be."""

import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from experiments import _plots, _report
from lie_jax.estimation import transforms
from models import satellite

# A sample of the gyro, and a step of RKMK4, every 0.2 s for half a minute. The body turns by less
# than 0.03 rad in a step.
DT, STEPS = 0.2, 150
GYRO_NOISE = 5e-4  # rad/s
GYRO_BIAS = (1.0e-3, -2.0e-3, 0.5e-3)  # rad/s
OMEGA = (0.010, -0.020, 0.015)  # rad/s, initial
# Square waves of incommensurable periods (s): every wheel has its own history.
TORQUE, PERIODS, PHASES = 0.02, (13.0, 17.0, 23.0, 29.0), (0.3, 1.9, 4.0, 2.5)  # N m, s, rad
# The wheels' speeds against the satellite, once a second.
TACHOMETER_NOISE, TACHOMETER_INTERVAL = 0.5, 1.0  # rad/s, s
GAIN_PRIOR = (1.0, 0.01)
PYRAMID_INERTIAS = (*satellite.WHEEL_INERTIAS, 6.2e-4)
PYRAMID_SPEEDS = (*satellite.WHEEL_SPEEDS, -230.0)
RUNS = 200

Parameters = dict[str, Any]
TRANSFORMS = {
    "inertia": transforms.inertia,
    "wheels": transforms.positive,
    "omega": transforms.free,
    "bias": transforms.free,
}
TRUTH = {
    "inertia": np.asarray(satellite.INERTIA),
    "wheels": np.asarray(satellite.WHEEL_INERTIAS),
    "omega": np.asarray(OMEGA),
    "bias": np.asarray(GYRO_BIAS),
}


def torques(wheels: int) -> Float[Array, "steps wheels"]:
    """The commanded torques of so many wheels, held over each step (N m)."""
    t = DT * np.arange(STEPS)[:, None]
    wave = np.sin(2.0 * np.pi * t / np.asarray(PERIODS[:wheels]) + np.asarray(PHASES[:wheels]))
    return jnp.asarray(TORQUE * np.sign(wave))


def simulate(parameters: Parameters, pyramid: bool = False) -> lie_jax.Trajectory:
    """The satellite's motion with three wheels, or with four in a pyramid."""
    axes, speeds = (
        (satellite.PYRAMID, PYRAMID_SPEEDS) if pyramid else (satellite.AXES, satellite.WHEEL_SPEEDS)
    )
    system, state = satellite.build(
        inertia=parameters["inertia"],
        wheel_inertias=parameters["wheels"],
        omega_body=parameters["omega"],
        axes=axes,
        wheel_speeds=speeds,
    )
    inputs = parameters.get("gain", 1.0) * torques(len(speeds))
    return lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=DT, steps=STEPS, inputs=inputs, throw=False
    )


def gyro(parameters: Parameters) -> Float[Array, "n 3"]:
    """Readings of the gyro with three wheels."""
    return satellite.gyro(simulate(parameters)) + parameters["bias"][None, :]


def gyro_of_pyramid(parameters: Parameters) -> Float[Array, "n 3"]:
    """Readings of the gyro with four wheels."""
    return satellite.gyro(simulate(parameters, pyramid=True)) + parameters["bias"][None, :]


def gyro_and_tachometers(parameters: Parameters) -> dict[str, Array]:
    """Readings of the gyro and, once a second, of the wheels' tachometers."""
    trajectory = simulate(parameters)
    times = np.arange(0.0, DT * STEPS + 0.5 * DT, TACHOMETER_INTERVAL)
    rows = lie_jax.estimation.rows_at(times, dt=DT, steps=STEPS)
    return {
        "gyro": satellite.gyro(trajectory) + parameters["bias"][None, :],
        "tachometers": satellite.tachometers(trajectory)[rows],
    }


def _noisy(clean: Any, noise: Any) -> Any:
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda x, s: np.asarray(x) + s * rng.normal(size=x.shape), clean, noise)


def _fit(
    predict, truth: Parameters, noise: Any, **options
) -> tuple[Any, lie_jax.estimation.Identification]:
    """A fit of a simulated recording, from a start that a data sheet could give."""
    start = truth | {
        "inertia": 2.0 * np.eye(3),
        "wheels": np.full_like(truth["wheels"], 5e-4),
        "omega": np.zeros(3),
        "bias": np.zeros(3),
    }
    measured = _noisy(jax.jit(predict)(truth), noise)
    fit = lie_jax.estimation.identify(
        predict,
        start,
        measured,
        noise=noise,
        transforms={name: TRANSFORMS.get(name, transforms.positive) for name in truth},
        progress=False,
        **options,
    )
    return measured, fit


def main(folder: Path) -> None:
    """Fit, report, count, print, and write `identification.json` and three plots."""
    measured, fit = _fit(gyro, TRUTH, GYRO_NOISE)
    print(f"Gyro of {STEPS * DT:g} s, three wheels, known torques: converged {fit.converged}")
    numbers = _table(fit)
    print(f"\n{fit.identifiability()}\n")

    scaled = TRUTH | {"gain": 1.0}
    noise = {"gyro": GYRO_NOISE, "tachometers": TACHOMETER_NOISE}
    _, unknown = _fit(gyro_and_tachometers, scaled, noise, prior={"gain": GAIN_PRIOR})
    print("Torques known to a common factor only, gyro and tachometers:")
    print(unknown.identifiability())
    relative = unknown.standard_errors["inertia"][0, 0] / unknown.estimates["inertia"][0, 0]
    print(f"with a prior of 1 % on the factor, inertia[0, 0] is known to {100 * relative:.2f} %\n")

    four = TRUTH | {"wheels": np.asarray(PYRAMID_INERTIAS)}
    with warnings.catch_warnings():
        # The report says it.
        warnings.filterwarnings("ignore", "identify: only")
        _, pyramid = _fit(gyro_of_pyramid, four, GYRO_NOISE)
    print("Four wheels, gyro alone:")
    print(f"{pyramid.identifiability()}\n")

    check = lie_jax.estimation.monte_carlo(
        gyro, TRUTH, noise=GYRO_NOISE, transforms=TRANSFORMS, runs=RUNS
    )
    print(f"{RUNS} simulated recordings:\n{check}")
    results = {
        "converged": bool(fit.converged),
        "iterations": len(fit.history.cost),
        "reduced_chi_squared": float(fit.statistics.reduced_chi_squared),
        "numbers": numbers,
        "scale_ambiguity": _last_direction(unknown),
        "scale_with_prior": float(relative),
        "four_wheels": _last_direction(pyramid),
        "four_wheels_inertia_known": bool(
            jnp.all(jnp.isfinite(pyramid.standard_errors["inertia"]))
        ),
        "coverage": dict(zip(check.names, map(float, check.coverage), strict=True)),
        "pooled_coverage": float(check.pooled_coverage),
        "pooled_coverage_error": float(check.pooled_coverage_error),
        "runs_converged": int(jnp.sum(check.converged)),
    }
    _report.write_json(folder / "identification.json", results)
    _plot_fit(folder / "fit.png", measured, fit)
    _plot_coverage(folder / "coverage.png", check)
    _plot_correlation(folder / "correlation.png", fit)


def _table(fit: lie_jax.estimation.Identification) -> dict[str, dict[str, float]]:
    """Of each number: estimate, standard error and truth."""
    values = fit.identifiability().values
    errors, truths = _flat(fit.standard_errors), _flat(TRUTH)
    print(f"{'number':16}{'estimate':>13}{'± standard error':>18}{'truth':>13}")
    rows = {}
    for name, value, error, truth in zip(fit.names, values, errors, truths, strict=True):
        print(f"{name:16}{value:13.5e}{error:18.1e}{truth:13.5e}")
        rows[name] = {"estimate": float(value), "error": float(error), "truth": float(truth)}
    return rows


def _flat(parameters: Parameters) -> np.ndarray:
    upper = {
        name: value[np.triu_indices(3)] if name == "inertia" else value
        for name, value in parameters.items()
    }
    return np.concatenate([np.ravel(upper[name]) for name in sorted(upper)])


def _last_direction(fit: lie_jax.estimation.Identification) -> dict[str, Any]:
    report = fit.identifiability()
    return {
        "undetermined": int(jnp.sum(~report.determined)),
        "singular_values": list(map(float, report.singular_values)),
        "direction": dict(zip(report.names, map(float, report.directions[-1]), strict=True)),
        "values": dict(zip(report.names, map(float, report.values), strict=True)),
    }


def _plot_fit(path: Path, measured: np.ndarray, fit: lie_jax.estimation.Identification) -> None:
    figure, axes = plt.subplots(3, 2, figsize=(11, 7), sharex=True)
    t, left = DT * np.arange(STEPS + 1), np.asarray(fit.residuals)
    fitted = measured - left
    for k, name in enumerate("xyz"):
        axes[k, 0].plot(t, measured[:, k], ".", color=_plots.SKY, markersize=4)
        axes[k, 0].plot(t, fitted[:, k], color=_plots.BLACK, linewidth=0.9)
        axes[k, 0].set_ylabel(f"gyro {name} (rad/s)")
        axes[k, 1].plot(t, 1e3 * left[:, k], ".", color=_plots.SKY, markersize=4)
        for level in (-2.0, 2.0):
            axes[k, 1].axhline(
                1e3 * level * GYRO_NOISE, color=_plots.BLACK, linewidth=0.7, linestyle="--"
            )
        axes[k, 1].set_ylabel("mrad/s")
    axes[0, 0].set_title("measured (dots) and fitted")
    axes[0, 1].set_title("residuals; dashed: ±2 noise levels")
    for axis in axes[2]:
        axis.set_xlabel("time (s)")
    _plots.save(figure, path)


def _plot_coverage(path: Path, check: lie_jax.estimation.MonteCarlo) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
    grid = np.linspace(-4.0, 4.0, 41)
    deviations = np.asarray(check.deviations[check.converged]).ravel()
    left.hist(deviations, grid, density=True, color=_plots.SKY)
    left.plot(grid, np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi), color=_plots.BLACK, linewidth=1)
    left.set(xlabel="(estimate - truth) / standard error", ylabel="density")
    left.set_title(f"all numbers of {RUNS} fits, and the normal density")
    places = np.arange(len(check.names))
    # The expected spread of a single number's coverage, two standard deviations either way.
    band = 200.0 * np.sqrt(0.95 * 0.05 / RUNS)
    right.axvspan(95.0 - band, 95.0 + band, color="#eeeeee", zorder=0)
    right.axvline(95.0, color=_plots.BLACK, linewidth=0.8)
    right.plot(100.0 * np.asarray(check.coverage), places, "o", color=_plots.BLUE)
    right.set_yticks(places, check.names)
    right.invert_yaxis()
    pooled, error = 100 * float(check.pooled_coverage), 100 * float(check.pooled_coverage_error)
    right.set(xlabel="coverage of 95 % intervals (%)")
    right.set_title(f"pooled {pooled:.1f} ± {error:.1f} %; grey: ±2 binomial deviations")
    _plots.save(figure, path)


def _plot_correlation(path: Path, fit: lie_jax.estimation.Identification) -> None:
    figure, axis = plt.subplots(figsize=(7.5, 6.5))
    image = axis.imshow(np.asarray(fit.correlation), vmin=-1.0, vmax=1.0, cmap="RdBu_r")
    places = np.arange(len(fit.names))
    axis.set_xticks(places, fit.names, rotation=90)
    axis.set_yticks(places, fit.names)
    axis.grid(False)
    axis.set_title("correlation of the estimates")
    figure.colorbar(image, ax=axis)
    _plots.save(figure, path)
