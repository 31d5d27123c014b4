"""Kalman filters on a group: states, their covariances and the likelihood from a recording."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.estimation import consistency, passes
from lie_jax.estimation.consistency import ChiSquare
from lie_jax.estimation.kalman import Belief
from lie_jax.estimation.model import Model
from lie_jax.estimation.passes import Arguments, Pass, Recording
from lie_jax.numerics import waits
from lie_jax.systems.system import State
from lie_jax.user_functions import snapshots

_KINDS = ("ekf", "ukf")


class Filtered(eqx.Module):
    """States of `filter` after each sample, and what the samples say of model and noise.

    - `t` (n,), `q` (n, nq), `v` (n, nv): instants (s) and estimates from the samples so far.
    - `bias` (n, ny): of the channels where they drift, else (n, 0).
    - `covariance` (n, 2 nv + nb, 2 nv + nb): of local coordinates around each estimate, those of
      `space.retract(q, x)`, then the changes of v and of the nb biases; singular across
      constraints.
    - `data` (n, ny): the samples.
    - `innovations` (n, ny): observed minus predicted, NaN where missing; with their
      `innovation_covariance` (n, ny, ny), for missing channels those of an innovation zero.
    - `whitened` (n, ny): innovations as independent numbers of variance one, NaN where missing.
    - `log_likelihood`: of all samples, with its constant.
    """

    t: Float[Array, " n"]
    q: Float[Array, "n nq"]
    v: Float[Array, "n nv"]
    bias: Float[Array, "n nb"]
    covariance: Float[Array, "n x x"]
    data: Float[Array, "n ny"]
    innovations: Float[Array, "n ny"]
    innovation_covariance: Float[Array, "n ny ny"]
    whitened: Float[Array, "n ny"]
    log_likelihood: Float[Array, ""]
    _scales: Float[Array, "n ny"]
    _model: Model

    def nis(self) -> ChiSquare:
        """Test of the innovations, eᵀ S⁻¹ e of each sample (n,); independent of each other."""
        there = ~jnp.isnan(self.data)
        return ChiSquare(jnp.nansum(self.whitened**2, axis=1), jnp.sum(there, axis=1))

    def nees(self, q: ArrayLike, v: ArrayLike) -> ChiSquare:
        """Test of the states against true ones, as of a simulation: xᵀ P⁻¹ x at each instant (n,).

        Errors of neighbouring instants depend on each other: test one instant of many runs, under
        `jax.vmap`. Directions without variance do not count. Raises `ValueError` for arrays of
        other shapes.
        """
        return consistency.errors_squared(self, q, v)


@waits.announce("the filter")
def filter(
    model: Model,
    data: ArrayLike | Sequence[Any],
    state: State,
    covariance: ArrayLike | Sequence[Any],
    *,
    dt: ArrayLike,
    t0: ArrayLike = 0.0,
    inputs: ArrayLike | Sequence[Any] | None = None,
    kind: str = "ekf",
    iterations: int = 2,
) -> Filtered:
    """Estimate the states of a system under process noise from noisy samples, in one pass.

    **Arguments:**

    - `model`: a `Model`.
    - `data` (n, ny): a sample for each instant t0, t0 + dt, ..., the first one that of `state`. NaN
      is a missing channel; rows of NaN between those of a slower instrument keep steps short.
    - `state`, `covariance`: the estimate before the first sample, and the covariance (2 nv, 2 nv)
      of its error in local coordinates, those of `space.retract`, then of v; zeros for what is
      known. With constraints its part along them counts. Biases that drift begin at zero, and
      have ny further rows.
    - `dt` (s): size of the steps, one between samples; `t0`: time of the first one.
    - `inputs` (n - 1, nu): held over each step, as of `simulate`; none: zeros.
    - `kind`: `"ekf"`, the iterated extended Kalman filter, with the derivatives of step and
      measurement; or `"ukf"`, by pairs of sigma points of state and loads (unscented, κ = 0), which
      sees curvature and needs no derivatives.
    - `iterations`: of each update of the former, Gauss-Newton steps to its most likely state; with
      1 the extended Kalman filter itself.

    The covariance is that of coordinates on the group around the estimate, which each update moves
    with the derivative of `retract`; systems with constraints are projected onto them after each
    update. The filter is exact for linear systems, compiles, batches and differentiates.

    **Returns** a `Filtered`. Raises `ValueError` for arguments that break a rule above and, outside
    JAX transformations, for an estimate that does not stay finite.
    """
    checks.one_of("filter(kind=)", kind, _KINDS)
    given = Arguments(model, data, state, covariance, dt, t0, inputs, iterations)
    return forward("filter", kind, given, keep=False)[0]


def forward(where: str, kind: str, given: Arguments, *, keep: bool) -> tuple[Filtered, Pass]:
    """Result for arguments that are checked here, and the passes, with derivatives to keep."""
    recording, point, covariance = passes.prepare(where, given)
    model, iterations = snapshots.freeze(given.model), given.iterations
    run = passes.run(model, recording, Belief(point, covariance), iterations, kind, keep)
    filtered = _describe(model, recording, run)
    passes.check_finite(where, filtered)
    return filtered, run


def _describe(model: Model, recording: Recording, run: Pass) -> Filtered:
    """Result of all passes."""
    data, dt, t0, _ = recording
    there = ~jnp.isnan(data)
    ((state, bias), covariance), innovation, _ = run
    terms = innovation.whitened**2 + 2.0 * jnp.log(innovation.scales)
    constant = jnp.where(there, float(np.log(2.0 * np.pi)), 0.0)
    return Filtered(
        t=t0 + jnp.arange(data.shape[0]).astype(dt.dtype) * dt,
        q=state.q,
        v=state.v,
        bias=bias,
        covariance=covariance,
        data=data,
        innovations=jnp.where(there, innovation.values, jnp.nan),
        innovation_covariance=innovation.covariance,
        whitened=jnp.where(there, innovation.whitened, jnp.nan),
        log_likelihood=-0.5 * jnp.sum(terms + constant),
        _scales=innovation.scales,
        _model=model,
    )
