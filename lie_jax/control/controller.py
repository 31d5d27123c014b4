"""Controllers of model predictive control: an iteration of `solve` for each sample."""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.control import nodes
from lie_jax.control.elimination import Map
from lie_jax.control.errors import errors
from lie_jax.control.merit import merit
from lie_jax.control.newton import First, Sweep, first_change, go, substitute, sweep
from lie_jax.control.nodes import Node
from lie_jax.control.parts import Part
from lie_jax.control.points import Derivatives, Point, Problem, derive
from lie_jax.control.search import Look
from lie_jax.control.transcription import Chunk, distances
from lie_jax.numerics.small import matvec
from lie_jax.systems.system import State

# Parts of the longest step that a line search compares; the last one stays where it is.
_PARTS = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0)
# Barriers fall by one factor after a long step and rise by the other after a short one, so that a
# disturbance that moves the limits in force does not leave the search at those of before.
_LONG, _FALL, _RISE = 0.5, 0.2, 5.0
# Barriers of all limits add at most and at least such parts of the change of the cost to it,
# and this many of the smallest numbers.
_LARGEST, _LEAST = 1e-1, 1e-5
_SMALL = 1e10
# Merits that differ by so many roundings are alike.
_ROUNDING = 16.0
# Weights of gaps in the line search, in sizes of their multipliers.
_WEIGHT = 2.0
# Damping where the equations do not have a minimum: first one, and factors of its change.
_FIRST_DAMPING, _MORE, _LESS = 1e-4, 8.0, 0.125
# Multipliers of limits stay within this factor of what the barrier says.
_NEAR = 10.0
# Rows of a chunk that move by a step with time.
_ROWS = ("u", "slacks", "costates", "low", "high", "pulls")


class Search(NamedTuple):
    """A point with its derivatives, the elimination of its steps, barrier and damping, and the
    inputs of the step before where their rates have limits.
    """

    look: Look
    swept: Sweep
    barrier: Array
    damping: Array
    held: Array


class Plan(eqx.Module):
    """What a `Controller` knows from one sample to the next: states and inputs of the steps ahead.

    `t`: s, time of its first state. `states`: `q` (steps + 1, nq) and `v` (steps + 1, nv).
    `inputs`: (steps, nu). `gains`: (steps, nu, n), as in `Optimum`. `cost` of these. `violation`:
    largest gap between a step's end and the state after it, end value, and path value above zero.
    `part`: how much of the last Newton step was taken, 1 near an optimum, 0 where nothing was
    better: that plan is the one before. A `violation` that stays, or parts that stay small, tell
    that `iterations` or samples are too few, or that the limits leave no way. `search`: what the
    next iteration starts from.
    """

    t: Float[Array, ""]
    states: State
    inputs: Float[Array, "steps nu"]
    gains: Float[Array, "steps nu n"]
    cost: Float[Array, ""]
    violation: Float[Array, ""]
    part: Float[Array, ""]
    search: Search


class Fixed:
    """A problem taken apart: its arrays, and the rest, by which JAX knows compiled programs.

    The hash of the rest is computed once, so that a call begins within microseconds.
    """

    def __init__(self, problem: Problem):
        arrays, self.rest = eqx.partition(problem, eqx.is_array)
        self.arrays, self.structure = jax.tree.flatten(arrays)
        leaves, structure = jax.tree.flatten(self.rest)
        self.key = (self.structure, structure, *leaves)
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Fixed) and self.key == other.key)

    def problem(self, arrays: list[Array]) -> Problem:
        """The problem with its arrays."""
        return eqx.combine(jax.tree.unflatten(self.structure, arrays), self.rest)


