"""Tables of the fifteen systems."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from experiments import _report
from experiments._fifteen_systems.cases import CASES

# A pair that was not run, and one that ended early.
NONE, FAILED = "–", "×"


def best(case: dict) -> tuple[float, str]:
    """Smallest error of a system, and the formulation and method that had it."""
    errors = [
        (run["error"], f"{formulation}, {method}")
        for formulation, methods in case["runs"].items()
        for method, runs in methods.items()
        if not isinstance(runs, str)
        for run in runs
        if run["error"] is not None
    ]
    return min(errors)


def order(runs: list[dict] | str) -> float | None:
    """Order of the last refinement that rounding leaves alone."""
    if isinstance(runs, str):
        return None
    return next((run["order"] for run in reversed(runs) if run["order"] is not None), None)


def step_cost(runs: list[dict]) -> float | None:
    """CPU time of a step (s); None if fewer than two runs came to their end.

    Differences of runs leave out the cost of a call. Where noise of the machine is larger than the
    difference, all of the last run counts.
    """
    known = [run for run in runs if run["error"] is not None]
    if len(known) < 2:
        return None
    first, last = known[0], known[-1]
    cost = (last["cpu_s"] - first["cpu_s"]) / (last["steps"] - first["steps"])
    return cost if cost > 0.0 else last["cpu_s"] / last["steps"]


def error_at(runs: list[dict] | str, cpu_s: float) -> float | None:
    """Error at a CPU time of the steps: that of the nearest run, carried there by its order.

    The smallest error where rounding hides the order; None without two runs.
    """
    if isinstance(runs, str) or (cost := step_cost(runs)) is None:
        return None
    known = [run for run in runs if run["error"] is not None]
    slope = order(runs)
    if slope is None:
        return min(run["error"] for run in known)
    steps = cpu_s / cost
    run = min(known, key=lambda r: abs(np.log(r["steps"] / steps)))
    return float(run["error"] * (run["steps"] / steps) ** slope)


def equal_cost(case: dict, method: str) -> dict[str, float | None]:
    """Errors of all formulations at the CPU time of the finest run of R3SO3."""
    runs = case["runs"]["R3SO3"][method]
    cost = step_cost(runs)
    assert cost is not None, method
    cpu = cost * runs[-1]["steps"]
    return {name: error_at(methods[method], cpu) for name, methods in case["runs"].items()}


def lines(results: dict) -> Iterator[str]:
    """All tables of the page."""
    drift, results = results["drift"], results["systems"]
    methods = list(next(iter(results.values()))["runs"]["R3SO3"])
    yield "\nOrders in R3SO3, the smallest error of all runs, the derivative"
    heads = ("nr", "system", *methods, "smallest error", "of", "derivative")
    rows = (
        (CASES[name].number, name, *(_order(case["runs"]["R3SO3"][m]) for m in methods),
         f"{best(case)[0]:.1e}", best(case)[1], f"{case['gradient']:.0e}")
        for name, case in results.items()
    )  # fmt: skip
    yield from _report.table(heads, rows, left=2)
    for method in ("RKMK rk4", "generalized-α"):
        yield f"\n{method}: errors at the CPU time of R3SO3's finest run"
        rows = (_costs(name, case, method) for name, case in results.items())
        formulations = list(next(iter(results.values()))["runs"])
        yield from _report.table(("nr", "system", *formulations), rows, left=2)
    yield "\nNewton iterations a step of generalized-α, fewest steps"
    rows = (
        (CASES[name].number, name,
         *(_newton(m["generalized-α"]) for m in case["runs"].values()))
        for name, case in results.items()
    )  # fmt: skip
    yield from _report.table(("nr", "system", *formulations), rows, left=2)
    yield "\nOpen constraints (m, rad) and relative change of energy, fewest steps, R3SO3"
    rows = (
        (CASES[name].number, name, *(_drift(case["runs"]["R3SO3"][m], name) for m in methods))
        for name, case in results.items()
    )
    yield from _report.table(("nr", "system", *methods), rows, left=2)
    yield "\nOpen constraints of RK4 without projection (m)"
    rows = (
        (name, *(FAILED if gap is None else f"{gap:.0e}" for gap in gaps.values()))
        for name, gaps in drift.items()
    )
    yield from _report.table(("system", *next(iter(drift.values()))), rows)


def _order(runs: list[dict] | str) -> str:
    if isinstance(runs, str):
        return NONE
    last = order(runs)
    if last is None:
        return FAILED if all(run["error"] is None for run in runs) else "rounding"
    return f"{last:.2f}"


def _costs(name: str, case: dict, method: str) -> Sequence[str]:
    errors = equal_cost(case, method)
    cells = (
        (NONE if isinstance(case["runs"][f][method], str) else FAILED) if e is None else f"{e:.0e}"
        for f, e in errors.items()
    )
    return (CASES[name].number, name, *cells)


def _newton(runs: list[dict] | str) -> str:
    if isinstance(runs, str):
        return NONE
    return FAILED if runs[0]["error"] is None else f"{runs[0]['iterations']:.1f}"


def _drift(runs: Any, name: str) -> str:
    if isinstance(runs, str):
        return NONE
    run = runs[0]
    if run["error"] is None:
        return FAILED
    energy = "" if CASES[name].changes_energy else f"{run['energy']:.0e}"
    gap = "" if run["constraint"] == 0.0 else f"{run['constraint']:.0e}"
    return "; ".join(part for part in (gap, energy) if part) or NONE
