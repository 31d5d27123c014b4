"""Direct shooting: the problem as a nonlinear programme, solved by SciPy with exact derivatives."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from lie_jax import checks
from lie_jax.control import nonlinear, programme
from lie_jax.control.checks import check_options, checked_limits, checked_problem
from lie_jax.control.solution import History, Solution, warn_unless_converged
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics.conversion import in_precision
from lie_jax.simulation.checks import as_jax
from lie_jax.simulation.simulate import simulate
from lie_jax.system import AbstractSystem, State


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
    limits: tuple[Any, Any] | None = None,
    basis: ArrayLike | None = None,
    nodes: int = 1,
    tolerance: float = 1e-6,
    end_tolerance: float = 1e-6,
    max_iterations: int = 200,
) -> Solution:
    """Find the inputs that minimise Σ dt running(t, q, v, u) + final(q, v), by direct shooting.

    A nonlinear programme with exact first derivatives, solved by SciPy: by SLSQP with limits, which
    takes minutes for more than some 200 unknowns, else by `trust-constr` with exact second
    derivatives. Unlike `ilqr` it takes splines, and nodes that keep long unstable motions in hand;
    it has no feedback gains and is not to be traced by JAX.

    **Arguments:** those of `ilqr`, and

    - `inputs`: (steps, nu), or with a basis (coefficients, nu).
    - `basis`: (steps, coefficients), for example `spline_basis(steps, 12)`; the inputs are
      basis @ coefficients, and limits hold for the coefficients.
    - `nodes`: the number of segments that are shot side by side. 1: single shooting. More: multiple
      shooting, with the states between the segments among the unknowns, in local coordinates around
      reference states that follow the search. It must divide the number of steps.

    **Returns** a `Solution`; with nodes, its `violation` counts the gaps between segments, and the
    end that the inputs reach without them. Warns if it has not converged. Raises `ValueError` as
    `ilqr` does, and for a basis or number of nodes that does not fit.
    """
    system, state, table = as_jax(system, state, inputs)
    matrix = in_precision(basis, table.dtype if isinstance(table, Array) else None)
    applied = table if matrix is None else _applied(table, matrix)
    problem = checked_problem(
        "shoot", system, integrator, state, applied, dt, (running, final, end), limits
    )
    checked_limits("shoot", table, limits)
    check_options("shoot", tolerance, end_tolerance, max_iterations)
    steps = applied.shape[0]
    checks.positive_integer("shoot(nodes=)", nodes, "the number of segments")
    if steps % nodes:
        raise ValueError(
            f"shoot(nodes=) is {nodes}, which does not divide the {steps} steps: take a divisor."
        )
    if checks.traced(problem, table, matrix):
        raise ValueError(
            "shoot hands numbers to SciPy and cannot run inside jax.jit, jax.grad or jax.vmap; use "
            "lie_jax.control.ilqr there."
        )
    tolerances = nonlinear.Tolerances(tolerance, end_tolerance)
    start = programme.build(problem, table, matrix, nodes)
    solution = _solution(nonlinear.solve(start, tolerances, max_iterations), tolerances)
    advice = "Take other nodes=" if nodes > 1 else "Take nodes="
    warn_unless_converged("shoot", solution, *tolerances, advice)
    return solution


def _applied(inputs: Any, basis: Any) -> Array:
    checks.real("shoot(inputs=)", inputs)
    checks.real("shoot(basis=)", basis)
    if np.ndim(inputs) != 2 or np.ndim(basis) != 2 or basis.shape[1] != inputs.shape[0]:
        raise ValueError(
            f"shoot(basis=) has shape {np.shape(basis)}, shoot(inputs=) has {np.shape(inputs)}; "
            "they must have shapes (steps, coefficients) and (coefficients, nu)."
        )
    return basis @ inputs


def _solution(optimum: nonlinear.Optimum, tolerances: nonlinear.Tolerances) -> Solution:
    programme, measure = optimum.programme, optimum.measure
    problem, coefficients = programme.problem, programme.unknowns(optimum.z).coefficients
    inputs = programme.inputs(coefficients)
    trajectory = simulate(
        problem.system, problem.integrator, problem.state, dt=problem.dt, steps=inputs.shape[0],
        inputs=inputs, throw=False,
    )  # fmt: skip
    ends = problem.end_values(State(trajectory.q[-1], trajectory.v[-1]))
    violation = jnp.maximum(
        jnp.asarray(measure.violation, inputs.dtype), jnp.max(jnp.abs(ends), initial=0.0)
    )
    norm = jnp.asarray(measure.gradient_norm, inputs.dtype)
    table = [jnp.asarray(column, inputs.dtype) for column in zip(*optimum.history, strict=True)]
    return Solution(
        inputs=inputs,
        unknowns=coefficients,
        trajectory=trajectory,
        cost=table[0][-1],
        gradient_norm=norm,
        violation=violation,
        multipliers=jnp.asarray(measure.multipliers[optimum.gaps :], inputs.dtype),
        gains=None,
        iterations=jnp.asarray(len(optimum.history) - 1),
        history=History(*table),
        converged=(norm <= tolerances.gradient) & (violation <= tolerances.violation),
    )