class Controller:
    """Feedback that `mpc` makes of a `problem` with `iterations` of each call: pure functions of
    measured states and plans for jit, vmap and scan.
    """

    def __init__(self, problem: Fixed, iterations: int):
        self._fixed, self._is_single = problem, iterations == 1
        self._count = jnp.asarray(iterations)

    def __call__(self, state: State, plan: Plan) -> tuple[Float[Array, " nu"], Plan]:
        """Inputs at a measured state, held until the next sample, and the plan for that one."""
        _check(state, plan)
        fixed = self._fixed
        if self._is_single:
            return _feed_and_prepare(fixed, fixed.arrays, state, plan)
        return _iterate(fixed, fixed.arrays, state, plan, self._count)

    def feedback(self, state: State, plan: Plan) -> Float[Array, " nu"]:
        """Inputs at a measured state alone, at once: the plan's first ones, plus gains times the
        distance of the state from the plan's first one. `prepare` with the same state follows.
        """
        _check(state, plan)
        return _feed(self._fixed, self._fixed.arrays, state, plan)

    def prepare(self, state: State, plan: Plan) -> Plan:
        """Plan for the next sample, after the `feedback` of this one at the state."""
        _check(state, plan)
        return _prepare(self._fixed, self._fixed.arrays, state, plan)


def _check(state: Any, plan: Any) -> None:
    """Raise `ValueError` for anything else than a state like those of a plan."""
    if not isinstance(plan, Plan) or not isinstance(state, State):
        raise ValueError(
            f"a controller of control.mpc takes a lie_jax.State and a Plan, and got a "
            f"{type(state).__name__} and a {type(plan).__name__}: write u, plan = "
            "controller(state, plan), with the plan of the call before."
        )
    for name, one, rows in zip(
        "qv", (state.q, state.v), (plan.states.q, plan.states.v), strict=True
    ):
        if jnp.shape(one) != rows.shape[1:] or jnp.result_type(one) != rows.dtype:
            raise ValueError(
                f"a controller of control.mpc got {name} of shape {jnp.shape(one)} and "
                f"{jnp.result_type(one)}; its plan has {rows.shape[1:]} and {rows.dtype}: give the "
                "measured state so, and batches by jax.vmap."
            )


@functools.partial(jax.jit, static_argnums=0)
def _feed(fixed: Fixed, arrays: list[Array], state: State, plan: Plan) -> Array:
    start = _start(fixed.problem(arrays), state, plan)
    return start.problem.parts[0].inputs(_first_input(start, plan.search))


@functools.partial(jax.jit, static_argnums=0)
def _prepare(fixed: Fixed, arrays: list[Array], state: State, plan: Plan) -> Plan:
    return _feed_and_prepare(fixed, arrays, state, plan)[1]


@functools.partial(jax.jit, static_argnums=0)
def _feed_and_prepare(
    fixed: Fixed, arrays: list[Array], state: State, plan: Plan
) -> tuple[Array, Plan]:
    start, search = _start(fixed.problem(arrays), state, plan), plan.search
    u, part = _first_input(start, search), start.problem.parts[0]
    at, barrier, damping, share = _improve(start, search)
    t, dt = part.moment(jnp.zeros((), int), at.p)
    held = jnp.where(jnp.isfinite(u), u, at.stretches[0].chunks[0].u[0])
    held = held if part.has_rates else held[:0]
    after = _plan(start.problem, t + dt, _shift(part, at), barrier, damping, share, held)
    return part.inputs(u), after


@functools.partial(jax.jit, static_argnums=0)
def _iterate(
    fixed: Fixed, arrays: list[Array], state: State, plan: Plan, count: Array
) -> tuple[Array, Plan]:
    """Several iterations at one time, of which the last one is fed back and prepares the next."""
    problem = fixed.problem(arrays)

    def improve(_, plan):
        at, barrier, damping, share = _improve(_start(problem, state, plan), plan.search)
        return _plan(problem, plan.t, at, barrier, damping, share, plan.search.held)

    plan = jax.lax.fori_loop(0, count - 1, improve, plan)
    return _feed_and_prepare(fixed, arrays, state, plan)


