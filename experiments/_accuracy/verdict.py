"""Verdict: cells of the comparison against the best of the other libraries."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# Errors up to so many machine epsilons are rounding and count as equal: an entry of these maps is
# a sum of a few rounded products, one of a derivative a sum of some more.
ROUND_OFF_EPS = (4.0, 8.0, 8.0)
ORDERS = ("value", "first derivative", "second derivative")
PRECISIONS = ("float64", "float32")
OURS = "lie_jax"


class Cell(NamedTuple):
    """One map, interval and order of derivative in one precision."""

    precision: str
    map: str
    interval: str
    order: int
    ours: float
    others: dict[str, float]

    @property
    def round_off(self) -> float:
        """Error below which libraries count as equal."""
        return round_off(self.precision, self.order)

    @property
    def best_other(self) -> float:
        """Smallest error of another library; infinite where none has the function."""
        return min(self.others.values(), default=np.inf)

    @property
    def is_best(self) -> bool:
        """No other library is better by more than rounding."""
        return self.ours <= max(self.best_other, self.round_off)


def epsilon(precision: str) -> float:
    """Machine epsilon."""
    return float(np.finfo(precision).eps)


def round_off(precision: str, order: int) -> float:
    """Largest error that counts as rounding."""
    return ROUND_OFF_EPS[order] * epsilon(precision)


def cells(precisions: dict) -> Iterator[Cell]:
    """All cells of the measured errors that lie_jax has."""
    for precision, results in precisions.items():
        for name, tables in results["relative_errors"].items():
            for interval, ours in tables[OURS].items():
                for order, error in enumerate(ours):
                    others = {
                        library: table[interval][order]
                        for library, table in tables.items()
                        if library != OURS
                        and interval in table
                        and table[interval][order] is not None
                    }
                    yield Cell(precision, name, interval, order, error, others)
