"""Tables and a plot of the errors."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

from experiments import _plots, _report

# What is measured, by its name in the results, and in words.
MEASURES = {
    "gradient": "reverse mode against differences",
    "modes": "forward against reverse mode",
    "hessian": "Hessian-vector products against differences of gradients",
    "single": "gradient in single precision",
}
_SCALE = LogNorm(1e-13, 1e-6)
Errors = dict[str, dict[str, float | None]]


def worst(errors: dict[str, float | None]) -> float:
    """The largest one of all kinds that have an effect; NaN if one of them is."""
    return float(np.max([error for error in errors.values() if error is not None]))


def line(name: str, found: Errors) -> str:
    """One case in one line."""
    numbers = "".join(f"{measure} {worst(errors):8.1e}  " for measure, errors in found.items())
    return f"{name:62}{numbers}"


def kinds(results: dict[str, Errors]) -> list[str]:
    """All kinds of parameters."""
    return sorted({kind for found in results.values() for kind in found["gradient"]})


def markdown(results: dict[str, Errors]) -> str:
    """All cases, and by kind of parameter the worst of all cases."""
    heads = list(MEASURES)
    cases = (
        (name, *(f"{worst(found[m]):.0e}" if m in found else "" for m in heads))
        for name, found in results.items()
    )
    rows = []
    for kind in kinds(results):
        numbers = []
        for m in heads:
            errors = {name: found[m].get(kind) for name, found in results.items() if m in found}
            measured = any(error is not None for error in errors.values())
            numbers.append(f"{worst(errors):.0e}" if measured else "")
        rows.append((kind, *numbers))
    # Names of cases hold the sign between two columns.
    by_case = _report.table(("integrator", "formulation", *heads), cases, left=2)
    return "\n".join([*by_case, "", *_report.table(("kind", *heads), rows), ""])


def heat_map(results: dict[str, Errors], path: Path) -> None:
    """Gradients and Hessian-vector products: cases down, kinds of parameters across."""
    columns = kinds(results)
    figure, axes = plt.subplots(1, 2, figsize=(13, 2 + 0.2 * len(results)), sharey=True)
    for ax, measure in zip(axes, ("gradient", "hessian"), strict=True):
        table = [
            [
                np.nan if (e := found[measure].get(kind)) is None else max(e, 1e-16)
                for kind in columns
            ]
            for found in results.values()
        ]
        ax.imshow(np.asarray(table), norm=_SCALE, cmap="viridis", aspect="auto")
        ax.set_xticks(range(len(columns)), columns, rotation=60, ha="right")
        ax.set_title(MEASURES[measure], fontsize=10)
        ax.grid(visible=False)
    axes[0].set_yticks(range(len(results)), list(results), fontsize=7)
    figure.colorbar(axes[0].images[0], ax=axes, label="relative error", shrink=0.6)
    _plots.save(figure, path)
