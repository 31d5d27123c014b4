"""Iteration matrices of a generalized-α step.

Unknowns y = (Δ, μ) give the rows

    [[M + (γ'/β') C + (1/β') K T, Bᵀ],    dynamics / β'
     [B T, 0]]                            positions

from any linearization of the system, in its own storage, with β' = (1 - αm) / (h² β (1 - αf)), γ' =
γ / (h β) and T = T(x) T(0)⁻¹ the tangent operator of the chart: `step_matrix` of the linearization.
Index 2 adds rows of the rates of constraints, and columns of η: `stabilized_matrix`.
"""

import equinox as eqx
from jaxtyping import Array

from lie_jax.integrators import iterations
from lie_jax.integrators.generalized_alpha import equations
from lie_jax.integrators.generalized_alpha.equations import End, Problem
from lie_jax.numerics.matrices import Matrix
from lie_jax.systems.linearization import AbstractLinearization


def linearization(jacobian: str, problem: Problem, end: End) -> AbstractLinearization:
    """Linearization at the end of a step: by derivatives of the residual, by the closed forms of
    the system, or of the papers, which leave out those of M, Bᵀλ and given loads.
    """
    point = problem.t, end.q, end.v, end.acceleration, end.multipliers, problem.u
    if jacobian == "papers":
        return problem.system.internal_linearization(*point)
    return iterations.linearization(jacobian, problem.system, *point)


# Newton's method evaluates it at several places: a jitted function is traced once.
@eqx.filter_jit
def linearized(
    jacobian: str, y: Array, problem: Problem, operator: bool = True
) -> tuple[Array, Matrix]:
    """Residual of the step and its Jacobian, by a linearization.

    The Jacobian is exact with the tangent operator, unless the linearization is that of the papers.
    """
    system, end = problem.system, equations.end(y, problem)
    linear = linearization(jacobian, problem, end)
    value = equations.equations(problem, end, linear.residual)
    x = system.space.rate_at_zero(equations.increment(y, problem)) if operator else None
    factors = 1.0 / problem.beta, problem.gamma / problem.beta
    if problem.reactions is None:
        return value, linear.step_matrix(x, *factors).regularized()
    return value, linear.stabilized_matrix(x, *factors, problem.reactions).regularized()
