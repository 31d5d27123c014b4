"""Decompositions by LAPACK, which a batch on a CPU computes one member after another.

Before version 0.11.2 JAX hands the members of a batch to the threads that run the program, and
waits for them in one of these threads. Where a program has as many such batches at a time as
threads, which is two on two cores, all of them wait for each other and the program never ends.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Inexact

from lie_jax.numerics import rules


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays, with one or several results, whose batches a CPU computes one member
    after another.

    Not to be differentiated.
    """
    single = jax.custom_batching.custom_vmap(function)

    @single.def_vmap
    def batch(size: int, batched: list[bool], *args: Array) -> tuple[Any, Any]:
        args = tuple(
            x if has else jnp.broadcast_to(x, (size, *x.shape))
            for x, has in zip(args, batched, strict=True)
        )

        def in_turn(*args: Array) -> Any:
            return jax.lax.map(lambda member: single(*member), args)

        results = jax.lax.platform_dependent(*args, cpu=in_turn, default=jax.vmap(function))
        return results, jax.tree.map(lambda _: True, results)

    return single


@one_by_one
def solve(a: Inexact[Array, "n n"], b: Inexact[Array, "n m"]) -> Inexact[Array, "n m"]:
    """Solution of a x = b; not to be differentiated."""
    return jnp.linalg.solve(a, b)


@one_by_one
def smallest_singular_value(a: Float[Array, "m n"]) -> Float[Array, ""]:
    """The smallest singular value of a matrix; not to be differentiated."""
    return jnp.linalg.svd(a, compute_uv=False)[-1]


@one_by_one
def singular_values(
    a: Float[Array, "n n"],
) -> tuple[Float[Array, "n n"], Float[Array, " n"], Float[Array, "n n"]]:
    """Left vectors as columns, singular values and right vectors as rows; not to be
    differentiated.
    """
    left, values, right = jnp.linalg.svd(a)
    return left, values, right


@one_by_one
def orthogonal(a: Float[Array, "m n"]) -> Float[Array, "m m"]:
    """Orthogonal matrix whose first n columns span those of a; not to be differentiated."""
    return jnp.linalg.qr(a, mode="complete")[0]


@one_by_one
def symmetric_eigen(a: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Eigenvalues, ascending, and vectors of a symmetric matrix; not to be differentiated."""
    values, vectors = jnp.linalg.eigh(a)
    return values, vectors


@one_by_one
def eigen(a: Float[Array, "n n"]) -> tuple[Complex[Array, " n"], Complex[Array, "n n"]]:
    """Eigenvalues and vectors of a matrix, on a CPU; not to be differentiated."""
    values, vectors = jnp.linalg.eig(a)
    return values, vectors


def pseudoinverse(a: Float[Array, "m n"], rtol: float, atol: float = 0.0) -> Float[Array, "n m"]:
    """Pseudoinverse; singular values below `rtol`, relative to the largest, or below `atol` are
    zero.

    Differentiable to any order along changes that keep the rank.
    """

    def invert(a: Array) -> Array:
        if not atol:
            return jnp.linalg.pinv(a, rtol=rtol)
        left, values, right = jnp.linalg.svd(a, full_matrices=False)
        there = values > jnp.maximum(rtol * jnp.max(values, initial=0.0), atol)
        inverses = jnp.where(there, 1.0 / jnp.where(there, values, 1.0), 0.0)
        return (right.T * inverses[None]) @ left.T

    inverse = one_by_one(invert)(rules.stop_gradient(a))
    return rules.value_with_rule(inverse, _change_of_inverse, a)


def _change_of_inverse(p: Array, a: Array, change: Array) -> Array:
    # P and A as P A P = P and A P, P A symmetric.
    m, n = a.shape
    left = jnp.eye(m, dtype=a.dtype) - a @ p
    right = jnp.eye(n, dtype=a.dtype) - p @ a
    return -p @ change @ p + p @ p.T @ change.T @ left + right @ change.T @ p.T @ p
