"""Attitude and rates of a recorded body from two markers, 20 times a second, without its gyro.

The first second of the recording of `demo` identifies the body. From then on a filter and a
smoother see its markers in each tenth sample. The gyro is withheld, and tests the rates.
"""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from experiments import _plots, _report, demo
from lie_jax.estimation import Smoothed
from lie_jax.groups import quaternion
from models import fixed_point, pinned_body

# Samples that identify the body: 1 s.
IDENTIFIED = 201
# Samples from one sight of the markers to the next: 0.05 s, in which the body turns by up to 54°.
EVERY = 10
# Steps between samples, as of `demo`.
STEPS = demo.STEPS_PER_SAMPLE
NOISE = np.asarray([pinned_body.MARKER_NOISE] * 6 + [pinned_body.GYRO_NOISE] * 3)
# Root density of random torques, N m √s: the body is known well.
TORQUES = 1e-4
# Deviations of the start, whose attitude and rates come from the markers of two samples.
ATTITUDE, RATES = 0.003, 0.7  # rad, rad/s
# Friction of a wrong model, relative to the identified one.
WRONG = 0.98
# Of the biases of the gyro before the recording, rad/s.
BIASES = 0.1


class Later(NamedTuple):
    """Times (n,), s, of the recording behind the identified part, and its samples (n, 9)."""

    t: np.ndarray
    samples: np.ndarray


def later(recording: pinned_body.Recording) -> Later:
    """What filter and smoother may see, and what tests them."""
    together = np.concatenate([np.asarray(x) for x in recording.observations], axis=1)
    return Later(recording.t[IDENTIFIED - 1 :], together[IDENTIFIED - 1 :])


def start(parameters: demo.Parameters, seen: Later) -> demo.Parameters:
    """Parameters with the attitude and rates that the markers of the first two samples show."""
    attitudes = [
        demo.start_values(pinned_body.Observations(jnp.asarray(row[:6])[None], jnp.zeros((1, 3))))[
            "orientation"
        ]
        for row in seen.samples[:2]
    ]
    turn = quaternion.log(quaternion.multiply(quaternion.conjugate(attitudes[0]), attitudes[1]))
    rates = turn / (seen.t[1] - seen.t[0])
    return parameters | {"orientation": attitudes[0], "omega_body": rates}


class Instruments(eqx.Module):
    """Expected sample (9,): places of both markers, m, and body-fixed rates, rad/s."""

    system: lie_jax.extend.AbstractMultibodySystem

    def __call__(self, t, q, v):
        """Sample at one instant."""
        points = [
            fixed_point.point_on_body(self.system, q, jnp.asarray(point))
            for point in pinned_body.MARKERS
        ]
        return jnp.concatenate([*points, self.system.twists(q, v)[0, 3:]])


def estimate(parameters: demo.Parameters, seen: Later, with_gyro: bool) -> Smoothed:
    """Smoothed states, a row for each step, and the filtered ones in them."""
    system, state = pinned_body.build(
        lie_jax.Minimal(), constrained=True, **start(parameters, seen)
    )

    model = lie_jax.estimation.Model(
        system,
        lie_jax.RKMK("rk4"),
        measure=Instruments(system),
        noise=NOISE,
        process={"velocities": TORQUES, "drifts": np.zeros(9)},
    )
    # What is not seen is NaN: samples between two sights of the markers, and rows between samples.
    data = np.full((STEPS * (len(seen.t) - 1) + 1, 9), np.nan)
    data[:: STEPS * EVERY, :6] = seen.samples[::EVERY, :6]
    biases = BIASES if with_gyro else 0.0
    if with_gyro:
        data[::STEPS, 6:] = seen.samples[:, 6:]
    deviations = [ATTITUDE] * 3 + [RATES] * 3 + [0.0] * 6 + [biases] * 3
    dt = (seen.t[1] - seen.t[0]) / STEPS
    return lie_jax.estimation.smooth(
        model, data, state, np.diag(deviations) ** 2, dt=dt, t0=seen.t[0]
    )


def _deviations(estimate: Any, part: slice) -> np.ndarray:
    return np.sqrt(np.diagonal(np.asarray(estimate.covariance), axis1=1, axis2=2)[:, part])


