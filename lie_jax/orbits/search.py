"""Newton's method on the return map, damped, on the space of states on the constraints."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.numerics import newton
from lie_jax.orbits.return_map import Correction, Image, Linear, Point, ReturnMap, correction
from lie_jax.simulation.trajectory import Result

# Evaluations of the return map with its derivative, and halvings of a step.
MOST_EVALUATIONS = 60
_HALVINGS = 10
# Largest change of the logarithm of the period in a step: it must not collapse.
_LONGEST = 0.5
# The first steps change the period alone while by more than this part of it, and while each of
# them leaves less than this part of the defect.
_UNTIMED, _HALF = 1e-3, 0.5


class Found(NamedTuple):
    """Point at the end of a search, and what is known of it.

    `linear`: `Linear` there, `rank` of its correction; `residual`: largest defect; `history`
    (MOST_EVALUATIONS,): of each evaluation, `newton.NONE` beyond the last; `evaluations`: their
    number; `settled`: whether the steps vanish; `resting`: whether it is at rest; `converged`:
    whether it is a periodic motion.
    """

    point: Point
    linear: Linear
    rank: Int[Array, ""]
    residual: Float[Array, ""]
    history: Float[Array, " evaluations"]
    evaluations: Int[Array, ""]
    settled: Bool[Array, ""]
    resting: Bool[Array, ""]
    converged: Bool[Array, ""]


class _Step(NamedTuple):
    """Change (2nv,) of a start, change of the logarithm of its period, and its size; `timing`:
    whether it changes the period alone.
    """

    change: Array
    log: Array
    size: Array
    timing: Array


class _Search(NamedTuple):
    """Last accepted point with its `Linear` and step; the `part` of that step that leads to the
    point that is tried next; `first`: whether none is accepted.
    """

    base: Point
    linear: Linear
    rank: Array
    resting: Array
    step: _Step
    part: Array
    residual: Array
    trial: Point
    first: Array
    history: Array
    evaluations: Array
    settled: Array
    failed: Array


def closed(residual: Array) -> Bool[Array, ""]:
    """Whether a defect is as small as an integrator's errors: eps^(3/8), 1e-6 in double."""
    return residual <= jnp.finfo(residual.dtype).eps ** 0.375


def _nothing(problem: ReturnMap, start: Point) -> Linear:
    """`Linear` of zeros: its shapes by hand, for a trace of the run takes seconds."""
    unknowns = problem.unknowns(problem.tangents(start.state))
    values, zero = problem.values(start.state), jnp.zeros_like(start.period)
    n = len(unknowns) - problem.free_period
    rows, change = jnp.zeros(n + len(values)), jnp.zeros(2 * problem.system.nv + len(values))
    image = Image(start.state, zero, jnp.zeros((), bool), Result.successful)
    by_start, monodromy = jnp.zeros((len(rows), n)), jnp.zeros((n, n))
    made = Linear(rows, by_start, rows, monodromy, zero, change, image)
    in_precision: Linear = jax.tree.map(
        lambda x: x.astype(zero.dtype) if eqx.is_inexact_array(x) else x, made
    )
    return in_precision


def residual_of(linear: Linear) -> Float[Array, ""]:
    """Largest defect, infinite where the motion is not complete."""
    residual = jnp.max(jnp.abs(linear.defect))
    sound = linear.image.complete & ~jnp.isnan(residual)
    return jnp.where(sound, residual, jnp.inf)


