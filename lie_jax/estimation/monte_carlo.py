"""Repeated identification of simulated recordings: whether standard errors can be trusted."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree

from lie_jax import checks
from lie_jax.estimation import innovations, predictions, recordings, statistics
from lie_jax.estimation.parameters import parameters
from lie_jax.estimation.transforms import free
from lie_jax.numerics import waits
from lie_jax.numerics.conversion import as_float


class MonteCarlo(eqx.Module):
    """Fits of `monte_carlo`, and how often their intervals hold the truth.

    - `estimates`, `standard_errors`: pytrees like the truth with a leading axis of runs.
    - `converged`: (runs,), whether each fit met its tolerance; not where a random motion fails.
    - `names`: of the p independent numbers that the parameters hold, for example `"inertia[0, 1]"`.
    - `deviations`: (runs, p), (estimate - truth) / standard error of each number: a standard normal
      sample where the standard errors are right. NaN for what the recording does not determine.
    - `coverage`: (p,), the share of the converged runs whose 95 % interval holds the truth.
    - `pooled_coverage`: its mean over the numbers that are determined; `pooled_coverage_error`: the
      standard error of that mean over the runs, since the numbers of one run vary together.
    """

    estimates: PyTree
    standard_errors: PyTree
    converged: Bool[Array, " runs"]
    names: tuple[str, ...] = eqx.field(static=True)
    deviations: Float[Array, "runs p"]
    coverage: Float[Array, " p"]
    pooled_coverage: Float[Array, ""]
    pooled_coverage_error: Float[Array, ""]

    def __str__(self):
        lines = [f"{'number':24}{'mean deviation':>16}{'its spread':>12}{'coverage':>10}"]
        kept = self.deviations[self.converged]
        for name, values, share in zip(self.names, kept.T, self.coverage, strict=True):
            mean, spread = float(jnp.mean(values)), float(jnp.std(values))
            lines.append(f"{name:24}{mean:16.3f}{spread:12.3f}{100 * float(share):8.1f} %")
        pooled, error = 100 * float(self.pooled_coverage), 100 * float(self.pooled_coverage_error)
        lines.append(
            f"pooled {pooled:.1f} ± {error:.1f} % (95 % expected); "
            f"{len(kept)} of {len(self.converged)} runs converged"
        )
        return "\n".join(lines)


@waits.announce("the identifications")
def monte_carlo(
    predict: Callable[[PyTree], PyTree],
    truth: PyTree,
    *,
    noise: PyTree,
    process: Any = None,
    samples: PyTree = None,
    runs: int = 200,
    seed: int = 0,
    transforms: PyTree = free,
    compare: PyTree = "vector",
    max_iterations: int = 50,
) -> MonteCarlo:
    """Simulate many recordings, fit all of them, and count how often the 95 % intervals are right.

    The recordings are `predict(truth)` with independent Gaussian noise, with `process` random
    motions of its experiments. All are fitted by
    Levenberg-Marquardt from the truth, under one `vmap` and one `jit`. With the estimates of an
    identification as the truth this is its parametric bootstrap: the spread of `estimates` holds
    where a model is not linear over its standard errors.

    **Arguments:**

    - `predict(parameters)`: the predicted observations, a pytree of arrays whose leading axis is
      time, or of `Experiment`s.
    - `truth`: pytree of parameters, in physical units.
    - `noise`: standard deviations of the observations: a number, or a pytree of numbers or arrays
      that broadcast.
    - `process`: process noise of experiments, as of `identify`; starts are then random, too, where
      they have a covariance. `noise` and `process` may be functions of the parameters.
    - `samples`: number of samples of each `Experiment`: a number, or a pytree of them like the
      recordings.
    - `transforms`: one of `lie_jax.estimation.transforms`, or a pytree of them that is a prefix of
      `truth`.
    - `compare`: `"vector"`, `"rotation"`, `"quaternion"` or `"pose"`, or a pytree of these words
      that is a prefix of the observations; `identify` says what they mean.
    - `runs`: number of recordings; `seed`: of their noise.
    - `max_iterations`: at most so many for each fit. A batch goes on until its slowest fit ends.

    **Returns** a `MonteCarlo`; `print` shows it as a table. Intervals are those of Student's t in
    the numbers that `MonteCarlo.names` lists: exact for a model that is linear in them. Coverage
    has a standard error of √(0.95 · 0.05 / runs). Raises `ValueError` as `identify` does.
    """
    where = "monte_carlo"
    checks.positive_integer(f"{where}(runs=)", runs, "the number of recordings")
    checks.positive_integer(f"{where}(max_iterations=)", max_iterations, "for each fit")
    checks.function(f"{where}(predict=)", predict, "parameters")
    checks.real_leaves(f"{where}(truth=)", truth)
    truth = jax.tree.map(as_float, truth)
    sought = parameters(where, truth, transforms)
    template = predictions.blank(where, predict, truth, samples)
    recorded: recordings.Recordings | innovations.Innovations
    if process is None:
        predictions.check_constant(where, noise)
        simulated = predict
        if template is not None:
            simulated = predictions.of_samples(where, predict, template)
        clean = jax.tree.map(as_float, jax.jit(lambda truth: simulated(truth))(truth))
        recordings.check_finite(where, clean, "truth", "")
        recorded = exact = recordings.prepare(where, clean, noise, compare)

        def with_noise(key):
            return simulated, exact.with_noise(key), jnp.asarray(True)

        record = with_noise
    else:
        noisy = predictions.noisy(where, predict, noise, process, compare)
        jax.eval_shape(lambda key: noisy.draw(truth, template, key), jax.random.key(seed))
        recorded = rows = innovations.prepare(template)

        def random_motion(key):
            data = noisy.draw(truth, template, key)
            return noisy.innovations(data), rows, jnp.all(jnp.isfinite(ravel_pytree(data)[0]))

        record = random_motion
    size = sum(x.size for x in jax.tree.leaves(recorded.weights))
    degrees = recorded.numbers - len(sought.names)
    statistics.check_degrees(recorded.numbers, len(sought.names))
    true_numbers = sought.numbers(sought.start)
    # Slow to import, see there.
    from lie_jax.estimation import search

    def fit_one(key):
        predicted, seen, moves = record(key)

        def residuals(z):
            values = predicted(sought.decode(z))
            return ravel_pytree((seen.weighted_residuals(values), seen.scale_residuals(values)))[0]

        z, value, jacobian, converged = search.search(
            residuals, sought.start, degrees, max_iterations
        )
        # Rows of deviations follow those of the samples.
        spread = statistics.spread(jacobian, value[:size], recorded.numbers)
        physical = statistics.propagate(sought.decode, z, spread)
        numbers, errors = statistics.propagate(sought.numbers, z, spread)
        return *physical, converged & moves, (numbers - true_numbers) / errors, spread.degrees

    keys = jax.random.split(jax.random.key(seed), runs)
    estimates, errors, converged, deviations, freedom = jax.jit(jax.vmap(fit_one))(keys)
    from scipy.special import stdtrit  # slow to import

    quantile = jnp.asarray(stdtrit(np.asarray(freedom), 0.975), deviations.dtype)
    coverage = _coverage(deviations, converged, quantile)
    return MonteCarlo(estimates, errors, converged, sought.names, deviations, *coverage)


@jax.jit
def _coverage(deviations: Array, converged: Array, quantile: Array) -> tuple[Array, Array, Array]:
    inside = (jnp.abs(deviations) <= quantile[:, None]).astype(deviations.dtype)
    inside = jnp.where(jnp.isnan(deviations), jnp.nan, inside)
    kept = jnp.where(converged[:, None], inside, jnp.nan)
    error = jnp.nanstd(jnp.nanmean(kept, axis=1)) / jnp.sqrt(jnp.sum(converged).astype(kept.dtype))
    return jnp.nanmean(kept, axis=0), jnp.nanmean(kept), error
