"""Direct shooting as a nonlinear program of one array of unknowns, solved by SciPy.

SciPy's solvers are stopped by a measure of the optimum that does not depend on units.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from lie_jax.control.problem import (
    ControlProblem,
    Inputs,
    Options,
    Run,
    difference,
    displace,
    follow,
)
from lie_jax.systems.system import State

# Local coordinates of a node beyond this (rad) make the references follow: charts end at π.
_FAR = 1.0
# An unknown closer to its limit than this (relative) counts as active.
_AT_LIMIT = 1e-9


class Unknowns(NamedTuple):
    """Coefficients of the inputs, and local coordinates of the nodes around their references."""

    coefficients: Float[Array, "coefficients nu"]
    nodes: Float[Array, "nodes n"]


class NonlinearProgram(eqx.Module):
    """Shooting over segments of equal length; `nodes` are the states between the segments.

    - `references`: the states (nodes, nq), (nodes, nv) around which nodes have local coordinates.
    - `basis`: (steps, coefficients), from coefficients to inputs; None where they are the same.
    - `start`: the guess. `scale`: units in which the cost is curved alike; z is the array of the
      scaled unknowns.
    - `equations`: the number of gaps and end values, the first rows, which must be zero; the
      others are the inequalities of all steps.
    """

    problem: ControlProblem
    references: State
    basis: Float[Array, "steps coefficients"] | None
    start: Unknowns
    scale: Unknowns
    equations: int

    def unknowns(self, z: Array) -> Unknowns:
        """Unknowns from scaled numbers."""
        unravel = ravel_pytree(self.start)[1]
        return jax.tree.map(lambda x, scale: x * scale, unravel(z), self.scale)

    def scaled_numbers(self, unknowns: Unknowns) -> Array:
        """Scaled numbers of the unknowns."""
        return ravel_pytree(jax.tree.map(lambda x, scale: x / scale, unknowns, self.scale))[0]

    def inputs(self, coefficients: Float[Array, "coefficients nu"]) -> Inputs:
        """Inputs of all steps."""
        return coefficients if self.basis is None else self.basis @ coefficients

    def states(self, nodes: Float[Array, "nodes n"]) -> State:
        """States at the nodes, (nodes, nq) and (nodes, nv)."""
        space = self.problem.system.space
        return jax.vmap(lambda state, x: displace(space, state, x))(self.references, nodes)

    def values(self, z: Array) -> Float[Array, " values"]:
        """Cost, then `rows`: gaps at the nodes in local coordinates, end values, inequalities.

        Segments run as a batch.
        """
        problem, space = self.problem, self.problem.system.space
        nodes, run = self._runs(z)
        reached = jax.tree.map(lambda x: x[:-1], run.last)
        last = jax.tree.map(lambda x: x[-1], run.last)
        gaps = jax.vmap(lambda a, b: difference(space, a, b))(nodes, reached)
        cost = jnp.sum(run.cost) + problem.final_cost(last)
        ends, inequalities = problem.end_values(last), run.inequalities.reshape(-1)
        return jnp.concatenate([cost[None], gaps.reshape(-1), ends, inequalities])

    def slope_of_inputs(self, z: Array) -> Float[Array, " unknowns"]:
        """Gradient of the cost by z with the states held: one of the two terms of the gradient."""
        problem = self.problem
        states = jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), self._runs(z)[1].states)

        def cost(z):
            inputs = self.inputs(self.unknowns(z).coefficients)
            numbers = jnp.arange(inputs.shape[0])
            return jnp.sum(jax.vmap(problem.step_cost)(numbers, states, inputs))

        return jax.grad(cost)(z)

    def _runs(self, z: Array) -> tuple[State, Run]:
        """States at the nodes, and the runs of the segments, stacked."""
        problem, unknowns = self.problem, self.unknowns(z)
        inputs = self.inputs(unknowns.coefficients)
        segments = unknowns.nodes.shape[0] + 1
        length = inputs.shape[0] // segments
        nodes = self.states(unknowns.nodes)
        starts = jax.tree.map(
            lambda first, others: jnp.concatenate([first[None], others]), problem.state, nodes
        )
        run = jax.vmap(lambda state, u, first: follow(problem, state, u, first))(
            starts, inputs.reshape(segments, length, -1), length * jnp.arange(segments)
        )
        return nodes, run

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of z, infinite where there is none."""
        zero = jnp.zeros_like(self.start.coefficients)
        infinite = jnp.full_like(self.start.nodes, jnp.inf)
        return (
            self.scaled_numbers(Unknowns(zero + self.problem.lower[None], -infinite)),
            self.scaled_numbers(Unknowns(zero + self.problem.upper[None], infinite)),
        )


