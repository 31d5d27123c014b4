"""Evaluation of graphs of scalars, each an array over the members.

XLA computes a scalar again in every kernel that uses it, unless the scalar is the result of a call
that is not inlined. Scalars with several users, and those of many operations, become such calls:
each passes once over the members and keeps intermediate values in registers.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

from lie_jax.sweeps.batching import batch_last
from lie_jax.sweeps.batching.batch_last import Value
from lie_jax.sweeps.batching.scalar_graph import Constant, Graph, Held, Input, Operation, Part
from lie_jax.sweeps.batching.scalarize import Branch, Inner, Repeat, Whole

# Least number of operations at which a shared scalar, or any scalar, gets a kernel of its own.
_SHARED, _ALONE = 8, 200


class _Plan:
    """Numbers of a graph that are read from given arrays, and those computed by themselves.

    The latter have operations and leaves of their own.
    """

    def __init__(self, graph: Graph, numbers: Sequence[int]):
        self._graph = graph
        live, users, whole = graph.dependencies(numbers), Counter(), set(numbers)
        for number in live:
            node = graph.nodes[number]
            if isinstance(node, Operation):
                users.update(set(node.numbers))
                if node.primitive.name == "anywhere":
                    whole.update(node.numbers)
            elif isinstance(node, Part):
                whole.update(graph.blocks[node.block].inputs)
        cost: dict[int, int] = {}
        self.alone: set[int] = set()
        nodes = ((x, graph.nodes[x]) for x in live)
        self.given = [(x, node) for x, node in nodes if isinstance(node, Input)]
        for number in live:
            node = graph.nodes[number]
            if isinstance(node, Part):
                self.alone.add(number)
            if not isinstance(node, Operation):
                continue
            cost[number] = 1 + sum(cost.get(x, 0) for x in set(node.numbers))
            shared = users[number] > 1 and cost[number] >= _SHARED
            kept = number in whole or node.primitive.name == "anywhere"
            if kept or shared or cost[number] >= _ALONE:
                self.alone.add(number)
                cost[number] = 0

    def kernel(self, root: int) -> tuple[list[tuple[int, Operation]], list[int]]:
        """Operations of a number in the order of computation, and the numbers they start from."""
        operations, leaves, seen = [], [], set()

        def visit(number):
            if number in seen:
                return
            seen.add(number)
            node = self._graph.nodes[number]
            if isinstance(node, Operation) and (number == root or number not in self.alone):
                for x in node.numbers:
                    visit(x)
                operations.append((number, node))
            elif not isinstance(node, Constant):
                leaves.append(number)

        visit(root)
        return operations, leaves


def bytes_touched(graph: Graph, results: Sequence[np.ndarray]) -> int:
    """Bytes for each member that the evaluation of a graph reads and writes."""
    plan = _Plan(graph, _flat(results))
    total = 0
    for number in plan.alone:
        if isinstance(graph.nodes[number], Operation):
            touched = [number, *plan.kernel(number)[1]]
            total += sum(graph.nodes[x].dtype.itemsize for x in touched if graph.nodes[x].varies)
    for block in graph.blocks:
        for inner in getattr(block, "graphs", ()):
            total += bytes_touched(inner.graph, [np.asarray(inner.results, int)])
    return total


class Evaluation:
    """Numbers of a graph for `size` members, from its given arrays (members last)."""

    def __init__(self, graph: Graph, given: Sequence[Any], size: int):
        self._graph, self._given, self._size = graph, given, size
        self._found: dict[int, Any] = {}

    def arrays(self, arrays: Sequence[np.ndarray], varies: Sequence[bool]) -> list[list[Any]]:
        """Numbers of arrays: (size,), or () in arrays that do not vary."""
        found = iter(self._results(_flat(arrays)))
        return [
            [self._broadcast(next(found), flag) for _ in range(array.size)]
            for array, flag in zip(arrays, varies, strict=True)
        ]

    def _results(self, numbers: Sequence[int]) -> list[Any]:
        plan, done = _Plan(self._graph, numbers), set()
        # All at once: an entry that is first read inside of a branch or a loop belongs to the trace
        # of that branch, and later uses outside of it would raise.
        for number, node in plan.given:
            self._found[number] = _entry(self._given[node.array], node.entry, node.varies)
        for number in sorted(plan.alone):
            node = self._graph.nodes[number]
            if isinstance(node, Operation):
                self._found[number] = self._kernel(number, node, plan)
            elif isinstance(node, Part) and node.block not in done:
                done.add(node.block)
                found = self._block(self._graph.blocks[node.block])
                first = number - node.place
                self._found.update(enumerate(found, first))
        return [self._leaf(x) for x in numbers]

    def _broadcast(self, x: Any, varies: bool) -> Any:
        return jnp.broadcast_to(jnp.asarray(x), (self._size,) if varies else ())

    def _leaf(self, number: int) -> Any:
        node = self._graph.nodes[number]
        if isinstance(node, Constant):
            return np.asarray(node.value)
        return self._found[number]

    def _kernel(self, root: int, node: Operation, plan: _Plan) -> Any:
        if node.primitive.name == "anywhere":
            return jnp.any(self._leaf(node.numbers[0]))
        operations, leaves = plan.kernel(root)

        def body(*arrays):
            found = dict(zip(leaves, arrays, strict=True))
            for number, operation in operations:
                found[number] = self._apply(operation, found)
            return found[root]

        with set_xla_metadata(inlineable="false"):
            return jax.jit(body)(*(self._leaf(x) for x in leaves))

    def _apply(self, operation: Operation, found: dict[int, Any]) -> Any:
        shape, operands = (self._size,) if operation.varies else (), []
        for number in operation.numbers:
            own = self._graph.nodes[number]
            x = np.asarray(own.value) if isinstance(own, Constant) else found[number]
            operands.append(x if np.shape(x) == shape else jnp.broadcast_to(x, shape))
        return operation.primitive.bind(*operands, **operation.params)

    def _block(self, block: Any) -> list[Any]:
        if isinstance(block, Branch):
            return self._branch(block)
        if isinstance(block, Repeat):
            return self._repeat(block)
        return self._whole(block)

    def _inner(self, inner: Inner, given: Sequence[Any], varies: Sequence[bool]) -> list[Any]:
        evaluation = Evaluation(inner.graph, given, self._size)
        numbers = [np.asarray(x) for x in inner.results]
        return [row for rows in evaluation.arrays(numbers, varies) for row in rows]

    def _branch(self, block: Branch) -> list[Any]:
        def evaluate(choice):
            return lambda *given: self._inner(choice, given, block.varies)

        given = [self._leaf(x) for x in block.given]
        index = jnp.asarray(self._leaf(block.choice)).astype(jnp.int32)
        return lax.switch(index, [evaluate(x) for x in block.graphs], *given)

    def _repeat(self, block: Repeat) -> list[Any]:
        given = [self._leaf(x) for x in block.given]
        pairs = zip(block.carried, block.varies, strict=True)
        start = [self._broadcast(self._leaf(x), flag) for x, flag in pairs]
        first, second = block.graphs
        each = first.graph.nodes[first.results[0]].varies

        def test(carry):
            return self._inner(first, [*given, *carry], [each])[0]

        def body(carry):
            found = self._inner(second, [*given, *carry], block.varies)
            if not each:
                return found
            # Members that have finished keep what they have.
            going = test(carry)
            return [jnp.where(going, x, y) for x, y in zip(found, carry, strict=True)]

        return lax.while_loop(lambda carry: jnp.any(test(carry)), body, start)

    def _whole(self, block: Whole) -> list[Any]:
        def run():
            avals = [x.aval for x in block.equation.invars]
            values = [self._assemble(*x) for x in zip(block.operands, avals, strict=True)]
            found, flags = (
                batch_last.results(block.equation, values, self._size),
                iter(block.varies),
            )
            rows = []
            for x in found:
                own = np.shape(x.array)[:-1] if x.batched else np.shape(x.array)
                for i in range(math.prod(own)):
                    rows.append(self._broadcast(_entry(x.array, i, x.batched), next(flags)))
            return rows

        if block.guard is None:
            return run()
        pairs = zip(block.otherwise, block.varies, strict=True)
        kept = [self._broadcast(self._leaf(x), flag) for x, flag in pairs]
        return lax.cond(jnp.any(self._leaf(block.guard)), run, lambda: kept)

    def _assemble(self, operand: Any, aval: Any) -> Value:
        if isinstance(operand, Held):
            return Value(self._given[operand.array], operand.varies)
        nodes = [self._graph.nodes[x] for x in _flat([operand])]
        known = [x.value for x in nodes if isinstance(x, Constant)]
        if len(known) == len(nodes):
            return Value(np.asarray(known, aval.dtype).reshape(operand.shape), False)
        varies = any(x.varies for x in nodes)
        rows = [self._broadcast(self._leaf(x), varies) for x in _flat([operand])]
        array = stack(rows, operand.shape, aval.dtype, self._size if varies else None)
        return Value(array, varies)


def stack(rows: Sequence[Any], shape: Sequence[int], dtype: Any, size: int | None) -> Any:
    """Array of its numbers, (size,) each, or () without a size."""
    whole = (*shape, *(() if size is None else (size,)))
    return jnp.stack(rows).reshape(whole) if rows else jnp.zeros(whole, dtype)


def _flat(arrays: Sequence[np.ndarray]) -> list[int]:
    return [x for array in arrays for x in array.reshape(-1).tolist()]


def _entry(array: Any, entry: int, varies: bool) -> Any:
    shape = np.shape(array)[:-1] if varies else np.shape(array)
    for index in np.unravel_index(entry, shape) if shape else ():
        array = lax.index_in_dim(array, int(index), 0, keepdims=False)
    return array
