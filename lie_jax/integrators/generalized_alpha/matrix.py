"""Iteration matrices of a generalized-α step.

Unknowns y = (Δ, μ) give the rows

    [[M + (γ'/β') C + (1/β') K T, Bᵀ],    dynamics / β'
     [B T, 0]]                            positions

from any linearization of the system, in its own storage, with β' = (1 - αm) / (h² β (1 - αf)), γ' =
γ / (h β) and T = T(x) T(0)⁻¹ the tangent operator of the chart. Rates of constraints, of index 2 or
of velocity constraints, add rows and columns to a matrix of full size.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.integrators.generalized_alpha import equations
from lie_jax.integrators.generalized_alpha.equations import End, Problem
from lie_jax.linearization import AbstractLinearization, ForwardLinearization, tangent_columns
from lie_jax.numerics import small
from lie_jax.numerics.block_matrix import BlockTree
from lie_jax.numerics.dense import DenseMatrix, product
from lie_jax.system import AbstractSystem

Matrix = DenseMatrix | BlockTree


# Up to so many velocities, those of one body, derivatives of the whole residual are cheaper.
_FEW_VELOCITIES = 7


def linearization(jacobian: str, problem: Problem, end: End) -> AbstractLinearization:
    """Linearization at the end of a step: by derivatives of the residual, by the closed forms of
    the system, or of the papers.
    """
    system = problem.system
    point = problem.t, end.q, end.v, end.acceleration, end.multipliers, problem.u
    few = jacobian == "auto" and system.nv <= _FEW_VELOCITIES
    if jacobian == "autodiff" or few:
        return AbstractSystem.linearization(system, *point)
    if jacobian in ("auto", "analytic"):
        return system.linearization(*point)
    return _paper_linearization(problem, end)


def _paper_linearization(problem: Problem, end: End) -> ForwardLinearization:
    # [S3] (42), (43): no derivatives of M, Bᵀλ and given loads.
    system = problem.system

    def force(q, v):
        return -system.internal_force(problem.t, q, v, problem.u)

    _, push = jax.linearize(force, end.q, end.v)
    mass = system.mass_matrix(end.q)
    return ForwardLinearization(
        space=system.space,
        residual=system.residual(problem.t, *end, problem.u),
        constraints=system.constraint_jacobian(problem.t, end.q),
        q=end.q,
        push=lambda dq, dv, acceleration: push(dq, dv) + small.matvec(mass, acceleration),
    )


def _iteration_matrix(
    linearization: AbstractLinearization, y: Array, problem: Problem, end: End, operator: bool
) -> Matrix:
    space = problem.system.space
    x = space.rate_at_zero(equations.increment(y, problem)) if operator else None
    stiffness, damping = 1.0 / problem.beta, problem.gamma / problem.beta
    if problem.normal is None and not problem.system.velocity_rows:
        return linearization.step_matrix(x, stiffness, damping).regularized()
    directions = jnp.eye(space.nv, dtype=y.dtype)
    if problem.normal is not None:
        directions = jnp.concatenate([directions, -problem.normal])
    along = tangent_columns(space, x, directions)
    dense = linearization.dense()
    dynamics = dense.combined(along, stiffness, damping)
    return _matrix_with_rates(dynamics, dense.constraints, along, problem, end).regularized()


def _matrix_with_rates(
    dynamics: Array, constraints: Array, along: Array, problem: Problem, end: End
) -> DenseMatrix:
    """Matrix with the rows of the rates; columns of `dynamics` and `along` are those of Δ and η."""
    system = problem.system
    positions, nv = system.nc - system.velocity_rows, system.nv

    def rates(q):
        if problem.normal is None:
            return system.velocity_constraint(problem.t, q, end.v)
        return system.constraint_rate(problem.t, q, end.v)

    def rate_column(velocity):
        return jax.jvp(rates, (end.q,), (system.space.lift(end.q, velocity),))[1]

    def row(by_motion, by_multipliers):
        return jnp.concatenate([by_motion[:, :nv], by_multipliers, by_motion[:, nv:]], axis=1)

    def no_multipliers(rows):
        return row(rows, jnp.zeros((rows.shape[0], system.nc), rows.dtype))

    by_velocity = constraints[positions if problem.normal is None else 0 :]
    by_velocity = jnp.pad(by_velocity, ((0, 0), (0, along.shape[1] - nv)))
    by_position = jax.vmap(rate_column, in_axes=1, out_axes=1)(along) / problem.gamma
    rate_rows = no_multipliers(by_velocity + by_position)
    position_rows = no_multipliers(product(constraints[:positions], along))
    rows = [position_rows, rate_rows] if problem.normal is None else [rate_rows, position_rows]
    entries = jnp.concatenate([row(dynamics, constraints.T), *rows])
    return DenseMatrix(entries, entries.shape[0] - nv)


# Newton's method evaluates it at several places: a jitted function is traced once.
@eqx.filter_jit
def linearized(jacobian: str, y: Array, problem: Problem) -> tuple[Array, Matrix]:
    """Residual of the step and its exact Jacobian, by a linearization."""
    end = equations.end(y, problem)
    linear = linearization(jacobian, problem, end)
    value = equations.equations(problem, end, linear.residual)
    return value, _iteration_matrix(linear, y, problem, end, True)


def iteration_matrix(jacobian: str, operator: bool, y: Array, problem: Problem) -> Matrix:
    """Iteration matrix by a linearization, with or without the tangent operator."""
    end = equations.end(y, problem)
    return _iteration_matrix(linearization(jacobian, problem, end), y, problem, end, operator)
