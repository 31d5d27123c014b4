"""Tables of the experiment in Markdown."""

import itertools

import numpy as np

from experiments._implicit_formulations.cases import CASES

_NO_VALUE = ""


def _headers(results: dict) -> list[tuple[str, str]]:
    return [(name, rule) for rule in _rules(results) for name in results if rule in results[name]]


def _rules(results: dict) -> list[str]:
    return list(dict.fromkeys(rule for rules in results.values() for rule in rules))


def _failures(figures: dict) -> dict[float, str]:
    return {
        failure["h"]: f"{'singular' if failure['singular'] else 'fails'} at {failure['t']:.3g} s"
        for failure in figures["failed"]
    }


def _table(results: dict, key: str, shown: str, columns: list[tuple[str, str]]) -> str:
    sizes = max((results[n][r]["h"] for n, r in columns), key=len)
    lines = [
        "| h (s) | " + " | ".join(f"{rule}: {name}" for name, rule in columns) + " |",
        "|---:" * (1 + len(columns)) + "|",
    ]
    for i, h in enumerate(sizes):
        cells = []
        for name, rule in columns:
            figures = results[name][rule]
            value = figures[key][i] if i < len(figures["h"]) else _NO_VALUE
            cells.append(
                _failures(figures).get(h, "")
                if value is None
                else value
                if isinstance(value, str)
                else shown.format(value)
            )
        lines.append(f"| {h:.3g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def of_case(name: str, results: dict) -> str:
    """Errors, orders, iterations and costs of a step."""
    columns = _headers(results)
    # T in the matrix changes no error.
    without = [c for c in columns if "with T" not in c[1]]
    parts = [
        f"\n## {name}",
        f"error ({CASES[name].unit})",
        _table(results, "error", "{:.1e}", without),
        "observed orders",
        *(
            f"{rule}, {formulation}: "
            + " ".join(
                "–" if order is None else f"{order:.2f}"
                for order in results[formulation][rule]["observed_order"]
            )
            for formulation, rule in without
        ),
        "Newton iterations a step",
        _table(results, "iterations", "{:.2f}", columns),
        "CPU time of a step (µs)",
        _table(results, "step_us", "{:.1f}", without),
    ]
    return "\n\n".join(parts)


# Errors (m) at which the paper compares costs, or that all formulations reach.
_ACCURACIES = {
    "heavy top": 1e-4,
    "constrained heavy top": 1e-4,
    "rotor": 1e-6,
    "slider-crank": 1e-4,
    "Puma 560": 1e-5,
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


def of_rest(results: dict) -> str:
    """Costs of an accuracy and what the time histories give."""
    lines = ["\n## CPU time to an error"]
    for name, reached in results["work"].items():
        lines.append(f"\n{name}, {reached['error']:g} {CASES[name].unit}")
        lines += [
            f"  {key}: " + ("–" if seconds is None else f"{seconds:.3g} s")
            for key, seconds in reached["cpu_s"].items()
        ]
    top, crank, puma = (
        results[key] for key in ("heavy_top_motion", "slider_crank_motion", "puma_motion")
    )
    return "\n".join(
        [
            *lines,
            "\n## Time histories\n",
            f"heavy top: deviation at 1 s {top['deviation_m']:.3g} m,"
            f" RV - EP up to 0.8 s {top['RV_minus_EP_m']:.3g} m",
            *(
                f"slider-crank, {name}: s(5 s) = {crank[name]['s_at_5_s']:.7f} m,"
                f" error {crank[name]['error_m']:.3g} m"
                for name in ("pivot", "mid-crank")
            ),
            f"the readings differ by {crank['readings_differ_by_m']:.4g} m",
            f"Puma 560: error {puma['error_rad']:.3g} rad,"
            f" {puma['from_command_rad']:.3g} rad from the command",
        ]
    )
