"""Statistics of least squares: covariances, standard errors and how they carry over."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree


class Spread(NamedTuple):
    """How far coordinates z (p,) may be off: independent deviations along p directions (rows).

    Infinite along directions that the observations do not determine.
    """

    directions: Float[Array, "p p"]
    deviations: Float[Array, " p"]


def spread(
    jacobian: Float[Array, "m p"], residuals: Float[Array, " m"], count: int
) -> tuple[Spread, Float[Array, ""], Int[Array, ""]]:
    """`Spread` at an optimum, the reduced chi-squared that scales it, and the degrees of freedom.

    `count` is the number of residuals that have a weight; what J does not determine takes no degree
    of freedom.
    """
    scale, singular, right, determined = singular_directions(jacobian)
    degrees = count - jnp.sum(determined)
    variance = jnp.sum(residuals**2) / degrees.astype(residuals.dtype)
    deviations = jnp.sqrt(variance) / jnp.where(determined, singular, 1.0)
    # Small parts of what is not determined are rounding.
    parts = determined[:, None] | (jnp.abs(right) > _small(right))
    return (
        Spread(
            jnp.where(parts, right, 0.0) / scale[None, :],
            jnp.where(determined, deviations, jnp.inf),
        ),
        variance,
        degrees,
    )


def _small(x: Array) -> float:
    return float(jnp.finfo(x.dtype).eps) ** 0.25


def check_degrees(numbers: int, unknowns: int) -> None:
    """Raise unless more numbers were observed than there are unknowns."""
    if numbers <= unknowns:
        raise ValueError(
            f"{numbers} numbers were observed for {unknowns} unknowns; there must be more: observe "
            "more, or seek fewer parameters."
        )


def singular_directions(jacobian: Float[Array, "m p"]) -> tuple[Array, Array, Array, Array]:
    """Lengths of the columns, and of the Jacobian with columns of unit length: singular values,
    right singular vectors (rows), and which of them stand above rounding.
    """
    # Columns of unit length make the numerical rank independent of the parameters' units.
    lengths = jnp.linalg.norm(jacobian, axis=0)
    scale = jnp.where(lengths > 0.0, lengths, 1.0)
    _, singular, right = jnp.linalg.svd(jacobian / scale[None, :], full_matrices=False)
    # Derivatives of a simulation carry the rounding of all its steps and of large numbers in it:
    # columns that agree in half of the digits are taken for dependent.
    determined = singular > jnp.finfo(jacobian.dtype).eps ** 0.5 * singular[0]
    return scale, singular, right, determined


def propagate(
    function: Callable[[Array], PyTree], z: Float[Array, " p"], spread: Spread
) -> tuple[PyTree, PyTree]:
    """Value of a function of the coordinates and its standard error, to first order.

    NaN where it changes along directions that are not determined.
    """

    def standard_error(slope):
        root, unknown = _carried_over(slope, spread)
        return jnp.where(unknown, jnp.nan, jnp.linalg.norm(root, axis=-1))

    return function(z), jax.tree.map(standard_error, jax.jacfwd(function)(z))


def covariance(slope: Float[Array, "k p"], spread: Spread) -> Float[Array, "k k"]:
    """Covariance matrix of what has this derivative with respect to the coordinates, NaN likewise
    in rows and columns.
    """
    root, unknown = _carried_over(slope, spread)
    return jnp.where(unknown[:, None] | unknown[None, :], jnp.nan, root @ root.T)


def correlation(slope: Float[Array, "k p"], spread: Spread) -> Float[Array, "k k"]:
    """Correlation matrix of the same."""
    matrix = covariance(slope, spread)
    deviation = jnp.sqrt(jnp.diagonal(matrix))
    return matrix / (deviation[:, None] * deviation[None, :])


def _carried_over(
    slope: Float[Array, "*k p"], spread: Spread
) -> tuple[Float[Array, "*k p"], Bool[Array, "*k"]]:
    """Deviations along the directions times a derivative, and whether an infinite one matters."""
    parts = slope @ spread.directions.T
    deviations = jnp.broadcast_to(spread.deviations, parts.shape)
    known = jnp.isfinite(deviations)
    # Terms that cancel leave their rounding.
    terms = jnp.abs(slope) @ jnp.abs(spread.directions.T)
    unknown = jnp.any(~known & (jnp.abs(parts) > _small(parts) * terms), axis=-1)
    return parts * jnp.where(known, deviations, 0.0), unknown
