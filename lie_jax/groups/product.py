"""Direct products and powers of groups, with the functions that every group has.

`direct_product((rn, 3), (so3, 3))` is the group R³ × SO(3), `power(se3, 6, n)` that of n poses: a
group comes with the dimension of its algebra. Algebra elements are flat arrays, one factor after
the other, and matrices are block-diagonal. Elements are tuples of the factors' elements; those of a
power are stacked along a leading axis.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag

from lie_jax import checks
from lie_jax.numerics import conversion

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


class Group(namedtuple("Group", ["identity", *_ARGUMENTS])):
    """Functions of a group under the names of the modules of the elementary groups."""


def direct_product(*factors: tuple[Any, int]) -> Group:
    """Direct product of groups: pairs (group, dimension of its algebra).

    Functions raise `ValueError` for an algebra element of another size, or a tuple with another
    number of elements.
    """
    groups = [group for group, _ in factors]
    ends = np.cumsum([dimension for _, dimension in factors]).tolist()

    def check(function: str, element: Any) -> None:
        if len(element) != len(groups):
            raise ValueError(
                f"{function} of a product got {len(element)} elements; an element is a tuple with "
                f"one for each of the {len(groups)} factors."
            )

    def apply(function: str, arguments: list) -> Any:
        pairs = zip(groups, zip(*arguments, strict=True), strict=True)
        results = [getattr(group, function)(*own) for group, own in pairs]
        if function in _MATRICES:
            return block_diag(*results)
        return jnp.concatenate(results) if function in _VECTORS else tuple(results)

    return _group("product", ends[-1], lambda x: jnp.split(x, ends[:-1]), check, apply)


def power(group: Any, dimension: int, n: int) -> Group:
    """The group of n-tuples of elements of a group whose algebra has the given dimension.

    Functions raise `ValueError` for an algebra element of another size, or another number of
    elements along the leading axis.
    """

    def check(function: str, element: Any) -> None:
        shapes = [leaf.shape for leaf in jax.tree.leaves(element)]
        if {shape[0] for shape in shapes} != {n}:
            raise ValueError(
                f"{function} of a power got arrays with shapes {shapes}; elements are stacked "
                f"along a leading axis of length {n}."
            )

    def apply(function: str, arguments: list) -> Any:
        results = jax.vmap(getattr(group, function))(*arguments)
        if function in _MATRICES:
            spread = jnp.eye(n, dtype=results.dtype)[:, None, :, None] * results[:, :, None, :]
            return spread.reshape(n * dimension, n * dimension)
        return results.reshape(-1) if function in _VECTORS else results

    return _group("power", n * dimension, lambda x: x.reshape(n, dimension), check, apply)


def _group(kind: str, dimension: int, split: Callable, check: Callable, apply: Callable) -> Group:
    # `split` takes algebra elements apart; `apply` joins results of the factors.
    def function(name: str) -> Callable:
        def combined(*arguments):
            parts = []
            for letter, argument in zip(_ARGUMENTS[name], arguments, strict=True):
                if letter == "x":
                    element = conversion.as_float(argument)
                    meaning = "one after the other, the factors' algebra elements"
                    checks.shape(f"{name} of a {kind}", element, (dimension,), meaning)
                    parts.append(split(element))
                else:
                    check(name, argument)
                    parts.append(argument)
            return apply(name, parts)

        return combined

    functions = {name: function(name) for name in _ARGUMENTS}
    return Group(lambda dtype=float: functions["exp"](jnp.zeros(dimension, dtype)), **functions)
