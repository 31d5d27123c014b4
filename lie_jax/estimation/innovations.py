"""Recordings under process noise: residuals of the likelihood of their samples.

The likelihood of the samples is that of independent innovations e of deviations s: for each,
-½ (e / s)² - log s. Its search is one of least squares, by rows whose squares and Jacobian are:

- e / s, with its own derivative;
- 1, with the derivative of log s;
- √(K + 2 log s), without derivative, where K is a constant.

Half the sum of squares is minus the likelihood up to a constant, Jᵀr is its gradient, and JᵀJ has
the mean of Fisher's information: steps are those of his scoring, standard errors follow from J.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

# Above twice the logarithm of the smallest deviation, of 1e-21 in the unit of the samples.
_CONSTANT = 100.0


class Whitened(NamedTuple):
    """Innovations of one recording, as independent numbers of variance one.

    - `residuals` (n, ny): predicted minus observed, zero where missing.
    - `scales` (n, ny): deviations that they had before.
    - `log_likelihood`: of all samples.
    """

    residuals: Float[Array, "n ny"]
    scales: Float[Array, "n ny"]
    log_likelihood: Float[Array, ""]


def _map(function: Any, predicted: PyTree, *others: PyTree) -> PyTree:
    is_whitened = lambda x: isinstance(x, Whitened)  # noqa: E731
    return jax.tree.map(function, predicted, *others, is_leaf=is_whitened)


class Innovations(NamedTuple):
    """Samples of each recording, NaN where missing, and weights: one, or zero for missing ones.

    Predictions are pytrees of `Whitened`.
    """

    observed: PyTree
    weights: PyTree

    noise_is_known = True

    @property
    def numbers(self) -> int:
        """Number of samples that are there."""
        return sum(int(np.count_nonzero(w)) for w in jax.tree.leaves(self.weights))

    def weighted_residuals(self, predicted: PyTree, horizon: PyTree | None = None) -> PyTree:
        """Minus whitened innovations; zero where missing, and beyond a horizon."""
        return _map(
            lambda x, part: jnp.where(part, x.residuals, 0.0), predicted, self._parts(horizon)
        )

    def scale_residuals(self, predicted: PyTree, horizon: PyTree | None = None) -> PyTree:
        """Rows of the logarithms of deviations."""

        def rows(whitened, part):
            log = jnp.where(part, jnp.log(jnp.where(part, whitened.scales, 1.0)), 0.0)
            held = jax.lax.stop_gradient(log)
            size = jnp.sqrt(jnp.maximum(_CONSTANT + 2.0 * held, 0.0))
            return jnp.where(part, 1.0 + log - held, 0.0), jnp.where(part, size, 0.0)

        return _map(rows, predicted, self._parts(horizon))

    def log_density(self, predicted: PyTree) -> Array:
        """Log-likelihood of all recordings."""
        densities = jax.tree.leaves(_map(lambda x: x.log_likelihood, predicted))
        return sum(densities, start=jnp.zeros(()))

    def _parts(self, horizon: PyTree | None) -> PyTree:
        """Whether each sample counts."""
        if horizon is None:
            return jax.tree.map(lambda w: w > 0.0, self.weights)

        def inside(weight, count):
            return (weight > 0.0) & (jnp.arange(len(weight)) < count)[:, None]

        return jax.tree.map(inside, self.weights, horizon)


def prepare(observations: PyTree) -> Innovations:
    """`Innovations` of observations that a filter accepts."""
    weights = jax.tree.map(lambda x: (~jnp.isnan(x)).astype(x.dtype), observations)
    return Innovations(observations, weights)
