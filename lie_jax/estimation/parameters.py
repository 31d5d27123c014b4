"""Parameters as a vector of unconstrained coordinates, and as a vector of named numbers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from lie_jax import checks
from lie_jax.estimation.transforms import orientation
from lie_jax.groups import quaternion
from lie_jax.numerics.conversion import as_float


class Parameters(NamedTuple):
    """Coordinates (p,) of a start, functions from them to the pytree and to p named numbers.

    The numbers of a parameter are its entries, of a symmetric matrix the upper triangle; where it
    has more entries than coordinates, as a quaternion, they are its coordinates.
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
    labels = [f"start value of {name!r}" for name in names]
    charts = list(map(_chart, _transforms(where, transforms, start), labels, values))
    z0, unravel = ravel_pytree([as_float(z) for z, _ in charts])

    layouts = [_layout(z, value) for (z, _), value in zip(charts, values, strict=True)]

    def values_at(z):
        return [back(x) for x, (_, back) in zip(unravel(z), charts, strict=True)]

    def decode(z):
        return jax.tree.unflatten(jax.tree.structure(start), values_at(z))

    def numbers(z):
        parts = zip(unravel(z), values_at(z), layouts, strict=True)
        return jnp.concatenate(
            [
                jnp.ravel(x) if index is None else jnp.ravel(value)[index]
                for x, value, (index, _) in parts
            ]
        )

    named = zip(names, layouts, strict=True)
    all_names = tuple(f"{name}{suffix}" for name, (_, suffixes) in named for suffix in suffixes)
    return Parameters(as_float(z0), decode, numbers, all_names)


def _named_leaves(tree: PyTree) -> tuple[list[str], list[Array]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    return [name or "parameter" for name in names], [as_float(value) for _, value in leaves]


def _transforms(where: str, transforms: PyTree, start: PyTree) -> list[Callable]:
    """Transform of each leaf."""
    if isinstance(start, dict) and isinstance(transforms, dict):
        faults = [f"no entry for {name!r}" for name in start if name not in transforms]
        faults += [f"an entry for {name!r}" for name in transforms if name not in start]
        if faults:
            raise ValueError(
                f"{where}(transforms=) has {faults[0]}; it must have one for each of the "
                f"parameters {', '.join(map(repr, start))}, or be one transform for all."
            )
    return jax.tree.leaves(
        broadcast(f"{where}(transforms=)", "transform", transforms, start, "start values")
    )


def broadcast(name: str, noun: str, prefix: PyTree, tree: PyTree, of: str) -> PyTree:
    """Pytree like `tree` with the leaves of a prefix; raises `ValueError` for anything else."""
    try:
        return jax.tree.broadcast(prefix, tree)
    except ValueError as error:
        raise ValueError(
            f"{name} is {prefix!r}; it must be a prefix of the {of} {jax.tree.structure(tree)}: "
            f"give one {noun} for all, or one for each entry."
        ) from error


def _chart(transform: Callable, label: str, value: Array) -> tuple[Array, Callable]:
    if not callable(transform):
        raise ValueError(
            f"{label}: the transform is {transform!r}; it must be one of "
            "lie_jax.estimation.transforms, such as lie_jax.estimation.transforms.positive."
        )
    try:
        return transform(value)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from error


def _layout(z: Array, value: Array) -> tuple[Any, list[str]]:
    """Index of a parameter's numbers in its flat value, None for its coordinates; their names."""
    n = len(value) if np.ndim(value) else 0
    if np.size(z) == np.size(value):
        index, shape, prefix = slice(None), value.shape, ""
    elif np.shape(value) == (n, n) and np.size(z) == n * (n + 1) // 2:
        rows, columns = np.triu_indices(n)
        return n * rows + columns, [f"[{i}, {j}]" for i, j in zip(rows, columns, strict=True)]
    else:
        index, shape, prefix = None, z.shape, ".z"
    return index, [prefix + (str(list(i)) if i else "") for i in np.ndindex(*shape)]


def priors(
    where: str, prior: PyTree, start: PyTree, transforms: PyTree
) -> Callable[[PyTree], Float[Array, " k"]]:
    """Residuals (k,) of parameters against Gaussian priors, (mean, standard deviation) each.

    Raises `ValueError` for priors that match no parameter or do not fit its shape or its range.
    """
    names, values = _named_leaves(start)
    labels = [f"{where}(prior=) of {name!r}" for name in names]
    entries = _prior_entries(where, prior, start)
    residuals = list(map(_prior, labels, entries, _transforms(where, transforms, start), values))

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


def _prior(label: str, entry: Any, transform: Callable, value: Array) -> Callable[[Array], Array]:
    if entry is None:
        return lambda _: jnp.zeros(0, value.dtype)
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise ValueError(
            f"{label} is {entry!r}; it must be a pair (mean, standard deviation): "
            "give for example (1.0, 0.1)."
        )
    checks.real(f"{label}: the mean", entry[0])
    checks.real(f"{label}: the standard deviation", entry[1])
    mean = jnp.asarray(entry[0], value.dtype)
    checks.shape(f"{label}: the mean", mean, value.shape, "that of the parameter")
    checks.finite(f"{label}: the mean", mean)
    z, _ = _chart(transform, f"{label}: the mean", mean)
    index, _ = _layout(z, value)
    if index is None and transform is not orientation:
        raise ValueError(
            f"{label} is for a parameter that holds more numbers than coordinates; let predict "
            "return a further observation instead."
        )
    shape = z.shape if index is None else value.shape
    deviation = np.asarray(entry[1], dtype=float)
    if not np.all(deviation > 0.0):
        raise ValueError(
            f"{label} has the standard deviation {deviation.tolist()}; it must be positive: "
            "infinite for what has no prior, and a constant in predict for what is known."
        )
    try:
        weight = np.broadcast_to(1.0 / deviation, shape)
    except ValueError as error:
        raise ValueError(
            f"{label} has a standard deviation of shape {deviation.shape}; it must broadcast to "
            f"{shape}: give one number, or one for each entry."
        ) from error

    # A symmetric matrix counts each number once.
    chosen = np.arange(weight.size)[slice(None) if index is None else index]
    chosen = chosen[weight.ravel()[chosen] > 0.0]
    factor = jnp.asarray(weight.ravel()[chosen], value.dtype)

    def residual(x):
        if index is None:
            difference = quaternion.log(quaternion.multiply(quaternion.conjugate(mean), x))
        else:
            difference = x - mean
        return jnp.ravel(difference)[chosen] * factor

    return residual
