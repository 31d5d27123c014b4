"""Smoother on a group: states and their covariances from all samples, before and after each."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from lie_jax.estimation import consistency, factors, local
from lie_jax.estimation.consistency import ChiSquare
from lie_jax.estimation.factors import product
from lie_jax.estimation.filter import Filtered, forward
from lie_jax.estimation.kalman import Belief
from lie_jax.estimation.model import Model
from lie_jax.estimation.passes import Arguments, Pass
from lie_jax.numerics import waits
from lie_jax.numerics.small import matvec
from lie_jax.systems.system import State


class Smoothed(eqx.Module):
    """States of `smooth`, each from all samples.

    - `t` (n,), `q` (n, nq), `v` (n, nv): instants (s) and estimates.
    - `bias` (n, ny): of the channels where they drift, else (n, 0).
    - `covariance`: of local coordinates around each estimate, as in `Filtered`.
    - `filtered`: the `Filtered` from which the way back began.
    """

    t: Float[Array, " n"]
    q: Float[Array, "n nq"]
    v: Float[Array, "n nv"]
    bias: Float[Array, "n nb"]
    covariance: Float[Array, "n x x"]
    filtered: Filtered

    @property
    def _model(self) -> Model:
        return self.filtered._model

    def nees(self, q: ArrayLike, v: ArrayLike) -> ChiSquare:
        """Test of the states against true ones, as `Filtered.nees`."""
        return consistency.errors_squared(self, q, v)


@waits.announce("the smoother")
def smooth(
    model: Model,
    data: ArrayLike | Sequence[Any],
    state: State,
    covariance: ArrayLike | Sequence[Any],
    *,
    dt: ArrayLike,
    t0: ArrayLike = 0.0,
    inputs: ArrayLike | Sequence[Any] | None = None,
    iterations: int = 2,
) -> Smoothed:
    """Estimate the states of a system from the samples before and after each: filter, then back.

    **Arguments**: `model`, `data`, `state`, `covariance`, `dt`, `t0`, `inputs` and `iterations` are
    those of `filter`, whose iterated extended Kalman filter runs first.

    The way back is that of Rauch, Tung and Striebel in the form of Bryson and Frazier, which
    inverts no covariance: of what constraints hold, or what is known from the start, it is
    singular. The change of each state is a displacement on the group. For linear systems both are
    the mean given all samples; for others, the smoother is linear about the filter's states.

    **Returns** a `Smoothed`. Raises `ValueError` as `filter` does.
    """
    given = Arguments(model, data, state, covariance, dt, t0, inputs, iterations)
    filtered, run = forward("smooth", "ekf", given, keep=True)
    (smoothed, bias), spread = _back(filtered._model, filtered.t, run)
    return Smoothed(filtered.t, smoothed.q, smoothed.v, bias, spread, filtered)


@eqx.filter_jit
def _back(model: Model, t: Array, run: Pass) -> Belief:
    """Beliefs given all samples.

    What later samples add to a belief with the covariance P is the displacement P λ, and they
    reduce P by P Λ P. The pair (λ, Λ) goes back through the transition of each step, and through
    each update, which adds its own sample.
    """

    def body(later, row):
        t, belief, (slopes, transition) = row
        # The pair belongs to coordinates before the next sample: through the step between.
        slope = matvec(transition.T, later[0])
        weight = factors.conjugate(transition.T, later[1])
        covariance = belief.covariance
        x = matvec(covariance, slope)
        reduced = covariance - factors.conjugate(covariance, weight)
        point, moved = local.move(model.system, t, belief.point, x)
        smoothed = Belief(point, factors.conjugate(moved, reduced))
        through = product(slopes.moved, slopes.kept)
        before = matvec(slopes.jacobian.T, slopes.pull) + matvec(through.T, slope)
        seen = factors.symmetric(product(slopes.jacobian.T, slopes.inverse))
        return (before, seen + factors.conjugate(through.T, weight)), smoothed

    n = model.size
    zero = jnp.zeros(n, t.dtype), jnp.zeros((n, n), t.dtype)
    rows = t, run.belief, run.slopes
    return jax.lax.scan(body, zero, rows, reverse=True)[1]
