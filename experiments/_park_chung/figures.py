"""Figures 4 to 8 of [S1], and work against precision."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from experiments import _plots

_FAMILIES = {"CG": "Crouch-Grossman", "CF": "commutator-free", "MK": "Munthe-Kaas"}
_COLORS = {"CG": _plots.BLUE, "CF": _plots.ORANGE, "MK": _plots.GREEN}
# Munthe-Kaas methods lie on commutator-free ones in places: dashes let both be seen.
_LINES = {"CG": "-", "CF": "-", "MK": (0, (4, 3))}
_ORDER_MARKS = {"2": "o", "3": "^", "4": "s"}
_QUANTITIES = {
    "energy": ("kinetic energy (J)", _plots.BLUE),
    "linear": ("momentum (kg m/s)", _plots.ORANGE),
    "angular": ("angular momentum (kg m²/s)", _plots.GREEN),
}


def drift_at_one_second(
    drifts: dict[str, dict[str, list[float]]], steps: tuple[float, ...], path: Path
) -> None:
    """Figs. 4 to 6: drifts at t = 1 s against the step size, one panel for each family."""
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 4.2), sharey=True)
    for axis, (family, title) in zip(axes, _FAMILIES.items(), strict=True):
        for order, mark in _ORDER_MARKS.items():
            for quantity, (label, color) in _QUANTITIES.items():
                axis.loglog(
                    steps,
                    drifts[quantity][family + order],
                    color=color,
                    linestyle="--" if quantity == "linear" else "-",
                    marker=mark,
                    markersize=4,
                    linewidth=1.0,
                    label=f"{label}, order {order}" if family == "CG" else None,
                )
        axis.set(xlabel="step size h (s)", title=title)
    axes[0].set_ylabel("drift at t = 1 s")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    _plots.save(figure, path)


def long_drift(runs: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    """Figs. 7 and 8: drifts over 200 s, methods of order 3 above, of order 4 below."""
    figure, axes = plt.subplots(2, 3, figsize=(10.5, 5.8), sharex=True)
    labels = ("change of the kinetic energy (J)", "drift of the momentum (kg m/s)",
              "drift of the angular momentum (kg m²/s)")  # fmt: skip
    for row, order in zip(axes, "34", strict=True):
        for axis, quantity, label in zip(row, _QUANTITIES, labels, strict=True):
            for family, color in _COLORS.items():
                run = runs[family + order]
                axis.plot(
                    run["t"],
                    run[quantity],
                    color=color,
                    linestyle=_LINES[family],
                    linewidth=1.2,
                    label=family + order,
                )
            axis.set_title(label, fontsize=9)
            axis.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
        row[0].legend()
    for axis in axes[1]:
        axis.set_xlabel("t (s)")
    _plots.save(figure, path)


def work_precision(work: dict[str, dict], path: Path) -> None:
    """Error of the base's position after 1 s against evaluations of the forward dynamics."""
    figure, axis = plt.subplots(figsize=(6.5, 4.6))
    for method, row in work.items():
        family, order = method[:2], method[2]
        if method == "CF2":
            continue  # The same method as CG2.
        evaluations = np.asarray(row["steps"]) * row["forward_dynamics_per_step"]
        axis.loglog(
            evaluations,
            row["error_m"],
            color=_COLORS[family],
            linestyle=_LINES[family],
            marker=_ORDER_MARKS[order],
            markersize=4,
            linewidth=1.0,
            label="CG2 = CF2" if method == "CG2" else method,
        )
    axis.set(
        xlabel="evaluations of the forward dynamics",
        ylabel="error of the base's position at t = 1 s (m)",
    )
    axis.legend(ncols=2)
    _plots.save(figure, path)
