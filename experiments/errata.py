"""Errata of the five papers: printed and corrected formulas against the truth."""

from collections import Counter
from pathlib import Path

from experiments import _report
from experiments._errata import s0, s1, s2, s3, s4
from experiments._errata.erratum import Erratum, Evidence
from experiments._errata.typesetting import typeset

TOPICS = {
    "S0": "Local-global maps",
    "S1": "Explicit methods on groups",
    "S2": "Unified velocities",
    "S3": "Lie group methods for multibody systems",
    "S4": "Exponential and Cayley maps",
}
PAPERS = {"S0": s0.ERRATA, "S1": s1.ERRATA, "S2": s2.ERRATA, "S3": s3.ERRATA, "S4": s4.ERRATA}
Evaluated = dict[str, list[tuple[Erratum, Evidence | None]]]

INTRODUCTION = """\
# Errata

Most formulas of the five [papers](papers.md) behind the project are right: Müller (2022) S0, Park
and Chung (2005) S1, Holzinger, Schöberl and Gerstmayr (2020) S2, Holzinger, Arnold and Gerstmayr
(2024) S3, and Müller (2021) S4. This page lists formulas that are wrong, or that we read as wrong:
{counts}.
Some rows have one cause: four of S0 follow from its (41). Table I(a) of S1 may be wrong only in
the text available to us.

The numbers are computed by

    python -m experiments run errata

Reference values never come from a closed form, corrected or not, but from definitions at 120
digits: exponentials from power series, Cayley maps and inverses from linear systems, differentials
and derivatives from central differences, compositions from products of matrices or quaternions,
integrals over a body from point masses, and equations of motion from the momentum and acceleration
of point masses. Errors are the largest relative deviations (Frobenius norm) over
`‖x‖ = 1e-8, 1e-3, 0.5, 2, 3.1`, with fixed vectors of norm one for the other arguments. For a wrong
method the columns contain its order and its last error in a short integration in double
precision. The reference is then the classical Runge-Kutta method with thousands of steps on the
plain equations.

The notation is that of each paper: twists are `(ω, v)` in S0 and S4, `(v, ω)` in S1 and S2. The
papers were available to us as text, in which dots, tildes, exponents and columns are easily lost;
remarks state where this may be the reason. Rows are wrong formulas unless the remark begins
otherwise.
"""


def evaluate() -> Evaluated:
    """All errata with their evidence."""
    return {
        paper: [(e, e.evidence() if e.evidence else None) for e in errata]
        for paper, errata in PAPERS.items()
    }


def page(results: Evaluated) -> str:
    """The results in Markdown."""
    kinds = Counter(e.kind for rows in results.values() for e, _ in rows)
    labels = {
        "wrong": "wrong",
        "inaccurate": "inaccurate",
        "misleading": "misleading claims",
        "doubtful": "doubtful",
        "typo": "misprints without consequence",
    }
    counts = ", ".join(f"{kinds[kind]} {label}" for kind, label in labels.items())
    heads = ("equation", "printed", "correct", "error printed", "error correct", "remark")
    parts = [typeset(INTRODUCTION.format(counts=counts))]
    for paper, rows in results.items():
        parts.append(f"## {TOPICS[paper]} [{paper}]\n")
        lines = (_row(erratum, evidence) for erratum, evidence in rows)
        parts += [*_report.table(heads, lines, left=len(heads)), ""]
    return "\n".join(parts)


def _row(erratum: Erratum, evidence: Evidence | None) -> tuple[str, ...]:
    errors = evidence.texts() if evidence else ("", "")
    remark = erratum.remark
    if erratum.kind != "wrong":
        remark = f"*{erratum.kind.capitalize()}.* {remark}".rstrip()
    texts = erratum.equation, erratum.printed, erratum.correct, remark
    equation, printed, correct, remark = map(typeset, texts)
    return equation, printed, correct, *errors, remark


def main(folder: Path) -> None:
    """Evaluate, print a summary, write numbers and the page."""
    results = evaluate()
    numbers = {
        paper: [
            {"equation": e.equation, "kind": e.kind, **(evidence.numbers() if evidence else {})}
            for e, evidence in rows
        ]
        for paper, rows in results.items()
    }
    for paper, rows in results.items():
        kinds = Counter(e.kind for e, _ in rows)
        shown = sum(evidence is not None and evidence.holds() for _, evidence in rows)
        listed = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
        print(f"{paper}: {listed}; {shown} shown by numbers")
        for erratum, evidence in rows:
            if evidence is not None and not evidence.holds():
                print(f"  not confirmed: {erratum.equation} {evidence.texts()}")
    _report.write_json(folder / "errata.json", numbers, ascii=False)
    (folder / "errata.md").write_text(page(results))
