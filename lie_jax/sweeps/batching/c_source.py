"""Loops of small systems as C: one function that takes one member through a whole loop.

Every scalar of a graph becomes a constant of C, every branch an `if` and every `while` loop a loop,
for each member on its own. The text holds to what C and CUDA C++ share.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lie_jax.sweeps.batching.c_operations import expression, literal, type_of
from lie_jax.sweeps.batching.scalar_graph import Constant, Graph, Input, Operation, Part, Unfit
from lie_jax.sweeps.batching.scalarize import Branch, Inner, Passes, Repeat


class Array(NamedTuple):
    """An array given to the function or written by it.

    `rows` of numbers for each pass of the loop that has a row of its own (`each_pass`), of all
    members or shared by them (`varies`).
    """

    rows: int
    dtype: Any
    varies: bool
    each_pass: bool

    def entry(self, name: str, row: int) -> str:
        """The number of a row, in C."""
        pass_ = f"pass * {self.rows} + " if self.each_pass else ""
        place = f"((size_type)({pass_}{row}))"
        return f"{name}[{place} * SIZE + member]" if self.varies else f"{name}[{place}]"


class Loop(NamedTuple):
    """A loop's body and arrays: constants and carry, then inputs; carry, then outputs."""

    graph: Graph
    results: list[np.ndarray]
    constants: list[Array]
    carry: list[Array]
    inputs: list[Array]
    outputs: list[Array]
    length: int
    reverse: bool

    @property
    def given(self) -> list[Array]:
        """Constants, carry and inputs: given0, given1, ... of C."""
        return [*self.constants, *self.carry, *self.inputs]

    @property
    def written(self) -> list[Array]:
        """The last carry and the outputs: result0, result1, ..., of all members."""
        return [*(x._replace(varies=True) for x in self.carry), *self.outputs]


def arguments(loop: Loop) -> str:
    """Arguments of the function of C; arrays without entries are none of them."""
    pointers = [
        *((f"const {type_of(x.dtype)}*", f"given{i}", x) for i, x in enumerate(loop.given)),
        *((f"{type_of(x.dtype)}*", f"result{i}", x) for i, x in enumerate(loop.written)),
    ]
    return ", ".join(f"{kind} __restrict__ {name}" for kind, name, x in pointers if x.rows)


def source(loop: Loop) -> str:
    """Lines of a function of C that takes `member` of `SIZE` through a loop."""
    names, first = itertools.count(), len(loop.constants)
    lines, fixed, state = [], [], []
    needed = loop.graph.dependencies(
        [x for array in loop.results for x in array.reshape(-1).tolist()]
    )
    nodes = [loop.graph.nodes[x] for x in needed]
    read = {(x.array, x.entry) for x in nodes if isinstance(x, Input)}
    # Every number of the carry is an array of its own in the graph.
    shift = sum(x.rows for x in loop.carry) - len(loop.carry)

    def load(number: int, array: Array, place: int | None = None) -> list[str]:
        own = [f"v{next(names)}" for _ in range(array.rows)]
        kind = type_of(array.dtype)
        for i, name in enumerate(own):
            if place is None or (place, i) in read:
                lines.append(f"const {kind} {name} = {array.entry(f'given{number}', i)};")
        return own

    for number, array in enumerate(loop.constants):
        fixed.append(load(number, array, number))
    for number, array in enumerate(loop.carry, first):
        for start in load(number, array):
            state.append((f"v{next(names)}", type_of(array.dtype)))
            lines.append(f"{state[-1][1]} {state[-1][0]} = {start};")
    counter = f"{loop.length - 1} - i" if loop.reverse else "i"
    lines.append(f"for (int i = 0; i < {loop.length}; ++i) {{")
    lines.append(f"const size_type pass = {counter};")
    sliced = [
        load(number, x, number + shift)
        for number, x in enumerate(loop.inputs, first + len(loop.carry))
    ]
    writer = _Writer(loop.graph, [*fixed, *([name] for name, _ in state), *sliced], names, lines)
    results = [writer.numbers(x.reshape(-1).tolist()) for x in loop.results]
    for number, (array, rows) in enumerate(
        zip(loop.outputs, results[len(loop.carry) :], strict=True), len(loop.carry)
    ):
        for i, row in enumerate(rows):
            lines.append(f"{array.entry(f'result{number}', i)} = {row};")
    after = [x for rows in results[: len(loop.carry)] for x in rows]
    _assign(lines, names, state, after)
    lines.append("}")
    last = iter(name for name, _ in state)
    for number, array in enumerate(loop.written[: len(loop.carry)]):
        for i in range(array.rows):
            lines.append(f"{array.entry(f'result{number}', i)} = {next(last)};")
    return "\n".join(lines)


def _assign(lines, names, targets: Sequence[tuple[str, str]], values: Sequence[str]) -> None:
    # All at once: a number may go where another one comes from.
    pairs = [(name, kind, x) for (name, kind), x in zip(targets, values, strict=True) if name != x]
    kept = []
    for _, kind, x in pairs:
        kept.append(f"v{next(names)}")
        lines.append(f"const {kind} {kept[-1]} = {x};")
    lines += [f"{name} = {x};" for (name, *_), x in zip(pairs, kept, strict=True)]


