"""Plots of the experiment: convergence, Newton iterations, CPU time, work, time histories."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from experiments import _plots
from experiments._implicit_formulations.cases import CASES

_COLOURS = {
    "RV": _plots.BLUE,
    "EP": _plots.GREEN,
    "Rxyz": _plots.RED,
    "Min. Coord.": _plots.ORANGE,
}
_NAMES = {
    "RV": "R³×SO(3) (RV)",
    "EP": "Euler parameters (EP)",
    "Rxyz": "Tait-Bryan angles (Rxyz)",
    "Min. Coord.": "joint coordinates (Min. Coord.)",
}
_STYLES: dict[str, dict[str, Any]] = {
    "S3": {"marker": "o", "linestyle": "-"},
    "S3, modified": {"marker": "s", "linestyle": "-."},
    "S3 with T": {"marker": "v", "linestyle": ":"},
    "S3 with T, modified": {"marker": "D", "linestyle": ":"},
    "default": {"marker": "^", "linestyle": "--"},
}
_RULES = {
    "S3": "Newton as in [S3]",
    "S3, modified": "modified Newton as in [S3]",
    "S3 with T": "as in [S3], with T",
    "S3 with T, modified": "modified, with T",
    "default": "default of lie_jax",
}
# Figures of [S3] with errors, iterations and CPU time against h, and with errors against CPU time.
_FIGURES = {
    "heavy top": ("3, right", "Table 4", "4, right", "5, right"),
    "constrained heavy top": ("6", "7", "8", None),
    "rotor": ("11, right", "Table 7", "12, right", "13, right"),
    "slider-crank": ("16", "17, left", "17, right", None),
    "Puma 560": ("20", "21, left", "21, right", None),
}
_POINTS = {
    "heavy top": "centre of mass after 1 s",
    "constrained heavy top": "centre of mass after 1 s",
    "rotor": "left axis point after 4 s",
    "slider-crank": "slider after 5 s",
    "Puma 560": "joint angles after 1 s",
}


def _curves(results: dict):
    for name, rules in results.items():
        for rule, figures in rules.items():
            look = {"color": _COLOURS[name], "markersize": 4, "linewidth": 1.1, **_STYLES[rule]}
            yield rule, figures, look


def _values(figures: dict, key: str) -> np.ndarray:
    return np.asarray([np.nan if x is None else x for x in figures[key]], float)


def _legend(figure, results: dict, rules: list[str]) -> None:
    formulations = [Line2D([], [], color=_COLOURS[n], label=_NAMES[n]) for n in results]
    lines = [Line2D([], [], color="0.4", label=_RULES[r], **_STYLES[r]) for r in rules]
    count = len(formulations) + len(lines)
    figure.legend(
        handles=[*formulations, *lines],
        loc="outside lower center",
        ncols=-(-count // 2) if count < 8 else 3,
    )


def _titled(axis, case: str, which: int) -> None:
    place = _FIGURES[case][which]
    shown = place if place and place.startswith("Table") else f"Fig. {place}"
    axis.set_title(f"[S3] {shown}: {case}" if place else case, fontsize=10)


def convergence(name: str, results: dict, folder: Path) -> None:
    """Error and Newton iterations a step against step size."""
    case = CASES[name]
    figure, (error, count) = plt.subplots(1, 2, figsize=(10.5, 5.4))
    for rule, figures, look in _curves(results):
        if "with T" not in rule:
            error.loglog(figures["h"], _values(figures, "error"), **look)
        count.semilogx(figures["h"], _values(figures, "iterations"), **look)
    error.set(xlabel="step size h (s)", ylabel=f"error of the {_POINTS[name]} ({case.unit})")
    count.set(xlabel="step size h (s)", ylabel="Newton iterations a step", ylim=(0, None))
    _finish(figure, (error, count), name, (0, 1), results, list(case.rules))
    _plots.save(figure, folder / f"{file_name(name)}_convergence.png")


def cost(name: str, results: dict, folder: Path) -> None:
    """CPU time against step size, and error against CPU time."""
    case = CASES[name]
    figure, (time, work) = plt.subplots(1, 2, figsize=(10.5, 5.4))
    rules = [rule for rule in case.rules if "with T" not in rule]
    for rule, figures, look in _curves(results):
        if rule not in rules:
            continue
        cpu = case.seconds / np.asarray(figures["h"]) * _values(figures, "step_us") * 1e-6
        time.loglog(figures["h"], cpu, **look)
        work.loglog(cpu, _values(figures, "error"), **look)
    time.set(xlabel="step size h (s)", ylabel="CPU time (s)")
    work.set(xlabel="CPU time (s)", ylabel=f"error of the {_POINTS[name]} ({case.unit})")
    _finish(figure, (time, work), name, (2, 3), results, rules)
    _plots.save(figure, folder / f"{file_name(name)}_work.png")


def _finish(figure, axes, name: str, places, results: dict, rules: list[str]) -> None:
    for axis, place in zip(axes, places, strict=True):
        axis.xaxis.set_minor_formatter(NullFormatter())
        _titled(axis, name, place)
    _legend(figure, results, rules)


def file_name(case: str) -> str:
    """A case's name in names of files."""
    return case.lower().replace(" ", "_").replace("-", "_")


