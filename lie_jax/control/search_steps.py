"""One step of iLQR: the damping that makes its problem convex, and how far to go."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.control import backward
from lie_jax.control.expansion import Dynamics, Quadratic
from lie_jax.control.problem import Problem, Run, difference
from lie_jax.numerics.small import matvec

_FIRST_DAMPING, LARGEST_DAMPING = 1e-6, 1e10
_CHANGE = 10.0
_HALVINGS = 12
# A step is taken if the cost falls by this fraction of what was expected.
_SUFFICIENT = 1e-4


class Curvature(NamedTuple):
    """Second derivatives of the steps and of the end values, weighted by what they cost."""

    steps: Float[Array, "steps z z"]
    end: Float[Array, "n n"]


def policy(
    steps: Dynamics,
    costs: Quadratic,
    last: tuple[Array, Array],
    curvature: Curvature | None,
    bounds: tuple[Array, Array],
    damping: Float[Array, ""],
) -> tuple[backward.Policy, Float[Array, ""]]:
    """A policy of a convex problem, and its damping.

    With the curvature and the given damping if these make the problem convex; else without the
    curvature, and with the least damping from the given one on that does.
    """

    def solve(share, damping):
        if curvature is None:
            return backward.solve(steps, costs, last, bounds, damping)
        curved = costs._replace(hessian=costs.hessian + share * curvature.steps)
        end = last[0], last[1] + share * curvature.end
        return backward.solve(steps, curved, end, bounds, damping)

    one = jnp.ones_like(damping) if curvature is not None else jnp.zeros_like(damping)
    shapes = jax.eval_shape(lambda: solve(one, damping))
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    # The first attempt is made in the loop too, or it would be compiled twice.
    def attempt(carry):
        _, _, share, trial = carry
        more = jnp.maximum(_CHANGE * trial, _FIRST_DAMPING)
        following = jnp.where(share > 0.0, trial, more)
        return solve(share, trial), trial, jnp.zeros_like(share), following

    found, used, _, _ = jax.lax.while_loop(
        lambda carry: ~carry[0].found & (carry[3] <= _CHANGE * LARGEST_DAMPING),
        attempt,
        (nothing, damping, one, damping),
    )
    return found, used


class Taken(NamedTuple):
    """Inputs and trajectory after a step, or before it if none was accepted."""

    inputs: Float[Array, "steps nu"]
    run: Run
    fraction: Float[Array, ""]
    accepted: Bool[Array, ""]


def _with_policy(problem: Problem, now: tuple[Array, Run], found, fraction) -> tuple[Array, Run]:
    """Follow a fraction of the changes, with all of the feedback, within the limits."""
    inputs, run = now
    space = problem.system.space

    def body(state, each):
        k, before, u, change, gain = each
        x = difference(space, before, state)
        u = jnp.clip(u + fraction * change + matvec(gain, x), problem.lower, problem.upper)
        return problem.step(k, state, u), (state, problem.step_cost(k, state, u), u)

    numbers = jnp.arange(inputs.shape[0])
    each = (numbers, run.states, inputs, found.change, found.gains)
    last, (states, costs, inputs) = jax.lax.scan(body, problem.state, each)
    return inputs, Run(states, last, jnp.sum(costs))


def line_search(
    problem: Problem,
    now: tuple[Array, Run],
    found: backward.Policy,
    augmented: tuple[Array, Array],
    done: Bool[Array, ""],
) -> Taken:
    """Halve the step until cost + multipliers · ends + weights · ends²/2 falls as expected."""
    multipliers, weights = augmented

    def merit(run):
        ends = problem.end_values(run.last)
        return (
            run.cost
            + problem.final_cost(run.last)
            + jnp.sum(ends * (multipliers + 0.5 * weights * ends))
        )

    here = merit(now[1])
    rounding = 64.0 * jnp.finfo(here.dtype).eps * jnp.abs(here)

    def attempt(carry):
        _, fraction, _, count = carry
        trial = _with_policy(problem, now, found, fraction)
        expected = fraction * (found.slope + 0.5 * fraction * found.curvature)
        fine = merit(trial[1]) <= here + _SUFFICIENT * expected + rounding
        return trial, jnp.where(fine, fraction, 0.5 * fraction), fine, count + 1

    no = jnp.zeros((), bool)
    start = now, jnp.ones((), here.dtype), no, jnp.zeros((), jnp.int32)
    trial, fraction, fine, _ = jax.lax.while_loop(
        lambda carry: ~carry[2] & (carry[3] < _HALVINGS) & ~done, attempt, start
    )
    inputs, run = jax.tree.map(lambda new, old: jnp.where(fine, new, old), trial, now)
    return Taken(inputs, run, fraction, fine)


def next_damping(damping: Float[Array, ""], taken: Taken) -> Float[Array, ""]:
    """Less after a full step, more if no step was accepted."""
    less = jnp.where(damping > _FIRST_DAMPING, damping / _CHANGE, 0.0)
    more = jnp.maximum(_CHANGE * damping, _FIRST_DAMPING)
    full = taken.accepted & (taken.fraction == 1.0)
    return jnp.where(full, less, jnp.where(taken.accepted, damping, more))
