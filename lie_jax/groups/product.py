"""Direct products and powers of groups, with the functions that every group has.

`direct_product((rn, 3), (so3, 3))` is the group R³ × SO(3), `power(se3, 6, n)` that of n poses: a
group comes with the dimension of its algebra. Algebra elements are flat arrays, one factor after
the other, and matrices are block-diagonal. Elements are tuples of the factors' elements; those of a
power are stacked along a leading axis.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag
from jaxtyping import Array

from lie_jax import checks
from lie_jax.numerics import conversion


class Group(NamedTuple):
    """Functions of a group under the names of the modules of the elementary groups."""

    identity: Callable
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


# Arguments of each function: an algebra element (x), an element of the group (c) or a point acted
# on (y). Matrices and algebra elements of the factors are joined; other results stay in a tuple.
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


def _algebra_element(name: str, value: Any, size: int) -> Array:
    array = conversion.as_float(value)
    checks.shape(name, array, (size,), "one after the other, the factors' algebra elements")
    return array


def direct_product(*factors: tuple[Any, int]) -> Group:
    """Direct product of groups: pairs (group, dimension of its algebra).

    Functions raise `ValueError` for an algebra element of another size, or a tuple with another
    number of elements.
    """
    total = sum(dimension for _, dimension in factors)
    splits = np.cumsum([dimension for _, dimension in factors])[:-1].tolist()

    def parts(name: str, letter: str, argument: Any) -> Sequence:
        if letter == "x":
            return jnp.split(_algebra_element(f"{name} of a product", argument, total), splits)
        if len(argument) != len(factors):
            raise ValueError(
                f"{name} of a product got {len(argument)} elements; an element is a tuple with one "
                f"for each of the {len(factors)} factors."
            )
        return argument

    def function(name: str) -> Callable:
        def combined(*arguments):
            typed = zip(_ARGUMENTS[name], arguments, strict=True)
            by_factor = zip(*(parts(name, letter, value) for letter, value in typed), strict=True)
            results = [
                getattr(group, name)(*part)
                for (group, _), part in zip(factors, by_factor, strict=True)
            ]
            if name in _MATRICES:
                return block_diag(*results)
            return jnp.concatenate(results) if name in _VECTORS else tuple(results)

        return combined

    return _group(function, total)


def power(group: Any, dimension: int, n: int) -> Group:
    """The group of n-tuples of elements of a group whose algebra has the given dimension.

    Functions raise `ValueError` for an algebra element of another size, or another number of
    elements along the leading axis.
    """

    def parts(name: str, letter: str, argument: Any) -> Any:
        if letter == "x":
            element = _algebra_element(f"{name} of a power", argument, n * dimension)
            return element.reshape(n, dimension)
        if {leaf.shape[0] for leaf in jax.tree.leaves(argument)} != {n}:
            raise ValueError(
                f"{name} of a power got arrays with shapes "
                f"{[leaf.shape for leaf in jax.tree.leaves(argument)]}; elements are stacked along "
                f"a leading axis of length {n}."
            )
        return argument

    def function(name: str) -> Callable:
        def combined(*arguments):
            typed = zip(_ARGUMENTS[name], arguments, strict=True)
            stacked = [parts(name, letter, value) for letter, value in typed]
            results = jax.vmap(getattr(group, name))(*stacked)
            if name in _MATRICES:
                spread = jnp.eye(n, dtype=results.dtype)[:, None, :, None] * results[:, :, None, :]
                return spread.reshape(n * dimension, n * dimension)
            return results.reshape(-1) if name in _VECTORS else results

        return combined

    return _group(function, n * dimension)


def _group(function: Callable[[str], Callable], dimension: int) -> Group:
    functions = {name: function(name) for name in _ARGUMENTS}

    def identity(dtype=float):
        return functions["exp"](jnp.zeros(dimension, dtype))

    return Group(identity=identity, **functions)
