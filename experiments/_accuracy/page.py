"""The measured errors as a page of Markdown."""

import math
from collections.abc import Iterator
from typing import Any

from experiments import _report
from experiments._accuracy import golden_values, inputs, truth, verdict
from experiments._accuracy.verdict import ORDERS, OURS, PRECISIONS

_LIBRARIES = {
    "float64": ("lie_jax", "jaxlie", "Pinocchio", "GTSAM", "SciPy"),
    "float32": ("lie_jax", "jaxlie"),
}

# Below this, errors are those of the exact values: about the step of their differences.
_EXACT = 100 * float(truth.STEP)

_INTRODUCTION = """\
# Accuracy

Written by `python -m experiments run accuracy`, with {versions}.

This page measures the errors of the maps on SO(3) and SE(3) ([definitions](theory/groups.md)).
**Error** is the Frobenius norm of the difference from the exact tensor, divided by the norm of the
exact one. Entries are the largest errors over all inputs of a cell. ε is the machine epsilon, 2⁻⁵²
in float64 and 2⁻²³ in float32. Exact values are those at the floating-point numbers that a library
received.
"""

_GOLDEN = """\
## Golden values

The table lists errors in ε against the 30-digit values in `tests/data`, which follow from the
definitions (power series of matrices). D is the derivative along a direction, D² the second one
along the same direction. All functions are regular up to θ = 4.5. dexp⁻¹ is singular at 2π, and its
condition number 1/(1 - θ/2π) is {condition:.0f} at the largest golden angle, {largest:.1f}, where
`log exp` returns the principal logarithm. The error of `bch` is absolute for results shorter
than 1.

| | {header} |
|---|{rules}|
{rows}
"""

_COMPARISON = """\
## Comparison of libraries

**Inputs.** The inputs are {angles} angles in eight intervals, about two coordinate axes and six
random ones. They include angles close to which common implementations switch formulas.
Translations have the length 1, for two of the axes 10. All libraries receive the same numbers;
twists are reordered, and Jacobians of the other trivialisation are evaluated at -x.

**Exact values** are power series in {digits}-digit arithmetic, and their derivatives forward
differences with a step of 1e-30. A logarithm is that of the rotation nearest to the rounded
matrix, or of the normalised rounded quaternion. Where rounding decides on which side of π a
rotation lies, either rotation vector is accepted.

**Derivatives.** *log* is differentiated as d ↦ log(T exp d) at d = 0, the residual of a pose in
optimisation. Its second derivative vanishes at T = I: the error is then relative to the first
derivative, if this is larger. For translation and rotation of *exp* and *log* the larger of the
two errors is listed. lie_jax and jaxlie are differentiated automatically, once in forward and
reverse mode (the larger error counts) and twice in forward over reverse mode. Pinocchio and GTSAM
have analytic Jacobians, which serve as the first derivatives of exp (with the error of dexp) and of
log. jaxlie and Pinocchio have dexp⁻¹ as the Jacobian of log, here at exp(-x), for θ < π only.
Single precision runs without JAX's 64-bit mode.

**Cells** contain the errors of value / first / second derivative. A dash means that the library
lacks the function, NaN that a result is not finite. {missing}**Bold** is best. Errors up to
{value_eps:.0f} ε in values and {derivative_eps:.0f} ε in derivatives are rounding of the last
digits: they count as equal to the best for every library.

**Result.** {result}

### Largest errors

{summary}
"""


def _number(x: float | None) -> str:
    if x is None:
        return "–"
    if not math.isfinite(x):
        return "NaN"
    if x < _EXACT:
        return "0"
    text = f"{x:.1g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{int(exponent)}"
    return text


def _row(cells: dict[str, list | None], precision: str) -> Iterator[str]:
    """Cells of one row, best numbers in bold; None stands for a library without the function."""
    best = []
    for order in range(len(ORDERS)):
        present = [c[order] for c in cells.values() if c is not None and c[order] is not None]
        best.append(max(min(present), verdict.round_off(precision, order)))

    def text(cell: list | None) -> str:
        if cell is None or all(x is None for x in cell):
            return "–"
        numbers = []
        for x, limit in zip(cell, best, strict=True):
            bold = x is not None and math.isfinite(x) and x <= limit
            numbers.append(f"**{_number(x)}**" if bold else _number(x))
        return " / ".join(numbers)

    return map(text, cells.values())


