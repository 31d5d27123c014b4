"""Loops of small systems as graphs of scalars: which ones, and what they are given."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.numerics import jax_internals
from lie_jax.sweeps.batching import batch_last
from lie_jax.sweeps.batching.batch_last import Value
from lie_jax.sweeps.batching.programs import Scan, weight
from lie_jax.sweeps.batching.scalar_graph import Graph, Limits, Unfit
from lie_jax.sweeps.batching.scalarize import trace

# Arrays of more numbers are no part of a small system.
_LARGEST = 1024
# Members of the batch for which shapes are found.
_EXAMPLE = 16


class Scalarized(NamedTuple):
    """Body of a scan as a graph: numbers of its results, after those of what it is given."""

    graph: Graph
    results: list[np.ndarray]


# What is made of a scalarized loop, its equation and its values. It raises `Unfit`.
Make = Callable[[Scalarized, Any, list[Value]], Any]


class Loops:
    """What is made of a program's loops that are split into scalars.

    `arguments` are the program's constants and arguments; arrays of members have the shape of one
    member. `made` is what was made of each loop that fits the limits; `work` the scalars of a pass
    of each loop that would be worth it.
    """

    def __init__(self, program: Any, arguments: list[Value], limits: Limits, make: Make):
        # Keep the program alive: results are stored by the identities of its equations, and Python
        # gives a freed object's identity to the next one.
        self._program, self._limits, self._make = program, limits, make
        self.work = _worthwhile(program, limits.share)
        self._known: dict[Any, Any] = {}

        # Evaluate for shapes only: this splits all loops and computes none.
        def shapes(arrays):
            values = [
                x if array is None else Value(array, x.batched)
                for x, array in zip(arguments, arrays, strict=True)
            ]
            results = batch_last.evaluate(program, values, _EXAMPLE, self._sketch)
            return [x.array for x in results]

        traced = [
            jax.ShapeDtypeStruct((*x.array.shape, _EXAMPLE), x.array.dtype) if x.batched else None
            for x in arguments
        ]
        jax.eval_shape(shapes, traced)
        self.made = [x for x in self._known.values() if x is not None]

    def of(self, equation: Any, values: list[Value]) -> Any:
        """What was made of a loop, None if it stays as it is."""
        if id(equation) not in self.work:
            return None
        # JAX shares one equation among all calls of a jitted function. Constants are part of a
        # graph, so that their values belong to its key.
        constants, *_ = Scan.of(equation).split(values)
        known = tuple(None if x is None else x.tobytes() for x in map(_constant, constants))
        key = id(equation), tuple(x.batched for x in values), known
        if key not in self._known:
            try:
                scalarized = _scalarize(equation, values, self._limits)
                self._known[key] = self._make(scalarized, equation, values)
            except Unfit:
                self._known[key] = None
        return self._known[key]

    def _sketch(self, equation, values, size):
        if self.of(equation, values) is None:
            return None
        flags, out_flags = Scan.of(equation).varying([x.batched for x in values])
        zeros = []
        for variable, flag in zip(equation.outvars, [*flags, *out_flags], strict=True):
            shape = (*variable.aval.shape, size) if flag else variable.aval.shape
            zeros.append(Value(jnp.zeros(shape, variable.aval.dtype), flag))
        return zeros


def _worthwhile(program: Any, share: float) -> dict[int, int]:
    """Scans with that share of the work, by identity, and the scalars of one pass of each."""
    total, numbers = weight(program), {}

    def visit(program, times):
        jaxpr, _ = jax_internals.unpack(program)
        for equation in jaxpr.eqns:
            runs = times * equation.params.get("length", 1)
            for inner in jax_internals.inside(equation):
                if equation.primitive.name == "scan" and runs * weight(inner) > share * total:
                    numbers[id(equation)] = weight(inner)
                visit(inner, runs)

    visit(program, 1)
    return numbers


def is_inlined(array: Any) -> bool:
    """Whether a constant becomes part of a graph; others are arguments of the graph."""
    extended = jnp.issubdtype(array.dtype, jax.dtypes.extended)
    return not extended and not jax_internals.is_traced(array) and np.size(array) <= _LARGEST


def _constant(x: Value) -> np.ndarray | None:
    return np.asarray(x.array) if not x.batched and is_inlined(x.array) else None


def shape_of(x: Value) -> tuple[int, ...]:
    """Shape of an array for one member."""
    shape = np.shape(x.array)
    return shape[:-1] if x.batched else shape


def _scalarize(equation: Any, values: list[Value], limits: Limits) -> Scalarized:
    parts = Scan.of(equation)
    if weight(parts.body) > limits.entries:
        raise Unfit
    constants, carry, inputs = parts.split(values)
    flags, _ = parts.varying([x.batched for x in values])
    graph = Graph(limits)
    arguments = []
    dtypes = iter(x.aval.dtype for x in equation.invars)
    for x in constants:
        held, known = graph.next_given(shape_of(x), next(dtypes), x.batched), _constant(x)
        arguments.append(held if known is None else graph.constants(known))
    for x, flag in zip(carry, flags, strict=True):
        count = math.prod(shape_of(x))
        if count > _LARGEST:
            raise Unfit
        dtype = next(dtypes)
        numbers = [graph.entries(graph.next_given((), dtype, flag)) for _ in range(count)]
        arguments.append(np.asarray(numbers, int).reshape(shape_of(x)))
    for x in inputs:
        arguments.append(graph.entries(graph.next_given(shape_of(x)[1:], next(dtypes), x.batched)))
    return Scalarized(graph, trace(graph, parts.body, arguments))
