"""Newton's method with derivatives by the implicit function theorem."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from lie_jax.numerics import dense, rules
from lie_jax.numerics.block_matrix import Factors

MAX_ITERATIONS = 25
# What reverse mode may keep of a step so that it need not search again.
FOUND = "found by Newton's method"
# Modified Newton takes a new matrix after so many solves of a step, or if from the third solve on
# one reduces the residual by less than this factor. After so many more it starts the step again
# with full Newton. Those of the code behind [S3] (3.4).
_KEPT_SOLVES = 11
_NEW_SOLVES = 7
_SLOW = 0.5
# The longest history of a step.
HISTORY = _KEPT_SOLVES + _NEW_SOLVES + MAX_ITERATIONS
# Size of a residual in the place of an iteration that was not made: no NaN, which JAX_DEBUG_NANS
# would take for an error.
NONE = -1.0


class Inverse(NamedTuple):
    """Inverse (n, n) of an iteration matrix that is kept, and whether there is one yet."""

    matrix: Float[Array, "n n"] | Factors
    there: Bool[Array, ""]


class Root(NamedTuple):
    """Solution y (n,), number of iterations (linear solves), whether the last one converged, the
    sizes of the residuals on the way, `NONE` where none was (HISTORY,), the number of the equation
    with the largest last residual, and the inverse that is kept for the next search, if one is.
    """

    y: Float[Array, " n"]
    iterations: Int[Array, ""]
    converged: Bool[Array, ""]
    history: Float[Array, " history"]
    worst: Int[Array, ""]
    kept: Inverse | None = None


def root(
    search: Callable,
    residual: Callable,
    linearize: Callable,
    guess: Array,
    kept: Inverse | None,
    args: Any,
) -> Root:
    """Solve residual(y, args) = 0 for y.

    **Arguments:**

    - `search(guess, kept, args)`: finds the `Root`, for example `full` or `chord`, partially
      applied.
    - `residual(y, args)`: (n,).
    - `linearize(y, args)`: the residual (n,) and its exact Jacobian with respect to y (n, n).
    - `guess`: (n,), where to start.
    - `kept`: an inverse from another search, or None.
    - `args`: any pytree. Derivatives with respect to its arrays are those of the solution, to any
      order, as exact as `linearize`, whatever the number of iterations; nothing depends on `guess`
      and `kept`. The three functions must use no array but their arguments.
    """

    def slope(y, args, changes):
        _, jacobian = linearize(y, args)
        _, change = eqx.filter_jvp(lambda args: residual(y, args), (args,), (changes,))
        return -dense.solve(jacobian, change)

    # Derivatives do not go through the iterations.
    solution = search(*rules.held((guess, kept, args)))
    y, converged = checkpoint_name((solution.y, solution.converged), FOUND)
    return solution._replace(y=rules.by_rule(y, slope, args), converged=converged)


def full(linearize: Callable, converged: Callable, guess: Array, kept: None, args: Any) -> Root:
    """Full Newton steps, at least one and at most 25, each with `linearize(y, args)` afresh.

    `converged(correction, value, y, args)`: whether the correction (n,) that led to y was small
    enough, and the residual (n,) before it. A correction that is not finite ends the search as not
    converged.
    """

    def proceed(carry):
        root, finite = carry
        return ~root.converged & (root.iterations < MAX_ITERATIONS) & finite

    def iterate(carry):
        root, _ = carry
        value, jacobian = linearize(root.y, args)
        correction = -dense.solve_roughly(jacobian, value)
        y = root.y + correction
        finite = jnp.isfinite(jnp.sum(correction))
        done = converged(correction, value, y, args) & finite
        sizes = jnp.abs(value)
        history = _noted(root.history, jnp.max(sizes), root.iterations)
        worst = jnp.argmax(sizes).astype(jnp.int32)
        return Root(y, root.iterations + 1, done, history, worst), finite

    zero = jnp.zeros((), jnp.int32)
    start = Root(guess, zero, jnp.zeros((), bool), _no_history(guess), zero)
    return jax.lax.while_loop(proceed, iterate, (start, jnp.ones((), bool)))[0]


def _no_history(guess: Array) -> Array:
    return jnp.full(HISTORY, NONE, guess.dtype)


def _noted(history: Array, size: Array, place: Array) -> Array:
    size = jnp.where(jnp.isnan(size), jnp.inf, size)
    return jax.lax.dynamic_update_index_in_dim(history, size, place, 0)


class Sizes(NamedTuple):
    """What tells whether a search is at its end: the last correction, the residual after it, its
    size and that where the search began.
    """

    correction: Float[Array, " n"]
    value: Float[Array, " n"]
    residual: Float[Array, ""]
    first: Float[Array, ""]


class _Chord(NamedTuple):
    root: Root
    value: Array
    first: Array
    last: Array
    # Solves with the present matrix, whether the next one needs another, whether that is the
    # second of this search, and whether each solve gets its own.
    since: Array
    renew: Array
    renewed: Array
    each: Array
    finite: Array


def chord(
    residual: Callable,
    matrix: Callable,
    size: Callable,
    converged: Callable,
    keeps: bool,
    guess: Array,
    kept: Inverse | None,
    args: Any,
) -> Root:
    """Newton steps with a matrix that need not be the exact Jacobian, at least one.

    **Arguments:** `residual(y, args)`: (n,); `matrix(y, args)`: (n, n), an approximation of its
    Jacobian; `size(value, args)`: the size of a residual (n,), one number; `converged(Sizes, y,
    args)`: whether to stop; `keeps`: whether one inverse serves as long as it brings the residual
    down (modified Newton, [S3] 3.4), from search to search; it is renewed after eleven solves, or
    when one halves the residual no more, and if seven more do not help, or residuals are
    no longer finite, the search starts again with a new matrix in each of the solves that are left
    of `HISTORY`.
    """

    def proceed(state):
        bound = HISTORY if keeps else MAX_ITERATIONS
        return ~state.root.converged & (state.root.iterations < bound) & state.finite

    def iterate(state):
        root = state.root
        if keeps:
            inverse = jax.lax.cond(
                state.renew | state.each,
                lambda: dense.inverse(matrix(root.y, args)),
                lambda: root.kept.matrix,
            )
            correction = -(inverse @ state.value)
            held = Inverse(inverse, jnp.ones((), bool))
        else:
            correction = -dense.solve(matrix(root.y, args), state.value)
            held = None
        y = root.y + correction
        value = residual(y, args)
        now = size(value, args)
        count, since = root.iterations + 1, jnp.where(state.renew, 1, state.since + 1)
        # A residual that grows at first is what later ones are compared with.
        first = jnp.where(count == 1, jnp.maximum(state.first, now), state.first)
        finite = jnp.isfinite(now)
        done = converged(Sizes(correction, value, now, first), y, args) & finite
        slow = (now > _SLOW * state.last) & (count > 2)
        renew = ~state.renewed & (slow | (count == _KEPT_SOLVES))
        exhausted = (state.renewed & (since == _NEW_SOLVES) & ~done) | ~finite
        restart = exhausted & ~state.each & keeps
        if keeps:
            y = jnp.where(restart, guess, y)
            value = jnp.where(restart, begun, value)
        history = _noted(root.history, now, root.iterations)
        worst = jnp.argmax(jnp.abs(value)).astype(jnp.int32)
        return _Chord(
            Root(y, count, done, history, worst, held),
            value,
            first,
            now,
            since,
            renew & ~done,
            state.renewed | (renew & ~done),
            state.each | restart,
            finite | restart,
        )

    begun = residual(guess, args)
    begin = size(begun, args)
    zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    start = _Chord(
        Root(guess, zero, no, _no_history(guess), zero, kept),
        begun,
        begin,
        begin,
        zero,
        no if kept is None else ~kept.there,
        no,
        no,
        ~no,
    )
    return jax.lax.while_loop(proceed, iterate, start).root
