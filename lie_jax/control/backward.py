"""The best change of the inputs of a linear-quadratic problem with limits, by a backward pass."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax.control.expansion import Dynamics, Quadratic
from lie_jax.control.problem import Inputs
from lie_jax.numerics.small import matvec

# Bounds of the damping, the second for the search as a whole.
FIRST_DAMPING, LARGEST_DAMPING = 1e-6, 1e10
# Factor between one damping and the next.
CHANGE = 10.0
# Projected Newton steps of a problem between bounds, and trials of each step.
_ITERATIONS, _TRIALS = 40, 12


class Policy(NamedTuple):
    """Changes of the inputs: change + gains @ (local coordinates of the state).

    `slope` () and `curvature` (): the cost that is expected for α times the change is
    slope α + curvature α²/2; `convex`: whether the problem was convex in the inputs.
    """

    change: Inputs
    gains: Float[Array, "steps nu n"]
    slope: Float[Array, ""]
    curvature: Float[Array, ""]
    convex: Bool[Array, ""]


def solve(
    steps: Dynamics,
    costs: Quadratic,
    last: tuple[Float[Array, " n"], Float[Array, "n n"]],
    bounds: tuple[Inputs, Inputs],
    damping: Float[Array, ""],
) -> Policy:
    """Policy by the backward pass; `bounds` are those of the changes.

    `damping` adds that part of the diagonal to the Hessian in the inputs. Inputs that stand at a
    bound have no feedback. Source: Tassa et al., see `lie_jax.control.ilqr`.
    """
    n = last[0].shape[0]

    # The carry is the value function, the least cost from a step on: its gradient and Hessian in
    # the local coordinates of the state before that step. A step's own cost and the value pulled
    # back through its dynamics are minimised over the inputs; the minimum is the value before it.
    # Last to first: the value after a step must be known.
    def back(carry, step):
        vx, vxx, slope, curvature, convex = carry
        a, b, z, zz, lower, upper = step
        qx, qu = z[:n] + matvec(a.T, vx), z[n:] + matvec(b.T, vx)
        va, vb = vxx @ a, vxx @ b
        qxx, qux, quu = zz[:n, :n] + a.T @ va, zz[n:, :n] + b.T @ va, zz[n:, n:] + b.T @ vb
        damped = quu + damping * jnp.diag(jnp.abs(jnp.diagonal(quu)))
        k, free, is_convex = _minimize(damped, qu, lower, upper)
        gain = _solve_definite(_restrict(damped, free), jnp.where(free[:, None], -qux, 0.0))[0]
        vx = qx + matvec(gain.T, matvec(quu, k) + qu) + matvec(qux.T, k)
        vxx = qxx + gain.T @ quu @ gain + gain.T @ qux + qux.T @ gain
        carry = (
            vx,
            0.5 * (vxx + vxx.T),
            slope + jnp.sum(k * qu),
            curvature + jnp.sum(k * matvec(quu, k)),
            convex & is_convex,
        )
        return carry, (k, gain)

    zero = jnp.zeros((), last[0].dtype)
    (_, _, slope, curvature, convex), (change, gains) = jax.lax.scan(
        back, (*last, zero, zero, jnp.array(True)), (*steps, *costs, *bounds), reverse=True
    )
    return Policy(change, gains, slope, curvature, convex)


def solve_convex(
    steps: Dynamics,
    costs: Quadratic,
    last: tuple[Array, Array],
    curvature: tuple[Float[Array, "steps z z"], Float[Array, "n n"]] | None,
    bounds: tuple[Array, Array],
    damping: Float[Array, ""],
) -> tuple[Policy, Float[Array, ""]]:
    """Policy of a convex problem, and its damping.

    With `curvature`, second derivatives of the steps and end values weighted by what they cost, and
    the given damping if that is convex; else without, and with the least damping that is needed.
    """

    def attempt_with(share, damping):
        if curvature is None:
            return solve(steps, costs, last, bounds, damping)
        curved = costs._replace(hessian=costs.hessian + share * curvature[0])
        return solve(steps, curved, (last[0], last[1] + share * curvature[1]), bounds, damping)

    one = jnp.ones_like(damping) if curvature is not None else jnp.zeros_like(damping)
    shapes = jax.eval_shape(lambda: attempt_with(one, damping))
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    # The first attempt is made in the loop too: it would be compiled twice otherwise.
    def attempt(carry):
        _, _, share, trial = carry
        following = jnp.where(share > 0.0, trial, jnp.maximum(CHANGE * trial, FIRST_DAMPING))
        return attempt_with(share, trial), trial, jnp.zeros_like(share), following

    policy, used, _, _ = jax.lax.while_loop(
        lambda carry: ~carry[0].convex & (carry[3] <= CHANGE * LARGEST_DAMPING),
        attempt,
        (empty, damping, one, damping),
    )
    return policy, used


def _solve_definite(
    a: Float[Array, "n n"], b: Float[Array, "n m"]
) -> tuple[Float[Array, "n m"], Bool[Array, ""]]:
    """Solution of a x = b by elimination without pivoting; whether a is positive definite."""
    n = a.shape[0]

    def column(k, carry):
        table, smallest = carry
        row = jax.lax.dynamic_index_in_dim(table, k, keepdims=False)
        pivot = jax.lax.dynamic_index_in_dim(row, k, keepdims=False)
        row = row / pivot
        factors = jax.lax.dynamic_index_in_dim(table, k, axis=1, keepdims=False)
        is_pivot = (jnp.arange(n) == k)[:, None]
        table = jnp.where(is_pivot, row[None, :], table - factors[:, None] * row[None, :])
        return table, jnp.minimum(smallest, pivot)

    start = jnp.concatenate([a, b], axis=1), jnp.asarray(jnp.inf, a.dtype)
    table, smallest = jax.lax.fori_loop(0, n, column, start)
    # NaN, from a pivot of zero, compares as false.
    return table[:, n:], smallest > 0.0


def _minimize(
    hessian: Float[Array, "n n"],
    slope: Float[Array, " n"],
    lower: Float[Array, " n"],
    upper: Float[Array, " n"],
) -> tuple[Float[Array, " n"], Bool[Array, " n"], Bool[Array, ""]]:
    """Minimise ½ xᵀ H x + gᵀ x with lower <= x <= upper, by projected Newton steps.

    Returns x, its entries between their bounds, and whether their Hessian is positive definite.
    Source: Bertsekas, Projected Newton methods, SIAM J. Control Optim. 20 (1982); Tassa et
    al., see `lie_jax.control.ilqr`.
    """
    eps = jnp.finfo(slope.dtype).eps
    shrink = jnp.asarray(0.5 ** np.arange(_TRIALS), slope.dtype)

    def cost(x):
        return jnp.sum(x * (0.5 * matvec(hessian, x) + slope))

    def advance(carry):
        x, _, _, _, count = carry
        gradient = matvec(hessian, x) + slope
        free = ~((x <= lower) & (gradient > 0.0) | (x >= upper) & (gradient < 0.0))
        free_gradient = jnp.where(free, gradient, 0.0)
        # Rounding of the gradient's two parts.
        size = jnp.abs(slope) + matvec(jnp.abs(hessian), jnp.abs(x))
        finished = jnp.all(jnp.abs(free_gradient) <= 64.0 * eps * size)
        newton, definite = _solve_definite(_restrict(hessian, free), -free_gradient[:, None])
        trials = jnp.clip(x[None] + shrink[:, None] * newton.T, lower[None], upper[None])
        best = trials[jnp.argmin(jax.vmap(cost)(trials))]
        better = definite & ~finished & (cost(best) < cost(x))
        return jnp.where(better, best, x), free, definite, ~better, count + 1

    zero = jnp.clip(jnp.zeros_like(slope), lower, upper)
    start = zero, jnp.ones(slope.shape, bool), jnp.array(True), jnp.array(False), jnp.array(0)
    return jax.lax.while_loop(lambda carry: ~carry[3] & (carry[4] < _ITERATIONS), advance, start)[
        :3
    ]


def _restrict(hessian: Float[Array, "n n"], free: Bool[Array, " n"]) -> Float[Array, "n n"]:
    """Hessian with the rows and columns of entries that are not free replaced by identity's."""
    return jnp.where(
        free[:, None] & free[None, :], hessian, jnp.eye(hessian.shape[0], dtype=hessian.dtype)
    )
