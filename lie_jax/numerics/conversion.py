"""Conversion of users' numbers to arrays of floating point."""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax import jax_internals


def real_shape(value: Any) -> tuple[int, ...] | None:
    """Shape of an array, a number, or lists and tuples of them; None for what is not made of real
    numbers in single or double precision alone, or has rows of different lengths or masked entries.
    """
    if isinstance(value, list | tuple):
        shapes = {real_shape(part) for part in value} or {()}
        first = shapes.pop()
        return None if shapes or first is None else (len(value), *first)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return () if isinstance(value, float) or abs(value) <= sys.float_info.max else None
    if np.ma.is_masked(value):
        return None
    known = isinstance(value, jax.Array | jax.ShapeDtypeStruct)
    array = value if known else np.asarray(value)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array.shape if jnp.finfo(array.dtype).bits in (32, 64) else None
    return array.shape if jnp.issubdtype(array.dtype, jnp.integer) else None


def as_float(value: Any) -> Any:
    """Array of real numbers, in their own floating dtype or else in JAX's default one.

    Returns anything else as it is: a converter does not know whose field it fills, so that the
    functions of `checks`, which do, refuse it.
    """
    if real_shape(value) is None:
        return value
    if any(map(jax_internals.is_traced, jax.tree.leaves(value))):
        array = jnp.asarray(value)
        return array.astype(_floating(array.dtype))
    # What `jit` only closes over is evaluated at once, and so stays visible to checks. Naming the
    # dtype makes that of a Python number definite: the same value must not be compiled for twice.
    with jax.ensure_compile_time_eval():
        if isinstance(value, jax.Array):
            return value.astype(_floating(value.dtype))
        # NumPy makes an array of its own without compiling anything.
        array = np.asarray(value)
        return jax.device_put(np.array(array, _floating(array.dtype)))


def in_precision(value: Any, dtype: Any) -> Any:
    """Array of real numbers: floats of JAX as they are, anything else in this dtype.

    Numbers of Python and of NumPy are doubles without anyone's asking for it. None is the dtype of
    `as_float`, which also says what happens to what is no number.
    """
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        return value
    if dtype is None or real_shape(value) is None:
        return as_float(value)
    return as_float(value).astype(dtype)


def _floating(dtype: Any) -> Any:
    # Without double precision JAX's own arrays of NumPy's numbers are single, too.
    return jax.dtypes.canonicalize_dtype(dtype if jnp.issubdtype(dtype, jnp.floating) else float)
