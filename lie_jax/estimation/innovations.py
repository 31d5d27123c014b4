"""Recordings that `predict` filters: residuals of their likelihood under process noise.

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
from jaxtyping import Array, PyTree

from lie_jax.estimation.filter import Filtered

# Above twice the logarithm of the smallest deviation, of 1e-21 in the unit of the samples.
_CONSTANT = 100.0


def are_filtered(predicted: PyTree) -> bool:
    """Whether a prediction, or its shapes, is made of results of `filter`.

    Raises `ValueError` for a prediction that holds arrays as well.
    """
    kinds = {isinstance(x, Filtered) for x in _leaves(predicted)}
    if len(kinds) > 1:
        raise ValueError(
            "identify(predict=) returns arrays and results of lie_jax.estimation.filter; it must "
            "return one kind: filter all recordings, those without process noise by a Model "
            "with process=None."
        )
    return True in kinds


def _is_filtered(value: Any) -> bool:
    return isinstance(value, Filtered)


def _leaves(predicted: PyTree) -> list[Any]:
    return jax.tree.leaves(predicted, is_leaf=_is_filtered)


def _map(function: Any, predicted: PyTree, *others: PyTree) -> PyTree:
    return jax.tree.map(function, predicted, *others, is_leaf=_is_filtered)


class Innovations(NamedTuple):
    """Samples of each recording, NaN where missing, and weights: one, or zero for missing ones."""

    observed: PyTree
    weights: PyTree

    # The model of each recording has stated the noise.
    noise_is_known = True

    @property
    def numbers(self) -> int:
        """Number of samples that are there."""
        return sum(int(np.count_nonzero(w)) for w in jax.tree.leaves(self.weights))

    def weighted_residuals(self, predicted: PyTree, horizon: PyTree | None = None) -> PyTree:
        """Minus whitened innovations; zero where missing, and beyond a horizon."""
        # A NaN of missing samples would remain in derivatives.
        return _map(
            lambda x, part: -jnp.where(part, jnp.where(jnp.isnan(x.data), 0.0, x.whitened), 0.0),
            predicted,
            self._parts(horizon),
        )

    def scale_residuals(self, predicted: PyTree, horizon: PyTree | None = None) -> PyTree:
        """Rows of the logarithms of deviations."""

        def rows(filtered, part):
            log = jnp.where(part, jnp.log(jnp.where(part, filtered._scales, 1.0)), 0.0)
            held = jax.lax.stop_gradient(log)
            size = jnp.sqrt(jnp.maximum(_CONSTANT + 2.0 * held, 0.0))
            return jnp.where(part, 1.0 + log - held, 0.0), jnp.where(part, size, 0.0)

        return _map(rows, predicted, self._parts(horizon))

    def log_density(self, predicted: PyTree) -> Array:
        """Log-likelihood of all recordings."""
        return sum((x.log_likelihood for x in _leaves(predicted)), start=jnp.zeros(()))

    def samples(self, predicted: PyTree) -> PyTree:
        """Samples that were filtered, or their shapes."""
        return _map(lambda x: x.data, predicted)

    filtered = samples

    def check_filtered(self, filtered: PyTree) -> None:
        """Raise `ValueError` if others were filtered than are observed."""
        pairs = zip(jax.tree.leaves(self.observed), jax.tree.leaves(filtered), strict=True)
        for observed, data in pairs:
            same = np.asarray(observed.astype(data.dtype)) == np.asarray(data)
            same |= np.isnan(np.asarray(observed)) & np.isnan(np.asarray(data))
            if not np.all(same):
                row = int(np.argmin(np.all(same, axis=1)))
                raise ValueError(
                    f"identify(observations=) differ at sample {row} from the data that predict "
                    "gives to lie_jax.estimation.filter; both must be the same recording: give "
                    "the array that predict filters."
                )

    def _parts(self, horizon: PyTree | None) -> PyTree:
        """Whether each sample counts."""
        if horizon is None:
            return jax.tree.map(lambda w: w > 0.0, self.weights)

        def inside(weight, count):
            return (weight > 0.0) & (jnp.arange(len(weight)) < count)[:, None]

        return jax.tree.map(inside, self.weights, horizon)


def prepare(where: str, observations: PyTree, noise: PyTree, compare: PyTree) -> Innovations:
    """`Innovations` of checked observations."""
    if noise is not None:
        raise ValueError(
            f"{where}(noise=) is given, and predict returns results of lie_jax.estimation.filter, "
            "whose Model has the noise; state it once: leave noise= out."
        )
    if compare != "vector":
        raise ValueError(
            f"{where}(compare=) is {compare!r}, and predict returns results of "
            "lie_jax.estimation.filter, which compares samples as vectors: leave compare= out."
        )
    weights = jax.tree.map(lambda x: (~jnp.isnan(x)).astype(x.dtype), observations)
    return Innovations(observations, weights)
