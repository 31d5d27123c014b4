"""Consistency of an estimate with its covariances: chi-square tests of normalised errors."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lie_jax import checks
from lie_jax.estimation import local
from lie_jax.estimation.local import Point
from lie_jax.numerics import lapack
from lie_jax.systems.system import State

# Eigenvalues of a covariance with ones on its diagonal that are so small, relative to rounding, are
# directions without variance: those across constraints.
_RANK = 0.5


class ChiSquare(NamedTuple):
    """Normalised squares of errors, which are chi-square distributed if model and noise are right.

    - `values`, `degrees` (...): xᵀ P⁻¹ x, and the number of its independent errors; the mean of a
      value is its degrees.

    Squares of innovations (NIS) are independent from sample to sample, errors of states (NEES) only
    from run to run: compare `ratio` with `bounds` for all innovations of a run, for errors at one
    instant of many runs.
    """

    values: Float[Array, "..."]
    degrees: Int[Array, "..."]

    @property
    def ratio(self) -> Float[Array, ""]:
        """Sum of the values over the sum of the degrees, near 1 if model and noise are right."""
        return jnp.sum(self.values) / jnp.sum(self.degrees).astype(self.values.dtype)

    def bounds(self, probability: float = 0.95) -> tuple[float, float]:
        """Lower and upper bound of `ratio` that hold with this probability for independent values.

        Raises `ValueError` for a probability that is not between 0 and 1.
        """
        low, high = self._quantiles(probability, np.sum(np.asarray(self.degrees)))
        return float(low), float(high)

    def inside(self, probability: float = 0.95) -> Bool[np.ndarray, "..."]:
        """Whether each value lies in its own interval of this probability; True without degrees."""
        degrees = np.asarray(self.degrees)
        low, high = self._quantiles(probability, degrees)
        ratio = np.asarray(self.values) / np.maximum(degrees, 1)
        return (degrees == 0) | ((ratio >= low) & (ratio <= high))

    def _quantiles(self, probability: float, degrees: Any) -> tuple[Any, Any]:
        """Quantiles on both sides, over the degrees."""
        from scipy.special import chdtri  # slow to import

        checks.positive("probability", probability, "between 0 and 1")
        if not probability < 1.0:
            raise ValueError(f"probability is {probability}; it must be between 0 and 1: use 0.95.")
        tail = 0.5 * (1.0 - probability)
        count = np.maximum(degrees, 1)
        return chdtri(count, 1.0 - tail) / count, chdtri(count, tail) / count


def errors_squared(estimate: Any, q: Any, v: Any) -> ChiSquare:
    """Normalised squares of the errors of estimates, `q`, `v` and `covariance`."""
    checks.shape("nees(q=)", q, estimate.q.shape, "a row for each instant, as `q` of the estimate")
    checks.shape("nees(v=)", v, estimate.v.shape, "a row for each instant, as `v` of the estimate")
    space = estimate._model.system.space
    none = jnp.zeros((len(estimate.q), 0), estimate.q.dtype)
    around, true = (
        Point(State(*map(jnp.asarray, x)), none) for x in ((estimate.q, estimate.v), (q, v))
    )
    n = 2 * space.nv
    errors = jax.vmap(lambda a, b: local.difference(space, a, b))(around, true)
    return normalized_squares(errors, estimate.covariance[:, :n, :n])


def normalized_squares(
    errors: Float[Array, "rows n"], covariances: Float[Array, "rows n n"]
) -> ChiSquare:
    """Squares of errors by covariances that may be singular."""

    def one(error, covariance):
        size = jnp.sqrt(jnp.diagonal(covariance))
        scale = jnp.where(size > 0.0, 1.0 / jnp.where(size > 0.0, size, 1.0), 0.0)
        values, vectors = lapack.symmetric_eigen(scale[:, None] * covariance * scale[None, :])
        counts = values > jnp.finfo(values.dtype).eps ** _RANK
        parts = vectors.T @ (scale * error)
        squares = jnp.where(counts, parts**2 / jnp.where(counts, values, 1.0), 0.0)
        return jnp.sum(squares), jnp.sum(counts)

    return ChiSquare(*jax.vmap(one)(errors, covariances))
