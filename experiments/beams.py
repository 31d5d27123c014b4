"""Beams: convergence of equilibria and motions, and four flexible mechanisms."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import lie_jax
from experiments import _plots, _report
from models import (
    curved_beam,
    flexible_four_bar,
    flexible_slider_crank,
    flying_beam,
    princeton_beam,
    right_angle_cantilever,
)

MESHES = (4, 8, 16, 32)
# Ends of the flight in the plane at 2.5 s, by one spectral element of 16 nodes and Radau's method;
# one of 24 nodes differs by 3e-4.
FLIGHT_END, FLIGHT = 2.5, ((4.430264, -0.785281), (5.945581, 8.970658))
LINEAR = "linear strains"
ALPHA = lie_jax.GeneralizedAlpha(0.9)


class Motion(NamedTuple):
    """System, instants (s), configurations and velocities."""

    system: Any
    t: NDArray
    q: jax.Array
    v: jax.Array


def run(built: tuple, end: float, steps: int, integrator: Any = ALPHA) -> Motion:
    """Motion with at most some thousand instants."""
    system, state = built
    every = max(1, steps // 2000)
    result = lie_jax.simulate(system, integrator, state, dt=end / steps, steps=steps, save=every)
    return Motion(system, np.asarray(result.t), result.q, result.v)


def read(motion: Motion, reading: Callable) -> NDArray:
    """A reading of the system and q at all instants."""
    return np.asarray(jax.jit(jax.vmap(lambda q: jnp.stack(reading(motion.system, q))))(motion.q))


def energies(motion: Motion) -> NDArray:
    """Energy at all instants, J."""

    def energy(q, v):
        return motion.system.kinetic_energy(q, v) + motion.system.potential_energy(q)

    return np.asarray(jax.jit(jax.vmap(energy))(motion.q, motion.v))


def statics() -> dict:
    """Errors of tips in parts of the length: of both interpolations, and of what two meshes
    extrapolate to.
    """
    cases = {
        "45° bend, 600 N": (
            *(curved_beam.build, curved_beam.tip, curved_beam.REFERENCE),
            curved_beam.RADIUS * curved_beam.ANGLE,
        ),
        "Princeton beam, 13.345 N, 45°": (
            *(princeton_beam.build, princeton_beam.tip_displacement, princeton_beam.REFERENCE),
            princeton_beam.LENGTH,
        ),
    }
    results = {}
    for name, (build, tip, truth, length) in cases.items():
        tips = {}
        for interpolation in ("constant", "linear"):
            tips[interpolation] = []
            for n in MESHES:
                system, state = build(n, interpolation=interpolation)
                end = lie_jax.equilibrium(system, state)
                tips[interpolation].append(np.asarray(tip(system, end.q)))
        better = [b + (b - a) / 3.0 for a, b in itertools.pairwise(tips["constant"])]
        rows = {"error": tips["constant"], "extrapolated": better, LINEAR: tips["linear"]}
        results[name] = {
            row: [float(np.linalg.norm(x - truth) / length) for x in found]
            for row, found in rows.items()
        }
    return results


def ends(system: Any, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Positions of both ends of the flying beam, m."""
    positions = system.poses(q)[1]
    return positions[0, :2], positions[-1, :2]


def flight() -> tuple[dict, dict[str, Motion]]:
    """Errors at 2.5 s by elements and by steps; invariants after the loads have ended."""
    rows = {}
    for n, steps in ((8, 500), (16, 500), (32, 500), (32, 125), (32, 250), (32, 1000)):
        motion = run(flying_beam.build(n), FLIGHT_END, steps)
        last = np.stack(ends(motion.system, motion.q[-1]))
        rows[f"{n} elements, {1e3 * FLIGHT_END / steps:g} ms"] = float(
            np.linalg.norm(last - np.asarray(FLIGHT), axis=1).max()
        )
    motions = {
        "in the plane": run(flying_beam.build(32), 10.0, 2000),
        "in space": run(flying_beam.build(32, spatial=True), 15.0, 3000),
    }
    invariants = {}
    for name, integrator in (("generalized-α, ρ∞ = 0.9", ALPHA), ("RATTLie", lie_jax.RATTLie())):
        for steps in (2000, 4000):
            motion = run(flying_beam.build(8, spatial=True), 10.0, steps, integrator)
            free = motion.t > 2.0 * flying_beam.PUSH + 1e-9
            momenta = jax.vmap(motion.system.momentum)(motion.q[free], motion.v[free])
            energy = energies(motion)[free]
            linear, angular = (
                float(np.abs(x - x[0]).max() / np.abs(x).max()) for x in map(np.asarray, momenta)
            )
            drift = float(np.ptp(energy) / energy[0])
            row = {"momentum": linear, "angular momentum": angular, "energy": drift}
            invariants[f"{name}, {1e4 / steps:g} ms"] = row
    return {"errors": rows, "invariants": invariants}, motions


