"""Direct shooting as a nonlinear programme of one array of unknowns, with its derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from lie_jax.control.problem import Problem, follow
from lie_jax.control.transcription import Transcription, Unknowns, Values
from lie_jax.system import State


class Programme(eqx.Module):
    """The unknowns as one array z in units in which the cost is curved alike."""

    transcription: Transcription
    start: Unknowns
    scale: Unknowns

    def unknowns(self, z: Array) -> Unknowns:
        """From scaled numbers."""
        unravel = ravel_pytree(self.start)[1]
        return jax.tree.map(lambda x, scale: x * scale, unravel(z), self.scale)

    def scaled(self, unknowns: Unknowns) -> Array:
        """To scaled numbers."""
        return ravel_pytree(jax.tree.map(lambda x, scale: x / scale, unknowns, self.scale))[0]


def build(problem: Problem, coefficients: Array, basis: Array | None, nodes: int) -> Programme:
    """With the guess as start, and the nodes on the motion that it gives."""
    applied = coefficients if basis is None else basis @ coefficients
    length = applied.shape[0] // nodes
    states, own = _first_run(problem, applied)
    references = jax.tree.map(lambda x: x[length::length], states)
    if basis is not None:
        own = basis.T**2 @ own
    half = jnp.broadcast_to(0.5 * (problem.upper - problem.lower)[None], own.shape)
    flat = jnp.where(jnp.isfinite(half), half, 1.0)
    curved = own > 0.0
    scale = jnp.where(curved, 1.0 / jnp.sqrt(jnp.where(curved, own, 1.0)), flat)
    at_nodes = jnp.zeros((nodes - 1, 2 * problem.system.nv), applied.dtype)
    return Programme(
        Transcription(problem, references, basis),
        Unknowns(coefficients, at_nodes),
        Unknowns(scale, jnp.ones_like(at_nodes)),
    )


@eqx.filter_jit
def _first_run(problem: Problem, inputs: Array) -> tuple[State, Array]:
    """The states that the guess leads through, and the curvature of the costs along each input."""
    run = follow(problem, problem.state, inputs)

    def own(k, state, u):
        hessian = jax.hessian(lambda u: problem.step_cost(k, state, u))(u)
        return jnp.diagonal(hessian)

    return run.states, jax.vmap(own)(jnp.arange(inputs.shape[0]), run.states, inputs)


def _values(programme: Programme, z: Array) -> tuple[Array, Values]:
    values = programme.transcription.evaluate(programme.unknowns(z))
    rows = [values.cost[None], values.gaps.reshape(-1), values.ends]
    return jnp.concatenate(rows), values


@eqx.filter_jit
def linearize(programme: Programme, z: Array) -> tuple[Array, Array]:
    """Cost, gaps and end values (1 + rows,), and their Jacobian."""

    def rows(z):
        return (_values(programme, z)[0],) * 2

    jacobian, value = jax.jacrev(rows, has_aux=True)(z)
    return value, jacobian


@eqx.filter_jit
def curvature(programme: Programme, z: Array, weights: Array, direction: Array) -> Array:
    """Second derivative of weights · (cost, gaps, ends) along a direction."""

    def slope(z):
        return jax.grad(lambda z: jnp.sum(weights * _values(programme, z)[0]))(z)

    return jax.jvp(slope, (z,), (direction,))[1]


def bounds(programme: Programme) -> tuple[Array, Array]:
    """Lower and upper bounds of z, infinite where there is none."""
    problem, start = programme.transcription.problem, programme.start
    inputs = jnp.zeros_like(start.coefficients)
    infinite = jnp.full_like(start.nodes, jnp.inf)
    return (
        programme.scaled(Unknowns(inputs + problem.lower[None], -infinite)),
        programme.scaled(Unknowns(inputs + problem.upper[None], infinite)),
    )


@eqx.filter_jit
def centred(programme: Programme, z: Array) -> tuple[Programme, Array]:
    """The programme with the states at the nodes as references, and its z of the same motion."""
    unknowns = programme.unknowns(z)
    references = programme.transcription.states(unknowns.nodes)
    moved = eqx.tree_at(lambda p: p.transcription.references, programme, references)
    return moved, moved.scaled(unknowns._replace(nodes=jnp.zeros_like(unknowns.nodes)))
