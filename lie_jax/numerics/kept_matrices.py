"""Newton's method with a matrix that is kept from search to search."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array

from lie_jax.numerics import newton
from lie_jax.numerics.newton import Equations, Inverse, Root, Search

# A search takes a new matrix after `newton.KEPT_SOLVES`, or if from the third solve on one reduces
# the residual by less than this factor. After so many more it starts the step again with full
# Newton. Numbers of the code behind [S3] (3.4).
_SLOW = 0.5
_NEW_SOLVES = 7
_SOLVES = newton.KEPT_SOLVES + _NEW_SOLVES + newton.MAX_ITERATIONS + newton.DAMPED_ITERATIONS


class _Matrix(NamedTuple):
    """Inverse in use, the solves made with it, and flags that say when it is replaced."""

    kept: Inverse
    age: Array
    # The next solve needs a new one; this search has taken a new one; each solve takes a new one.
    renew: Array
    renewed: Array
    always: Array


class _Moves(NamedTuple):
    """The last move (n,), the size of the correction that it is a part of, how often it was halved;
    `damping`: whether moves may be taken back; `waiting`: whether the residual is still unknown.
    """

    move: Array
    size: Array
    halvings: Array
    damping: Array
    waiting: Array


def modified(equations: Equations, guess: Array, kept: Inverse, args: Any) -> Root:
    """Modified Newton: one inverse serves from search to search as long as it reduces the residual.

    The inverse is renewed after eleven solves, or when a solve no longer halves the residual. If
    seven more solves do not converge, or a residual is not finite, the search starts again with a
    new matrix in each of 25 solves, and then with damped steps as `full`. Source: [S3] 3.4.
    """

    def solve(search, matrix):
        kept = jax.lax.cond(
            matrix.renew | matrix.always,
            lambda: newton.inverted(equations.matrix(search.root.y, args), yes),
            lambda: matrix.kept,
        )
        # The first correction, also that of a restart, is for all multipliers, as that of `full`.
        start = jnp.where(jnp.all(search.root.y == guess), guess, 0.0)
        by_inverse = kept.matrix.solve_from_by
        return kept, by_inverse(start, lambda b: kept.inverse @ b, -search.value)

    def iterate(state):
        search, matrix, moves = state
        # A pass that only evaluates the residual where the search starts: written out before the
        # loop it would be compiled twice.
        waiting = moves.waiting
        kept, correction = jax.lax.cond(
            waiting, lambda: (matrix.kept, none), lambda: solve(search, matrix)
        )
        size, halvings = newton.largest(correction), moves.halvings
        back = (
            moves.damping
            & newton.is_worse(size, moves.size, halvings)
            & (halvings < newton.HALVINGS)
        )
        move = jnp.where(back, 0.5 * moves.move, correction)
        after = equations.correct(search, jnp.where(back, -move, move), args)
        done = after.root.converged & ~back & ~waiting
        count = jnp.where(waiting, search.root.iterations, after.root.iterations)
        age = jnp.where(matrix.renew, 1, matrix.age + 1)
        slow = (after.size > _SLOW * search.size) & (count > 2)
        renew = ~matrix.renewed & (slow | (count == newton.KEPT_SOLVES)) & ~done
        renew = jnp.where(waiting, matrix.renew, renew)
        failed = matrix.renewed & (
            age == jnp.where(matrix.always, newton.MAX_ITERATIONS, _NEW_SOLVES)
        )
        restart = ~waiting & ~moves.damping & ((failed & ~done) | ~after.finite)
        y = jnp.where(restart, guess, after.root.y)
        root = after.root._replace(y=y, converged=done, iterations=count)
        finite = after.finite | restart | (moves.damping & (halvings < newton.HALVINGS))
        begun = waiting | restart
        return (
            after._replace(root=root, finite=finite),
            _Matrix(
                kept=kept,
                age=jnp.where(restart, 0, jnp.where(waiting, matrix.age, age)),
                renew=renew,
                renewed=matrix.renewed | (renew & ~waiting) | restart,
                always=matrix.always | restart,
            ),
            _Moves(
                move=move,
                size=jnp.where(begun, jnp.inf, jnp.where(back, moves.size, size)),
                halvings=jnp.where(back, halvings + 1, 0),
                damping=moves.damping | (matrix.always & restart),
                waiting=restart,
            ),
        )

    no, yes, zero = jnp.zeros((), bool), jnp.ones((), bool), jnp.zeros((), jnp.int32)
    none, infinite = jnp.zeros_like(guess), jnp.full((), jnp.inf, guess.dtype)
    nothing = jnp.zeros((), guess.dtype)
    start = Search(newton.initial_root(guess), yes, none, nothing, nothing)
    first = start, _Matrix(kept, zero, ~kept.there, no, no), _Moves(none, infinite, zero, no, yes)
    proceed = newton.loop_condition(_SOLVES)
    search, matrix, _ = jax.lax.while_loop(lambda state: proceed(state[0]), iterate, first)
    return search.root._replace(kept=matrix.kept._replace(there=yes))


def unless_batched(
    single: Callable, of_batch: Callable, guess: Array, kept: Inverse, args: Any
) -> Root:
    """Root by the search `single`, in a batch by `of_batch`, which keeps no inverse.

    In a batch every branch is evaluated: `modified` would take a new matrix in each of its many
    solves.
    """
    arrays, static = eqx.partition((guess, kept, args), eqx.is_array)

    @custom_vmap
    def search(arrays):
        return single(*eqx.combine(arrays, static))

    @search.def_vmap
    def _(size, batched, arrays):
        def member(arrays):
            guess, kept, args = eqx.combine(arrays, static)
            return of_batch(guess, None, args)._replace(kept=kept)

        axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, batched[0])
        root = jax.vmap(member, (axes,), axis_size=size)(arrays)
        return root, jax.tree.map(lambda _: True, root)

    return search(arrays)
