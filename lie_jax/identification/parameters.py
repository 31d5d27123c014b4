"""Parameters as a vector of unconstrained coordinates, and as a vector of named numbers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.identification.transforms import orientation
from lie_jax.numerics.conversion import as_float


class Parameters(NamedTuple):
    """Coordinates (p,) of a start, functions from them to the pytree and to p named numbers.

    The numbers of a parameter with as many entries as coordinates are its entries, of a symmetric
    matrix the upper triangle. The numbers of a parameter with more entries, such as a quaternion,
    are its coordinates.
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
    names, values = _named_leaves(start)
    charts = [
        _chart(transform, f"start value of {name!r}", value)
        for transform, name, value in zip(
            _transforms(where, transforms, start), names, values, strict=True
        )
    ]
    z0, unravel = ravel_pytree([as_float(z) for z, _ in charts])

    def parts(z):
        return [(x, back(x)) for x, (_, back) in zip(unravel(z), charts, strict=True)]

    def decode(z):
        return jax.tree.unflatten(jax.tree.structure(start), [value for _, value in parts(z)])

    def numbers(z):
        return jnp.concatenate([_numbers(x, value) for x, value in parts(z)])

    all_names = [
        f"{name}{index}"
        for name, value, (z, _) in zip(names, values, charts, strict=True)
        for index in _indices(z, value)
    ]
    return Parameters(as_float(z0), decode, numbers, tuple(all_names))


