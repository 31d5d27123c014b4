"""Steps that end at the first instant at which an event's function has crossed zero.

A step is looked through on its dense output, a cubic in local coordinates, for a part at whose end
a function is on the other side. Within that part steps from the same start are repeated with other
sizes, until a bracket of two of them is as narrow as rounding allows. One loop takes all of these
steps, and has no derivatives: a rule gives those of the step, and of its size.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from lie_jax.integrators.base import Step
from lie_jax.numerics import newton, rules
from lie_jax.simulation import dense_output, watching
from lie_jax.simulation import events as events_of_runs
from lie_jax.simulation.watching import Move, StepStart, Watch

# Instants inside a step, in parts of it, at which functions are evaluated.
_INSIDE = (0.25, 0.5, 0.75)
_PARTS = (0.0, *_INSIDE, 1.0)
# Bisection alone narrows a bracket to rounding in fewer steps.
_MOST_STEPS = 80
# Steps in a bracket, all beyond the crossing, after which its lower end is tried.
_ONE_SIDED = 3


class _Search(NamedTuple):
    """Bracket of the first crossing, in parts of the step: at `a` nothing has crossed, at `b` an
    event has, if it is `confirmed` by a step and not by the dense output alone; `verified` says the
    same of `a`.

    `at_start`, `at_a`, `at_b`: the function nearest to its crossing, positive before; `width` of
    the bracket at first, `narrowings` since. `step` and `values` (events,) at b; of the events in
    the bracket, `before`: sides and `eligible`: whether they can happen; `others`: whether one
    crosses that has not just happened. `ends`: functions at the end of the whole step, `error` of
    that in units of the tolerance.
    """

    part: Array
    found: Array
    confirmed: Array
    verified: Array
    a: Array
    b: Array
    at_start: Array
    at_a: Array
    at_b: Array
    width: Array
    narrowings: Array
    tried: Array
    iterations: Array
    step: Step
    values: Array
    before: Array
    eligible: Array
    others: Array
    ends: Array
    sides: Array
    scale: Array
    error: Array


class _Bracket(NamedTuple):
    """Fields of a search that describe its bracket."""

    found: Array
    confirmed: Array
    verified: Array
    a: Array
    b: Array
    at_start: Array
    at_a: Array
    at_b: Array
    before: Array
    eligible: Array
    others: Array


Judge = Callable[[StepStart, Step], Array]


def move(
    problem: StepStart, h: Float[Array, ""], watch: Watch, judge: Judge | None = None
) -> tuple[Move, Array]:
    """Step of size h (s), or of a smaller size to the first event in it, and an error.

    A `judge` computes the error of the whole step in units of the tolerance: in one that misses it
    nothing happens. Without, the error is zero. The derivatives of the size are those of the
    instant of the event, by the implicit function theorem: its function stays zero after the step.
    """
    held, whole = rules.stop_gradient((problem, h))
    end = _search(held, whole, watch, judge)
    size = jnp.where(end.found, end.b * whole, whole)
    eligible = end.eligible & ~(end.others & _settling(held, size, watch.departing))
    crossed = (end.before * end.values <= 0.0) & eligible
    step = end.step._replace(newton_iterations=end.iterations)
    event = jnp.argmax(crossed).astype(jnp.int32)
    found = Move(size, step, end.found, event, end.sides, end.scale)
    return _with_derivatives(problem, h, found), end.error


def repeat(
    problem: StepStart, h: Float[Array, ""], happens: Bool[Array, ""], event: Int[Array, ""]
) -> Move:
    """Step of a known size h (s), at whose end an event of that index happens, or not."""
    held, size = rules.stop_gradient((problem, h))
    step = held.step(size, happens)
    none = jnp.zeros(len(problem.events), size.dtype)
    return _with_derivatives(problem, h, Move(size, step, happens, event, none, none))


def _with_derivatives(problem: StepStart, h: Array, found: Move) -> Move:
    """A move as a function of the start of the step and of the size h (s) that was to be taken."""
    # Reverse mode saves these, so that the backward pass repeats no search.
    found = checkpoint_name(found, newton.FOUND)
    carry, others = eqx.partition(found.step.carry, eqx.is_inexact_array)
    values = found.size, found.step.state, carry
    parameters = problem, h, found.happens, found.event
    size, state, carry = rules.value_with_rule(values, _change, parameters)
    step = found.step._replace(state=state, carry=eqx.combine(carry, others))
    return found._replace(size=size, step=step)


def _change(values: Any, parameters: Any, changes: Any) -> Any:
    """Tangents of a step's size, state and carry."""
    size, problem, happens, index = values[0], parameters[0], *parameters[2:]
    change, h_change = changes[:2]
    is_moving = jax.tree.map(lambda x: x is not None, change, is_leaf=lambda x: x is None)
    moving, still = eqx.partition(problem, is_moving)

    def end(size, moving):
        tree = eqx.combine(moving, still)
        step = tree.step(size, happens, branch=False)
        numbers = tree.values(size, step.state)
        number = jnp.sum(
            jnp.where(jnp.arange(len(numbers), dtype=jnp.int32) == index, numbers, 0.0)
        )
        return number, step.state, eqx.filter(step.carry, eqx.is_inexact_array)

    # No `cond` on tangents: JAX cannot transpose one that `vmap` has turned into a selection.
    _, push = jax.linearize(end, size, moving)
    none = jnp.zeros_like(size)
    fixed = push(none, change)
    by_size = push(jnp.ones_like(size), jax.tree.map(jnp.zeros_like, moving))
    of_event = -fixed[0] / jnp.where(happens, by_size[0], 1.0)
    size_change = jnp.where(happens, of_event, none if h_change is None else h_change)
    state, carry = jax.tree.map(lambda x, y: x + y * size_change, fixed[1:], by_size[1:])
    return size_change, state, carry


