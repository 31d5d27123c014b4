"""Statistics of least squares: covariances, standard errors and how they carry over."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree


def covariance(
    jacobian: Float[Array, "m p"], residuals: Float[Array, " m"], count: int
) -> tuple[Float[Array, "p p"], Float[Array, ""], Int[Array, ""]]:
    """Covariance of coordinates at an optimum, the reduced chi-squared that scales it, and the
    degrees of freedom.

    `count` is the number of residuals that have a weight; what J does not determine takes no degree
    of freedom.
    """
    inverse, rank = inverse_of_gram(jacobian)
    degrees = count - rank
    variance = jnp.sum(residuals**2) / degrees.astype(residuals.dtype)
    return variance * inverse, variance, degrees


def check_degrees(numbers: int, unknowns: int) -> None:
    """Raise unless more numbers were observed than there are unknowns."""
    if numbers <= unknowns:
        raise ValueError(
            f"{numbers} numbers were observed for {unknowns} unknowns; there must be more: observe "
            "more, or seek fewer parameters."
        )


def inverse_of_gram(
    jacobian: Float[Array, "m p"],
) -> tuple[Float[Array, "p p"], Int[Array, ""]]:
    """(JᵀJ)⁻¹, NaN in rows and columns of coordinates that J does not determine, and J's rank."""
    scale, singular, right, determined = singular_directions(jacobian)
    inverse = jnp.where(determined, 1.0 / jnp.where(determined, singular, 1.0) ** 2, 0.0)
    root = right.T / scale[:, None]
    gram_inverse = (root * inverse[None, :]) @ root.T
    eps = jnp.finfo(jacobian.dtype).eps
    unknown = jnp.sum(jnp.where(determined[:, None], 0.0, right**2), axis=0) > eps**0.5
    inverse = jnp.where(unknown[:, None] | unknown[None, :], jnp.nan, gram_inverse)
    return inverse, jnp.sum(determined)


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
    function: Callable[[Array], PyTree], z: Float[Array, " p"], covariance: Float[Array, "p p"]
) -> tuple[PyTree, PyTree]:
    """Value of a function of the coordinates and its standard error, to first order.

    NaN where it depends on what is not determined.
    """
    unknown = jnp.isnan(jnp.diagonal(covariance)).astype(z.dtype)
    known = jnp.where(jnp.isnan(covariance), 0.0, covariance)

    def standard_error(slope):
        error = jnp.sqrt(jnp.einsum("...i,ij,...j->...", slope, known, slope))
        needed = jnp.einsum("...i,i->...", jnp.abs(slope), unknown)
        return jnp.where(needed > 0.0, jnp.nan, error)

    return function(z), jax.tree.map(standard_error, jax.jacfwd(function)(z))


def correlation(
    function: Callable[[Array], Array], z: Float[Array, " p"], covariance: Float[Array, "p p"]
) -> Float[Array, "k k"]:
    """Correlation matrix of a vector function of the coordinates, to first order, NaN likewise."""

    @jax.jit
    def matrix(z, covariance):
        slope = jax.jacfwd(function)(z)
        unknown = jnp.abs(slope) @ jnp.isnan(jnp.diagonal(covariance)).astype(z.dtype) > 0.0
        product = slope @ jnp.where(jnp.isnan(covariance), 0.0, covariance) @ slope.T
        deviation = jnp.sqrt(jnp.diagonal(product))
        result = product / (deviation[:, None] * deviation[None, :])
        return jnp.where(unknown[:, None] | unknown[None, :], jnp.nan, result)

    return matrix(z, covariance)
