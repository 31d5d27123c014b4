"""Graphs of operations on scalars, of which a program's arrays are made.

Equal operations are one, products with ones vanish, and sums leave out constant zeros and products
with them: of a program for small vectors and matrices a third of the operations is left.

All simplifications but one are those of exact floating-point arithmetic. A product 0 x with a
constant zero counts as 0 where it is a term of a sum, where its size or square is taken, and where
a branch or a loop reads it: if x is infinite or NaN, these are not. Everywhere else the product is
computed, with its sign. The sum -0 + 0 with a constant is -0, as it is after XLA's simplifications.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# Most entries of a constant in a small system.
_CONSTANTS = 10_000


class Unfit(Exception):
    """A program of too many numbers, or of arrays that are not made of numbers."""


class Limits(NamedTuple):
    """The platform for which programs are split, and how large what is split may be.

    Scalars of a loop's body, and entries of its arrays before equal ones and zeros are left out;
    passes of an unrolled loop, and entries in all of them; entries of a `while` loop's body above
    which it counts as regular work, not as a rare branch. `share`: the least share of a program's
    work at which splitting a loop pays for its compilation. `has_loops`: whether longer loops stay
    loops inside of a graph.
    """

    platform: str
    scalars: int
    entries: int
    passes: int
    unrolled: int
    seldom: int
    share: float
    has_loops: bool


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
    """A given array that stays whole."""

    array: int
    shape: tuple[int, ...]
    dtype: Any
    varies: bool


class Graph:
    """Scalars in an order in which they can be computed, and blocks with several results.

    A number in the methods' docstrings is the index of a scalar in `nodes`. A block has `inputs`,
    the scalars that it needs.
    """

    def __init__(self, limits: Limits, left: int | None = None):
        self.nodes: list[Input | Constant | Operation | Part] = []
        self.blocks: list[Any] = []
        self.limits = limits
        # Scalars that it may still have.
        self.left = limits.scalars if left is None else left
        self._arrays = 0
        self._known: dict[Any, int] = {}
        # Products with constant zeros, which sums leave out.
        self._vanishing: set[int] = set()

    def next_given(self, shape: Sequence[int], dtype: Any, varies: bool) -> Held:
        """The next given array."""
        self._arrays += 1
        return Held(self._arrays - 1, tuple(shape), as_numpy(dtype), varies)

    def entries(self, held: Held) -> np.ndarray:
        """Numbers of a given array's entries."""
        found = [
            self._once(("entry", held.array, i), Input(held.array, i, held.dtype, held.varies))
            for i in range(math.prod(held.shape))
        ]
        return np.asarray(found, int).reshape(held.shape)

    def constants(self, array: Any) -> np.ndarray:
        """Numbers of a constant array's entries. Raises `Unfit` for large arrays."""
        as_numpy(array.dtype)
        array = np.asarray(array)
        if array.size > _CONSTANTS:
            raise Unfit
        found = [self.constant(x) for x in array.reshape(-1)]
        return np.asarray(found, int).reshape(array.shape)

    def constant(self, value: Any) -> int:
        """Number of a constant."""
        value = np.asarray(value)[()]
        return self._once((value.dtype, value.tobytes()), Constant(value, value.dtype))

    def value_of(self, number: int) -> Any:
        """Value of a constant, None of other numbers."""
        node = self.nodes[number]
        return node.value if isinstance(node, Constant) else None

    def settle(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers, with constants for products with constant zeros."""

        def one(number):
            is_product = number in self._vanishing
            return self.constant(np.zeros((), self.nodes[number].dtype)) if is_product else number

        found = [one(x) for x in numbers.reshape(-1).tolist()]
        return np.asarray(found, int).reshape(numbers.shape)

    def dependencies(self, numbers: Sequence[int]) -> list[int]:
        """Numbers from which the given ones are computed, these among them, in order."""
        needed = set(numbers)
        for number in range(max(needed, default=-1), -1, -1):
            node = self.nodes[number]
            if number in needed and isinstance(node, Operation):
                needed.update(node.numbers)
            elif number in needed and isinstance(node, Part):
                needed.update(self.blocks[node.block].inputs)
        return sorted(needed)

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
        simple = self._simplify(primitive.name, params, dtype, numbers)
        if simple is not None:
            return simple
        varies = primitive.name != "anywhere" and any(self.nodes[x].varies for x in numbers)
        key = primitive, tuple(sorted(params.items())), dtype, numbers
        node = Operation(primitive, params, numbers, dtype, varies)
        if not self._is_vanishing(primitive.name, dtype, numbers):
            return self._once(key, node)
        # Sums leave out most of these products, which are then never computed: they do not count
        # against the limit.
        left = self.left
        number = self._once(key, node)
        self.left = left
        self._vanishing.add(number)
        return number

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

    def _is_zero(self, number: int) -> bool:
        value = self.value_of(number)
        return number in self._vanishing or (value is not None and bool(value == 0))

    def _is_vanishing(self, name: str, dtype: Any, numbers: tuple[int, ...]) -> bool:
        # Whether an operation is a product with a constant zero, or made of such products alone.
        if not _is_float(dtype):
            return False
        if name in ("mul", "neg"):
            return any(map(self._is_zero, numbers))
        operands = numbers[1:] if name == "select_n" else numbers
        return name in ("add", "add_any", "sub", "select_n") and all(map(self._is_zero, operands))

    def _simplify(
        self, name: str, params: dict[str, Any], dtype: Any, numbers: tuple[int, ...]
    ) -> int | None:
        # The number that an operation equals, if it need not be computed.
        first, values = numbers[0], [self.value_of(x) for x in numbers]
        if name in _UNCHANGED or (
            name == "convert_element_type" and self.nodes[first].dtype == dtype
        ):
            return first
        if name == "select_n":
            if values[0] is not None:
                return numbers[1 + int(values[0])]
            return numbers[1] if len(set(numbers[1:])) == 1 else None
        if np.issubdtype(dtype, np.complexfloating):
            return None
        if first in self._vanishing and (name in ("abs", "square") or params.get("y") == 2):
            # Zeros of both signs have one square.
            return self.constant(np.zeros((), dtype))
        if all(x is not None for x in values):
            return _fold(self, name, dtype, values)
        if name in ("add", "add_any", "sub"):
            return self._sum(name == "sub", dtype, *numbers)
        if name == "div" and values[1] is not None and values[1] == 1:
            return first
        for value, other in zip(values, reversed(numbers), strict=True) if name == "mul" else ():
            if value is not None and value == 1:
                return other
            if value is not None and value == 0 and not _is_float(dtype):
                return self.constant(value)
            if value is not None and value == -1:
                return self._result(lax.neg_p, {}, dtype, (other,))
        return None

    def _sum(self, minus: bool, dtype: Any, first: int, second: int) -> int | None:
        # The term of a sum, or of a difference, that is left without zeros.
        value, other = self.value_of(first), self.value_of(second)
        if other is not None and other == 0:
            return first
        if value is not None and value == 0:
            # In floating point 0 - 0 is 0, and -0 is not.
            if minus and _is_float(dtype) and not np.signbit(value):
                return None
        elif first not in self._vanishing:
            return first if second in self._vanishing else None
        elif second in self._vanishing:
            return None
        return self._result(lax.neg_p, {}, dtype, (second,)) if minus else second


@functools.cache
def _is_float(dtype: np.dtype) -> bool:
    # NumPy does not count types from outside of it, such as bfloat16.
    return jnp.issubdtype(dtype, jnp.floating)


def _fold(graph: Graph, name: str, dtype: np.dtype, values: list) -> int | None:
    """The constant that an operation on constants equals, where NumPy computes what XLA does."""
    if name not in _FOLDED or (name == "div" and not _is_float(dtype)):
        return None
    first = values[0]
    if name in ("max", "min") and first == values[1] == 0:
        return None
    if name == "convert_element_type" and jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
        if _is_float(first.dtype) and not limits.min <= first < limits.max:
            with jax.ensure_compile_time_eval():
                converted = lax.convert_element_type(jnp.asarray(first), dtype)
                return graph.constant(np.asarray(converted))
    with np.errstate(all="ignore"):
        return graph.constant(np.asarray(_FOLDED[name](*values)).astype(dtype))


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
