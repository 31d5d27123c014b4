"""Newton's method with derivatives by the implicit function theorem."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax import linear

MAX_ITERATIONS = 25


class Root(NamedTuple):
    """Solution y (n,), number of iterations (linear solves), whether the last one converged, and
    the largest entry of the residual that it started from.
    """

    y: Float[Array, " n"]
    iterations: Int[Array, ""]
    converged: Bool[Array, ""]
    residual: Float[Array, ""]


@eqx.filter_custom_jvp
def root(
    residual: Callable, linearize: Callable, converged: Callable, guess: Array, args: Any
) -> Root:
    """Solve residual(y, args) = 0 for y by full Newton steps, at most 25.

    **Arguments:**

    - `residual(y, args)`: (n,).
    - `linearize(y, args)`: the residual (n,) and its exact Jacobian with respect to y (n, n).
    - `converged(correction, y, args)`: whether the correction (n,) that led to y was small enough.
    - `guess`: (n,), where to start. At least one iteration is made.
    - `args`: any pytree. Derivatives with respect to its arrays are those of the solution, exact to
      any order, whatever the number of iterations; nothing depends on `guess`.

    An iteration whose correction is not finite ends the search as not converged.
    """

    def proceed(carry):
        root, finite = carry
        return ~root.converged & (root.iterations < MAX_ITERATIONS) & finite

    def iterate(carry):
        root, _ = carry
        value, jacobian = linearize(root.y, args)
        correction = -linear.solve(jacobian, value)
        y = root.y + correction
        finite = jnp.isfinite(jnp.sum(correction))
        done = converged(correction, y, args) & finite
        return Root(y, root.iterations + 1, done, jnp.max(jnp.abs(value))), finite

    start = Root(
        guess, jnp.zeros((), jnp.int32), jnp.zeros((), bool), jnp.full((), jnp.inf, guess.dtype)
    )
    return jax.lax.while_loop(proceed, iterate, (start, jnp.ones((), bool)))[0]


@root.def_jvp
def _root_jvp(primals, tangents):
    residual, linearize, converged, guess, args = primals
    args_tangent = tangents[4]
    solution = root(residual, linearize, converged, guess, args)
    if not jax.tree.leaves(args_tangent):
        return solution, Root(None, None, None, None)  # pyright: ignore[reportArgumentType]
    _, jacobian = linearize(solution.y, args)
    _, change = eqx.filter_jvp(lambda a: residual(solution.y, a), (args,), (args_tangent,))
    tangent = -linear.solve(jacobian, change)
    return solution, Root(tangent, None, None, None)  # pyright: ignore[reportArgumentType]
