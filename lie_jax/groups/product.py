"""Direct products and powers of groups, with the functions that every group has.

`direct_product((rn, 3), (so3, 3))` is R³ × SO(3), `power(se3, 6, n)` the group of n poses: groups
come with the dimension of their algebra. Algebra elements are flat arrays, matrices block-diagonal.
Elements are tuples of the factors' elements, those of a power stacked along a leading axis.
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

# Arguments and, last, result of each function: algebra elements (x), elements of the group (c),
# points acted on (y), matrices (m). Results x and m of the factors are joined.
_TYPES = {
    "compose": "ccc", "inverse": "cc", "act": "cyy", "lift": "cxc",
    "exp": "xc", "log": "cx", "dexp": "xm", "dexp_inv": "xm", "ddexp": "xxm", "ddexp_inv": "xxm",
    "cay": "xc", "cay_inv": "cx", "dcay": "xm", "dcay_inv": "xm", "ddcay": "xxm",
    "ddcay_inv": "xxm", "ad": "xm", "Ad": "cm",
}  # fmt: skip


class Group(namedtuple("Group", ["identity", *_TYPES])):
    """Functions of a group under the names of the modules of the elementary groups."""


def direct_product(*factors: tuple[Any, int]) -> Group:
    """Direct product of groups: pairs (group, dimension of its algebra).

    Functions raise `ValueError` for algebra elements and tuples of another size.
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
        join = {"m": lambda parts: block_diag(*parts), "x": jnp.concatenate}
        return join.get(_TYPES[function][-1], tuple)(results)

    return _group("product", ends[-1], lambda x: jnp.split(x, ends[:-1]), check, apply)


def power(group: Any, dimension: int, n: int) -> Group:
    """The group of n-tuples of elements of a group whose algebra has the given dimension.

    Functions raise `ValueError` for algebra elements and leading axes of another size.
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
        if _TYPES[function][-1] == "m":
            spread = jnp.eye(n, dtype=results.dtype)[:, None, :, None] * results[:, :, None, :]
            return spread.reshape(n * dimension, n * dimension)
        return results.reshape(-1) if _TYPES[function][-1] == "x" else results

    return _group("power", n * dimension, lambda x: x.reshape(n, dimension), check, apply)


def _group(kind: str, dimension: int, split: Callable, check: Callable, apply: Callable) -> Group:
    # `split` takes algebra elements apart; `apply` joins results of the factors.
    def function(name: str) -> Callable:
        def combine(*arguments):
            parts = []
            for letter, argument in zip(_TYPES[name][:-1], arguments, strict=True):
                if letter == "x":
                    element = conversion.as_float(argument)
                    meaning = "one after the other, the factors' algebra elements"
                    checks.shape(f"{name} of a {kind}", element, (dimension,), meaning)
                    parts.append(split(element))
                else:
                    check(name, argument)
                    parts.append(argument)
            return apply(name, parts)

        return combine

    functions = {name: function(name) for name in _TYPES}
    return Group(lambda dtype=float: functions["exp"](jnp.zeros(dimension, dtype)), **functions)