def _search(problem: StepStart, h: Array, watch: Watch, judge: Judge | None) -> _Search:
    """Search at its end: `step` is the step to the first crossing, or the whole step."""
    eps, one, zero = float(jnp.finfo(h.dtype).eps), jnp.ones_like(h), jnp.zeros((), jnp.int32)
    before, departing = watch.sides, watch.departing

    def after_whole(search, step, values):
        after = _bracket_crossing(problem, h, search, step, values, departing)
        if judge is None:
            return after
        error = judge(problem, step)
        fine = step.converged & (error <= 1.0)
        return after._replace(error=error, found=after.found & fine)

    def narrow(search, step, values):
        # Right after an event its function is at zero, and must not hide another one's crossing.
        hidden = search.others & _settling(problem, search.part * h, departing)
        return _narrow(search, step, values, search.eligible & ~hidden)

    def iterate(search):
        size = search.part * h
        step = problem.step(size, search.tried > 0)
        values = problem.values(size, step.state)
        after = jax.lax.cond(
            search.tried == 0,
            lambda: after_whole(search, step, values),
            lambda: narrow(search, step, values),
        )
        iterations = search.iterations + step.newton_iterations
        return choose_next(after._replace(iterations=iterations))

    def choose_next(search):
        # Steps that all lie beyond the crossing put the lower end in doubt: it is tried itself.
        doubtful = ~search.verified & (search.narrowings >= _ONE_SIDED)
        inner = jnp.where(doubtful, search.a, _next(search, eps))
        part = jnp.where(search.confirmed, inner, search.b)
        return search._replace(part=part, tried=search.tried + 1)

    def unfinished(search):
        wide = ~search.confirmed | (search.b - search.a > 2.0 * eps)
        return (search.tried == 0) | (search.found & wide & (search.tried < _MOST_STEPS))

    step = jax.eval_shape(lambda: problem.step(h, jnp.zeros((), bool)))
    step = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), step)
    none, no = jnp.zeros(len(before), h.dtype), jnp.zeros((), bool)
    begun = _Search(
        part=one,
        found=no,
        confirmed=no,
        verified=no,
        a=0.0 * one,
        b=one,
        at_start=one,
        at_a=one,
        at_b=one,
        width=one,
        narrowings=zero,
        tried=zero,
        iterations=zero,
        step=step,
        values=none,
        before=before,
        eligible=before != 0.0,
        others=no,
        ends=none,
        sides=before,
        scale=none,
        error=0.0 * one,
    )
    return jax.lax.while_loop(unfinished, iterate, begun)


