"""The backward pass: the best change of the inputs of a linear-quadratic problem with limits."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.control import box
from lie_jax.control.expansion import Dynamics, Quadratic
from lie_jax.numerics.small import matvec


class Policy(NamedTuple):
    """Changes of the inputs: change + gains @ (local coordinates of the state).

    `slope` () and `curvature` (): the cost that is expected for α times the change is
    slope α + curvature α²/2; `found`: whether the problem was convex in the inputs.
    """

    change: Float[Array, "steps nu"]
    gains: Float[Array, "steps nu n"]
    slope: Float[Array, ""]
    curvature: Float[Array, ""]
    found: Bool[Array, ""]


def solve(
    steps: Dynamics,
    costs: Quadratic,
    last: tuple[Float[Array, " n"], Float[Array, "n n"]],
    bounds: tuple[Float[Array, "steps nu"], Float[Array, "steps nu"]],
    damping: Float[Array, ""],
) -> Policy:
    """Solve from the last step to the first; `bounds` are those of the changes.

    `damping` adds that part of the diagonal to the Hessian in the inputs. Inputs that stand at a
    bound have no feedback. Source: Tassa, Mansard and Todorov, ICRA 2014.
    """
    n = last[0].shape[0]

    def back(carry, each):
        vx, vxx, slope, curvature, found = carry
        a, b, z, zz, lower, upper = each
        qx, qu = z[:n] + matvec(a.T, vx), z[n:] + matvec(b.T, vx)
        va, vb = vxx @ a, vxx @ b
        qxx, qux, quu = zz[:n, :n] + a.T @ va, zz[n:, :n] + b.T @ va, zz[n:, n:] + b.T @ vb
        size = jnp.abs(jnp.diagonal(quu))
        damped = quu + damping * jnp.diag(size)
        best = box.minimize(damped, qu, lower, upper)
        k = best.x
        right = jnp.where(best.free[:, None], -qux, 0.0)
        gain = box.solve_definite(box.restricted(damped, best.free), right).solution
        vx = qx + matvec(gain.T, matvec(quu, k) + qu) + matvec(qux.T, k)
        vxx = qxx + gain.T @ quu @ gain + gain.T @ qux + qux.T @ gain
        out = (
            vx,
            0.5 * (vxx + vxx.T),
            slope + jnp.sum(k * qu),
            curvature + jnp.sum(k * matvec(quu, k)),
            found & best.found,
        )
        return out, (k, gain)

    none = jnp.zeros((), last[0].dtype)
    start = (*last, none, none, jnp.array(True))
    (_, _, slope, curvature, found), (change, gains) = jax.lax.scan(
        back, start, (*steps, *costs, *bounds), reverse=True
    )
    return Policy(change, gains, slope, curvature, found)
