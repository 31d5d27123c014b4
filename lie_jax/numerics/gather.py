"""Gather of rows at constant indices, and its transpose: sums of rows at constant indices.

An index of -1 stands for no row. Consecutive rows are sliced, and a few runs of them joined. Others
come from a product with a constant 0/1 matrix, whose reverse mode needs no scatter, or by indexing
where that matrix is large.
"""

import functools
from itertools import groupby

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Entries of a 0/1 matrix beyond which joining so many slices costs less than a product with it.
_SMALL, _FEW = 256, 8
# Entries of a 0/1 matrix beyond which a product with it costs more than indexing.
_LARGE = 1024
# Rows that XLA adds up in one go on a CPU.
_WINDOW = 32


def pick(
    indices: tuple[int, ...], values: Float[Array, "n ..."], axis: int = 0
) -> Float[Array, "indices ..."]:
    """Rows of `values` along `axis` at constant indices; zeros for an index of -1."""
    missing, run = _run(indices)
    if missing == len(indices):
        return _zeros(values, missing, axis)
    if run:
        rows = jax.lax.slice_in_dim(values, run[0], run[-1] + 1, axis=axis)
        return _pad(rows, missing, 0, axis) if missing else rows
    if _is_one(indices):
        row = jax.lax.slice_in_dim(values, indices[0], indices[0] + 1, axis=axis)
        return jnp.repeat(row, len(indices), axis=axis)
    runs = _few_runs(indices, values.shape[axis])
    if runs:
        return jnp.concatenate([_rows(values, *run, axis) for run in runs], axis=axis)
    rows = jnp.moveaxis(values, axis, 0)
    n = rows.shape[0]
    if len(indices) * n > _LARGE:
        picked = _pad(rows, 0, 1, 0)[np.asarray(indices)]
    else:
        picked = _product(_selection(indices, n), rows)
    return jnp.moveaxis(picked, 0, axis)


def add_up(
    indices: tuple[int, ...], values: Float[Array, "indices ..."], n: int, axis: int = 0
) -> Float[Array, "n ..."]:
    """Sums of the rows of `values` along `axis` at each of n indices: the transpose of `pick`."""
    missing, run = _run(indices)
    if missing == len(indices):
        return _zeros(values, n, axis)
    if run:
        rows = jax.lax.slice_in_dim(values, missing, len(indices), axis=axis)
        return rows if len(run) == n else _pad(rows, run[0], n - run[-1] - 1, axis)
    if _is_one(indices):
        total = jnp.expand_dims(_total(jnp.moveaxis(values, axis, 0)), axis)
        return _pad(total, indices[0], n - indices[0] - 1, axis)
    runs = _few_runs(indices, n)
    if runs:
        ends = np.cumsum([count for _, count in runs])
        parts = [
            _pad(_rows(values, end - count, count, axis), first, n - first - count, axis)
            for (first, count), end in zip(runs, ends.tolist(), strict=True)
            if first >= 0
        ]
        return functools.reduce(jnp.add, parts)
    if len(indices) * n > _LARGE:
        return add_up_by_table(indices, values, n, axis)
    sums = _product(_selection(indices, n).T, jnp.moveaxis(values, axis, 0))
    return jnp.moveaxis(sums, 0, axis)


def add_up_by_table(
    indices: tuple[int, ...], values: Float[Array, "indices ..."], n: int, axis: int = 0
) -> Float[Array, "n ..."]:
    """`add_up`, where each sum looks up its rows: cheaper if each adds few of many rows."""
    # Numbers of the rows that each sum adds, padded by the number of a row of zeros.
    sources: list[list[int]] = [[] for _ in range(n)]
    for row, index in enumerate(indices):
        if index >= 0:
            sources[index].append(row)
    table = np.full((max(1, *map(len, sources)), n), len(indices))
    for index, numbers in enumerate(sources):
        table[: len(numbers), index] = numbers
    rows = _pad(values, 0, 1, axis)[(*axis * [slice(None)], table)]
    return jnp.sum(rows, axis=axis)


# A dot in a time loop may become a call that keeps XLA from compiling the loop into one function,
# and a sum over more rows than it adds up in one go does.
def _product(selection: np.ndarray, rows: Array) -> Array:
    weights = selection.reshape(*selection.shape, *(1,) * (rows.ndim - 1))
    parts = [
        jnp.sum(
            jnp.asarray(weights[:, k : k + _WINDOW], rows.dtype) * rows[None, k : k + _WINDOW], 1
        )
        for k in range(0, rows.shape[0], _WINDOW)
    ]
    return functools.reduce(jnp.add, parts)


# The windows are one axis: the number of equations does not grow with that of rows.
def _total(rows: Float[Array, "rows ..."]) -> Float[Array, "..."]:
    windows = -(-rows.shape[0] // _WINDOW)
    padded = _pad(rows, 0, windows * _WINDOW - rows.shape[0], 0)
    return jnp.sum(jnp.sum(padded.reshape(windows, _WINDOW, *rows.shape[1:]), 1), 0)


def _is_one(indices: tuple[int, ...]) -> bool:
    # Whether all of many are the same row.
    return len(indices) > _FEW and indices[0] >= 0 and len(set(indices)) == 1


def _run(indices: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    # Number of missing rows, and the indices after them; () unless these are consecutive.
    missing = sum(index < 0 for index in indices)
    run = indices[missing:]
    consecutive = run and run[0] >= 0 and run == tuple(range(run[0], run[0] + len(run)))
    return missing, run if consecutive else ()


def _few_runs(indices: tuple[int, ...], n: int) -> list[tuple[int, int]]:
    # First index and number of rows of each run of consecutive ones, -1 for a run without rows;
    # none if a product with a 0/1 matrix costs less.
    if len(indices) * n <= _SMALL:
        return []
    apart = (index - place if index >= 0 else -np.inf for place, index in enumerate(indices))
    grouped = [list(run) for _, run in groupby(zip(apart, indices, strict=True), lambda x: x[0])]
    return [(run[0][1], len(run)) for run in grouped] if len(grouped) <= _FEW else []


def _rows(values: Array, first: int, count: int, axis: int) -> Array:
    if first < 0:
        return _zeros(values, count, axis)
    return jax.lax.slice_in_dim(values, first, first + count, axis=axis)


def _zeros(like: Array, n: int, axis: int) -> Array:
    return jnp.zeros((*like.shape[:axis], n, *like.shape[axis + 1 :]), like.dtype)


def _pad(rows: Array, before: int, after: int, axis: int) -> Array:
    widths = [(0, 0)] * rows.ndim
    widths[axis] = before, after
    return jnp.pad(rows, widths)


def _selection(indices: tuple[int, ...], n: int) -> np.ndarray:
    return (np.asarray(indices, int)[:, None] == np.arange(n)[None, :]).astype(float)
