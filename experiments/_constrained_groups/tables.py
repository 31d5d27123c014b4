"""Measurements as tables in Markdown."""

from collections.abc import Iterable, Sequence

from experiments import _report
from experiments._constrained_groups.cases import R3SO3_EXP, SE3_EXP


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print("", *_report.table(head, rows), sep="\n")


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.2e}".replace("e-0", "e-").replace("e+0", "e+")


def _order(orders: list[float]) -> str:
    return f"{orders[-1]:.2f}" if orders else ""


def cases(results: dict) -> None:
    """A table of each case: errors at the smallest step, orders, iterations, drifts, costs."""
    for name, case in results.items():
        programs = case["programs"]
        h = next(iter(programs.values()))["h"]
        print(
            f"\n{name}: errors at h = {h[-1]:.3g} s, observed order from {h[-2]:.3g} s on; "
            f"reference run errs by {_number(case['reference_error'])} {case['unit']}"
        )
        head = (
            *("", f"end ({case['unit']})", "order", "all instants", "order", "twists", "order"),
            *("multipliers", "order", "iterations", "drift", "of rates", "µs a step"),
        )
        rows = []
        for program, f in programs.items():
            row = [program]
            for field in ("end", "observed", "twists", "multipliers"):
                forced = f[field][-1] > 0.0
                row += [_number(f[field][-1]), _order(f["order_" + field])] if forced else ["", ""]
            row += [f"{f['iterations'][0]:.2f} to {f['iterations'][-1]:.2f}"]
            row += [_number(max(f["drift"])), _number(f["rate_drift"][-1]), f"{f['step_us']:.1f}"]
            rows.append(row)
        _table(head, rows)
        for program, f in programs.items():
            if f["switched_multipliers"]:
                errors = ", ".join(map(_number, f["switched_multipliers"]))
                orders = ", ".join(f"{p:.2f}" for p in f["order_switched_multipliers"])
                print(f"multipliers after the switch, {program}: {errors}, orders {orders}")
        if "unified" in programs:
            print("\nunified - SE(3) exp:", programs["unified"]["minus_se3"])


def summary(results: dict) -> None:
    """Errors at the smallest step, of all instants, and the cost in units of R³×SO(3) exp's."""
    rows = []
    for name, case in results.items():
        base = case["programs"][R3SO3_EXP]
        for program, f in case["programs"].items():
            row = [f"{name}, h = {f['h'][-1]:.3g} s" if program == SE3_EXP else "", program]
            for field in ("observed", "twists", "multipliers", "rate_drift"):
                row.append(_number(f[field][-1]) if f[field][-1] > 0.0 else "")
            ratio = f["step_us"] / base["step_us"]
            row.append(f"{f['step_us']:.3g} µs" if program == R3SO3_EXP else f"{ratio:.2f}")
            rows.append(row)
    _table(("", "", "position", "twists", "multipliers", "velocity drift", "step"), rows)


def extrapolations(results: dict) -> None:
    """Errors left by extrapolation."""
    head = ("", "t (s)", "smallest h (s)", "as computed", "order", "h² removed", "order")
    rows = []
    for name, case in results.items():
        for t, f in case["extrapolated"].items():
            row = [f"{name} ({case['unit']})", t, f"{f['h'][-1]:.3g}"]
            for column in ("h²", "h³"):
                row += [_number(f["errors"][column][-1]), _order(f["orders"][column])]
            rows.append([*row, _number(f["errors"]["h⁴"][-1]), _number(f["reached"])])
    _table((*head, "h³ removed, too", "reached"), rows)


def energies(results: dict) -> None:
    """Drift of energy."""
    rows = [
        (
            name,
            _number(run["largest_J"]),
            _number(run["slope_J_per_s"]),
            f"{run['end_s']:.3g}",
        )
        for name, run in results["runs"].items()
    ]
    _table(("", "largest change (J)", "slope (J/s)", "reached (s)"), rows)


def survival(results: dict) -> None:
    """Durations of runs."""
    head = ("reached (s)", *(f"h = {h:.3g} s" for h in results["h"]))
    rows = ((name, *(f"{t:.3g}" for t in ends)) for name, ends in results["end_s"].items())
    _table(head, rows)


def noise(results: dict) -> None:
    """Errors of multipliers and twists as steps grow small."""
    columns = {
        f"{field}, {index}": values
        for field in ("multipliers", "twists")
        for index, values in results[field].items()
    }
    rows = (
        (f"{h:.0e}", *(_number(values[i]) for values in columns.values()))
        for i, h in enumerate(results["h"])
    )
    _table(("h (s)", *columns), rows)


def newton(results: dict) -> None:
    """CPU time of a step by the way to the iteration matrix."""
    ways = list(dict.fromkeys(way for case in results.values() for way in case))
    rows = []
    for name, case in results.items():
        cells = (case.get(way) for way in ways)
        rows.append(
            [name, *(f"{c['step_us']:.1f} ({c['iterations']:.2f})" if c else "" for c in cells)]
        )
    _table(("µs a step (iterations)", *ways), rows)
