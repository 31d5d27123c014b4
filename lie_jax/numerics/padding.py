"""Arrays with more rows than are used: sizes, cutting, and NaN in rows that a run did not reach."""

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from lie_jax.numerics import jax_internals

T = TypeVar("T")

# Below it, more rows cost nothing.
_FEW = 256


def roomy(size: int) -> int:
    """A size at least as large, at most a quarter larger: one of four in each power of two."""
    unit = 2 ** max(0, (size - 1).bit_length() - 3)
    return max(_FEW, -(-size // unit) * unit)


def pad(array: Array | np.ndarray, size: int) -> Array:
    """The array (n, ...) with rows of zeros up to the size, by NumPy: nothing is compiled."""
    missing = size - array.shape[0]
    known = np.asarray(array)
    return jax.device_put(np.pad(known, ((0, missing), *((0, 0),) * (known.ndim - 1))))


def first_rows(rows: T, size: int) -> T:
    """The first rows of a pytree of arrays (n, ...), by NumPy: nothing is compiled."""
    leaves, structure = jax.tree.flatten(rows)
    if all(x.shape[0] == size for x in leaves):
        return rows
    place = leaves[0].sharding if leaves[0].committed else None
    return jax.tree.unflatten(
        structure, jax.device_put([np.asarray(x)[:size] for x in leaves], place)
    )


def take_rows(rows: T, numbers: np.ndarray) -> T:
    """Rows of these numbers of a pytree of arrays (n, ...), by NumPy where JAX traces nothing."""

    def some(x):
        if jax_internals.is_traced(x):
            return x[numbers]
        return jax.device_put(np.asarray(x)[numbers], x.sharding if x.committed else None)

    return jax.tree.map(some, rows)


def concatenate(parts: Sequence[T], size: int, like: Any, shared: int = 0) -> T:
    """Rows of all parts, pytrees of arrays (n, ...), then copies of the last one, by NumPy.

    `size`: number of rows with the copies. `shared`: number of rows at the beginning of each part
    that repeat the last ones of the part before. The result lies where the arrays of `like` do.
    """
    columns = zip(*(jax.tree.leaves(part) for part in parts), strict=True)
    place = next((x.sharding for x in jax.tree.leaves(like) if x.committed), None)

    def column(first, *others):
        rows = [np.asarray(first), *(np.asarray(x)[shared:] for x in others)]
        missing = size - sum(map(len, rows))
        return np.concatenate([*rows, np.repeat(rows[-1][-1:], missing, axis=0)])

    leaves = jax.device_put([column(*arrays) for arrays in columns], place)
    return jax.tree.unflatten(jax.tree.structure(parts[0]), leaves)


def mark_unreached(rows: T, reached: Bool[Array, "*n"]) -> T:
    """Pytree of arrays (n, ...) with NaN in the rows that were not reached; one flag for all.

    Integers and flags stay as they are.
    """
    with jax.debug_nans(False):
        return _mark_unreached(rows, reached)


@eqx.filter_jit
def _mark_unreached(rows, reached):
    def fill(x):
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            return x
        return jnp.where(reached.reshape(-1, *(1,) * (x.ndim - 1)), x, jnp.nan)

    return jax.tree.map(fill, rows)
