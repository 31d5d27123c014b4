"""Estimated error of a step, from an embedded method.

Of a method with a start it is filtered: (1 - τ J) e = e₀ with the Jacobian J of the rates at the
start of the step, and constraints of e. Stiff components, to which e₀ gives a multiple of their
fast rate, are then as small as they are. Source: Hairer and Wanner, IV.8.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.integrators import iterations
from lie_jax.integrators.base import Difference
from lie_jax.integrators.implicit import stage
from lie_jax.integrators.implicit.stage import Stages, StepParameters
from lie_jax.integrators.implicit.tableaux import Estimate


def error(
    estimate: Estimate,
    jacobian: str,
    problem: StepParameters,
    acceleration: Array,
    multipliers: Array,
    stages: Stages,
    x: Array,
) -> Difference:
    """Error of the end of a step at the local coordinates x, given v̇ and λ at the start."""
    dt, space = problem.dt, problem.system.space
    weights = jnp.asarray(estimate.weights, x.dtype)[:, None]
    rates, changes = (dt * jnp.sum(weights * k, axis=0) for k in stages[:2])
    if not estimate.start:
        return Difference(space.tangent_operator(x, rates), changes)
    tau = dt * estimate.start
    rates = space.tangent_operator(jnp.zeros_like(x), rates)
    return _filter(
        jacobian,
        problem,
        tau,
        Difference(rates + tau * problem.v, changes + tau * acceleration),
        (acceleration, multipliers),
    )


def _filter(
    jacobian: str, problem: StepParameters, tau: Array, raw: Difference, start: tuple[Array, Array]
) -> Difference:
    # Velocities e_v and positions e_q = τ (e_v - Nᵀη) + raw, so that the matrix is that of a step.
    q, v, t = problem.q, problem.v, problem.t
    acceleration, multipliers = start
    reactions = problem.reactions

    def equations(q, change):
        return jnp.concatenate(stage.equations(problem, t, tau, q, v, change, multipliers))

    along = problem.system.space.lift(q, raw.displacement), -raw.velocity / tau
    _, right = jax.jvp(equations, (q, acceleration), along)
    linear = iterations.linearization(jacobian, problem.system, t, q, v, *start, problem.u)
    if reactions is None:
        matrix = linear.step_matrix(None, tau * tau, tau)
    else:
        matrix = linear.stabilized_matrix(None, tau * tau, tau, reactions)
    solution = matrix.regularize().solve_roughly(-right)
    velocity = solution[: problem.rows[0]]
    moved = velocity
    if reactions is not None:
        moved = moved - reactions.of(solution[-problem.rows[2] :])
    return Difference(tau * moved + raw.displacement, velocity)