def numbers(seen: Later, known: Smoothed, wrong: Smoothed, with_gyro: Smoothed) -> dict[str, Any]:
    """Tests of the estimates."""
    rates, gyro = np.asarray(known.v)[::STEPS], seen.samples[:, 6:]
    spread = np.hypot(_deviations(known, slice(3, 6))[::STEPS], pinned_body.GYRO_NOISE)
    nis = {
        "known": known.filtered.nis(),
        "wrong_friction": wrong.filtered.nis(),
        "with_gyro": with_gyro.filtered.nis(),
    }
    return {
        "nis": {name: [float(test.ratio), *test.bounds()] for name, test in nis.items()},
        "gyro_rms": float(np.sqrt(np.mean((gyro - rates) ** 2))),
        "gyro_inside": float(np.mean(np.abs(gyro - rates) < 1.96 * spread)),
        "rates_deviation": {
            "filter_at_end": _deviations(known.filtered, slice(3, 6))[-1].tolist(),
            "smoother_mean": _deviations(known, slice(3, 6)).mean(axis=0).tolist(),
        },
        "attitude_deviation": _deviations(known, slice(0, 3)).mean(axis=0).tolist(),
        "bias": np.asarray(with_gyro.bias)[-1, 6:].tolist(),
        "bias_deviation": _deviations(with_gyro, slice(12, 15))[-1].tolist(),
    }


def main(folder: Path) -> None:
    """Identify, estimate, print; write `estimates.json` and `attitude_estimation.png`."""
    recording = pinned_body.read_recording()
    first = jax.tree.map(lambda x: x[:IDENTIFIED], recording.observations)
    dt = pinned_body.sample_interval(recording.t) / STEPS
    fit = demo.fit(demo.start_values(first), first, dt)
    seen = later(recording)
    known = estimate(fit.estimates, seen, with_gyro=False)
    slippery = fit.estimates | {"friction": WRONG * fit.estimates["friction"]}
    wrong = estimate(slippery, seen, with_gyro=False)
    with_gyro = estimate(fit.estimates, seen, with_gyro=True)
    found = numbers(seen, known, wrong, with_gyro)
    for name, (ratio, low, high) in found["nis"].items():
        print(f"NIS, {name:15} {ratio:8.3f}, 95 % within {low:.3f} and {high:.3f}")
    print(
        f"gyro - smoothed rates: {found['gyro_rms']:.4f} rad/s (noise {pinned_body.GYRO_NOISE:g}), "
        f"{100 * found['gyro_inside']:.1f} % within 95 % intervals"
    )
    pairs = zip(found["bias"], found["bias_deviation"], strict=True)
    print("biases of the gyro:", ", ".join(f"{b:.4f} ± {s:.4f}" for b, s in pairs), "rad/s")
    _report.write_json(folder / "estimates.json", found)
    plot(folder / "attitude_estimation.png", seen, known, wrong)


def plot(path: Path, seen: Later, known: Smoothed, wrong: Smoothed) -> None:
    """Rates, their deviations, and the test of innovations."""
    figure, (top, middle, bottom) = plt.subplots(
        3, 1, figsize=(10, 9), sharex=True, height_ratios=(3, 2, 2)
    )
    t = np.asarray(known.t)
    for k, color in enumerate((_plots.BLUE, _plots.ORANGE, _plots.GREEN)):
        top.plot(seen.t[::4], seen.samples[::4, 6 + k], "o", color=color, markersize=5, alpha=0.4)
        top.plot(t, known.v[:, k], color=color, linewidth=0.9, label=f"$ω_{'xyz'[k]}$")
    top.set_ylabel("rad/s")
    top.set_title("Body-fixed rates: smoothed from markers (lines), of the withheld gyro (dots)")
    top.legend(ncols=3, loc="upper right")

    for label, of, color in (
        ("filter", known.filtered, _plots.ORANGE),
        ("smoother", known, _plots.BLUE),
    ):
        size = np.sqrt(np.mean(_deviations(of, slice(3, 6)) ** 2, axis=1))
        middle.semilogy(t, size, color=color, label=label)
    middle.axhline(pinned_body.GYRO_NOISE, color=_plots.BLACK, linestyle="--", linewidth=0.8)
    middle.text(seen.t[-1], 1.2 * pinned_body.GYRO_NOISE, "noise of the gyro", ha="right")
    middle.set_ylabel("rad/s")
    middle.set_title("Standard deviation of the rates")
    middle.legend(loc="upper right")

    rows = slice(0, None, STEPS * EVERY)
    for label, of, style in (
        ("identified body", known, {"marker": "o", "color": _plots.BLUE}),
        ("with 0.98 of its friction", wrong, {"marker": "x", "color": _plots.RED}),
    ):
        test = of.filtered.nis()
        values = (np.asarray(test.values) / np.maximum(test.degrees, 1))[rows]
        bottom.semilogy(t[rows], values, linestyle="none", markersize=4, label=label, **style)
    low, high = lie_jax.estimation.ChiSquare(jnp.asarray([1.0]), jnp.asarray([6])).bounds()
    bottom.axhspan(low, high, color="#dddddd", zorder=0, label="95 %")
    bottom.set_xlabel("time (s)")
    bottom.set_title("Squares of the innovations of a sample, over their number")
    bottom.set_ylim(top=20.0)
    bottom.legend(loc="upper left", ncols=3)
    _plots.save(figure, path)
