"""Parts of a program as functions of their own, as XLA compiles them for the CPU.

XLA makes one function of a time loop, or a kernel of each array operation in it. In the one
function hundreds of small loops are nested, and LLVM takes time squared in their number; kernels
cost more than what they compute. A part is in between: a function of its own that the loop calls.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.numerics import jax_internals
from lie_jax.numerics.calls import Program, trace_call

P = ParamSpec("P")
T = TypeVar("T")

# Releases that compile such functions, and from how many numbers on they leave a sum to a library,
# which they refuse inside of one.
_SUMS = {"0.10": math.inf, "0.11": 4096, "0.12": 4096}
# Products of matrices with so many rows or columns are a library's, except those with a vector.
_PRODUCT = 8
# XLA compiles a call that is marked so, and not inlined, as a function.
_MARKS = {"xla_cpu_small_call": "true", "inlineable": "false"}
# What such a function may contain. XLA raises errors for sorts, scatters, callbacks and calls of
# libraries inside of one; what is not known to compile is left outside.
_CALLS = """jit pjit closed_call core_call custom_jvp_call custom_vjp_call remat2 checkpoint
    custom_linear_solve custom_vmap_call scan while cond value_with_rule anywhere
    native name"""
_BY_ENTRY = """abs acos acosh add add_any and asin asinh atan atan2 atanh
    bitcast_convert_type cbrt ceil clamp
    convert_element_type copy copy_p cos cosh div eq erf erf_inv erfc exp exp2 expm1 floor ge gt
    integer_pow is_finite le log log1p logistic lt max min mul ne neg nextafter not or pow rem
    round rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt
    square stop_gradient sub tan tanh xor"""
_BY_SHAPE = """broadcast_in_dim concatenate dynamic_slice dynamic_update_slice expand_dims gather
    empty empty2 iota pad reshape rev slice split squeeze stack tile transpose unstack
    optimization_barrier"""
_SUMS_BY_NAME = """argmax argmin cumsum dot_general reduce_and reduce_max reduce_min reduce_or
    reduce_prod reduce_sum"""
_SUMMED = frozenset(_SUMS_BY_NAME.split())
_COMPILED = frozenset(f"{_CALLS} {_BY_ENTRY} {_BY_SHAPE}".split()) | _SUMMED


def part(function: Callable[P, T]) -> Callable[P, T]:
    """`function` of pytrees, compiled for the CPU as one function that is not taken apart.

    Its values are those of the function, and so are derivatives of any order and mode, and batches.
    It is called as it is where it contains what XLA refuses to compile so, with releases of JAX
    that were not tried, and for arrays on several devices.
    """
    traced: Any = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not compiles_for((args, kwargs)):
            return traced(*args, **kwargs)
        program, leaves, together = trace_call(traced, args, kwargs)
        if not _compiles(program):
            return traced(*args, **kwargs)
        return together(_primitive()(*leaves, program=program))

    return call


def compiles_for(arguments: Any) -> bool:
    """Whether this release compiles parts for the arrays of such arguments."""
    arrays = jax.tree.leaves(eqx.filter(arguments, eqx.is_array))
    return _release() in _SUMS and all(map(jax_internals.is_plain, map(jnp.asarray, arrays)))


def call(program: Program, arguments: Sequence) -> list[Any]:
    """Results of a program as one part."""
    return _primitive()(*arguments, program=program)


def compiles(equation: Any) -> bool:
    """Whether an equation may be in a part."""
    inner = itertools.chain(*map(jax_internals.equations, jax_internals.inside(equation)))
    return _is_compiled(equation) and all(map(_is_compiled, inner))


def _release() -> str:
    return ".".join(jax.__version__.split(".")[:2])


def _compiles(program: Program) -> bool:
    return not program.has_effects and all(map(_is_compiled, jax_internals.equations(program)))


def _is_compiled(equation: Any) -> bool:
    name = equation.primitive.name
    if name == "scatter":
        # XLA makes an update of a slice of one with a single window, as batches of such updates.
        return equation.invars[1].aval.ndim == 1
    if name == "call_hi_primitive":
        # JAX 0.12 has these as primitives of its own.
        return type(equation.params["_prim"]).__name__ in ("Frexp", "Ldexp")
    if name == "dot_general" and not _is_small(equation):
        return False
    if name in _SUMMED and max(x.aval.size for x in equation.invars) >= _SUMS[_release()]:
        return False
    return name in _COMPILED


def _is_small(product: Any) -> bool:
    (left, right), batch = product.params["dimension_numbers"]
    shapes = [x.aval.shape for x in product.invars]

    def free(shape, summed, batched):
        return math.prod(n for i, n in enumerate(shape) if i not in (*summed, *batched))

    rows, columns = (free(*each) for each in zip(shapes, (left, right), batch, strict=True))
    summed = math.prod(shapes[0][i] for i in left)
    return min(rows, columns) == 1 or max(rows, columns, summed) < _PRODUCT


@functools.cache
def _primitive() -> Callable:
    return jax_internals.call_primitive("native", _lower)


def _lower(program: Program, arguments: Sequence) -> list[Any]:
    if not _compiles(program):
        # The transpose of a gather is a scatter.
        return program(*arguments)
    some = [i for i, x in enumerate(arguments) if x.size]

    def function(*given):
        values = [np.zeros(x.shape, x.dtype) for x in arguments]
        for i, x in zip(some, given, strict=True):
            values[i] = x
        results = program(*values)
        # XLA ends the process if a parameter of such a function is used by nothing.
        return results, [jax.lax.reshape(x, (x.size,))[:1] for x in given]

    call = jax_internals.call_with_attributes(function, **_MARKS)
    if call is None or not some:
        return program(*arguments)
    # Without the barrier XLA puts constants in the place of parameters, which then nothing uses.
    results, _ = call(*jax.lax.optimization_barrier([arguments[i] for i in some]))
    return results
