"""Coefficients of explicit methods: Butcher tableaux and those of compositions of exponentials.

Rational coefficients are exact. The Crouch-Grossman coefficients of order 4 are the root of their
order conditions next to the rational ones of [S1] Table I(b), which hold to 1e-7 only.
"""

import itertools
import math
from fractions import Fraction as F
from typing import NamedTuple

import numpy as np

from lie_jax import checks

Number = F | float | int


class Tableau(NamedTuple):
    """Explicit Runge-Kutta method, with embedded weights of another order for an error estimate.

    `a`: lower triangle by rows, the first one empty; `b`: weights; `c`: nodes; `order`: of
    convergence; `embedded`: weights of the other method, `embedded_order`: its order, by default
    one less. Numbers may be fractions or floats.
    """

    a: tuple[tuple[Number, ...], ...]
    b: tuple[Number, ...]
    c: tuple[Number, ...]
    order: int
    embedded: tuple[Number, ...] | None = None
    embedded_order: int | None = None

    @property
    def first_same_as_last(self) -> bool:
        """Whether the last stage is evaluated at the end of the step, where the next one starts."""
        return self.b[-1] == 0 and tuple(self.b[:-1]) == tuple(self.a[-1])

    @property
    def lower_order(self) -> int | None:
        """Lower order of the method and its embedded method; None without an embedded method."""
        if self.embedded is None:
            return None
        return min(self.order, self.embedded_order or self.order - 1)


def pad(row: tuple[Number, ...], size: int) -> np.ndarray:
    """Coefficients as `size` floats, zeros after the last."""
    return np.pad(np.asarray(row, float), (0, size - len(row)))


def _numbers(text: str) -> tuple[F, ...]:
    return tuple(F(word) for word in text.split())


def _tableau(order: int, b: str, *rows: str, embedded: tuple[int, str] | None = None) -> Tableau:
    a = ((), *map(_numbers, rows))
    nodes = tuple(sum(row, F(0)) for row in a)
    if embedded is None:
        return Tableau(a, _numbers(b), nodes, order)
    return Tableau(a, _numbers(b), nodes, order, _numbers(embedded[1]), embedded[0])


TABLEAUX = {
    # The second stage, at the end, is the first one of the next step; it shows modes that grow.
    "euler": _tableau(1, "1 0", "1"),
    "heun": _tableau(2, "1/2 1/2", "1"),
    "midpoint": _tableau(2, "0 1", "1/2"),
    # [S1] Table III(a), Heun's method of order 3.
    "rk3": _tableau(3, "1/4 0 3/4", "1/3", "0 2/3"),
    "rk4": _tableau(4, "1/6 1/3 1/3 1/6", "1/2", "0 1/2", "0 0 1"),
    # Bogacki and Shampine (1989).
    "ode23": _tableau(
        3, "2/9 1/3 4/9 0", "1/2", "0 3/4", "2/9 1/3 4/9", embedded=(2, "7/24 1/4 1/3 1/8")
    ),
    # Dormand and Prince (1980).
    "dopri5": _tableau(
        5,
        "35/384 0 500/1113 125/192 -2187/6784 11/84 0",
        "1/5",
        "3/40 9/40",
        "44/45 -56/15 32/9",
        "19372/6561 -25360/2187 64448/6561 -212/729",
        "9017/3168 -355/33 46732/5247 49/176 -5103/18656",
        "35/384 0 500/1113 125/192 -2187/6784 11/84",
        embedded=(4, "5179/57600 0 7571/16695 393/640 -92097/339200 187/2100 1/40"),
    ),
    # Butcher (1964), seven stages.
    "rk67": _tableau(
        6,
        "11/120 0 27/40 27/40 -4/15 -4/15 11/120",
        "1/3",
        "0 2/3",
        "1/12 1/3 -1/12",
        "-1/16 9/8 -3/16 -3/8",
        "0 9/8 -3/8 -3/4 1/2",
        "9/44 -9/11 63/44 18/11 0 -16/11",
    ),
    # Fehlberg (1968).
    "rkf78": _tableau(
        8,
        "0 0 0 0 0 34/105 9/35 9/35 9/280 9/280 0 41/840 41/840",
        "2/27",
        "1/36 1/12",
        "1/24 0 1/8",
        "5/12 0 -25/16 25/16",
        "1/20 0 0 1/4 1/5",
        "-25/108 0 0 125/108 -65/27 125/54",
        "31/300 0 0 0 61/225 -2/9 13/900",
        "2 0 0 -53/6 704/45 -107/9 67/90 3",
        "-91/108 0 0 23/108 -976/135 311/54 -19/60 17/6 -1/12",
        "2383/4100 0 0 -341/164 4496/1025 -301/82 2133/4100 45/82 45/164 18/41",
        "3/205 0 0 0 0 -6/41 -3/205 -3/41 3/41 6/41 0",
        "-1777/4100 0 0 -341/164 4496/1025 -289/82 2193/4100 51/82 33/164 12/41 0 1",
        embedded=(7, "41/840 0 0 0 0 34/105 9/35 9/35 9/280 9/280 41/840 0 0"),
    ),
}


# Rounding of a user's coefficients.
_CONSISTENT = 1e-12


