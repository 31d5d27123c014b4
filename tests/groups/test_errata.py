"""The errata hold: corrections agree with definitions, printed formulas do not."""

import json
from collections import Counter
from pathlib import Path

import pytest

from experiments import errata
from experiments._errata.erratum import Convergence, Deviation
from experiments._errata.typesetting import typeset

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"
FAST = (
    "(31)",
    "(41)",
    "(85), (87)",
    "(100), row 1",
    "(2.26)",
    "(2.35)",
    "(3.34)",
)


def _check(erratum, evidence):
    assert evidence.holds(), (erratum.equation, evidence)
    if erratum.kind == "wrong" and isinstance(evidence, Deviation):
        assert evidence.tolerance == 1e-25
        assert evidence.correct < 1e-25
        assert evidence.printed > 1e-3


def test_list():
    kinds = Counter(e.kind for paper in errata.PAPERS.values() for e in paper)
    assert kinds["wrong"] >= 38
    for paper, listed in errata.PAPERS.items():
        assert len({e.equation for e in listed}) == len(listed), paper
        assert all(bool(e.evidence) == (e.kind != "typo") for e in listed)


def test_some():
    chosen = [e for paper in errata.PAPERS.values() for e in paper if e.equation in FAST]
    assert len(chosen) >= len(FAST)
    for erratum in chosen:
        _check(erratum, erratum.evidence())


def test_page_lists_everything():
    text = PAGE.read_text()
    for paper, listed in errata.PAPERS.items():
        section = text.split(f" [{paper}]\n")[1].split("\n## ")[0]
        rows = section.strip().splitlines()[2:]
        assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [
            typeset(e.equation) for e in listed
        ]
        assert all(row.replace("\\|", "").count("|") == 7 for row in rows)


def test_evidence_can_fail():
    assert not Deviation(1e-30, 1e-30).holds()
    assert not Deviation(1.0, 1e-20).holds()
    halving = (1.6e-3, 1e-4)
    assert not Convergence((1, 2), halving, halving, 4).holds()
    assert not Convergence((1, 2), (1.0, 1.0), (1.0, 0.5), 4).holds()


@pytest.mark.full
def test_all(tmp_path, monkeypatch):
    results = errata.evaluate()
    for rows in results.values():
        for erratum, evidence in rows:
            if evidence is not None:
                _check(erratum, evidence)
    monkeypatch.setattr(errata, "evaluate", lambda: results)
    errata.main(tmp_path)
    assert (tmp_path / "errata.md").read_text() == PAGE.read_text()
    assert json.loads((tmp_path / "errata.json").read_text()).keys() == errata.PAPERS.keys()