@eqx.filter_jit
def build(
    problem: ControlProblem, coefficients: Array, basis: Array | None, nodes: int
) -> NonlinearProgram:
    """Program with the guess as start, and the nodes on the motion that the guess gives."""
    run = follow(problem, problem.state, coefficients if basis is None else basis @ coefficients)
    steps = run.inputs.shape[0]

    def curvature_of_step(k, state, u):
        hessian = jax.hessian(lambda u: problem.step_cost(k, state, u))(u)
        return jnp.diagonal(hessian)

    curvature = jax.vmap(curvature_of_step)(jnp.arange(steps), run.states, run.inputs)
    if basis is not None:
        curvature = basis.T**2 @ curvature
    half = jnp.broadcast_to(0.5 * (problem.upper - problem.lower)[None], curvature.shape)
    flat = jnp.where(jnp.isfinite(half), half, 1.0)
    is_curved = curvature > 0.0
    scale = jnp.where(is_curved, 1.0 / jnp.sqrt(jnp.where(is_curved, curvature, 1.0)), flat)
    at_nodes = jnp.zeros((nodes - 1, 2 * problem.system.nv), coefficients.dtype)
    length = steps // nodes
    return NonlinearProgram(
        problem,
        jax.tree.map(lambda x: x[length::length], run.states),
        basis,
        start=Unknowns(coefficients, at_nodes),
        scale=Unknowns(scale, jnp.ones_like(at_nodes)),
        equations=at_nodes.size + problem.end_values(run.last).size,
    )


@eqx.filter_jit
def _linearize(program: NonlinearProgram, z: Array) -> tuple[Array, Array, Array]:
    """Cost and rows (1 + rows,), their Jacobian, and the slope of the inputs."""
    jacobian, values = jax.jacrev(lambda z: (program.values(z),) * 2, has_aux=True)(z)
    return values, jacobian, program.slope_of_inputs(z)


@eqx.filter_jit
def _curvature(program: NonlinearProgram, z: Array, weights: Array, direction: Array) -> Array:
    """Second derivative of weights · (cost, rows) along a direction."""
    slope = jax.grad(lambda z: jnp.sum(weights * program.values(z)))
    return jax.jvp(slope, (z,), (direction,))[1]


@eqx.filter_jit
def _recenter(program: NonlinearProgram, z: Array) -> tuple[NonlinearProgram, Array]:
    """Program with the states at the nodes as references, and its z of the same motion."""
    unknowns = program.unknowns(z)
    references = program.states(unknowns.nodes)
    recentered = eqx.tree_at(lambda p: p.references, program, references)
    return recentered, recentered.scaled_numbers(
        unknowns._replace(nodes=jnp.zeros_like(unknowns.nodes))
    )


class Measure(NamedTuple):
    """Distance from an optimum, see `Solution`; multipliers of the rows."""

    cost: float
    gradient_norm: float
    violation: float
    multipliers: np.ndarray

    def meets(self, options: Options) -> bool:
        """Whether both tolerances are met."""
        small = self.gradient_norm <= options.tolerance
        return bool(small and self.violation <= options.end_tolerance)


class Optimum(NamedTuple):
    """End of a search: unknowns, measure, and (cost, gradient_norm, violation) of all iterates."""

    unknowns: Unknowns
    measure: Measure
    history: list[tuple[float, float, float]]


