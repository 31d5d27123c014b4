"""Statistics of least squares: covariances, standard errors and how they carry over."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree


class Spread(NamedTuple):
    """How far p coordinates may be off: what least squares say of them at an optimum.

    - `scale`: (p,), the lengths of the Jacobian's columns, by which slopes are divided first.
    - `root`: (p, p), a matrix whose square, C Cᵀ, is their covariance at unit variance; zero along
      what is not determined.
    - `undetermined`: (p, p), the projector on that.
    - `variance`: the reduced chi-squared.
    """

    scale: Float[Array, " p"]
    root: Float[Array, "p p"]
    undetermined: Float[Array, "p p"]
    variance: Float[Array, ""]


def spread(
    jacobian: Float[Array, "m p"], residuals: Float[Array, " m"], count: int
) -> tuple[Spread, Int[Array, ""]]:
    """`Spread` at an optimum, and the degrees of freedom.

    `count` is the number of residuals that have a weight; what J does not determine takes no degree
    of freedom.
    """
    scale, singular, right, determined = singular_directions(jacobian)
    degrees = count - jnp.sum(determined)
    known = determined.astype(right.dtype)
    root = right.T * (known / jnp.where(determined, singular, 1.0))[None, :]
    projector = right.T @ (right * (1.0 - known)[:, None])
    # Single null vectors are any mixture of what is not determined; their projector is one matrix.
    projector = jnp.where(jnp.abs(projector) > _small(right), projector, 0.0)
    variance = jnp.sum(residuals**2) / degrees.astype(residuals.dtype)
    return Spread(scale, root, projector, variance), degrees


def _small(x: Array) -> float:
    # Below it parts of directions are rounding, as the directions themselves are known to less.
    return float(jnp.finfo(x.dtype).eps) ** 0.25


def check_degrees(numbers: int, unknowns: int) -> None:
    """Raise unless more numbers were observed than there are unknowns."""
    if numbers <= unknowns:
        raise ValueError(
            f"the observations hold {numbers} numbers for {unknowns} unknowns; there must be more "
            "numbers than unknowns: observe more, or seek fewer parameters."
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

    NaN where it depends on what is not determined, or no more on anything while something is not:
    a coordinate may have run away until nothing depends on it.
    """

    def standard_error(slope):
        root, unknown = _carried_over(slope, spread)
        return jnp.where(unknown, jnp.nan, jnp.linalg.norm(root, axis=-1)) * spread.variance**0.5

    return function(z), jax.tree.map(standard_error, jax.jacfwd(function)(z))


def covariance(slope: Float[Array, "k p"], spread: Spread) -> Float[Array, "k k"]:
    """Covariance matrix of what has this derivative with respect to the coordinates, NaN likewise
    in rows and columns.
    """
    return spread.variance * _at_unit_variance(slope, spread)


def correlation(slope: Float[Array, "k p"], spread: Spread) -> Float[Array, "k k"]:
    """Correlation matrix of the same."""
    matrix = _at_unit_variance(slope, spread)
    deviation = jnp.sqrt(jnp.diagonal(matrix))
    return matrix / (deviation[:, None] * deviation[None, :])


def _at_unit_variance(slope: Float[Array, "k p"], spread: Spread) -> Float[Array, "k k"]:
    root, unknown = _carried_over(slope, spread)
    return jnp.where(unknown[:, None] | unknown[None, :], jnp.nan, root @ root.T)


def _carried_over(
    slope: Float[Array, "*k p"], spread: Spread
) -> tuple[Float[Array, "*k p"], Bool[Array, "*k"]]:
    """A derivative times the root of the covariance, and whether more than that matters."""
    scaled = slope / jnp.broadcast_to(spread.scale, slope.shape)
    beyond = jnp.abs(scaled @ spread.undetermined)
    # Terms that cancel leave their rounding.
    terms = jnp.abs(scaled) @ jnp.abs(spread.undetermined)
    unknown = jnp.any(beyond > _small(beyond) * terms, axis=-1)
    idle = jnp.all(slope == 0.0, axis=-1) & jnp.any(spread.undetermined != 0.0)
    return scaled @ spread.root, unknown | idle
