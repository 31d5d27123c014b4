"""Products of 3-vectors, 3x3 matrices and quaternions in the form that XLA compiles best.

Most are a multiplication followed by a sum, some against a constant structure tensor. Inside a
compiled time loop this avoids concatenations (slow as soon as the step is batched, by `vmap` or by
forward-mode derivatives) and gathers (whose reverse mode is a scatter), and its derivatives have
the same form.
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import jax_internals

# EPSILON[i, j, k] = +1, -1 for even, odd permutations of (0, 1, 2), 0 otherwise.
EPSILON = np.zeros((3, 3, 3))
EPSILON[[0, 1, 2], [1, 2, 0], [2, 0, 1]] = 1.0
EPSILON[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = -1.0


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


def matvec(a: Float[Array, "m n"], x: Float[Array, " n"]) -> Float[Array, " m"]:
    """Matrix times vector."""
    return jnp.sum(a * x[None, :], axis=1)


def matmul(a: Float[Array, "m n"], b: Float[Array, "n p"]) -> Float[Array, "m p"]:
    """Matrix times matrix."""
    return jnp.sum(a[:, :, None] * b[None, :, :], axis=1)


def dot(a: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, ""]:
    """Inner product."""
    return jnp.sum(a * b)


def hat(x: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Skew matrix of a vector: `hat(x) y = x × y`."""
    return jnp.sum(jnp.asarray(-EPSILON, x.dtype) * x[None, None, :], axis=2)


def cross(a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, "3"]:
    """Vector product `a × b`."""
    # An exception: joined once, at the end, components cost half of the products with the tensor.
    # Only in the columns of a Jacobian inside a loop is `matvec(hat(a), b)` the faster one.
    a1, a2, a3 = jax.lax.unstack(a)
    b1, b2, b3 = jax.lax.unstack(b)
    return jnp.stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1])


def hamilton_product(p: Float[Array, "4"], q: Float[Array, "4"]) -> Float[Array, "4"]:
    """Hamilton product of two quaternions, scalar first."""
    w, x = parted(p, 1)
    u, y = parted(q, 1)
    real = w * u - jnp.sum(x * y, keepdims=True)
    return jnp.concatenate([real, w * y + u * x + cross(x, y)])


def parted(x: Float[Array, " n"], first: int) -> tuple[Float[Array, " first"], Float[Array, " m"]]:
    """The `first` numbers of a vector, and the rest.

    In reverse mode the parts are joined; those of two slices would be padded and added.
    """
    a, b = jax.lax.split(x, (first, x.shape[0] - first))
    return a, b


def outer(a: Float[Array, " m"], b: Float[Array, " n"]) -> Float[Array, "m n"]:
    """Outer product `a bᵀ`."""
    return a[:, None] * b[None, :]


