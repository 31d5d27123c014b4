"""Newton's method with derivatives by the implicit function theorem."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from lie_jax.numerics import rules
from lie_jax.numerics.matrices import AbstractMatrix

MAX_ITERATIONS = 25
# Name of the values that reverse mode may save, so that the backward pass repeats no search.
FOUND = "found by Newton's method"
# A kept matrix serves for so many solves of a step.
KEPT_SOLVES = 11
# A damped Newton step that makes things worse is halved at most this often. Halvings approach a
# slip of 1e-5 m/s from speeds that change by 1e-2 m/s a step in up to 60 iterations.
HALVINGS = 5
DAMPED_ITERATIONS = 100
# A cheap matrix serves as long as it leaves less than this of a correction.
_QUARTER = 0.25
# Length of the record of residuals of a step. Its last entry is the last one of a longer search.
HISTORY = KEPT_SOLVES + 2 * MAX_ITERATIONS
# Residual recorded for an iteration that was not made: JAX_DEBUG_NANS would report a NaN.
NONE = -1.0


class Inverse(NamedTuple):
    """Inverse (n, n) of an iteration matrix kept from search to search, if it is `there` yet, and
    that matrix.
    """

    inverse: Any
    there: Bool[Array, ""]
    matrix: AbstractMatrix


def inverted(matrix: AbstractMatrix, there: Bool[Array, ""]) -> Inverse:
    """The inverse of a matrix, to be kept."""
    return Inverse(matrix.inverse(), there, matrix)


class Root(NamedTuple):
    """Solution y, (n,) but in `damped_search`, and the record of its search.

    `iterations`: number of linear solves; `converged`: success of the last one; `history`
    (HISTORY,): sizes of the residuals, `NONE` beyond the last; `worst`: number of the equation with
    the largest last residual; `kept`: inverse for the next search, None if none is kept.
    """

    y: Any
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

    - `search(guess, kept, args)`: returns the `Root`: `full`, `simplified` or `modified`,
      partially applied.
    - `residual(y, args)`: (n,).
    - `linearize(y, args)`: the residual (n,) and its exact Jacobian with respect to y (n, n).
    - `guess`: (n,), start of the search.
    - `kept`: inverse of an earlier search, or None.
    - `args`: any pytree. Derivatives with respect to its arrays are those of the solution, to any
      order, as exact as `linearize`, whatever the number of iterations. Derivatives with respect to
      `guess` and `kept` are zero. The three functions must use no array but their arguments.
    """
    # Derivatives do not go through the iterations.
    solution = search(*rules.stop_gradient((guess, kept, args)))
    y, converged = checkpoint_name((solution.y, solution.converged), FOUND)
    return solution._replace(
        y=attach_derivatives(y, residual, linearize, args), converged=converged
    )


def attach_derivatives(y: Array, residual: Callable, linearize: Callable, args: Any) -> Array:
    """The solution y (n,) of residual(y, args) = 0, found in any way, with the derivatives that
    `root` gives it.
    """

    def slope(y, args, changes):
        _, jacobian = linearize(y, args)
        _, change = eqx.filter_jvp(lambda args: residual(y, args), (args,), (changes,))
        # Equations may not depend on what is differentiated, as under a constant force.
        return jnp.zeros_like(y) if change is None else -jacobian.solve(change)

    return rules.value_with_rule(y, slope, args)


def full(
    linearize: Callable,
    converged: Callable,
    guess: Array,
    kept: None,
    args: Any,
    cut: Callable | None = None,
) -> Root:
    """Newton steps, at least one and at most 25, each with a new `linearize(y, args)`.

    `converged(correction, value, y, args)`: whether the correction (n,) that led to y is small
    enough; `value` (n,) is the residual before it. If full steps do not converge, or a correction
    is not finite, up to 100 more begin again at the guess. Of these, one after which the next
    correction is not finite or not a quarter smaller is taken back by half, at most five times:
    each time is an iteration. The first correction removes what redundant multipliers of the guess
    have beyond the smallest ones, which is rounding errors of earlier searches. `cut` as in
    `damped_search`.
    """
    return _full(linearize, converged, args, initial_root(guess), MAX_ITERATIONS, cut)


