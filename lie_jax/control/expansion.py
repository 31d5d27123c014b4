"""Derivatives of a problem along a trajectory, in local coordinates around its states."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.control.problem import Problem, Run, difference, moved
from lie_jax.numerics.small import matvec
from lie_jax.system import State


class Dynamics(NamedTuple):
    """How local coordinates after each step change with those before it, and with the inputs."""

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

    `costate` (steps, n): with respect to the state after each step; `gradient` (steps, nu): of the
    whole cost with respect to the inputs; `parts` (steps, nu): the sum of the absolute values of
    the two terms it is made of, to judge its size by.
    """

    costate: Float[Array, "steps n"]
    gradient: Float[Array, "steps nu"]
    parts: Float[Array, "steps nu"]


def _steps(problem: Problem, run: Run, inputs: Array) -> tuple[Array, State, State, Array]:
    after = jax.tree.map(lambda x, last: jnp.concatenate([x[1:], last[None]]), run.states, run.last)
    return jnp.arange(inputs.shape[0]), run.states, after, inputs


def _local_step(problem: Problem, k, state: State, after: State, u, z):
    space = problem.system.space
    n = 2 * space.nv
    return difference(space, after, problem.step(k, moved(space, state, z[:n]), u + z[n:]))


def _local_cost(problem: Problem, k, state: State, u, z):
    n = 2 * problem.system.nv
    return problem.step_cost(k, moved(problem.system.space, state, z[:n]), u + z[n:])


def dynamics(problem: Problem, run: Run, inputs: Array) -> Dynamics:
    """Jacobians of all steps."""
    n, m = 2 * problem.system.nv, inputs.shape[1]

    def one(k, state, after, u):
        zero = jnp.zeros(n + m, u.dtype)
        return jax.jacfwd(lambda z: _local_step(problem, k, state, after, u, z))(zero)

    both = jax.vmap(one)(*_steps(problem, run, inputs))
    return Dynamics(both[:, :, :n], both[:, :, n:])


def costs(problem: Problem, run: Run, inputs: Array) -> Quadratic:
    """Gradients and Hessians of the costs of all steps."""
    n, m = 2 * problem.system.nv, inputs.shape[1]

    def one(k, state, _, u):
        zero = jnp.zeros(n + m, u.dtype)

        def cost(z):
            return _local_cost(problem, k, state, u, z)

        return Quadratic(jax.grad(cost)(zero), jax.hessian(cost)(zero))

    return jax.vmap(one)(*_steps(problem, run, inputs))


def curvature(
    problem: Problem, run: Run, inputs: Array, costate: Float[Array, "steps n"]
) -> Float[Array, "steps z z"]:
    """Second derivatives of all steps, summed with the costates."""
    n, m = 2 * problem.system.nv, inputs.shape[1]

    def one(k, state, after, u, p):
        zero = jnp.zeros(n + m, u.dtype)

        # Forward over forward: few directions, and no reverse pass through a step.
        def along(z):
            step = lambda z: _local_step(problem, k, state, after, u, z)  # noqa: E731
            return matvec(jax.jacfwd(step)(z).T, p)

        return jax.jacfwd(along)(zero)

    return jax.vmap(one)(*_steps(problem, run, inputs), costate)


def ending(problem: Problem, last: State, multipliers: Array | None = None) -> Ending:
    """Final cost and end values; with `multipliers`, their curvature enters the Hessian too."""
    space = problem.system.space
    zero = jnp.zeros(2 * space.nv, last.q.dtype)

    def cost(x):
        return problem.final_cost(moved(space, last, x))

    def values(x):
        return problem.end_values(moved(space, last, x))

    def total(x):
        return cost(x) if multipliers is None else cost(x) + jnp.sum(multipliers * values(x))

    return Ending(
        jax.grad(cost)(zero), jax.hessian(total)(zero), values(zero), jax.jacfwd(values)(zero)
    )


def adjoint(steps: Dynamics, slopes: Float[Array, "steps z"], last: Float[Array, " n"]) -> Adjoint:
    """Gradient with respect to the inputs; `last` is that with respect to the last state."""
    n = last.shape[0]

    def back(costate, each):
        a, b, slope = each
        through = matvec(b.T, costate)
        out = costate, slope[n:] + through, jnp.abs(slope[n:]) + jnp.abs(through)
        return slope[:n] + matvec(a.T, costate), out

    _, out = jax.lax.scan(back, last, (*steps, slopes), reverse=True)
    return Adjoint(*out)


def end_jacobian(steps: Dynamics, last: Float[Array, "ends n"]) -> Float[Array, "steps ends nu"]:
    """Derivatives of the end values with respect to the inputs; `last`: to the last state."""

    def back(y, each):
        a, b = each
        return y @ a, y @ b

    return jax.lax.scan(back, last, steps, reverse=True)[1]
