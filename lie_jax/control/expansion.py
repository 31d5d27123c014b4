"""Derivatives of a problem along a trajectory, in local coordinates around its states."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.control.problem import Inputs, Problem, Run, difference, displace
from lie_jax.numerics.small import matvec
from lie_jax.system import State


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
    to the inputs; `terms`: sum of the absolute values of the gradient's two terms, its scale.
    """

    costate: Float[Array, "steps n"]
    gradient: Inputs
    terms: Inputs


def _along(problem: Problem, run: Run, derivative: Callable, *rows: Array) -> Any:
    """derivative(step, cost, z = 0, *row) of each step, its end and cost as functions of z."""
    space = problem.system.space
    n = 2 * space.nv
    after = jax.tree.map(lambda x, last: jnp.concatenate([x[1:], last[None]]), run.states, run.last)
    count, m = run.inputs.shape
    origin = jnp.zeros((count, n + m), run.inputs.dtype)

    def at_step(k, state, after, u, origin, *row):
        def step(z):
            end = problem.step(k, displace(space, state, z[:n]), u + z[n:])
            return difference(space, after, end)

        def cost(z):
            return problem.step_cost(k, displace(space, state, z[:n]), u + z[n:])

        return derivative(step, cost, origin, *row)

    return jax.vmap(at_step)(jnp.arange(count), run.states, after, run.inputs, origin, *rows)


def dynamics(problem: Problem, run: Run) -> Dynamics:
    """Jacobians of all steps."""
    n = 2 * problem.system.nv
    jacobians = _along(problem, run, lambda step, _, z: jax.jacfwd(step)(z))
    return Dynamics(jacobians[:, :, :n], jacobians[:, :, n:])


def costs(problem: Problem, run: Run) -> Quadratic:
    """Gradients and Hessians of the costs of all steps."""

    def expanded(_, cost, z):
        return Quadratic(jax.grad(cost)(z), jax.hessian(cost)(z))

    return _along(problem, run, expanded)


def curvature(
    problem: Problem, run: Run, costate: Float[Array, "steps n"]
) -> Float[Array, "steps z z"]:
    """Second derivatives of all steps, summed with the costates."""

    # Forward over forward: few directions, and no reverse pass through a step.
    def summed(step, _, z, costate):
        return jax.jacfwd(lambda z: matvec(jax.jacfwd(step)(z).T, costate))(z)

    return _along(problem, run, summed, costate)


def ending(problem: Problem, last: State, multipliers: Array | None = None) -> Ending:
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


def adjoint(steps: Dynamics, slopes: Float[Array, "steps z"], last: Float[Array, " n"]) -> Adjoint:
    """Gradient with respect to the inputs; `last` is that with respect to the last state."""
    n = last.shape[0]

    def back(costate, step):
        a, b, slope = step
        pulled_back = matvec(b.T, costate)
        terms = jnp.abs(slope[n:]) + jnp.abs(pulled_back)
        return slope[:n] + matvec(a.T, costate), (costate, slope[n:] + pulled_back, terms)

    return Adjoint(*jax.lax.scan(back, last, (*steps, slopes), reverse=True)[1])


def end_jacobian(steps: Dynamics, last: Float[Array, "ends n"]) -> Float[Array, "steps ends nu"]:
    """Derivatives of the end values with respect to the inputs; `last`: to the last state."""
    return jax.lax.scan(lambda y, step: (y @ step.a, y @ step.b), last, steps, reverse=True)[1]
