"""Conditions of a problem, end values and inequalities, and their augmented Lagrangian."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.control.expansion import Dynamics, Ending, Quadratic
from lie_jax.control.problem import ControlProblem, Inputs, Run
from lie_jax.numerics.small import matvec
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.systems.system import State


class Conditions(NamedTuple):
    """A number for each end value, and for each inequality of each step."""

    ends: Float[Array, " ends"]
    inequalities: Float[Array, "steps inequalities"]


def values(problem: ControlProblem, run: Run) -> Conditions:
    """Values along a run: ends are zero at a solution, inequalities are not positive."""
    return Conditions(problem.end_values(run.last), run.inequalities)


@eqx.filter_jit
def along(problem: ControlProblem, trajectory: Trajectory, inputs: Inputs) -> Conditions:
    """Values along a trajectory."""
    after = State(trajectory.q[1:], trajectory.v[1:])
    last = jax.tree.map(lambda x: x[-1], after)
    numbers = jnp.arange(inputs.shape[0])
    inequalities = jax.vmap(problem.inequality_values)(numbers, after, inputs)
    return Conditions(problem.end_values(last), inequalities)


def pulls(values: Conditions, multipliers: Conditions, weights: Conditions) -> Conditions:
    """Derivatives of the price by the values; the multipliers of the next correction."""
    pulled = jax.tree.map(lambda x, m, w: m + w * x, values, multipliers, weights)
    return pulled._replace(inequalities=jnp.maximum(pulled.inequalities, 0.0))


def price(values: Conditions, multipliers: Conditions, weights: Conditions) -> Float[Array, ""]:
    """Augmented Lagrangian without the cost: multipliers · values + weights · values²/2.

    The price of an inequality is that of the value above which it grows, where that is larger.
    """

    def term(x, m, w):
        return jnp.sum(x * (m + 0.5 * w * x))

    ends, inequalities = zip(values, multipliers, weights, strict=True)
    x, m, w = inequalities
    return term(*ends) + term(jnp.maximum(x, -m / w), m, w)


def errors(values: Conditions, multipliers: Conditions) -> Conditions:
    """Sizes of the ends, of inequalities above zero, and of those whose multipliers act."""
    x = values.inequalities
    acts = (multipliers.inequalities > 0.0) | (x > 0.0)
    return Conditions(jnp.abs(values.ends), jnp.where(acts, jnp.abs(x), 0.0))


def largest(conditions: Conditions) -> Float[Array, ""]:
    """Largest absolute number."""
    ends, inequalities = (jnp.max(jnp.abs(x), initial=0.0) for x in conditions)
    return jnp.maximum(ends, inequalities)


def natural_weights(
    problem: ControlProblem,
    steps: Dynamics,
    costs: Quadratic,
    last: Ending,
    jacobian: Float[Array, "steps inequalities z"],
) -> Conditions:
    """Price of values by the running costs alone: moving one by c costs about weight c²/2."""
    n = last.slope.shape[0]
    price = jnp.diagonal(costs.hessian, axis1=1, axis2=2)[:, n:]
    cheapness = 1.0 / jnp.where(price > 0.0, price, problem.dt)

    # The Gramian of the states that a unit of cost reaches.
    def forward(gramian, step):
        a, b, cheapness, rows = step
        of_state, of_input = rows[:, :n], rows[:, n:]
        reached = jnp.sum((of_state @ gramian) * of_state, axis=1) + matvec(of_input**2, cheapness)
        return a @ gramian @ a.T + (b * cheapness[None]) @ b.T, reached

    start = jnp.zeros((n, n), last.slope.dtype)
    gramian, reached = jax.lax.scan(forward, start, (*steps, cheapness, jacobian))
    ends = jnp.sum((last.jacobian @ gramian) * last.jacobian, axis=1)
    return jax.tree.map(_inverse, Conditions(ends, reached))


def _inverse(reached: Array) -> Array:
    """Inverse, and for zeros the largest one of the others."""
    weights = 1.0 / jnp.where(reached > 0.0, reached, 1.0)
    most = jnp.max(jnp.where(reached > 0.0, weights, 0.0), initial=0.0)
    return jnp.where(reached > 0.0, weights, jnp.where(most > 0.0, most, 1.0))