def check(name: str, tableau: "str | Tableau") -> None:
    """Raise unless the tableau is a known word or consistent numbers of an explicit method."""
    if not isinstance(tableau, Tableau):
        checks.one_of(name, tableau, tuple(TABLEAUX))
        return
    stages = len(tableau.b)
    sizes = [len(row) for row in tableau.a]
    if sizes != list(range(stages)) or len(tableau.c) != stages:
        raise ValueError(
            f"{name} has rows of {sizes} coefficients, {stages} weights and {len(tableau.c)} "
            f"nodes; an explicit method of {stages} stages has rows of {list(range(stages))} and "
            "as many nodes as weights: leave the diagonal and what lies above it out."
        )
    rows = (*tableau.a, tableau.b, tableau.c, tableau.embedded or ())
    for number in itertools.chain.from_iterable(rows):
        if not (isinstance(number, Number) and math.isfinite(number)):
            raise ValueError(
                f"{name} holds the coefficient {number!r}; every coefficient must be a finite "
                "fraction, float or integer: look for a missing one."
            )
    checks.positive_integer(f"{name}: the order", tableau.order, "the order of convergence")
    if tableau.embedded_order is not None:
        meaning = "the order of convergence of the embedded weights"
        checks.positive_integer(f"{name}: the embedded order", tableau.embedded_order, meaning)
    for i, (row, node) in enumerate(zip(tableau.a, tableau.c, strict=True)):
        if abs(float(sum(row)) - float(node)) > _CONSISTENT:
            raise ValueError(
                f"{name}: row {i} sums to {float(sum(row))!r}, its node is {float(node)!r}; they "
                "must be equal: look for a misprinted coefficient."
            )
    if tableau.embedded is not None and len(tableau.embedded) != stages:
        raise ValueError(
            f"{name} has {len(tableau.embedded)} embedded weights for {stages} stages; there must "
            "be one for each stage: write zeros for stages that it does not use."
        )
    for label, weights in (("weights", tableau.b), ("embedded weights", tableau.embedded)):
        if weights is not None and abs(float(sum(weights)) - 1.0) > _CONSISTENT:
            raise ValueError(
                f"{name}: the {label} sum to {float(sum(weights))!r}; they must sum to 1: look for "
                "a misprinted weight."
            )


class Product(NamedTuple):
    """Configuration of a stage, moved by exponentials, one after the other.

    `start`: number of the stage, 0 for the beginning of the step; `exponents`: rows of weights of
    the stages' velocities, the first exponential first.
    """

    start: int
    exponents: tuple[tuple[F, ...], ...]


class Composition(NamedTuple):
    """Method whose stages and end are products of exponentials; a and b are the summed rows."""

    stages: tuple[Product, ...]
    end: Product
    a: tuple[tuple[F, ...], ...]
    b: tuple[F, ...]
    c: tuple[F, ...]


def _composition(*products: tuple[int, tuple[str, ...]]) -> Composition:
    built = [Product(start, tuple(map(_numbers, rows))) for start, rows in products]
    size = len(built) - 1
    summed: list[tuple[F, ...]] = []
    for product in built:
        before = summed[product.start] if product.start else (F(0),) * size
        rows = [row + (F(0),) * (size - len(row)) for row in product.exponents]
        summed.append(tuple(sum(column, F(0)) for column in zip(before, *rows, strict=True)))
    nodes = tuple(sum(row, F(0)) for row in summed[:-1])
    return Composition(tuple(built[:-1]), built[-1], tuple(summed[:-1]), summed[-1], nodes)


def _crouch_grossman(*rows: str) -> Composition:
    def single(row: str) -> tuple[str, ...]:
        return tuple("0 " * j + number for j, number in enumerate(row.split()))

    return _composition((0, ()), *((0, single(row)) for row in rows))


# Celledoni, Marthinsen and Owren (2003), [S1] Table II; stages count from 0, and a start other than
# 0 uses the exponentials of a stage again. Both families share the method of order 2.
CROUCH_GROSSMAN = {
    2: _crouch_grossman("1", "1/2 1/2"),
    3: _crouch_grossman("3/4", "119/216 17/108", "13/51 -2/3 24/17"),
    4: _crouch_grossman(
        "0.8177227988124851838643834158477231926607",
        "0.3199876375476426814096092583290347703441 0.06598642635560218735460322866733355427146",
        "0.9214417194464946126029556144479668945508 0.4997857776773572986305806224416389033074"
        " -1.096998444837158207718266818416109475641",
        "0.3552358559023322010541568194471209164805 0.2390958372307325695852991306951424279748"
        " 1.39185657242032459428673699011534979186 -1.109297939211346510584177249926216330247",
        "0.1370831520630755370295947735676935348783 -0.01836985315640201911261088774542920720619"
        " 0.7397813985370779989291436164906624843028 -0.1907142565505888966977465770334247975224"
        " 0.3322195591068373798516190747204979855475",
    ),
}
COMMUTATOR_FREE = {
    2: CROUCH_GROSSMAN[2],
    3: _composition((0, ()), (0, ("1/3",)), (0, ("0 2/3",)), (1, ("-1/12 0 3/4",))),
    4: _composition(
        (0, ()),
        (0, ("1/2",)),
        (0, ("0 1/2",)),
        (1, ("-1/2 0 1",)),
        (0, ("1/4 1/6 1/6 -1/12", "-1/12 1/6 1/6 1/4")),
    ),
}
