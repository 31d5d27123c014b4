"""Parts of the experiments on identification: tables, numbers and pictures of repeated fits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import PyTree

import lie_jax
from experiments import _plots

# Half the width of a 95 % interval in standard errors, for the many degrees of freedom here.
QUANTILE = 1.96
EXPECTED = 0.95
RUNS = 200


def numbers(names: Sequence[str], tree: PyTree) -> list[float]:
    """The numbers with these names, as in `MonteCarlo.names`, of a pytree of parameters.

    Not of orientations, whose names are those of coordinates.
    """
    leaves = {
        jax.tree_util.keystr(path, simple=True, separator=".") or "parameter": np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }

    def number(name: str) -> float:
        leaf, _, place = name.partition("[")
        index = tuple(int(i) for i in place.rstrip("]").split(",")) if place else ()
        return float(leaves[leaf][index])

    return [number(name) for name in names]


def rows(
    labels: Sequence[str],
    units: Sequence[str],
    truth: PyTree,
    start: PyTree,
    fit: lie_jax.estimation.Identification,
    repeated: lie_jax.estimation.MonteCarlo,
) -> list[dict[str, Any]]:
    """One row for each number: what a table shows and a JSON file keeps.

    `labels` and `units` of the numbers in the order of `repeated.names`. Over the repeated fits,
    `mean_error` is the mean of (estimate - truth) / standard error and `spread` its standard
    deviation.
    """
    kept = np.asarray(repeated.deviations)[np.asarray(repeated.converged)]
    columns = (
        *(
            numbers(repeated.names, tree)
            for tree in (truth, start, fit.estimates, fit.standard_errors)
        ),
        np.asarray(repeated.coverage).tolist(),
        kept.mean(axis=0).tolist(),
        kept.std(axis=0).tolist(),
    )
    keys = ("truth", "start", "estimate", "standard_error", "coverage", "mean_error", "spread")
    return [
        {"name": name, "unit": unit} | dict(zip(keys, values, strict=True))
        for name, unit, *values in zip(labels, units, *columns, strict=True)
    ]


def pooled(repeated: lie_jax.estimation.MonteCarlo) -> dict[str, Any]:
    """Coverage over all numbers and runs, with its uncertainty.

    `binomial_error` would hold if the numbers of one run did not vary together, `error` is that
    over the runs.
    """
    kept = int(np.sum(np.asarray(repeated.converged)))
    determined = int(np.sum(np.isfinite(np.asarray(repeated.coverage))))
    binomial = np.sqrt(EXPECTED * (1.0 - EXPECTED) / (kept * determined))
    return {
        "coverage": float(repeated.pooled_coverage),
        "error": float(repeated.pooled_coverage_error),
        "binomial_error": float(binomial),
        "runs": len(repeated.converged),
        "converged": kept,
    }


def print_table(found: list[dict[str, Any]], total: dict[str, Any] | None) -> None:
    """Truth, start, estimate, standard error and coverage, and the pooled coverage."""
    print(
        f"\n{'':24}{'truth':>12}{'start':>10}{'estimate':>12}{'std. error':>12}"
        f"{'off (s.e.)':>12}{'coverage':>11}"
    )
    for row in found:
        off = (row["estimate"] - row["truth"]) / row["standard_error"]
        print(
            f"{row['name']:24}{row['truth']:12.5g}{row['start']:10.4g}{row['estimate']:12.5g}"
            f"{row['standard_error']:12.2g}{off:12.2f}{100 * row['coverage']:9.1f} %  {row['unit']}"
        )
    if total:
        print(
            f"pooled coverage {100 * total['coverage']:.1f} ± {100 * total['error']:.1f} % over "
            f"{total['converged']} of {total['runs']} runs that converged (95 % expected; binomial "
            f"error {100 * total['binomial_error']:.1f} %)"
        )


def plot_deviations(
    path: Path, labels: Sequence[str], repeated: lie_jax.estimation.MonteCarlo, title: str
) -> None:
    """Errors of all fits in standard errors against the normal density, and the coverages."""
    kept = np.asarray(repeated.deviations)[np.asarray(repeated.converged)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 0.24 * len(labels) + 2.6))
    bins = np.linspace(-4.0, 4.0, 41)
    left.hist(np.clip(kept.ravel(), -4.0, 4.0), bins, density=True, color=_plots.SKY)
    grid = np.linspace(-4.0, 4.0, 200)
    normal = np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi)
    left.plot(grid, normal, color=_plots.BLACK, label="standard normal")
    for edge in (-QUANTILE, QUANTILE):
        left.axvline(edge, color=_plots.RED, linestyle="--", linewidth=0.9)
    left.set(xlabel="(estimate - truth) / standard error", ylabel="density", title=title)
    left.legend(loc="upper left")
    place = np.arange(len(labels))[::-1]
    error = np.sqrt(EXPECTED * (1.0 - EXPECTED) / len(kept))
    right.axvspan(
        100 * (EXPECTED - 2 * error), 100 * (EXPECTED + 2 * error), color="#eeeeee", zorder=0
    )
    right.axvline(100 * EXPECTED, color=_plots.BLACK, linewidth=0.8)
    right.plot(100 * np.asarray(repeated.coverage), place, "o", color=_plots.BLUE)
    right.set_yticks(place, labels)
    right.set(
        xlabel="coverage of 95 % intervals (%)",
        xlim=(85, 100),
        title=f"{len(kept)} runs; grey: 95 % ± 2 binomial errors",
    )
    _plots.save(figure, path)
