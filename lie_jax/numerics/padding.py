"""Arrays with more rows than are used: sizes, cutting, and NaN in rows that a run did not reach."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

T = TypeVar("T")

# Below it, more rows cost nothing.
_FEW = 256


def roomy(size: int) -> int:
    """A size at least as large, at most a quarter larger: one of four in each power of two."""
    unit = 2 ** max(0, (size - 1).bit_length() - 3)
    return max(_FEW, -(-size // unit) * unit)


def lengthened(array: Array, size: int) -> Array:
    """The array (n, ...) with rows of zeros up to the size, by NumPy: nothing is compiled."""
    missing = size - array.shape[0]
    known = np.asarray(array)
    return jax.device_put(np.pad(known, ((0, missing), *((0, 0),) * (known.ndim - 1))))


def shortened(rows: T, size: int) -> T:
    """The first rows of a pytree of arrays (n, ...), by NumPy: nothing is compiled."""
    leaves, structure = jax.tree.flatten(rows)
    if all(x.shape[0] == size for x in leaves):
        return rows
    place = leaves[0].sharding if leaves[0].committed else None
    return jax.tree.unflatten(
        structure, jax.device_put([np.asarray(x)[:size] for x in leaves], place)
    )


def mark_unreached(rows: T, reached: Bool[Array, "*n"]) -> T:
    """Pytree of arrays (n, ...) with NaN in the rows that were not reached; one flag for all."""
    with jax.debug_nans(False):
        return _mark_unreached(rows, reached)


@eqx.filter_jit
def _mark_unreached(rows, reached):
    def padded(x):
        return jnp.where(reached.reshape(-1, *(1,) * (x.ndim - 1)), x, jnp.nan)

    return jax.tree.map(padded, rows)
