"""Plots: errors of both groups, starts, noise of multipliers, energy."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

from experiments import _plots

_LOOKS = {
    "SE(3) exp": {"color": _plots.BLUE, "marker": "o"},
    "SE(3) cay": {"color": _plots.SKY, "marker": "v", "linestyle": "--"},
    "R³×SO(3) exp": {"color": _plots.ORANGE, "marker": "s"},
    "R³×SO(3) cay": {"color": _plots.RED, "marker": "^", "linestyle": "--"},
    "index 2": {"color": _plots.GREEN, "marker": "D", "linestyle": ":"},
    "plain start": {"color": _plots.PURPLE, "marker": "x", "linestyle": "-."},
}
_FIELDS = {"observed": "position", "twists": "twists", "multipliers": "multipliers"}


_NOISE_COLOURS = (_plots.BLUE, _plots.SKY, _plots.RED)
_ROUNDING = 2e-16


def errors(cases: dict, path: Path) -> None:
    """Largest error of all instants against the step size: a row a case, a column a field."""
    figure, axes = plt.subplots(len(cases), 3, figsize=(8.5, 1.9 * len(cases)))
    for row, (name, case) in zip(axes, cases.items(), strict=True):
        for axis, field in zip(row, _FIELDS, strict=True):
            for program, look in _LOOKS.items():
                figures = case["programs"].get(program)
                if figures and max(figures[field]) > 0.0:
                    axis.loglog(figures["h"], figures[field], label=program, markersize=4, **look)
            if not axis.lines:
                axis.set_axis_off()
                continue
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.tick_params(labelsize=7)
        unit = case["unit"]
        row[0].set_ylabel(f"{name}\n({unit})", fontsize=9)
        row[1].set_ylabel("(m/s, rad/s)", fontsize=8)
        if row[2].lines:
            row[2].set_ylabel("(N, N m)", fontsize=8)
    for axis, title in zip(axes[0], _FIELDS.values(), strict=True):
        axis.set_title(title, fontsize=10)
    for axis in axes[-1]:
        axis.set_xlabel("step size h (s)", fontsize=9)
    handles = {line.get_label(): line for axis in axes.flat for line in axis.lines}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    _plots.save(figure, path)


# Samples that are averaged, 5 s: energy oscillates with the motion.
_BLOCK = 50


def energy(results: dict, path: Path) -> None:
    """Mean energy of 5 s against time: without numerical damping, and how damping loses it."""
    figure, axes = plt.subplots(1, 3, figsize=(8.5, 3.9), sharey=True)
    t = np.asarray(results["t"])
    styles = {"SE(3)": "-", "R³×SO(3)": "--"}
    for axis, rho in zip(axes, (1.0, 0.9, 0.5), strict=True):
        for group, style in styles.items():
            for index, colour in ((3, _plots.BLUE), (2, _plots.RED)):
                run = results["runs"][f"{group}, index {index}, ρ∞ = {rho:g}"]
                values = np.asarray(run["change_J"])
                count = len(values) // _BLOCK
                if not count:
                    # It ends within the first block.
                    axis.axvline(run["end_s"], color=colour, linestyle=style, linewidth=0.8)
                    axis.annotate(" fails", (run["end_s"], -2.5e-3), fontsize=8, color=colour)
                    continue
                means = values[: count * _BLOCK].reshape(count, _BLOCK).mean(axis=1)
                middles = t[: count * _BLOCK].reshape(count, _BLOCK).mean(axis=1)
                label = f"{group}, index {index}"
                axis.plot(middles, means, style, color=colour, linewidth=1.2, label=label)
        axis.set(title=f"ρ∞ = {rho:g}", xlabel="time (s)")
    axes[0].set_ylabel("change of energy (J)")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    _plots.save(figure, path)


def noise(results: dict, path: Path) -> None:
    """Errors of multipliers and twists against the step size, down to where rounding rules."""
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.8))
    h = np.asarray(results["h"])
    for axis, field, unit in zip(axes, ("multipliers", "twists"), ("N", "m/s, rad/s"), strict=True):
        looks = zip(results[field].items(), ("o", "v", "s"), _NOISE_COLOURS, strict=True)
        for (name, values), marker, colour in looks:
            axis.loglog(h, values, marker=marker, color=colour, label=name, markersize=4)
        first = results[field]["index 3, ρ∞ = 0.9"][0]
        axis.loglog(h, first * (h / h[0]) ** 2, ":", color=_plots.BLACK, linewidth=0.8)
        axis.set(xlabel="step size h (s)", ylabel=f"largest error of {field} ({unit})")
    small = np.asarray([1e-6, 1e-4])
    axes[0].loglog(small, _ROUNDING / small**2, "--", color="0.5", linewidth=0.8)
    axes[0].annotate("2e-16/h²", (small[1], _ROUNDING / small[1] ** 2), fontsize=8)
    axes[0].legend(fontsize=8)
    _plots.save(figure, path)
