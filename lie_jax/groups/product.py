"""Direct products and powers of groups, with the functions that every group has.

`direct_product((rn, 3), (so3, 3))` is the group R³ × SO(3), `power(se3, 6, n)` that of n poses: a
group is given with the dimension of its algebra. Algebra elements are flat arrays, one factor after
the other, and matrices are block-diagonal. Elements are tuples of the factors' elements; those of a
power are stacked along a leading axis.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag


class Group(NamedTuple):
    """The functions of a group, as the modules of the elementary groups have them."""

    compose: Callable
    inverse: Callable
    act: Callable
    lift: Callable
    exp: Callable
    log: Callable
    dexp: Callable
    dexp_inv: Callable
    ddexp: Callable
    ddexp_inv: Callable
    cay: Callable
    cay_inv: Callable
    dcay: Callable
    dcay_inv: Callable
    ddcay: Callable
    ddcay_inv: Callable
    ad: Callable
    Ad: Callable


# What each function takes: an algebra element (x), an element of the group (c) or a thing acted on
# (y). Matrices and algebra elements of the factors are joined, other results kept side by side.
_ARGUMENTS = {
    "compose": "cc", "inverse": "c", "act": "cy", "lift": "cx",
    "exp": "x", "log": "c", "dexp": "x", "dexp_inv": "x", "ddexp": "xx", "ddexp_inv": "xx",
    "cay": "x", "cay_inv": "c", "dcay": "x", "dcay_inv": "x", "ddcay": "xx", "ddcay_inv": "xx",
    "ad": "x", "Ad": "c",
}  # fmt: skip
_VECTORS = {"log", "cay_inv"}
_MATRICES = {
    "dexp", "dexp_inv", "ddexp", "ddexp_inv", "dcay", "dcay_inv", "ddcay", "ddcay_inv", "ad", "Ad",
}  # fmt: skip


def direct_product(*factors: tuple[Any, int]) -> Group:
    """Direct product of groups, each given as (group, dimension of its algebra)."""
    splits = np.cumsum([dimension for _, dimension in factors])[:-1].tolist()

    def function(name: str) -> Callable:
        kinds = _ARGUMENTS[name]

        def combined(*arguments):
            parts = [
                jnp.split(argument, splits) if kind == "x" else argument
                for kind, argument in zip(kinds, arguments, strict=True)
            ]
            results = [
                getattr(group, name)(*part)
                for (group, _), part in zip(factors, zip(*parts, strict=True), strict=True)
            ]
            if name in _MATRICES:
                return block_diag(*results)
            return jnp.concatenate(results) if name in _VECTORS else tuple(results)

        return combined

    return Group(**{name: function(name) for name in Group._fields})


def power(group: Any, dimension: int, n: int) -> Group:
    """The group of n-tuples of elements of a group whose algebra has the given dimension."""

    def function(name: str) -> Callable:
        kinds = _ARGUMENTS[name]

        def combined(*arguments):
            parts = [
                argument.reshape(n, dimension) if kind == "x" else argument
                for kind, argument in zip(kinds, arguments, strict=True)
            ]
            results = jax.vmap(getattr(group, name))(*parts)
            if name in _MATRICES:
                spread = jnp.eye(n, dtype=results.dtype)[:, None, :, None] * results[:, :, None, :]
                return spread.reshape(n * dimension, n * dimension)
            return results.reshape(-1) if name in _VECTORS else results

        return combined

    return Group(**{name: function(name) for name in Group._fields})
