"""Search for placements from several starts, of a batch of problems with few idle lanes."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Int

from lie_jax.robotics.placement import Placement

# Most starts, and the steps that they share: 12 of each of so many.
_ATTEMPTS, _STEPS = 16, 192
# Problems of a batch that are solved at the same time.
_LANES = 32


class Outcome(NamedTuple):
    """Last configuration if it converged, else the best one, and its largest error."""

    q: Float[Array, " nq"]
    error: Float[Array, ""]
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]


class _Lane(NamedTuple):
    """A problem by its number, and where its search is."""

    number: Array
    q: Array
    attempt: Array
    step: Array
    best: Outcome


class _Loop(NamedTuple):
    lanes: _Lane
    waiting: Array
    results: Outcome


def search(problem: Placement, starts: Float[Array, "starts nq"]) -> Outcome:
    """A solution from the start nearest to it, or from the next ones.

    In a batch lanes that are done take the next problem: no lane waits for the slowest one.
    """
    arrays, static = eqx.partition((problem, starts), eqx.is_array)
    numbers, structure = jax.tree.flatten(arrays)

    def member(numbers: list) -> tuple[Placement, Array]:
        return eqx.combine(jax.tree.unflatten(structure, numbers), static)

    @custom_vmap
    def run(numbers):
        outcomes = _queue(member, numbers, [False] * len(numbers), 1)
        return jax.tree.map(lambda x: x[0], outcomes)

    @run.def_vmap
    def _(size, batched, numbers):
        outcomes = _queue(member, numbers, batched[0], size)
        return outcomes, jax.tree.map(lambda _: True, outcomes)

    return run(numbers)


def _queue(member: Callable, numbers: list, batched: list[bool], size: int) -> Outcome:
    axes = [0 if of_member else None for of_member in batched]

    def choose_starts(numbers):
        problem, starts = member(numbers)
        count = min(_ATTEMPTS, starts.shape[0])
        if starts.shape[0] == 1:
            return starts
        whole = starts.shape[0] // count * count
        return problem.nearest(starts[:whole], count)

    starts = jax.vmap(choose_starts, (axes,), axis_size=size)(numbers)
    dtype, attempts, nq = starts.dtype, starts.shape[1], starts.shape[2]
    limit = jnp.finfo(dtype).eps ** (2.0 / 3.0)

    def advance(numbers, lane: _Lane) -> tuple[Outcome, Array, Array]:
        problem, _ = member(numbers)
        errors, jacobian = problem.errors(lane.q)
        worst = jnp.max(problem.residuals(errors))
        converged, better = worst <= limit, worst < lane.best.error
        best = Outcome(
            jnp.where(better, lane.q, lane.best.q),
            jnp.where(better, worst, lane.best.error),
            converged,
            lane.best.iterations + 1,
        )
        return best, problem.step(lane.q, errors, jacobian), lane.step >= _STEPS // attempts

    def iterate(now: _Loop) -> _Loop:
        lanes, count = now.lanes, now.lanes.number.shape[0]
        place = jnp.minimum(lanes.number, size - 1)
        of_lane = [x[place] if mapped else x for x, mapped in zip(numbers, batched, strict=True)]
        best, q, given_up = jax.vmap(advance, (axes, 0))(of_lane, lanes)
        attempt = lanes.attempt + given_up.astype(jnp.int32)
        done = best.converged | (attempt >= attempts)
        results = jax.tree.map(
            lambda whole, part: whole.at[lanes.number].set(part), now.results, best
        )
        number = jnp.where(done, now.waiting + jnp.cumsum(done, dtype=jnp.int32) - 1, lanes.number)
        number = jnp.minimum(number, size)
        attempt = jnp.where(done, 0, attempt)
        anew = done | given_up
        start = starts[jnp.minimum(number, size - 1), attempt]
        q = jnp.where(anew[:, None], start, q)
        step = jnp.where(anew, 0, lanes.step + 1)
        fresh = _fresh(count, q)
        best = jax.tree.map(
            lambda new, old: jnp.where(done.reshape(-1, *(1,) * (new.ndim - 1)), new, old),
            fresh,
            best,
        )
        return _Loop(
            _Lane(number, q, attempt, step, best),
            now.waiting + jnp.sum(done, dtype=jnp.int32),
            results,
        )

    count = min(size, _LANES)
    zeros = jnp.zeros(count, jnp.int32)
    first = starts[:count, 0]
    lanes = _Lane(jnp.arange(count, dtype=jnp.int32), first, zeros, zeros, _fresh(count, first))
    # Lanes without a problem write to one more row.
    results = _fresh(size + 1, jnp.zeros((size + 1, nq), dtype))
    begun = _Loop(lanes, jnp.asarray(count, jnp.int32), results)
    end = jax.lax.while_loop(lambda now: jnp.any(now.lanes.number < size), iterate, begun)
    return jax.tree.map(lambda x: x[:size], end.results)


def _fresh(count: int, q: Array) -> Outcome:
    zeros = jnp.zeros(count, jnp.int32)
    return Outcome(q, jnp.full(count, jnp.inf, q.dtype), zeros > 0, zeros)
