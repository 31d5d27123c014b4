"""Programs split into scalars: the graph of all operations on them.

Operations that move entries cost nothing. Branches on a value that all members share stay branches,
short loops are unrolled, and `while` loops stay loops over scalars. Other equations are evaluated
on arrays that are stacked again from their scalars.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from lie_jax.numerics import jax_internals
from lie_jax.sweeps.batching import programs
from lie_jax.sweeps.batching.batch_last import elementwise
from lie_jax.sweeps.batching.index_ops import MOVES
from lie_jax.sweeps.batching.scalar_graph import Graph, Held, Unfit

# Numbers of an array, or an array that is given.
Array = np.ndarray | Held


class Inner(NamedTuple):
    """A graph inside of another one, whose given arrays are single numbers, and its results."""

    graph: Graph
    results: list[int]


class Branch(NamedTuple):
    """A choice among graphs of the same numbers, of which one is evaluated for all members."""

    inputs: list[int]
    choice: int
    given: list[int]
    graphs: list[Inner]
    varies: list[bool]


class Repeat(NamedTuple):
    """A `while` loop: graphs of test and body, numbers given to both, and those carried."""

    inputs: list[int]
    given: list[int]
    carried: list[int]
    graphs: list[Inner]
    varies: list[bool]


class Passes(NamedTuple):
    """A scan: numbers given to all passes, those carried, and those of each pass (passes, n).

    The body's results are the carried numbers and the rows of the outputs, `widths` numbers each.
    """

    inputs: list[int]
    given: list[int]
    carried: list[int]
    slices: np.ndarray
    body: Inner
    widths: list[int]
    reverse: bool
    varies: list[bool]


class Whole(NamedTuple):
    """An equation that is evaluated on arrays.

    With a `guard` it is evaluated if that holds for any member; the results are `otherwise`.
    """

    inputs: list[int]
    equation: Any
    operands: list[Array]
    guard: int | None
    otherwise: Sequence[int]
    varies: list[bool]


def trace(graph: Graph, program: Any, arguments: Sequence[Array]) -> list[np.ndarray]:
    """Numbers of a program's results. Raises `Unfit`."""
    return [_numbers(graph, x) for x in _trace(graph, program, arguments)]


