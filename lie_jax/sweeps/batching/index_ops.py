"""Operations on arrays as operations on the numbers of their entries.

Each function takes a graph, the equation and the numbers of its operands and returns those of its
results, or None where it does not know the case.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from lie_jax.numerics import jax_internals
from lie_jax.sweeps.batching.scalar_graph import Graph

# An index that is no constant chooses among so many places at most.
_PLACES = 64


def _reshape(graph, equation, values):
    if equation.params.get("dimensions") is not None or len(values) > 1:
        return None
    return [values[0].reshape(equation.outvars[0].aval.shape)]


def _squeeze(graph, equation, values):
    return [values[0].reshape(equation.outvars[0].aval.shape)]


def _broadcast(graph, equation, values):
    if len(values) > 1:
        return None
    shape = equation.params["shape"]
    own = [1] * len(shape)
    for size, axis in zip(values[0].shape, equation.params["broadcast_dimensions"], strict=True):
        own[axis] = size
    return [np.broadcast_to(values[0].reshape(own), shape)]


def _transpose(graph, equation, values):
    return [values[0].transpose(equation.params["permutation"])]


def _tile(graph, equation, values):
    return [np.tile(values[0], equation.params["reps"])]


def _slice(graph, equation, values):
    params = equation.params
    strides = params["strides"] or (1,) * values[0].ndim
    ranges = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return [values[0][tuple(slice(*x) for x in ranges)]]


def _pad(graph, equation, values):
    operand, padding = values
    config = equation.params["padding_config"]
    if any(low < 0 or high < 0 for low, high, _ in config):
        return None
    found = np.full(equation.outvars[0].aval.shape, int(padding))
    places = (
        slice(low, low + max(0, (size - 1) * (inner + 1) + 1), inner + 1)
        for (low, _, inner), size in zip(config, operand.shape, strict=True)
    )
    found[tuple(places)] = operand
    return [found]


def _concatenate(graph, equation, values):
    return [np.concatenate(values, axis=equation.params["dimension"])]


def _split(graph, equation, values):
    ends = np.cumsum(equation.params["sizes"])[:-1]
    return np.split(values[0], ends, axis=equation.params["axis"])


def _stack(graph, equation, values):
    return [np.stack(values, axis=equation.params["axis"])]


def _unstack(graph, equation, values):
    first = np.moveaxis(values[0], equation.params["axis"], 0)
    return [np.asarray(x) for x in first]


def _reverse(graph, equation, values):
    return [np.flip(values[0], equation.params["dimensions"])]


def _iota(graph, equation, values):
    if values:
        return None
    params = equation.params
    own = [1] * len(params["shape"])
    own[params["dimension"]] = -1
    numbers = np.arange(params["shape"][params["dimension"]]).astype(params["dtype"])
    return [graph.constants(np.broadcast_to(numbers.reshape(own), params["shape"]))]


def _in_front(array: np.ndarray, axes) -> list[np.ndarray]:
    moved = np.moveaxis(array, axes, range(len(axes)))
    count = math.prod(array.shape[axis] for axis in axes)
    return list(map(np.asarray, moved.reshape(count, *moved.shape[len(axes) :])))


def _zeros(graph: Graph, equation) -> np.ndarray:
    aval = equation.outvars[0].aval
    return np.broadcast_to(graph.constants(np.zeros((), aval.dtype)), aval.shape)


def _nothing(graph: Graph, equation) -> np.ndarray:
    """What a reduction makes of no entries, as JAX has it."""
    aval = equation.outvars[0].aval
    with jax.ensure_compile_time_eval():
        empty = np.zeros(equation.invars[0].aval.shape, aval.dtype)
        (found,) = jax_internals.bind(equation, [empty])
        return graph.constants(np.asarray(found))


def _reduction_rule(primitive: Any) -> Callable:
    def rule(graph: Graph, equation, values):
        rows = _in_front(values[0], equation.params["axes"])
        if not len(rows):
            return [_nothing(graph, equation)]
        found = rows[0]
        for row in rows[1:]:
            found = graph.apply(primitive, {}, equation.outvars[0].aval.dtype, found, row)
        return [found]

    return rule


def _extreme(better: Any) -> Callable:
    def rule(graph: Graph, equation, values):
        rows = _in_front(values[0], equation.params["axes"])
        aval, flag = equation.outvars[0].aval, np.dtype(bool)
        dtype = equation.invars[0].aval.dtype
        if len(equation.params["axes"]) > 1:
            return None
        best, place = rows[0], np.broadcast_to(graph.constants(aval.dtype.type(0)), aval.shape)
        for i, row in enumerate(rows[1:], 1):
            # The first of equal entries, and the first that is no number.
            more = graph.apply(better, {}, flag, row, best)
            new = graph.apply(lax.ne_p, {}, flag, row, row)
            fine = graph.apply(lax.eq_p, {}, flag, best, best)
            more = graph.apply(lax.or_p, {}, flag, more, new)
            more = graph.apply(lax.and_p, {}, flag, more, fine)
            best = graph.apply(lax.select_n_p, {}, dtype, more, best, row)
            own = graph.constants(aval.dtype.type(i))
            place = graph.apply(lax.select_n_p, {}, aval.dtype, more, place, own)
        return [place]

    return rule


def _cumulative_sum(graph, equation, values):
    params, dtype = equation.params, equation.outvars[0].aval.dtype
    rows = _in_front(values[0], (params["axis"],))
    if not rows:
        return [values[0]]
    rows = rows[::-1] if params["reverse"] else rows
    for i in range(1, len(rows)):
        rows[i] = graph.apply(lax.add_p, {}, dtype, rows[i - 1], rows[i])
    rows = rows[::-1] if params["reverse"] else rows
    return [np.stack(rows, axis=params["axis"])]


def _dot(graph, equation, values):
    contracted, batch = equation.params["dimension_numbers"]
    dtype = equation.outvars[0].aval.dtype
    if dtype.kind == "b" or any(x.aval.dtype != dtype for x in equation.invars):
        return None
    factors, sizes = [], []
    for value, summed, shared in zip(values, contracted, batch, strict=True):
        free = [i for i in range(value.ndim) if i not in (*summed, *shared)]
        moved = value.transpose(*summed, *shared, *free)
        sizes.append([value.shape[i] for i in free])
        pairs = [math.prod(value.shape[i] for i in axes) for axes in (summed, shared)]
        factors.append(moved.reshape(*pairs, math.prod(sizes[-1])))
    left, right = factors[0][:, :, :, None], factors[1][:, :, None, :]
    if not len(left):
        return None
    terms = [graph.apply(lax.mul_p, {}, dtype, a, b) for a, b in zip(left, right, strict=True)]
    found = terms[0]
    for term in terms[1:]:
        found = graph.apply(lax.add_p, {}, dtype, found, term)
    return [found.reshape(equation.outvars[0].aval.shape)]


def _gather(graph, equation, values):
    operand, indices = values
    known = [graph.value_of(x) for x in indices.reshape(-1).tolist()]
    if any(x is None for x in known):
        return _gather_unknown(graph, equation, operand, indices)
    found = _gathered(equation, operand, np.asarray(known).reshape(indices.shape))
    # Nothing but a number fills what is outside.
    return None if np.any(found < 0) else [found]


def _gathered(equation, operand: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Numbers at known indices, -1 for what is outside."""
    params = dict(equation.params, fill_value=-1)
    with jax.ensure_compile_time_eval():
        index = np.asarray(indices, equation.invars[1].aval.dtype)
        found = np.asarray(lax.gather_p.bind(np.asarray(operand, np.int32), index, **params))
    return found.astype(int)


