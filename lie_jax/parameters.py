"""Parameters as a vector of unconstrained coordinates, and as a vector of named numbers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from lie_jax.algebra import as_float


class Parameters(NamedTuple):
    """Coordinates (p,) of a start, the way back to the pytree, and p numbers with their names.

    The numbers are what a parameter holds where it holds as many as it has coordinates, with the
    upper triangle for a symmetric matrix; where it holds more, such as a quaternion's four, they
    are the coordinates.
    """

    start: Float[Array, " p"]
    decode: Callable[[Float[Array, " p"]], PyTree]
    numbers: Callable[[Float[Array, " p"]], Float[Array, " p"]]
    names: tuple[str, ...]


def parameters(where: str, start: PyTree, transforms: PyTree) -> Parameters:
    """Coordinates of a pytree of start values under transforms, a prefix of it.

    `where` names the caller in messages. Raises `ValueError` for a prefix that does not fit and for
    start values outside of a transform's range.
    """
    if not is_prefix(transforms, start):
        raise ValueError(
            f"{where}(transforms=) is {transforms!r}, no prefix of the start values "
            f"{jax.tree.structure(start)}: give one transform for all, or one for each entry."
        )
    each = jax.tree.leaves(
        jax.tree.map(lambda t, part: jax.tree.map(lambda _: t, part), transforms, start)
    )
    leaves, structure = jax.tree_util.tree_flatten_with_path(start)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    names = [name or "parameter" for name in names]
    values = [as_float(value) for _, value in leaves]
    charts = [_chart(*three) for three in zip(each, names, values, strict=True)]
    z0, unravel = ravel_pytree([as_float(z) for z, _ in charts])

    def parts(z):
        return [(x, back(x)) for x, (_, back) in zip(unravel(z), charts, strict=True)]

    def decode(z):
        return jax.tree.unflatten(structure, [value for _, value in parts(z)])

    def numbers(z):
        return jnp.concatenate([_numbers(x, value) for x, value in parts(z)])

    all_names = [
        f"{name}{place}"
        for name, value, (z, _) in zip(names, values, charts, strict=True)
        for place in _places(z, value)
    ]
    return Parameters(as_float(z0), decode, numbers, tuple(all_names))


def is_prefix(prefix: PyTree, tree: PyTree) -> bool:
    """Whether a pytree is a prefix of another."""
    try:
        jax.tree.map(lambda *_: None, prefix, tree)
    except ValueError:
        return False
    return True


def _chart(transform: Callable, name: str, value: Array) -> tuple[Array, Callable]:
    try:
        return transform(value)
    except ValueError as error:
        raise ValueError(f"start value of {name!r}: {error}") from error


def _kind(z: Any, value: Any) -> str:
    if np.size(z) == np.size(value):
        return "whole"
    n = len(value) if np.ndim(value) else 0
    if np.shape(value) == (n, n) and np.size(z) == n * (n + 1) // 2:
        return "triangle"
    return "coordinates"


def _numbers(z: Array, value: Array) -> Array:
    kind = _kind(z, value)
    if kind == "triangle":
        return value[np.triu_indices(len(value))]
    return jnp.ravel(value if kind == "whole" else z)


def _places(z: Array, value: Array) -> list[str]:
    kind = _kind(z, value)
    if kind == "triangle":
        return [f"[{i}, {j}]" for i, j in zip(*np.triu_indices(len(value)), strict=True)]
    shape, prefix = (value.shape, "") if kind == "whole" else (z.shape, ".z")
    return [prefix + (str(list(index)) if index else "") for index in np.ndindex(*shape)]