def right_angle() -> tuple[dict, dict[int, NDArray], Motion]:
    """Heights of the elbow and the tip by elements and steps, to 30 s."""
    heights, results = {}, {}
    for n, steps in ((4, 1200), (8, 1200), (16, 1200), (16, 2400)):
        motion = run(right_angle_cantilever.build(n), 30.0, steps)
        both = read(motion, right_angle_cantilever.heights)
        energy = energies(motion)[motion.t > 2.0 + 1e-9]
        results[f"{n} elements a leg, {3e4 / steps:g} ms"] = {
            "elbow": [float(both[:, 0].min()), float(both[:, 0].max())],
            "tip": [float(both[:, 1].min()), float(both[:, 1].max())],
            "energy": float(np.ptp(energy) / energy[0]),
        }
        heights[f"{n}, {3e4 / steps:g} ms"] = (motion.t, both)
    return results, heights, motion


def slider_crank() -> tuple[dict, dict]:
    """Bow of the rod, at the speed of the crank after 0.1 s."""
    bows, results = {}, {}
    for n, steps in ((4, 2500), (8, 2500), (16, 2500), (8, 5000)):
        motion = run(flexible_slider_crank.build(n), 0.25, steps)
        bow = read(motion, lambda system, q: [flexible_slider_crank.bow(system, q)])[:, 0]
        name = f"{n} elements, {250.0 / steps:g} ms"
        results[name] = float(np.abs(bow).max())
        bows[name] = (motion.t, bow)
    return results, bows


def four_bar() -> tuple[dict, dict]:
    """Lean of the ends of crank and rocker, and the rocker's moments, over one turn."""
    leans, results = {}, {}
    for n, steps in ((2, 4600), (4, 4600), (4, 9200)):
        motion = run(flexible_four_bar.build(n), 11.5, steps)
        lean = read(motion, lambda s, q: [*flexible_four_bar.turned_out_of_plane(s, q)])
        moments = read(motion, lambda s, q: [s.beams(q).resultant[-1, 3:]])[:, 0]
        name = f"{n} elements a bar, {1.15e4 / steps:g} ms"
        results[name] = {
            "rocker's lean": float(np.abs(lean[:, 1]).max()),
            "twisting moment": float(np.abs(moments[:, 0]).max()),
            "bending moment": float(np.linalg.norm(moments[:, 1:], axis=1).max()),
        }
        leans[name] = (motion.t, lean, moments)
    return results, leans


def show_statics(results: dict, path: Path) -> None:
    """Errors of tips, and the bend with moments along it."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
    for (name, found), color in zip(results.items(), (_plots.BLUE, _plots.ORANGE), strict=True):
        left.loglog(MESHES, found["error"], "o-", color=color, label=name)
        left.loglog(MESHES[1:], found["extrapolated"], "s--", color=color, label="extrapolated")
        left.loglog(MESHES, found[LINEAR], "^-", color=color, label=LINEAR)
    left.set(
        xlabel="elements",
        ylabel="error of the tip / length",
        xticks=MESHES,
        xticklabels=map(str, MESHES),
    )
    left.minorticks_off()
    left.legend(fontsize=8)
    system, state = curved_beam.build(16)
    beams = system.beams(lie_jax.equilibrium(system, state).q)
    along = (np.arange(16) + 0.5) * curved_beam.RADIUS * curved_beam.ANGLE / 16
    for row, label, color in (
        (3, "twisting", _plots.GREEN),
        (4, "bending, across the arc", _plots.BLUE),
        (5, "bending, in the arc", _plots.RED),
    ):
        right.step(along, np.asarray(beams.resultant[:, row]) / 1e3, where="mid", color=color)
        right.plot([], [], color=color, label=label)
    right.set(xlabel="arc length (m)", ylabel="moment in the bend (kN m)")
    right.legend(fontsize=8)
    _plots.save(figure, path)


def show_flight(motions: dict[str, Motion], path: Path) -> None:
    """Lines of both flights at instants half a second apart."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
    for axis, (name, motion), (i, j), end in zip(
        axes, motions.items(), ((0, 1), (0, 2)), (8.0, 7.0), strict=True
    ):
        instants = np.searchsorted(motion.t, np.arange(0.0, end, 0.5))
        lines = np.asarray(
            jax.vmap(lambda q, system=motion.system: system.beams(q, points=5).position)(
                motion.q[instants]
            )
        )
        for k, line in enumerate(lines):
            shade = plt.get_cmap("viridis")(k / len(lines))
            points = line.reshape(-1, 3)
            axis.plot(points[:, i], points[:, j], color=shade)
        axis.set(xlabel=f"{'xyz'[i]} (m)", ylabel=f"{'xyz'[j]} (m)", aspect="equal", title=name)
    _plots.save(figure, path)