def _gather_unknown(graph, equation, operand, indices):
    """Slices of length one along one axis, each chosen among all places."""
    params, out = equation.params, equation.outvars[0].aval
    where = params["dimension_numbers"]
    is_filled = params["mode"] == lax.GatherScatterMode.FILL_OR_DROP
    if (
        len(where.start_index_map) != 1
        or where.operand_batching_dims
        or where.start_indices_batching_dims
    ):
        return None
    axis = where.start_index_map[0]
    places, dtype = operand.shape[axis], equation.invars[1].aval.dtype
    if params["slice_sizes"][axis] != 1 or not 0 < places <= _PLACES:
        return None
    fill = params["fill_value"]
    if is_filled and fill is None:
        if not np.issubdtype(out.dtype, np.floating):
            return None
        fill = np.nan
    # The axes of the result that are not those of a slice are those of the indices.
    own = [1 if i in where.offset_dims else n for i, n in enumerate(out.shape)]
    number = np.broadcast_to(indices[..., 0].reshape(own), out.shape)
    found = _gathered(equation, operand, np.zeros_like(indices))
    for place in range(1, places):
        beyond = graph.apply(lax.ge_p, {}, bool, number, graph.constants(dtype.type(place)))
        other = _gathered(equation, operand, np.full_like(indices, place))
        found = graph.apply(lax.select_n_p, {}, out.dtype, beyond, found, other)
    if is_filled:
        nothing = graph.constants(np.asarray(fill, out.dtype))
        for compare, bound in ((lax.lt_p, 0), (lax.ge_p, places)):
            outside = graph.apply(compare, {}, bool, number, graph.constants(dtype.type(bound)))
            found = graph.apply(lax.select_n_p, {}, out.dtype, outside, found, nothing)
    return [found]


