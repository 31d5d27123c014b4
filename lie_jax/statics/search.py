"""Newton's method for equilibria: on the group, damped, in load steps."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.numerics import newton
from lie_jax.statics.equations import EquilibriumEquations

# Newton steps of a load step, with those that are taken back.
_ITERATIONS = 40
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


def _root(problem: EquilibriumEquations, start: _Point, carried: Array) -> newton.Root:
    """Solve defect = `carried` from a point near the solution.

    Sizes of corrections decide on parts of Newton steps: scales of forces do not change them.
    """

    def correct(point: _Point, first: Array) -> newton.Correction:
        value = problem.defect(*point) - carried
        change = -problem.solver(*point)(value)
        size = problem.length(point[0], change)
        # The next correction is of its square, at the level of rounding.
        last = size <= jnp.sqrt(jnp.finfo(size.dtype).eps)
        return newton.Correction(move(point, change), change, size, last, value)

    def move(point: _Point, change: Array) -> _Point:
        return problem.move(*point, change)

    none = jnp.zeros(problem.size, start[0].dtype)
    return newton.damped_search(correct, move, newton.initial_root(start), none, _ITERATIONS)


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
