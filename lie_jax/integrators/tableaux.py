"""Butcher tableaux of explicit Runge-Kutta methods."""

from fractions import Fraction as F
from typing import NamedTuple


class Tableau(NamedTuple):
    """An explicit method: a (lower triangle by rows), weights b, nodes c, order; exact numbers."""

    a: tuple[tuple[F, ...], ...]
    b: tuple[F, ...]
    c: tuple[F, ...]
    order: int


def _tableau(order: int, b: list[F], *rows: list[F]) -> Tableau:
    a = ((), *(tuple(row) for row in rows))
    return Tableau(a, tuple(b), tuple(sum(row, F(0)) for row in a), order)


# The methods of [S1] Table III and the two classical ones of order 1 and 2 beside Heun's.
TABLEAUX = {
    "euler": _tableau(1, [F(1)]),
    "heun": _tableau(2, [F(1, 2), F(1, 2)], [F(1)]),
    "midpoint": _tableau(2, [F(0), F(1)], [F(1, 2)]),
    "rk3": _tableau(3, [F(13, 51), F(-2, 3), F(24, 17)], [F(3, 4)], [F(119, 216), F(17, 108)]),
    "rk4": _tableau(
        4,
        [F(1, 6), F(1, 3), F(1, 3), F(1, 6)],
        [F(1, 2)],
        [F(0), F(1, 2)],
        [F(0), F(0), F(1)],
    ),
}
