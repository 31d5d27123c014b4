"""iLQR and its second-order form, with limits on inputs and conditions on states."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

from lie_jax import checks
from lie_jax.control import backward, conditions, expansion
from lie_jax.control.conditions import Conditions
from lie_jax.control.problem import ControlProblem, Options, Run, difference, follow, make_problem
from lie_jax.control.solution import History, Solution, warn_unless_converged
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import padding, waits
from lie_jax.numerics.small import matvec
from lie_jax.simulation import sharding
from lie_jax.simulation.checks import as_jax
from lie_jax.systems.system import AbstractSystem, State


@waits.announce("the optimal control with {integrator}")
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
    inequalities: Callable | None = None,
    limits: tuple[Any, Any] | None = None,
    second_order: bool | None = None,
    penalty: float = 100.0,
    tolerance: float = 1e-6,
    end_tolerance: float = 1e-6,
    max_iterations: int = 200,
) -> Solution:
    """Find the inputs that minimise Σ dt running(t, q, v, u) + final(q, v), by iLQR.

    Each iteration solves the linear-quadratic problem around a trajectory, in local coordinates on
    the group, and follows its feedback law as far as the cost falls. Works in `jit` and `vmap`.

    **Arguments:**

    - `system`: constraints, closed loops too, hold along every motion; `state`: the `State` from
      which it starts.
    - `integrator`: `RKMK`, `CommutatorFree`, `CrouchGrossman`, `ImplicitRKMK`, `ConvexContact`, or
      `RungeKutta` on coordinates that are not redundant; `dt`: its step size, s, positive.
    - `inputs`: (steps, nu), the first guess, within the limits.
    - `running(t, q, v, u)`: cost per second, taken at the start of each step. `final(q, v)`: cost
      of the last state. Both smooth. A function with parameters is an `equinox.Module` or a
      `jax.tree_util.Partial`; other values that a function reads are compiled for anew.
    - `end(q, v)`: an array that must be zero at the last state, such as
      `system.space.inverse_retract(target, q)`, by an augmented Lagrangian.
    - `inequalities(t, q, v, u)`: an array that must not be positive after each step, with the time
      and the state at the end of the step and the inputs held over it, by an augmented Lagrangian
      with a multiplier for each entry and step. The state at the start of the run is not tested.
    - `limits`: (lower, upper), numbers or (nu,); `numpy.inf` for none. They hold at all times.
    - `second_order`: whether second derivatives of the steps enter: quadratic convergence where
      the motion is far from linear, for a few times the work of an iteration. By default they enter
      after half of the iterations, or where the search is stuck without them. In `jit` that
      default compiles both searches: choose one there.
    - `penalty`: the first weight of these conditions, relative to the estimated cost of meeting
      them; 1e3 to 1e7 for motions that are unstable or far from an equilibrium.
    - `tolerance`: on `Solution.gradient_norm`; `end_tolerance`: on `Solution.violation`;
      `max_iterations`: at most so many.

    **Returns** a `Solution`, and warns if it has not converged. Raises `ValueError` for wrong
    shapes, limits that cross, a guess outside them, and other systems and integrators. Source:
    Tassa, Mansard and Todorov, Control-limited differential dynamic programming, ICRA 2014.
    """
    system, state, table = as_jax(system, state, inputs)
    options = Options(tolerance, end_tolerance, max_iterations)
    functions = running, final, end, inequalities
    problem = make_problem(
        "ilqr", system, integrator, state, table, dt, functions, limits, table, options
    )
    checks.positive("ilqr(penalty=)", penalty, "relative weight of the conditions")
    gradient, violation, weight = (
        jnp.asarray(x, problem.state.q.dtype) for x in (tolerance, end_tolerance, penalty)
    )
    arrays = Options(gradient, violation, max_iterations)
    search = _begin(problem, table, max_iterations)
    if second_order is None:
        half = arrays._replace(max_iterations=max_iterations // 2)
        search = _search(problem, half, weight, False, search)
        search = search._replace(done=search.converged, damping=jnp.zeros_like(search.damping))
    if checks.has_tracers(search.done) or not bool(search.done):
        search = _search(problem, arrays, weight, second_order is not False, search)
    values, multipliers = _final_conditions(problem, search)
    at, history = search.iterations, search.history
    numbers = jnp.arange(max_iterations + 1, dtype=at.dtype)
    solution = Solution(
        inputs=search.run.inputs,
        unknowns=search.run.inputs,
        trajectory=problem.trajectory(search.run.inputs),
        cost=history.cost[at],
        gradient_norm=history.gradient_norm[at],
        violation=history.violation[at],
        multipliers=multipliers.ends,
        inequality_multipliers=multipliers.inequalities,
        gains=search.gains,
        iterations=at,
        history=padding.mark_unreached(history, numbers <= at),
        converged=search.converged,
    )
    first_order = second_order is False
    slow = "leave second_order out" if first_order else "take lie_jax.control.shoot"
    if problem.inequalities is not None:
        slow = f"start from the inputs of a solution without inequalities=, or {slow}"
    warn_unless_converged("ilqr", solution, values, options, slow, "take a larger penalty=")
    return solution


class _Search(NamedTuple):
    """Carry of the search; `before`: violation at the last correction of the multipliers."""

    run: Run
    gains: Array
    multipliers: Conditions
    weights: Conditions
    before: Array
    damping: Array
    iterations: Array
    history: History
    converged: Array
    done: Array


# Relative gradient below which the multipliers are corrected, before the inputs are optimal.
_INNER = 1e-2
# The weights grow unless the violation falls by this factor from one correction to the next.
_FALL = 0.25
_GROWTH = 10.0
_LARGEST_PENALTY = 1e8
# A step is taken if the cost falls by this fraction of the expected decrease.
_SUFFICIENT = 1e-4
_HALVINGS = 12


@eqx.filter_jit
def _begin(problem: ControlProblem, inputs: Array, max_iterations: int) -> _Search:
    """Start of the search, without multipliers."""
    run = follow(problem, problem.state, inputs)
    none = jax.tree.map(jnp.zeros_like, conditions.values(problem, run))
    empty = jnp.zeros(max_iterations + 1, inputs.dtype)
    return _Search(
        run=run,
        gains=jnp.zeros((*inputs.shape, 2 * problem.system.nv), inputs.dtype),
        multipliers=none,
        weights=none,
        before=jnp.full((), jnp.inf, inputs.dtype),
        damping=jnp.zeros((), inputs.dtype),
        iterations=jnp.zeros((), jnp.int32),
        history=History(empty, empty, empty),
        converged=jnp.zeros((), bool),
        done=jnp.zeros((), bool),
    )


@eqx.filter_jit
def _search(
    problem: ControlProblem, options: Options, penalty: Array, second_order: bool, search: _Search
) -> _Search:
    """End of the search that goes on from another one."""
    return jax.lax.while_loop(
        lambda search: ~search.done,
        lambda search: _advance(problem, options, penalty, second_order, search),
        search,
    )


@eqx.filter_jit
def _final_conditions(problem: ControlProblem, search: _Search) -> tuple[Conditions, Conditions]:
    """Values of the conditions at the end of a search, and their multipliers."""
    values = conditions.values(problem, search.run)
    return values, conditions.pulls(values, search.multipliers, search.weights)


def _advance(
    problem: ControlProblem, options: Options, penalty: Array, second_order: bool, search: _Search
) -> _Search:
    """Measure the trajectory, correct the multipliers near an optimum, and take a step."""
    run, at = search.run, search.iterations
    steps = expansion.dynamics(problem, run)
    costs = expansion.costs(problem, run)
    last = expansion.ending(problem, run.last)
    jacobian = expansion.inequality_jacobian(problem, run, steps)
    values = Conditions(last.values, run.inequalities)
    natural = conditions.natural_weights(problem, steps, costs, last, jacobian)
    weights = jax.tree.map(lambda n, w: jnp.where(at == 0, penalty * n, w), natural, search.weights)

    def adjoint(pull):
        pulled = _price_slopes(jacobian, pull.inequalities)
        of_last = last.slope + matvec(last.jacobian.T, pull.ends)
        return expansion.adjoint(steps, costs.slope, pulled, of_last)

    corrected = conditions.pulls(values, search.multipliers, weights)
    violation = conditions.largest(conditions.errors(values, corrected))
    norm = _relative_norm(problem, run, adjoint(corrected))
    met = violation <= options.end_tolerance
    correct = (norm <= _INNER) & ~met
    slow = violation > _FALL * search.before

    def grow(weight, natural):
        more = jnp.minimum(_GROWTH * weight, _LARGEST_PENALTY * natural)
        return jnp.where(correct & slow, jnp.maximum(more, weight), weight)

    multipliers = jax.tree.map(
        lambda new, old: jnp.where(correct, new, old), corrected, search.multipliers
    )
    weights = jax.tree.map(grow, weights, natural)

    pull = conditions.pulls(values, multipliers, weights)
    slope = last.slope + matvec(last.jacobian.T, pull.ends)
    hessian = last.hessian + (last.jacobian.T * weights.ends[None]) @ last.jacobian
    curvature = None
    if second_order:
        curvature = (
            expansion.curvature(problem, run, adjoint(pull).costate, pull.inequalities),
            expansion.ending(problem, run.last, pull.ends).hessian - last.hessian,
        )
    bounds = problem.lower[None] - run.inputs, problem.upper[None] - run.inputs
    policy, damping = backward.solve_convex(
        steps,
        _with_inequalities(costs, jacobian, pull.inequalities, weights.inequalities),
        (slope, hessian),
        curvature,
        bounds,
        search.damping,
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
        before=jnp.where(correct, violation, search.before),
        damping=damping,
        iterations=jnp.where(done, at, at + 1),
        history=jax.tree.map(lambda past, x: past.at[at].set(x), search.history, History(*row)),
        converged=converged,
        done=done,
    )


def _relative_norm(problem: ControlProblem, run: Run, adjoint: expansion.Adjoint) -> Array:
    """`Solution.gradient_norm` for the gradient with respect to the inputs."""
    inputs, gradient = run.inputs, adjoint.gradient
    # An input is at its limit up to the rounding of the sum that brought it there.
    slack = 64.0 * jnp.finfo(inputs.dtype).eps * jnp.max(jnp.abs(inputs), axis=0, keepdims=True)
    held = (inputs - problem.lower[None] <= slack) & (gradient > 0.0)
    held = held | (problem.upper[None] - inputs <= slack) & (gradient < 0.0)
    largest, size = jnp.max(jnp.where(held, 0.0, jnp.abs(gradient))), jnp.max(adjoint.terms)
    return largest / jnp.where(size > 0.0, size, 1.0)


def _price_slopes(
    jacobian: Float[Array, "steps inequalities z"], pull: Float[Array, "steps inequalities"]
) -> Float[Array, "steps z"]:
    """Slopes of the inequalities' price."""
    return jnp.sum(jacobian * pull[:, :, None], axis=1)


def _with_inequalities(
    costs: expansion.Quadratic,
    jacobian: Float[Array, "steps inequalities z"],
    pull: Float[Array, "steps inequalities"],
    weights: Float[Array, "steps inequalities"],
) -> expansion.Quadratic:
    """Costs of the steps and price of their inequalities, as if these were linear."""
    curved = jnp.where(pull > 0.0, weights, 0.0)[:, :, None] * jacobian
    return expansion.Quadratic(
        costs.slope + _price_slopes(jacobian, pull),
        costs.hessian + jnp.swapaxes(jacobian, 1, 2) @ curved,
    )


def _line_search(
    problem: ControlProblem,
    start: Run,
    policy: backward.Policy,
    augmented: tuple[Conditions, Conditions],
    damping: Float[Array, ""],
    done: Bool[Array, ""],
) -> tuple[Run, Float[Array, ""]]:
    """Halve the step until the cost with the price of the conditions falls as expected.

    Returns the run, `start` if none is accepted, and the next damping: less after a full step.
    """

    def merit(run):
        price = conditions.price(conditions.values(problem, run), *augmented)
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