def _full(
    linearize: Callable,
    converged: Callable,
    args: Any,
    start: Root,
    bound: int,
    cut: Callable | None = None,
) -> Root:
    def correct(y, first):
        value, jacobian = linearize(y, args)
        change = jacobian.solve_from(-value, jnp.where(first, y, 0.0))
        size, after = jnp.max(jnp.abs(change)), y + change
        return Correction(after, change, size, converged(change, value, after, args), value)

    none = jnp.zeros_like(start.y)
    return damped_search(correct, jnp.add, start, none, bound + DAMPED_ITERATIONS, bound, cut)


class Correction(NamedTuple):
    """Point y, a pytree, after a Newton step `change` (m,), the `size` of that, whether it is the
    last one, and the residual `value` (n,) before it.
    """

    y: Any
    change: Array
    size: Array
    last: Array
    value: Array


class _Damped(NamedTuple):
    """Search, its last move (m,), the size of the correction that it is a part of, and how often it
    was halved; `damping`: whether moves may be taken back.
    """

    search: "Search"
    move: Array
    size: Array
    halvings: Array
    damping: Array


def damped_search(
    correct: Callable,
    advance: Callable,
    start: Root,
    none: Array,
    bound: int,
    undamped: int = 0,
    cut: Callable | None = None,
) -> Root:
    """Newton steps on any space, damped after the first `undamped` iterations.

    `correct(y, first)`: the `Correction` at a point y, a pytree, which is the start if it is
    `first`; `advance(y, change)`: the point after a change (m,). A move after which the next
    correction is not finite or not a quarter smaller, for a full one, is taken back by half, at
    most five times; each time is an iteration, of which there are `bound` at most. Damped steps
    begin again at the start. `none` (m,): zeros. `cut`: `pieces.cut`, for a loop that is compiled
    apart from its body, or None. Source: Deuflhard, "Newton methods for nonlinear problems" (2004).
    """

    def where(condition, one, other):
        return jax.tree.map(partial(jnp.where, condition), one, other)

    def iterate(now):
        root, halvings, first = now.search.root, now.halvings, ~jnp.isfinite(now.size)
        y, change, size, last, value = correct(root.y, first)
        finite = jnp.isfinite(jnp.sum(change))
        done = last & finite
        worse = ~first & is_worse(size, now.size, halvings)
        back = now.damping & worse & ~done & (halvings < HALVINGS)
        failed = ~now.damping & ~done & (~finite | (root.iterations + 1 == undamped))
        move = jnp.where(back, 0.5 * now.move, change)
        y = where(failed, start.y, where(back, advance(root.y, -move), y))
        root = _noted(root, y, done, value, largest(value))
        return _Damped(
            Search(root, finite | back | failed),
            move,
            jnp.where(failed, jnp.inf, jnp.where(back, now.size, size)),
            jnp.where(back, halvings + 1, 0),
            now.damping | failed,
        )

    infinite, yes = jnp.full((), jnp.inf, none.dtype), jnp.ones((), bool)
    zero, damping = jnp.zeros((), jnp.int32), jnp.full((), not undamped)
    first = _Damped(Search(start, yes), none, infinite, zero, damping)
    proceed = loop_condition(bound)
    iterate = iterate if cut is None else cut(iterate)
    return jax.lax.while_loop(lambda now: proceed(now.search), iterate, first).search.root


def is_worse(size: Array, before: Array, halvings: Array) -> Bool[Array, ""]:
    """Whether the correction after a move is not smaller by a quarter than the one `before` it, by
    less than that for a part of a move.
    """
    return ~(size <= (1.0 - 0.25 * 0.5 ** halvings.astype(size.dtype)) * before)