class _Writer:
    """Lines of C for the scalars of a graph."""

    def __init__(
        self, graph: Graph, given: Sequence[Sequence[str]], names: Iterator[int], lines: list[str]
    ):
        self._graph, self._given = graph, given
        self._names, self._lines = names, lines
        self._found: dict[int, str] = {}
        self._done: dict[int, list[str]] = {}

    def numbers(self, numbers: Sequence[int]) -> list[str]:
        """Names or literals of scalars, after the lines that compute them."""
        missing = [x for x in set(numbers) if x not in self._found]
        for number in self._graph.dependencies(missing) if missing else ():
            if number not in self._found:
                self._found[number] = self._write(self._graph.nodes[number])
        return [self._found[x] for x in numbers]

    def _write(self, node: Any) -> str:
        if isinstance(node, Constant):
            return literal(node.value, node.dtype)
        if isinstance(node, Input):
            return self._given[node.array][node.entry]
        if isinstance(node, Part):
            if node.block not in self._done:
                self._done[node.block] = self._block(self._graph.blocks[node.block])
            return self._done[node.block][node.place]
        return self._operation(node)

    def _operation(self, node: Operation) -> str:
        operands = [self._found[x] for x in node.numbers]
        dtypes = [np.dtype(self._graph.nodes[x].dtype) for x in node.numbers]
        if node.primitive.name == "anywhere":
            # Every member asks for itself.
            return operands[0]
        text = expression(node.primitive.name, node.params, operands, dtypes, np.dtype(node.dtype))
        name = f"v{next(self._names)}"
        self._lines.append(f"const {type_of(node.dtype)} {name} = {text};")
        return name

    def _inner(self, inner: Inner, given: Sequence[str]) -> list[str]:
        writer = _Writer(inner.graph, [[x] for x in given], self._names, self._lines)
        return writer.numbers(inner.results)

    def _block(self, block: Any) -> list[str]:
        if isinstance(block, Branch):
            return self._branch(block)
        if isinstance(block, Repeat):
            return self._repeat(block)
        if isinstance(block, Passes):
            return self._passes(block)
        raise Unfit(f"{block.equation.primitive}")

    def _variables(self, inner: Inner) -> list[tuple[str, str]]:
        kinds = [type_of(inner.graph.nodes[x].dtype) for x in inner.results]
        return [(f"v{next(self._names)}", kind) for kind in kinds]

    def _branch(self, block: Branch) -> list[str]:
        (choice,), given = self.numbers([block.choice]), self.numbers(block.given)
        targets = self._variables(block.graphs[0])
        self._lines += [f"{kind} {name};" for name, kind in targets]
        for place, inner in enumerate(block.graphs):
            last = place == len(block.graphs) - 1
            test = "" if last else f"if ({choice} <= {place}) "
            self._lines.append(f"{'else ' if place else ''}{test}{{")
            rows = self._inner(inner, given)
            pairs = zip(targets, rows, strict=True)
            self._lines += [f"{name} = {x};" for (name, _), x in pairs]
            self._lines.append("}")
        return [name for name, _ in targets]

    def _repeat(self, block: Repeat) -> list[str]:
        given, start = self.numbers(block.given), self.numbers(block.carried)
        test, body = block.graphs
        targets = self._variables(body)
        for (name, kind), x in zip(targets, start, strict=True):
            self._lines.append(f"{kind} {name} = {x};")
        own = [*given, *(name for name, _ in targets)]
        self._lines.append("while (true) {")
        (proceed,) = self._inner(test, own)
        self._lines.append(f"if (!({proceed})) break;")
        _assign(self._lines, self._names, targets, self._inner(body, own))
        self._lines.append("}")
        return [name for name, _ in targets]

    def _passes(self, block: Passes) -> list[str]:
        given, start = self.numbers(block.given), self.numbers(block.carried)
        length, count = len(block.slices), len(block.carried)
        targets = self._variables(block.body)
        state, written = targets[:count], targets[count:]
        for (name, kind), x in zip(state, start, strict=True):
            self._lines.append(f"{kind} {name} = {x};")
        self._lines += [f"{kind} {name}[{length}];" for name, kind in written]
        index, sliced = f"v{next(self._names)}", []
        for column in block.slices.T.tolist():
            name, kind = f"v{next(self._names)}", type_of(self._graph.nodes[column[0]].dtype)
            rows = ", ".join(self.numbers(column))
            self._lines.append(f"const {kind} {name}[{length}] = {{{rows}}};")
            sliced.append(f"{name}[{index}]")
        passes = (
            f"int {index} = {length - 1}; {index} >= 0; --{index}"
            if block.reverse
            else f"int {index} = 0; {index} < {length}; ++{index}"
        )
        # Unrolled it would be as long as what did not fit.
        self._lines.append(f"NOT_UNROLLED for ({passes}) {{")
        own = [*given, *(name for name, _ in state), *sliced]
        results = self._inner(block.body, own)
        for (name, _), x in zip(written, results[count:], strict=True):
            self._lines.append(f"{name}[{index}] = {x};")
        _assign(self._lines, self._names, state, results[:count])
        self._lines.append("}")
        found, first = [name for name, _ in state], 0
        for width in block.widths:
            names = [name for name, _ in written[first : first + width]]
            found += [f"{name}[{i}]" for i in range(length) for name in names]
            first += width
        return found