def _bracket_crossing(
    problem: StepStart, h: Array, search: _Search, step: Step, last: Array, departing: Array
) -> _Search:
    """Search after the whole step, whose dense output gives the bracket."""
    space, towards = problem.system.space, events_of_runs.directions(problem.events, h.dtype)

    def inside(part):
        return problem.values(
            part * h, dense_output.between(space, h, problem.state, step.state, part)
        )

    within = jax.vmap(inside)(jnp.asarray(_INSIDE, h.dtype))
    within = jnp.where(h > 0.0, within, last)
    start = problem.values(jnp.zeros_like(h), problem.state)
    numbers = jnp.concatenate([start[None], within, last[None]])
    ignored = _settling(problem, h, departing)
    search = search._replace(
        step=step, values=last, ends=last, scale=jnp.max(jnp.abs(numbers), axis=0)
    )

    def look(now, ends):
        bracket, side = now
        a, b, at_a, at_b = ends
        at_start = b == 0.0
        # At its start a function may be at zero, and one that departs may be beyond by rounding.
        beyond = jnp.where(at_start, side * at_b < 0.0, side * at_b <= 0.0)
        eligible = (side != 0.0) & ((towards == 0.0) | (towards == -side))
        eligible = eligible & ~jnp.where(at_start, departing, ignored)
        here = jnp.any(beyond & eligible) & ~bracket.found
        new = _Bracket(
            found=bracket.found | here,
            confirmed=b == 1.0,
            verified=a == 0.0,
            a=a,
            b=b,
            at_start=_nearest(start, side, eligible),
            at_a=_nearest(at_a, side, eligible),
            at_b=_nearest(at_b, side, eligible),
            before=side,
            eligible=eligible,
            others=jnp.any(beyond & eligible & ~departing),
        )
        bracket = jax.tree.map(lambda x, y: jnp.where(here, x, y), new, bracket)
        settles = (at_b != 0.0) & ~ignored & ~bracket.found & ~at_start
        return (bracket, jnp.where(settles, jnp.sign(at_b), side)), None

    # A loop: written out, some compilers repeat what a part reads for each part after it.
    parts = jnp.asarray(_PARTS, h.dtype)
    ends = jnp.append(0.0, parts[:-1]), parts, jnp.concatenate([start[None], numbers[:-1]]), numbers
    nothing = _Bracket(**{name: getattr(search, name) for name in _Bracket._fields})
    (bracket, side), _ = jax.lax.scan(look, (nothing, search.before), ends)
    width = bracket.b - bracket.a
    return search._replace(**bracket._asdict(), width=width, sides=side)


def _settling(problem: StepStart, size: Array, departing: Array) -> Array:
    """Events that have just happened: their functions are rounding after a step of this size."""
    return departing & (size <= watching.SETTLED * problem.dt)


def _nearest(values: Array, side: Array, eligible: Array) -> Array:
    """Value of the function that is nearest to its crossing, positive before it."""
    return jnp.min(jnp.where(eligible, side * values, jnp.inf))


def _narrow(search: _Search, step: Step, values: Array, eligible: Array) -> _Search:
    """Search after a step within its bracket."""
    x, value = search.part, _nearest(values, search.before, eligible)
    at_end = _nearest(search.ends, search.before, search.eligible)
    narrowings = search.narrowings + 1
    yes = jnp.ones((), bool)
    # The dense output was before zero at the lower end. If the step is not, the beginning is left;
    # if it is, the bracket is as wide as before, which must not count as a narrowing.
    lower = ~search.verified & (x <= search.a)
    crossed = search._replace(
        a=jnp.where(lower, 0.0, search.a),
        at_a=jnp.where(lower, search.at_start, search.at_a),
        b=x,
        at_b=value,
        step=step,
        values=values,
        confirmed=yes,
        verified=search.verified | lower,
        width=jnp.where(lower, x, search.width),
        narrowings=jnp.where(lower, 0, narrowings),
    )
    narrowings = jnp.where(lower, search.narrowings, narrowings)
    before = search._replace(a=x, at_a=value, verified=yes, narrowings=narrowings)
    # The dense output crossed zero, the step does not: search the rest of the step, whose end is
    # still in `step` and `values`.
    rest = search._replace(
        a=x,
        at_a=value,
        b=jnp.ones_like(x),
        at_b=at_end,
        found=~(at_end > 0.0),
        confirmed=yes,
        verified=yes,
        width=1.0 - x,
        narrowings=jnp.zeros_like(narrowings),
    )
    before = jax.tree.map(lambda a, b: jnp.where(search.confirmed, a, b), before, rest)
    return jax.tree.map(lambda a, b: jnp.where(value > 0.0, a, b), before, crossed)


def _next(search: _Search, eps: float) -> Array:
    """Next point of a bracket: the ITP method of Oliveira and Takahashi (2021).

    It converges superlinearly where a function is smooth, and needs one evaluation more than
    bisection at most.
    """
    a, b, at_a, at_b = search.a, search.b, search.at_a, search.at_b
    middle = 0.5 * (a + b)
    # Where the lower end is at zero, right after an event, bisection leads away.
    usable = (at_a > eps**0.5 * -at_b) & jnp.isfinite(at_b)
    secant = (b * at_a - a * at_b) / jnp.where(usable, at_a - at_b, 1.0)
    secant = jnp.where(usable, secant, middle)
    towards = jnp.sign(middle - secant)
    shift = 0.2 * (b - a) ** 2 / search.width
    moved = jnp.where(shift <= jnp.abs(middle - secant), secant + towards * shift, middle)
    slack = search.width * 0.5 ** search.narrowings.astype(a.dtype) - 0.5 * (b - a)
    x = jnp.where(jnp.abs(moved - middle) <= slack, moved, middle - towards * slack)
    return jnp.clip(x, a + eps, b - eps)
