"""The interior-point search of `solve`: barriers, inertia correction, line search with a filter.

Source: Wächter and Biegler, On the implementation of an interior-point filter line-search
algorithm, Math. Program. 106 (2006).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax import checks
from lie_jax.control.errors import Errors, errors
from lie_jax.control.merit import Merit, merit_near, with_prices
from lie_jax.control.newton import Step, go, step
from lie_jax.control.points import Derivatives, Point, Problem, derive

# The barrier falls by the larger of a factor and a power once the errors are some times as large.
_FALL, _POWER, _ERRORS = 0.2, 1.5, 10.0
# Smallest barrier, in parts of the tolerance.
_LAST = 0.1
# Damping in units of the Hessian's diagonal: first and largest, and factors of its change.
_FIRST_DAMPING, _LARGEST_DAMPING, _MORE, _LESS = 1e-4, 1e12, 8.0, 1.0 / 3.0
_LEAST_DAMPING = 1e-20
# Parts of the gaps by which they or the cost must fall; exponents that tell where the cost must
# fall as a linear model says, and by which fraction.
_MARGIN, _SUFFICIENT = 1e-5, 1e-4
_OF_FALL, _OF_GAP = 2.3, 1.1
_HALVINGS, FILTERED = 20, 40
# A path has a price until errors are below the first one, and multipliers below a part of the
# price, which rises by a factor otherwise, up to the largest.
_FIRM, _EXACT, _DEARER, _LARGEST_PRICE = 0.1, 0.5, 100.0, 1e6
# Gradients up to so many tolerances may hide in the rounding of the path.
_HIDDEN = 100.0
# A search ends after so many iterations in a row that found no better point.
_FAILURES = 10
# Gaps (m, rad and their rates) below which the cost must fall where the model expects it.
_SMALL_GAP = 1e-4
# Gaps are refused above so many times those of the start.
_LARGEST_GAP = 1e4


class Rules(NamedTuple):
    """Tolerance of the errors, and the largest number of iterations."""

    tolerance: Array
    max_iterations: Array


class Search(NamedTuple):
    """Carry of the search.

    `merit` of the point of `look`. `refused` (n, 2): gaps and costs that a point must not both
    reach again, the filter. `largest`: gaps above it are refused. `iterations`: -1 before the
    derivatives of the start are known. `history` (iterations + 1, 3) of cost, norm, violation.
    `failures`: iterations in a row without a point that the filter takes.
    """

    look: "Look"
    merit: Merit
    barrier: Array
    damping: Array
    refused: Float[Array, "n 2"]
    largest: Array
    iterations: Int[Array, ""]
    history: Float[Array, "iterates 3"]
    converged: Bool[Array, ""]
    failures: Int[Array, ""]
    done: Bool[Array, ""]


def repeat(is_traced: bool, condition: Callable, body: Callable, carry: Any) -> Any:
    """End of a loop: in Python over the programs of the parts, which are compiled once for all
    numbers of steps; where JAX traces the search, in one program.
    """
    if is_traced:
        return jax.lax.while_loop(condition, body, carry)
    while bool(condition(carry)):
        carry = body(carry)
    return carry


def _relative(found: Errors, largest_cost: Array) -> Array:
    """Gradient norm, relative to the terms that cancel in it; absolute where nothing costs."""
    terms = jnp.where(largest_cost > 0.0, found.size, jnp.maximum(found.size, 1.0))
    return found.norm / jnp.where(terms > 0.0, terms, 1.0)


def _share(found: Errors, barrier: Array, size: Array) -> Array:
    """Largest difference of a product and the barrier, relative to the size of the cost."""
    least = jnp.where(jnp.isfinite(found.least), found.least, barrier)
    apart = jnp.maximum(jnp.abs(found.product - barrier), jnp.abs(least - barrier))
    apart = jnp.where(jnp.isfinite(found.least), apart, 0.0)
    return apart / size


def _largest_cost(search: Search) -> Array:
    """The largest cost that the search met."""
    known = jnp.where(jnp.isnan(search.history[:, 0]), 0.0, jnp.abs(search.history[:, 0]))
    return jnp.maximum(jnp.max(known), jnp.abs(search.look.errors.cost))


def cost_size(search: Search) -> Array:
    """Size of the cost: one below one counts as the largest that was met."""
    largest = _largest_cost(search)
    least = jnp.where(largest > 0.0, jnp.minimum(1.0, largest), 1.0)
    return jnp.maximum(least, jnp.abs(search.look.errors.cost))


def last_barrier(size: Array, limits: Array, tolerance: Array | float) -> Array:
    """Barrier whose share of a cost of a size, times the number of limits, is a small part of a
    tolerance.
    """
    return _LAST * tolerance * size / jnp.maximum(1.0, limits)


def _see(rules: Rules, search: Search) -> Search:
    """Verdict on the point: whether the search has converged or ends, the next barrier, and the
    next price of the path.
    """
    before, look = search.barrier, search.look
    search, ease = _judge(rules, search)
    chunks = [chunk for stretch in look.at.stretches for chunk in stretch.chunks]
    if not any(chunk.slacks.shape[1] for chunk in chunks):
        return search
    barriers = before, search.barrier
    at, merit = with_prices(look.at, look.derived, search.merit, barriers, ease)
    return search._replace(look=look._replace(at=at), merit=merit)


@eqx.filter_jit
def _judge(rules: Rules, search: Search) -> tuple[Search, Array]:
    found, barrier = search.look.errors, search.barrier
    norm, size = _relative(found, _largest_cost(search)), cost_size(search)
    row = jnp.stack([found.cost, norm, jnp.maximum(found.violation, found.excess)])
    errors = jnp.maximum(norm, found.violation)
    # What rounding of the path hides is no error, as long as it is small.
    hidden = found.blur / jnp.where(found.size > 0.0, found.size, 1.0)
    hidden = jnp.minimum(_HIDDEN * rules.tolerance, hidden)
    is_small = (norm <= jnp.maximum(rules.tolerance, hidden)) & (found.violation <= rules.tolerance)
    # What the barriers of all limits add to the cost is their number times the barrier.
    is_priced = found.strain > 0.0
    converged = is_small & (found.products <= rules.tolerance * size) & ~is_priced
    least = last_barrier(size, found.limits, rules.tolerance)

    def lower(barrier):
        return jnp.maximum(least, jnp.minimum(_FALL * barrier, barrier**_POWER))

    def is_solved(barrier):
        error = jnp.maximum(errors, _share(found, barrier, size))
        return error <= _ERRORS * barrier / jnp.minimum(1.0, size)

    def may_fall(barrier):
        return is_solved(barrier) & (barrier > least)

    is_last = (search.iterations >= rules.max_iterations) | (search.failures >= _FAILURES)
    done = converged | is_last | ~jnp.all(jnp.isfinite(row))
    ease = search.look.at.stretches[0].chunks[0].ease
    is_firm = is_priced & ~done & is_solved(barrier) & (errors <= _FIRM)
    is_cheap = is_firm & (found.strain >= _EXACT)
    # Where no price does, conditions exclude each other.
    done = done | (is_cheap & (ease / _DEARER * _LARGEST_PRICE < 0.5))
    dearer = jnp.where(done, ease, ease / _DEARER)
    ease = jnp.where(is_cheap, dearer, jnp.where(is_firm, 0.0, ease))
    lowered = jax.lax.while_loop(may_fall, lower, barrier)
    lowered = jnp.where(done | is_cheap, barrier, lowered)
    search = search._replace(
        barrier=lowered,
        refused=jnp.where((lowered < barrier) | is_firm, jnp.inf, search.refused),
        history=search.history.at[search.iterations].set(row),
        converged=converged,
        done=done,
    )
    return search, ease


class _Trial(NamedTuple):
    at: Point
    merit: Merit
    part: Array
    accepted: Array
    cost_falls: Array
    trials: Array


class Look(NamedTuple):
    """A point with its derivatives, errors, and the units of the inputs of each phase."""

    at: Point
    derived: Derivatives
    errors: Errors
    units: tuple[Array, ...]


def look(problem: Problem, at: Point) -> Look:
    """Derivatives and errors at a point."""
    derived = derive(problem, at)
    return Look(at, derived, *errors(problem, at, derived))


@eqx.filter_jit
def _accept(
    start: Merit,
    trial: Merit,
    fall: Array,
    part: Array,
    barrier: Array,
    refused: Array,
    largest: Array,
) -> tuple[Array, Array]:
    """Whether the filter takes a point, and whether it does so for its cost as expected."""
    rounding = 16.0 * jnp.finfo(start.cost.dtype).eps
    before, after = (x.cost - barrier * x.logarithms for x in (start, trial))
    slack, tiny = rounding * jnp.abs(before), rounding * (1.0 + jnp.abs(before))
    expects = (fall < 0.0) & (part * (-jnp.minimum(fall, 0.0)) ** _OF_FALL > start.gap**_OF_GAP)
    falls = after <= before + _SUFFICIENT * part * fall + slack
    better_gap = trial.gap <= (1.0 - _MARGIN) * start.gap + tiny
    better_cost = after <= before - _MARGIN * start.gap + slack
    alone = jnp.where(expects & (start.gap < _SMALL_GAP), falls, better_gap | better_cost)
    passes = jnp.all((trial.gap < refused[:, 0]) | (after < refused[:, 1]))
    finite = jnp.isfinite(after) & jnp.isfinite(trial.gap) & (trial.gap <= largest)
    return finite & alone & passes, expects & falls


def _advance(is_traced: bool, problem: Problem, search: Search) -> Search:
    """Newton's step and line search, whose trials need no derivatives."""
    (at, derived, _, _), barrier, refused = search.look, search.barrier, search.refused
    is_start = search.iterations < 0
    moved, damping = _step_of_right_inertia(
        is_traced, problem, search.look, barrier, search.damping, is_start
    )

    def attempt(trial):
        part = _halve(trial.part, trial.trials)
        there = go(problem, at, derived, moved, part, barrier)
        there, merit = merit_near(is_traced, problem, there, derived, barrier)
        fall = moved.bounds.fall
        taken, falls = _accept(search.merit, merit, fall, part, barrier, refused, search.largest)
        return _Trial(there, merit, part, taken, falls, trial.trials + 1)

    trial = repeat(
        is_traced,
        lambda trial: ~trial.accepted & (trial.trials < _HALVINGS),
        attempt,
        _Trial(at, search.merit, moved.bounds.primal, is_start, is_start, jnp.zeros((), jnp.int32)),
    )
    start = search.merit
    refused, damping = _learn(refused, start, barrier, trial.accepted, trial.cost_falls, damping)
    return search._replace(
        look=look(problem, trial.at),
        merit=trial.merit,
        damping=damping,
        refused=refused,
        iterations=search.iterations + 1,
        failures=jnp.where(trial.accepted, 0, search.failures + 1),
    )


