"""A function that XLA compiles for the CPU into one native function.

XLA runs a program on the CPU as a sequence of kernels, and each costs some 30 ns to start, more
than the arithmetic of a few small matrices. What it knows as a small call becomes one kernel. It
gives that mark itself to small loops only; here a function gets it where nothing in the function
needs a kernel of its own, which is decided when the program is lowered, after all transformations.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo as hlo
from jax.interpreters import ad, batching, mlir

# An unknown version of XLA may end the process where this one does not: see `_pinned`.
_VERSIONS = ("0.10.1",)
_ATTRIBUTES, _PINNED = "mhlo.frontend_attributes", "lie_jax.pinned"
_NAME = "one_function"
# Sums over so many numbers, and products of two matrices with a longer side, go to a library.
_SMALL_SUM, _SMALL_PRODUCT = 4096, 6
# What XLA compiles in place. Other operations (solutions by LAPACK, scatters, sorts, callbacks,
# communication) are calls of libraries, which a small call cannot hold.
_OPERATIONS = """
    abs acos acosh add and asin asinh atan atan2 atanh broadcast broadcast_add broadcast_in_dim
    broadcast_multiply case cbrt ceil clamp compare complex concatenate constant constant_like
    convert cosh cosine count_leading_zeros digamma divide dot_general dynamic_slice
    dynamic_update_slice erf erf_inv erfc exponential exponential_minus_one floor gather
    get_tuple_element if imag iota is_finite lgamma log log_plus_one logistic maximum minimum
    multiply negate not optimization_barrier or pad popcnt power real reduce reduce_precision
    remainder reshape return reverse round_nearest_afz round_nearest_even rsqrt select shift_left
    shift_right_arithmetic shift_right_logical sign sine sinh slice sqrt square subtract tan tanh
    transpose tuple while xor