def show_mechanisms(heights: dict, bows: dict, leans: dict, path: Path) -> None:
    """Elbow and tip, the rod's bow, the four-bar's lean and moments."""
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.4), layout="constrained")
    looks = (":", "--", "-")
    for (name, (t, found)), look in zip(list(heights.items())[:3], looks, strict=True):
        for column, (what, color) in enumerate((("elbow", _plots.BLUE), ("tip", _plots.ORANGE))):
            label = f"{what}, {name.split(',')[0]} a leg"
            axes[0, 0].plot(t, found[:, column], look, color=color, label=label)
    axes[0, 0].set(title="Right-angle cantilever", xlabel="time (s)", ylabel="out of the plane (m)")
    for (name, (t, bow)), look in zip(list(bows.items())[:3], looks, strict=True):
        axes[0, 1].plot(t, 1e3 * bow, look, color=_plots.BLUE, label=name.split(",")[0])
    axes[0, 1].set(title="Slider-crank", xlabel="time (s)", ylabel="bow of the rod (mm)")
    t, lean, moments = list(leans.values())[-1]
    for column, (what, color) in enumerate((("crank", _plots.BLUE), ("rocker", _plots.ORANGE))):
        axes[1, 0].plot(t, np.degrees(lean[:, column]), color=color, label=what)
    axes[1, 0].set(title="Four-bar linkage", xlabel="time (s)", ylabel="lean of the end (degrees)")
    for column, (what, color) in enumerate(
        (("twisting", _plots.GREEN), ("bending, about y", _plots.BLUE), ("about z", _plots.RED))
    ):
        axes[1, 1].plot(t, moments[:, column], color=color, label=what)
    axes[1, 1].set(
        title="Four-bar linkage", xlabel="time (s)", ylabel="moments at the rocker's end (N m)"
    )
    for axis in axes.flat:
        axis.legend(fontsize=7)
    _plots.save(figure, path)


def report(results: dict) -> None:
    """Print the tables of the page."""
    rows = (
        (name, row, *(f"{x:.2e}" for x in [np.nan] * (len(MESHES) - len(errors)) + errors))
        for name, found in results["statics"].items()
        for row, errors in found.items()
    )
    print("", *_report.table(("tip", "", *map(str, MESHES)), rows, left=2), sep="\n")
    rows = ((name, f"{x:.2e}") for name, x in results["flight"]["errors"].items())
    print("", *_report.table(("flight", "error (m)"), rows), sep="\n")
    rows = (
        (name, *(f"{x:.1e}" for x in found.values()))
        for name, found in results["flight"]["invariants"].items()
    )
    print("", *_report.table(("flight", "momentum", "angular", "energy"), rows), sep="\n")
    rows = (
        (name, *(f"{x:.4f}" for x in (*found["elbow"], *found["tip"])), f"{found['energy']:.1e}")
        for name, found in results["right angle"].items()
    )
    heads = ("right angle", "elbow from", "to", "tip from", "to", "energy")
    print("", *_report.table(heads, rows), sep="\n")
    rows = ((name, f"{1e3 * x:.4f}") for name, x in results["slider-crank"].items())
    print("", *_report.table(("slider-crank", "largest bow (mm)"), rows), sep="\n")
    rows = (
        (name, *(f"{x:.4f}" for x in found.values())) for name, found in results["four-bar"].items()
    )
    heads = ("four-bar", "lean (rad)", "twisting (N m)", "bending (N m)")
    print("", *_report.table(heads, rows), sep="\n")


def main(folder: Path) -> None:
    """Measure, print tables, write numbers and pictures."""
    lie_jax.configure(fast_loops=False, cache=False)
    results: dict[str, Any] = {"statics": statics()}
    show_statics(results["statics"], folder / "statics.png")
    results["flight"], motions = flight()
    show_flight(motions, folder / "flight.png")
    results["right angle"], heights, _ = right_angle()
    results["slider-crank"], bows = slider_crank()
    results["four-bar"], leans = four_bar()
    _report.write_json(folder / "results.json", results, ascii=False)
    show_mechanisms(heights, bows, leans, folder / "mechanisms.png")
    report(results)