def _starts(graph, numbers, shape, sizes):
    """Each start as a constant within its bounds, or as a number."""
    for number, length, size in zip(numbers, shape, sizes, strict=True):
        # On an axis as long as the slice there is one start, whatever the index.
        known = 0 if length == size else graph.value_of(int(number))
        yield None if known is None else min(max(int(known), 0), length - size)


def _dynamic_slice(graph, equation, values):
    found, *numbers = values
    sizes = equation.params["slice_sizes"]
    starts = list(_starts(graph, numbers, found.shape, sizes))
    for axis, (start, number, size) in enumerate(zip(starts, numbers, sizes, strict=True)):
        places = range(found.shape[axis] - size + 1)
        if start is None and len(places) > _PLACES:
            return None
        views = np.lib.stride_tricks.sliding_window_view(found, size, axis=axis)
        views = np.moveaxis(np.moveaxis(views, axis, 0), -1, axis + 1)
        if start is not None:
            found = views[start]
            continue
        dtype, own = equation.outvars[0].aval.dtype, equation.invars[1 + axis].aval.dtype
        found = views[0]
        for place in places[1:]:
            bound = graph.constants(own.type(place))
            beyond = graph.apply(lax.ge_p, {}, bool, number, bound)
            found = graph.apply(lax.select_n_p, {}, dtype, beyond, found, views[place])
    return [found]


def _dynamic_update_slice(graph, equation, values):
    operand, update, *numbers = values
    starts = list(_starts(graph, numbers, operand.shape, update.shape))
    unknown = [axis for axis, start in enumerate(starts) if start is None]
    if len(unknown) > 1:
        return None
    found = operand.copy()
    where = [
        slice(x, x + n)
        for x, n in zip(map(int, (x or 0 for x in starts)), update.shape, strict=True)
    ]
    if not unknown:
        found[tuple(where)] = update
        return [found]
    (axis,) = unknown
    places = operand.shape[axis]
    if update.shape[axis] != 1 or places > _PLACES:
        return None
    own, dtype = equation.invars[2 + axis].aval.dtype, equation.outvars[0].aval.dtype
    for place in range(places):
        # The first and the last place take what lies outside; there are two at least.
        compare = lax.le_p if place == 0 else lax.ge_p if place == places - 1 else lax.eq_p
        here = graph.apply(compare, {}, bool, numbers[axis], graph.constants(own.type(place)))
        where[axis] = slice(place, place + 1)
        old = operand[tuple(where)]
        found[tuple(where)] = graph.apply(lax.select_n_p, {}, dtype, here, old, update)
    return [found]


MOVES: dict[str, Callable] = {
    "argmax": _extreme(lax.gt_p),
    "argmin": _extreme(lax.lt_p),
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "cumsum": _cumulative_sum,
    "dot_general": _dot,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "iota": _iota,
    "pad": _pad,
    "reduce_and": _reduction_rule(lax.and_p),
    "reduce_max": _reduction_rule(lax.max_p),
    "reduce_min": _reduction_rule(lax.min_p),
    "reduce_or": _reduction_rule(lax.or_p),
    "reduce_prod": _reduction_rule(lax.mul_p),
    "reduce_sum": _reduction_rule(lax.add_p),
    "reshape": _reshape,
    "rev": _reverse,
    "slice": _slice,
    "split": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "transpose": _transpose,
    "unstack": _unstack,
}