def heavy_top(motion: dict, path: Path) -> None:
    """Fig. 2: centre of mass and its velocity."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.4))
    for axis, key, unit in zip(axes, ("position", "velocity"), ("m", "m/s"), strict=True):
        for name, style in (("RV", "-"), ("EP", ":")):
            coordinates = np.asarray(motion[name][key]).T
            for letter, colour, values in zip(
                "xyz", (_plots.BLUE, _plots.ORANGE, _plots.GREEN), coordinates, strict=True
            ):
                look = {"color": colour if name == "RV" else "k", "label": f"{letter}, {name}"}
                axis.plot(motion[name]["t"], values, style, linewidth=1.3, **look)
        axis.set(xlabel="t (s)", ylabel=f"{key} of the centre of mass ({unit})", xlim=(0.0, 1.0))
    axes[0].set_title("[S3] Fig. 2: heavy top, h = 2.5e-5 s", fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles[:4], [*labels[:3], "EP"], loc="outside lower center", ncols=4)
    _plots.save(figure, path)


def slider_crank(motion: dict, path: Path) -> None:
    """Fig. 15: slider and crank angle for both readings of Table 8."""
    figure, (slider, crank) = plt.subplots(1, 2, figsize=(9.5, 4.2))
    for name, style in (("pivot", "-"), ("mid-crank", "--")):
        label = f"centre of mass {'in the pivot' if name == 'pivot' else name}"
        slider.plot(motion[name]["t"], motion[name]["s"], style, linewidth=1.2, label=label)
        crank.plot(motion[name]["t"], motion[name]["theta"], style, linewidth=1.2)
    slider.set(xlabel="t (s)", ylabel="position s of the slider (m)", xlim=(0.0, 5.0))
    crank.set(xlabel="t (s)", ylabel="crank angle θ (rad)", xlim=(0.0, 5.0))
    slider.set_title("[S3] Fig. 15: slider-crank, Rxyz, h = 1e-4 s", fontsize=10)
    figure.legend(loc="outside lower center", ncols=2)
    _plots.save(figure, path)


def puma(motion: dict, path: Path) -> None:
    """Fig. 19: joint angles."""
    figure, axis = plt.subplots(figsize=(6.5, 4.4))
    for i, angles in enumerate(np.asarray(motion["angles"]).T):
        axis.plot(motion["t"], angles, linewidth=1.3, label=f"joint {i + 1}")
    axis.set(xlabel="t (s)", ylabel="joint angle (rad)", xlim=(0.0, 1.0))
    axis.set_title("[S3] Fig. 19: Puma 560, EP, h = 1e-4 s", fontsize=10)
    figure.legend(loc="outside right upper")
    _plots.save(figure, path)
