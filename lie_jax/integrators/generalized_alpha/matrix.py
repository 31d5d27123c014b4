"""Iteration matrices of a generalized-α step.

Unknowns y = (Δ, μ) give the rows

    [[M + (γ'/β') C + (1/β') K T, Bᵀ],    dynamics / β'
     [B T, 0]]                            positions

from any linearization of the system, in its own storage, with β' = (1 - αm) / (h² β (1 - αf)), γ' =
γ / (h β) and T = T(x) T(0)⁻¹ the tangent operator of the chart: `step_matrix` of the linearization.
Index 2 adds rows of the rates of constraints, and columns of η: `stabilized_matrix`.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.integrators import iterations
from lie_jax.integrators.generalized_alpha import equations
from lie_jax.integrators.generalized_alpha.equations import StepParameters
from lie_jax.numerics.matrices import AbstractMatrix
from lie_jax.systems.linearization import AbstractLinearization


# Newton's method evaluates it at several places: a jitted function is traced once.
@eqx.filter_jit
def linearize(
    jacobian: str, y: Array, problem: StepParameters, operator: bool = True
) -> tuple[Array, AbstractMatrix]:
    """Residual of the step and its Jacobian, which is exact with the tangent operator."""
    end = equations.end(y, problem)
    point = problem.t, end.q, end.v, end.acceleration, end.multipliers, problem.u
    linear = iterations.linearization(jacobian, problem.system, *point)
    value = equations.equations(problem, y, end, linear.residual)
    return value, step_matrix(linear, y, problem, operator)


def step_matrix(
    linear: AbstractLinearization, y: Array, problem: StepParameters, operator: bool
) -> AbstractMatrix:
    """Iteration matrix of a linearization at the end of the step, with or without T.

    For accelerations at one instant it is [[M, Bᵀ], [B, 0]].
    """
    space = problem.system.space
    x = space.rate_at_zero(equations.increment(y, problem)) if operator else None
    factors = 1.0 / problem.beta, problem.gamma / problem.beta
    if problem.instant is not None:
        asked = problem.instant.asked
        x = None if x is None else jnp.where(asked, 0.0, x)
        factors = jnp.where(asked, 0.0, factors[0]), factors[1]
    if problem.reactions is None:
        return linear.step_matrix(x, *factors).regularize()
    return linear.stabilized_matrix(x, *factors, problem.reactions).regularize()
