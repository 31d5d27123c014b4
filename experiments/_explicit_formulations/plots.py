"""Plots of the experiment: convergence, CPU time, work and precision, path of the rotor."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from experiments import _plots
from experiments._explicit_formulations.cases import NAMES

_COLOURS = {
    "RV": _plots.BLUE,
    "Rxyz": _plots.RED,
    "EP": _plots.GREEN,
    "Rxyz, axis z": _plots.ORANGE,
}
_STYLES: dict[str, dict[str, Any]] = {
    "RK44": {"marker": "o", "linestyle": "-"},
    "DOPRI5": {"marker": "s", "linestyle": "--"},
    "RK67": {"marker": "^", "linestyle": ":"},
}
# Left plots of these in [S3].
_FIGURES = {"heavy top": (3, 4, 5), "rotor": (11, 12, 13)}
_POINTS = {"heavy top": "centre of mass after 1 s", "rotor": "left axis point after 4 s"}


def _curves(results: dict):
    for name in _COLOURS:
        for method, figures in results.get(name, {}).items():
            look = {"color": _COLOURS[name], "markersize": 4, "linewidth": 1.1, **_STYLES[method]}
            yield figures, look


def _legend(figure, results: dict) -> None:
    formulations = [
        Line2D([], [], color=_COLOURS[name], label=NAMES[name])
        for name in _COLOURS
        if name in results
    ]
    methods = [Line2D([], [], color="0.4", label=m, **s) for m, s in _STYLES.items()]
    figure.legend(
        handles=[*formulations, *methods],
        loc="outside lower center",
        ncols=-(-(len(formulations) + 3) // 2),
    )


def convergence(case: str, results: dict, folder: Path) -> None:
    """Error against step size."""
    figure, axis = plt.subplots(figsize=(7.5, 5.6))
    for figures, look in _curves(results):
        axis.loglog(figures["h"], figures["error_m"], **look)
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set(xlabel="step size h (s)", ylabel=f"error of the {_POINTS[case]} (m)")
    axis.set_title(f"[S3] Fig. {_FIGURES[case][0]}, left: {case}")
    _legend(figure, results)
    _plots.save(figure, folder / f"{_file(case)}_convergence.png")


def cost(case: str, results: dict, seconds: float, folder: Path) -> None:
    """CPU time against step size, and error against CPU time."""
    figure, (time, work) = plt.subplots(1, 2, figsize=(9.5, 5.0))
    for figures, look in _curves(results):
        cpu = seconds / np.asarray(figures["h"]) * figures["step_us"] * 1e-6
        time.loglog(figures["h"], cpu, **look)
        work.loglog(cpu, figures["error_m"], **look)
    for axis in (time, work):
        axis.xaxis.set_minor_formatter(NullFormatter())
    time.set(xlabel="step size h (s)", ylabel="CPU time (s)")
    time.set_title(f"[S3] Fig. {_FIGURES[case][1]}, left: {case}", fontsize=10)
    work.set(xlabel="CPU time (s)", ylabel=f"error of the {_POINTS[case]} (m)")
    work.set_title(f"[S3] Fig. {_FIGURES[case][2]}, left: {case}", fontsize=10)
    _legend(figure, results)
    _plots.save(figure, folder / f"{_file(case)}_work.png")


def _file(case: str) -> str:
    return case.replace(" ", "_")


def path(points: dict, path: Path) -> None:
    """Path of the rotor's left axis point across the axis, and its coordinates against time."""
    figure, (across, time) = plt.subplots(1, 2, figsize=(9.0, 4.2))
    across.plot(np.asarray(points["y"]) * 1e3, np.asarray(points["z"]) * 1e3, linewidth=1.0)
    across.set(xlabel="y (mm)", ylabel="z (mm)", aspect="equal")
    across.set_title("[S3] Fig. 10: left axis point of the rotor", fontsize=10)
    for name, style in (("y", "-"), ("z", "--")):
        time.plot(points["t"], np.asarray(points[name]) * 1e3, style, label=name)
    time.set(xlabel="t (s)", ylabel="mm", xlim=(0.0, points["t"][-1]))
    time.legend()
    _plots.save(figure, path)
