"""Where the search of `solve` starts: points from guesses of states, inputs and durations."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax import checks
from lie_jax.control import nodes
from lie_jax.control.nodes import Node
from lie_jax.control.parts import Part
from lie_jax.control.points import Limits, Parameters, Stretch
from lie_jax.control.transcription import Chunk, onto_constraints, roll_out
from lie_jax.systems.system import State

# Steps of a chunk: programs are compiled for so many, whatever the length of a phase.
CHUNK = 20
# Part of the way between two limits, or to a single one, at which a search starts inside.
_MARGIN = 1e-2


class Multipliers(eqx.Module):
    """Multipliers of a phase: derivatives of the cost by what they belong to, up to the sign.

    `costates` (steps + 1, n) along all local coordinates of the nodes, `ends` (e,) of the end
    conditions, `path` (steps, c) of the path's values and then of rates, `lower` and `upper`
    (steps, m) of the limits of the inputs that are free.
    """

    costates: Array
    ends: Array
    path: Array
    lower: Array
    upper: Array


class Guess(eqx.Module):
    """Where `solve` starts to search a phase.

    **Arguments**, all optional:

    - `inputs`: (steps, nu); without `states` the nodes are those to which they lead. Inputs outside
      their limits are moved inside.
    - `states`: a `State` of (steps + 1) rows, `q` (steps + 1, nq) and `v` (steps + 1, nv), the
      first included; they are projected onto the constraints. Without states and inputs all nodes
      are at the start.
    - `duration`: of a phase whose duration is free, s.
    - `multipliers`: those of an `Optimum`, with which a search near it starts at its end.
    """

    inputs: Any = None
    states: State | None = None
    duration: Any = None
    multipliers: Multipliers | None = None


def library(*values: Any) -> Any:
    """NumPy, which compiles nothing for another number of steps; for tracers jax.numpy."""
    return jnp if checks.has_tracers(values) else np


def inside(x: Any, lower: Any, upper: Any) -> Any:
    """Numbers within limits by a margin."""
    xp = library(x, lower, upper)
    width = xp.where(xp.isfinite(upper - lower), upper - lower, np.inf)

    def margin(limit: Any) -> Any:
        finite = xp.where(xp.isfinite(limit), limit, 0.0)
        return xp.minimum(_MARGIN * xp.maximum(1.0, xp.abs(finite)), _MARGIN * width)

    low = xp.where(xp.isfinite(lower), lower + margin(lower), lower)
    return xp.clip(x, low, xp.where(xp.isfinite(upper), upper - margin(upper), upper))


def parameters(p: Array, limits: Limits, barrier: float) -> Parameters:
    """Parameters with the multipliers that a barrier gives their limits."""
    xp = library(p, limits)
    lower, upper, p = (xp.asarray(x) for x in (limits.lower, limits.upper, p))
    below, above, has_low, has_high = _distances(lower, upper, p)
    low, high = xp.where(has_low, barrier / below, 0.0), xp.where(has_high, barrier / above, 0.0)
    return Parameters(*(jnp.asarray(x, limits.lower.dtype) for x in (p, low, high)))


def _distances(lower: Any, upper: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    xp = library(lower, upper, x)
    has_low, has_high = xp.isfinite(lower), xp.isfinite(upper)
    below = xp.where(has_low, x - xp.where(has_low, lower, 0.0), 1.0)
    return below, xp.where(has_high, xp.where(has_high, upper, 0.0) - x, 1.0), has_low, has_high


def fits(part: Part, multipliers: Multipliers | None, first: State, p: Array, paths: int) -> bool:
    """Whether multipliers have the sizes of a phase: those of another problem may not."""
    if multipliers is None:
        return True
    m = part.lower.shape[0]
    n = 2 * first.v.shape[0] + (m if part.has_rates else 0)
    e = jax.eval_shape(part.end, first, p).shape
    found = (
        np.shape(multipliers.costates)[1:], np.shape(multipliers.ends),
        *(np.shape(x)[1:] for x in (multipliers.path, multipliers.lower, multipliers.upper)),
    )  # fmt: skip
    return found == ((n,), e, (paths,), (m,), (m,))


def stretch(
    part: Part,
    steps: int,
    guess: Guess,
    first: State,
    p: Array,
    paths: int,
    barrier: float,
    size: int,
) -> Stretch:
    """Unknowns of a phase, in chunks of a size, before slacks and multipliers of the path are
    known.
    """
    dtype, xp = np.dtype(p.dtype), library(part, guess, first, p)
    lower, upper = xp.asarray(part.lower), xp.asarray(part.upper)
    m = len(lower)
    u = (
        np.zeros((steps, m))
        if guess.inputs is None
        else xp.asarray(guess.inputs)[:, np.asarray(part.free, int)]
    )
    u = inside(u, lower[None], upper[None])
    below, above, has_low, has_high = _distances(lower[None], upper[None], u)
    low, high = xp.where(has_low, barrier / below, 0.0), xp.where(has_high, barrier / above, 0.0)
    known = guess.multipliers
    if known is not None:
        low = xp.where(has_low, xp.maximum(known.lower, barrier / below * 1e-3), 0.0)
        high = xp.where(has_high, xp.maximum(known.upper, barrier / above * 1e-3), 0.0)
    node = Node(first, jnp.zeros(m if part.has_rates else 0, dtype))
    n = 2 * first.v.shape[0] + node.held.shape[0]

    def rows(table: Any, numbers: np.ndarray) -> Array:
        table = xp.asarray(table)
        return jnp.asarray(table[np.minimum(numbers, len(table) - 1)], dtype)

    chunks = []
    for start in range(0, steps, size):
        k = np.arange(start, start + size)
        real = k < steps
        inputs = jnp.where(jnp.asarray(real)[:, None], rows(u, k), 0.0)
        held = inputs if part.has_rates else jnp.zeros((size, 0), dtype)
        if guess.states is None:
            after = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), node.state)
        else:
            table = guess.states
            after = State(rows(table.q, k + 1), rows(table.v, k + 1))
        costates = jnp.zeros((size, n), dtype)
        pulls = jnp.zeros((size, paths), dtype)
        if known is not None:
            costates, pulls = rows(known.costates, k + 1), rows(known.path, k)
        chunk = Chunk(
            jnp.asarray(k), jnp.asarray(real), node, Node(after, held), inputs,
            jnp.ones((size, paths), dtype), costates, rows(low, k), rows(high, k), pulls,
            jnp.zeros((), dtype),
        )  # fmt: skip
        if guess.states is not None:
            chunk = onto_constraints(part, chunk, p)
        elif guess.inputs is not None:
            chunk = roll_out(part, chunk, p)
        chunks.append(chunk)
        node = chunk.last()
    e = jax.eval_shape(part.end, node.state, p).shape[0]
    ends_ = jnp.zeros(e, dtype) if known is None else known.ends
    costate = jnp.zeros(n, dtype) if known is None else jnp.asarray(known.costates[0])
    return Stretch(tuple(chunks), costate, ends_)


def with_slacks(one: Stretch, values: list[Array], barrier: float, is_warm: bool) -> Stretch:
    """Unknowns of a phase with slacks of its path, whose values are known, and multipliers."""
    chunks = []
    for chunk, path in zip(one.chunks, values, strict=True):
        real = chunk.real[:, None]
        least = barrier / jnp.maximum(chunk.pulls, barrier) if is_warm else _MARGIN
        slacks = jnp.where(real, jnp.maximum(-path, least), 1.0)
        pulls = jnp.where(real, barrier / slacks, 0.0)
        pulls = jnp.where(real & is_warm, jnp.maximum(chunk.pulls, 1e-3 * pulls), pulls)
        chunks.append(chunk._replace(slacks=slacks, pulls=pulls))
    return one._replace(chunks=tuple(chunks))


def state_at(states: State, row: int, dtype: Any) -> State:
    """A state of several."""
    return State(jnp.asarray(states.q[row], dtype), jnp.asarray(states.v[row], dtype))


def freedom_of(part: Part, state: State, p: Array) -> nodes.Freedom | None:
    """Directions that the constraints of a phase leave, None without constraints."""
    system = part.system(p)
    if not system.nc:
        return None
    if checks.has_tracers(system, state):
        raise ValueError(
            "control.solve: how many directions constraints leave is found from numbers, which "
            "jax.jit and jax.vmap hide; call it outside of them (in jax.grad it may be), or take "
            "joint coordinates, lie_jax.Minimal(), of a mechanism without loops."
        )
    return nodes.freedom(system, state)
