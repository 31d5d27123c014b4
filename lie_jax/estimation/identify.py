"""Identification: parameters of a model, and its initial state, from recordings."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from lie_jax import checks
from lie_jax.estimation import innovations, predictions, recordings, statistics
from lie_jax.estimation.identification import (
    History,
    Identification,
    ResidualStatistics,
    describe,
    warn_of,
)
from lie_jax.estimation.parameters import parameters, priors
from lie_jax.estimation.transforms import free
from lie_jax.numerics import waits
from lie_jax.numerics.conversion import as_float


@waits.announce("the identification")
def identify(
    predict: Callable[[PyTree], PyTree],
    start: PyTree,
    observations: PyTree,
    *,
    noise: PyTree = None,
    process: Any = None,
    transforms: PyTree = free,
    compare: PyTree = "vector",
    prior: PyTree = None,
    horizons: Sequence[Any] | None = None,
    method: Any = None,
    max_iterations: int = 200,
    progress: bool = True,
) -> Identification:
    """Fit parameters so that predictions match observations in the sense of least squares, or under
    process noise to the greatest likelihood.

    **Arguments:**

    - `predict(parameters)`: the predicted observations. Build the system from the parameters (or
      put them into a system with `equinox.tree_at`), simulate with `throw=False`, observe. Or, for
      each array of the observations, an `Experiment`, which is simulated so.
    - `start`: pytree of start values, in physical units.
    - `observations`: pytree of arrays like the prediction; the leading axis of each is time.
      Recordings of their own length and sampling are entries of their own.
    - `noise`: standard deviations of the residuals, which are divided by them: a number, or a
      pytree of numbers or arrays that broadcast. Samples with infinite noise, NaN too, are missing.
      Default: not known, and 1 for all.
    - `process`: white noise on the systems of experiments, as `Model(process=)` takes it: for
      example `{"inputs": 0.1}`, one for all recordings or a pytree of them like the observations.
      Or a function of the parameters that returns this: densities are then among them. Recordings
      (n, ny) are filtered, in which NaN is missing, and `noise` must be given, a number or an array
      (ny,) for each recording, or a function of the parameters. Default: simulations.
    - `transforms`: one of `lie_jax.estimation.transforms`, or a pytree of them that is a prefix of
      `start`: coordinates in which masses stay positive, inertias physical, orientations on the
      group and numbers within bounds.
    - `compare`: one word, or a pytree of them that is a prefix of the observations. `"vector"`:
      residuals are differences. `"rotation"` (..., 3, 3), `"quaternion"` (..., 4): rotation
      vectors (3,) from observed to predicted, log(Rᵀ_observed R_predicted), in rad. `"pose"`
      (..., 4, 4): twists (6,) of that kind, translation first. A function of one's own of
      predicted and observed samples, (n, ...) both, returns their residuals (n, ...), whose squares
      add up to the loss: a robust one, or angles that are compared within half a turn.
    - `prior`: pairs (mean, standard deviation) in physical units in the place of each parameter,
      `None` for those without; for a dict of parameters, those that have one. The deviation is a
      number or an array that broadcasts, infinite for entries without a prior; that of an
      orientation is a rotation vector's, in rad. Priors count as observations: state the noise.
    - `horizons`: increasing numbers of samples, the last of them all. The fit of the first samples
      is the start of the next fit: on the whole recording, a poor start of an oscillating or
      turning system is out of phase. Each is a number for all recordings (a shorter one is taken
      whole) or a pytree of numbers that is a prefix of the observations. Default: all at once.
    - `method`: a Gauss-Newton solver of Optimistix, default Levenberg-Marquardt, or an Optax
      optimiser. `max_iterations`: at most so many on each horizon.
    - `progress`: show a progress bar.

    **Returns** an `Identification`. Standard errors come from the Jacobian at the optimum and the
    size of the residuals: they hold for independent noise and a model that is linear over their
    size, which `monte_carlo` checks. Random loads make residuals of a simulation depend on each
    other, and these errors many times too small; with `process` residuals are whitened innovations,
    and the Jacobian has the information that their deviations add. Warns where parameters are not
    determined, where residuals are larger than the stated noise, and where the method has not
    converged. Raises `ValueError`, before anything is fitted, for arguments that break a rule
    above, observations that do not match the prediction, and start values without a finite
    prediction.
    """
    where = "identify"
    checks.function(f"{where}(predict=)", predict, "parameters")
    checks.real_leaves(f"{where}(start=)", start)
    checks.real_leaves(f"{where}(observations=)", observations)
    start, observations = jax.tree.map(as_float, (start, observations))
    recordings.check_precision(where, start, observations)
    sought = parameters(where, start, transforms)
    recorded: recordings.Recordings | innovations.Innovations
    if process is None:
        compute = predictions.of_samples(where, predict, observations)
        shapes = recordings.predicted_shapes(predict, compute, start)
        predictions.check_constant(where, noise)
        weights = 1.0 if noise is None else noise
        recorded = recordings.prepare(where, observations, weights, compare)
        recordings.check_shapes(shapes, recorded.observed)
    else:
        noisy = predictions.noisy(where, predict, noise, process, compare)
        compute = noisy.innovations(observations)
        recordings.predicted_shapes(predict, compute, start)
        recorded = innovations.prepare(observations)
    stages = recordings.horizons(where, horizons, jax.tree.map(len, observations))
    known = priors(where, prior, start, transforms)
    if prior is not None and noise is None:
        raise ValueError(
            "identify(prior=) is given without noise=; a prior is weighed against the recordings "
            "by their noise: give noise=, their standard deviations."
        )
    checks.positive_integer(f"{where}(max_iterations=)", max_iterations, "for each horizon")
    known_numbers = known(start).size
    numbers = recorded.numbers + known_numbers
    statistics.check_degrees(numbers, len(sought.names))

    def parts(values, predicted, horizon):
        """Residuals of the recordings, those of the deviations of innovations, and priors."""
        weighted = recorded.weighted_residuals(predicted, horizon)
        return weighted, recorded.scale_residuals(predicted, horizon), known(values)

    def residuals(z, horizon):
        values = sought.decode(z)
        return parts(values, compute(values), horizon)

    @jax.jit
    def linearize(z, horizon):
        def flat(z):
            values = sought.decode(z)
            weighted = parts(values, compute(values), horizon)
            value = ravel_pytree(weighted)[0]
            return value, (value, weighted)

        jacobian, (value, weighted) = jax.jacfwd(flat, has_aux=True)(z)
        return value, jacobian, weighted

    whole = jax.tree.map(jnp.asarray, stages[-1])
    value, *_ = linearize(sought.start, whole)
    recordings.check_finite(where, value, "start values", "start nearer to the truth, or ")
    # Slow to import, see there.
    from lie_jax.estimation import search

    iterate = search.iterations(residuals, linearize, method)
    path, cost, counts, converged = search.run(
        iterate, sought.start, stages, max_iterations, progress
    )
    z = path[-1]

    def log_densities(z):
        """Of the recordings, and of the priors."""
        values = sought.decode(z)
        return recorded.log_density(compute(values)), -0.5 * jnp.sum(known(values) ** 2)

    _, jacobian, (weighted, _, from_priors) = linearize(z, whole)
    errors = ravel_pytree((weighted, from_priors))[0]
    spread = statistics.spread(jacobian, errors, numbers)
    estimates, standard_errors = statistics.propagate(sought.decode, z, spread)
    unweighted, mean, rms, autocorrelation = describe(weighted, recorded.weights)
    fit = Identification(
        estimates=estimates,
        standard_errors=standard_errors,
        residuals=unweighted,
        statistics=ResidualStatistics(mean, rms, autocorrelation, spread.variance),
        history=History(cost, counts, jax.jit(jax.vmap(sought.decode))(np.stack(path))),
        converged=converged,
        coordinates=z,
        names=sought.names,
        information_root=jnp.linalg.qr(jacobian[: len(jacobian) - known_numbers], mode="r"),
        _spread=spread,
        _noise_is_known=recorded.noise_is_known,
        _decode=sought.decode,
        _numbers=sought.numbers,
        _log_densities=log_densities,
        _noise=spread.variance**0.5 if noise is None else jnp.ones_like(spread.variance),
    )
    warn_of(fit, recorded.observed)
    return fit
