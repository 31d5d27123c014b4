"""Conversion of users' numbers to arrays of floating point."""

import sys
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.numerics import jax_internals


def real_shape(value: Any) -> tuple[int, ...] | None:
    """Shape of an array, a number, or nested lists and tuples of them.

    None for rows of different lengths, masked entries, and entries other than real numbers in
    single or double precision.
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


def as_numpy(array: Any) -> np.ndarray:
    """Numbers of an array that JAX does not trace; of a key of `jax.random.key` its bits."""
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        # At once, also where JAX traces a function that reads the key.
        with jax.ensure_compile_time_eval():
            array = jax.random.key_data(array)
    return np.asarray(array)


def as_float(value: Any) -> Any:
    """Array of real numbers, in their own floating dtype or else in JAX's default one.

    Returns anything else unchanged: a converter has no name of the field for a message, and the
    functions of `checks`, which have it, raise.
    """
    if real_shape(value) is None:
        return value
    if any(map(jax_internals.is_traced, jax.tree.leaves(value))):
        array = jnp.asarray(value)
        return array.astype(_floating(array.dtype))
    # Numbers that `jit` closes over are evaluated at once and stay visible to checks. An explicit
    # dtype makes a Python number's definite: equal values share one compiled program.
    with jax.ensure_compile_time_eval():
        if isinstance(value, jax.Array):
            return value.astype(_floating(value.dtype))
        # NumPy copies without compiling anything.
        array = np.asarray(value)
        return jax.device_put(np.array(array, _floating(array.dtype)))


def in_precision(value: Any, dtype: Any) -> Any:
    """Array of real numbers: floats of JAX unchanged, anything else in this dtype.

    Numbers of Python and of NumPy are doubles by default, not by choice. Without a dtype, and for
    anything but numbers, the result is that of `as_float`.
    """
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        return value
    if dtype is None or real_shape(value) is None:
        return as_float(value)
    return as_float(value).astype(dtype)


def strong(x: Any) -> Any:
    """Array of a definite dtype: that of a Python number would change in a loop."""
    x = jnp.asarray(x)
    is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return x if is_key else jax.lax.convert_element_type(x, x.dtype)


# Numbers of an array in a text.
_MOST = 60


def text(x: Any) -> str:
    """Numbers of an array on one line; dtype and shape where JAX traces it, or it is elsewhere."""
    if isinstance(x, jax.Array):
        known = not jax_internals.is_traced(x) and x.is_fully_addressable and not x.is_deleted()
        x = np.asarray(x) if known else x
    if not isinstance(x, np.ndarray):
        return eqx.tree_pformat(x)
    short: Any = {"float_kind": "{:.6g}".format}
    written = np.array2string(x, separator=", ", threshold=_MOST, edgeitems=2, formatter=short)
    return " ".join(written.split())


def _floating(dtype: Any) -> Any:
    # Without double precision JAX converts NumPy's numbers to single precision, too.
    return jax.dtypes.canonicalize_dtype(dtype if jnp.issubdtype(dtype, jnp.floating) else float)
