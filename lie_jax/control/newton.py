"""One Newton step on all unknowns, and the points along it."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.control import ends, nodes, points
from lie_jax.control.elimination import (
    Bounds,
    Direction,
    Map,
    Policy,
    Value,
    backward,
    forward,
    longest,
    precede,
)
from lie_jax.control.ends import Ending
from lie_jax.control.nodes import Chart, Node
from lie_jax.control.parts import Part
from lie_jax.control.points import Derivatives, Limits, Parameters, Point, Problem, Stretch
from lie_jax.control.transcription import Chunk, distances
from lie_jax.numerics.small import matvec

# Multipliers of limits stay within this factor of what the barrier says.
_TRUSTED = 1e10


class Step(NamedTuple):
    """Directions of all chunks, changes of the first nodes of the phases (r,) and new costates
    there, changes of the parameters with their multipliers, and new multipliers of conditions.

    `right`: whether the matrix of Newton's equations had the inertia of a minimum.
    """

    directions: tuple[tuple[Direction, ...], ...]
    firsts: tuple[Array, ...]
    costates: tuple[Array, ...]
    parameters: Parameters
    multipliers: Array
    bounds: Bounds
    right: Bool[Array, ""]


class Sweep(NamedTuple):
    """What the elimination of all steps leaves: the value of the first node of all, the policies of
    the chunks of each phase, and the values of the phases' first nodes.
    """

    value: Value
    policies: tuple[tuple[Policy, ...], ...]
    first_values: tuple[Value, ...]


def step(
    problem: Problem,
    at: Point,
    derived: Derivatives,
    units: tuple[Array, ...],
    barrier: Array,
    damping: Array,
) -> Step:
    """Newton's step with a damping of the Hessian, in the units of each phase's inputs."""
    swept = sweep(problem, at, derived, units, barrier, damping)
    first = first_change(problem, at, derived, swept, barrier, damping)
    return substitute(problem, at, derived, swept, first, barrier)


def sweep(
    problem: Problem,
    at: Point,
    derived: Derivatives,
    units: tuple[Array, ...],
    barrier: Array,
    damping: Array,
) -> Sweep:
    """Elimination of all steps, last one first, which does not read the start."""
    ps = at.p.shape[0]
    ends_of_phases, of_period, total = _counts(at, derived)
    last = len(problem.parts) - 1
    value, policies, first_values = None, [], []
    for j in reversed(range(last + 1)):
        part, ending = problem.parts[j], derived.endings[j]
        if value is None:
            value = _nothing(ending.slope, total + 1)
        own, period = _split(ending, ends_of_phases[j])
        value = _with_ending(value, own, sum(ends_of_phases[:j]))
        if j == last and of_period:
            value = _with_ending(value, period, total - of_period)
        weights, of_phase = _damping(units[j], damping), []
        rows = zip(at.stretches[j].chunks, derived.expansions[j], strict=True)
        for chunk, expansion in reversed(list(rows)):
            value, policy = backward(part.of_steps, chunk, expansion, value, barrier, weights)
            of_phase.insert(0, policy)
        policies.insert(0, tuple(of_phase))
        first_values.insert(0, value)
        if j:
            value = _precede(value, derived.links[j - 1], ps)
    assert value is not None
    return Sweep(value, tuple(policies), tuple(first_values))


def _counts(at: Point, derived: Derivatives) -> tuple[list[int], int, int]:
    """Numbers of end conditions of the phases, of those of a period, and of all multipliers
    λ = (at the ends of the phases, at the start, of the period).
    """
    of_phases = [stretch.ends.shape[0] for stretch in at.stretches]
    of_period = derived.endings[-1].values.shape[0] - of_phases[-1]
    return of_phases, of_period, sum(of_phases) + at.begin.shape[0] + of_period


class First(NamedTuple):
    """Change x (r,) of the first node of all, `shared` (changes of p, new λ, one), and whether the
    matrix of Newton's equations has the `right` inertia, that of a minimum.
    """

    x: Array
    shared: Array
    right: Bool[Array, ""]


def first_change(
    problem: Problem, at: Point, derived: Derivatives, swept: Sweep, barrier: Array, damping: Array
) -> First:
    """Solution of what the elimination of all steps leaves, which reads the start."""
    ps, value = at.p.shape[0], swept.value
    if isinstance(derived.start, Map):
        value, xs = _precede(value, derived.start, ps), 0
    else:
        _, of_period, total = _counts(at, derived)
        value = _with_ending(value, derived.start, total - at.begin.shape[0] - of_period)
        xs = derived.start.slope.shape[0] - ps
    x, shared, right = _solve_shared(problem.limits, at.parameters, value, xs, barrier, damping)
    if isinstance(derived.start, Map):
        x = _go(derived.start, x, shared[:ps])
    return First(x, shared, right)


@eqx.filter_jit
def _nothing(slope: Array, rest: int) -> Value:
    """Value after the last node of all: zero."""
    size = slope.shape[0] + rest
    return Value(jnp.zeros((size, size), slope.dtype), jnp.zeros((), jnp.int32))


@eqx.filter_jit
def _split(ending: Ending, count: int) -> tuple[Ending, Ending]:
    """The user's conditions with all costs, and those of a period."""
    first = ending._replace(values=ending.values[:count], jacobian=ending.jacobian[:count])
    zero = jnp.zeros_like(ending.cost)
    second = Ending(
        zero, 0.0 * ending.slope, 0.0 * ending.hessian, ending.values[count:],
        ending.jacobian[count:],
    )  # fmt: skip
    return first, second


