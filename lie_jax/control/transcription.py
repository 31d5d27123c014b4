"""The problem as one of many unknowns: inputs, and states at nodes between the segments."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.control.problem import Problem, difference, follow, moved
from lie_jax.system import State


class Unknowns(NamedTuple):
    """Coefficients of the inputs, and local coordinates of the nodes around their references."""

    coefficients: Float[Array, "coefficients nu"]
    nodes: Float[Array, "nodes n"]


class Values(NamedTuple):
    """Cost, gaps at the nodes in local coordinates, end values, and the states at all nodes."""

    cost: Float[Array, ""]
    gaps: Float[Array, "nodes n"]
    ends: Float[Array, " ends"]
    reached: State


class Transcription(eqx.Module):
    """Direct shooting over segments of equal length; with one segment there are no nodes.

    `references` are the states around which local coordinates of the nodes are taken. `basis`
    (steps, coefficients) gives the inputs from the coefficients; None if these are the inputs.
    """

    problem: Problem
    references: State
    basis: Float[Array, "steps coefficients"] | None

    def inputs(self, coefficients: Float[Array, "coefficients nu"]) -> Float[Array, "steps nu"]:
        """The inputs of all steps."""
        return coefficients if self.basis is None else self.basis @ coefficients

    def states(self, nodes: Float[Array, "nodes n"]) -> State:
        """The states at the nodes, (nodes, nq) and (nodes, nv)."""
        space = self.problem.system.space
        return jax.vmap(lambda state, x: moved(space, state, x))(self.references, nodes)

    def evaluate(self, unknowns: Unknowns) -> Values:
        """Take the steps of all segments, side by side."""
        problem = self.problem
        space, inputs = problem.system.space, self.inputs(unknowns.coefficients)
        segments = unknowns.nodes.shape[0] + 1
        length = inputs.shape[0] // segments
        nodes = self.states(unknowns.nodes)
        starts = jax.tree.map(
            lambda first, rest: jnp.concatenate([first[None], rest]), problem.state, nodes
        )
        run = jax.vmap(lambda state, u, first: follow(problem, state, u, first))(
            starts, inputs.reshape(segments, length, -1), length * jnp.arange(segments)
        )
        before = jax.tree.map(lambda x: x[:-1], run.last)
        last = jax.tree.map(lambda x: x[-1], run.last)
        gaps = jax.vmap(lambda a, b: difference(space, a, b))(nodes, before)
        cost = jnp.sum(run.cost) + problem.final_cost(last)
        return Values(cost, gaps, problem.end_values(last), before)
