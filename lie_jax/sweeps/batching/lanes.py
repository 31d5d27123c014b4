"""Loops of small systems for a batch of members, split into scalars.

The short arrays of a small system keep a processor's vector units idle, and each operation on them
goes through memory. Split, a step is a graph of scalars, each an array over all members, which is
evaluated in few passes over them.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.numerics import jax_internals
from lie_jax.sweeps.batching import batch_last
from lie_jax.sweeps.batching.batch_last import Value
from lie_jax.sweeps.batching.kernels import Evaluation, bytes_touched, stack
from lie_jax.sweeps.batching.programs import Scan, weight
from lie_jax.sweeps.batching.scalar_graph import Graph, Unfit
from lie_jax.sweeps.batching.scalarize import trace

# Numbers of a loop's body, of which each takes some 2 ms of compilation, and entries of its arrays,
# before equal ones and zeros are left out.
_LIMIT, _ENTRIES = 5000, 50_000
# Least share of the program's scalars at which splitting a loop pays for its compilation.
_SHARE = 0.5
# Arrays of more numbers are no part of a small system.
_LARGEST = 1024
# Bytes that a loop may touch in each pass to become one function (`lie_jax.configure`), with some
# room; numbers of a pass through a loop of arrays that stays in the caches.
_BYTES, _NUMBERS = 900_000, 6_000_000
# Members of a chunk. Fewer than the least do not fill vector units.
_MOST, _LEAST = 64, 16


class Scalarized(NamedTuple):
    """Body of a scan as a graph: numbers of its results, after those of what it is given."""

    graph: Graph
    results: list[np.ndarray]


class Lanes:
    """Evaluation of a program's loops as graphs of scalars, and the members of a chunk."""

    def __init__(self, program: Any, arguments: list[Value]):
        # Keep the program alive: graphs are stored by the identities of its equations, and Python
        # gives a freed object's identity to the next one.
        self._program = program
        self._worthwhile = _worthwhile(program)
        self._graphs: dict[Any, Scalarized | None] = {}
        # Evaluate for shapes only: this builds the graphs of all loops and computes none. Arrays
        # of members have the shape of one member here.
        size = _LEAST

        def shapes(arrays):
            values = [
                x if array is None else Value(array, x.batched)
                for x, array in zip(arguments, arrays, strict=True)
            ]
            results = batch_last.evaluate(program, values, size, self._sketch)
            return [x.array for x in results]

        traced = [
            jax.ShapeDtypeStruct((*x.array.shape, size), x.array.dtype) if x.batched else None
            for x in arguments
        ]
        jax.eval_shape(shapes, traced)
        graphs = [x for x in self._graphs.values() if x is not None]
        if graphs:
            each, bound = max(bytes_touched(*x) for x in graphs), _BYTES
        else:
            each, bound = max(self._worthwhile.values(), default=weight(program)), _NUMBERS
        self.members = _MOST
        while self.members > _LEAST and self.members * each > bound:
            self.members //= 2

    def loop(self, equation: Any, values: list[Value], size: int) -> list[Value] | None:
        """Results of a loop for `size` members, None if splitting does not pay."""
        taken = self._scalarized(equation, values)
        return None if taken is None else _run(taken, equation, values, size)

    def _sketch(self, equation, values, size):
        if self._scalarized(equation, values) is None:
            return None
        flags, out_flags = Scan.of(equation).varying([x.batched for x in values])
        zeros = []
        for variable, flag in zip(equation.outvars, [*flags, *out_flags], strict=True):
            shape = (*variable.aval.shape, size) if flag else variable.aval.shape
            zeros.append(Value(jnp.zeros(shape, variable.aval.dtype), flag))
        return zeros

    def _scalarized(self, equation, values):
        if id(equation) not in self._worthwhile:
            return None
        # JAX shares one equation among all calls of a jitted function. Constants are part of a
        # graph, so that their values belong to its key.
        constants, *_ = Scan.of(equation).split(values)
        known = tuple(None if x is None else x.tobytes() for x in map(_constant, constants))
        key = id(equation), tuple(x.batched for x in values), known
        if key not in self._graphs:
            try:
                self._graphs[key] = _scalarize(equation, values)
            except Unfit:
                self._graphs[key] = None
        return self._graphs[key]


def _worthwhile(program: Any) -> dict[int, int]:
    """Scans with most of the program's work, by identity, and the scalars of one pass of each."""
    total, numbers = weight(program), {}

    def visit(program, times):
        jaxpr, _ = jax_internals.unpack(program)
        for equation in jaxpr.eqns:
            runs = times * equation.params.get("length", 1)
            for inner in jax_internals.inside(equation):
                if equation.primitive.name == "scan" and runs * weight(inner) > _SHARE * total:
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


def _shape(x: Value) -> tuple[int, ...]:
    shape = np.shape(x.array)
    return shape[:-1] if x.batched else shape


def _scalarize(equation: Any, values: list[Value]) -> Scalarized:
    parts = Scan.of(equation)
    if weight(parts.body) > _ENTRIES:
        raise Unfit
    constants, carry, inputs = parts.split(values)
    flags, _ = parts.varying([x.batched for x in values])
    graph = Graph(_LIMIT)
    arguments = []
    dtypes = iter(x.aval.dtype for x in equation.invars)
    for x in constants:
        held, known = graph.next_given(_shape(x), next(dtypes), x.batched), _constant(x)
        arguments.append(held if known is None else graph.constants(known))
    for x, flag in zip(carry, flags, strict=True):
        count = math.prod(_shape(x))
        if count > _LARGEST:
            raise Unfit
        dtype = next(dtypes)
        numbers = [graph.entries(graph.next_given((), dtype, flag)) for _ in range(count)]
        arguments.append(np.asarray(numbers, int).reshape(_shape(x)))
    for x in inputs:
        arguments.append(graph.entries(graph.next_given(_shape(x)[1:], next(dtypes), x.batched)))
    return Scalarized(graph, trace(graph, parts.body, arguments))


def _run(taken: Scalarized, equation: Any, values: list[Value], size: int) -> list[Value]:
    parts, params = Scan.of(equation), equation.params
    constants, carry, inputs = parts.split(values)
    flags, out_flags = parts.varying([x.batched for x in values])
    given = [x.array for x in constants]
    outputs = equation.outvars[parts.carried :]

    def body(state, sliced):
        evaluation = Evaluation(taken.graph, [*given, *state, *sliced], size)
        results = evaluation.arrays(taken.results, [*flags, *out_flags])
        after = [x for rows in results[: parts.carried] for x in rows]
        saved = zip(results[parts.carried :], outputs, out_flags, strict=True)
        return after, [
            stack(rows, x.aval.shape[1:], x.aval.dtype, size if flag else None)
            for rows, x, flag in saved
        ]

    start = []
    for x, flag in zip(carry, flags, strict=True):
        array = batch_last.members_last(x, size) if flag else jnp.asarray(x.array)
        count = math.prod(_shape(x))
        start += list(jnp.reshape(array, (count, *((size,) if flag else ()))))
    last, saved = jax.lax.scan(
        body, start, [x.array for x in inputs], length=params["length"], reverse=params["reverse"]
    )
    after = []
    for variable, flag in zip(equation.outvars, flags, strict=False):
        aval = variable.aval
        count = math.prod(aval.shape)
        rows, last = last[:count], last[count:]
        array = stack(rows, aval.shape, aval.dtype, size if flag else None)
        after.append(Value(array, flag))
    return [*after, *map(Value, saved, out_flags)]
