"""Masses and centres of mass of the Puma's links [S3] 4.4, identified from angles and torques."""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from experiments import _identification, _plots, _report
from lie_jax.estimation import transforms
from lie_jax.numerics.conversion import as_float
from models import puma560

# Swings that reach 150 N m; the paper's commands accelerate links a tenth as much.
AMPLITUDE = (0.6, 0.4, -0.4, 0.6, 0.6, 0.6)
FREQUENCY = (1.0, 2.0, 3.0, 2.0, 3.0, 1.0)
SECONDS = 0.5
SAMPLE_TIME = 5e-3
# The controllers' fastest poles, -2400 1/s at the last joint, allow no larger step of an explicit
# method; RKMK of order 5 is good for 1e-4 N m with it.
STEP = 1e-3
FINE_STEP = 1.25e-4


class Recording(NamedTuple):
    """Recording: angles (samples, 6), rad, and torques of the motors (samples, 6), N m."""

    angles: Array | np.ndarray
    torques: Array | np.ndarray


# Encoders, and torques from currents: the motors of the arm, those of the wrist.
NOISE = Recording(np.asarray(1e-4), np.asarray((0.1, 0.1, 0.1, 0.005, 0.005, 0.005)))

Parameters = dict[str, Any]
MASS = np.asarray(puma560.MASS)
CENTER = np.asarray(puma560.CENTER_OF_MASS)
# What is fitted in the end: masses of links 2, 3, 4 and 5 together, and 6; and four components of
# the centres of mass. Links 4 and 5 share their mass as the paper's do.
TRUTH = {
    "mass": np.asarray((MASS[1], MASS[2], MASS[3] + MASS[4], MASS[5])),
    "center": np.asarray((CENTER[1, 0], CENTER[1, 1], CENTER[2, 0], CENTER[2, 2])),
}
START = {"mass": np.asarray((10.0, 10.0, 2.0, 0.2)), "center": np.asarray((-0.2, 0.0, 0.0, 0.0))}
TRANSFORMS = {"mass": transforms.positive, "center": transforms.free}
LABELS = {
    "mass[0]": "mass 2",
    "mass[1]": "mass 3",
    "mass[2]": "mass 4 + 5",
    "mass[3]": "mass 6",
    "center[0]": "centre of mass 2 x",
    "center[1]": "centre of mass 2 y",
    "center[2]": "centre of mass 3 x",
    "center[3]": "centre of mass 3 z",
}
EQUAL_MASSES = np.asarray((5.0, 10.0, 5.0, 1.0, 1.0, 0.2))


class Swing(eqx.Module):
    """A command from rest at `start` (rad), amplitude·(1 - cos 2π·frequency·t)."""

    start: Float[Array, "..."] = eqx.field(converter=as_float)
    amplitude: Float[Array, "..."] = eqx.field(converter=as_float)
    frequency: Float[Array, "..."] = eqx.field(converter=as_float)

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """The angle at a time."""
        return self.start + self.amplitude * (1.0 - jnp.cos(2.0 * jnp.pi * self.frequency * t))


def record(
    mass: Array | np.ndarray, center: Array | np.ndarray, method: str = "dopri5", step: float = STEP
) -> Recording:
    """Recording of a robot with these masses (6,) and centres of mass (6, 3)."""
    swings = zip(puma560.ANGLES, AMPLITUDE, FREQUENCY, strict=True)
    system, state = puma560.build(
        lie_jax.Minimal(),
        mass=mass,
        center_of_mass=center,
        commands=[Swing(*each) for each in swings],
    )
    trajectory = lie_jax.simulate(
        system,
        lie_jax.RKMK(method),
        state,
        dt=step,
        steps=round(SECONDS / step),
        save=round(SAMPLE_TIME / step),
        throw=False,
    )
    torques = jax.vmap(lambda *at: puma560.motor_torques(system, *at))
    return Recording(trajectory.q, torques(trajectory.t, trajectory.q, trajectory.v))


def predict(parameters: Parameters) -> Recording:
    """The recording for the identifiable set of parameters."""
    return record(*links(parameters))