def _named_leaves(tree: PyTree) -> tuple[list[str], list[Array]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    return [name or "parameter" for name in names], [as_float(value) for _, value in leaves]


def _transforms(where: str, transforms: PyTree, start: PyTree) -> list[Callable]:
    """Transform of each leaf."""
    if not is_prefix(transforms, start):
        if isinstance(start, dict) and isinstance(transforms, dict):
            _check_names(where, transforms, start)
        raise ValueError(
            f"{where}(transforms=) is {transforms!r}; it must be a prefix of the start values "
            f"{jax.tree.structure(start)}: give one transform for all, or one for each entry."
        )
    return jax.tree.leaves(
        jax.tree.map(lambda t, part: jax.tree.map(lambda _: t, part), transforms, start)
    )


def _check_names(where: str, transforms: dict, start: dict) -> None:
    for names, others, fault in (
        (start, transforms, "no entry for"),
        (transforms, start, "an entry for"),
    ):
        different = [name for name in names if name not in others]
        if different:
            raise ValueError(
                f"{where}(transforms=) has {fault} {different[0]!r}; it must have one for each of "
                f"the parameters {', '.join(map(repr, start))}, or be one transform for all."
            )


def is_prefix(prefix: PyTree, tree: PyTree) -> bool:
    """Whether a pytree is a prefix of another."""
    try:
        jax.tree.map(lambda *_: None, prefix, tree)
    except ValueError:
        return False
    return True


def _chart(transform: Callable, label: str, value: Array) -> tuple[Array, Callable]:
    if not callable(transform):
        raise ValueError(
            f"{label}: the transform is {transform!r}; it must be one of lie_jax.transforms, such "
            "as lie_jax.transforms.positive."
        )
    try:
        return transform(value)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from error


def _form(z: Any, value: Any) -> str:
    """Whether the numbers are the `"whole"` parameter, its `"triangle"` or its `"coordinates"`."""
    if np.size(z) == np.size(value):
        return "whole"
    n = len(value) if np.ndim(value) else 0
    if np.shape(value) == (n, n) and np.size(z) == n * (n + 1) // 2:
        return "triangle"
    return "coordinates"


def _numbers(z: Array, value: Array) -> Array:
    form = _form(z, value)
    if form == "triangle":
        return value[np.triu_indices(len(value))]
    return jnp.ravel(value if form == "whole" else z)


def _indices(z: Array, value: Array) -> list[str]:
    form = _form(z, value)
    if form == "triangle":
        return [f"[{i}, {j}]" for i, j in zip(*np.triu_indices(len(value)), strict=True)]
    shape, prefix = (value.shape, "") if form == "whole" else (z.shape, ".z")
    return [prefix + (str(list(index)) if index else "") for index in np.ndindex(*shape)]


def priors(
    where: str, prior: PyTree, start: PyTree, transforms: PyTree
) -> Callable[[PyTree], Float[Array, " k"]]:
    """Residuals (k,) of parameters against Gaussian priors, (mean, standard deviation) each.

    Raises `ValueError` for priors that match no parameter or do not fit its shape or its range.
    """
    residuals = [
        _prior(f"{where}(prior=) of {name!r}", entry, transform, value)
        for name, value, entry, transform in zip(
            *_named_leaves(start),
            _prior_entries(where, prior, start),
            _transforms(where, transforms, start),
            strict=True,
        )
    ]

    def weighted_residuals(values):
        parts = [f(x) for f, x in zip(residuals, jax.tree.leaves(values), strict=True)]
        return jnp.concatenate([jnp.zeros(0, parts[0].dtype), *parts])

    return weighted_residuals


def _prior_entries(where: str, prior: PyTree, start: PyTree) -> list:
    structure = jax.tree.structure(start)
    if prior is None:
        return [None] * structure.num_leaves
    if isinstance(start, dict) and isinstance(prior, dict):
        unknown = sorted(set(prior) - set(start))
        if unknown:
            raise ValueError(
                f"{where}(prior=) names {unknown[0]!r}; it may name the parameters "
                f"{', '.join(map(repr, start))}."
            )
        without = {name: jax.tree.map(lambda _: None, part) for name, part in start.items()}
        prior = without | prior
    try:
        return structure.flatten_up_to(prior)
    except ValueError as error:
        raise ValueError(
            f"{where}(prior=) does not have the structure of the start values {structure}: give a "
            "pair (mean, standard deviation) in the place of each parameter, or None."
        ) from error


def _prior(where: str, entry: Any, transform: Callable, value: Array) -> Callable[[Array], Array]:
    if entry is None:
        return lambda _: jnp.zeros(0, value.dtype)
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise ValueError(
            f"{where} is {entry!r}; it must be a pair (mean, standard deviation): "
            "give for example (1.0, 0.1)."
        )
    checks.real(f"{where}: the mean", entry[0])
    checks.real(f"{where}: the standard deviation", entry[1])
    mean = jnp.asarray(entry[0], value.dtype)
    checks.shape(f"{where}: the mean", mean, value.shape, "that of the parameter")
    checks.finite(f"{where}: the mean", mean)
    z, _ = _chart(transform, f"{where}: the mean", mean)
    form = _form(z, value)
    if form == "coordinates" and transform is not orientation:
        raise ValueError(
            f"{where} is for a parameter that holds more numbers than coordinates; let predict "
            "return a further observation instead."
        )
    shape = z.shape if form == "coordinates" else value.shape
    deviation = np.asarray(entry[1], dtype=float)
    if not np.all(deviation > 0.0):
        raise ValueError(
            f"{where} has the standard deviation {deviation.tolist()}; it must be positive: "
            "infinite for what has no prior, and a constant in predict for what is known."
        )
    try:
        weight = np.broadcast_to(1.0 / deviation, shape)
    except ValueError as error:
        raise ValueError(
            f"{where} has a standard deviation of shape {deviation.shape}; it must broadcast to "
            f"{shape}: give one number, or one for each entry."
        ) from error

    # A symmetric matrix counts each number once.
    chosen = np.triu(np.ones(shape)) if form == "triangle" else np.ones(shape)
    chosen = np.flatnonzero(chosen * weight)
    factor = jnp.asarray(np.ravel(weight)[chosen], value.dtype)

    def weighted(difference):
        return jnp.ravel(difference)[chosen] * factor

    def turn(x):
        return quaternion.log(quaternion.multiply(quaternion.conjugate(mean), x))

    if form == "coordinates":
        return lambda x: weighted(turn(x))
    return lambda x: weighted(x - mean)
