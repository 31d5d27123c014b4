"""Result of an identification: estimates, their uncertainty, and what is worth a warning."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from lie_jax import checks
from lie_jax.estimation import statistics
from lie_jax.estimation.statistics import Identifiability, Spread
from lie_jax.numerics import waits
from lie_jax.user_functions import libraries

# Residuals above this multiple of the stated noise are reported as a misfit; noise is rarely known
# better.
_LARGE = 1.5
# Below this multiple of it residuals may depend on each other, as rounded numbers do.
_SMALL = 0.5
# Autocorrelation of residuals from which they are reported, and their least size relative to the
# observations: below are rounding and the tolerance of the search.
_CORRELATED, _TINY = 0.5, 1e-6
# Standard deviations that either has to be away from chance.
_SIGMAS = 5.0


class History(NamedTuple):
    """Half the weighted sum of squares of each iteration (under process noise minus the
    log-likelihood, up to a constant), samples of the longest recording in it, and estimates, a
    pytree with a leading axis.
    """

    cost: Float[Array, " iterations"]
    samples: Int[Array, " iterations"]
    estimates: PyTree


class ResidualStatistics(NamedTuple):
    """Mean, root mean square and lag-1 autocorrelation of the residuals of each observed channel.

    Pytrees like the residuals without their leading axis and without missing samples, `mean` and
    `rms` in their units, the autocorrelation, over the noise, within about 2/√n of zero if white.
    `reduced_chi_squared`: weighted sum of squares, priors included, by the degrees of freedom (the
    number of samples and priors without that of determined combinations), near 1 if model and noise
    are right. Its root estimates the noise, relative to a stated one.
    """

    mean: PyTree
    rms: PyTree
    autocorrelation: PyTree
    reduced_chi_squared: Float[Array, ""]


class Identification(eqx.Module):
    """Estimates of `identify` and their uncertainty; `print` shows them as a table.

    - `estimates`, `standard_errors`: pytrees like the start values, in physical units; errors are
      NaN where neither recordings nor priors determine the parameters.
    - `residuals`: observed minus predicted, NaN for missing samples, like the observations; on a
      group rotation vectors (3,) or twists (6,). Under process noise whitened innovations, whose
      noise is one.
    - `statistics`: `ResidualStatistics`. `history`: `History`.
    - `converged`: whether the method met its tolerance.
    - `coordinates`: the unconstrained coordinates (p,), in which the parameters were sought;
      `decode` returns the parameters at any such coordinates.
    - `names`: of the p independent numbers that the parameters hold, such as `"inertia[0, 1]"`.
    - `information_root`: R with RᵀR = JᵀJ, the recordings' information on the coordinates.
    """

    estimates: PyTree
    standard_errors: PyTree
    residuals: PyTree
    statistics: ResidualStatistics
    history: History
    converged: Bool[Array, ""]
    coordinates: Float[Array, " p"]
    names: tuple[str, ...] = eqx.field(static=True)
    information_root: Float[Array, "n p"]
    _spread: Spread
    _noise_is_known: bool = eqx.field(static=True)
    _decode: Callable = eqx.field(static=True)
    _numbers: Callable = eqx.field(static=True)
    _log_densities: Callable = eqx.field(static=True)
    _noise: Float[Array, ""]

    def decode(self, coordinates: Float[Array, " p"]) -> PyTree:
        """Parameters at unconstrained coordinates (p,): a pytree like the start values."""
        self._check(coordinates)
        return self._decode(coordinates)

    @waits.announce("the log density")
    def log_density(self, coordinates: Float[Array, " p"]) -> Float[Array, ""]:
        """Logarithm of the posterior density over the unconstrained coordinates (p,).

        For samplers such as BlackJAX's: start at `coordinates`, with `covariance` as the inverse
        mass matrix, and read samples by `decode`. Up to a constant it is, with weighted residuals r
        of recordings and priors and the numbers x that `names` lists, -½ |r|² + log |det ∂x/∂z|.
        Without `prior` the density over x is thus flat, within the range of the transforms.

        Stated noise counts as it is, unlike in standard errors, which the residuals scale; noise
        that was not stated is held at its estimate. NaN where the prediction is not finite.
        Raises `ValueError` for coordinates of another shape.
        """
        self._check(coordinates)
        recordings, priors = self._log_densities(coordinates)
        slope = jax.jacfwd(self._numbers)(coordinates)
        return recordings / self._noise**2 + priors + jnp.linalg.slogdet(slope)[1]

    def _check(self, coordinates: Array) -> None:
        checks.shape("coordinates", coordinates, self.coordinates.shape, "as fit.coordinates")

    @waits.announce("the propagated errors")
    def propagate(self, function: Callable[[PyTree], PyTree]) -> tuple[PyTree, PyTree]:
        """Value and standard error of any function of the estimates, to first order.

        The error is NaN where the function depends on what is not determined; a ratio of two
        parameters may be determined where they are not.
        """
        return statistics.propagate(
            lambda z: function(self._decode(z)), self.coordinates, self._spread
        )

    @property
    def covariance(self) -> Float[Array, "p p"]:
        """Covariance matrix of the coordinates; NaN in rows and columns that are not determined."""
        identity = jnp.eye(len(self.names), dtype=self.coordinates.dtype)
        return statistics.covariance(identity, self._spread)

    @property
    def correlation(self) -> Float[Array, "p p"]:
        """Correlation matrix of the numbers that `names` lists; NaN for what is not determined."""
        slope = jax.jit(jax.jacfwd(self._numbers))(self.coordinates)
        return statistics.correlation(slope, self._spread)

    def identifiability(self) -> Identifiability:
        """Combinations of the parameters that the recordings, without priors, determine."""
        return statistics.identifiability(
            self.names,
            self._numbers,
            self.coordinates,
            self.information_root,
            self._spread.variance,
        )

    @property
    def _is_misfit(self) -> bool:
        """Whether residuals are larger than stated noise, beyond chance and beyond rough noise."""
        chance = 1.0 + _SIGMAS * (2.0 / max(int(self._spread.degrees), 1)) ** 0.5
        excess = float(self.statistics.reduced_chi_squared)
        return self._noise_is_known and not excess <= max(_LARGE**2, chance)

    def __str__(self):
        values, errors = statistics.propagate(self._numbers, self.coordinates, self._spread)
        width = max(map(len, self.names))
        lines = [f"{'':{width}}  {'estimate':>12}  standard error"]
        for name, value, error in zip(self.names, values, errors, strict=True):
            lines.append(f"{name:{width}}  {value:12.6g}  {error:14.2g}")
        end = "converged" if self.converged else "NOT converged"
        ratio = float(self.statistics.reduced_chi_squared) ** 0.5
        if self._is_misfit:
            end += ", NOT fitted"
        size = f"residuals: {ratio:.3g} times the noise"
        if not self._noise_is_known:
            size = f"noise, estimated: {ratio:.3g}"
        lines.append(f"{end}, iterations: {len(self.history.cost)}, {size}")
        return "\n".join(lines)


def warn_of(fit: Identification, observed: PyTree) -> None:
    """Warn of misfits, correlated residuals, what is not determined, and a search without end."""

    def warn(words):
        libraries.warn(f"identify: {words}")

    ratio = float(fit.statistics.reduced_chi_squared) ** 0.5
    if fit._is_misfit:
        warn(
            f"the residuals are {ratio:.3g} times the stated noise: the model does not describe "
            "the recordings, or the start values were too far off (angles are in rad), or the "
            "noise is larger than stated; see fit.residuals. Under random loads give process=, and "
            "let predict return a lie_jax.estimation.Experiment."
        )
    elif (
        fit.converged
        and not (fit._noise_is_known and ratio < _SMALL)
        and (channel := _most_correlated_channel(fit, observed))
    ):
        warn(
            f"neighbouring residuals {channel} are correlated: the model does not describe the "
            "recordings, or their noise is not independent from sample to sample. Standard errors "
            "are too small then; see fit.residuals. Under random loads give process=, and "
            "let predict return a lie_jax.estimation.Experiment."
        )
    missing = round(float(np.trace(fit._spread.undetermined)))
    if missing:
        errors = statistics.propagate(fit._numbers, fit.coordinates, fit._spread)[1]
        unknown = [name for name, error in zip(fit.names, errors, strict=True) if np.isnan(error)]
        total = len(fit.names)
        warn(
            f"only {total - missing} of {total} combinations of the parameters are determined: "
            f"the standard errors of {', '.join(unknown)} are NaN, and "
            "print(fit.identifiability()) shows what may change together. Seek fewer parameters, "
            "or give a prior=; one at the end of its range (transforms=) is not determined either."
        )
    if not fit.converged:
        warn(
            f"not converged, iterations: {len(fit.history.cost)}; start nearer, raise "
            "max_iterations=, give horizons=, or another learning rate to an Optax method="
        )


def _most_correlated_channel(fit: Identification, observed: PyTree) -> str:
    """Channel with the largest autocorrelation of residuals beyond chance, or nothing."""
    worst, channel = _CORRELATED, ""
    numbers = fit.statistics.autocorrelation, fit.statistics.rms, fit.residuals, observed
    leaves, _ = jax.tree_util.tree_flatten_with_path(numbers[0])
    for (path, correlation), *others in zip(
        leaves, *map(jax.tree.leaves, numbers[1:]), strict=True
    ):
        rms, residuals, values = map(np.asarray, others)
        count = np.sum(np.isfinite(residuals), axis=0)
        beyond = np.asarray(correlation) * np.sqrt(count) > _SIGMAS
        beyond &= rms > _TINY * np.max(np.abs(values), initial=0.0)
        largest = float(np.max(np.where(beyond, correlation, 0.0), initial=0.0))
        if largest > worst:
            worst, channel = largest, f"{jax.tree_util.keystr(path)} ({largest:.2f})"
    return channel.strip()


@jax.jit
def describe(weighted: PyTree, weights: PyTree) -> tuple[PyTree, PyTree, PyTree, PyTree]:
    """Residuals (observed minus predicted), their means, rms and autocorrelations."""

    def of_channel(residual, weight):
        has_weight = weight > 0.0
        unweighted = jnp.where(has_weight, -residual / jnp.where(has_weight, weight, 1.0), jnp.nan)
        presence = has_weight.astype(residual.dtype)
        number, pairs = jnp.sum(presence, axis=0), jnp.sum(presence[1:] * presence[:-1], axis=0)
        centered = (residual - jnp.sum(residual * presence, axis=0)[None] / number[None]) * presence
        # Missing samples leave fewer pairs; without missing ones the factor is 1.
        products = number / (pairs + 1.0) * jnp.sum(centered[1:] * centered[:-1], axis=0)
        return (
            unweighted,
            jnp.nanmean(unweighted, axis=0),
            jnp.sqrt(jnp.nanmean(unweighted**2, axis=0)),
            products / jnp.sum(centered**2, axis=0),
        )

    rows = jax.tree.map(of_channel, weighted, weights)
    return jax.tree.transpose(jax.tree.structure(weighted), None, rows)
