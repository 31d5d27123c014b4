"""Direct shooting with exact derivatives, for inputs or for the coefficients of splines."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.control import conditions, nonlinear_program
from lie_jax.control.conditions import Conditions
from lie_jax.control.problem import Options, make_problem
from lie_jax.control.solution import History, Solution, warn_unless_converged
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import waits
from lie_jax.numerics.conversion import as_float, in_precision
from lie_jax.simulation import sharding
from lie_jax.simulation.checks import as_jax
from lie_jax.systems.system import AbstractSystem, State


@waits.announce("the optimal control with {integrator}")
@sharding.automatic
def shoot(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: State,
    inputs: ArrayLike | Sequence[Any],
    *,
    dt: ArrayLike,
    running: Callable,
    final: Callable | None = None,
    end: Callable | None = None,
    inequalities: Callable | None = None,
    limits: tuple[Any, Any] | None = None,
    basis: ArrayLike | None = None,
    nodes: int = 1,
    tolerance: float = 1e-6,
    end_tolerance: float = 1e-6,
    max_iterations: int = 200,
) -> Solution:
    """Find the inputs that minimise Σ dt running(t, q, v, u) + final(q, v), by direct shooting.

    A nonlinear program with exact first derivatives, solved by SciPy: with limits or inequalities
    by SLSQP, which may take minutes above some 200 unknowns, else by `trust-constr` with exact
    second derivatives. Unlike `ilqr` it takes splines, and nodes that keep long unstable motions in
    hand; it has no feedback gains and is not to be traced by JAX.

    **Arguments:**

    - `system`: constraints, closed loops too, hold along every motion; `state`: the `State` from
      which it starts.
    - `integrator`: `RKMK`, `CommutatorFree`, `CrouchGrossman`, `ImplicitRKMK`, `ConvexContact`, or
      `RungeKutta` on coordinates that are not redundant; `dt`: its step size, s, positive.
    - `inputs`: the first guess (steps, nu), or with a basis (coefficients, nu), within the limits.
    - `running(t, q, v, u)`: cost per second, taken at the start of each step. `final(q, v)`: cost
      of the last state. Both smooth.
    - `end(q, v)`: an array that must be zero at the last state.
    - `inequalities(t, q, v, u)`: an array that must not be positive after each step, with the time
      and the state at the end of the step and the inputs held over it.
    - `limits`: (lower, upper), numbers or (nu,); `numpy.inf` for none.
    - `tolerance`: on `Solution.gradient_norm`; `end_tolerance`: on `Solution.violation`;
      `max_iterations`: at most so many.
    - `basis`: (steps, coefficients), for example `spline_basis(steps, 12)`; the inputs are
      basis @ coefficients, and limits hold for the coefficients.
    - `nodes`: the number of segments, a divisor of the number of steps. 1: single shooting. More:
      multiple shooting, with the states between the segments among the unknowns.

    **Returns** a `Solution`; with nodes, its `violation` counts the gaps between segments, and the
    conditions along the motion of the inputs without them. Warns if it has not converged. Raises
    `ValueError` as `ilqr` does, and for a basis or number of nodes that does not fit.
    """
    system, state, table = as_jax(system, state, inputs)
    matrix = in_precision(basis, table.dtype if isinstance(table, Array) else None)
    applied = table if matrix is None else _apply_basis(table, matrix)
    options = Options(tolerance, end_tolerance, max_iterations)
    functions = running, final, end, inequalities
    problem = make_problem(
        "shoot", system, integrator, state, applied, dt, functions, limits, table, options
    )
    steps = applied.shape[0]
    checks.positive_integer("shoot(nodes=)", nodes, "the number of segments")
    if steps % nodes:
        raise ValueError(
            f"shoot(nodes=) is {nodes}, which does not divide the {steps} steps: take a divisor."
        )
    if checks.has_tracers(problem, table, matrix):
        raise ValueError(
            "shoot hands numbers to SciPy and cannot run inside jax.jit, jax.grad or jax.vmap; use "
            "lie_jax.control.ilqr there."
        )
    optimum = nonlinear_program.solve(
        nonlinear_program.build(problem, table, matrix, nodes), options
    )
    coefficients, dtype = optimum.unknowns.coefficients, table.dtype
    best_inputs = coefficients if matrix is None else matrix @ coefficients
    trajectory = problem.trajectory(best_inputs)
    _, norm, gap, multipliers = optimum.measure
    norm, gap, multipliers = (jnp.asarray(x, dtype) for x in (norm, gap, multipliers))
    values = conditions.along(problem, trajectory, best_inputs)
    gaps = optimum.unknowns.nodes.size
    equations = gaps + values.ends.size
    pulls = Conditions(multipliers[gaps:equations], multipliers[equations:].reshape(steps, -1))
    violation = jnp.maximum(gap, conditions.largest(conditions.errors(values, pulls)))
    history = History(
        *(jnp.asarray(column, dtype) for column in zip(*optimum.history, strict=True))
    )
    solution = Solution(
        inputs=best_inputs,
        unknowns=coefficients,
        trajectory=trajectory,
        cost=history.cost[-1],
        gradient_norm=norm,
        violation=violation,
        multipliers=pulls.ends,
        inequality_multipliers=pulls.inequalities,
        gains=None,
        iterations=jnp.asarray(len(optimum.history) - 1),
        history=history,
        converged=(norm <= tolerance) & (violation <= end_tolerance),
    )
    remedy = "take other nodes=" if nodes > 1 else "take nodes="
    warn_unless_converged("shoot", solution, values, options, remedy, remedy)
    return solution


def _apply_basis(inputs: Any, basis: Any) -> Array:
    checks.real("shoot(inputs=)", inputs)
    checks.real("shoot(basis=)", basis)
    if np.ndim(inputs) != 2 or np.ndim(basis) != 2 or basis.shape[1] != inputs.shape[0]:
        raise ValueError(
            f"shoot(basis=) has shape {np.shape(basis)}, shoot(inputs=) has {np.shape(inputs)}; "
            "they must have shapes (steps, coefficients) and (coefficients, nu)."
        )
    return basis @ inputs


def spline_basis(
    steps: int, coefficients: int, degree: int = 3
) -> Float[Array, "steps coefficients"]:
    """Matrix from B-spline coefficients (coefficients, nu) to the inputs (steps, nu).

    Knots divide the run evenly, the first and last coefficient are the inputs at its start and
    end, and each step gets the value at its middle. Rows are not negative and sum to 1: inputs stay
    within the limits of the coefficients. `degree` 1: straight lines, 3: a cubic spline. Raises
    `ValueError` for other numbers than degree < coefficients <= steps, or no positive integers.
    """
    checks.positive_integer("spline_basis(steps=)", steps, "the number of steps")
    checks.positive_integer("spline_basis(coefficients=)", coefficients, "their number")
    checks.positive_integer("spline_basis(degree=)", degree, "degree of the polynomials")
    if not degree < coefficients <= steps:
        raise ValueError(
            f"spline_basis(coefficients=) is {coefficients}; it must be more than degree={degree} "
            f"and at most steps={steps}."
        )
    # SciPy comes with JAX; it is loaded when it is needed.
    from scipy.interpolate import BSpline

    inner = np.linspace(0.0, 1.0, coefficients - degree + 1)
    knots = np.concatenate([np.zeros(degree), inner, np.ones(degree)])
    middle = (np.arange(steps) + 0.5) / steps
    table = BSpline.design_matrix(middle, knots, degree).toarray()
    return as_float(jnp.asarray(table))
