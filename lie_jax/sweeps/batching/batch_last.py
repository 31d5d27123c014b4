"""Programs of one member, evaluated for a batch of members along the last axis of every array.

`jax.vmap` moves the batch to the front. The components of small vectors and matrices are then
innermost, too few of them for a processor's vector units. With the members innermost, every
operation takes several of them at a time.

A program is a jaxpr. Loops and branches are rebuilt around their evaluated bodies; operations on
arrays without a batch are applied as they are; operations that this module does not know go
through `jax.vmap`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lie_jax.numerics import jax_internals
from lie_jax.sweeps.batching.programs import Scan, depends, inline, varying

# Operations that act on each entry by itself.
_ELEMENTWISE = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bitcast_convert_type cbrt ceil clamp
    convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor
    ge gt imag integer_pow is_finite le lgamma log log1p logistic lt max min mul name ne neg
    nextafter not or pow real reduce_precision rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh
    xor
"""
_BY_ENTRY = frozenset(_ELEMENTWISE.split())
# Operations that take all entries along given axes together; members have another axis.
_REDUCTIONS = """
    argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min
    reduce_or reduce_prod reduce_sum rev split stack unstack
"""
_ALONG_AXES = frozenset(_REDUCTIONS.split())


class Value(NamedTuple):
    """An array, and whether its last axis are the members; without it all members share it."""

    array: Any
    batched: bool


# Other evaluation of a scan or a while loop: `loop(equation, values, size)` returns the results, or
# None to leave the loop as it is.
Loop = Callable[[Any, list[Value], int], list[Value] | None]


def elementwise(equation: Any) -> bool:
    """Whether an operation acts on each entry by itself."""
    name, params = equation.primitive.name, equation.params
    if name == "bitcast_convert_type":
        # Between numbers of other sizes it adds or removes an axis.
        return equation.invars[0].aval.shape == equation.outvars[0].aval.shape
    return name in _BY_ENTRY and not params.get("sharding")


def evaluate(
    program: Any, arguments: Sequence[Value], size: int, loop: Loop | None = None
) -> list[Value]:
    """Results of a program for `size` members; its constants come before its arguments."""
    jaxpr, _ = jax_internals.unpack(program)
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], arguments, strict=True))

    def read(x):
        # Newer JAX has flags and numbers of Python here, without a dtype.
        return Value(np.asarray(x.val, x.aval.dtype), False) if hasattr(x, "val") else known[x]

    for equation in jaxpr.eqns:
        computed = results(equation, [read(x) for x in equation.invars], size, loop)
        known.update(zip(equation.outvars, computed, strict=True))
    return [read(x) for x in jaxpr.outvars]


def inside(program: Any, arguments: Sequence[Value], size: int, loop: Loop | None) -> list[Value]:
    """Results of a program inside of another one, with its own constants."""
    _, constants = jax_internals.unpack(program)
    shared = [Value(x, False) for x in constants]
    return evaluate(program, [*shared, *arguments], size, loop)


def results(equation: Any, values: list[Value], size: int, loop: Loop | None = None) -> list[Value]:
    """Results of one equation for `size` members."""
    name = equation.primitive.name
    inner = inline(equation, values)
    if inner is not None:
        return inside(*inner, size, loop)
    if not any(x.batched for x in values):
        arrays = jax_internals.bind(equation, [x.array for x in values])
        return [Value(x, False) for x in arrays]
    if name in ("scan", "while"):
        computed = None if loop is None else loop(equation, values, size)
        if computed is not None:
            return computed
        return (_scan if name == "scan" else _while)(equation, values, size, loop)
    if name == "cond":
        return _cond(equation, values, size, loop)
    if name == "anywhere":
        return [Value(jnp.any(values[0].array, axis=-1), False)]
    if elementwise(equation):
        return _elementwise(equation, values, size)
    if name in _ALONG_AXES and not equation.params.get("out_sharding"):
        arrays = jax_internals.bind(equation, [members_last(x, size) for x in values])
        return [Value(x, True) for x in arrays]
    rule = _RULES.get(name)
    moved = rule(equation.params, values, size) if rule else None
    if moved is None:
        return _by_vmap(equation, values)
    return [Value(moved, True)]


def members_last(x: Value, size: int) -> Any:
    """The array with its members last."""
    if x.batched:
        return x.array
    shape = jnp.shape(x.array)
    return lax.broadcast_in_dim(x.array, (*shape, size), tuple(range(len(shape))))


def _elementwise(equation, values: list[Value], size: int) -> list[Value]:
    # Single numbers and axes of length one stand beside whole arrays.
    target = (*equation.outvars[0].aval.shape, size)

    def whole(x):
        dimensions = jnp.ndim(x.array) - x.batched
        axes = (*range(dimensions), len(target) - 1) if x.batched else tuple(range(dimensions))
        same = jnp.shape(x.array) == target
        return x.array if same else lax.broadcast_in_dim(x.array, target, axes)

    arrays = jax_internals.bind(equation, [whole(x) for x in values])
    return [Value(x, True) for x in arrays]


def _by_vmap(equation, values: list[Value]) -> list[Value]:
    def one(*arrays):
        return jax_internals.bind(equation, arrays)

    axes = tuple(-1 if x.batched else None for x in values)
    arrays = jax.vmap(one, in_axes=axes, out_axes=-1)(*(x.array for x in values))
    return [Value(x, True) for x in arrays]


def _broadcast(params, values, size):
    operand, *dynamic = values
    if dynamic or params["sharding"]:
        return None
    shape, axes = params["shape"], params["broadcast_dimensions"]
    return lax.broadcast_in_dim(operand.array, (*shape, size), (*axes, len(shape)))


