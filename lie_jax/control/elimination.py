"""Elimination of the inputs and states of all steps from Newton's equations, last step first.

The value of a node is the least cost from there on, a quadratic function of y = (x, p, λ, 1): local
coordinates x of the node, parameters p, multipliers λ of conditions on the ends, and one for the
linear terms. Each step's cost and the value after it, pulled back through the step, are minimised
over the inputs; what remains is the value before it. Last to first: a step needs the value after
it. Inputs are eliminated by symmetric elimination without pivots, whose signs are the inertia.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lie_jax.control.parts import Part
from lie_jax.control.transcription import Chunk, Expansion, distances
from lie_jax.numerics.small import matvec

# A point never takes more than this part of the way to a limit.
TO_LIMIT = 0.995


class Value(NamedTuple):
    """Symmetric `matrix` (y, y) of a value yᵀ M y / 2, and the number of inputs with a negative
    pivot from there on.
    """

    matrix: Float[Array, "y y"]
    negative: Int[Array, ""]


class Policy(NamedTuple):
    """Changes of the inputs, `gains` @ y (C, m, y), and costates after each step, `values` @ y
    (C, r, y).
    """

    gains: Float[Array, "C m y"]
    values: Float[Array, "C r y"]


@eqx.filter_jit
def backward(
    part: Part,
    chunk: Chunk,
    expansion: Expansion,
    after: Value,
    barrier: Float[Array, ""],
    damping: Float[Array, " m"],
) -> tuple[Value, Policy]:
    """Value before a chunk, from that after it, and the policy of its steps, with a damping added
    to the diagonal of the Hessian along the inputs.
    """
    r, m = expansion.gaps.shape[1], chunk.u.shape[1]
    slope, hessian = _with_barriers(part, chunk, expansion, barrier)
    ps = slope.shape[1] - r - m
    hessian = hessian + jnp.diag(jnp.pad(damping, (r, ps)))[None]

    def back(value, row):
        gains, before = precede(value, Map(*row), m, ps)
        return before, Policy(gains, value.matrix[:r])

    rows = expansion.steps, expansion.gaps, slope, hessian
    return jax.lax.scan(back, after, rows, reverse=True)


class Map(NamedTuple):
    """From a node to the one after it, along z = (x, u, p): derivatives `steps` (r, z) and gap (r,)
    of its coordinates there, slope (z,) and Hessian (z, z) of what it costs.
    """

    steps: Array
    gap: Array
    slope: Array
    hessian: Array


def precede(after: Value, way: Map, m: int, ps: int) -> tuple[Float[Array, "m y"], Value]:
    """Gains of m inputs, and the value before a map of which ps entries of z are parameters."""
    matrix, r = after.matrix, way.steps.shape[0]
    shared = matrix.shape[0] - r
    x = way.steps.shape[1] - m - ps
    multipliers = shared - ps - 1

    # Columns of a table over (x, u, p, λ, 1), from those of z = (x, u, p).
    def widen(table, last):
        blank = jnp.zeros((table.shape[0], multipliers), table.dtype)
        return jnp.concatenate([table, blank, last[:, None]], axis=1)

    moved = widen(way.steps, way.gap)
    # The rest of y stays as it is.
    rest = jnp.pad(matrix[:r, r:], ((0, 0), (x + m, 0)))
    table = moved.T @ (matrix[:r, :r] @ moved + rest) + rest.T @ moved
    table = table + jnp.pad(matrix[r:, r:], ((x + m, 0), (x + m, 0)))
    blank = jnp.zeros((multipliers, table.shape[1]), table.dtype)
    last = jnp.pad(way.slope, (0, multipliers + 1))[None]
    table = table + jnp.concatenate([widen(way.hessian, way.slope), blank, last])
    # The inputs first.
    order = np.r_[x : x + m, :x, x + m : table.shape[0]]
    gains, matrix, negative = _eliminate(table[order][:, order], m)
    return gains, Value(matrix, after.negative + negative)


def _eliminate(
    table: Float[Array, "s s"], count: int
) -> tuple[Float[Array, "m y"], Float[Array, "y y"], Int[Array, ""]]:
    """Gains of the first `count` unknowns, the table without them, and their negative pivots."""
    reduced, negative = table, jnp.zeros((), jnp.int32)
    rows = []
    for _ in range(count):
        pivot = reduced[0, 0]
        row = reduced[0, 1:] / pivot
        rows.append(row)
        # A pivot that is zero or not finite counts as negative, too.
        negative = negative + jnp.where(pivot > 0.0, 0, 1).astype(jnp.int32)
        reduced = reduced[1:, 1:] - reduced[1:, :1] * row[None]
    # Substitute back: unknown i is -row_i · (later unknowns, y).
    size = table.shape[0] - count
    gains: list[Array] = []
    for i in reversed(range(count)):
        row = rows[i]
        later, own = row[: count - 1 - i], row[count - 1 - i :]
        gain = -own
        for j, known in enumerate(gains):
            gain = gain - later[j] * known
        gains.insert(0, gain)
    stacked = jnp.stack(gains) if gains else jnp.zeros((0, size), table.dtype)
    return stacked, 0.5 * (reduced + reduced.T), negative


def _with_barriers(
    part: Part, chunk: Chunk, expansion: Expansion, barrier: Array
) -> tuple[Float[Array, "C z"], Float[Array, "C z z"]]:
    """Slopes and Hessians with the barriers of limits, and of slacks, which are eliminated."""
    r, m = expansion.gaps.shape[1], chunk.u.shape[1]
    below, above = distances(part, chunk)
    low, high = has_limits(part, chunk)
    push = jnp.where(high, barrier / above, 0.0) - jnp.where(low, barrier / below, 0.0)
    weight = jnp.where(low, chunk.low / below, 0.0) + jnp.where(high, chunk.high / above, 0.0)
    ps = expansion.slope.shape[1] - r - m
    pad = ((0, 0), (r, ps))
    diagonal = jnp.pad(weight, pad)
    # An excess that has a price gives way beside the slack.
    least = chunk.ease * barrier
    excess = jnp.maximum(expansion.values + chunk.slacks, least)
    excess = jnp.where(chunk.ease > 0.0, excess, 0.0)
    width = chunk.slacks + chunk.pulls * excess**2 / barrier
    own = chunk.pulls / width
    pull = barrier / width + own * (expansion.values + width - excess)
    jacobian = expansion.jacobian
    slope = expansion.slope + jnp.pad(push, pad) + jnp.sum(jacobian * pull[:, :, None], axis=1)
    identity = jnp.eye(diagonal.shape[1], dtype=diagonal.dtype)
    hessian = expansion.hessian + diagonal[:, :, None] * identity[None]
    hessian = hessian + jnp.swapaxes(jacobian, 1, 2) @ (own[:, :, None] * jacobian)
    return slope, hessian


def has_limits(part: Part, chunk: Chunk) -> tuple[Array, Array]:
    """Which inputs of which steps have lower limits, and upper ones."""
    real = chunk.real[:, None]
    return jnp.isfinite(part.lower)[None] & real, jnp.isfinite(part.upper)[None] & real


class Bounds(NamedTuple):
    """`primal`, `dual`: largest parts of a step that keep what must be positive so. `fall`:
    derivative of the cost with barriers along it.
    """

    primal: Float[Array, ""]
    dual: Float[Array, ""]
    fall: Float[Array, ""]


class Direction(NamedTuple):
    """Changes of a chunk's nodes after steps (C, r), inputs (C, m) and slacks (C, c), the new
    costates (C, r), and changes of the multipliers of limits and path.
    """

    nodes: Array
    inputs: Array
    slacks: Array
    costates: Array
    low: Array
    high: Array
    pulls: Array


@eqx.filter_jit
def forward(
    part: Part,
    chunk: Chunk,
    expansion: Expansion,
    policy: Policy,
    x: Float[Array, " r"],
    shared: Float[Array, " w"],
    barrier: Float[Array, ""],
    bounds: Bounds,
) -> tuple[Float[Array, " r"], Direction, Bounds]:
    """Change of the last node of a chunk, its direction, and bounds, from those before it.

    `x`: change of its first node; `shared`: changes of p, new multipliers λ, and one.
    """
    ps = expansion.slope.shape[1] - x.shape[0] - chunk.u.shape[1]
    dp = shared[:ps]

    def ahead(x, row):
        steps, gap, gains, values = row
        u = matvec(gains, jnp.concatenate([x, shared]))
        z = jnp.concatenate([x, u, dp])
        end = matvec(steps, z) + gap
        return end, (end, u, z, matvec(values, jnp.concatenate([end, shared])))

    rows = expansion.steps, expansion.gaps, policy.gains, policy.values
    last, (nodes, du, z, costates) = jax.lax.scan(ahead, x, rows)
    below, above = distances(part, chunk)
    has_low, has_high = has_limits(part, chunk)
    low = jnp.where(has_low, (barrier - chunk.low * du) / below - chunk.low, 0.0)
    high = jnp.where(has_high, (barrier + chunk.high * du) / above - chunk.high, 0.0)
    # A path that has a price is kept by none, and its slacks follow from its values.
    is_hard = chunk.ease == 0.0
    left = jnp.where(is_hard, expansion.values + chunk.slacks, 0.0)
    slacks = -left - jnp.sum(expansion.jacobian * z[:, None, :], axis=2)
    slacks = jnp.where(chunk.real[:, None], slacks, 0.0)
    pulls = (barrier - chunk.pulls * slacks) / chunk.slacks - chunk.pulls
    pulls = jnp.where(chunk.real[:, None], pulls, 0.0)
    primal = [
        bounds.primal,
        longest(below, jnp.where(has_low, du, 0.0)),
        longest(above, jnp.where(has_high, -du, 0.0)),
        longest(chunk.slacks, jnp.where(is_hard, slacks, 0.0)),
    ]
    dual = [
        bounds.dual, longest(chunk.low, low), longest(chunk.high, high),
        longest(chunk.pulls, jnp.where(is_hard, pulls, 0.0)),
    ]  # fmt: skip
    push = jnp.where(has_high, barrier / above, 0.0) - jnp.where(has_low, barrier / below, 0.0)
    fall = bounds.fall + jnp.sum(expansion.slope * z) + jnp.sum(push * du)
    fall = fall - barrier * jnp.sum(slacks / chunk.slacks)
    direction = Direction(nodes, du, slacks, costates, low, high, pulls)
    return last, direction, Bounds(jnp.min(jnp.stack(primal)), jnp.min(jnp.stack(dual)), fall)


def longest(distance: Array, change: Array) -> Float[Array, ""]:
    """The largest part of a change, up to 1, that keeps distances positive."""
    falls = change < 0.0
    parts = jnp.where(falls, -TO_LIMIT * distance / jnp.where(falls, change, 1.0), 1.0)
    return jnp.minimum(1.0, jnp.min(parts, initial=1.0))