@eqx.filter_jit
def _halve(part: Array, count: Array) -> Array:
    return jnp.where(count == 0, part, 0.5 * part)


@eqx.filter_jit
def _learn(
    refused: Array,
    found: Merit,
    barrier: Array,
    accepted: Array,
    cost_falls: Array,
    damping: Array,
) -> tuple[Array, Array]:
    """Filter with the point that was left, unless its cost fell as expected; damping."""
    cost = found.cost - barrier * found.logarithms
    entry = jnp.stack([(1.0 - _MARGIN) * found.gap, cost - _MARGIN * found.gap])
    longer = jnp.concatenate([entry[None], refused[:-1]])
    # A search without a point to go to starts its filter anew, and steps shorter.
    kept = jnp.where(accepted, jnp.where(cost_falls, refused, longer), jnp.inf)
    return kept, jnp.where(accepted, damping, jnp.maximum(_MORE * damping, _FIRST_DAMPING))


def _step_of_right_inertia(
    is_traced: bool,
    problem: Problem,
    look: Look,
    barrier: Array,
    last: Array,
    is_start: Bool[Array, ""],
) -> tuple[Step, Array]:
    """Newton's step with the least damping that gives it the inertia of a minimum."""
    at, derived, _, units = look

    def attempt(carry):
        _, damping, trial = carry
        return step(problem, at, derived, units, barrier, damping), damping, trial

    def more(carry):
        _, damping, trial = carry
        return attempt((None, _raise(damping, last, trial), trial + 1))

    def wrong(carry):
        return ~carry[0].right & (carry[1] < _LARGEST_DAMPING) & ~is_start

    zero = jnp.zeros_like(barrier)
    first = attempt((None, zero, jnp.zeros((), jnp.int32)))
    found, damping, _ = repeat(is_traced, wrong, more, first)
    return found, jnp.where(damping > 0.0, damping, last)