@functools.partial(jax.jit, static_argnums=0)
def first_plan(fixed: Fixed, arrays: list[Array], at: Point, barrier: Array, held: Array) -> Plan:
    """Plan of a point at time 0."""
    zero = jnp.zeros_like(barrier)
    return _plan(fixed.problem(arrays), zero, at, barrier, zero, zero, held)


class _Start(NamedTuple):
    """Problem at the time of a plan, `measured` first node, derivatives with it as the start, and
    the first change that it asks for.
    """

    problem: Problem
    measured: Node
    derived: Derivatives
    first: First


def _start(problem: Problem, state: State, plan: Plan) -> _Start:
    """What a measured state changes in a plan before an iteration."""
    problem, search = _at_time(problem, plan.t), plan.search
    at, part, measured = search.look.at, problem.parts[0], Node(state, search.held)
    node = at.stretches[0].chunks[0].first
    gap = nodes.coordinates(part.system(at.p), node, search.look.derived.firsts[0], measured)
    derived = search.look.derived._replace(start=_to_first(gap))
    first = first_change(problem, at, derived, search.swept, search.barrier, search.damping)
    return _Start(problem, measured, derived, first)


def _improve(start: _Start, search: Search) -> tuple[Point, Array, Array, Array]:
    """Point after an iteration at a measured state, the next barrier and damping, and the part of
    the step that was taken.
    """
    problem, measured, derived, first = start
    at, barrier, part = search.look.at, search.barrier, problem.parts[0]
    before = search.look.errors
    step = substitute(problem, at, derived, search.swept, first, barrier)
    pulls = (*step.costates, step.multipliers, *(x.costates for x in step.directions[0]))
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=0.0) for x in pulls]))
    weight = _WEIGHT * jnp.where(largest > 0.0, largest, 1.0)
    shares = jnp.asarray(_PARTS, barrier.dtype) * step.bounds.primal

    def there(share):
        return go(problem, at, derived, step, share, barrier)

    merits = jax.vmap(lambda share: merit(part, there(share), measured))(shares)
    values = merits.cost + weight * merits.gap - barrier * merits.logarithms
    values = jnp.where(jnp.isfinite(values), values, jnp.inf)
    # The largest of those that rounding does not tell from the best.
    rounding = _ROUNDING * jnp.finfo(values.dtype).eps * (jnp.abs(merits.cost) + jnp.abs(values))
    best = jnp.argmax(values <= jnp.min(values) + rounding)
    share = jnp.where(jnp.all(jnp.isinf(values)), 0.0, shares[best])
    # A step that is not finite stays out where none of it is taken.
    after = jax.tree.map(lambda new, old: jnp.where(share > 0.0, new, old), there(share), at)
    # How the cost changes, and was to: what neither state nor inputs change has no share in it.
    gain = jnp.abs(step.bounds.fall) + jnp.abs(merits.cost[best] - before.cost)
    gain = jnp.where(jnp.isfinite(gain), gain, 0.0)
    size = (gain + _SMALL * jnp.finfo(gain.dtype).tiny) / jnp.maximum(1.0, before.limits)
    factor = jnp.where(share < _LONG, _RISE, _FALL)
    barrier = jnp.clip(factor * barrier, _LEAST * size, _LARGEST * size)
    worse = jnp.maximum(_MORE * search.damping, _FIRST_DAMPING)
    damping = jnp.where(step.right & (share > 0.0), _LESS * search.damping, worse)
    damping = jnp.where(damping < _LESS * _FIRST_DAMPING, 0.0, damping)
    return after, barrier, damping, share


def _at_time(problem: Problem, t: Array) -> Problem:
    """Problem whose first state is at a time."""
    return eqx.tree_at(lambda x: x.parts[0].clock.start, problem, t)


def _to_first(gap: Array) -> Map:
    """Map to the first node, which nothing precedes."""
    nothing = gap[:0]
    return Map(jnp.zeros((gap.shape[0], 0), gap.dtype), gap, nothing, nothing[:, None][:, :0])


