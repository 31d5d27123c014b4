"""Direct multiple shooting with a node at every step: an interior-point method on all unknowns.

States and inputs of all steps are unknown, equations of motion are equality constraints that hold
only in the end, and limits are kept by logarithmic barriers. Steps come from the sparse linear
equations of all unknowns at once, with the Hessian of the cost alone (Gauss-Newton) or with the
curvature of the steps too. It has nothing in common with iLQR but the derivatives of single steps.
Source: Wächter and Biegler, Math. Program. 106 (2006): barrier, steps to the limits.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import sparse
from scipy.sparse.linalg import splu

import lie_jax
from lie_jax.control import expansion
from lie_jax.control.problem import ControlProblem, Run, difference, displace, follow

# A point never takes more than this part of the way to a limit.
_TO_LIMIT = 0.995
_FIRST_BARRIER, _LAST_BARRIER, _FALL, _POWER = 1e-2, 1e-11, 0.2, 1.5
_HALVINGS = 25
# Added to the Hessian's diagonal, in units of the cost's curvature along the inputs, so that the
# problem is convex along a step, and that steps stay where it is nearly linear.
_FIRST_DAMPING, _LARGEST_DAMPING, _CHANGE = 1e-4, 1e6, 10.0
# A step cut below the first part asks for more of it, one that was cut no more than to the second
# for less.
_SHORT, _LONG = 0.1, 0.5
# The barriers' share of the cost when a search ends.
_SHARE = 1e-3


class Found(NamedTuple):
    """Where a search ended.

    `inputs` (steps, nu); `states` before and after all steps; `cost`; `gradient_norm`: largest
    entry of the gradient of the Lagrangian, relative to the terms that cancel in it; `violation`:
    largest gap or end value; `history` (iterations + 1, 3): these three numbers.
    """

    inputs: np.ndarray
    states: lie_jax.State
    cost: float
    gradient_norm: float
    violation: float
    iterations: int
    converged: bool
    history: np.ndarray


class _Point(NamedTuple):
    """Inputs, states, and cost, gaps (steps, n) and end values there, the latter two flat."""

    inputs: np.ndarray
    states: lie_jax.State
    cost: float
    rows: np.ndarray


class _Linear(NamedTuple):
    """Jacobian of all gaps and end values, gradient (steps, nu + n), blocks of the Hessian of the
    costs and of the Lagrangian for each step, and for the last state.
    """

    jacobian: Any
    slope: np.ndarray
    costs: np.ndarray
    blocks: np.ndarray
    last: np.ndarray


@eqx.filter_jit
def _values(problem: ControlProblem, states: lie_jax.State, inputs: Array):
    before, after = (jax.tree.map(lambda x, s=s: x[s], states) for s in (slice(-1), slice(1, None)))

    def one(k, state, following, u):
        gap = difference(problem.system.space, following, problem.step(k, state, u))
        return gap, problem.step_cost(k, state, u)

    gaps, costs = jax.vmap(one)(jnp.arange(inputs.shape[0]), before, after, inputs)
    last = jax.tree.map(lambda x: x[-1], states)
    return jnp.sum(costs), jnp.concatenate([gaps.reshape(-1), problem.end_values(last)])


def _run(states: lie_jax.State, inputs: Array) -> Run:
    start, last = (jax.tree.map(lambda x, s=s: x[s], states) for s in (slice(-1), -1))
    return Run(inputs, start, last, jnp.zeros(()), _no_inequalities(inputs))


def _no_inequalities(inputs: Array) -> Array:
    return jnp.zeros((inputs.shape[0], 0))


@eqx.filter_jit
def _derivatives(problem: ControlProblem, states: lie_jax.State, inputs: Array):
    run = _run(states, inputs)
    steps = expansion.dynamics(problem, run)
    costs = expansion.costs(problem, run)
    return steps, costs, expansion.ending(problem, run.last).jacobian


@eqx.filter_jit
def _curvature(
    problem: ControlProblem, states: lie_jax.State, inputs: Array, gaps: Array, ends: Array
):
    """Second derivatives of gaps and end values, summed with their multipliers."""
    run = _run(states, inputs)
    last = expansion.ending(problem, run.last, ends).hessian
    return expansion.curvature(problem, run, gaps, _no_inequalities(inputs)), last


@eqx.filter_jit
def _led_to(problem: ControlProblem, inputs: Array) -> lie_jax.State:
    run = follow(problem, problem.state, inputs)
    return jax.tree.map(lambda x, last: jnp.concatenate([x, last[None]]), run.states, run.last)


@eqx.filter_jit
def _moved(problem: ControlProblem, states: lie_jax.State, x: Array) -> lie_jax.State:
    return jax.vmap(lambda state, x: displace(problem.system.space, state, x))(states, x)


def _jacobian(steps, ends: np.ndarray):
    """Sparse; the unknowns are the inputs and the state after each step."""
    count, n, m = steps.b.shape
    rows: list[list[Any]] = [[None] * count for _ in range(count + 1)]
    for k in range(count):
        rows[k][k] = np.hstack([steps.b[k], -np.eye(n)])
        if k:
            rows[k][k - 1] = np.hstack([np.zeros((n, m)), steps.a[k]])
    rows[count][count - 1] = np.hstack([np.zeros((len(ends), m)), ends])
    return sparse.block_array(rows, format="csc")


def _hessian(linear: _Linear, n: int):
    """Sparse, from blocks of (state before, inputs) of each step and one of the last state."""
    count, size = linear.slope.shape
    m = size - n
    full = sparse.lil_array((count * size, count * size))
    for k, block in enumerate(linear.blocks):
        own = slice(k * size, k * size + m)
        full[own, own] = block[n:, n:]
        if k:
            # The state before this step follows the inputs of the step before.
            state = slice((k - 1) * size + m, k * size)
            full[state, state] = block[:n, :n]
            full[own, state], full[state, own] = block[n:, :n], block[:n, n:]
    full[-n:, -n:] = linear.last
    return full.tocsc()


def _linear(
    problem: ControlProblem, at: _Point, multipliers: np.ndarray | None, curved: bool
) -> _Linear:
    inputs = jnp.asarray(at.inputs)
    steps, costs, ends = jax.tree.map(np.asarray, _derivatives(problem, at.states, inputs))
    count, n, m = steps.b.shape
    slope = np.zeros((count, m + n))
    slope[:, :m] = costs.slope[:, n:]
    slope[:-1, m:] = costs.slope[1:, :n]
    blocks, last = costs.hessian, np.zeros((n, n))
    if curved and multipliers is not None:
        gaps = jnp.asarray(multipliers[: count * n].reshape(count, n))
        parts = _curvature(problem, at.states, inputs, gaps, jnp.asarray(multipliers[count * n :]))
        blocks, last = blocks + np.asarray(parts[0]), np.asarray(parts[1])
    return _Linear(_jacobian(steps, ends), slope, costs.hessian, blocks, last)


class _Step(NamedTuple):
    """Changes (steps, nu + n), multipliers, and the damping they were found with."""

    change: np.ndarray
    multipliers: np.ndarray
    damping: float


def _newton(
    linear: _Linear, barriers: tuple[np.ndarray, np.ndarray], rows: np.ndarray, damping: float
) -> _Step:
    """The step with the least damping, from the given one on; of the barriers slope and Hessian."""
    count, size = linear.slope.shape
    push, weight = barriers
    n = size - push.shape[1]
    none = np.zeros((count, n))
    hessian = _hessian(linear, n)
    own = np.abs(np.diagonal(linear.costs, axis1=1, axis2=2)[:, n:])
    damped = np.hstack([own, np.full_like(none, np.max(own))]).ravel()
    right = -np.concatenate([(linear.slope + np.hstack([push, none])).ravel(), rows])
    while True:
        diagonal = np.hstack([weight, none]).ravel() + damping * damped
        top = hessian + sparse.diags_array(diagonal)
        table = [[top, linear.jacobian.T], [linear.jacobian, None]]
        solved = splu(sparse.block_array(table, format="csc")).solve(right)
        change, multipliers = solved[: count * size], solved[count * size :]
        # Convex along the step: what matters of the inertia of the matrix.
        if change @ (top @ change) > 0.0 or damping >= _LARGEST_DAMPING:
            return _Step(change.reshape(count, size), multipliers, damping)
        damping = _more(damping)


def _more(damping: float) -> float:
    return max(_CHANGE * damping, _FIRST_DAMPING)


def _less(damping: float) -> float:
    return damping / _CHANGE if damping > _FIRST_DAMPING else 0.0


def _longest(distance: np.ndarray, change: np.ndarray) -> float:
    """The largest part of a change, up to 1, that keeps distances positive."""
    falling = change < 0.0
    ratio = np.where(falling, -_TO_LIMIT * distance / np.where(falling, change, 1.0), 1.0)
    return float(min(1.0, np.min(ratio)))


def solve(
    problem: ControlProblem,
    inputs: np.ndarray,
    states: lie_jax.State | None = None,
    *,
    curved: bool = False,
    tolerance: float = 1e-6,
    max_iterations: int = 300,
    report: bool = False,
) -> Found:
    """From given inputs and states (steps + 1 of them), or else those that the inputs lead to.

    `curved`: with the curvature of the steps; `report`: print each iteration. Raises `ValueError`
    for inputs without limits.
    """
    n, m = 2 * problem.system.nv, inputs.shape[1]
    lower, upper = (
        np.tile(np.asarray(x), (len(inputs), 1)) for x in (problem.lower, problem.upper)
    )
    if not np.all(np.isfinite(upper - lower)):
        raise ValueError("solve(problem=) has inputs without limits; give finite ones.")

    def at(inputs, states):
        cost, rows = _values(problem, states, jnp.asarray(inputs))
        return _Point(inputs, states, float(cost), np.asarray(rows))

    def merit(point, barrier, price):
        logs = np.sum(np.log(point.inputs - lower)) + np.sum(np.log(upper - point.inputs))
        return float(point.cost - barrier * logs + np.sum(price * np.abs(point.rows)))

    margin = 1e-2 * (upper - lower)
    inputs = np.clip(np.asarray(inputs), lower + margin, upper - margin)
    here = at(inputs, _led_to(problem, jnp.asarray(inputs)) if states is None else states)
    barrier, damping, multipliers, history = _FIRST_BARRIER, 0.0, None, []
    low, high = barrier / (inputs - lower), barrier / (upper - inputs)
    converged = False
    while len(history) <= max_iterations:
        linear = _linear(problem, here, multipliers, curved)
        below, above = here.inputs - lower, upper - here.inputs
        # Before the first step there are no multipliers to judge by.
        if multipliers is not None:
            pull = (linear.jacobian.T @ multipliers).reshape(linear.slope.shape)
            left = linear.slope + pull
            left[:, :m] += high - low
            norm = float(np.max(np.abs(left)) / np.max(np.abs(linear.slope) + np.abs(pull)))
            violation = float(np.max(np.abs(here.rows)))
            share = float(max(np.max(low * below), np.max(high * above))) / max(1.0, abs(here.cost))
            history.append((here.cost, norm, violation))
            if report:
                print(
                    len(history),
                    *(f"{x:.8g}" for x in (*history[-1], barrier, damping)),
                    flush=True,
                )
            if max(norm, violation, share / _SHARE) < tolerance:
                converged = True
                break
            if max(norm, violation, share - barrier) < 10.0 * barrier:
                barrier = max(_LAST_BARRIER, min(_FALL * barrier, barrier**_POWER))
        barriers = barrier / above - barrier / below, low / below + high / above
        change, multipliers, damping = _newton(linear, barriers, here.rows, damping)
        du, dx = change[:, :m], np.concatenate([np.zeros((1, n)), change[:, m:]])
        d_low = barrier / below - low - low / below * du
        d_high = barrier / above - high + high / above * du
        primal = min(_longest(below, du), _longest(above, -du))
        dual = min(_longest(low, d_low), _longest(high, d_high))
        # Multipliers are the least prices at which a step lowers the merit.
        price = np.maximum(2.0 * np.abs(multipliers), 1e-6 * np.max(np.abs(multipliers)))
        now, trial, part = merit(here, barrier, price), here, 0.0
        for part in primal * 0.5 ** np.arange(_HALVINGS):
            trial = at(
                here.inputs + part * du, _moved(problem, here.states, jnp.asarray(part * dx))
            )
            if merit(trial, barrier, price) <= now + 1e-12 * abs(now):
                break
        damping = _more(damping) if part < _SHORT else _less(damping) if part > _LONG else damping
        here, low, high = trial, low + dual * d_low, high + dual * d_high
    cost, norm, violation = history[-1]
    return Found(
        here.inputs, here.states, cost, norm, violation, len(history) - 1, converged,
        np.asarray(history),
    )  # fmt: skip
