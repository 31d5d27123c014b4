"""Springs and dampers of the rotor's supports, identified from the orbit of its axis [S3] 4.2."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from experiments import _identification, _plots, _report
from lie_jax.estimation import transforms
from models import rotor

# Two proximity probes in each of two planes watch the axis along y and z, well inside the supports.
PROBES = (-0.10, 0.08)
NOISE = 1e-6
SECONDS = 0.16
SAMPLE_TIME = 4e-4
# The spin turns the rotor by 1.05 rad in such a step and its nutation by 2 rad; RKMK of order 5
# is still good for 17 nm, less than a hundredth of the noise.
STEP = 5e-5
FINE_STEP = 1e-5
# Numbers of samples of the growing horizon: 12, 40, 100 ms, then all.
HORIZONS = (31, 101, 251)

Parameters = dict[str, Any]
Orbit = Float[Array, "samples probes"]
# Rows for the left and the right support, columns along y and z; the blow along y and z, N s.
TRUTH = {
    "stiffness": np.asarray(((4200.0, 3800.0), (3900.0, 4300.0))),
    "damping": np.asarray(((5.5, 4.9), (4.6, 5.6))),
    "blow": np.asarray((0.1, 0.02)),
}
# Half of each spring, twice each damper, and a blow that is only known to be along y.
START = {
    "stiffness": np.full((2, 2), 2000.0),
    "damping": np.full((2, 2), 10.0),
    "blow": np.asarray((0.06, 0.0)),
}
TRANSFORMS = {
    "stiffness": transforms.positive,
    "damping": transforms.positive,
    "blow": transforms.free,
}
UNITS = {"stiffness": "N/m", "damping": "N s/m", "blow": "N s"}


def predict(
    parameters: Parameters, method: str = "dopri5", step: float = STEP, seconds: float = SECONDS
) -> Orbit:
    """Displacements (m) at the probes: left plane y, z, right plane y, z.

    The rotor is let go in the relaxed supports and falls by its weight; at that instant a hammer
    strikes the disk. The axial spring and damper are those of the paper, known.
    """
    axial = jnp.zeros((2, 1))
    system, state = rotor.build(
        stiffness=jnp.concatenate([axial + rotor.STIFFNESS, parameters["stiffness"]], axis=1),
        damping=jnp.concatenate([axial + rotor.DAMPING, parameters["damping"]], axis=1),
        gravity=rotor.WEIGHT,
    )
    # At the start, inertial directions are those of the body.
    struck = jnp.concatenate([jnp.zeros(1), parameters["blow"] / rotor.MASS, jnp.zeros(3)])
    trajectory = lie_jax.simulate(
        system,
        lie_jax.RKMK(method),
        lie_jax.State(state.q, state.v + struck),
        dt=step,
        steps=round(seconds / step),
        save=round(SAMPLE_TIME / step),
        throw=False,
    )
    rotation, position = jax.vmap(system.poses)(trajectory.q)
    ahead = rotation[:, 0, :, 0]
    planes = [position[:, 0, 1:] + place * ahead[:, 1:] for place in PROBES]
    return jnp.concatenate(planes, axis=1)


def fit(observed: Orbit | np.ndarray, progress: bool = True) -> lie_jax.estimation.Identification:
    """Identify the supports from an orbit, from the poor start."""
    return lie_jax.estimation.identify(
        predict,
        START,
        observed,
        noise=NOISE,
        transforms=TRANSFORMS,
        horizons=(*HORIZONS, len(observed)),
        progress=progress,
    )


def main(folder: Path) -> None:
    """Fit one orbit from a poor start, then many for the coverage; write table and pictures."""
    fine = np.asarray(jax.jit(lambda p: predict(p, step=FINE_STEP))(TRUTH))
    clean = np.asarray(jax.jit(predict)(TRUTH))
    observed = fine + NOISE * np.random.default_rng(0).normal(size=fine.shape)
    # No estimate is shifted by more standard errors than this, to first order: shifts in standard
    # errors are projections of the weighted errors on directions of the Jacobian.
    integration = {
        "largest_m": float(np.abs(clean - fine).max()),
        "largest_shift_in_standard_errors": float(np.linalg.norm((clean - fine) / NOISE)),
    }
    found = fit(observed)
    repeated = lie_jax.estimation.monte_carlo(
        predict, TRUTH, noise=NOISE, runs=_identification.RUNS, transforms=TRANSFORMS
    )
    rows = _identification.rows(
        [_label(name) for name in repeated.names],
        [UNITS[name.partition("[")[0]] for name in repeated.names],
        *(TRUTH, START, found, repeated),
    )
    total = _identification.pooled(repeated)
    print(
        f"The rotor's orbit, {SECONDS:g} s, {len(observed)} samples of four probes, noise "
        f"{1e6 * NOISE:g} µm\nintegration error {integration['largest_m']:.1e} m: shifts estimates "
        f"by at most {integration['largest_shift_in_standard_errors']:.2f} standard errors"
    )
    _identification.print_table(rows, total)
    sums = _sums(found)
    for name, (value, error) in sums.items():
        print(f"{name:32}{value:10.5g} ± {error:.2g}")
    written = {
        "converged": bool(found.converged),
        "reduced_chi_squared": float(found.statistics.reduced_chi_squared),
        "noise_m": NOISE,
        "integration_error": integration,
        "numbers": rows,
        "pooled": total,
        "sums": sums,
    }
    _report.write_json(folder / "results.json", written)
    _plot_orbit(folder / "orbit.png", observed, np.asarray(jax.jit(predict)(found.estimates)))
    _identification.plot_deviations(
        folder / "deviations.png",
        [row["name"] for row in rows],
        repeated,
        "Supports of the rotor: all fits",
    )


def _label(name: str) -> str:
    kind, _, place = name.partition("[")
    index = [int(i) for i in place.rstrip("]").split(",")]
    if kind == "blow":
        return f"blow {'yz'[index[0]]}"
    return f"{kind} {('left', 'right')[index[0]]} {'yz'[index[1]]}"


def _sums(found: lie_jax.estimation.Identification) -> dict[str, tuple[float, float]]:
    """Both supports together: the orbit hardly shows how damping is split between them."""

    def both(parameters):
        return {k: jnp.sum(parameters[k], axis=0) for k in ("stiffness", "damping")}

    values, errors = found.propagate(both)
    return {
        f"{kind} left + right {axis} ({UNITS[kind]})": (
            float(values[kind][i]),
            float(errors[kind][i]),
        )
        for kind in values
        for i, axis in enumerate("yz")
    }


def _plot_orbit(path: Path, observed: np.ndarray, fitted: np.ndarray) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), width_ratios=(1, 1, 1.5))
    micro = 1e6
    for axis, first, plane in zip(axes[:2], (0, 2), ("left", "right"), strict=True):
        axis.plot(
            micro * observed[:, first],
            micro * observed[:, first + 1],
            ".",
            color=_plots.SKY,
            markersize=4,
            label="measured",
        )
        axis.plot(
            micro * fitted[:, first],
            micro * fitted[:, first + 1],
            color=_plots.BLACK,
            linewidth=0.9,
            label="fitted",
        )
        axis.set(xlabel="y (µm)", ylabel="z (µm)", title=f"{plane} probes")
        axis.set_aspect("equal", adjustable="datalim")
    axes[0].legend(loc="center")
    t = SAMPLE_TIME * np.arange(len(observed))
    for k, label in enumerate(("left y", "left z", "right y", "right z")):
        axes[2].plot(t, micro * (observed - fitted)[:, k], ".", markersize=3, label=label)
    for level in (-2 * micro * NOISE, 2 * micro * NOISE):
        axes[2].axhline(level, color=_plots.BLACK, linewidth=0.7, linestyle="--")
    axes[2].set(
        xlabel="time (s)",
        ylabel="measured - fitted (µm)",
        title="dashed: ±2 standard deviations",
        ylim=(-5 * micro * NOISE, 5.5 * micro * NOISE),
    )
    axes[2].legend(ncols=4, loc="upper center", markerscale=3, fontsize=8)
    _plots.save(figure, path)
