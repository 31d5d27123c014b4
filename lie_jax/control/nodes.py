"""Nodes between the steps of an optimal control problem, and local coordinates around them.

A node is free along its local coordinates: all of them, or with constraints as many as leave these
satisfied, so that redundant and dependent constraints need no rows and no multipliers of their own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.control.problem import difference, displace
from lie_jax.numerics.small import matvec, split_at
from lie_jax.systems.index1 import project_onto_constraints
from lie_jax.systems.system import AbstractSystem, State

# Gauss-Newton steps of a node back onto the constraints: a move along its chart leaves the square
# of its size, which each step squares again.
_CORRECTIONS = 3


class Node(NamedTuple):
    """State, and the inputs of the step before where their rates have limits, else none."""

    state: State
    held: Float[Array, " held"]


class Chart(NamedTuple):
    """Local coordinates (r,) = (of q, of v, of the inputs held) around a node with constraints.

    `positions` (nv, r1), `velocities` (nv, r2): directions in which the constraints let q and v go.
    `tangent` (n, r), and `inverse` (r, n) with inverse @ tangent = 1: between them and the
    coordinates of a node without constraints, to first order.
    """

    positions: Array
    velocities: Array
    tangent: Array
    inverse: Array


class Freedom(NamedTuple):
    """Number of directions of q and of v that the constraints leave."""

    positions: int
    velocities: int


def freedom(system: AbstractSystem, state: State) -> Freedom:
    """Directions that the constraints leave at a state of concrete numbers, by singular values."""
    t = jnp.zeros((), state.q.dtype)
    rows = np.asarray(system.constraint_jacobian(t, state.q))
    positions = system.nc - system.velocity_rows

    def rank(rows: np.ndarray) -> int:
        return int(np.linalg.matrix_rank(rows, tol=_small(rows))) if rows.size else 0

    return Freedom(system.nv - rank(rows[:positions]), system.nv - rank(rows))


def _small(rows: np.ndarray) -> float:
    """Singular values below this are zero."""
    return float(np.finfo(rows.dtype).eps ** 0.5 * np.linalg.norm(rows, 2))


def displace_freely(system: AbstractSystem, node: Node, x: Float[Array, " n"]) -> Node:
    """Node at local coordinates that heed no constraints."""
    change, held = split_at(x, 2 * system.nv)
    return Node(displace(system.space, node.state, change), node.held + held)


def differ(system: AbstractSystem, node: Node, other: Node) -> Float[Array, " n"]:
    """Local coordinates of another node that heed no constraints."""
    apart = difference(system.space, node.state, other.state)
    return jnp.concatenate([apart, other.held - node.held])


def point(
    system: AbstractSystem,
    t: Array,
    node: Node,
    chart: Chart | None,
    x: Float[Array, " r"],
    corrections: int = 1,
) -> Node:
    """Node at local coordinates x, on the constraints after so many `corrections`.

    One of them leaves the fourth power of x: derivatives at zero are right to the third.
    """
    if chart is None:
        return displace_freely(system, node, x)
    of_q, rest = split_at(x, chart.positions.shape[1])
    of_v, held = split_at(rest, chart.velocities.shape[1])
    moved = [matvec(chart.positions, of_q), matvec(chart.velocities, of_v), held]
    free = displace_freely(system, node, jnp.concatenate(moved))
    state, _ = project_onto_constraints(system, t, free.state, corrections)
    return Node(state, free.held)


def move(system: AbstractSystem, t: Array, node: Node, chart: Chart | None, x: Array) -> Node:
    """Node at local coordinates x, on the constraints to rounding."""
    return point(system, t, node, chart, x, _CORRECTIONS)


def coordinates(
    system: AbstractSystem, node: Node, chart: Chart | None, other: Node
) -> Float[Array, " r"]:
    """Local coordinates of another node, to first order if there are constraints."""
    apart = differ(system, node, other)
    return apart if chart is None else matvec(chart.inverse, apart)


def chart(system: AbstractSystem, t: Array, node: Node, allowed: Freedom | None) -> Chart | None:
    """Chart around a node; None where all coordinates are free."""
    if allowed is None:
        return None
    rows = system.constraint_jacobian(t, node.state.q)
    bases = (
        jnp.linalg.svd(part)[2][system.nv - count :].T if part.shape[0] else jnp.eye(system.nv)
        for part, count in zip(
            (rows[: system.nc - system.velocity_rows], rows), allowed, strict=True
        )
    )
    positions, velocities = bases
    size = sum(allowed) + node.held.shape[0]
    blank = jnp.zeros((size, 2 * system.nv + node.held.shape[0]), node.state.q.dtype)
    result = Chart(positions, velocities, blank.T, blank)

    def apart(x: Array) -> Array:
        return differ(system, node, point(system, t, node, result, x))

    tangent = jax.jacfwd(apart)(jnp.zeros(size, node.state.q.dtype))
    return result._replace(tangent=tangent, inverse=jnp.linalg.pinv(tangent))


def pull_back(chart: Chart | None, costate: Float[Array, " n"]) -> Float[Array, " r"]:
    """Derivative along a chart's coordinates, from one along all coordinates."""
    return costate if chart is None else matvec(chart.tangent.T, costate)


def push_forward(chart: Chart | None, costate: Float[Array, " r"]) -> Float[Array, " n"]:
    """Derivative along all coordinates with given ones along a chart's."""
    return costate if chart is None else matvec(chart.inverse.T, costate)