@eqx.filter_jit
def _raise(damping: Array, last: Array, trial: Array) -> Array:
    # Where the last one was small, a large one would make the search linear.
    first = jnp.where(last > 0.0, jnp.maximum(_LEAST_DAMPING, _LESS * last), _FIRST_DAMPING)
    return jnp.where(trial == 0, first, _MORE * damping)


def _blank(problem: Problem, at: Point) -> Look:
    """Look of zeros, which is computed nowhere."""
    shapes = jax.eval_shape(lambda: look(problem, at))
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)._replace(at=at)


def run(problem: Problem, rules: Rules, at: Point, barrier: Array, iterations: int) -> Search:
    """End of the search from a point."""
    dtype = barrier.dtype
    zero, no = jnp.zeros((), dtype), jnp.zeros((), bool)
    is_traced = checks.has_tracers(problem, at)
    # Derivatives of steps are most of the program where JAX traces the search: it holds them once,
    # as its first iteration goes nowhere. Where there are charts, merits need those of the start.
    is_ahead = is_traced and all(part.freedom is None for part in problem.parts)
    here = _blank(problem, at) if is_ahead else look(problem, at)
    at, merit = merit_near(is_traced, problem, at, here.derived, barrier)
    search = Search(
        look=here,
        merit=merit,
        barrier=barrier,
        damping=zero,
        refused=jnp.full((FILTERED, 2), jnp.inf, dtype),
        largest=_LARGEST_GAP * jnp.maximum(1.0, merit.gap),
        iterations=jnp.asarray(-1 if is_ahead else 0, jnp.int32),
        history=jnp.full((iterations + 1, 3), jnp.nan, dtype),
        converged=no,
        failures=jnp.zeros((), jnp.int32),
        done=no,
    )
    return repeat(
        is_traced,
        lambda x: ~x.done,
        lambda x: _see(rules, _advance(is_traced, problem, x)),
        search if is_ahead else _see(rules, search),
    )
