"""SciPy's solvers on the programme, with a measure of the optimum of our own."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lie_jax.control import programme as programmes
from lie_jax.control.programme import Programme


class Measure(NamedTuple):
    """How far from an optimum: see `Solution`; multipliers of gaps, then of end values."""

    cost: float
    gradient_norm: float
    violation: float
    multipliers: np.ndarray


class Found(NamedTuple):
    """Where a search ended; `gaps` numbers of the multipliers are those of gaps."""

    programme: Programme
    z: Any
    measure: Measure
    gaps: int
    history: list[tuple[float, float, float]]


# Local coordinates of the nodes beyond this (rad) make the references follow: charts end at π.
_FAR = 1.0
# An unknown so near to its limit, in units of its own, stands at it.
_AT_LIMIT = 1e-9


class _Search:
    """Values at the last points asked for, and the record of the search."""

    def __init__(self, programme: Programme, tolerance: float, end_tolerance: float):
        self.programme = programme
        self.lower, self.upper = (np.asarray(x, float) for x in programmes.bounds(programme))
        self.limited = bool(np.any(np.isfinite(self.lower) | np.isfinite(self.upper)))
        self.tolerance, self.end_tolerance = tolerance, end_tolerance
        self.history: list[tuple[float, float, float]] = []
        self.known: tuple[bytes, np.ndarray, np.ndarray] | None = None

    def at(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cost and constraints (1 + rows,) and their Jacobian."""
        key = z.tobytes()
        if self.known is None or self.known[0] != key:
            out = programmes.linearize(self.programme, self.array(z))
            self.known = key, *(np.asarray(x, float) for x in out)
        return self.known[1:]

    def array(self, z: np.ndarray):
        """In the precision of the problem."""
        return jnp.asarray(z, self.programme.start.coefficients.dtype)

    def measure(self, z: np.ndarray) -> Measure:
        """With the multipliers that leave the least gradient."""
        values, jacobian = self.at(z)
        slope, rows = jacobian[0], jacobian[1:]
        slack = _AT_LIMIT * (1.0 + np.abs(z))
        low, high = z - self.lower <= slack, self.upper - z <= slack
        free = ~(low | high)
        multipliers = np.zeros(len(rows))
        if len(rows) and free.any():
            multipliers = np.linalg.lstsq(rows[:, free].T, -slope[free], rcond=None)[0]
        pull = multipliers @ rows
        left = slope + pull
        # What a limit holds stays there; an entry whose cost falls away from the limit does not.
        left = np.where(low & (left > 0.0) | high & (left < 0.0), 0.0, left)
        size = float(np.max(np.abs(slope) + np.abs(pull)))
        norm = float(np.max(np.abs(left))) / (size if size > 0.0 else 1.0)
        violation = float(np.max(np.abs(values[1:]), initial=0.0))
        return Measure(float(values[0]), norm, violation, multipliers)

    def callback(self, intermediate_result) -> None:
        """Record an iterate, and end the search at an optimum or far from the references."""
        z = np.asarray(intermediate_result.x)
        measure = self.measure(z)
        self.history.append(measure[:3])
        if self.done(measure) or self.far(z):
            raise StopIteration

    def done(self, measure: Measure) -> bool:
        """Whether both tolerances are met."""
        fine = measure.violation <= self.end_tolerance
        return fine and measure.gradient_norm <= self.tolerance

    def far(self, z: np.ndarray) -> bool:
        """Whether a node has left the neighbourhood of its reference."""
        nodes = self.programme.unknowns(self.array(z)).nodes
        nv = self.programme.transcription.problem.system.nv
        return bool(jnp.max(jnp.abs(nodes[:, :nv]), initial=0.0) > _FAR)


def solve(
    programme: Programme, tolerance: float, end_tolerance: float, max_iterations: int
) -> Found:
    """Search from the programme's start until the tolerances are met or SciPy's solver gives up."""
    search = _Search(programme, tolerance, end_tolerance)
    z = np.asarray(programme.scaled(programme.start), float)
    search.history.append(search.measure(z)[:3])
    while (left := max_iterations + 1 - len(search.history)) > 0:
        before = len(search.history)
        z = _minimize(search, z, left)
        far = search.far(z)
        search.programme, moved = programmes.centred(search.programme, search.array(z))
        z, search.known = np.asarray(moved, float), None
        if search.done(search.measure(z)) or not far or len(search.history) == before:
            break
    gaps = programme.start.nodes.size
    return Found(search.programme, search.array(z), search.measure(z), gaps, search.history)


def _minimize(search: _Search, z: np.ndarray, most: int) -> np.ndarray:
    # SciPy comes with JAX; it is loaded when it is needed.
    from scipy import optimize

    def cost(z):
        values, jacobian = search.at(z)
        return values[0], jacobian[0]

    def rows(z):
        return search.at(z)[0][1:]

    def rows_jacobian(z):
        return search.at(z)[1][1:]

    common: dict[str, Any] = {"jac": True, "callback": search.callback}
    if not search.limited:
        return _trust_region(search, z, most, cost, rows, rows_jacobian, common)
    constraint = {"type": "eq", "fun": rows, "jac": rows_jacobian}
    found = optimize.minimize(
        cost,
        z,
        method="SLSQP",
        bounds=optimize.Bounds(search.lower, search.upper),
        constraints=[constraint] if len(rows(z)) else [],
        # The tolerance of the callback ends the search.
        options={"maxiter": most, "ftol": 1e-16},
        **common,
    )
    return found.x


def _trust_region(search, z, most, cost, rows, rows_jacobian, common) -> np.ndarray:
    from scipy import optimize
    from scipy.sparse.linalg import LinearOperator

    def hessian(z, weights):
        point, weights = search.array(z), search.array(weights)

        def along(direction):
            direction = search.array(np.asarray(direction, float).reshape(-1))
            return np.asarray(
                programmes.curvature(search.programme, point, weights, direction), float
            )

        return LinearOperator((len(z), len(z)), matvec=along, dtype=float)  # pyright: ignore

    count = len(rows(z))
    # The curvature of the cost comes with that of the constraints, in one pass.
    constraints = (
        [
            optimize.NonlinearConstraint(
                rows, 0.0, 0.0, jac=rows_jacobian,
                hess=lambda z, v: hessian(z, np.concatenate([[1.0], v])),
            )
        ]
        if count
        else []
    )  # fmt: skip
    none = np.zeros((len(z), len(z)))
    found = optimize.minimize(
        cost,
        z,
        method="trust-constr",
        hess=(lambda z: none) if count else (lambda z: hessian(z, np.ones(1))),
        constraints=constraints,
        options={"maxiter": most, "gtol": 1e-16, "xtol": 1e-16},
        **common,
    )
    return found.x