def _trace(graph: Graph, program: Any, arguments: Sequence[Array]) -> list[Array]:
    jaxpr, constants = jax_internals.unpack(program)
    known: dict[Any, Array] = dict(zip(jaxpr.invars, arguments, strict=True))
    for variable, constant in zip(jaxpr.constvars, constants, strict=True):
        known[variable] = graph.constants(constant)

    def read(x):
        return graph.constants(np.asarray(x.val)) if hasattr(x, "val") else known[x]

    for equation in jaxpr.eqns:
        results = _results(graph, equation, [read(x) for x in equation.invars])
        known.update(zip(equation.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _branch_of(platform: str, platforms: Sequence[Sequence[str] | None]) -> int:
    """Index of the platform's branch among those of `jax.lax.platform_dependent`."""
    own = [i for i, x in enumerate(platforms) if x is not None and platform in x]
    default = [i for i, x in enumerate(platforms) if x is None]
    if not own and not default:
        raise Unfit
    return (own or default)[0]


def _numbers(graph: Graph, array: Array) -> np.ndarray:
    return graph.entries(array) if isinstance(array, Held) else array


def _results(graph: Graph, equation: Any, values: list[Array]) -> Sequence[Array]:
    name, params = equation.primitive.name, equation.params
    if not equation.outvars:
        # Derivatives leave branches without results.
        return []
    inner = programs.inline(equation, values)
    if inner is not None:
        return _trace(graph, *inner)
    if name == "dynamic_slice" and isinstance(values[0], Held) and not graph.limits.has_loops:
        return _whole(graph, equation, values)
    numbers = [_numbers(graph, x) for x in values]
    if name == "value_with_rule":
        return numbers[: params["count"]]
    if name == "platform_index":
        branch = _branch_of(graph.limits.platform, params["platforms"])
        return [graph.constants(np.asarray(branch, np.int32))]
    if name in ("empty", "empty2"):
        # To be written before it is read.
        aval = equation.outvars[0].aval
        return [np.broadcast_to(graph.constants(np.zeros((), aval.dtype)), aval.shape)]
    if name == "optimization_barrier":
        # It steers XLA's fusions, which end at a scalar's kernel anyhow.
        return numbers
    if name == "scan":
        return _unroll(graph, equation, numbers)
    aval = equation.outvars[0].aval
    plain = not params.get("sharding") and not params.get("out_sharding")
    if plain and elementwise(equation):
        numbers = [np.broadcast_to(x, aval.shape) for x in numbers]
        return [graph.apply(equation.primitive, params, aval.dtype, *numbers)]
    if name == "anywhere":
        return [graph.apply(equation.primitive, params, aval.dtype, *numbers)]
    rule = _RULES.get(name)
    if plain and rule is not None:
        results = rule(graph, equation, numbers)
        if results is not None:
            # NumPy makes numbers of arrays without axes.
            return list(map(np.asarray, results))
    return _whole(graph, equation, values)


def _whole(graph, equation, values: list[Array], guard=None, otherwise=()) -> list[np.ndarray]:
    parts = [x for x in values if not isinstance(x, Held)]
    needed = [*_flat(parts), *([] if guard is None else [guard]), *otherwise]
    given = [_varies(graph, x) for x in values]
    varies = _each_number(programs.varying(equation, given), equation)
    block = Whole(_open(graph, needed), equation, values, guard, otherwise, varies)
    return _block_results(graph, block, equation)


def _block_results(graph: Graph, block: Any, equation: Any) -> list[np.ndarray]:
    """Numbers of an equation's results, which a block computes."""
    dtypes = _each_number([x.aval.dtype for x in equation.outvars], equation)
    return _arrange(graph.block(block, dtypes, block.varies), equation)


def _arrange(numbers: Sequence[int], equation: Any) -> list[np.ndarray]:
    found, start = [], 0
    for variable in equation.outvars:
        end = start + math.prod(variable.aval.shape)
        found.append(np.asarray(numbers[start:end], int).reshape(variable.aval.shape))
        start = end
    return found


def _each_number(each_array: Sequence[Any], equation: Any) -> list[Any]:
    pairs = zip(each_array, equation.outvars, strict=True)
    return [x for x, variable in pairs for _ in range(math.prod(variable.aval.shape))]


def _varies(graph: Graph, value: Array) -> bool:
    if isinstance(value, Held):
        return value.varies
    return any(graph.nodes[x].varies for x in value.reshape(-1).tolist())


def _flat(arrays: Sequence[np.ndarray]) -> list[int]:
    return [x for array in arrays for x in array.reshape(-1).tolist()]


def _open(graph: Graph, numbers: Sequence[int]) -> list[int]:
    # Those that are no constants, each once.
    return [x for x in dict.fromkeys(numbers) if graph.value_of(x) is None]


def _inside(
    graph: Graph,
    program: Any,
    arguments: Sequence[np.ndarray],
    given: Sequence[int],
    carry: Sequence[tuple[Any, bool]] = (),
) -> Inner:
    """Graph of a program of arguments that are made of `given` numbers, and of carried arrays."""
    inner = Graph(graph.limits, graph.left)
    place: dict[int, int] = {}
    for x in given:
        node = graph.nodes[x]
        place[x] = int(inner.entries(inner.next_given((), node.dtype, node.varies)))
    for x in _flat(arguments):
        if x not in place:
            place[x] = inner.constant(graph.value_of(x))
    own = [
        np.asarray([place[x] for x in array.reshape(-1).tolist()], int).reshape(array.shape)
        for array in arguments
    ]
    for aval, varies in carry:
        numbers = [
            inner.entries(inner.next_given((), aval.dtype, varies))
            for _ in range(math.prod(aval.shape))
        ]
        own.append(np.asarray(numbers, int).reshape(aval.shape))
    results = _flat(trace(inner, program, own))
    graph.left = inner.left
    return Inner(inner, results)


def _cond(graph, equation, values):
    branches = equation.params["branches"]
    index, *operands = values
    number = int(index)
    known = graph.value_of(number)
    if known is not None:
        return trace(graph, branches[min(max(int(known), 0), len(branches) - 1)], operands)
    if graph.nodes[number].varies:
        results = [trace(graph, branch, operands) for branch in branches]
        if graph.nodes[number].dtype != bool:
            bounds = [graph.constants(np.int32(x)) for x in (0, len(branches) - 1)]
            index = graph.apply(lax.clamp_p, {}, np.int32, bounds[0], index, bounds[1])
        return [
            graph.apply(lax.select_n_p, {}, x.aval.dtype, index, *each)
            for x, each in zip(equation.outvars, zip(*results, strict=True), strict=True)
        ]
    operands = list(map(graph.settle, operands))
    given = _open(graph, _flat(operands))
    choices = [_inside(graph, branch, operands, given) for branch in branches]
    varies = [
        any(x.graph.nodes[i].varies for x, i in zip(choices, results, strict=True))
        for results in zip(*(x.results for x in choices), strict=True)
    ]
    block = Branch(_open(graph, [number, *given]), number, given, choices, varies)
    return _block_results(graph, block, equation)


def _unroll(graph, equation, values):
    params, parts = equation.params, programs.Scan.of(equation)
    length = params["length"]
    limits = graph.limits
    if length > limits.passes or length * programs.weight(parts.body) > limits.unrolled:
        return _passes(graph, equation, values)
    constants, carry, inputs = parts.split(values)
    order = range(length)[::-1] if params["reverse"] else range(length)
    shapes = [x.aval.shape for x in equation.outvars[parts.carried :]]
    outputs = [np.zeros(shape, int) for shape in shapes]
    for i in order:
        own = [np.asarray(x[i]) for x in inputs]
        results = trace(graph, parts.body, [*constants, *carry, *own])
        carry = results[: parts.carried]
        for whole, row in zip(outputs, results[parts.carried :], strict=True):
            whole[i] = row
    return [*carry, *outputs]


def _passes(graph, equation, values):
    """A scan that stays one."""
    if not graph.limits.has_loops:
        raise Unfit
    params, parts = equation.params, programs.Scan.of(equation)
    constants, carry, inputs = parts.split([*map(graph.settle, values)])
    flags, out_flags = parts.varying([_varies(graph, x) for x in values])
    length, given, start = params["length"], _open(graph, _flat(constants)), _flat(carry)
    slices = np.concatenate(
        [np.zeros((length, 0), int), *(x.reshape(length, -1) for x in inputs)], axis=1
    )
    jaxpr, _ = jax_internals.unpack(parts.body)
    avals = [x.aval for x in jaxpr.invars[parts.constants :]]
    each = [*flags, *(_varies(graph, x) for x in inputs)]
    body = _inside(graph, parts.body, constants, given, list(zip(avals, each, strict=True)))
    outputs = equation.outvars[parts.carried :]
    block = Passes(
        _open(graph, [*given, *start, *slices.reshape(-1).tolist()]),
        given,
        start,
        slices,
        body,
        [math.prod(x.aval.shape[1:]) for x in outputs],
        params["reverse"],
        _each_number([*flags, *out_flags], equation),
    )
    return _block_results(graph, block, equation)


def _while(graph, equation, values):
    """A loop over scalars, or over arrays if the former is too large.

    Stacking the arrays of a loop that is never entered would be wasted: the loop's first test
    guards it, and where the test fails the results are the initial carry.
    """
    params = equation.params
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    values = [*map(graph.settle, values[:second]), *values[second:]]
    of_test, of_body, carry = values[:first], values[first:second], values[second:]
    flags = programs.varying(equation, [_varies(graph, x) for x in values])
    left = graph.left
    try:
        return _repeat(graph, equation, of_test, of_body, carry, flags)
    except Unfit:
        graph.left = left
    if programs.weight(params["body_jaxpr"]) > graph.limits.seldom:
        raise Unfit
    (entered,) = trace(graph, params["cond_jaxpr"], [*of_test, *carry])
    return _whole(graph, equation, values, int(entered), _flat(carry))


def _repeat(graph, equation, of_test, of_body, carry, flags):
    params = equation.params
    given = _open(graph, _flat([*of_test, *of_body]))
    avals = [x.aval for x in equation.outvars]
    carried = list(zip(avals, flags, strict=True))
    test = _inside(graph, params["cond_jaxpr"], of_test, given, carried)
    body = _inside(graph, params["body_jaxpr"], of_body, given, carried)
    start, varies = _flat(carry), _each_number(flags, equation)
    inputs = _open(graph, [*given, *start])
    return _block_results(graph, Repeat(inputs, given, start, [test, body], varies), equation)


_RULES: dict[str, Callable] = MOVES | {"cond": _cond, "while": _while}
