"""Newton's method for equilibria: on the group, with a line search and load steps."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.statics.equations import EquilibriumEquations

# Newton steps of a load step, and halvings of one of them.
_ITERATIONS, _HALVINGS = 25, 6
# Steps longer than the one before them that a search with predicted strains survives.
_GROWN = 1
# First load step, the smallest one, and the number of attempts.
_FIRST, _SMALLEST, _ATTEMPTS = 0.25, 1e-4, 400
# A load step of so few iterations is followed by one of twice the size.
_EASY = 6

# Configuration and multipliers.
_Point = tuple[Array, Array]


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


class _Root(NamedTuple):
    """Point of a search, strains that its matrix takes, size of the last step and how often one was
    longer than the one before, number of iterations, the equation with the largest defect before
    the last of them, and whether the search has converged or failed.
    """

    y: _Point
    predicted: tuple
    size: Array
    grown: Array
    iterations: Array
    worst: Array
    converged: Array
    failed: Array


class _Trial(NamedTuple):
    """Part of a Newton step, the point that it leads to, and whether the next one is smaller."""

    part: Array
    y: _Point
    serves: Array


def _root(problem: EquilibriumEquations, start: _Point, carried: Array) -> _Root:
    """Solve defect = `carried` from a point near the solution.

    Of a Newton step the largest part 1, 1/2, 1/4, ... is taken after which the next step, with the
    same matrix, is smaller: a test that scales of forces do not change. With a new matrix, as in
    `newton.damped_search`, the next step of a slender beam undoes the stretch by which nodes leave
    their arcs, and is larger for parts that serve. Source: Deuflhard, "Newton methods for nonlinear
    problems" (2004).
    """

    def iterate(now: _Root) -> _Root:
        solve = problem.foreseeing(now.predicted).solver(*now.y)
        value = problem.defect(*now.y) - carried
        change = -solve(value)
        size = problem.length(now.y[0], change)
        # The next step is of its square, at the level of rounding.
        small = size <= jnp.sqrt(jnp.finfo(size.dtype).eps)

        def after(y: _Point, change: Array, size: Array, grown: Array, failed: Array) -> _Root:
            predicted = problem.predict(now.y[0], change)
            worst = jnp.argmax(jnp.abs(value)).astype(jnp.int32)
            count, good = now.iterations + 1, small & ~failed
            return _Root(y, predicted, size, grown, count, worst, good, failed)

        def attempt(part: Array) -> _Trial:
            point = problem.move(*now.y, part * change)
            left = problem.length(now.y[0], solve(problem.defect(*point) - carried))
            return _Trial(part, point, small | (left <= (1.0 - 0.25 * part) * size))

        if now.predicted:
            # Whole steps: what the next one undoes is the stretch that these matrices expect.
            grown = now.grown + (size > now.size).astype(now.grown.dtype)
            failed = ~jnp.isfinite(size) | (grown > _GROWN)
            return after(problem.move(*now.y, change), change, size, grown, failed)

        # A step that is not finite needs no search: it fails below.
        trial = jax.lax.while_loop(
            lambda trial: ~trial.serves & (trial.part > 0.5**_HALVINGS),
            lambda trial: attempt(0.5 * trial.part),
            _Trial(2.0 * jnp.ones_like(size), now.y, ~jnp.isfinite(size)),
        )
        failed = ~trial.serves | ~jnp.isfinite(size)
        return after(trial.y, trial.part * change, size, now.grown, failed)

    zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    still = jnp.zeros(problem.size, start[0].dtype)
    longest = jnp.full((), jnp.inf, start[0].dtype)
    return jax.lax.while_loop(
        lambda now: ~now.converged & ~now.failed & (now.iterations < _ITERATIONS),
        iterate,
        _Root(start, problem.predict(start[0], still), longest, zero, zero, zero, no, no),
    )


def load(problem: EquilibriumEquations, q: Array) -> Search:
    """Equilibrium that continues a start under growing loads.

    The given loads grow in proportion, and forces that the start leaves unbalanced without them
    are taken away at the same rate. A mechanism that only its loads hold may have no equilibrium
    under parts of them (a pendulum, whose weight in parts has no other direction): if that way ends
    early, the start's unbalanced forces under all loads are taken away bit by bit.
    """
    none, zero, no = jnp.zeros((), q.dtype), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    begun = Search(q, jnp.zeros(problem.system.nc, q.dtype), none, no, zero, no)

    def attempt(number: Array, before: Search) -> tuple[Array, Search]:
        reached = _continuation(problem, begun, grows=number == 0)
        # Of two ways that end early the first one says which part of the loads is carried.
        better = (number == 0) | reached.converged
        return number + 1, jax.tree.map(lambda x, y: jnp.where(better, x, y), reached, before)

    # Both ways are passes of one loop: the search is compiled once.
    return jax.lax.while_loop(
        lambda now: (now[0] < 2) & ~now[1].converged, lambda now: attempt(*now), (zero, begun)
    )[1]


def _continuation(problem: EquilibriumEquations, begun: Search, grows: Array) -> Search:
    """Equilibrium along defect(q, s) = (1 - s) defect(start, 0), 0 ≤ s ≤ 1.

    s is the part of the loads where they grow; else all of them act throughout.
    """

    def equations_at(part: Array) -> EquilibriumEquations:
        return problem.under_loads(jnp.where(grows, part, jnp.ones_like(part)))

    start = equations_at(begun.part).defect(begun.q, begun.multipliers)

    def advance(now: tuple[Search, Array, Array]) -> tuple[Search, Array, Array]:
        before, increment, attempts = now
        target = jnp.minimum(before.part + increment, 1.0)
        root = _root(equations_at(target), before[:2], (1.0 - target) * start)
        good = root.converged & problem.valid(root.y[0])
        after = *root.y, target, target >= 1.0
        q, multipliers, part, all_of_it = map(partial(jnp.where, good), after, before)
        grown = jnp.where(root.iterations <= _EASY, 2.0, 1.0) * increment
        increment = jnp.where(good, grown, 0.25 * increment)
        out = root.converged & ~good
        after = Search(q, multipliers, part, all_of_it, root.worst, out)
        return after, increment, attempts + 1

    def proceed(now: tuple[Search, Array, Array]) -> Array:
        before, increment, attempts = now
        return ~before.converged & (increment >= _SMALLEST) & (attempts < _ATTEMPTS)

    first = jnp.full_like(begun.part, _FIRST)
    return jax.lax.while_loop(proceed, advance, (begun, first, jnp.zeros_like(begun.worst)))[0]
