"""Newton's method for equilibria: on the group, with a line search and load steps."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.statics.equations import Problem

# Newton steps of a load step, and halvings of one of them.
_ITERATIONS, _HALVINGS = 25, 6
# First load step, the smallest one, and the number of attempts.
_FIRST, _SMALLEST, _ATTEMPTS = 0.25, 1e-4, 400
# A load step of so few iterations is followed by one of twice the size.
_EASY = 6


class Search(NamedTuple):
    """Configuration (nq,), multipliers (nc,), the part of the load that they carry, and whether
    that is all of it; `worst`: number of the equation with the largest defect of the last attempt;
    `out`: whether that attempt ended where laws of forces or coordinates are not valid.
    """

    q: Float[Array, " nq"]
    multipliers: Float[Array, " nc"]
    part: Float[Array, ""]
    converged: Bool[Array, ""]
    worst: Int[Array, ""]
    out: Bool[Array, ""]


class _Iteration(NamedTuple):
    q: Array
    multipliers: Array
    iterations: Array
    converged: Array
    failed: Array


class _Length(NamedTuple):
    """Part of a Newton step, the point that it leads to, and whether the next one is smaller."""

    part: Array
    q: Array
    multipliers: Array
    serves: Array


def newton(problem: Problem, q: Array, multipliers: Array, carried: Array) -> _Iteration:
    """Solve defect = `carried` from a point near the solution.

    Of a Newton step the largest part 1, 1/2, 1/4, ... is taken after which the next step, with the
    same matrix, is smaller: a test that scales of forces do not change.
    """

    def iterate(now: _Iteration) -> _Iteration:
        solve = problem.solver(now.q, now.multipliers)
        step = -solve(problem.defect(now.q, now.multipliers) - carried)
        size = problem.length(now.q, step)
        # The next correction is of its square, at the level of rounding.
        small = size <= jnp.sqrt(jnp.finfo(size.dtype).eps)

        def attempt(part: Array) -> _Length:
            point = problem.moved(now.q, now.multipliers, part * step)
            after = problem.length(now.q, solve(problem.defect(*point) - carried))
            return _Length(part, *point, small | (after <= (1.0 - 0.25 * part) * size))

        # A step that is not finite needs no search: it fails below.
        line = jax.lax.while_loop(
            lambda line: ~line.serves & (line.part > 0.5**_HALVINGS),
            lambda line: attempt(0.5 * line.part),
            _Length(2.0 * jnp.ones_like(size), now.q, now.multipliers, ~jnp.isfinite(size)),
        )
        failed = ~line.serves | ~jnp.isfinite(size)
        return _Iteration(line.q, line.multipliers, now.iterations + 1, small & ~failed, failed)

    no = jnp.zeros((), bool)
    return jax.lax.while_loop(
        lambda now: ~now.converged & ~now.failed & (now.iterations < _ITERATIONS),
        iterate,
        _Iteration(q, multipliers, jnp.zeros((), jnp.int32), no, no),
    )


class _Loading(NamedTuple):
    q: Array
    multipliers: Array
    part: Array
    increment: Array
    attempts: Array
    worst: Array
    out: Array


def load(problem: Problem, q: Array) -> Search:
    """Equilibrium that continues a start under growing loads.

    The given loads grow in proportion, and forces that the start leaves unbalanced without them
    are taken away at the same rate. A mechanism that only its loads hold may have no equilibrium
    under parts of them (a pendulum, whose weight in parts has no other direction): if that way ends
    early, the start's unbalanced forces under all loads are taken away bit by bit.
    """

    def attempt(number: Array, before: Search) -> tuple[Array, Search]:
        reached = _continued(problem, q, grows=number == 0)
        # Of two ways that end early the first one says which part of the loads is carried.
        better = (number == 0) | reached.converged
        return number + 1, jax.tree.map(lambda x, y: jnp.where(better, x, y), reached, before)

    # Both ways are passes of one loop: the search is compiled once.
    zero, part = jnp.zeros((), jnp.int32), jnp.zeros((), q.dtype)
    none = jnp.zeros(problem.system.nc, q.dtype)
    no = jnp.zeros((), bool)
    begun = Search(q, none, part, no, zero, no)
    _, end = jax.lax.while_loop(
        lambda now: (now[0] < 2) & ~now[1].converged, lambda now: attempt(*now), (zero, begun)
    )
    return end


def _continued(problem: Problem, q: Array, grows: Array) -> Search:
    """Equilibrium along defect(q, s) = (1 - s) defect(start, 0), 0 ≤ s ≤ 1.

    s is the part of the loads where they grow; else all of them act throughout.
    """
    none = jnp.zeros(problem.system.nc, q.dtype)

    def acting(part: Array) -> Problem:
        return problem.under_loads(jnp.where(grows, part, jnp.ones_like(part)))

    start = acting(jnp.zeros((), q.dtype)).defect(q, none)

    def advance(now: _Loading) -> _Loading:
        target = jnp.minimum(now.part + now.increment, 1.0)
        loaded, carried = acting(target), (1.0 - target) * start
        reached = newton(loaded, now.q, now.multipliers, carried)
        good = reached.converged & problem.valid(reached.q)
        left = jnp.abs(loaded.defect(reached.q, reached.multipliers) - carried)

        def chosen(new, old):
            return jnp.where(good, new, old)

        grown = jnp.where(reached.iterations <= _EASY, 2.0, 1.0) * now.increment
        return _Loading(
            chosen(reached.q, now.q),
            chosen(reached.multipliers, now.multipliers),
            chosen(target, now.part),
            chosen(grown, 0.25 * now.increment),
            now.attempts + 1,
            jnp.argmax(left).astype(jnp.int32),
            reached.converged & ~good,
        )

    def proceed(now: _Loading) -> Array:
        goes_on = (now.increment >= _SMALLEST) & (now.attempts < _ATTEMPTS)
        return (now.part < 1.0) & goes_on

    zero, size = jnp.zeros((), jnp.int32), jnp.full((), _FIRST, q.dtype)
    begun = _Loading(q, none, jnp.zeros((), q.dtype), size, zero, zero, jnp.zeros((), bool))
    end = jax.lax.while_loop(proceed, advance, begun)
    return Search(end.q, end.multipliers, end.part, end.part >= 1.0, end.worst, end.out)