def axial(a: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """The vector of components a[j, k] - a[k, j] over the cyclic (i, j, k); -2 x for hat(x)."""
    return jnp.sum(jnp.asarray(EPSILON, a.dtype) * a[None, :, :], axis=(1, 2))


def pick(
    places: tuple[int, ...], values: Float[Array, "n ..."], axis: int = 0
) -> Float[Array, "places ..."]:
    """The rows of `values` at these places, which are fixed; zeros for a place of -1.

    Rows are along `axis`. Those that stand next to each other are cut out; others are found by a
    product with a constant matrix, which needs no scatter in reverse mode, or by their numbers
    where that is too large; the reverse of this is `add_up`.
    """
    missing, rest = _in_a_row(places)
    if rest is not None:
        rows = jax.lax.slice_in_dim(values, rest[0], rest[0] + len(rest), axis=axis)
        if not missing:
            return rows
        shape = list(values.shape)
        shape[axis] = missing
        return jnp.concatenate([jnp.zeros(shape, values.dtype), rows], axis=axis)
    if axis:
        return jnp.moveaxis(pick(places, jnp.moveaxis(values, axis, 0)), 0, axis)
    n = values.shape[0]
    if len(places) * n > _LARGE:
        return _looked_up(places, values)
    return jnp.tensordot(jnp.asarray(_chosen(places, n), values.dtype), values, 1)


def add_up(
    places: tuple[int, ...], values: Float[Array, "places ..."], n: int, axis: int = 0
) -> Float[Array, "n ..."]:
    """The sums of the rows of `values` at each of n places; the transpose of `pick`."""
    missing, rest = _in_a_row(places)
    if rest is not None:
        rows = jax.lax.slice_in_dim(values, missing, len(places), axis=axis)
        if len(rest) == n:
            return rows
        around = [(0, 0)] * values.ndim
        around[axis] = rest[0], n - rest[0] - len(rest)
        return jnp.pad(rows, around)
    if axis:
        return jnp.moveaxis(add_up(places, jnp.moveaxis(values, axis, 0), n), 0, axis)
    if len(places) * n > _LARGE:
        return _added_up(places, values, n)
    return jnp.tensordot(jnp.asarray(_chosen(places, n).T, values.dtype), values, 1)


# Entries of a 0/1 matrix beyond which a product with it costs more than to look rows up.
_LARGE = 1024


def _in_a_row(places: tuple[int, ...]) -> tuple[int, tuple[int, ...] | None]:
    # How many places are missing, and the others if they follow each other after those.
    missing = sum(place < 0 for place in places)
    rest = places[missing:]
    if rest and rest[0] >= 0 and rest == tuple(range(rest[0], rest[0] + len(rest))):
        return missing, rest
    return missing, None


def _chosen(places: tuple[int, ...], n: int) -> np.ndarray:
    return (np.asarray(places, int)[:, None] == np.arange(n)[None, :]).astype(float)


def _looked_up(places: tuple[int, ...], values: Array) -> Array:
    padded = jnp.concatenate([values, jnp.zeros_like(values[:1])])
    return padded[np.asarray(places)]


def _added_up(places: tuple[int, ...], values: Array, n: int) -> Array:
    padded = jnp.concatenate([values, jnp.zeros_like(values[:1])])
    return jnp.sum(padded[_sources(places, n)], axis=0)


def _sources(places: tuple[int, ...], n: int) -> np.ndarray:
    # Which rows each place is the sum of, as many as the busiest has; the last one for none.
    found: list[list[int]] = [[] for _ in range(n)]
    for row, place in enumerate(places):
        if place >= 0:
            found[place].append(row)
    table = np.full((max(1, *map(len, found)), n), len(places))
    for place, rows in enumerate(found):
        table[: len(rows), place] = rows
    return table


def solve_3(a: Float[Array, "3 3"], b: Float[Array, "3"]) -> Float[Array, "3"]:
    """Solution of a x = b for a positive definite matrix, by its adjugate."""
    scale = reciprocal_size(a[0, 0] + a[1, 1] + a[2, 2])
    adjugate, determinant = _adjugate(scale * a)
    # The right-hand side is scaled, not the inverse: derivatives of that have scale².
    return matvec(adjugate, scale * b) / determinant


def inverse_3(a: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """Inverse of a positive definite matrix, by its adjugate."""
    scale = reciprocal_size(a[0, 0] + a[1, 1] + a[2, 2])
    adjugate, determinant = _adjugate(scale * a)
    return (scale / determinant) * adjugate


def reciprocal_size(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The power of two that brings positive numbers to between 2 and 4, a constant for derivatives.

    Squares and determinants of what it scales neither underflow nor overflow, as a product of three
    inertias below 1e-13 kg m² does in float32; and it changes no digit. To between 1 and 2, the
    largest numbers would need a factor that is no normal number.
    """
    _, exponent = jnp.frexp(jax.lax.stop_gradient(x))
    return jnp.ldexp(jnp.ones_like(x), 2 - exponent)


def _adjugate(a: Array) -> tuple[Array, Array]:
    adjugate = jnp.stack([cross(a[1], a[2]), cross(a[2], a[0]), cross(a[0], a[1])])
    return adjugate, dot(a[0], adjugate[0])
