"""Tables of the experiment in Markdown, as docs/implicit_formulations.md has them."""

import itertools
from collections.abc import Callable

import numpy as np

from experiments import _report
from experiments._implicit_formulations.cases import CASES


def _columns(results: dict) -> list[tuple[str, str]]:
    rules = dict.fromkeys(rule for of_rules in results.values() for rule in of_rules)
    return [(name, rule) for rule in rules for name in results if rule in results[name]]


def _failure(figures: dict, h: float) -> str:
    for failure in figures["failed"]:
        if failure["h"] == h:
            return f"{'singular' if failure['singular'] else 'fails'}, {failure['t']:.2g} s"
    return ""


def _table(results: dict, columns: list[tuple[str, str]], cell: Callable) -> str:
    """One line for each step size; `cell(figures, i)` is what a column shows where it has not
    failed.
    """
    series = [results[name][rule] for name, rule in columns]
    sizes = max((figures["h"] for figures in series), key=len)
    rows = (
        (_short(h), *("" if i >= len(f["h"]) else _failure(f, h) or cell(f, i) for f in series))
        for i, h in enumerate(sizes)
    )
    heads = ("h (s)", *(f"{rule}: {name}" for name, rule in columns))
    return "\n".join(_report.table(heads, rows, left=0))


def _short(value: float) -> str:
    """Three digits, powers of ten without a leading zero."""
    return f"{value:.3g}".replace("e-0", "e-")


def _error(figures: dict, i: int) -> str:
    return f"{figures['error'][i]:.1e}".replace("e-0", "e-").replace("e+00", "")


def of_case(name: str, results: dict) -> str:
    """Errors with Newton iterations, orders, and costs of a step."""
    columns = _columns(results)
    # T in the matrix changes no error.
    without = [column for column in columns if "with T" not in column[1]]
    with_t = [column for column in columns if "with T" in column[1]]
    parts = [
        f"## {name}",
        f"Error ({CASES[name].unit}), Newton iterations a step:",
        _table(
            results,
            without,
            lambda figures, i: f"{_error(figures, i)}, {figures['iterations'][i]:.2f}",
        ),
    ]
    if with_t:
        parts += [
            "Newton iterations a step with T in the matrix:",
            _table(results, with_t, lambda figures, i: f"{figures['iterations'][i]:.2f}"),
        ]
    parts += [
        "Observed orders between these step sizes:",
        "\n".join(
            f"- {rule}, {formulation}: " + _orders(results[formulation][rule])
            for formulation, rule in without
        ),
        "CPU time of a step (µs):",
        _table(results, without, lambda figures, i: f"{figures['step_us'][i]:.1f}"),
    ]
    return "\n\n".join(parts) + "\n"


def _orders(figures: dict) -> str:
    return ", ".join("–" if x is None else f"{x:.2f}" for x in figures["observed_order"])


# Errors at which the paper compares costs, or others that all formulations reach (m or rad).
_ACCURACIES = {
    "heavy top": 1e-4,
    "constrained heavy top": 1e-4,
    "rotor": 1e-5,
    "slider-crank": 1e-4,
    "Puma 560": 1e-6,
}


def work(cases: dict) -> dict[str, dict]:
    """CPU time (s) to reach an error, interpolated between the steps that were measured.

    None if no step was accurate enough, or the largest one that did not fail already was.
    """
    return {
        name: {
            "error": _ACCURACIES[name],
            "cpu_s": {
                f"{formulation}, {rule}": _seconds_to_reach(
                    figures, _ACCURACIES[name], CASES[name].seconds
                )
                for formulation, rules in results.items()
                for rule, figures in rules.items()
            },
        }
        for name, results in cases.items()
    }


def _seconds_to_reach(figures: dict, error: float, duration: float) -> float | None:
    rows = [
        (e, duration / h * cost * 1e-6)
        for h, e, cost in zip(figures["h"], figures["error"], figures["step_us"], strict=True)
        if e is not None and cost is not None
    ]
    for (coarse, less), (fine, more) in itertools.pairwise(rows):
        if fine <= error < coarse:
            fraction = np.log(coarse / error) / np.log(coarse / fine)
            return float(less * (more / less) ** fraction)
    return None


def of_work(reached: dict) -> str:
    """CPU time to an accuracy."""
    lines = [
        "## CPU time to an error\n",
        "| | error | formulation, rule: CPU time (ms) |",
        "|---|---:|---|",
    ]
    for name, figures in reached.items():
        times = "; ".join(
            f"{key}: {'–' if seconds is None else f'{1e3 * seconds:.3g}'}"
            for key, seconds in figures["cpu_s"].items()
            if "with T" not in key
        )
        lines.append(_report.row((name, f"{_short(figures['error'])} {CASES[name].unit}", times)))
    return "\n".join(lines) + "\n"


def of_motions(results: dict) -> str:
    """Results of the time histories."""
    top, crank, puma = (
        results[key] for key in ("heavy_top_motion", "slider_crank_motion", "puma_motion")
    )
    return "\n".join(
        [
            "## Time histories\n",
            f"- heavy top: deviation at 1 s {top['deviation_m']:.3g} m,"
            f" RV from EP up to 0.8 s {top['RV_minus_EP_m']:.3g} m",
            *(
                f"- slider-crank, {name}: s(5 s) = {crank[name]['s_at_5_s']:.7f} m,"
                f" error {crank[name]['error_m']:.3g} m"
                for name in ("pivot", "mid-crank")
            ),
            f"- the readings differ by {crank['readings_differ_by_m']:.4g} m",
            f"- Puma 560: error {puma['error_rad']:.3g} rad,"
            f" {puma['from_command_rad']:.3g} rad from the command",
        ]
    )