@eqx.filter_jit
def _with_ending(after: Value, ending: Ending, at: int) -> Value:
    """Value with the cost and the conditions of an end, whose multipliers begin at place `at`."""
    size, zs, count = after.matrix.shape[0], ending.slope.shape[0], ending.values.shape[0]
    # Places of (x, p), the multipliers and one in y.
    places = jnp.asarray([*range(zs), *range(zs + at, zs + at + count), size - 1])
    corner = jnp.zeros((count + 1, count + 1), ending.slope.dtype)
    corner = corner.at[:count, -1].set(ending.values).at[-1, :count].set(ending.values)
    side = jnp.concatenate([ending.jacobian, ending.slope[None]])
    table = jnp.concatenate(
        [
            jnp.concatenate([ending.hessian, side.T], axis=1),
            jnp.concatenate([side, corner], axis=1),
        ]
    )
    return after._replace(matrix=after.matrix.at[places[:, None], places[None]].add(table))


@eqx.filter_jit
def _precede(value: Value, way: Map, ps: int) -> Value:
    return precede(value, way, 0, ps)[1]


@eqx.filter_jit
def _solve_shared(
    limits: Limits, at: Parameters, value: Value, xs: int, barrier: Array, damping: Array
) -> tuple[Array, Array, Bool[Array, ""]]:
    """Solution of what remains: coordinates of the first node where it is free, (p, λ, 1), and
    whether all of Newton's equations have the inertia of a minimum.

    Conditions that depend on each other get multipliers of least norm.
    """
    matrix, right = value.matrix[:-1, :-1], -value.matrix[:-1, -1]
    ps, size = at.p.shape[0], matrix.shape[0]
    primal, one = xs + ps, jnp.ones(1, matrix.dtype)
    if not size:
        return right, one, value.negative == 0
    below, above, has_low, has_high = points.distances(limits, at.p)
    weight = jnp.where(has_low, at.low / below, 0.0) + jnp.where(has_high, at.high / above, 0.0)
    push = jnp.where(has_high, barrier / above, 0.0) - jnp.where(has_low, barrier / below, 0.0)
    pad = (xs, size - primal)
    diagonal = jnp.pad(weight, pad) + jnp.where(jnp.arange(size) < primal, damping, 0.0)
    matrix, right = matrix + jnp.diag(diagonal), right - jnp.pad(push, pad)
    finite = jnp.all(jnp.isfinite(matrix))
    matrix = jnp.where(finite, matrix, jnp.eye(size, dtype=matrix.dtype))
    largest = jnp.max(jnp.abs(matrix), axis=1)
    scale = 1.0 / jnp.sqrt(jnp.where(largest > 0.0, largest, 1.0))
    values, vectors = jnp.linalg.eigh(scale[:, None] * matrix * scale[None])
    small = 16.0 * size * jnp.finfo(scale.dtype).eps * jnp.max(jnp.abs(values))
    is_zero = jnp.abs(values) <= small
    inverse = jnp.where(is_zero, 0.0, 1.0 / jnp.where(is_zero, 1.0, values))
    solved = scale * (vectors @ (inverse * (vectors.T @ (scale * right))))
    positive = jnp.sum(~is_zero & (values > 0.0)).astype(jnp.int32)
    shared = jnp.concatenate([solved[xs:], one])
    return solved[:xs], shared, finite & (positive == primal + value.negative)


