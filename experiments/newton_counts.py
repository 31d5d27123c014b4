"""[S3] Tables 4, 5 and 7: Newton iterations a step of generalized-α, by the rule behind them."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import lie_jax
from experiments import _report, newton_rule
from experiments._loops import run
from models import heavy_top, rotor

RV, EP, RXYZ = "RV", "EP", "Rxyz"
FORMULATIONS = {
    RV: lie_jax.R3SO3(coordinates="rotation_vector"),
    EP: lie_jax.EulerParameters(normalized=False),
    RXYZ: lie_jax.TaitBryan(),
}


class Column(NamedTuple):
    """A column of a table: the system, how Newton's method works, and the paper's entries.

    `paper` has None where the paper has a dash. `other` are the averages of the code behind the
    paper with this rule, where they are known: an independent check of ours, to three digits.
    """

    build: Callable
    options: dict
    seconds: float
    paper: dict[float, float | None]
    other: dict[float, float]


def _halved(first: float, values, start: int = 0) -> dict:
    return {first / 2**k: value for k, value in enumerate(values, start)}


def _top(formulation: str, constrained: bool = False) -> Callable:
    return lambda: heavy_top.build(FORMULATIONS[formulation], constrained=constrained)


def _rotor(formulation: str) -> Callable:
    return lambda: rotor.build(FORMULATIONS[formulation])  # pyright: ignore[reportArgumentType]


_OMITTED = {"tangent_operator": False}
COLUMNS = {
    ("4", RXYZ): Column(
        _top(RXYZ), _OMITTED, 1.0,
        _halved(1e-3, [None, None, None, None, 2.36, 2.09, 2.01, 1.96]),
        _halved(1e-3, [2.357, 2.088, 2.012, 1.963], 4),
    ),
    ("4", RV): Column(
        _top(RV), _OMITTED, 1.0,
        _halved(1e-3, [1.96, 1.9, 1.8, 1.6, 1.0, 1.0, 1.0, 1.0]),
        _halved(1e-3, [1.958, 1.903, 1.803, 1.595, 1.0, 1.0, 1.0, 1.0]),
    ),
    ("4", EP): Column(
        _top(EP), _OMITTED, 1.0,
        _halved(1e-3, [3.0, 2.52, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]),
        _halved(1e-3, [3.0, 2.522, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]),
    ),
    ("5", "with T, full"): Column(
        _top(RV, True), {}, 1.0,
        _halved(2.5e-3, [3.0, 2.41, 2.0, 2.0, 2.0, 2.0, 2.0]),
        _halved(2.5e-3, [2.998, 2.406, 2.0, 2.0, 2.0, 2.0, 2.0]),
    ),
    ("5", "without T, full"): Column(
        _top(RV, True), _OMITTED, 1.0,
        _halved(2.5e-3, [8.98, 6.0, 4.86, 4.0, 3.0, 2.75, 2.0]),
        _halved(2.5e-3, [8.975, 5.995, 4.856, 4.0, 3.0, 2.750, 2.0]),
    ),
    ("5", "without T, modified"): Column(
        _top(RV, True), _OMITTED | {"newton": "modified"}, 1.0,
        _halved(2.5e-3, [11.99, 11.94, 10.0, 9.25, 8.79, 8.55, 8.37]),
        _halved(2.5e-3, [11.992, 11.938, 9.997, 9.248, 8.794, 8.549, 8.368]),
    ),
    ("7", RXYZ): Column(
        _rotor(RXYZ), _OMITTED, 4.0,
        _halved(5e-5, [3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.23]),
        _halved(5e-5, [3.0, 3.0, 3.0]),
    ),
    ("7", RV): Column(
        _rotor(RV), _OMITTED, 4.0,
        _halved(5e-5, [2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        _halved(5e-5, [2.001, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ),
    ("7", EP): Column(
        _rotor(EP), _OMITTED, 4.0,
        _halved(5e-5, [None, None, None, 3.17, 3.0, 2.81, 2.0, 2.0, 2.0, 2.0]),
        _halved(5e-5, [3.173], 3),
    ),
}  # fmt: skip
# Runs of more steps end after so many seconds instead.
_STEPS, _SHORT = 700_000, 0.1


class Count(NamedTuple):
    """Iterations a step until `end_s`, where the run ended, and whether Newton's method failed."""

    average: float
    end_s: float
    failed: bool


def count(column: Column, h: float) -> Count:
    """The average of one entry."""
    seconds = column.seconds if column.seconds / h < _STEPS else _SHORT
    steps = round(seconds / h)
    integrator = newton_rule.GeneralizedAlpha(0.9, **column.options)
    system, state = column.build()
    end = run(system, integrator, state, seconds, steps)
    completed = int(end.completed)
    average = int(end.iterations) / completed if completed else float("nan")
    return Count(average, completed * seconds / steps, completed < steps)


def report(results: dict) -> None:
    """Print the tables, paper and ours side by side."""
    for number in ("4", "5", "7"):
        names = [name for table, name in COLUMNS if table == number]
        rows = (
            (f"{h:.3g}", *(_cell(results[f"{number}, {name}"][f"{h:.3g}"]) for name in names))
            for h in COLUMNS[number, names[0]].paper
        )
        heads = ("h (s)", *(f"{name}: paper, ours" for name in names))
        table = _report.table(heads, rows, left=len(heads))
        print(f"\n[S3] Table {number}\n", *table, sep="\n")


def _cell(entry: dict) -> str:
    paper = "–" if entry["paper"] is None else f"{entry['paper']:g}"
    ours = f"fails at {entry['end_s']:.3g} s" if entry["failed"] else f"{entry['ours']:.3f}"
    return f"{paper}, {ours}"


def main(folder: Path) -> None:
    """Count, print the tables and write the numbers."""
    results = {
        f"{table}, {name}": {
            f"{h:.3g}": {
                "paper": paper,
                "other_code": column.other.get(h),
                "ours": (found := count(column, h)).average,
                "end_s": found.end_s,
                "failed": found.failed,
            }
            for h, paper in column.paper.items()
        }
        for (table, name), column in COLUMNS.items()
    }
    _report.write_json(folder / "results.json", results)
    report(results)