def links(parameters: Parameters) -> tuple[Array, Array]:
    """Masses (6,) and centres of mass (6, 3) of the links, in link frames."""
    second, third, wrist, hand = parameters["mass"]
    share = MASS[3] / (MASS[3] + MASS[4])
    first = jnp.asarray(MASS[0])
    mass = jnp.stack([first, second, third, share * wrist, (1.0 - share) * wrist, hand])
    x2, y2, x3, z3 = parameters["center"]
    center = jnp.stack(
        [
            jnp.asarray(CENTER[0]),
            jnp.stack([x2, y2, CENTER[1, 2]]),
            jnp.stack([x3, CENTER[2, 1], z3]),
            *jnp.asarray(CENTER[3:]),
        ]
    )
    return mass, center


def fit(observed: Recording, progress: bool = True) -> lie_jax.estimation.Identification:
    """Identify the identifiable set from a recording, from the poor start."""
    return lie_jax.estimation.identify(
        predict, START, observed, noise=NOISE, transforms=TRANSFORMS, progress=progress
    )


def fit_all_masses(observed: Recording, progress: bool = True) -> lie_jax.estimation.Identification:
    """Identify all six masses, the rest known: one too many."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "identify: only")
        return lie_jax.estimation.identify(
            lambda parameters: record(parameters["mass"], CENTER),
            {"mass": EQUAL_MASSES},
            observed,
            noise=NOISE,
            transforms=transforms.positive,
            progress=progress,
        )


# Degree of the polynomials that smooth the angles for the regression, and the seconds left out at
# both ends: controllers swing in at first, and derivatives of polynomials are worst there.
DEGREE = 14
LEFT_OUT = 0.05


def regression(observed: Recording) -> tuple[np.ndarray, np.ndarray]:
    """Masses of links 2 to 6 by linear regression of torques on smoothed motion: (5,), and errors.

    The cross-check: torques are linear in masses, with coefficients that hold angles, rates and
    accelerations. These come from polynomials through the noisy angles, as if they were exact.
    """
    t = SAMPLE_TIME * np.arange(len(observed.angles))
    inside = (t > LEFT_OUT) & (t < SECONDS - LEFT_OUT)
    fitted = [
        np.polynomial.Chebyshev.fit(t[t > 0.02], angle[t > 0.02], DEGREE)
        for angle in np.asarray(observed.angles).T
    ]
    motion = [
        jnp.asarray(np.stack([f.deriv(k)(t[inside]) for f in fitted], axis=1)) for k in range(3)
    ]
    weight = 1.0 / NOISE.torques

    @jax.jit
    def torques(mass):
        none = (0.0,) * 6
        system, _ = puma560.build(
            lie_jax.Minimal(),
            mass=jnp.concatenate([MASS[:1], mass]),
            proportional=none,
            derivative=none,
        )

        def needed(q, v, acceleration):
            return system.residual(0.0, q, v, acceleration, jnp.zeros(0), None) * weight

        return jax.vmap(needed)(*motion)

    rest = jnp.ones(5)
    slope = np.asarray(jax.jacfwd(torques)(rest)).reshape(-1, 5)
    constant = np.asarray(torques(rest)).ravel() - slope @ np.ones(5)
    measured = np.asarray(observed.torques * weight)[inside].ravel()
    solution, *_ = np.linalg.lstsq(slope, measured - constant, rcond=None)
    left = measured - constant - slope @ solution
    variance = left @ left / (len(left) - 5)
    return solution, np.sqrt(variance * np.diag(np.linalg.inv(slope.T @ slope)))


def main(folder: Path) -> None:
    """All masses, the regression, the identifiable set, and its coverage; write it all."""
    fine = jax.jit(lambda: record(MASS, CENTER, step=FINE_STEP))()
    clean = jax.jit(predict)(TRUTH)
    rng = np.random.default_rng(0)
    observed = jax.tree.map(lambda x, s: x + s * rng.normal(size=x.shape), fine, NOISE)
    weighted = jax.tree.map(lambda a, b, s: np.asarray((a - b) / s), clean, fine, NOISE)
    integration = {
        "largest_angle_rad": float(jnp.abs(clean.angles - fine.angles).max()),
        "largest_torque_N_m": float(jnp.abs(clean.torques - fine.torques).max()),
        # To first order; see rotor_identification.
        "largest_shift_in_standard_errors": float(np.linalg.norm(np.concatenate(weighted, 1))),
    }
    masses = fit_all_masses(observed)
    report = masses.identifiability()
    estimates, errors = (
        np.asarray(tree["mass"]) for tree in (masses.estimates, masses.standard_errors)
    )
    linear, linear_errors = regression(observed)
    found = fit(observed)
    repeated = lie_jax.estimation.monte_carlo(
        predict, TRUTH, noise=NOISE, runs=_identification.RUNS, transforms=TRANSFORMS
    )
    labels = [LABELS[name] for name in repeated.names]
    units = ["kg" if label.startswith("mass") else "m" for label in labels]
    rows = _identification.rows(labels, units, TRUTH, START, found, repeated)
    total = _identification.pooled(repeated)

    print(
        f"Puma 560 on swings, {SECONDS:g} s, {len(observed.angles)} samples of six angles (noise "
        f"{1e4 * float(NOISE.angles):g}e-4 rad) and torques (0.1 N m, wrist 0.005 N m)\n"
        f"integration error {integration['largest_angle_rad']:.1e} rad, "
        f"{integration['largest_torque_N_m']:.1e} N m: shifts estimates by at most "
        f"{integration['largest_shift_in_standard_errors']:.2f} standard errors"
    )
    print("\nall masses, the rest known:    truth    output error           regression (kg)")
    for i in range(6):
        own = f"{estimates[i]:.4f} ± {errors[i]:.4f}"
        other = f"{linear[i - 1]:.4f} ± {linear_errors[i - 1]:.4f}" if i else "left out"
        print(f"  mass {i + 1:<22}{float(MASS[i]):8.3f}    {own:22} {other}")
    print(f"correlation of masses 4 and 5: {float(masses.correlation[3, 4]):.4f}\n{report}")
    _identification.print_table(rows, total)
    written = {
        "converged": bool(found.converged),
        "reduced_chi_squared": float(found.statistics.reduced_chi_squared),
        "integration_error": integration,
        "all_masses": {
            "truth_kg": list(puma560.MASS),
            "estimate_kg": estimates.tolist(),
            # The first mass is not determined.
            "standard_error_kg": [None if np.isnan(error) else error for error in errors.tolist()],
            "correlation_4_5": float(masses.correlation[3, 4]),
            "singular_values": np.asarray(report.singular_values).tolist(),
            "report": str(report),
        },
        "regression": {"kg": linear.tolist(), "standard_error_kg": linear_errors.tolist()},
        "numbers": rows,
        "pooled": total,
    }
    _report.write_json(folder / "results.json", written)
    _plot_torques(folder / "torques.png", observed, jax.jit(predict)(found.estimates))
    _identification.plot_deviations(
        folder / "deviations.png", labels, repeated, "Links of the Puma: all fits"
    )


def _plot_torques(path: Path, observed: Recording, fitted: Recording) -> None:
    figure, axes = plt.subplots(2, 3, figsize=(12, 6), sharex=True)
    t = SAMPLE_TIME * np.arange(len(observed.torques))
    for joint, axis in enumerate(axes.ravel()):
        axis.plot(
            t, observed.torques[:, joint], ".", color=_plots.SKY, markersize=4, label="measured"
        )
        axis.plot(t, fitted.torques[:, joint], color=_plots.BLACK, linewidth=0.9, label="fitted")
        axis.set_title(f"motor {joint + 1}")
    for axis in axes[:, 0]:
        axis.set_ylabel("torque (N m)")
    for axis in axes[1]:
        axis.set_xlabel("time (s)")
    axes[0, 0].legend(loc="lower left")
    _plots.save(figure, path)