@eqx.filter_jit
def _go(way: Map, x: Array, dp: Array) -> Array:
    return matvec(way.steps, jnp.concatenate([x, dp])) + way.gap


@eqx.filter_jit
def _costate(value: Value, x: Array, shared: Array) -> Array:
    return matvec(value.matrix[: x.shape[0]], jnp.concatenate([x, shared]))


@eqx.filter_jit
def _damping(unit: Float[Array, " m"], damping: Array) -> Float[Array, " m"]:
    """In units of the Hessian's diagonal along each input, the largest of them where it is zero."""
    # States follow from inputs, whose damping is enough in any units of the states.
    most = jnp.max(unit, initial=0.0)
    return damping * jnp.where(unit > 0.0, unit, jnp.where(most > 0.0, most, 1.0))


def substitute(
    problem: Problem,
    at: Point,
    derived: Derivatives,
    swept: Sweep,
    first: First,
    barrier: Array,
) -> Step:
    """Newton's step from the elimination of all steps and the first change, first one first."""
    x, shared, right = first
    policies, first_values = swept.policies, swept.first_values
    changes, multipliers, bounds = _along_parameters(problem.limits, at.parameters, shared, barrier)
    directions, firsts, costates = [], [], []
    for j, (part, stretch) in enumerate(zip(problem.parts, at.stretches, strict=True)):
        if j:
            x = _go(derived.links[j - 1], x, changes.p)
        firsts.append(x)
        costates.append(_costate(first_values[j], x, shared))
        of_phase = []
        rows = zip(stretch.chunks, derived.expansions[j], policies[j], strict=True)
        for chunk, expansion, policy in rows:
            x, direction, bounds = forward(
                part.of_steps, chunk, expansion, policy, x, shared, barrier, bounds
            )
            of_phase.append(direction)
        directions.append(tuple(of_phase))
        bounds = _fall_at_end(bounds, derived.endings[j].slope, x, changes.p)
    parts = tuple(directions), tuple(firsts), tuple(costates)
    return Step(*parts, changes, multipliers, bounds, right)


@eqx.filter_jit
def _fall_at_end(bounds: Bounds, slope: Array, x: Array, dp: Array) -> Bounds:
    return bounds._replace(fall=bounds.fall + jnp.sum(slope * jnp.concatenate([x, dp])))


@eqx.filter_jit
def _along_parameters(
    limits: Limits, at: Parameters, shared: Array, barrier: Array
) -> tuple[Parameters, Array, Bounds]:
    """Changes of the parameters with their multipliers, new multipliers λ, bounds of the step."""
    ps = at.p.shape[0]
    dp = shared[:ps]
    below, above, has_low, has_high = points.distances(limits, at.p)
    low = jnp.where(has_low, (barrier - at.low * dp) / below - at.low, 0.0)
    high = jnp.where(has_high, (barrier + at.high * dp) / above - at.high, 0.0)
    primal = jnp.minimum(
        longest(below, jnp.where(has_low, dp, 0.0)), longest(above, jnp.where(has_high, -dp, 0.0))
    )
    dual = jnp.minimum(longest(at.low, low), longest(at.high, high))
    push = jnp.where(has_high, barrier / above, 0.0) - jnp.where(has_low, barrier / below, 0.0)
    return Parameters(dp, low, high), shared[ps:-1], Bounds(primal, dual, jnp.sum(push * dp))


