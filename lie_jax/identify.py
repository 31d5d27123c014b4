"""Identification: parameters of a model, and its initial state, from recordings."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix as optx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from lie_jax import checks, fitting
from lie_jax import transforms as charts
from lie_jax.algebra import as_float


class History(NamedTuple):
    """One row for each iteration: half the weighted sum of squares, the number of samples it was
    taken over, and the estimates (a pytree with a leading axis).
    """

    cost: Float[Array, " iterations"]
    samples: Int[Array, " iterations"]
    estimates: PyTree


class ResidualStatistics(NamedTuple):
    """Of each observed channel: mean, root mean square and lag-1 autocorrelation of the residuals.

    `mean` and `rms` have the observations' units; all are pytrees like the observations, without
    their leading axis. `reduced_chi_squared` is the weighted sum of squares divided by the degrees
    of freedom: near 1 if the model is right and the noise was stated right. White residuals have
    autocorrelations within about 2/√n of zero.
    """

    mean: PyTree
    rms: PyTree
    autocorrelation: PyTree
    reduced_chi_squared: Float[Array, ""]


class Identification(eqx.Module):
    """What `identify` found.

    - `estimates`: pytree like the start values, in physical units.
    - `standard_errors`: likewise; NaN where the recording does not determine the parameters.
    - `residuals`: observed minus predicted, like the observations.
    - `statistics`: `ResidualStatistics`. `history`: `History`.
    - `converged`: whether the method met its tolerance.
    - `coordinates`, `covariance`: the unconstrained coordinates (p,) and their covariance (p, p).
    """

    estimates: PyTree
    standard_errors: PyTree
    residuals: PyTree
    statistics: ResidualStatistics
    history: History
    converged: Bool[Array, ""]
    coordinates: Float[Array, " p"]
    covariance: Float[Array, "p p"]
    _decode: Callable = eqx.field(static=True)

    def propagate(self, function: Callable[[PyTree], PyTree]) -> tuple[PyTree, PyTree]:
        """Value and standard error of any function of the estimates, to first order."""
        return _propagate(lambda z: function(self._decode(z)), self.coordinates, self.covariance)


def identify(
    predict: Callable[[PyTree], PyTree],
    start: PyTree,
    observations: PyTree,
    *,
    noise: PyTree = 1.0,
    transforms: PyTree = charts.free,
    horizons: Sequence[int] | None = None,
    method: optx.AbstractLeastSquaresSolver | optax.GradientTransformation | None = None,
    max_iterations: int = 200,
    progress: bool = True,
) -> Identification:
    """Fit parameters so that predictions match observations in the sense of least squares.

    **Arguments:**

    - `predict(parameters)`: the predicted observations: build the system from the parameters (or
      put them into a system with `equinox.tree_at`), simulate with `throw=False`, observe.
    - `start`: pytree of start values, in physical units.
    - `observations`: pytree of arrays that `predict` matches; the leading axis of all is time.
    - `noise`: standard deviations of the observations' noise: a number, or a pytree of numbers or
      arrays that broadcast to the observations. Residuals are divided by them.
    - `transforms`: one of `lie_jax.transforms`, or a pytree of them that is a prefix of `start`:
      the coordinates in which a parameter is sought, so that masses stay positive, inertias
      physical and orientations on the group.
    - `horizons`: increasing numbers of samples; the fit starts on the first so many samples and
      goes on to the next number from what it found. For oscillating or fast turning systems a poor
      start is out of phase on the whole recording and finds its way over short horizons only.
      Default: all samples at once.
    - `method`: an Optimistix least-squares solver, default Levenberg-Marquardt, or an Optax
      optimiser, which is run for `max_iterations` on each horizon.
    - `max_iterations`: at most so many on each horizon.
    - `progress`: show a progress bar.

    **Returns** an `Identification`. Standard errors come from the Jacobian at the optimum and the
    size of the residuals: they hold for independent noise and a model that is linear over their
    size. Raises `ValueError` for observations that do not match the prediction, are not finite or
    have no common leading axis, for noise that is not positive, for horizons that do not increase
    or are longer than the recording, and for start values without a finite prediction.
    """
    start = jax.tree.map(as_float, start)
    z0, decode = _coordinates(start, transforms)
    observations = jax.tree.map(as_float, observations)
    samples = _samples(observations)
    horizons = _horizons(horizons, samples)
    weights = _weights(noise, observations)
    checks.positive_integer("identify(max_iterations=)", max_iterations, "for each horizon")
    _check_shapes(jax.eval_shape(predict, start), observations)

    def residuals(z, horizon):
        def weighted(observed, predicted, weight):
            inside = jnp.arange(samples) < horizon
            inside = inside.reshape(-1, *[1] * (observed.ndim - 1))
            return jnp.where(inside, (predicted - observed) * weight, 0.0)

        return jax.tree.map(weighted, observations, predict(decode(z)), weights)

    @jax.jit
    def linearize(z, horizon):
        def flat(z):
            weighted = residuals(z, horizon)
            return ravel_pytree(weighted)[0], weighted

        return jax.jacfwd(flat, has_aux=True)(z)

    jacobian, weighted = linearize(z0, jnp.asarray(samples))
    _check_prediction(jacobian, weighted)
    iterate = fitting.iterations(residuals, linearize, method)
    z, converged, (cost, counts, path) = fitting.run(
        iterate, z0, horizons, max_iterations, progress
    )

    jacobian, weighted = linearize(z, jnp.asarray(samples))
    chi_squared = sum(jnp.sum(r**2) for r in jax.tree.leaves(weighted))
    variance = chi_squared / (jacobian.shape[0] - jacobian.shape[1])
    covariance = variance * _inverse_of_gram(jacobian)
    estimates, standard_errors = _propagate(decode, z, covariance)
    left, mean, rms, autocorrelation = _describe(weighted, weights)
    decoded_path = jax.jit(jax.vmap(decode))(jnp.stack(path))
    return Identification(
        estimates=estimates,
        standard_errors=standard_errors,
        residuals=left,
        statistics=ResidualStatistics(mean, rms, autocorrelation, variance),
        history=History(jnp.asarray(cost), jnp.asarray(counts), decoded_path),
        converged=jnp.asarray(converged),
        coordinates=z,
        covariance=covariance,
        _decode=decode,
    )


def _coordinates(start: PyTree, transforms: PyTree):
    try:
        each = jax.tree.map(
            lambda transform, part: jax.tree.map(transform, part), transforms, start
        )
    except ValueError as error:
        if not _same_structure_as_prefix(transforms, start):
            raise ValueError(
                f"identify(transforms=) is {transforms!r}, no prefix of the start values "
                f"{jax.tree.structure(start)}: give one transform for all, or one for each entry."
            ) from error
        raise
    pairs, structure = jax.tree.flatten(each, is_leaf=_is_chart)
    z0, unravel = ravel_pytree([as_float(z) for z, _ in pairs])
    backs = [back for _, back in pairs]

    def decode(z):
        parts = unravel(z)
        return jax.tree.unflatten(
            structure, [back(part) for back, part in zip(backs, parts, strict=True)]
        )

    return as_float(z0), decode


def _same_structure_as_prefix(prefix: PyTree, tree: PyTree) -> bool:
    try:
        jax.tree.map(lambda *_: None, prefix, tree)
    except ValueError:
        return False
    return True


def _is_chart(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) == 2 and callable(x[1])


def _samples(observations: PyTree) -> int:
    leaves = jax.tree.leaves(observations)
    lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in leaves}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError(
            f"identify(observations=) holds arrays of the shapes {[x.shape for x in leaves]}; all "
            "must have the same leading axis, the samples in time."
        )
    for leaf in leaves:
        bad = np.argwhere(~np.isfinite(np.asarray(leaf)))
        if len(bad):
            raise ValueError(
                f"identify(observations=) is not finite at index {tuple(bad[0].tolist())} of an "
                f"array of shape {leaf.shape}; remove or repair that sample."
            )
    return lengths.pop()


def _horizons(horizons: Sequence[int] | None, samples: int) -> tuple[int, ...]:
    if horizons is None:
        return (samples,)
    result = tuple(int(h) for h in horizons)
    increasing = all(a < b for a, b in itertools.pairwise(result))
    if not result or not increasing or result[0] < 1 or result[-1] != samples:
        raise ValueError(
            f"identify(horizons=) is {result}; it must be increasing numbers of samples that end "
            f"with all {samples} of the recording."
        )
    return result


def _weights(noise: PyTree, observations: PyTree) -> PyTree:
    def weight(deviation, part):
        array = np.asarray(deviation, dtype=float)
        if not np.all(np.isfinite(array) & (array > 0.0)):
            raise ValueError(
                f"identify(noise=) is {array.tolist()}; standard deviations must be positive: use "
                "1.0 where the noise is not known."
            )

        def broadcast(observed):
            try:
                return jnp.asarray(np.broadcast_to(1.0 / array, observed.shape), observed.dtype)
            except ValueError as error:
                raise ValueError(
                    f"identify(noise=) has the shape {array.shape}, the observations have "
                    f"{observed.shape}; it must broadcast to them: give a number, or one for each "
                    "channel."
                ) from error

        return jax.tree.map(broadcast, part)

    if not _same_structure_as_prefix(noise, observations):
        raise ValueError(
            f"identify(noise=) is {noise!r}, no prefix of the observations "
            f"{jax.tree.structure(observations)}: give one number for all, or one for each entry."
        )
    return jax.tree.map(weight, noise, observations)


def _check_shapes(predicted: PyTree, observations: PyTree) -> None:
    got, expected = (
        jax.tree.map(lambda x: tuple(x.shape), tree) for tree in (predicted, observations)
    )
    if got != expected:
        raise ValueError(
            f"predict returns arrays of the shapes {got}, the observations have {expected}; the "
            "two must match: observe the same channels at the same instants."
        )


def _check_prediction(jacobian: Array, weighted: PyTree) -> None:
    numbers, unknowns = jacobian.shape
    if numbers <= unknowns:
        raise ValueError(
            f"{numbers} numbers were observed for {unknowns} unknowns; there must be more: observe "
            "more, or seek fewer parameters."
        )
    if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(weighted)):
        raise ValueError(
            "the prediction at the start values is infinite or NaN; start nearer to the truth, or "
            "simulate with a smaller dt."
        )


@jax.jit
def _inverse_of_gram(jacobian: Float[Array, "m p"]) -> Float[Array, "p p"]:
    """(JᵀJ)⁻¹, with NaN rows and columns for coordinates that J does not determine."""
    # Columns of unit length make the numerical rank independent of the parameters' units.
    lengths = jnp.linalg.norm(jacobian, axis=0)
    scale = jnp.where(lengths > 0.0, lengths, 1.0)
    _, singular, right = jnp.linalg.svd(jacobian / scale[None, :], full_matrices=False)
    eps = jnp.finfo(jacobian.dtype).eps
    determined = singular > jacobian.shape[0] * eps * singular[0]
    inverse = jnp.where(determined, 1.0 / jnp.where(determined, singular, 1.0) ** 2, 0.0)
    root = right.T / scale[:, None]
    gram_inverse = (root * inverse[None, :]) @ root.T
    unknown = jnp.sum(jnp.where(determined[:, None], 0.0, right**2), axis=0) > eps**0.5
    return jnp.where(unknown[:, None] | unknown[None, :], jnp.nan, gram_inverse)


def _propagate(function: Callable, z: Array, covariance: Array) -> tuple[PyTree, PyTree]:
    unknown = jnp.isnan(jnp.diagonal(covariance)).astype(z.dtype)
    known = jnp.where(jnp.isnan(covariance), 0.0, covariance)

    def standard_error(slope):
        error = jnp.sqrt(jnp.einsum("...i,ij,...j->...", slope, known, slope))
        needed = jnp.einsum("...i,i->...", jnp.abs(slope), unknown)
        return jnp.where(needed > 0.0, jnp.nan, error)

    @jax.jit
    def value_and_error(z):
        return function(z), jax.tree.map(standard_error, jax.jacfwd(function)(z))

    return value_and_error(z)


@jax.jit
def _describe(weighted: PyTree, weights: PyTree) -> tuple[PyTree, PyTree, PyTree, PyTree]:
    """Observed minus predicted in the observations' units: all, means, rms, autocorrelations."""
    left = jax.tree.map(lambda residual, weight: -residual / weight, weighted, weights)
    return (
        left,
        jax.tree.map(lambda r: jnp.mean(r, axis=0), left),
        jax.tree.map(lambda r: jnp.sqrt(jnp.mean(r**2, axis=0)), left),
        jax.tree.map(_lag_one, left),
    )


def _lag_one(residual: Array) -> Array:
    centered = residual - jnp.mean(residual, axis=0, keepdims=True)
    return jnp.sum(centered[1:] * centered[:-1], axis=0) / jnp.sum(centered**2, axis=0)
