"""Three bodies of [S1] Sec. VI: Tables V to X and Figs. 4 to 8 for all nine methods."""

import math
from pathlib import Path

import numpy as np

from experiments import _report
from experiments._park_chung import figures, operations, printed
from experiments._park_chung.runs import LONG_STEP, Runs, long_run

QUANTITIES = ("energy", "linear", "angular")
# Steps in one second of the runs that show error against work.
STEP_COUNTS = (5, 10, 20, 40, 80, 160, 320, 640, 1280)
EQUAL_ERROR = 1e-10


def same_digits(ours: float, theirs: float) -> bool:
    """Whether two numbers have the same five printed digits."""
    return f"{ours:.4e}" == f"{theirs:.4e}"


def tables_of_drifts(runs: dict[str, Runs]) -> dict:
    """Tables VI to VIII, ours and the paper's, and what differs; prints them."""
    steps = [round(1.0 / h) for h in printed.STEP_SIZES]
    found = {method: [runs[method].drifts(n) for n in steps] for method in printed.METHODS}
    drifts = {
        quantity: {method: [d[i] for d in rows] for method, rows in found.items()}
        for i, quantity in enumerate(QUANTITIES)
    }
    differing = []
    for (number, (title, paper)), quantity in zip(printed.DRIFTS.items(), QUANTITIES, strict=True):
        print(f"\nTable {number}: drift of the {title} at t = 1 s; below, as printed in [S1]")
        print("      " + "".join(f"     h = {h:<6g}" for h in printed.STEP_SIZES))
        for method in printed.METHODS:
            rows = drifts[quantity][method], paper[method]
            print(f"{method:6}" + "".join(f"{d:15.4e}" for d in rows[0]))
            print(f"{'':6}" + "".join(f"{d:15.4e}" for d in rows[1]))
            for h, ours, theirs in zip(printed.STEP_SIZES, *rows, strict=True):
                if not same_digits(ours, theirs):
                    place = {"table": number, "method": method, "h": h}
                    exact = printed.EXTENDED.get((number, method, h), math.nan)
                    differing.append(
                        place | {"ours": ours, "paper": theirs, "extended_precision": exact}
                    )
    total = 3 * len(printed.METHODS) * len(printed.STEP_SIZES)
    print(f"\n{total - len(differing)} of {total} entries agree in all printed digits; the others:")
    for entry in differing:
        exact = entry["extended_precision"]
        print(
            f"  Table {entry['table']}, {entry['method']}, h = {entry['h']:g}: {entry['ours']:.4e} "
            f"against {entry['paper']:.4e}, exactly {exact:.4e}"
        )
    return {"h": printed.STEP_SIZES, "drift": drifts, "differing": differing, "entries": total}


def tables_of_operations() -> dict:
    """Tables V and X: calls and operations of one step, ours and the paper's; prints them."""
    result = {}
    print("\nTables V and X: one step with N joints; operations without forward dynamics")
    print("method  FDyn exp dexpinv      paper   N   add  mult div sqrt trig      paper")
    for method in printed.METHODS:
        ours = operations.calls(method)
        table = dict(zip(printed.CALLS, printed.TABLE_X[method], strict=True))
        theirs = {name: table[name] for name in ours}
        entry = {"calls": ours, "calls_paper": theirs}
        for joints in (2, 20):
            counted = operations.of_step(method, joints)
            paper = printed.table_v(method, joints)
            entry[f"operations_{joints}"] = dict(zip(printed.OPERATIONS, counted, strict=True))
            entry[f"operations_{joints}_paper"] = dict(zip(printed.OPERATIONS, paper, strict=True))
            print(
                f"{method:6} {tuple(ours.values())!s:>14} {tuple(theirs.values())!s:>14} "
                f"{joints:3} {counted!s:>28} {paper!s:>24}"
            )
        result[method] = entry
    dynamics = {n: operations.of_forward_dynamics(n) for n in (2, 20)}
    print(f"forward dynamics once: {dynamics[2]} for 2 joints, {dynamics[20]} for 20")
    return {
        "methods": result,
        "forward_dynamics": {
            n: dict(zip(printed.OPERATIONS, counted, strict=True))
            for n, counted in dynamics.items()
        },
        "table_ix_follows_from_table_v": printed.table_ix_follows_from_table_v(),
        "table_v_follows_from_table_x": all(
            printed.operations_of_calls(method, n) == printed.table_v(method, n)
            for method in printed.METHODS
            for n in (2, 20)
        ),
    }


def work(runs: dict[str, Runs]) -> dict[str, dict]:
    """Table IX at equal accuracy: steps, evaluations and time for one error; prints it."""
    result = {}
    print(f"\nTable IX at equal accuracy: error of the base's position of {EQUAL_ERROR:g} m at 1 s")
    print("method   steps  forward dynamics  operations  microseconds a step, measured here")
    dynamics = sum(operations.of_forward_dynamics(2))
    for method in printed.METHODS:
        errors = [runs[method].error(n) for n in STEP_COUNTS]
        steps = _steps_for(EQUAL_ERROR, errors, int(method[2]))
        evaluations = operations.calls(method)["FDyn"]
        each = sum(operations.of_step(method, 2)) + evaluations * dynamics
        seconds = runs[method].seconds_per_step()
        result[method] = {
            "steps": STEP_COUNTS,
            "error_m": errors,
            "forward_dynamics_per_step": evaluations,
            "seconds_per_step": seconds,
            "steps_for_equal_error": steps,
            "operations_per_step": each,
        }
        print(
            f"{method:6} {steps:7.0f} {steps * evaluations:13.0f} {steps * each:15.3g} "
            f"{1e6 * seconds:10.2f}"
        )
    return result


def _steps_for(error: float, errors: list[float], order: int) -> float:
    """Number of steps of an error, along the straight line through the last point above it."""
    last = max(i for i, e in enumerate(errors) if e > error)
    return STEP_COUNTS[last] * (errors[last] / error) ** (1.0 / order)


def long_runs() -> dict[str, dict[str, np.ndarray]]:
    """Drifts over 200 s of the methods of orders 3 and 4; prints the last ones."""
    result = {}
    print(f"\nFigs. 7 and 8: at t = 200 s with h = {LONG_STEP:g} s")
    print("method  change of energy  momentum drift  angular momentum drift")
    for method in printed.METHODS:
        if method[2] != "2":
            run = result[method] = long_run(method)
            last = (run[quantity][-1] for quantity in QUANTITIES)
            print(f"{method:6}" + "".join(f"{value:17.4e}" for value in last))
    return result


def main(folder: Path) -> None:
    """Make all tables and figures; print the tables, write numbers and plots."""
    runs = {method: Runs(method) for method in printed.METHODS}
    drifts = tables_of_drifts(runs)
    counted = tables_of_operations()
    long = long_runs()
    equal = work(runs)
    figures.drift_at_one_second(drifts["drift"], printed.STEP_SIZES, folder / "drift.png")
    figures.long_drift(long, folder / "long_drift.png")
    figures.work_precision(equal, folder / "work.png")
    written = {
        "drifts": drifts,
        "operations": counted,
        "long_run": {
            method: {name: values[::40].tolist() for name, values in run.items()}
            for method, run in long.items()
        },
        "work": equal,
    }
    _report.write_json(folder / "results.json", written)
