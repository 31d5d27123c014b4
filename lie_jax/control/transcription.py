"""Steps of a phase as functions of local coordinates, inputs and parameters, with derivatives.

Every node between steps is unknown. Steps come in chunks of one size, the last one filled up with
steps that do nothing, so that one compiled program serves phases of all lengths.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.control.nodes import (
    Chart,
    Node,
    chart,
    coordinates,
    differ,
    displace_freely,
    move,
    point,
    pull_back,
)
from lie_jax.control.parts import Part
from lie_jax.control.prices import price


class Chunk(NamedTuple):
    """Unknowns of C steps with numbers `k` of a phase; those that are not `real` do nothing.

    `first`: node before them; `after` (C, ...): nodes after each. `u` (C, m), `slacks` (C, c).
    Multipliers: `costates` (C, n) of the nodes after each step, `low`, `high` (C, m) of the limits,
    `pulls` (C, c) of the path. `ease`: one over the price of an excess of the path, zero where the
    path must be kept.
    """

    k: Int[Array, " C"]
    real: Bool[Array, " C"]
    first: Node
    after: Node
    u: Float[Array, "C m"]
    slacks: Float[Array, "C c"]
    costates: Float[Array, "C n"]
    low: Float[Array, "C m"]
    high: Float[Array, "C m"]
    pulls: Float[Array, "C c"]
    ease: Float[Array, ""]

    def before(self) -> Node:
        """Nodes before each step."""
        return jax.tree.map(
            lambda one, rows: jnp.concatenate([one[None], rows[:-1]]), self.first, self.after
        )

    def last(self) -> Node:
        """Node after the last step."""
        return jax.tree.map(lambda rows: rows[-1], self.after)


class Expansion(NamedTuple):
    """Derivatives of C steps along z = (local coordinates of the node before, inputs, p).

    `steps` (C, r, z) and `gaps` (C, r): coordinates of the end of each step around the node after
    it. `cost` (C,), `slope` (C, z): of the costs. `hessian` (C, z, z): of the costs, and with
    multipliers of steps and path. `values` (C, c) of the path, `jacobian` (C, c, z). `charts`:
    around the nodes after the steps. `costates` (C, r): along these.
    """

    steps: Array
    gaps: Array
    cost: Array
    slope: Array
    hessian: Array
    values: Array
    jacobian: Array
    charts: Chart | None
    costates: Array


def charts(part: Part, nodes: Node, k: Array, p: Array) -> Chart | None:
    """Charts around nodes before steps k."""

    def one(k, node):
        return chart(part.system(p), part.moment(k, p)[0], node, part.freedom)

    return jax.vmap(one)(k, nodes)


@eqx.filter_jit
def expand(part: Part, chunk: Chunk, p: Array) -> Expansion:
    """Derivatives of a chunk."""
    nodes = jax.tree.map(
        lambda one, rows: jnp.concatenate([one[None], rows]), chunk.first, chunk.after
    )
    numbers = jnp.concatenate([chunk.k[:1], chunk.k + 1])
    around = charts(part, nodes, numbers, p)
    before, after = (jax.tree.map(lambda x, s=s: x[s], around) for s in (slice(-1), slice(1, None)))
    costates = jax.vmap(pull_back)(after, chunk.costates)
    r, m = costates.shape[1], chunk.u.shape[1]
    width = part.upper - part.lower
    largest = jnp.maximum(1.0, jnp.max(jnp.abs(chunk.u), axis=0, initial=0.0))
    input_sizes = jnp.where(jnp.isfinite(width), width, largest)
    moves_with_p = part.freedom is not None and p.shape[0] > 0

    def one(k, real, node, chart, end, end_chart, u, costate, pull):
        def functions(z):
            moved = p + z[r + m :]
            system, (t, dt) = part.system(moved), part.moment(k, moved)
            start = point(system, t, node, chart, z[:r])
            held = u + z[r : r + m]
            arrived = part.after(t, dt, start, held, moved)
            apart = coordinates(system, end, end_chart, arrived)
            if moves_with_p:
                # Constraints that change with p take the node along.
                carried = point(system, t + dt, end, end_chart, jnp.zeros(r, z.dtype))
                apart = apart - coordinates(system, end, end_chart, carried)
            values = part.path(k, t, dt, start, arrived, held, moved)
            return part.cost(t, dt, start.state, held, moved), apart, values

        origin = jnp.zeros(r + m + p.shape[0], p.dtype)
        if part.curvature == "all":
            sizes = jnp.concatenate([jnp.ones(r, p.dtype), input_sizes, 1.0 + jnp.abs(p)])
            found, slopes, hessian = _curvature(functions, sizes, costate, pull)
        else:
            found, slopes = value_and_jacobian(functions, origin)
            hessian = jnp.zeros((origin.shape[0],) * 2, p.dtype)
            if part.curvature == "costs":
                hessian = _curvature_of_cost(part, k, node, chart, u, p)
        (value, apart, values), (slope, steps, jacobian) = found, slopes
        nothing = jnp.eye(r, origin.shape[0], dtype=p.dtype)
        idle = jnp.pad(jnp.eye(m, dtype=p.dtype), ((r, p.shape[0]), (r, p.shape[0])))

        def keep(x: Array, otherwise: Any = 0.0) -> Array:
            return jnp.where(real, x, otherwise)

        return (
            keep(steps, nothing), keep(apart), keep(value), keep(slope), keep(hessian, idle),
            keep(values, -1.0), keep(jacobian),
        )  # fmt: skip

    rows = (
        chunk.k, chunk.real, chunk.before(), before, chunk.after, after, chunk.u, costates,
        chunk.pulls,
    )  # fmt: skip
    return Expansion(*jax.vmap(one)(*rows), after, costates)


def _curvature(
    functions: Callable, sizes: Array, costate: Array, pull: Array
) -> tuple[Any, Any, Array]:
    """Values (cost, end of the step, path), their Jacobians, and the Hessian of the Lagrangian.

    By differences of exact Jacobians: second derivatives of a step are five times the code of first
    ones, and their last digits change the way to the optimum alone.
    """
    changes = jnp.diag(jnp.finfo(sizes.dtype).eps ** (1 / 3) * sizes)
    at = jnp.concatenate([jnp.zeros_like(changes[:1]), changes, -changes])
    everywhere = jax.vmap(lambda z: value_and_jacobian(functions, z))(at)
    found, slopes = jax.tree.map(lambda x: x[0], everywhere)
    slope, steps, jacobian = everywhere[1]
    gradients = slope + jnp.sum(steps * costate[None, :, None], axis=1)
    gradients = gradients + jnp.sum(jacobian * pull[None, :, None], axis=1)
    ahead, back = jnp.split(gradients[1:], 2)
    hessian = (ahead - back) / (2.0 * jnp.diagonal(changes))[:, None]
    return found, slopes, 0.5 * (hessian + hessian.T)


def _curvature_of_cost(
    part: Part, k: Array, node: Node, chart: Chart | None, u: Array, p: Array
) -> Float[Array, "z z"]:
    """Hessian of the cost of a step, of first order in the directions that constraints leave."""
    n, m = 2 * node.state.v.shape[0] + node.held.shape[0], u.shape[0]

    def cost(z):
        moved = p + z[n + m :]
        t, dt = part.moment(k, moved)
        start = displace_freely(part.system(moved), node, z[:n])
        return part.cost(t, dt, start.state, u + z[n : n + m], moved)

    hessian = jax.hessian(cost)(jnp.zeros(n + m + p.shape[0], p.dtype))
    if chart is None:
        return hessian
    tangent = jax.scipy.linalg.block_diag(chart.tangent, jnp.eye(m + p.shape[0], dtype=p.dtype))
    return tangent.T @ hessian @ tangent


class Values(NamedTuple):
    """Of C steps: `sums` (3,) of costs, of all that must be zero, along all coordinates, and of
    logarithms of distances from limits; values of the path (C, c), with slacks and multipliers.
    """

    sums: Array
    path: Array
    slacks: Array
    pulls: Array


@eqx.filter_jit
def evaluate(part: Part, chunk: Chunk, p: Array, barrier: Any = 0.0) -> Values:
    """Values of a chunk without derivatives, as line searches compare them.

    Slacks and multipliers of a path that has a price are those of a barrier.
    """

    def one(k, real, node, end, u):
        system, (t, dt) = part.system(p), part.moment(k, p)
        arrived = part.after(t, dt, node, u, p)
        values = part.path(k, t, dt, node, arrived, u, p)
        rows = part.cost(t, dt, node.state, u, p), differ(system, end, arrived), values
        return tuple(jnp.where(real, x, 0.0) for x in rows)

    rows = chunk.k, chunk.real, chunk.before(), chunk.after, chunk.u
    cost, gaps, path = jax.vmap(one)(*rows)
    real = chunk.real[:, None]
    of_path = price(path, chunk.slacks, chunk.pulls, real, chunk.ease, barrier)
    logarithms: Any = sum(jnp.sum(jnp.log(x)) for x in distances(part, chunk))
    sums = jnp.stack([jnp.sum(cost), jnp.sum(jnp.abs(gaps)), logarithms])
    return Values(sums + of_path.sums, path, of_path.slacks, of_path.pulls)


@eqx.filter_jit
def costs(part: Part, chunk: Chunk, p: Array) -> Float[Array, " C"]:
    """Costs of the steps of a chunk."""

    def one(k, real, node, u):
        t, dt = part.moment(k, p)
        return jnp.where(real, part.cost(t, dt, node.state, u, p), 0.0)

    return jax.vmap(one)(chunk.k, chunk.real, chunk.before(), chunk.u)


def value_and_jacobian(function: Callable, z: Array) -> tuple[Any, Any]:
    """Value of a function, and its Jacobian in forward mode."""

    def with_value(z):
        value = function(z)
        return value, value

    jacobian, value = jax.jacfwd(with_value, has_aux=True)(z)
    return value, jacobian


def distances(part: Part, chunk: Chunk) -> tuple[Float[Array, "C m"], Float[Array, "C m"]]:
    """From the lower and the upper limits; one where there is none."""

    def finite(x, limit):
        return jnp.where(jnp.isfinite(limit)[None] & chunk.real[:, None], x, 1.0)

    below = finite(chunk.u - part.lower[None], part.lower)
    return below, finite(part.upper[None] - chunk.u, part.upper)


@eqx.filter_jit
def roll_out(part: Part, chunk: Chunk, p: Array) -> Chunk:
    """Chunk with the nodes to which its inputs lead from its first one."""

    def step(node, row):
        k, real, u = row
        t, dt = part.moment(k, p)
        arrived = part.after(t, dt, node, u, p)
        end = jax.tree.map(lambda new, old: jnp.where(real, new, old), arrived, node)
        return end, end

    after = jax.lax.scan(step, chunk.first, (chunk.k, chunk.real, chunk.u))[1]
    return chunk._replace(after=after)


@eqx.filter_jit
def onto_constraints(part: Part, chunk: Chunk, p: Array) -> Chunk:
    """Chunk with its nodes after steps moved onto the constraints."""
    if part.freedom is None:
        return chunk
    around = charts(part, chunk.after, chunk.k + 1, p)

    def one(k, node, chart):
        x = jnp.zeros(chart.tangent.shape[1], p.dtype)
        return move(part.system(p), part.moment(k, p)[0], node, chart, x)

    return chunk._replace(after=jax.vmap(one)(chunk.k + 1, chunk.after, around))
