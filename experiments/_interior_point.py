"""Direct multiple shooting with a node at every step: an interior-point method on all unknowns.

States and inputs of all steps are unknown, equations of motion are equality constraints that hold
only in the end, and limits are kept by logarithmic barriers. Steps come from the sparse linear
equations of all unknowns at once, with the Hessian of the cost alone (Gauss-Newton) or with the
curvature of the steps too. Nothing of it is in iLQR but the derivatives of single steps.
Source: Wächter and Biegler, Math. Program. 106 (2006), for the treatment of the barriers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

import lie_jax
from lie_jax.control import expansion
from lie_jax.control.problem import Problem, Run, difference, follow, moved

# A point never takes more than this part of the way to a limit.
_TO_LIMIT = 0.995
_FIRST_BARRIER, _FALL, _POWER = 1e-2, 0.2, 1.5
_HALVINGS = 25
_BETTER = 1e-4
# Of the cost's own curvature along the inputs, until the problem is convex along a step.
_DAMPINGS = (0.0, *(1e-3 * 10.0 ** np.arange(8)))


class Found(NamedTuple):
    """Inputs (steps, nu), states before and after all steps, cost, largest entry of the gradient of the Lagrangian relative to its
    terms, largest gap or end value, iterations, whether it converged, and the history of both.
    """

    inputs: np.ndarray
    states: lie_jax.State
    cost: float
    gradient_norm: float
    violation: float
    iterations: int
    converged: bool
    history: np.ndarray


@eqx.filter_jit
def _values(problem: Problem, states: lie_jax.State, inputs):
    """Cost, gaps (steps, n) and end values."""
    before, after = (jax.tree.map(lambda x, s=s: x[s], states) for s in (slice(-1), slice(1, None)))

    def one(k, state, following, u):
        gap = difference(problem.system.space, following, problem.step(k, state, u))
        return gap, problem.step_cost(k, state, u)

    gaps, costs = jax.vmap(one)(jnp.arange(inputs.shape[0]), before, after, inputs)
    last = jax.tree.map(lambda x: x[-1], states)
    return jnp.sum(costs), gaps, problem.end_values(last)


def _run(states: lie_jax.State) -> Run:
    start, last = (jax.tree.map(lambda x, s=s: x[s], states) for s in (slice(-1), -1))
    return Run(start, last, jnp.zeros(()))


@eqx.filter_jit
def _linear(problem: Problem, states: lie_jax.State, inputs):
    """Jacobians of steps, slopes and Hessians of costs, Jacobian of the end values."""
    run = _run(states)
    steps = expansion.dynamics(problem, run, inputs)
    costs = expansion.costs(problem, run, inputs)
    return steps, costs, expansion.ending(problem, run.last).jacobian


@eqx.filter_jit
def _led_to(problem: Problem, inputs) -> lie_jax.State:
    run = follow(problem, problem.state, inputs)
    return jax.tree.map(lambda x, last: jnp.concatenate([x, last[None]]), run.states, run.last)


@eqx.filter_jit
def _curvature(problem: Problem, states: lie_jax.State, inputs, multipliers, of_ends):
    run = _run(states)
    last = expansion.ending(problem, run.last, of_ends).hessian
    return expansion.curvature(problem, run, inputs, multipliers), last


@eqx.filter_jit
def _moved(problem: Problem, states: lie_jax.State, x):
    return jax.vmap(lambda s, x: moved(problem.system.space, s, x))(states, x)


def _constraints(steps, ends, n: int, m: int):
    """Jacobian of all gaps and end values; unknowns: inputs and following state of each step."""
    count = len(steps.a)
    rows: list[list[Any]] = [[None] * count for _ in range(count + 1)]
    for k in range(count):
        rows[k][k] = np.hstack([steps.b[k], -np.eye(n)])
        if k:
            rows[k][k - 1] = np.hstack([np.zeros((n, m)), steps.a[k]])
    rows[count][count - 1] = np.hstack([np.zeros((len(ends), m)), ends])
    return sparse.block_array(rows, format="csc")


def _hessian(blocks: np.ndarray, last: np.ndarray, n: int, m: int):
    """Of the Lagrangian, from the blocks of (state before, inputs) of each step."""
    count, size = len(blocks), n + m
    full = sparse.lil_array((count * size, count * size))
    for k, block in enumerate(blocks):
        own = slice(k * size, k * size + m)
        full[own, own] = block[n:, n:]
        if k:
            # The state before this step follows the inputs of the step before.
            state = slice((k - 1) * size + m, k * size)
            full[state, state] = block[:n, :n]
            full[own, state], full[state, own] = block[n:, :n], block[:n, n:]
    full[-n:, -n:] = last
    return full.tocsc()


def solve(
    problem: Problem,
    inputs: np.ndarray,
    states: lie_jax.State | None = None,
    *,
    curved: bool = False,
    tolerance: float = 1e-6,
    max_iterations: int = 300,
    progress: Callable | None = None,
) -> Found:
    """From given inputs and states (steps + 1 of them), or else those that the inputs lead to.

    `curved`: with the curvature of the steps.
    Raises `ValueError` without finite limits.
    """
    n, m = 2 * problem.system.nv, inputs.shape[1]
    count, size = len(inputs), n + m
    lower, upper = (np.tile(np.asarray(x), (count, 1)) for x in (problem.lower, problem.upper))
    if not np.all(np.isfinite(upper - lower)):
        raise ValueError("solve(problem=) has no limits on some inputs; give finite ones.")
    width = upper - lower
    inputs = np.clip(np.asarray(inputs), lower + 1e-2 * width, upper - 1e-2 * width)
    states = _led_to(problem, jnp.asarray(inputs)) if states is None else states
    barrier = _FIRST_BARRIER
    low, high = barrier / (inputs - lower), barrier / (upper - inputs)
    multipliers, history, part, damping, filter, most = None, [], 1.0, 0.0, [], 1.0

    def evaluate(states, inputs):
        cost, gaps, ends = _values(problem, states, jnp.asarray(inputs))
        return float(cost), np.concatenate([np.ravel(gaps), np.ravel(ends)])

    cost, rows = evaluate(states, inputs)
    converged, norm, violation = False, np.inf, np.inf
    for _ in range(max_iterations):
        linear = _linear(problem, states, jnp.asarray(inputs))
        steps, costs, ends = jax.tree.map(np.asarray, linear)
        jacobian = _constraints(steps, ends, n, m)
        slope = np.zeros((count, size))
        slope[:, :m] = costs.slope[:, n:]
        slope[:-1, m:] = costs.slope[1:, :n]
        blocks, last_block = costs.hessian, np.zeros((n, n))
        if multipliers is not None:
            pull = (jacobian.T @ multipliers).reshape(count, size)
            left, parts = slope + pull, np.abs(slope) + np.abs(pull)
            # What a limit holds back is no part of it.
            held = left.copy()
            held[:, :m] += high - low
            norm = float(np.max(np.abs(held)) / np.max(parts))
            violation = float(np.max(np.abs(rows)))
            gap = max(np.max(low * (inputs - lower)), np.max(high * (upper - inputs)))
            history.append((cost, norm, violation))
            if progress is not None:
                progress(len(history), cost, norm, violation, barrier, part, damping)
            if norm < tolerance and violation < tolerance and gap < 1e-3 * tolerance * abs(cost):
                converged = True
                break
            error = max(norm, violation, abs(gap - barrier) / max(1.0, abs(cost)))
            if error < 10.0 * barrier:
                barrier = max(1e-11, min(_FALL * barrier, barrier**_POWER))
                filter = []
            if curved:
                gaps = jnp.asarray(multipliers[: count * n].reshape(count, n))
                of_ends = jnp.asarray(multipliers[count * n :])
                each, last = _curvature(problem, states, jnp.asarray(inputs), gaps, of_ends)
                blocks, last_block = blocks + np.asarray(each), np.asarray(last)
        hessian = _hessian(blocks, last_block, n, m)
        weight = np.zeros((count, size))
        weight[:, :m] = low / (inputs - lower) + high / (upper - inputs)
        push = np.zeros((count, size))
        push[:, :m] = -barrier / (inputs - lower) + barrier / (upper - inputs)
        first = hessian + sparse.diags_array(weight.ravel())
        right = -np.concatenate([(slope + push).ravel(), rows])
        own = np.zeros((count, size))
        own[:, :m] = np.abs(np.diagonal(costs.hessian, axis1=1, axis2=2)[:, n:])
        for damping in _DAMPINGS:
            top = first + damping * sparse.diags_array(own.ravel())
            matrix = sparse.block_array([[top, jacobian.T], [jacobian, None]], format="csc")
            found = splu(matrix).solve(right)
            along = found[: count * size]
            # Convex along the step: what matters of the inertia of the matrix.
            if along @ (top @ along) > 0.0:
                break
        change, new = along.reshape(count, size), found[count * size :]
        du, dx = change[:, :m], np.concatenate([np.zeros((1, n)), change[:, m:]])
        d_low = barrier / (inputs - lower) - low - low / (inputs - lower) * du
        d_high = barrier / (upper - inputs) - high + high / (upper - inputs) * du
        primal = min(_longest(inputs - lower, du), _longest(upper - inputs, -du))
        dual = min(_longest(low, d_low), _longest(high, d_high))

        def judged(cost, rows, u, barrier=barrier):
            logs = np.sum(np.log(u - lower)) + np.sum(np.log(upper - u))
            return float(np.sum(np.abs(rows))), float(cost - barrier * logs)

        here = judged(cost, rows, inputs)
        most = max(most, 10.0 * here[0]) if not filter and not history else most
        for halving in range(_HALVINGS):
            part = primal * 0.5**halving
            trial = _moved(problem, states, jnp.asarray(part * dx)), inputs + part * du
            values = evaluate(*trial)
            now = judged(*values, trial[1])
            slack = 1e-12 * abs(here[1])
            if now[0] <= most and all(now[0] <= (1 - _BETTER) * f[0] or now[1] <= f[1] - _BETTER * f[0] + slack for f in (*filter, here)):
                break
        filter.append(here)
        (states, inputs), (cost, rows) = trial, values
        low, high = low + dual * d_low, high + dual * d_high
        multipliers = new
    table = np.asarray(history)
    return Found(inputs, states, cost, norm, violation, len(history) - 1, converged, table)


def _longest(distance: np.ndarray, change: np.ndarray) -> float:
    """The largest part of a change, up to 1, that keeps distances positive."""
    ratio = np.where(change < 0.0, -_TO_LIMIT * distance / np.where(change < 0.0, change, 1.0), 1.0)
    return float(min(1.0, np.min(ratio)))
