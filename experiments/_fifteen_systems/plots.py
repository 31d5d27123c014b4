"""Pictures of the fifteen systems: error against CPU time, a panel each."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

from experiments import _plots
from experiments._fifteen_systems.tables import step_cost
from lie_jax.viz.style import COLORS

Series = tuple[str, list[dict], str, str]


def integrators(results: dict, path: Path) -> None:
    """All integrators on R³ × SO(3)."""

    def series(case: dict) -> Iterable[Series]:
        for k, (label, runs) in enumerate(case["runs"]["R3SO3"].items()):
            # Seven colours for eight methods.
            style = "o-" if k < len(COLORS) else "s--"
            yield label, runs, COLORS[k % len(COLORS)], style

    _panels(results, series, path)


def formulations(results: dict, path: Path) -> None:
    """All formulations with an explicit and an implicit method."""

    def series(case: dict) -> Iterable[Series]:
        for method, style in (("RKMK rk4", "o-"), ("generalized-α", "s--")):
            for color, (name, methods) in zip(COLORS, case["runs"].items(), strict=False):
                yield f"{name}, {method}", methods[method], color, style

    _panels(results, series, path)


def _panels(results: dict, series: Any, path: Path) -> None:
    figure, axes = plt.subplots(4, 4, figsize=(13.0, 12.0), layout="constrained")
    for axis, (name, case) in zip(axes.flat, results.items(), strict=False):
        for label, runs, color, style in series(case):
            if isinstance(runs, str) or (cost := step_cost(runs)) is None:
                continue
            known = [run for run in runs if run["error"] is not None]
            time = [1e3 * cost * run["steps"] for run in known]
            error = np.maximum([run["error"] for run in known], 1e-16)
            axis.loglog(time, error, style, color=color, label=label, markersize=3, linewidth=1)
        axis.set_title(name, fontsize=9)
        # Between powers of ten their numbers would lie on each other.
        axis.xaxis.set_minor_formatter(NullFormatter())
    for axis in axes[-1]:
        axis.set_xlabel("CPU time of the steps (ms)")
    for axis in axes[:, 0]:
        axis.set_ylabel("error")
    # Lines of one panel stand for all; some panels lack a few.
    lines = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4, fontsize=8)
    _plots.save(figure, path)
