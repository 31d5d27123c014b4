"""Iteration matrices of a generalized-α step.

Unknowns y = (Δ, μ) give the rows

    [[M + (γ'/β') C + (1/β') K T, Bᵀ],    dynamics / β'
     [B T, 0]]                            positions

from any linearization of the system, in its own storage, with β' = (1 - αm) / (h² β (1 - αf)), γ' =
γ / (h β) and T = T(x) T(0)⁻¹ the tangent operator of the chart. Index 2 adds rows of the rates of
constraints, and columns of η, to a matrix of full size.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.integrators.generalized_alpha import equations
from lie_jax.integrators.generalized_alpha.equations import End, Problem
from lie_jax.linearization import (
    AbstractDenseLinearization,
    AbstractLinearization,
    ForwardLinearization,
    tangent_columns,
)
from lie_jax.numerics import small
from lie_jax.numerics.dense import DenseMatrix, product
from lie_jax.numerics.matrices import Matrix
from lie_jax.system import AbstractSystem

# Up to so many velocities, those of one body, derivatives of the whole residual are cheaper.
_FEW_VELOCITIES = 7


def linearization(jacobian: str, problem: Problem, end: End) -> AbstractLinearization:
    """Linearization at the end of a step: by derivatives of the residual, by the closed forms of
    the system, or of the papers, which leave out those of M, Bᵀλ and given loads.
    """
    system = problem.system
    point = problem.t, end.q, end.v, end.acceleration, end.multipliers, problem.u
    few = jacobian == "auto" and system.nv <= _FEW_VELOCITIES
    if jacobian == "autodiff" or few:
        return AbstractSystem.linearization(system, *point)
    if jacobian in ("auto", "analytic"):
        return system.linearization(*point)

    # [S3] (42), (43).
    def force(q, v):
        return -system.internal_force(problem.t, q, v, problem.u)

    _, push = jax.linearize(force, end.q, end.v)
    mass = system.mass_matrix(end.q)
    return ForwardLinearization(
        space=system.space,
        residual=system.residual(problem.t, *end, problem.u),
        constraints=system.constraint_jacobian(problem.t, end.q),
        rates=system.change_of_rates(problem.t, end.q, end.v),
        velocity_rows=system.velocity_rows,
        q=end.q,
        push=lambda dq, dv, acceleration: push(dq, dv) + small.matvec(mass, acceleration),
    )


def _stabilized(
    linear: AbstractDenseLinearization, dynamics: Array, along: Array, problem: Problem
) -> DenseMatrix:
    """Matrix of index 2; columns of `dynamics` and `along` are those of Δ and η."""
    system = problem.system
    positions, nv = system.nc - system.velocity_rows, system.nv

    def row(by_motion, by_multipliers):
        return jnp.concatenate([by_motion[:, :nv], by_multipliers, by_motion[:, nv:]], axis=1)

    by_velocity = jnp.pad(linear.constraints, ((0, 0), (0, along.shape[1] - nv)))
    rates = by_velocity + linear.rate_columns(along, 1.0 / problem.gamma)
    rows = [rates, product(linear.constraints[:positions], along)]
    rows = [row(x, jnp.zeros((x.shape[0], system.nc), x.dtype)) for x in rows]
    entries = jnp.concatenate([row(dynamics, linear.constraints.T), *rows])
    return DenseMatrix(entries, entries.shape[0] - nv)


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
    if problem.normal is None:
        return value, linear.step_matrix(x, *factors).regularized()
    directions = jnp.concatenate([jnp.eye(system.nv, dtype=y.dtype), -problem.normal])
    along = tangent_columns(system.space, x, directions)
    dense = linear.dense()
    dynamics = dense.combined(along, *factors)
    return value, _stabilized(dense, dynamics, along, problem).regularized()