def _table(heading: str, rows: list[tuple[str, dict[str, list | None]]], precision: str) -> str:
    heads = heading, *_LIBRARIES[precision]
    lines = [(label, *_row(cells, precision)) for label, cells in rows]
    return "\n".join(_report.table(heads, lines))


def _largest(table: dict[str, list]) -> list:
    """Largest errors over the intervals in which every library of the row is defined."""
    columns = zip(*(c for i, c in table.items() if i != inputs.BEYOND), strict=True)
    return [None if None in column else max(column) for column in columns]


def _summary(results: dict, precision: str) -> str:
    rows = []
    for name, tables in results["relative_errors"].items():
        cells = {
            library: _largest(tables[library]) if library in tables else None
            for library in _LIBRARIES[precision]
        }
        rows.append((name, cells))
    return _table(f"{precision}, θ < π", rows, precision)


def _details(results: dict, name: str, precision: str) -> str:
    tables = results["relative_errors"][name]
    rows = []
    for interval in tables[OURS]:
        cells = {
            library: tables.get(library, {}).get(interval) for library in _LIBRARIES[precision]
        }
        rows.append((interval, cells))
    return _table(f"{precision}, θ in", rows, precision)


def result(precisions: dict) -> str:
    """The largest errors of lie_jax, and the cells in which it is not best."""
    cells = list(verdict.cells(precisions))
    worse = [cell for cell in cells if not cell.is_best]
    largest = []
    for precision in precisions:
        for order, label in enumerate(ORDERS):
            error = max(c.ours for c in cells if (c.precision, c.order) == (precision, order))
            largest.append(f"{error / verdict.epsilon(precision):.1f} ({label}, {precision})")
    text = f"The largest errors of lie_jax in ε are {', '.join(largest)}. "
    if not worse:
        return text + f"In each of the {len(cells)} cells lie_jax is best or equal to the best."
    text += f"lie_jax is not best in {len(worse)} of {len(cells)} cells:\n"
    for c in worse:
        text += (
            f"\n- {c.map}, {ORDERS[c.order]}, θ in {c.interval}, {c.precision}: "
            f"{_number(c.ours)} against {_number(c.best_other)}"
        )
    return text


def _golden_section(precisions: dict) -> str:
    labels: dict[str, None] = {}
    for group in golden_values.GROUPS:
        labels |= dict.fromkeys(precisions[PRECISIONS[0]]["golden_eps"][group])
    rows = []
    for label in labels:
        numbers = []
        for group in golden_values.GROUPS:
            for precision in PRECISIONS:
                row = precisions[precision]["golden_eps"][group].get(label, [])
                numbers += [f"{x:.1f}" for x in row] + ["–"] * (2 - len(row))
        rows.append(_report.row((label, *numbers)))
    largest = golden_values.largest_angle()
    header = " | ".join(
        f"{group} {precision}, θ {angle}"
        for group in golden_values.GROUPS
        for precision in PRECISIONS
        for angle in ("≤ 4.5", f"= {largest:.1f}")
    )
    return _GOLDEN.format(
        condition=golden_values.condition_number(),
        largest=largest,
        header=header,
        rules="---:|" * 7 + "---:",
        rows="\n".join(rows),
    )


def write(versions: dict[str, str], precisions: dict[str, Any]) -> str:
    """The whole page."""
    absent = precisions[PRECISIONS[0]]["not_installed"]
    missing = f"Not installed, hence –: {', '.join(absent)}. " if absent else ""
    comparison = _COMPARISON.format(
        angles=sum(map(len, inputs.INTERVALS.values())),
        digits=truth.MP.dps,
        missing=missing,
        value_eps=verdict.ROUND_OFF_EPS[0],
        derivative_eps=verdict.ROUND_OFF_EPS[1],
        result=result(precisions),
        summary="\n\n".join(_summary(precisions[p], p) for p in PRECISIONS),
    )
    sections = [
        _INTRODUCTION.format(versions=", ".join(f"{k} {v}" for k, v in versions.items())),
        _golden_section(precisions),
        comparison,
    ]
    for name in precisions[PRECISIONS[0]]["relative_errors"]:
        tables = "\n\n".join(_details(precisions[p], name, p) for p in PRECISIONS)
        sections.append(f"### {name}\n\n{tables}\n")
    return "\n".join(sections)