class _Functions:
    """Cost and rows of z (unknowns,) in double precision, for SciPy.

    Inequalities closer to zero than `slack` count as active.
    """

    def __init__(self, program: NonlinearProgram, slack: float):
        self.program, self.slack = program, slack
        self.lower, self.upper = (np.asarray(x, float) for x in program.bounds())
        # SciPy calls cost, rows and Jacobian one after the other at each point: all come from one
        # linearisation, the last of which is kept.
        self._linearization = functools.lru_cache(maxsize=1)(self._linearize)

    def array(self, z: np.ndarray) -> Array:
        """Numbers in the precision of the problem."""
        return jnp.asarray(z, self.program.start.coefficients.dtype)

    def _linearize(self, content: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values, jacobian, slope = _linearize(self.program, self.array(np.frombuffer(content)))
        return np.asarray(values, float), np.asarray(jacobian, float), np.asarray(slope, float)

    def evaluate(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cost and rows (1 + rows,), their Jacobian, and the cost's slope with states held."""
        return self._linearization(z.tobytes())

    def cost(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        values, jacobian, _ = self.evaluate(z)
        return values[0], jacobian[0]

    def equations(self, z: np.ndarray) -> np.ndarray:
        return self.evaluate(z)[0][1 : 1 + self.program.equations]

    def equations_jacobian(self, z: np.ndarray) -> np.ndarray:
        return self.evaluate(z)[1][1 : 1 + self.program.equations]

    def negated_inequalities(self, z: np.ndarray) -> np.ndarray:
        """Inequalities as SLSQP has them, not negative."""
        return -self.evaluate(z)[0][1 + self.program.equations :]

    def negated_jacobian(self, z: np.ndarray) -> np.ndarray:
        return -self.evaluate(z)[1][1 + self.program.equations :]

    def hessian(self, z: np.ndarray, multipliers: Any = ()) -> Any:
        """Hessian of cost + multipliers · equations, as a linear operator."""
        from scipy.sparse.linalg import LinearOperator

        point, weights = self.array(z), self.array(np.concatenate([[1.0], multipliers]))

        def along(direction):
            direction = self.array(np.asarray(direction, float).reshape(-1))
            return np.asarray(_curvature(self.program, point, weights, direction), float)

        return LinearOperator((len(z), len(z)), matvec=along, dtype=float)  # pyright: ignore

    def measure(self, z: np.ndarray) -> Measure:
        """`Measure` with the multipliers that leave the least gradient."""
        values, jacobian, of_inputs = self.evaluate(z)
        slope, rows = jacobian[0], jacobian[1:]
        equations = np.arange(len(rows)) < self.program.equations
        active = equations | (values[1:] >= -self.slack)
        slack = _AT_LIMIT * (1.0 + np.abs(z))
        at_lower, at_upper = z - self.lower <= slack, self.upper - z <= slack
        free = ~(at_lower | at_upper)
        multipliers = np.zeros(len(rows))
        if active.any() and free.any():
            least = np.where(equations[active], -np.inf, 0.0)
            multipliers[active] = _multipliers(rows[np.ix_(active, free)].T, -slope[free], least)
        pull = multipliers @ rows
        # A limit balances a gradient that pushes against it, not one that leads away from it.
        gradient = slope + pull
        balanced = at_lower & (gradient > 0.0) | at_upper & (gradient < 0.0)
        gradient = np.where(balanced, 0.0, gradient)
        # Costs of an input and of the states after it cancel at an optimum, with or without rows.
        terms = np.abs(of_inputs) + np.abs(slope - of_inputs) + np.abs(pull)
        size = float(np.max(terms))
        norm = float(np.max(np.abs(gradient))) / (size if size > 0.0 else 1.0)
        exact = equations | (multipliers > 0.0)
        errors = np.where(exact, np.abs(values[1:]), values[1:])
        violation = float(np.max(errors, initial=0.0))
        return Measure(float(values[0]), norm, violation, multipliers)

    def is_far(self, z: np.ndarray) -> bool:
        """Whether a node has left the neighbourhood of its reference."""
        nodes = self.program.unknowns(self.array(z)).nodes
        nv = self.program.problem.system.nv
        return bool(jnp.max(jnp.abs(nodes[:, :nv]), initial=0.0) > _FAR)


def _multipliers(matrix: np.ndarray, right: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Solution x >= `least` of matrix x = right by least squares."""
    from scipy import optimize

    if np.all(np.isinf(least)):
        return np.linalg.lstsq(matrix, right, rcond=None)[0]
    return optimize.lsq_linear(matrix, right, (least, np.inf), method="bvls").x


def solve(program: NonlinearProgram, options: Options) -> Optimum:
    """Search from the program's start until the tolerances are met or SciPy's solver gives up."""
    slack = float(options.end_tolerance)
    functions = _Functions(program, slack)
    z = np.asarray(program.scaled_numbers(program.start), float)
    measure = functions.measure(z)
    history = [measure[:3]]
    while (iterations := options.max_iterations + 1 - len(history)) > 0:
        z, iterates = _minimize(functions, z, options._replace(max_iterations=iterations))
        history += iterates
        is_far = functions.is_far(z)
        recentered, start = _recenter(functions.program, functions.array(z))
        functions, z = _Functions(recentered, slack), np.asarray(start, float)
        measure = functions.measure(z)
        if measure.meets(options) or not is_far or not iterates:
            break
    return Optimum(functions.program.unknowns(functions.array(z)), measure, history)


def _minimize(
    functions: _Functions, z: np.ndarray, options: Options
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
        if measure.meets(options) or functions.is_far(z):
            raise StopIteration

    has_equations = len(functions.equations(z)) > 0
    has_inequalities = len(functions.negated_inequalities(z)) > 0
    has_limits = np.any(np.isfinite(functions.lower) | np.isfinite(functions.upper))
    constraints: list[Any] = []
    # The callback ends the search, before SciPy's own tolerances do.
    if has_limits or has_inequalities:
        for kind, has_rows, fun, jac in (
            ("eq", has_equations, functions.equations, functions.equations_jacobian),
            ("ineq", has_inequalities, functions.negated_inequalities, functions.negated_jacobian),
        ):
            constraints += [{"type": kind, "fun": fun, "jac": jac}] if has_rows else []
        solver: dict[str, Any] = {
            "method": "SLSQP",
            "bounds": optimize.Bounds(functions.lower, functions.upper),  # pyright: ignore
            "options": {"maxiter": options.max_iterations, "ftol": 1e-16},
        }
    else:
        if has_equations:
            rows = functions.equations, 0.0, 0.0, functions.equations_jacobian, functions.hessian
            constraints = [optimize.NonlinearConstraint(*rows)]  # pyright: ignore
        # SciPy adds the Hessian of the constraints to that of the cost. One pass computes the sum,
        # as that of the constraints; with them, that of the cost is zero.
        solver = {
            "method": "trust-constr",
            "hess": (lambda z: np.zeros((len(z), len(z)))) if has_equations else functions.hessian,
            "options": {"maxiter": options.max_iterations, "gtol": 1e-16, "xtol": 1e-16},
        }
    result = optimize.minimize(
        functions.cost, z, jac=True, callback=record, constraints=constraints, **solver
    )
    return result.x, iterates
