"""Time loops that XLA compiles into one function on the CPU.

On its own, XLA runs a loop on the CPU as one kernel after the other, 20 to 50 ns each: for small
systems many times what the arithmetic costs. A call with the attribute `xla_cpu_small_call` becomes
one native function with all its loops; XLA itself sets it for loops below a size that only
`XLA_FLAGS` can change (see `lie_jax.configure_cpu`). Here it is set, where `ENABLED`, for the calls
that gain by it: of small arrays, on the CPU, made of what such a function can hold. The results
differ in the last digits at most. A version of XLA that does not know the attribute ignores it.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters.mlir import ir

# Arrays from this number of elements on keep kernels busy: batches of some 40 bodies are as fast in
# either way, larger ones many times slower in one function. From 4096 elements on, XLA hands sums
# to a library, which such a function cannot call.
_LARGE = 1024

# Operations that such a function cannot hold: library calls, and what is compiled apart.
_UNAVAILABLE = frozenset({
    *("stablehlo.custom_call", "stablehlo.scatter", "stablehlo.sort", "stablehlo.fft"),
    *("stablehlo.cholesky", "stablehlo.triangular_solve", "stablehlo.convolution"),
    *("stablehlo.select_and_scatter", "stablehlo.rng_bit_generator", "stablehlo.infeed"),
    *("stablehlo.outfeed", "stablehlo.send", "stablehlo.recv", "stablehlo.all_gather"),
    *("stablehlo.all_reduce", "stablehlo.all_to_all", "stablehlo.reduce_scatter"),
    *("stablehlo.collective_permute", "stablehlo.collective_broadcast"),
    *("stablehlo.partition_id", "stablehlo.replica_id"),
})  # fmt: skip
# Moving parts of a trajectory, however long it is, is nothing that the above concerns.
_MOVING = frozenset({
    *("stablehlo.while", "stablehlo.case", "stablehlo.if", "stablehlo.return", "func.return"),
    *("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice", "stablehlo.slice"),
    *("stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.concatenate"),
    *("stablehlo.constant", "stablehlo.iota", "stablehlo.pad", "func.func"),
    *("stablehlo.optimization_barrier", "stablehlo.tuple", "stablehlo.get_tuple_element"),
})  # fmt: skip


_ATTRIBUTES = "mhlo.frontend_attributes"

# Off: the XLA of jaxlib 0.10.1 stops the process ("All or none of the slices should have an
# explicit index") in some programs that are marked so and differentiated, for a reason not known
# yet. With `lie_jax.configure_cpu` XLA marks the loops itself and runs them as fast.
ENABLED = False


def call(function: Callable, *arguments: Any) -> Any:
    """`function(*arguments)`, compiled into one function of its own where that is possible.

    Takes and returns pytrees; parts that are no arrays count as constants.
    """
    arrays, rest = eqx.partition(arguments, eqx.is_array)

    @jax.jit
    def of_arrays(arrays):
        return function(*eqx.combine(arrays, rest))

    return _marked(of_arrays(_marked(arrays)))


def _marked(tree: Any) -> Any:
    return jax.tree.map(_mark.bind, tree)


def _lower(context, value):
    # The mark is the identity; what it is put on is the call that made the value. Reverse mode
    # marks the call of the backward pass through the arguments' marks.
    operation = _owner(value)
    if operation is not None and operation.name == "func.call":
        module = context.module_context
        new = _ATTRIBUTES not in operation.attributes
        on_cpu = tuple(module.platforms) == ("cpu",)
        if ENABLED and new and on_cpu and _possible(operation, module, set()):
            names = ("inlineable", "false"), ("xla_cpu_small_call", "true")
            operation.attributes[_ATTRIBUTES] = ir.DictAttr.get(
                {name: ir.StringAttr.get(text) for name, text in names}
            )
    return [value]


def _owner(value: Any) -> Any:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else getattr(owner, "operation", owner)


def _possible(operation: Any, module: Any, seen: set[str]) -> bool:
    """Whether all that a call leads to fits in one function."""
    name = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
    if name in seen:
        return True
    seen.add(name)
    found = []

    def look(inner: Any):
        found.append(inner)
        return ir.WalkResult.ADVANCE

    module.symbol_table[name].operation.walk(look)
    return all(_fits(inner, module, seen) for inner in found)


def _fits(operation: Any, module: Any, seen: set[str]) -> bool:
    if operation.name == "func.call":
        return _possible(operation, module, seen)
    if operation.name in _UNAVAILABLE:
        return False
    if operation.name in _MOVING:
        return True
    values = (*operation.operands, *operation.results)
    return all(_size(value.type) < _LARGE for value in values)


def _size(kind: Any) -> int:
    try:
        kind = ir.RankedTensorType(kind)
    except ValueError:
        return 0
    size = 1
    for dimension in kind.shape:
        size *= dimension
    return size


_mark = Primitive("one_function")
_mark.def_impl(lambda value: value)
_mark.def_abstract_eval(lambda value: value)
ad.deflinear2(_mark, lambda cotangent, _: [_mark.bind(cotangent)])
batching.primitive_batchers[_mark] = lambda values, axes: (_mark.bind(values[0]), axes[0])
mlir.register_lowering(_mark, _lower, cacheable=False)