@eqx.filter_jit
def search(problem: ReturnMap, start: Point) -> Found:
    """Periodic motion near a start.

    A part 1, 1/2, 1/4, ... of a Newton step is taken after which the next step or the defect is
    smaller. Steps are least changes of the start, see `Correction`. After a step of less than the
    square root of rounding the map is evaluated once more, for its derivative there. A free period
    is first that after which the start comes nearest to itself: far from it, least changes of the
    start would lead away from the start's own family of motions.
    """

    def evaluate(point: Point) -> tuple[Linear, Correction, Array]:
        around = problem.tangents(point.state)
        linear = problem.linearize(point, around, problem.unknowns(around))
        solver = correction(linear, around.sizes[0], problem.free_period)
        return linear, solver, residual_of(linear)

    def step_of(linear: Linear, solver: Correction, point: Point, may_time: Array) -> _Step:
        around, n = problem.tangents(point.state), linear.monodromy.shape[0]
        change, log = -solver.solve(linear.closing), jnp.zeros_like(point.period)
        alone = jnp.zeros((), bool)
        if problem.free_period:
            timing = -solver.time(linear.closing)
            alone = may_time & (jnp.abs(timing) > _UNTIMED)
            log = jnp.where(solver.resting, 0.0, jnp.where(alone, timing, change[n]))
        change = jnp.where(alone, 0.0, change[:n])
        size = jnp.maximum(jnp.max(jnp.abs(solver.weights * change)), jnp.abs(log))
        shorter = jnp.minimum(1.0, _LONGEST / jnp.maximum(jnp.abs(log), _LONGEST))
        return _Step(shorter * around.ambient(change), shorter * log, size, alone)

    small = float(jnp.finfo(start.period.dtype).eps) ** 0.5

    def iterate(now: _Search) -> _Search:
        linear, solver, residual = evaluate(now.trial)
        # As long as it halves the defect.
        timed = now.step.timing & (residual <= _HALF * now.residual)
        step = step_of(linear, solver, now.trial, now.first | timed)
        history = jax.lax.dynamic_update_index_in_dim(now.history, residual, now.evaluations, 0)
        enough = 1.0 - 0.25 * now.part
        better = (step.size <= enough * now.step.size) | (residual <= enough * now.residual)
        was_small = ~now.first & (now.step.size <= small)
        sound = jnp.isfinite(residual) & jnp.isfinite(step.size)
        accepted = sound & (now.first | better | was_small | now.step.timing)
        part = jnp.where(accepted, 1.0, 0.5 * now.part)
        tried = now.trial, linear, solver.rank, solver.resting, step, residual
        known = now.base, now.linear, now.rank, now.resting, now.step, now.residual
        kept = jax.tree.map(partial(jnp.where, accepted | now.first), tried, known)
        base, linear, rank, resting, step, residual = kept
        return _Search(
            base=base,
            linear=linear,
            rank=rank,
            resting=resting,
            step=step,
            part=part,
            residual=residual,
            trial=problem.move(base, part * step.change, part * step.log),
            first=now.first & ~accepted,
            history=history,
            evaluations=now.evaluations + 1,
            settled=accepted & was_small,
            failed=(now.first & ~accepted) | (part < 0.5**_HALVINGS),
        )

    linear = _nothing(problem, start)
    no, none, still = jnp.zeros((), bool), jnp.zeros((), jnp.int32), jnp.zeros_like(start.period)
    change = jnp.zeros(2 * problem.system.nv, still.dtype)
    begun = _Search(
        base=start,
        linear=linear,
        rank=none,
        resting=no,
        step=_Step(change, still, still, no),
        part=still + 1.0,
        residual=still,
        trial=start,
        first=~no,
        history=jnp.full(MOST_EVALUATIONS, newton.NONE, start.period.dtype),
        evaluations=none,
        settled=no,
        failed=no,
    )
    end = jax.lax.while_loop(
        lambda now: ~now.settled & ~now.failed & (now.evaluations < MOST_EVALUATIONS),
        iterate,
        begun,
    )
    resting = end.resting & problem.free_period
    converged = end.settled & ~resting & closed(end.residual) & end.linear.image.complete
    return Found(
        point=end.base,
        linear=end.linear,
        rank=end.rank,
        residual=end.residual,
        history=end.history,
        evaluations=end.evaluations,
        settled=end.settled,
        resting=resting,
        converged=converged,
    )