"""
_PLAIN = frozenset(_OPERATIONS.split())


def one_function(function: Callable, *arguments: Any) -> Any:
    """function(*arguments), on the CPU compiled into one native function if it is small enough.

    Arguments and results are pytrees; what is not an array in them is static. Derivatives and
    batches are as without it. On other devices, and where the function holds more than arithmetic
    on small arrays, nothing changes but that the compiler may see a call.
    """
    arrays, static = eqx.partition(arguments, _is_filled)

    def filled(arrays):
        numbers, rest = eqx.partition(function(*eqx.combine(arrays, static)), _is_filled)
        empty, rest = eqx.partition(rest, eqx.is_array)
        # What has no entries is made anew outside.
        others.append((jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), empty), rest))
        return numbers

    others: list = []
    filled.__name__ = _NAME
    # In reverse mode the marks of the arguments are those of the call that goes back.
    numbers = _marked(jax.jit(filled)(_marked(arrays)))
    empty, rest = others[-1]
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), empty)
    return eqx.combine(numbers, empty, rest)


def _is_filled(x: Any) -> bool:
    return eqx.is_array(x) and x.size > 0


def _marked(tree: Any) -> Any:
    return jax.tree.map(_mark.bind, tree)


def _marks():
    marks = {"inlineable": "false", "xla_cpu_small_call": "true"}
    return ir.DictAttr.get({key: ir.StringAttr.get(text) for key, text in marks.items()})


def _greater():
    return hlo.ComparisonDirectionAttr.get("GT")


_mark = Primitive("mark_" + _NAME)
_mark.def_impl(lambda x: x)
_mark.def_abstract_eval(lambda x: x)
batching.defvectorized(_mark)
ad.deflinear2(_mark, lambda cotangent, _: (_mark.bind(cotangent),))


def _lowered(context, value):
    module = context.module_context
    if tuple(module.platforms) == ("cpu",) and jax.__version__ in _VERSIONS:
        for call in _calls(value):
            function = module.symbol_table[_callee(call)]
            if _small(module.symbol_table, _callee(call)) and _pinned(function):
                call.attributes[_ATTRIBUTES] = _marks()
    return [value]


mlir.register_lowering(_mark, _lowered, cacheable=False)


def _calls(value: Any) -> list:
    """The call that a value comes from, and those that only give that call its arguments: what
    reverse mode computes again before it goes back.
    """
    call = value.owner
    if isinstance(call, ir.Block) or _NAME not in _callee(call.operation):
        return []
    before = {id(x.owner): x.owner for x in call.operands if not isinstance(x.owner, ir.Block)}
    own = [other.operation for other in before.values() if _NAME in _callee(other.operation)]
    return [call.operation, *own]


def _callee(operation: Any) -> str:
    if operation.name != "func.call":
        return ""
    return ir.FlatSymbolRefAttr(operation.attributes["callee"]).value


def _small(functions: Any, name: str) -> bool:
    pending, seen, small = [name], {name}, True

    def visit(operation):
        nonlocal small
        kind = operation.name.removeprefix("stablehlo.").removeprefix("chlo.")
        if operation.name == "func.call":
            callee = _callee(operation)
            if callee not in seen:
                seen.add(callee)
                pending.append(callee)
        elif operation.name not in ("func.func", "func.return"):
            small = kind in _PLAIN and not _needs_library(kind, operation)
        return ir.WalkResult.ADVANCE if small else ir.WalkResult.INTERRUPT

    while pending and small:
        functions[pending.pop()].operation.walk(visit)
    return small


def _needs_library(kind: str, operation: Any) -> bool:
    if kind == "reduce":
        return max(_count(x.type) for x in operation.operands) >= _SMALL_SUM
    if kind != "dot_general":
        return False
    left, right = (ir.RankedTensorType(x.type).shape for x in operation.operands)
    where = hlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    batch = int(np.prod([left[k] for k in where.lhs_batching_dimensions]))
    summed = int(np.prod([left[k] for k in where.lhs_contracting_dimensions]))
    rows = int(np.prod(left)) // max(batch * summed, 1)
    columns = int(np.prod(right)) // max(batch * summed, 1)
    return min(rows, columns, summed) > 1 and max(rows, columns, summed) > _SMALL_PRODUCT


def _count(kind: Any) -> int:
    return int(np.prod(ir.RankedTensorType(kind).shape))


def _pinned(function: Any) -> bool:
    """Make a function depend on all its arguments, whatever XLA finds out about them later.

    XLA ends the process at an argument of a small call that nothing uses. One result becomes
    select(|x| > infinity, -result, result), x a sum with all arguments in it: the processor never
    sees that test, for LLVM knows the outcome. Returns whether it could be done.
    """
    if _PINNED in function.attributes:
        return True
    (block,) = function.regions[0].blocks
    end = list(block.operations)[-1]
    arguments = [x for x in block.arguments if _count(x.type)]
    if any("complex" in str(x.type) for x in (*arguments, *end.operands)):
        return False
    filled = [k for k, x in enumerate(end.operands) if _count(x.type)]
    if not filled:
        return False
    with ir.InsertionPoint(end), ir.Location.unknown():
        number = ir.F32Type.get()
        scalar = ir.RankedTensorType.get((), number)
        total = hlo.constant(ir.DenseElementsAttr.get_splat(scalar, ir.FloatAttr.get(number, 0.0)))
        for x in arguments:
            rank = ir.RankedTensorType(x.type).rank
            first = hlo.slice(x, [0] * rank, [1] * rank, [1] * rank) if rank else x
            own = ir.RankedTensorType.get((), ir.RankedTensorType(x.type).element_type)
            total = hlo.add(total, hlo.convert(scalar, hlo.reshape(own, first)))
        infinity = hlo.constant(
            ir.DenseElementsAttr.get_splat(scalar, ir.FloatAttr.get(number, np.inf))
        )
        beyond = hlo.compare(hlo.abs(total), infinity, _greater())
        place = min(filled, key=lambda k: _count(end.operands[k].type))
        result = end.operands[place]
        is_bool = str(ir.RankedTensorType(result.type).element_type) == "i1"
        other = hlo.not_(result) if is_bool else hlo.negate(result)
        end.operands[place] = hlo.select(beyond, other, result)
    function.attributes[_PINNED] = ir.UnitAttr.get()
    return True
