"""The optimal control problem in discrete time, and its states in local coordinates."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.spaces.base import AbstractSpace
from lie_jax.system import AbstractSystem, State

Inputs = Float[Array, "steps nu"]


class Problem(eqx.Module):
    """Minimise Σ dt running(t, q, v, u) + final(q, v) subject to end(q, v) = 0 and limits on u.

    The sum goes over the steps, with the state at the start of each; the inputs u are held over it.
    """

    system: AbstractSystem
    integrator: AbstractIntegrator
    state: State
    dt: Float[Array, ""]
    lower: Float[Array, " nu"]
    upper: Float[Array, " nu"]
    running: Callable
    final: Callable | None = None
    end: Callable | None = None

    def step(self, k: Array, state: State, u: Array) -> State:
        """State after step k."""
        t = k.astype(self.dt.dtype) * self.dt
        # The carry of a one-step method is at most a start value: each step makes a new one.
        carry = self.integrator.init(self.system, t, self.dt, state, u)
        return self.integrator.step(self.system, t, self.dt, state, carry, u).state

    def step_cost(self, k: Array, state: State, u: Array) -> Array:
        """Cost of step k."""
        t = k.astype(self.dt.dtype) * self.dt
        return self.dt * self.running(t, state.q, state.v, u)

    def final_cost(self, state: State) -> Array:
        """Cost of the last state."""
        if self.final is None:
            return jnp.zeros((), state.q.dtype)
        return self.final(state.q, state.v)

    def end_values(self, state: State) -> Float[Array, " ends"]:
        """Values of the end conditions, zero at a solution."""
        if self.end is None:
            return jnp.zeros(0, state.q.dtype)
        return self.end(state.q, state.v).reshape(-1)


def displace(space: AbstractSpace, state: State, x: Float[Array, " n"]) -> State:
    """State at the local coordinates x = (of q, change of v) around a state."""
    return State(space.retract(state.q, x[: space.nv]), state.v + x[space.nv :])


def difference(space: AbstractSpace, state: State, other: State) -> Float[Array, " n"]:
    """Local coordinates around a state of another one; inverse of `displace`."""
    return jnp.concatenate([space.inverse_retract(state.q, other.q), other.v - state.v])


class Run(NamedTuple):
    """States before each step, the last state, and the sum of the steps' costs."""

    states: State
    last: State
    cost: Float[Array, ""]


def follow(problem: Problem, state: State, inputs: Inputs, first: int | Array = 0) -> Run:
    """Take the steps from number `first` on with these inputs."""

    def body(state, ku):
        k, u = ku
        return problem.step(k, state, u), (state, problem.step_cost(k, state, u))

    numbers = first + jnp.arange(inputs.shape[0])
    # Reverse mode keeps the states alone, and computes the stages of each step again.
    body = jax.checkpoint(body, prevent_cse=False)
    last, (states, costs) = jax.lax.scan(body, state, (numbers, inputs))
    return Run(states, last, jnp.sum(costs))
