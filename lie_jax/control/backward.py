"""The best change of the inputs of a linear-quadratic problem with limits, by a backward pass."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.control import box
from lie_jax.control.expansion import Dynamics, Quadratic
from lie_jax.control.problem import Inputs
from lie_jax.numerics.small import matvec

# Bounds of the damping, the second for the search as a whole.
FIRST_DAMPING, LARGEST_DAMPING = 1e-6, 1e10
# Factor between one damping and the next.
CHANGE = 10.0


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


class Curvature(NamedTuple):
    """Second derivatives of the steps and of the end values, weighted by what they cost."""

    steps: Float[Array, "steps z z"]
    end: Float[Array, "n n"]


def solve(
    steps: Dynamics,
    costs: Quadratic,
    last: tuple[Float[Array, " n"], Float[Array, "n n"]],
    bounds: tuple[Inputs, Inputs],
    damping: Float[Array, ""],
) -> Policy:
    """Policy by the backward pass; `bounds` are those of the changes.

    `damping` adds that part of the diagonal to the Hessian in the inputs. Inputs that stand at a
    bound have no feedback. Source: Tassa, Mansard and Todorov, ICRA 2014.
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
        size = jnp.abs(jnp.diagonal(quu))
        damped = quu + damping * jnp.diag(size)
        minimum = box.minimize(damped, qu, lower, upper)
        k = minimum.x
        right = jnp.where(minimum.free[:, None], -qux, 0.0)
        gain = box.solve_definite(box.restricted(damped, minimum.free), right).solution
        vx = qx + matvec(gain.T, matvec(quu, k) + qu) + matvec(qux.T, k)
        vxx = qxx + gain.T @ quu @ gain + gain.T @ qux + qux.T @ gain
        carry = (
            vx,
            0.5 * (vxx + vxx.T),
            slope + jnp.sum(k * qu),
            curvature + jnp.sum(k * matvec(quu, k)),
            convex & minimum.convex,
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
    curvature: Curvature | None,
    bounds: tuple[Array, Array],
    damping: Float[Array, ""],
) -> tuple[Policy, Float[Array, ""]]:
    """Policy of a convex problem, and its damping.

    With the curvature and the given damping if these make the problem convex; else without the
    curvature, and with the least damping from the given one on that does.
    """

    def attempt_with(share, damping):
        if curvature is None:
            return solve(steps, costs, last, bounds, damping)
        curved = costs._replace(hessian=costs.hessian + share * curvature.steps)
        end = last[0], last[1] + share * curvature.end
        return solve(steps, curved, end, bounds, damping)

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
