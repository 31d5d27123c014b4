"""Statistics of least squares: covariances, standard errors, and combinations not determined."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

# A combination that is so many times less well determined than single numbers alone is called
# weak: the collinearity index of Brun, Reichert and Künsch (2001), who draw the line at 10 to 15.
_WEAK = 10.0
_HEADER = """\
Changes that together hardly change the prediction, the largest of them by 1 %:
singular value"""
_STEP = 0.01
# Numbers are printed whose share of a direction, or whose relative change, is above this part of
# the largest. Badly determined numbers have small shares and change as much as others.
_SMALL = 0.1


class Spread(NamedTuple):
    """Uncertainty of p coordinates at an optimum of least squares.

    - `scale`: (p,), the lengths of the Jacobian's columns, by which slopes are divided first.
    - `root`: (p, p), a matrix whose square, C Cᵀ, is their covariance at unit variance; zero along
      directions that are not determined.
    - `undetermined`: (p, p), the projector on those directions.
    - `variance`: the reduced chi-squared; `degrees`: its degrees of freedom.
    """

    scale: Float[Array, " p"]
    root: Float[Array, "p p"]
    undetermined: Float[Array, "p p"]
    variance: Float[Array, ""]
    degrees: Int[Array, ""]


@functools.partial(jax.jit, static_argnums=2)
def spread(jacobian: Float[Array, "m p"], residuals: Float[Array, " n"], count: int) -> Spread:
    """`Spread` at an optimum; `count` is the number of residuals that have a weight.

    The Jacobian may have rows of further information. Directions that it does not determine take no
    degree of freedom.
    """
    scale, singular, right, determined = singular_directions(jacobian)
    degrees = count - jnp.sum(determined)
    known = determined.astype(right.dtype)
    root = right.T * (known / jnp.where(determined, singular, 1.0))[None, :]
    projector = right.T @ (right * (1.0 - known)[:, None])
    # Null vectors are any mixture of the undetermined directions; their projector is unique.
    projector = jnp.where(jnp.abs(projector) > _rounding(right), projector, 0.0)
    variance = jnp.sum(residuals**2) / degrees.astype(residuals.dtype)
    return Spread(scale, root, projector, variance, degrees)


def _rounding(x: Array) -> float:
    # Smaller parts of directions are rounding: directions themselves have half of the digits.
    return float(jnp.finfo(x.dtype).eps) ** 0.25


def check_degrees(numbers: int, unknowns: int) -> None:
    """Raise unless more numbers were observed than there are unknowns."""
    if numbers <= unknowns:
        raise ValueError(
            f"the observations hold {numbers} numbers for {unknowns} unknowns; there must be more "
            "numbers than unknowns: observe more, or seek fewer parameters."
        )


def singular_directions(jacobian: Float[Array, "m p"]) -> tuple[Array, Array, Array, Array]:
    """Lengths of the columns; and of the Jacobian with columns of unit length: singular values,
    right singular vectors (rows), and whether they stand above rounding.
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

    NaN where it depends on undetermined directions, or on no coordinate at all while there are
    such directions: a coordinate may have run away until nothing depends on it.
    """

    @jax.jit
    def value_and_error(z, spread):
        def standard_error(slope):
            root, unknown = _push_forward(slope, spread)
            size = jnp.where(unknown, jnp.nan, jnp.linalg.norm(root, axis=-1))
            return size * spread.variance**0.5

        return function(z), jax.tree.map(standard_error, jax.jacfwd(function)(z))

    return value_and_error(z, spread)


@jax.jit
def covariance(slope: Float[Array, "k p"], spread: Spread) -> Float[Array, "k k"]:
    """Covariance of functions with this derivative by the coordinates, NaN as in `propagate`."""
    root, unknown = _push_forward(slope, spread)
    at_unit_variance = jnp.where(unknown[:, None] | unknown[None, :], jnp.nan, root @ root.T)
    return spread.variance * at_unit_variance


@jax.jit
def correlation(slope: Float[Array, "k p"], spread: Spread) -> Float[Array, "k k"]:
    """Correlation matrix of functions with this derivative, NaN as in `covariance`."""
    one = jnp.ones_like(spread.variance)
    matrix = covariance(slope, spread._replace(variance=one))
    deviation = jnp.sqrt(jnp.diagonal(matrix))
    return matrix / (deviation[:, None] * deviation[None, :])


def _push_forward(
    slope: Float[Array, "*k p"], spread: Spread
) -> tuple[Float[Array, "*k p"], Bool[Array, "*k"]]:
    """A derivative times the root of the covariance, and whether undetermined directions matter."""
    scaled = slope / jnp.broadcast_to(spread.scale, slope.shape)
    beyond = jnp.abs(scaled @ spread.undetermined)
    # Terms that cancel leave their rounding.
    terms = jnp.abs(scaled) @ jnp.abs(spread.undetermined)
    unknown = jnp.any(beyond > _rounding(beyond) * terms, axis=-1)
    idle = jnp.all(slope == 0.0, axis=-1) & jnp.any(spread.undetermined != 0.0)
    return scaled @ spread.root, unknown | idle


class Identifiability(eqx.Module):
    """Combinations of parameters that the recordings determine; `print`: a table, worst first.

    A combination with the singular value σ, of the Jacobian with columns of unit length, is 1/σ
    times less well determined than a number alone whose fellows are known.

    - `names`: of the numbers, such as `"inertia[0, 1]"`; `values`: (p,), the estimates.
    - `singular_values`: (p,), falling.
    - `directions`: (p, p), in each row the change of the numbers, in their units, that belongs to a
      singular value; the number with the largest part changes by its value, or by 1 if that is 0.
    - `shares`: (p, p), these changes as unit vectors, in units in which numbers alone are equally
      well determined.
    - `determined`: (p,), whether each combination stands above rounding.
    - `standard_errors`: (p,), how many standard errors of its combination each direction is.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    values: Float[Array, " p"]
    singular_values: Float[Array, " p"]
    directions: Float[Array, "p p"]
    shares: Float[Array, "p p"]
    determined: Bool[Array, " p"]
    standard_errors: Float[Array, " p"]

    def __str__(self):
        singular, determined = np.asarray(self.singular_values), np.asarray(self.determined)
        strong = singular * _WEAK > 1.0
        count = int(np.sum(determined & strong))
        lines = [_HEADER] if count < len(self.names) else []
        for k in reversed(np.flatnonzero(~(determined & strong)).tolist()):
            word, end = ("weak", self._size(k)) if determined[k] else ("not determined", "")
            lines.append(f"{singular[k]:14.2e}  {word}: {self._changes(k)}{end}")
        end = f" (smallest singular value {min(singular[strong]):.2g})." if count else "."
        lines.append(f"{count} of {len(self.names)} combinations are well determined{end}")
        return "\n".join(lines)

    def _size(self, k: int) -> str:
        return f" ({_STEP * float(self.standard_errors[k]):.2g} standard errors)"

    def _changes(self, k: int) -> str:
        shares = np.abs(np.asarray(self.shares[k]))
        change = _STEP * np.asarray(self.directions[k])
        values = np.asarray(self.values)
        relative = np.abs(change) / np.where(values == 0.0, np.inf, np.abs(values))
        shown = (shares > _SMALL * shares.max()) | (relative > _SMALL * relative.max())
        terms = [
            f"{self.names[i]} {values[i]:.5g} -> {values[i] + change[i]:.5g}"
            for i in np.argsort(-shares)
            if shown[i]
        ]
        return ", ".join(terms)


