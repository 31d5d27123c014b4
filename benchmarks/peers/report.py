"""The figures as numbers, as a table and as a plot."""

import json
import math
import platform
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._processes import MODES
from benchmarks.peers import rows
from benchmarks.peers.ours import GRADIENT_ERROR
from benchmarks.peers.turns import OURS, Key, Measured

AS_IT_COMES, RAISED = MODES
# From this number of links on the growth is fitted.
LONG_CHAIN = 64


def growth(costs: dict[int, float]) -> float:
    """The exponent p of a cost that grows as Nᵖ, by least squares."""
    sizes = np.log(np.asarray(list(costs), float))
    return float(np.polyfit(sizes, np.log(np.asarray(list(costs.values()))), 1)[0])


def _distance(ours: list[float], theirs: list[float]) -> float:
    return math.dist(ours, theirs) if len(ours) == len(theirs) else math.inf


def _ratio(ours: Measured, theirs: Measured, which: int = 0) -> float:
    # What else the machine does slows both programs of a round alike.
    pairs = zip(ours.costs, theirs.costs, strict=True)
    return statistics.median(own[0] / other[which] for own, other in pairs)


def _compared(row: rows.Row, measured: dict[Key, Measured]) -> dict[str, Any]:
    mine = {key.mode: m for key, m in measured.items() if key.library == OURS}
    theirs = {key.mode: m for key, m in measured.items() if key.library == row.peer}
    entry: dict[str, Any] = row._asdict()
    missing = [m.missing for m in theirs.values() if not m.costs] + [
        f"ours: {m.missing}" for m in mine.values() if not m.costs
    ]
    if missing or not theirs:
        return entry | {"missing": missing[0] if missing else "not measured"}
    # JAX programs in the same mode; others have but one.
    pairs = {mode: (m, theirs.get(mode, theirs[RAISED])) for mode, m in mine.items()}
    apart = max(_distance(m.about["end"], other.about["end"]) for m, other in pairs.values())
    own, other = pairs[RAISED]
    entry |= {
        "ours": {mode: m.median() for mode, m in mine.items()},
        "theirs": {mode: m.median() for mode, m in theirs.items()},
        "ratio": {mode: _ratio(*pair) for mode, pair in pairs.items()},
        "apart": apart,
        "agrees": apart <= row.agree,
        "detail": {"ours": own.about["detail"], "theirs": other.about["detail"]},
    }
    return entry


def _gradient(case: str, measured: dict[Key, Measured]) -> dict[str, Any]:
    mine = {key.mode: m for key, m in measured.items() if key.library == OURS}
    entry: dict[str, Any] = {
        "title": f"gradient of {rows.GRADIENTS[case]}",
        "against": "own run",
        "target": rows.GRADIENT_TARGET,
        "as_it_comes": None,
    }
    missing = [m.missing for m in mine.values() if not m.costs]
    if missing:
        return entry | {"missing": missing[0]}
    error = max(m.about["detail"][GRADIENT_ERROR] for m in mine.values())
    return entry | {
        "ours": {mode: m.median() for mode, m in mine.items()},
        "theirs": {mode: m.median(1) for mode, m in mine.items()},
        "ratio": {mode: _ratio(m, m, 1) for mode, m in mine.items()},
        "error": error,
        "agrees": error <= rows.GRADIENT_AGREES,
    }


def _chains(groups: dict[str, dict[Key, Measured]]) -> dict[str, dict[int, float]]:
    costs: dict[str, dict[int, float]] = {}
    for case, measured in groups.items():
        for key, m in measured.items():
            if case.startswith("chain-") and m.costs:
                name = key.mode if key.library == OURS else key.library
                costs.setdefault(name, {})[int(case.removeprefix("chain-"))] = m.median()
    return costs


def _machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor()
    return f"{name or platform.machine()}, one core, {platform.system()}"


def numbers(
    groups: dict[str, dict[Key, Measured]],
    left_out: dict[str, str],
    compiled: dict[str, dict[int, float | None]],
    first: dict[str, dict[str, float | None]],
) -> dict[str, Any]:
    """Everything that was measured, ready for JSON."""
    versions = {m.about["version"] for g in groups.values() for m in g.values() if m.costs}
    compared = [
        _compared(row, groups[row.case]) if row.case in groups and row.case not in left_out
        else row._asdict() | {"missing": left_out.get(row.case, "not measured")}
        for row in rows.ROWS
    ]  # fmt: skip
    results = {
        "machine": _machine(),
        "versions": [f"Python {platform.python_version()}", *sorted(versions)],
        "rounds": max((len(m.costs) for g in groups.values() for m in g.values()), default=0),
        "rows": compared,
        "gradients": [_gradient(case, groups[case]) for case in rows.GRADIENTS if case in groups],
        "chains": _chains(groups),
        "compile": compiled,
        "first result": first,
    }
    # Keys of JSON are strings; the table and the plot read what a file would give.
    return json.loads(json.dumps(results))


def _cell(value: float | None, factor: float = 1.0) -> str:
    return "–" if value is None else f"{factor * value:.3g}"


def _verdict(entry: dict[str, Any]) -> tuple[str, str]:
    """Targets, and whether they were reached; in brackets for XLA without settings."""
    target, other = entry["target"], entry["as_it_comes"]
    if target is None:
        return "", ""
    aim = f"{target:g}" if other is None else f"{target:g} ({other:g})"
    ratio = entry.get("ratio", {})
    said = {mode: "yes" if r <= t else "no"
            for mode, r, t in ((RAISED, ratio.get(RAISED), target),
                               (AS_IT_COMES, ratio.get(AS_IT_COMES), other))
            if r is not None and t is not None}  # fmt: skip
    reached = said.get(RAISED, "not measured")
    return aim, reached if AS_IT_COMES not in said else f"{reached} ({said[AS_IT_COMES]})"


