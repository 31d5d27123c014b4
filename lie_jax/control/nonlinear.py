"""Solution of a programme by SciPy, stopped by a measure of the optimum of its own."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lie_jax.control import programme as programmes
from lie_jax.control.programme import Programme

# Local coordinates of a node beyond this (rad) make the references follow: charts end at π.
_FAR = 1.0
# An unknown closer to its limit than this (relative) counts as active.
_AT_LIMIT = 1e-9


class Measure(NamedTuple):
    """Distance from an optimum, see `Solution`; multipliers of gaps, then of end values."""

    cost: float
    gradient_norm: float
    violation: float
    multipliers: np.ndarray


class Tolerances(NamedTuple):
    """Relative gradient and violation below which a search has converged."""

    gradient: float
    violation: float

    def met(self, measure: Measure) -> bool:
        """Whether both tolerances are met."""
        return measure.violation <= self.violation and measure.gradient_norm <= self.gradient


class Optimum(NamedTuple):
    """End of a search; the first `gaps` of the multipliers belong to gaps between segments."""

    programme: Programme
    z: Any
    measure: Measure
    gaps: int
    history: list[tuple[float, float, float]]


class _Functions(NamedTuple):
    """A programme as functions of z (unknowns,) in NumPy's double precision, as SciPy needs them.

    `evaluate(z)` returns cost and rows (1 + rows,), and their Jacobian.
    """

    programme: Programme
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    lower: np.ndarray
    upper: np.ndarray

    def cost(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        values, jacobian = self.evaluate(z)
        return values[0], jacobian[0]

    def rows(self, z: np.ndarray) -> np.ndarray:
        return self.evaluate(z)[0][1:]

    def rows_jacobian(self, z: np.ndarray) -> np.ndarray:
        return self.evaluate(z)[1][1:]

    def hessian(self, z: np.ndarray, multipliers: Any = ()) -> Any:
        """Hessian of cost + multipliers · rows, as a linear operator."""
        from scipy.sparse.linalg import LinearOperator

        point = _array(self.programme, z)
        weights = _array(self.programme, np.concatenate([[1.0], multipliers]))

        def along(direction):
            direction = _array(self.programme, np.asarray(direction, float).reshape(-1))
            return np.asarray(
                programmes.curvature(self.programme, point, weights, direction), float
            )

        return LinearOperator((len(z), len(z)), matvec=along, dtype=float)  # pyright: ignore

    def measure(self, z: np.ndarray) -> Measure:
        """`Measure` with the multipliers that leave the least gradient."""
        values, jacobian = self.evaluate(z)
        slope, rows = jacobian[0], jacobian[1:]
        slack = _AT_LIMIT * (1.0 + np.abs(z))
        at_lower, at_upper = z - self.lower <= slack, self.upper - z <= slack
        free = ~(at_lower | at_upper)
        multipliers = np.zeros(len(rows))
        if len(rows) and free.any():
            multipliers = np.linalg.lstsq(rows[:, free].T, -slope[free], rcond=None)[0]
        pull = multipliers @ rows
        # A limit balances a gradient that pushes against it, not one that leads away from it.
        gradient = slope + pull
        balanced = at_lower & (gradient > 0.0) | at_upper & (gradient < 0.0)
        gradient = np.where(balanced, 0.0, gradient)
        size = float(np.max(np.abs(slope) + np.abs(pull)))
        norm = float(np.max(np.abs(gradient))) / (size if size > 0.0 else 1.0)
        violation = float(np.max(np.abs(values[1:]), initial=0.0))
        return Measure(float(values[0]), norm, violation, multipliers)

    def is_far(self, z: np.ndarray) -> bool:
        """Whether a node has left the neighbourhood of its reference."""
        nodes = self.programme.unknowns(_array(self.programme, z)).nodes
        nv = self.programme.problem.system.nv
        return bool(jnp.max(jnp.abs(nodes[:, :nv]), initial=0.0) > _FAR)


def _array(programme: Programme, z: np.ndarray) -> Any:
    """Numbers in the precision of the problem."""
    return jnp.asarray(z, programme.start.coefficients.dtype)


def _functions(programme: Programme) -> _Functions:
    # SciPy calls cost, rows and Jacobian one after the other at each point: all come from one
    # linearisation, the last of which is kept.
    @functools.lru_cache(maxsize=1)
    def linearized(content: bytes):
        values, jacobian = programmes.linearize(
            programme, _array(programme, np.frombuffer(content))
        )
        return np.asarray(values, float), np.asarray(jacobian, float)

    lower, upper = (np.asarray(x, float) for x in programmes.bounds(programme))
    return _Functions(programme, lambda z: linearized(z.tobytes()), lower, upper)


def solve(programme: Programme, tolerances: Tolerances, max_iterations: int) -> Optimum:
    """Search from the programme's start until the tolerances are met or SciPy's solver gives up."""
    functions = _functions(programme)
    z = np.asarray(programme.scaled(programme.start), float)
    measure = functions.measure(z)
    history = [measure[:3]]
    while (iterations := max_iterations + 1 - len(history)) > 0:
        z, iterates = _minimize(functions, z, tolerances, iterations)
        history += iterates
        is_far = functions.is_far(z)
        recentered, start = programmes.recenter(functions.programme, _array(programme, z))
        functions, z = _functions(recentered), np.asarray(start, float)
        measure = functions.measure(z)
        if tolerances.met(measure) or not is_far or not iterates:
            break
    gaps = programme.start.nodes.size
    return Optimum(functions.programme, _array(programme, z), measure, gaps, history)


def _minimize(
    functions: _Functions, z: np.ndarray, tolerances: Tolerances, iterations: int
) -> tuple[np.ndarray, list[tuple[float, float, float]]]:
    """Last point, and the measures of the iterates; ends where a node is far, too."""
    # SciPy comes with JAX; it is loaded when it is needed.
    from scipy import optimize

    iterates: list[tuple[float, float, float]] = []

    # SciPy chooses the form of the call by the name of this argument.
    def record(intermediate_result):
        z = np.asarray(intermediate_result.x)
        measure = functions.measure(z)
        iterates.append(measure[:3])
        if tolerances.met(measure) or functions.is_far(z):
            raise StopIteration

    rows, jacobian, hessian = functions.rows, functions.rows_jacobian, functions.hessian
    has_rows = len(rows(z)) > 0
    # The callback ends the search, before SciPy's own tolerances do.
    if np.any(np.isfinite(functions.lower) | np.isfinite(functions.upper)):
        constraint: Any = {"type": "eq", "fun": rows, "jac": jacobian}
        options: dict[str, Any] = {
            "method": "SLSQP",
            "bounds": optimize.Bounds(functions.lower, functions.upper),  # pyright: ignore
            "options": {"maxiter": iterations, "ftol": 1e-16},
        }
    else:
        constraint = optimize.NonlinearConstraint(rows, 0.0, 0.0, jacobian, hessian)  # pyright: ignore
        # SciPy adds the Hessian of the constraints to that of the cost. One pass computes the sum,
        # as that of the constraints; with them, that of the cost is zero.
        options = {
            "method": "trust-constr",
            "hess": (lambda z: np.zeros((len(z), len(z)))) if has_rows else hessian,
            "options": {"maxiter": iterations, "gtol": 1e-16, "xtol": 1e-16},
        }
    constraints = [constraint] if has_rows else []
    result = optimize.minimize(
        functions.cost, z, jac=True, callback=record, constraints=constraints, **options
    )
    return result.x, iterates
