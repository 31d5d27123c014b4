"""Direct shooting as a nonlinear programme of one array of unknowns, with its derivatives."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from lie_jax.control.problem import Inputs, Problem, difference, displace, follow
from lie_jax.system import State


class Unknowns(NamedTuple):
    """Coefficients of the inputs, and local coordinates of the nodes around their references."""

    coefficients: Float[Array, "coefficients nu"]
    nodes: Float[Array, "nodes n"]


class Programme(eqx.Module):
    """Shooting over segments of equal length; `nodes` are the states between the segments.

    - `references`: the states (nodes, nq), (nodes, nv) around which nodes have local coordinates.
    - `basis`: (steps, coefficients), from coefficients to inputs; None where they are the same.
    - `start`: the guess.
    - `scale`: units of the unknowns. The scaled unknowns z are one array, in which the cost is
      curved alike.
    """

    problem: Problem
    references: State
    basis: Float[Array, "steps coefficients"] | None
    start: Unknowns
    scale: Unknowns

    def unknowns(self, z: Array) -> Unknowns:
        """Unknowns from scaled numbers."""
        unravel = ravel_pytree(self.start)[1]
        return jax.tree.map(lambda x, scale: x * scale, unravel(z), self.scale)

    def scaled(self, unknowns: Unknowns) -> Array:
        """Scaled numbers of the unknowns."""
        return ravel_pytree(jax.tree.map(lambda x, scale: x / scale, unknowns, self.scale))[0]

    def inputs(self, coefficients: Float[Array, "coefficients nu"]) -> Inputs:
        """Inputs of all steps."""
        return coefficients if self.basis is None else self.basis @ coefficients

    def states(self, nodes: Float[Array, "nodes n"]) -> State:
        """States at the nodes, (nodes, nq) and (nodes, nv)."""
        space = self.problem.system.space
        return jax.vmap(lambda state, x: displace(space, state, x))(self.references, nodes)

    def values(self, z: Array) -> Float[Array, " values"]:
        """Cost, gaps at the nodes in local coordinates, and end values.

        All segments take their steps side by side.
        """
        problem, unknowns = self.problem, self.unknowns(z)
        space, inputs = problem.system.space, self.inputs(unknowns.coefficients)
        segments = unknowns.nodes.shape[0] + 1
        length = inputs.shape[0] // segments
        nodes = self.states(unknowns.nodes)
        starts = jax.tree.map(
            lambda first, others: jnp.concatenate([first[None], others]), problem.state, nodes
        )
        run = jax.vmap(lambda state, u, first: follow(problem, state, u, first))(
            starts, inputs.reshape(segments, length, -1), length * jnp.arange(segments)
        )
        reached = jax.tree.map(lambda x: x[:-1], run.last)
        last = jax.tree.map(lambda x: x[-1], run.last)
        gaps = jax.vmap(lambda a, b: difference(space, a, b))(nodes, reached)
        cost = jnp.sum(run.cost) + problem.final_cost(last)
        return jnp.concatenate([cost[None], gaps.reshape(-1), problem.end_values(last)])


def build(problem: Problem, coefficients: Array, basis: Array | None, nodes: int) -> Programme:
    """Programme with the guess as start, and the nodes on the motion that the guess gives."""
    applied = coefficients if basis is None else basis @ coefficients
    length = applied.shape[0] // nodes
    states, curvature = _first_run(problem, applied)
    references = jax.tree.map(lambda x: x[length::length], states)
    if basis is not None:
        curvature = basis.T**2 @ curvature
    half = jnp.broadcast_to(0.5 * (problem.upper - problem.lower)[None], curvature.shape)
    flat = jnp.where(jnp.isfinite(half), half, 1.0)
    is_curved = curvature > 0.0
    scale = jnp.where(is_curved, 1.0 / jnp.sqrt(jnp.where(is_curved, curvature, 1.0)), flat)
    at_nodes = jnp.zeros((nodes - 1, 2 * problem.system.nv), applied.dtype)
    return Programme(
        problem,
        references,
        basis,
        start=Unknowns(coefficients, at_nodes),
        scale=Unknowns(scale, jnp.ones_like(at_nodes)),
    )


@eqx.filter_jit
def _first_run(problem: Problem, inputs: Inputs) -> tuple[State, Inputs]:
    """States along the guess, and the second derivative of the costs along each input."""
    run = follow(problem, problem.state, inputs)

    def curvature(k, state, u):
        hessian = jax.hessian(lambda u: problem.step_cost(k, state, u))(u)
        return jnp.diagonal(hessian)

    return run.states, jax.vmap(curvature)(jnp.arange(inputs.shape[0]), run.states, inputs)


@eqx.filter_jit
def linearize(programme: Programme, z: Array) -> tuple[Array, Array]:
    """Cost, gaps and end values (1 + rows,), and their Jacobian."""
    jacobian, values = jax.jacrev(lambda z: (programme.values(z),) * 2, has_aux=True)(z)
    return values, jacobian


@eqx.filter_jit
def curvature(programme: Programme, z: Array, weights: Array, direction: Array) -> Array:
    """Second derivative of weights · (cost, gaps, ends) along a direction."""
    slope = jax.grad(lambda z: jnp.sum(weights * programme.values(z)))
    return jax.jvp(slope, (z,), (direction,))[1]


def bounds(programme: Programme) -> tuple[Array, Array]:
    """Lower and upper bounds of z, infinite where there is none."""
    problem, start = programme.problem, programme.start
    inputs = jnp.zeros_like(start.coefficients)
    infinite = jnp.full_like(start.nodes, jnp.inf)
    return (
        programme.scaled(Unknowns(inputs + problem.lower[None], -infinite)),
        programme.scaled(Unknowns(inputs + problem.upper[None], infinite)),
    )


@eqx.filter_jit
def recenter(programme: Programme, z: Array) -> tuple[Programme, Array]:
    """Programme with the states at the nodes as references, and its z of the same motion."""
    unknowns = programme.unknowns(z)
    references = programme.states(unknowns.nodes)
    recentered = eqx.tree_at(lambda p: p.references, programme, references)
    return recentered, recentered.scaled(unknowns._replace(nodes=jnp.zeros_like(unknowns.nodes)))
