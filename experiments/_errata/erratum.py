"""Errata and their evidence."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from experiments._errata.reference import SAMPLES, mp, norm

Kind = Literal["wrong", "inaccurate", "misleading", "doubtful", "typo"]


@dataclass(frozen=True)
class Deviation:
    """Largest relative deviations from the truth; infinite where a formula cannot be evaluated."""

    printed: Any
    correct: Any
    tolerance: float = 1e-25
    impossible: str = "dimensions disagree"

    def texts(self) -> tuple[str, str]:
        """Both numbers, the same on every platform."""
        return self._text(self.printed), self._text(self.correct)

    def holds(self) -> bool:
        """Whether the correction is right and the printed formula is not."""
        return bool(self.correct < self.tolerance and self.printed > 4 * self.tolerance)

    def numbers(self) -> dict:
        """Numbers of the evidence for a file."""
        printed = self.impossible if mp.isinf(self.printed) else float(self.printed)
        return {"printed": printed, "correct": float(self.correct)}

    def _text(self, value: Any) -> str:
        if mp.isinf(value):
            return self.impossible
        return "< 1e-25" if value < 1e-25 else f"{float(value):.2g}"


@dataclass(frozen=True)
class Convergence:
    """Errors of an integration for several numbers of steps, each twice the one before."""

    steps: tuple[int, ...]
    printed: tuple[float, ...]
    correct: tuple[float, ...]
    order: int

    def texts(self) -> tuple[str, str]:
        """Order from the last two errors, and the last error."""
        return self._text(self.printed), self._text(self.correct)

    def holds(self) -> bool:
        """Whether the correction converges as it should and the printed method does not."""
        right = abs(_order(self.correct) - self.order) < 0.15
        return right and abs(_order(self.printed) - self.order) > 0.5

    def numbers(self) -> dict:
        """Numbers of the evidence for a file."""
        return {
            "steps": self.steps,
            "printed": self.printed,
            "correct": self.correct,
        }

    def _text(self, errors: tuple[float, ...]) -> str:
        order = round(_order(errors), 1) + 0.0  # no "-0.0"
        return f"order {order:.1f}; {errors[-1]:.2g} at {self.steps[-1]} steps"


Evidence = Deviation | Convergence


@dataclass(frozen=True)
class Erratum:
    """One formula; `printed` and `correct` are Markdown."""

    equation: str
    printed: str
    correct: str
    remark: str = ""
    evidence: Callable[[], Evidence] | None = None
    kind: Kind = "wrong"


def deviation(
    truth: Callable,
    formula: Callable,
    samples: Iterable[Any] = SAMPLES,
    tolerance: float = 1e-25,
    impossible: str = "dimensions disagree",
) -> Callable[[], Deviation]:
    """Compare `formula(sample, printed)` for both values of `printed` with `truth(sample)`."""

    def evaluate() -> Deviation:
        pairs = [(truth(s), formula, s) for s in samples]
        worst = [max(_relative(*pair, printed) for pair in pairs) for printed in (True, False)]
        return Deviation(*worst, tolerance=tolerance, impossible=impossible)

    return evaluate


def _relative(truth: Any, formula: Callable, sample: Any, printed: bool) -> Any:
    try:
        value = formula(sample, printed)
    except (ValueError, ZeroDivisionError):  # blocks that do not fit together, or 0/0
        return mp.inf
    return norm(np.asarray(value, dtype=object) - truth) / norm(truth)


def _order(errors: tuple[float, ...]) -> float:
    return float(np.log2(errors[-2] / errors[-1]))