def go(
    problem: Problem, at: Point, derived: Derivatives, step: Step, part_of: Array, barrier: Array
) -> Point:
    """Point after a part of a step."""
    parts = part_of, step.bounds.dual
    parameters = _move_parameters(problem.limits, at.parameters, step.parameters, parts, barrier)
    stretches, offset = [], 0
    for j, (part, stretch) in enumerate(zip(problem.parts, at.stretches, strict=True)):
        around = derived.firsts[j]
        first = stretch.chunks[0].first
        first = _move_first(part.of_steps, first, around, step.firsts[j], part_of, parameters.p)
        costate = _move_costate(around, stretch.costate, step.costates[j], part_of)
        chunks = []
        rows = zip(stretch.chunks, derived.expansions[j], step.directions[j], strict=True)
        for chunk, expansion, direction in rows:
            moved, first = _move_chunk(
                part.of_steps, chunk, expansion.charts, expansion.costates, direction, first,
                parameters.p, parts, barrier,
            )  # fmt: skip
            chunks.append(moved)
        count = stretch.ends.shape[0]
        new = step.multipliers[offset : offset + count]
        offset += count
        stretches.append(Stretch(tuple(chunks), costate, _towards(stretch.ends, new, part_of)))
    count = at.begin.shape[0]
    begin = _towards(at.begin, step.multipliers[offset : offset + count], part_of)
    period = at.period
    if period is not None:
        held = at.stretches[0].chunks[0].first.held.shape[0]
        new = jnp.concatenate(
            [step.multipliers[offset + count :], jnp.zeros(held, parameters.p.dtype)]
        )
        period = _move_costate(derived.firsts[0], period, new, part_of)
    return Point(tuple(stretches), parameters, begin, period)


@eqx.filter_jit
def _move_parameters(
    limits: Limits, at: Parameters, change: Parameters, parts: tuple[Array, Array], barrier: Array
) -> Parameters:
    primal, dual = parts
    p = at.p + primal * change.p
    below, above, _, _ = points.distances(limits, p)
    low = trust(at.low + dual * change.low, below, barrier)
    return Parameters(p, low, trust(at.high + dual * change.high, above, barrier))


@eqx.filter_jit
def _move_first(
    part: Part, node: Node, around: Chart | None, x: Array, part_of: Array, p: Array
) -> Node:
    return nodes.move(part.system(p), ends.time_at(part, False, p), node, around, part_of * x)


@eqx.filter_jit
def _move_chunk(
    part: Part,
    chunk: Chunk,
    charts: Chart | None,
    costates: Array,
    direction: Direction,
    first: Node,
    p: Array,
    parts: tuple[Array, Array],
    barrier: Array,
) -> tuple[Chunk, Node]:
    """Chunk after a part of a step from its first node on, and its last node."""
    primal, dual = parts

    def one(k, node, chart, x):
        return nodes.move(part.system(p), part.moment(k, p)[0], node, chart, primal * x)

    after = jax.vmap(one)(chunk.k + 1, chunk.after, charts, direction.nodes)
    moved = chunk._replace(
        first=first,
        after=after,
        u=chunk.u + primal * direction.inputs,
        slacks=chunk.slacks + primal * direction.slacks,
        costates=jax.vmap(nodes.push_forward)(
            charts, costates + primal * (direction.costates - costates)
        ),
    )
    below, above = distances(part, moved)
    moved = moved._replace(
        low=trust(chunk.low + dual * direction.low, below, barrier),
        high=trust(chunk.high + dual * direction.high, above, barrier),
        pulls=trust(chunk.pulls + dual * direction.pulls, moved.slacks, barrier),
    )
    return moved, moved.last()


@eqx.filter_jit
def _towards(old: Array, new: Array, part_of: Array) -> Array:
    return old + part_of * (new - old)


@eqx.filter_jit
def _move_costate(around: Chart | None, whole: Array, new: Array, part_of: Array) -> Array:
    """Costate along all coordinates, moved towards a new one along a chart's."""
    old = nodes.pull_back(around, whole)
    return nodes.push_forward(around, old + part_of * (new - old))


def trust(multipliers: Array, distances: Array, barrier: Array) -> Array:
    """Multipliers within a factor of what the barrier says; zeros, of no limit, unchanged."""
    expected = barrier / distances
    kept = jnp.clip(multipliers, expected / _TRUSTED, expected * _TRUSTED)
    return jnp.where(multipliers > 0.0, kept, multipliers)