def _reshape(params, values, size):
    if params["dimensions"] is not None or params["sharding"] or len(values) > 1:
        return None
    return lax.reshape(values[0].array, (*params["new_sizes"], size))


def _squeeze(params, values, size):
    return lax.squeeze(values[0].array, params["dimensions"])


def _transpose(params, values, size):
    order = params["permutation"]
    return lax.transpose(values[0].array, (*order, len(order)))


def _other_width(params, values, size):
    # The operation adds or removes the last axis: move the members to the front meanwhile.
    front = jnp.moveaxis(values[0].array, -1, 0)
    return jnp.moveaxis(lax.bitcast_convert_type(front, params["new_dtype"]), 0, -1)


def _tile(params, values, size):
    return lax.tile(values[0].array, (*params["reps"], 1))


def _slice(params, values, size):
    strides = params["strides"]
    return lax.slice(
        values[0].array,
        (*params["start_indices"], 0),
        (*params["limit_indices"], size),
        None if strides is None else (*strides, 1),
    )


def _pad(params, values, size):
    operand, padding = values
    if padding.batched:
        return None
    return lax.pad(
        members_last(operand, size), padding.array, (*params["padding_config"], (0, 0, 0))
    )


def _concatenate(params, values, size):
    return lax.concatenate([members_last(x, size) for x in values], params["dimension"])


def _dynamic_slice(params, values, size):
    operand, *indices = values
    if any(x.batched for x in indices):
        return None
    starts = [x.array for x in indices]
    starts.append(jnp.zeros((), starts[0].dtype) if starts else 0)
    sizes = (*params["slice_sizes"], size)
    # Tracing has already converted indices that count from the end: the operation clamps others.
    return lax.dynamic_slice(operand.array, starts, sizes, allow_negative_indices=False)


def _dynamic_update_slice(params, values, size):
    operand, update, *indices = values
    if any(x.batched for x in indices):
        return None
    starts = [x.array for x in indices]
    starts.append(jnp.zeros((), starts[0].dtype) if starts else 0)
    arrays = members_last(operand, size), members_last(update, size)
    return lax.dynamic_update_slice(*arrays, starts, allow_negative_indices=False)


_RULES: dict[str, Callable] = {
    "bitcast_convert_type": _other_width,
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "squeeze": _squeeze,
    "tile": _tile,
    "transpose": _transpose,
}


def _scan(equation, values: list[Value], size: int, loop: Loop | None) -> list[Value]:
    parts = Scan.of(equation)
    constants, carry, inputs = parts.split(values)
    flags, out_flags = parts.varying([x.batched for x in values])

    def body(carry, rows):
        arguments = [
            *constants,
            *map(Value, carry, flags),
            *(Value(x, y.batched) for x, y in zip(rows, inputs, strict=True)),
        ]
        results = inside(parts.body, arguments, size, loop)
        carry = [
            members_last(x, size) if flag else x.array
            for x, flag in zip(results, flags, strict=False)
        ]
        return carry, [x.array for x in results[len(flags) :]]

    start = [
        members_last(x, size) if flag else x.array for x, flag in zip(carry, flags, strict=True)
    ]
    end, outputs = lax.scan(
        body,
        start,
        [x.array for x in inputs],
        length=equation.params["length"],
        reverse=equation.params["reverse"],
        unroll=equation.params["unroll"],
    )
    return [*map(Value, end, flags), *map(Value, outputs, out_flags)]


def _while(equation, values: list[Value], size: int, loop: Loop | None) -> list[Value]:
    params = equation.params
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    of_test, of_body, carry = values[:first], values[first:second], values[second:]
    flags = varying(equation, [x.batched for x in values])
    (each,) = depends(params["cond_jaxpr"], [*(x.batched for x in of_test), *flags])

    def test(arrays):
        arguments = [*of_test, *map(Value, arrays, flags)]
        return inside(params["cond_jaxpr"], arguments, size, loop)[0].array

    def body(arrays):
        arguments = [*of_body, *map(Value, arrays, flags)]
        results = inside(params["body_jaxpr"], arguments, size, loop)
        after = [
            members_last(x, size) if flag else x.array
            for x, flag in zip(results, flags, strict=True)
        ]
        if not each:
            return after
        # Members that have finished keep what they have.
        going = test(arrays)
        return [jnp.where(going, x, y) for x, y in zip(after, arrays, strict=True)]

    start = [
        members_last(x, size) if flag else x.array for x, flag in zip(carry, flags, strict=True)
    ]
    end = lax.while_loop(lambda x: jnp.any(test(x)), body, start)
    return list(map(Value, end, flags))


def _cond(equation, values: list[Value], size: int, loop: Loop | None) -> list[Value]:
    branches = equation.params["branches"]
    index, *operands = values
    if index.batched:
        results = [inside(branch, operands, size, loop) for branch in branches]
        merged = [_chosen(index.array, x, size) for x in zip(*results, strict=True)]
        return [Value(x, True) for x in merged]
    given = [x.batched for x in operands]
    flags = [any(x) for x in zip(*(depends(branch, given) for branch in branches), strict=True)]

    def runner(branch):
        def run(*arrays):
            arguments = [Value(x, flag) for x, flag in zip(arrays, given, strict=True)]
            results = inside(branch, arguments, size, loop)
            return [
                members_last(x, size) if flag else x.array
                for x, flag in zip(results, flags, strict=True)
            ]

        return run

    arrays = lax.switch(index.array, [runner(x) for x in branches], *(x.array for x in operands))
    return list(map(Value, arrays, flags))


def _chosen(index, results: tuple[Value, ...], size: int):
    arrays = [members_last(x, size) for x in results]
    which = lax.broadcast_in_dim(index, arrays[0].shape, (arrays[0].ndim - 1,))
    return lax.select_n(which, *arrays)
