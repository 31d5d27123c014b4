"""Stages of a diagonally implicit method, one after the other.

With the diagonal γ of the coefficients and τ = γ dt a stage has x = x₀ + τ ẋ and v̇ = (v - v₀) / τ,
where earlier stages give x₀ and v₀. The matrix of Newton's method is that of a stabilised step, in
the storage of the system: blocks along the forest or the graph of bodies and joints. Its unknowns
are velocities, and rates of the coordinates follow.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.integrators import iterations
from lie_jax.integrators.implicit import stage
from lie_jax.integrators.implicit.stage import Stages, StepParameters
from lie_jax.integrators.implicit.tableaux import TABLEAUX
from lie_jax.numerics import newton
from lie_jax.numerics.matrices import AbstractMatrix
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.linearization import AbstractReactions, ImplicitIncrement


class _Stage(NamedTuple):
    """Parameters of a stage: those of the step, its time, x₀, v₀ and τ."""

    step: StepParameters
    t: Array
    x: Array
    v: Array
    tau: Array


class _StageMatrix(eqx.Module):
    """Jacobian for the unknowns of a stage, from the matrix for velocities in place of rates."""

    matrix: AbstractMatrix
    space: AbstractSpace
    increment: ImplicitIncrement
    reactions: AbstractReactions | None
    positions: int = eqx.field(static=True)

    def _rates(self, solution: Array) -> Array:
        # Of ẋ instead of v.
        nv = self.space.nv
        v, multipliers = jnp.split(solution, (nv,))
        if self.reactions is not None:
            v = v - self.reactions.of(multipliers[-self.positions :])
        return jnp.concatenate([self.space.implicit_rate(*self.increment, v), multipliers])

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """Solution of the matrix times x = b."""
        return self._rates(self.matrix.solve(b))

    def solve_from(self, b: Float[Array, " n"], y: Float[Array, " n"]) -> Float[Array, " n"]:
        """As that of the matrix: multipliers are the same unknowns."""
        return self._rates(self.matrix.solve_from(b, y))


def solve(
    tableau: str, jacobian: str, problem: StepParameters, acceleration: Array, multipliers: Array
) -> tuple[Stages, newton.Root]:
    """Stages of a step, from the acceleration and multipliers at its start, and the search.

    Iterations are those of all stages, the rest is that of the first stage that failed, or of the
    last one.
    """
    a, _, c, *_ = TABLEAUX[tableau]
    s, dtype = len(a), problem.v.dtype
    tau = problem.dt * float(a[0, 0])
    linearize = partial(_linearize, jacobian)
    nv = problem.rows[0]
    search = partial(newton.full, linearize, partial(_converges, nv))

    def advance(carry, inputs):
        stages, change, multipliers, before = carry
        number, row, node = inputs
        x = problem.dt * jnp.sum(row[:, None] * stages.rates, axis=0)
        v = problem.v + problem.dt * jnp.sum(row[:, None] * stages.accelerations, axis=0)
        parameters = _Stage(problem, problem.t + node * problem.dt, x, v, tau)
        rate = problem.system.space.tangent_operator_inv(x, v + tau * change)
        none = jnp.zeros(problem.rows[2], dtype)
        guess = jnp.concatenate([rate, tau * multipliers, none])
        root = newton.root(search, _residual, linearize, guess, None, parameters)
        rate, _, change, multipliers = _unknowns(root.y, parameters)
        new = Stages(rate, change, multipliers)
        stages = jax.tree.map(
            lambda table, x: jax.lax.dynamic_update_index_in_dim(table, x, number, 0), stages, new
        )
        record = root._replace(
            y=none, kept=None, worst=stage.number_in_system(root.worst, problem, 1)
        )
        after = jax.tree.map(lambda x, y: jnp.where(before.converged, y, x), before, record)
        after = after._replace(iterations=before.iterations + root.iterations)
        return (stages, change, multipliers, after), None

    counts = (nv, nv, problem.rows[1])
    empty = Stages(*(jnp.zeros((s, n), dtype) for n in counts))
    unsearched = newton.initial_root(jnp.zeros(problem.rows[2], dtype))
    unsearched = unsearched._replace(converged=jnp.ones((), bool))
    inputs = np.arange(s), *(jnp.asarray(x, dtype) for x in (np.tril(a, -1), c))
    first = empty, acceleration, multipliers, unsearched
    (stages, _, _, search_record), _ = jax.lax.scan(advance, first, inputs)
    return stages, search_record


def _unknowns(y: Array, parameters: _Stage) -> tuple[Array, ...]:
    """Rate of the coordinates, velocity, acceleration and multipliers."""
    problem, tau = parameters.step, parameters.tau
    nv, nc, _ = problem.rows
    rate, multipliers, corrections = jnp.split(y, (nv, nv + nc))
    v = stage.velocity(problem, parameters.x + tau * rate, rate, corrections)
    return rate, v, (v - parameters.v) / tau, multipliers / tau


# Newton's method evaluates it at several places: a jitted function is traced once.
@eqx.filter_jit
def _residual(y: Array, parameters: _Stage) -> Array:
    problem, tau = parameters.step, parameters.tau
    rate, *motion = _unknowns(y, parameters)
    q = problem.system.space.retract(problem.q, parameters.x + tau * rate)
    return jnp.concatenate(stage.equations(problem, parameters.t, tau, q, *motion))


@eqx.filter_jit
def _linearize(jacobian: str, y: Array, parameters: _Stage) -> tuple[Array, _StageMatrix]:
    problem, tau = parameters.step, parameters.tau
    space, reactions = problem.system.space, problem.reactions
    rate, *motion = _unknowns(y, parameters)
    x = parameters.x + tau * rate
    q = space.retract(problem.q, x)
    linear = iterations.linearization(jacobian, problem.system, parameters.t, q, *motion, problem.u)
    increment = ImplicitIncrement(x, tau * space.tangent_operator(x, rate))
    factors = tau * tau, tau
    if reactions is None:
        matrix = linear.step_matrix(increment, *factors)
    else:
        matrix = linear.stabilized_matrix(increment, *factors, reactions)
    value = _residual(y, parameters)
    matrix = matrix.regularize()
    return value, _StageMatrix(matrix, space, increment, reactions, problem.rows[2])


def _converges(nv: int, correction: Array, value: Array, y: Array, parameters: _Stage) -> Array:
    return stage.converges(correction, value, y, parameters.step, nv)
