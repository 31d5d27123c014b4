"""iLQR and its second-order form, with limits on inputs and conditions at the end."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

from lie_jax import checks
from lie_jax.control import backward, expansion
from lie_jax.control.problem import Options, Problem, Run, checked_problem, difference, follow
from lie_jax.control.solution import History, Solution, warn_unless_converged
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import padding
from lie_jax.numerics.small import matvec
from lie_jax.simulation import sharding
from lie_jax.simulation.checks import as_jax
from lie_jax.system import AbstractSystem, State


@sharding.automatic
def ilqr(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: State,
    inputs: ArrayLike | Sequence[Any],
    *,
    dt: ArrayLike,
    running: Callable,
    final: Callable | None = None,
    end: Callable | None = None,
    limits: tuple[Any, Any] | None = None,
    second_order: bool = False,
    penalty: float = 100.0,
    tolerance: float = 1e-6,
    end_tolerance: float = 1e-6,
    max_iterations: int = 200,
) -> Solution:
    """Find the inputs that minimise Σ dt running(t, q, v, u) + final(q, v), by iLQR.

    Each iteration solves the linear-quadratic problem around a trajectory, in local coordinates on
    the group, and follows its feedback law as far as the cost falls. Works in `jit` and `vmap`.

    **Arguments:**

    - `system`, `integrator`, `state`, `dt`: as for `lie_jax.simulate`. The system has no
      constraints; the integrator is `RKMK`, `CommutatorFree`, `CrouchGrossman`, `ImplicitRKMK`,
      `ConvexContact`, or `RungeKutta` on coordinates that are not redundant.
    - `inputs`: (steps, nu), the first guess, within the limits.
    - `running(t, q, v, u)`: cost per second, taken at the start of each step. `final(q, v)`: cost
      of the last state. Both smooth. A function with parameters is an `equinox.Module` or a
      `jax.tree_util.Partial`; other values that a function reads are compiled for anew.
    - `end(q, v)`: an array that must be zero at the last state, such as
      `system.space.inverse_retract(target, q)`, by an augmented Lagrangian.
    - `limits`: (lower, upper), numbers or (nu,); `numpy.inf` for none. They hold at all times.
    - `second_order`: whether second derivatives of the steps enter: quadratic convergence where
      the motion is far from linear, for a few times the work of an iteration.
    - `penalty`: the first weight of the end values, relative to the estimated cost of meeting them;
      1e3 to 1e7 for motions that are unstable or far from an equilibrium.
    - `tolerance`: on `Solution.gradient_norm`; `end_tolerance`: on `Solution.violation`.

    **Returns** a `Solution`, and warns if it has not converged. Raises `ValueError` for wrong
    shapes, limits that cross, a guess outside them, and other systems and integrators. Source:
    Tassa, Mansard and Todorov, Control-limited differential dynamic programming, ICRA 2014.
    """
    system, state, table = as_jax(system, state, inputs)
    options, costs = Options(tolerance, end_tolerance, max_iterations), (running, final, end)
    problem = checked_problem(
        "ilqr", system, integrator, state, table, dt, costs, limits, table, options
    )
    checks.positive("ilqr(penalty=)", penalty, "relative weight of the end values")
    gradient, violation, weight = (
        jnp.asarray(x, problem.state.q.dtype) for x in (tolerance, end_tolerance, penalty)
    )
    arrays = Options(gradient, violation, max_iterations)
    search, multipliers = _search(problem, table, arrays, weight, second_order)
    at, history = search.iterations, search.history
    numbers = jnp.arange(max_iterations + 1, dtype=at.dtype)
    solution = Solution(
        inputs=search.run.inputs,
        unknowns=search.run.inputs,
        trajectory=problem.trajectory(search.run.inputs),
        cost=history.cost[at],
        gradient_norm=history.gradient_norm[at],
        violation=history.violation[at],
        multipliers=multipliers,
        gains=search.gains,
        iterations=at,
        history=padding.mark_unreached(history, numbers <= at),
        converged=search.converged,
    )
    advice = "another penalty= or lie_jax.control.shoot"
    advice = f"Take {advice}" if second_order else f"Take second_order=True, {advice}"
    warn_unless_converged("ilqr", solution, options, advice)
    return solution


class _Search(NamedTuple):
    """Carry of the search; `before`: end values at the last correction of the multipliers."""

    run: Run
    gains: Array
    multipliers: Array
    weights: Array
    before: Array
    damping: Array
    iterations: Array
    history: History
    converged: Array
    done: Array


# Relative gradient below which the multipliers are corrected, before the inputs are optimal.
_INNER = 1e-2
# The weights grow unless the end values fall by this factor from one correction to the next.
_FALL = 0.25
_GROWTH = 10.0
_LARGEST_PENALTY = 1e8
# A step is taken if the cost falls by this fraction of the expected decrease.
_SUFFICIENT = 1e-4
_HALVINGS = 12


@eqx.filter_jit
def _search(
    problem: Problem, inputs: Array, options: Options, penalty: Array, second_order: bool
) -> tuple[_Search, Array]:
    run = follow(problem, problem.state, inputs)
    ends = problem.end_values(run.last)
    empty = jnp.zeros(options.max_iterations + 1, inputs.dtype)
    start = _Search(
        run=run,
        gains=jnp.zeros((*inputs.shape, 2 * problem.system.nv), inputs.dtype),
        multipliers=jnp.zeros_like(ends),
        weights=jnp.zeros_like(ends),
        before=jnp.full_like(ends, jnp.inf),
        damping=jnp.zeros((), inputs.dtype),
        iterations=jnp.zeros((), jnp.int32),
        history=History(empty, empty, empty),
        converged=jnp.zeros((), bool),
        done=jnp.zeros((), bool),
    )
    search = jax.lax.while_loop(
        lambda search: ~search.done,
        lambda search: _advance(problem, options, penalty, second_order, search),
        start,
    )
    return search, search.multipliers + search.weights * problem.end_values(search.run.last)


def _advance(
    problem: Problem, options: Options, penalty: Array, second_order: bool, search: _Search
) -> _Search:
    """Measure the trajectory, correct the multipliers near an optimum, and take a step."""
    run, at = search.run, search.iterations
    steps = expansion.dynamics(problem, run)
    costs = expansion.costs(problem, run)
    last = expansion.ending(problem, run.last)
    values = last.values
    violation = jnp.max(jnp.abs(values), initial=0.0)
    natural = _natural_weights(problem, steps, costs, last)
    weights = jnp.where(at == 0, penalty * natural, search.weights)

    def adjoint(pull):
        return expansion.adjoint(steps, costs.slope, last.slope + matvec(last.jacobian.T, pull))

    norm = _relative_norm(problem, run, adjoint(search.multipliers + weights * values))
    met = violation <= options.end_tolerance
    correct = (norm <= _INNER) & ~met
    multipliers = jnp.where(correct, search.multipliers + weights * values, search.multipliers)
    slow = violation > _FALL * jnp.max(jnp.abs(search.before), initial=0.0)
    grown = jnp.minimum(_GROWTH * weights, _LARGEST_PENALTY * natural)
    weights = jnp.where(correct & slow, jnp.maximum(grown, weights), weights)

    pull = multipliers + weights * values
    slope = last.slope + matvec(last.jacobian.T, pull)
    hessian = last.hessian + (last.jacobian.T * weights[None]) @ last.jacobian
    curvature = None
    if second_order:
        curvature = (
            expansion.curvature(problem, run, adjoint(pull).costate),
            expansion.ending(problem, run.last, pull).hessian - last.hessian,
        )
    bounds = problem.lower[None] - run.inputs, problem.upper[None] - run.inputs
    policy, damping = backward.solve_convex(
        steps, costs, (slope, hessian), curvature, bounds, search.damping
    )

    converged = met & (norm <= options.tolerance)
    stuck = ~policy.convex | (search.damping > backward.LARGEST_DAMPING)
    done = converged | stuck | (at >= options.max_iterations)
    following, damping = _line_search(problem, run, policy, (multipliers, weights), damping, done)
    row = run.cost + problem.final_cost(run.last), norm, violation
    return _Search(
        run=following,
        gains=policy.gains,
        multipliers=multipliers,
        weights=weights,
        before=jnp.where(correct, values, search.before),
        damping=damping,
        iterations=jnp.where(done, at, at + 1),
        history=jax.tree.map(lambda past, x: past.at[at].set(x), search.history, History(*row)),
        converged=converged,
        done=done,
    )


def _relative_norm(problem: Problem, run: Run, adjoint: expansion.Adjoint) -> Array:
    """`Solution.gradient_norm` for the gradient with respect to the inputs."""
    inputs, gradient = run.inputs, adjoint.gradient
    # An input is at its limit up to the rounding of the sum that brought it there.
    slack = 64.0 * jnp.finfo(inputs.dtype).eps * jnp.max(jnp.abs(inputs), axis=0, keepdims=True)
    held = (inputs - problem.lower[None] <= slack) & (gradient > 0.0)
    held = held | (problem.upper[None] - inputs <= slack) & (gradient < 0.0)
    largest, size = jnp.max(jnp.where(held, 0.0, jnp.abs(gradient))), jnp.max(adjoint.terms)
    return largest / jnp.where(size > 0.0, size, 1.0)


def _natural_weights(
    problem: Problem, steps: expansion.Dynamics, costs: expansion.Quadratic, last: expansion.Ending
) -> Float[Array, " ends"]:
    """Price of end values by the running costs alone: moving one by c costs about weight c²/2."""
    n = last.slope.shape[0]
    price = jnp.diagonal(costs.hessian, axis1=1, axis2=2)[:, n:]
    price = jnp.where(price > 0.0, price, problem.dt)
    reach = expansion.end_jacobian(steps, last.jacobian)
    reached = jnp.sum(reach**2 / price[:, None, :], axis=(0, 2))
    weights = 1.0 / jnp.where(reached > 0.0, reached, 1.0)
    largest = jnp.max(jnp.where(reached > 0.0, weights, 0.0), initial=0.0)
    return jnp.where(reached > 0.0, weights, jnp.where(largest > 0.0, largest, 1.0))


def _line_search(
    problem: Problem,
    start: Run,
    policy: backward.Policy,
    augmented: tuple[Array, Array],
    damping: Float[Array, ""],
    done: Bool[Array, ""],
) -> tuple[Run, Float[Array, ""]]:
    """Halve the step until cost + multipliers · ends + weights · ends²/2 falls as expected.

    Returns the run, `start` if none is accepted, and the next damping: less after a full step.
    """
    multipliers, weights = augmented

    def merit(run):
        ends = problem.end_values(run.last)
        price = jnp.sum(ends * (multipliers + 0.5 * weights * ends))
        return run.cost + problem.final_cost(run.last) + price

    first = merit(start)
    rounding = 64.0 * jnp.finfo(first.dtype).eps * jnp.abs(first)

    def attempt(carry):
        _, fraction, _, count = carry

        # All of the feedback, with a fraction of the changes.
        def control(state, row):
            before, u, change, gain = row
            x = difference(problem.system.space, before, state)
            return jnp.clip(u + fraction * change + matvec(gain, x), problem.lower, problem.upper)

        rows = start.states, start.inputs, policy.change, policy.gains
        trial = follow(problem, problem.state, rows, control=control)
        expected = fraction * (policy.slope + 0.5 * fraction * policy.curvature)
        accepted = merit(trial) <= first + _SUFFICIENT * expected + rounding
        return trial, jnp.where(accepted, fraction, 0.5 * fraction), accepted, count + 1

    carry = start, jnp.ones((), first.dtype), jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    trial, fraction, accepted, _ = jax.lax.while_loop(
        lambda carry: ~carry[2] & (carry[3] < _HALVINGS) & ~done, attempt, carry
    )
    less = jnp.where(damping > backward.FIRST_DAMPING, damping / backward.CHANGE, 0.0)
    more = jnp.maximum(backward.CHANGE * damping, backward.FIRST_DAMPING)
    next_damping = jnp.where(accepted, jnp.where(fraction == 1.0, less, damping), more)
    return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), trial, start), next_damping