def _first_input(start: _Start, search: Search) -> Array:
    """The inputs of the first step (m,) that are free."""
    (x, shared, right), part = start.first, start.problem.parts[0]
    planned = search.look.at.stretches[0].chunks[0].u[0]
    gains = search.swept.policies[0][0].gains[0]
    u = jnp.clip(planned + matvec(gains, jnp.concatenate([x, shared])), part.lower, part.upper)
    return jnp.where(right, u, planned)


def _shift(part: Part, at: Point) -> Point:
    """Point of the next sample: a step less at the start, the last one again at the end."""
    (stretch,) = at.stretches
    (chunk,) = stretch.chunks
    k = chunk.k[-1] + 1
    t, dt = part.moment(k, at.p)
    last = part.after(t, dt, chunk.last(), chunk.u[-1], at.p)

    def later(rows: Array) -> Array:
        return jnp.concatenate([rows[1:], rows[-1:]])

    def node(rows: Array, end: Array) -> Array:
        return jnp.concatenate([rows[1:], end[None]])

    same = {name: later(getattr(chunk, name)) for name in _ROWS}
    first = jax.tree.map(lambda rows: rows[0], chunk.after)
    chunk = chunk._replace(first=first, after=jax.tree.map(node, chunk.after, last), **same)
    stretch = stretch._replace(chunks=(chunk,), costate=at.stretches[0].chunks[0].costates[0])
    return at._replace(stretches=(stretch,))


def _plan(
    problem: Problem,
    t: Array,
    at: Point,
    barrier: Array,
    damping: Array,
    share: Array,
    held: Array,
) -> Plan:
    """Plan of a point, with its steps eliminated."""
    problem = _at_time(problem, t)
    (part,), (stretch,) = problem.parts, at.stretches
    (chunk,) = stretch.chunks
    at = at._replace(stretches=(stretch._replace(chunks=(_recentre(part, chunk, barrier),)),))
    derived = derive(dataclasses.replace(problem, given=chunk.first.state), at)
    derived = derived._replace(start=_to_first(0.0 * derived.expansions[0][0].gaps[0]))
    here = Look(at, derived, *errors(problem, at, derived))
    swept = sweep(problem, at, derived, here.units, barrier, damping)
    return Plan(
        t=t,
        states=jax.tree.map(
            lambda one, rows: jnp.concatenate([one[None], rows]),
            chunk.first.state, chunk.after.state,
        ),
        inputs=jax.vmap(part.inputs)(chunk.u),
        gains=_gains(part, derived, swept),
        cost=here.errors.cost,
        violation=here.errors.violation,
        part=share,
        search=Search(here, swept, barrier, damping, held),
    )  # fmt: skip


def _gains(part: Part, derived: Derivatives, swept: Sweep) -> Array:
    """Gains (steps, nu, n) by all local coordinates of the nodes before the steps."""
    (expansion,) = derived.expansions[0]
    gains = swept.policies[0][0].gains[:, :, : expansion.gaps.shape[1]]
    first = derived.firsts[0]
    if first is not None and expansion.charts is not None:
        inverses = [first.inverse[None], expansion.charts.inverse[:-1]]
        gains = gains @ jnp.concatenate(inverses)
    return part.placement @ gains


def _recentre(part: Part, chunk: Chunk, barrier: Array) -> Chunk:
    """Chunk whose multipliers of limits and path are near what the barrier says.

    A multiplier far below it lets the next step run into its limit at once.
    """
    below, above = distances(part, chunk)

    def near(multipliers: Array, distance: Array) -> Array:
        expected = barrier / distance
        kept = jnp.clip(multipliers, expected / _NEAR, expected * _NEAR)
        return jnp.where(multipliers > 0.0, kept, multipliers)

    return chunk._replace(
        low=near(chunk.low, below), high=near(chunk.high, above),
        pulls=near(chunk.pulls, chunk.slacks),
    )  # fmt: skip