def simplified(
    equations: "Equations",
    linearize: Callable,
    converged: Callable,
    guess: Array,
    kept: None,
    args: Any,
) -> Root:
    """Newton steps with one cheap matrix, `equations.matrix(guess, args)`; `full` ones instead if
    it does not serve.

    It serves as long as each correction is below a quarter of the one before.
    `equations.converged(error, Search, args)` decides from the error that a correction leaves by
    the last such factor; `Search.finite` is false where the matrix no longer serves.
    """
    solver = equations.matrix(guess, args).rough_solver()

    def iterate(search):
        value = equations.residual(search.root.y, args)
        correction = -solver(value)
        y = search.root.y + correction
        size = equations.size(correction, args)
        serves = jnp.isfinite(size) & (size <= _QUARTER * search.size)
        factor = jnp.where(search.root.iterations > 0, size / search.size, 1.0)
        after = Search(search.root, serves, value, size)
        done = equations.converged(factor * correction, after, args)
        root = _noted(search.root, y, done, value, largest(value))
        return Search(root, serves | done, value, size)

    infinite, yes = jnp.full((), jnp.inf, guess.dtype), jnp.ones((), bool)
    start = Search(initial_root(guess), yes, jnp.zeros_like(guess), infinite)
    first = jax.lax.while_loop(loop_condition(KEPT_SOLVES), iterate, start).root

    def go_on():
        again = first._replace(y=guess)
        return _full(linearize, converged, args, again, KEPT_SOLVES + MAX_ITERATIONS)

    # A branch needs no copies of what a loop carries. In a batch both are evaluated, but the loop
    # runs only if one member needs it.
    return jax.lax.cond(first.converged, lambda: first, go_on)


class Search(NamedTuple):
    """Root so far, and whether the search may go on from it; the residual there (n,), its size and
    that of the first one, None in a search that does not need them.
    """

    root: Root
    finite: Bool[Array, ""]
    value: Any = None
    size: Any = None
    first: Any = None


def initial_root(guess: Any) -> Root:
    """Root at the start of a search."""
    zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    dtype = jax.tree.leaves(guess)[0].dtype
    return Root(guess, zero, no, jnp.full(HISTORY, NONE, dtype), zero)


def loop_condition(bound: int) -> Callable:
    """Function of a search that says whether it goes on, after `bound` iterations at most."""

    def proceed(search):
        return ~search.root.converged & (search.root.iterations < bound) & search.finite

    return proceed


def _noted(root: Root, y: Any, converged: Array, value: Array, size: Array) -> Root:
    """Root after one more iteration, which led to y; `value` is a residual of this `size`."""
    size = jnp.where(jnp.isnan(size), jnp.inf, size)
    return Root(
        y=y,
        iterations=root.iterations + 1,
        converged=converged,
        history=jax.lax.dynamic_update_index_in_dim(root.history, size, root.iterations, 0),
        worst=jnp.argmax(jnp.abs(value)).astype(jnp.int32),
    )


def largest(value: Array, args: Any = None) -> Array:
    """Size of a residual: its largest entry."""
    return jnp.max(jnp.abs(value))


class Equations(NamedTuple):
    """Equations of a search whose matrix need not be the exact Jacobian.

    `residual(y, args)`: (n,); `matrix(y, args)`: (n, n), an approximation of the Jacobian;
    `converged(correction, Search, args)`: whether to stop after a correction (n,); `size(value,
    args)`: size of a residual (n,), one number.
    """

    residual: Callable
    matrix: Callable
    converged: Callable
    size: Callable = largest

    def correct(self, search: Search, correction: Array, args: Any) -> Search:
        """Search after a correction (n,)."""
        y = search.root.y + correction
        value = self.residual(y, args)
        size = self.size(value, args)
        # A residual that grows at first is the one with which later ones are compared.
        grown = jnp.maximum(search.first, size)
        first = jnp.where(search.root.iterations == 0, grown, search.first)
        finite = jnp.isfinite(size)
        root = _noted(search.root, y, search.root.converged, value, size)
        after = Search(root, finite, value, size, first)
        done = self.converged(correction, after, args) & finite
        return after._replace(root=root._replace(converged=done))