def _notes(entry: dict[str, Any]) -> str:
    detail = entry.get("detail", {})
    both = set(detail.get("ours", {})) & set(detail.get("theirs", {}))
    notes = [f"{name}: {detail['ours'][name]:.4g}, {detail['theirs'][name]:.4g}" for name in both]
    return "; ".join(notes)


def _line(entry: dict[str, Any]) -> str:
    aim, reached = _verdict(entry)
    start = f"| {entry['title']} | {entry['against']} |"
    if "missing" in entry:
        return f"{start} – | – | – | – | – | {aim} | {entry['missing']} | | |"
    agree = f"{entry['apart']:.0e} m" if "apart" in entry else f"{entry['error']:.0e}"
    if not entry["agrees"]:
        return f"{start} – | – | – | – | – | {aim} | they do not agree | {agree} | |"
    theirs = entry["theirs"]
    shown = ", ".join(_cell(theirs[mode], 1e6) for mode in MODES if mode in theirs)
    ours = [_cell(entry["ours"].get(mode), 1e6) for mode in MODES]
    ratios = [_cell(entry["ratio"].get(mode)) for mode in MODES]
    cells = [*ours, shown, *ratios, aim, reached, agree, _notes(entry)]
    return f"{start} {' | '.join(cells)} |"


def _own(results: dict[str, Any]) -> list[str]:
    """Rows of figures that have no peer."""
    lines = []
    for mode in MODES:
        costs = {int(n): c for n, c in results["chains"].get(mode, {}).items()}
        tail = {n: c for n, c in costs.items() if n >= LONG_CHAIN}
        used = tail if len(tail) > 1 else costs
        if len(used) > 1:
            power, sizes = growth(used), f"N = {min(used)} to {max(used)}"
            full = max(used) == 1024 and min(used) == LONG_CHAIN
            reached = "yes" if power <= rows.GROWTH_TARGET else "no"
            lines.append(
                f"| growth of a chain's cost, exponent, {sizes} | {mode} | {power:.2f} | "
                f"{rows.GROWTH_TARGET:g} | {reached if full else f'{reached}, for these sizes'} |"
            )
        compiled = {int(n): c for n, c in results["compile"].get(mode, {}).items() if c}
        if len(compiled) > 1:
            low, high = min(compiled), max(compiled)
            ratio = compiled[high] / compiled[low]
            reached = "yes" if ratio <= rows.COMPILE_TARGET else "no"
            lines.append(
                f"| compiling N = {high} / N = {low} ({compiled[high]:.2g} s / {compiled[low]:.2g} "
                f"s) | {mode} | {ratio:.2f} | {rows.COMPILE_TARGET:g} | "
                f"{reached if high == 1024 else f'{reached}, for these sizes'} |"
            )
        first = results["first result"].get(mode, {})
        if first.get("warm"):
            reached = "yes" if first["warm"] <= rows.FIRST_RESULT_TARGET else "no"
            lines.append(
                f"| first result, heavy top, import included, warm cache (s; cold: "
                f"{_cell(first['cold'])}) | {mode} | {first['warm']:.2f} | "
                f"{rows.FIRST_RESULT_TARGET:g} | {reached} |"
            )
    return lines


def table(results: dict[str, Any], quick: bool) -> str:
    """The tables as Markdown."""
    kind = ", a quick run" if quick else ""
    head = ["case", "against", "ours, as it comes (µs)", "ours, raised (µs)", "theirs (µs)"]
    head += ["ratio, as it comes", "ratio, raised", "at most", "reached", "apart"]
    head += ["Newton iterations or steps: ours, theirs"]
    lines = [
        f"{results['machine']}; {', '.join(results['versions'])}; float64, process CPU time, "
        f"medians of {results['rounds']} turns{kind}",
        "",
        f"| {' | '.join(head)} |",
        "|---|---|" + "---:|" * 5 + "---|---|---:|---|",
        *[_line(entry) for entry in results["rows"] + results["gradients"]],
        "",
        "| | mode | measured | at most | reached |",
        "|---|---|---:|---:|---|",
        *_own(results),
    ]
    return "\n".join(lines)


def plot(results: dict[str, Any], path: Path) -> None:
    """Cost of a step against the number of links."""
    from matplotlib import pyplot as plt

    from experiments import _plots

    figure, axes = plt.subplots(figsize=(6.0, 4.0))
    looks = {AS_IT_COMES: ("o--", _plots.SKY), RAISED: ("o-", _plots.BLUE)}
    for name, costs in results["chains"].items():
        mark, colour = looks.get(name, ("s-", _plots.ORANGE))
        sizes = [int(n) for n in costs]
        label = f"lie_jax, {name}" if name in MODES else name
        axes.loglog(sizes, [1e6 * c for c in costs.values()], mark, color=colour, label=label)
    axes.set_xlabel("links N")
    axes.set_ylabel("µs a step")
    axes.set_xticks([4, 16, 64, 256, 1024], labels=["4", "16", "64", "256", "1024"])
    axes.minorticks_off()
    axes.set_title("Chain on ball joints, generalized-α, one core")
    axes.legend()
    _plots.save(figure, path)