def identifiability(
    names: tuple[str, ...],
    numbers: Callable[[Array], Array],
    z: Float[Array, " p"],
    root: Float[Array, "n p"],
    variance: Float[Array, ""],
) -> Identifiability:
    """Report from RᵀR, the information on coordinates z, and the numbers that they mean.

    `variance`: of weighted residuals.
    """

    @jax.jit
    def analyse(z, root):
        slope = jax.jacfwd(numbers)(z)
        jacobian = jnp.linalg.solve(slope.T, root.T).T
        # Rows of zeros make the Jacobian square, where there are fewer residuals than numbers.
        missing = max(len(names) - len(root), 0)
        jacobian = jnp.concatenate([jacobian, jnp.zeros((missing, len(names)), z.dtype)])
        scale, singular, right, determined = singular_directions(jacobian)
        values = numbers(z)
        changes = right / scale[None, :]
        largest = jnp.argmax(jnp.abs(right), axis=1)
        size = jnp.where(values == 0.0, 1.0, values)[largest]
        factors = size / changes[jnp.arange(len(names)), largest]
        directions = changes * factors[:, None]
        deviations = jnp.abs(factors) * singular / jnp.sqrt(variance)
        return values, singular, directions, right, determined, deviations

    return Identifiability(names, *analyse(z, root))
