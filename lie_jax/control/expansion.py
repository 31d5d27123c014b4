"""Derivatives of a problem along a trajectory, in local coordinates around its states."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from lie_jax.control.problem import ControlProblem, Inputs, Run, difference, displace
from lie_jax.numerics.small import matvec
from lie_jax.systems.system import State


class Dynamics(NamedTuple):
    """Derivatives of the local coordinates after each step, by those before it and by inputs."""

    a: Float[Array, "steps n n"]
    b: Float[Array, "steps n nu"]


class Quadratic(NamedTuple):
    """Gradient and Hessian of functions of z = (local coordinates, inputs), one for each step."""

    slope: Float[Array, "steps z"]
    hessian: Float[Array, "steps z z"]


class Ending(NamedTuple):
    """Final cost and end values, with their derivatives in local coordinates."""

    slope: Float[Array, " n"]
    hessian: Float[Array, "n n"]
    values: Float[Array, " ends"]
    jacobian: Float[Array, "ends n"]


class Adjoint(NamedTuple):
    """Derivatives of a function of the last state, by the adjoint recursion.

    `costate`: with respect to the state after each step; `gradient`: of the whole cost with respect
    to the inputs; `terms`: sum of the absolute values of the gradient's three terms, its scale.
    """

    costate: Float[Array, "steps n"]
    gradient: Inputs
    terms: Inputs


def _along(problem: ControlProblem, run: Run, derivative: Callable, *rows: PyTree) -> Any:
    """derivative(step, cost, z = 0, *row) of each step, its end and cost as functions of z."""
    space = problem.system.space
    n = 2 * space.nv
    count, m = run.inputs.shape
    origin = jnp.zeros((count, n + m), run.inputs.dtype)

    def at_step(k, state, after, u, origin, *row):
        def step(z):
            end = problem.step(k, displace(space, state, z[:n]), u + z[n:])
            return difference(space, after, end)

        def cost(z):
            return problem.step_cost(k, displace(space, state, z[:n]), u + z[n:])

        return derivative(step, cost, origin, *row)

    numbers = jnp.arange(count)
    return jax.vmap(at_step)(numbers, run.states, run.after(), run.inputs, origin, *rows)


def dynamics(problem: ControlProblem, run: Run) -> Dynamics:
    """Jacobians of all steps."""
    n = 2 * problem.system.nv
    jacobians = _along(problem, run, lambda step, _, z: jax.jacfwd(step)(z))
    return Dynamics(jacobians[:, :, :n], jacobians[:, :, n:])


def costs(problem: ControlProblem, run: Run) -> Quadratic:
    """Gradients and Hessians of the costs of all steps."""

    def expand(_, cost, z):
        return Quadratic(jax.grad(cost)(z), jax.hessian(cost)(z))

    return _along(problem, run, expand)


def inequality_jacobian(
    problem: ControlProblem, run: Run, steps: Dynamics
) -> Float[Array, "steps inequalities z"]:
    """Derivatives of the inequalities after all steps, by z before them."""
    space = problem.system.space
    n = 2 * space.nv

    def of_end(k, after, u):
        def values(y):
            return problem.inequality_values(k, displace(space, after, y[:n]), u + y[n:])

        return jax.jacfwd(values)(jnp.zeros(n + u.shape[0], u.dtype))

    rows = jax.vmap(of_end)(jnp.arange(run.inputs.shape[0]), run.after(), run.inputs)
    of_state, of_input = rows[:, :, :n], rows[:, :, n:]
    return jnp.concatenate([of_state @ steps.a, of_state @ steps.b + of_input], axis=2)


def curvature(
    problem: ControlProblem,
    run: Run,
    costate: Float[Array, "steps n"],
    pull: Float[Array, "steps inequalities"],
) -> Float[Array, "steps z z"]:
    """Second derivatives of all steps and inequalities, summed with the costates and the pulls.

    Costates are those of the costs after a step, without its inequalities.
    """
    space, m = problem.system.space, run.inputs.shape[1]

    # Forward over forward: few directions, and no reverse pass through a step.
    def second_derivatives(step, _, z, k, after, u, costate, pull):
        def total(z):
            end = step(z)
            values = problem.inequality_values(k, displace(space, after, end), u + z[-m:])
            return jnp.sum(costate * end) + jnp.sum(pull * values)

        return jax.jacfwd(jax.jacfwd(total))(z)

    rows = jnp.arange(run.inputs.shape[0]), run.after(), run.inputs
    return _along(problem, run, second_derivatives, *rows, costate, pull)


def ending(problem: ControlProblem, last: State, multipliers: Array | None = None) -> Ending:
    """Final cost and end values; with `multipliers`, their curvature enters the Hessian too."""
    space = problem.system.space
    origin = jnp.zeros(2 * space.nv, last.q.dtype)

    def cost(x):
        return problem.final_cost(displace(space, last, x))

    def values(x):
        return problem.end_values(displace(space, last, x))

    def total(x):
        return cost(x) if multipliers is None else cost(x) + jnp.sum(multipliers * values(x))

    return Ending(
        jax.grad(cost)(origin),
        jax.hessian(total)(origin),
        values(origin),
        jax.jacfwd(values)(origin),
    )


def adjoint(
    steps: Dynamics,
    slopes: Float[Array, "steps z"],
    pulled: Float[Array, "steps z"],
    last: Float[Array, " n"],
) -> Adjoint:
    """Gradient with respect to the inputs, from the slopes of costs and of inequalities.

    `last` is the gradient with respect to the last state.
    """
    n = last.shape[0]

    def back(costate, step):
        a, b, slope, pulled = step
        terms = jnp.stack([slope[n:], pulled[n:], matvec(b.T, costate)])
        sums = jnp.sum(terms, axis=0), jnp.sum(jnp.abs(terms), axis=0)
        return slope[:n] + pulled[:n] + matvec(a.T, costate), (costate, *sums)

    return Adjoint(*jax.lax.scan(back, last, (*steps, slopes, pulled), reverse=True)[1])
