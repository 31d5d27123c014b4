"""Predictions and updates of Kalman filters on a group: extended, iterated, and unscented."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.estimation import factors, local
from lie_jax.estimation.factors import product
from lie_jax.estimation.local import Point
from lie_jax.estimation.model import Model
from lie_jax.numerics import small
from lie_jax.numerics.small import matvec


class Belief(NamedTuple):
    """Point, and the covariance of local coordinates around it."""

    point: Point
    covariance: Float[Array, "n n"]


class Innovation(NamedTuple):
    """What a sample adds: observed minus predicted, zero where it is missing.

    - `values` (ny,) and their `covariance` S, with ones on the diagonal for missing channels.
    - `whitened`: L⁻¹ values for L Lᵀ = S, `scales` (ny,): the diagonal of L.
    """

    values: Float[Array, " ny"]
    covariance: Float[Array, "ny ny"]
    whitened: Float[Array, " ny"]
    scales: Float[Array, " ny"]


class Slopes(NamedTuple):
    """Derivatives of an update, for the way back of a smoother.

    - `jacobian` H and `inverse` S⁻¹ H; `pull` S⁻¹ times the innovation.
    - `kept`: I - K H, and `moved`: from coordinates before the update to those after it.
    """

    jacobian: Float[Array, "ny n"]
    inverse: Float[Array, "ny n"]
    pull: Float[Array, " ny"]
    kept: Float[Array, "n n"]
    moved: Float[Array, "n n"]


def predict(
    model: Model, t: Array, dt: Array, u: Array | None, belief: Belief
) -> tuple[Belief, Float[Array, "n n"]]:
    """Belief a step later, and the derivative of its state by the one before."""
    space, n = model.system.space, model.size
    origin = jnp.zeros(n + model.loads, dt.dtype)

    def end(z):
        return model.step(t, dt, local.displace(space, belief.point, z[:n]), u, z[n:])

    def along(direction):
        after, change = jax.jvp(end, (origin,), (direction,))
        _, change = jax.jvp(lambda x: local.difference(space, after, x), (after,), (change,))
        return after, change

    directions = jnp.eye(n + model.loads, dtype=dt.dtype)
    after, slopes = jax.vmap(along, out_axes=(None, 1))(directions)
    transition, loads = slopes[:, :n], slopes[:, n:]
    covariance = factors.conjugate(transition, belief.covariance)
    if model.loads:
        covariance = covariance + factors.symmetric(product(loads, loads.T))
    return Belief(after, covariance), transition


def update(
    model: Model, t: Array, belief: Belief, sample: Float[Array, " ny"], iterations: int
) -> tuple[Belief, Innovation, Slopes]:
    """Belief after a sample: Gauss-Newton steps to the most likely state.

    The measurement is linear about the last of these states; from the prediction alone this is the
    extended Kalman filter.
    """
    covariance = belief.covariance
    there = ~jnp.isnan(sample)
    observed = jnp.where(there, sample, 0.0)
    variance = jnp.where(there, model.noise.astype(sample.dtype) ** 2, 1.0)
    identity = jnp.eye(sample.shape[0], dtype=sample.dtype)
    noise = variance[:, None] * identity

    def expect(x):
        # The first x is zero: the prediction itself, on the constraints.
        if iterations > 1:
            moved = local.land(model.system, t, belief.point, x)
        else:
            moved = local.displace(model.system.space, belief.point, x)
        value = model.sample(t, moved)
        return value, value

    def improve(x, _):
        jacobian, expected = jax.jacfwd(expect, has_aux=True)(x)
        jacobian = jnp.where(there[:, None], jacobian, 0.0)
        values = jnp.where(there, observed - expected, 0.0) + matvec(jacobian, x)
        seen = product(jacobian, covariance)
        spread = factors.symmetric(product(seen, jacobian.T)) + noise
        table = jnp.concatenate([values[:, None], identity, jacobian], axis=1)
        whitened, scales = factors.whiten(spread, table)
        split = 1 + sample.shape[0]
        inverse = product(whitened[:, 1:split].T, whitened[:, 1:])
        gain = product(seen.T, inverse[:, : split - 1])
        innovation = Innovation(values, spread, whitened[:, 0], scales)
        change = matvec(gain, values)
        rest = jacobian, inverse[:, split - 1 :], gain, matvec(inverse[:, : split - 1], values)
        return change, (innovation, *rest)

    # All iterations are one loop, whose body is compiled once.
    x, found = jax.lax.scan(improve, jnp.zeros_like(covariance[0]), length=iterations)
    innovation, jacobian, inverse, gain, pull = jax.tree.map(lambda rows: rows[-1], found)
    kept = jnp.eye(len(x), dtype=x.dtype) - product(gain, jacobian)
    # Joseph's form: no difference of covariances, which may lose all digits.
    covariance = factors.conjugate(kept, covariance) + factors.conjugate(gain, noise)
    point, moved = local.move(model.system, t, belief.point, x)
    slopes = Slopes(jacobian, inverse, pull, kept, moved)
    return Belief(point, factors.conjugate(moved, covariance)), innovation, slopes


def _sigma_points(covariance: Float[Array, "n n"], loads: int) -> Float[Array, "points all"]:
    """Rows of local coordinates and loads, in pairs of opposite ones; mean zero, and the covariance
    of both, with equal weights (the unscented transform with κ = 0, third-order cubature).
    """
    n, dtype = covariance.shape[0], covariance.dtype
    corner = jnp.zeros((n, loads), dtype)
    unit = jnp.eye(loads, dtype=dtype)
    whole = small.block_2x2(factors.root(covariance), corner, corner.T, unit)
    rows = (n + loads) ** 0.5 * whole.T
    return jnp.concatenate([rows, -rows])


def predict_by_points(model: Model, t: Array, dt: Array, u: Array | None, belief: Belief) -> Belief:
    """Belief a step later by sigma points of the state and of the loads."""
    system, n = model.system, model.size
    points = _sigma_points(belief.covariance, model.loads)
    # The state itself is the centre of the coordinates, and has no weight.
    points = jnp.concatenate([points, jnp.zeros_like(points[:1])])

    def end(z):
        return model.step(t, dt, local.land(system, t, belief.point, z[:n]), u, z[n:])

    ends = jax.vmap(end)(points)
    centre = jax.tree.map(lambda x: x[-1], ends)
    rows = jax.vmap(lambda x: local.difference(system.space, centre, x))(ends)[:-1]
    mean = jnp.mean(rows, axis=0)
    covariance = _covariance(rows - mean[None], rows - mean[None])
    point, moved = local.move(system, t + dt, centre, mean)
    return Belief(point, factors.conjugate(moved, covariance))


def update_by_points(
    model: Model, t: Array, belief: Belief, sample: Float[Array, " ny"]
) -> tuple[Belief, Innovation]:
    """Belief after a sample, by sigma points."""
    system, covariance = model.system, belief.covariance
    there = ~jnp.isnan(sample)
    variance = jnp.where(there, model.noise.astype(sample.dtype) ** 2, 1.0)
    points = _sigma_points(covariance, 0)
    expected = jax.vmap(lambda x: model.sample(t, local.land(system, t, belief.point, x)))(points)
    mean = jnp.mean(expected, axis=0)
    rows = jnp.where(there[None], expected - mean[None], 0.0)
    values = jnp.where(there, jnp.where(there, sample, 0.0) - mean, 0.0)
    spread = _covariance(rows, rows) + jnp.diag(variance)
    together = _covariance(rows, points)
    whitened, scales = factors.whiten(spread, jnp.concatenate([values[:, None], together], axis=1))
    x = matvec(whitened[:, 1:].T, whitened[:, 0])
    covariance = covariance - factors.symmetric(product(whitened[:, 1:].T, whitened[:, 1:]))
    point, moved = local.move(system, t, belief.point, x)
    after = Belief(point, factors.conjugate(moved, covariance))
    return after, Innovation(values, spread, whitened[:, 0], scales)


def _covariance(a: Float[Array, "points m"], b: Float[Array, "points n"]) -> Float[Array, "m n"]:
    return product(a.T, b) / a.shape[0]
