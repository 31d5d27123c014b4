"""Plots of the experiment: errors, work, drift of joints."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from experiments import _plots
from experiments._local_global_maps.cases import BASE, NAMES

# A colour for group and chart; filled markers store quaternions, open ones rotation vectors.
_COLOURS = {"a": _plots.BLUE, "b": _plots.ORANGE, "c": _plots.RED, "d": _plots.SKY}
_MARKERS = {"a": "o", "b": "s", "c": "^", "d": "v"}


def _look(key: str) -> dict:
    number, letter = key
    colour = _COLOURS[letter]
    filled = {"markersize": 5} if number == "1" else {"markersize": 9, "markerfacecolor": "none"}
    return {
        "color": colour,
        "marker": _MARKERS[letter],
        "linewidth": 1.2 if number == "1" else 0.0,
        **filled,
    }


def _legend(figure) -> None:
    local = [Line2D([], [], label=f"{k}: {NAMES[k]}", **_look("1" + k)) for k in NAMES]
    stored = [
        Line2D([], [], color="0.4", marker="o", linewidth=0.0, label="1: quaternion"),
        Line2D(
            [],
            [],
            color="0.4",
            marker="o",
            markersize=9,
            markerfacecolor="none",
            linewidth=0.0,
            label="2: rotation vector",
        ),
    ]
    figure.legend(handles=[*local, *stored], loc="outside lower center", ncols=3)


def _grid(cases):
    figure, axes = plt.subplots(-(-len(cases) // 2), 2, figsize=(8.5, 2.9 * -(-len(cases) // 2)))
    for axis, name in zip(axes.flat, cases, strict=True):
        axis.set_title(name, fontsize=10)
    return figure, axes


def errors(cases: dict, path: Path) -> None:
    """Error against step size, one panel a case."""
    figure, axes = _grid(cases)
    for axis, case in zip(axes.flat, cases.values(), strict=True):
        for key, figures in case.items():
            axis.loglog(figures["h"], figures["error_m"], **_look(key))
        axis.xaxis.set_minor_formatter(NullFormatter())
    for axis in axes[-1]:
        axis.set_xlabel("step size h (s)")
    figure.supylabel("error of the observed point at the end (m)", fontsize=10)
    _legend(figure)
    _plots.save(figure, path)


def work(cases: dict, path: Path) -> None:
    """Error against work: steps times the cost of a step relative to the default's."""
    figure, axes = _grid(cases)
    for axis, case in zip(axes.flat, cases.values(), strict=True):
        for key, figures in case.items():
            ratio = figures["step_us"] / case[BASE]["step_us"]
            first = figures["h"][0]
            axis.loglog([ratio * first / h for h in figures["h"]], figures["error_m"], **_look(key))
        axis.xaxis.set_minor_formatter(NullFormatter())
    for axis in axes[-1]:
        axis.set_xlabel(f"work (1: {BASE} at its largest step)")
    figure.supylabel("error of the observed point at the end (m)", fontsize=10)
    _legend(figure)
    _plots.save(figure, path)


def joints(results: dict, path: Path) -> None:
    """Drift of joints: over time by coordinates, and joint by joint along the chain."""
    figure, (time, chain) = plt.subplots(1, 2, figsize=(8.5, 3.8))
    styles = zip(results["coordinates"].items(), (":", "--", "-", "-"), strict=True)
    colours = (_plots.PURPLE, _plots.GREEN, _plots.ORANGE, _plots.BLUE)
    for ((name, figures), style), colour in zip(styles, colours, strict=True):
        time.semilogy(
            figures["t"][1:], figures["joint_drift_m"][1:], style, color=colour, label=name
        )
    time.set(
        xlabel="time (s)",
        ylabel="drift of the joint (m)",
        title="Heavy top, RK4 of index 1, h = 1 ms",
    )
    time.legend(fontsize=8)
    for key, case in results["errors"]["chain, RKMK4 index 1"].items():
        # Rounding may leave nothing at all, which a logarithmic axis cannot show.
        drift = [max(d, 1e-17) for d in case["joint_drift_m"][2]]
        chain.semilogy(range(1, len(drift) + 1), drift, **_look(key))
    chain.set(
        xlabel="joint, from the ground",
        ylabel="drift of the joint (m)",
        title="Chain, RKMK4 of index 1, h = 1 ms",
        xticks=[1, 2, 3, 4],
    )
    _legend(figure)
    _plots.save(figure, path)
