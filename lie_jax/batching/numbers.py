"""Graphs of operations on single numbers, of which a program's arrays are made.

Equal operations are one, and products with constant zeros and ones vanish: of a program for small
vectors and matrices a third of the operations is left. Where numbers are infinite or NaN their
products with constant zeros are zero.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Unfit(Exception):
    """A program of too many numbers, or of arrays that are not made of numbers."""


def as_numpy(dtype: Any) -> np.dtype:
    """Dtype of numbers. Raises `Unfit` for that of random keys, for example."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        raise Unfit
    return np.dtype(dtype)


class Input(NamedTuple):
    """An entry of an array that is given; `varies`: whether it differs from member to member."""

    array: int
    entry: int
    dtype: Any
    varies: bool


class Constant(NamedTuple):
    """A number that is known."""

    value: Any
    dtype: Any
    varies: bool = False


class Operation(NamedTuple):
    """Result of a primitive that acts on numbers."""

    primitive: Any
    params: dict[str, Any]
    numbers: tuple[int, ...]
    dtype: Any
    varies: bool


class Part(NamedTuple):
    """One of the results of a block."""

    block: int
    place: int
    dtype: Any
    varies: bool


class Held(NamedTuple):
    """An array that is given and not taken apart."""

    array: int
    shape: tuple[int, ...]
    dtype: Any
    varies: bool


class Graph:
    """Numbers in an order in which they can be computed, and blocks with several results.

    A block has `inputs`, the numbers that it needs.
    """

    def __init__(self, limit: int):
        self.nodes: list[Input | Constant | Operation | Part] = []
        self.blocks: list[Any] = []
        self.left = limit
        self._arrays = 0
        self._known: dict[Any, int] = {}

    def held(self, shape: Sequence[int], dtype: Any, varies: bool) -> Held:
        """The next array that is given."""
        self._arrays += 1
        return Held(self._arrays - 1, tuple(shape), as_numpy(dtype), varies)

    def entries(self, held: Held) -> np.ndarray:
        """Numbers of an array that is given."""
        found = [
            self._once(("entry", held.array, i), Input(held.array, i, held.dtype, held.varies))
            for i in range(math.prod(held.shape))
        ]
        return np.asarray(found, int).reshape(held.shape)

    def constants(self, array: Any) -> np.ndarray:
        """Numbers of an array that is known."""
        array = np.asarray(array)
        found = [self.constant(x) for x in array.reshape(-1)]
        return np.asarray(found, int).reshape(array.shape)

    def constant(self, value: Any) -> int:
        """Number that is known."""
        value = np.asarray(value)[()]
        return self._once((value.dtype, value.tobytes()), Constant(value, value.dtype))

    def known(self, number: int) -> Any:
        """Value of a constant, None of other numbers."""
        node = self.nodes[number]
        return node.value if isinstance(node, Constant) else None

    def apply(
        self, primitive: Any, params: dict[str, Any], dtype: Any, *arrays: np.ndarray
    ) -> np.ndarray:
        """Results of an operation on each entry of arrays, which are broadcast."""
        dtype = np.dtype(dtype)
        arrays = np.broadcast_arrays(*arrays)
        shape, flat = arrays[0].shape, [x.reshape(-1).tolist() for x in arrays]
        found = [self._result(primitive, params, dtype, x) for x in zip(*flat, strict=True)]
        return np.asarray(found, int).reshape(shape)

    def block(self, block: Any, dtypes: Sequence[Any], varies: Sequence[bool]) -> list[int]:
        """Numbers of the results of a block."""
        self.blocks.append(block)
        own = len(self.blocks) - 1
        pairs = enumerate(zip(dtypes, varies, strict=True))
        return [self._add(Part(own, i, as_numpy(dtype), each)) for i, (dtype, each) in pairs]

    def _result(self, primitive, params, dtype, numbers: tuple[int, ...]) -> int:
        simple = self._simplified(primitive.name, dtype, numbers)
        if simple is not None:
            return simple
        varies = primitive.name != "anywhere" and any(self.nodes[x].varies for x in numbers)
        key = primitive, tuple(sorted(params.items())), dtype, numbers
        return self._once(key, Operation(primitive, params, numbers, dtype, varies))

    def _once(self, key, node) -> int:
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self._add(node)
        return number

    def _add(self, node) -> int:
        if not isinstance(node, Constant):
            self.left -= 1
        if self.left < 0:
            raise Unfit
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _simplified(self, name: str, dtype: Any, numbers: tuple[int, ...]) -> int | None:
        # The number that an operation equals, if it need not be computed.
        first, values = numbers[0], [self.known(x) for x in numbers]
        if name in _UNCHANGED or (
            name == "convert_element_type" and self.nodes[first].dtype == dtype
        ):
            return first
        if name == "select_n":
            if values[0] is not None:
                return numbers[1 + int(values[0])]
            return numbers[1] if len(set(numbers[1:])) == 1 else None
        if all(x is not None for x in values):
            return self._folded(name, dtype, values)
        if len(values) != 2:
            return None
        for value, other in zip(values, reversed(numbers), strict=True):
            if value is None:
                continue
            if name == "mul" and value in (0, 1):
                return other if value == 1 else self.constant(value)
            if name in ("add", "add_any") and value == 0:
                return other
            if name == "mul" and value == -1:
                return self._result(lax.neg_p, {}, dtype, (other,))
        if name == "sub" and values[0] is not None and values[0] == 0:
            return self._result(lax.neg_p, {}, dtype, numbers[1:])
        unit = {"sub": 0, "div": 1}.get(name)
        return first if unit is not None and values[1] == unit else None

    def _folded(self, name: str, dtype: Any, values: list) -> int | None:
        # NumPy divides integers otherwise.
        integers = not np.issubdtype(dtype, np.inexact)
        if name not in _FOLDED or (name == "div" and integers):
            return None
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(_FOLDED[name](*values)).astype(dtype))


# Results of operations on constants.
_FOLDED: dict[str, Callable] = {
    "abs": np.abs,
    "add": np.add,
    "add_any": np.add,
    "and": np.bitwise_and,
    "convert_element_type": lambda x: x,
    "div": np.divide,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "sqrt": np.sqrt,
    "sub": np.subtract,
}
_UNCHANGED = frozenset(["copy", "copy_p", "name", "optimization_barrier", "stop_gradient"])
