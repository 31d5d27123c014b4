"""Rows that a run did not reach: NaN on purpose, without a report by JAX_DEBUG_NANS."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

T = TypeVar("T")


def mark_unreached(rows: T, reached: Bool[Array, " n"]) -> T:
    """Pytree of arrays (n, ...) with NaN in the rows that were not reached."""
    with jax.debug_nans(False):
        return _mark_unreached(rows, reached)


@eqx.filter_jit
def _mark_unreached(rows, reached):
    def padded(x):
        return jnp.where(reached.reshape(-1, *(1,) * (x.ndim - 1)), x, jnp.nan)

    return jax.tree.map(padded, rows)
