"""Searches: solvers of Optimistix and optimisers of Optax over growing horizons, and one for vmap.

These libraries take as long to import as all of lie_jax: import this module when a fit begins.
"""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix as optx
from jaxtyping import Array, Float, PyTree

from lie_jax.numerics.progress import progress_bar

# On all horizons but the last, a gain below this fraction of the cost ends the search: what is left
# to gain on a part of the recording does not help on the whole.
_SMALL_GAIN = 1e-2
# Relative tolerance of cost and coordinates, well below standard errors; the absolute one is for a
# coordinate or a cost that goes to zero.
_DEFAULT = optx.LevenbergMarquardt(rtol=1e-6, atol=1e-12)
# Iterations in a row without a gain above rounding that end a search as converged. Far from an
# optimum a solver needs rejected trials to find its damping, each of which multiplies it by four:
# eighteen of them go through steps of every size.
_NO_GAIN = 1e-10
_PATIENCE = 18
# Damping of the first step on each horizon, relative to the square of the longest column of the
# Jacobian: nearly a Gauss-Newton step, but coordinates that a short horizon hardly determines stay.
_FIRST_DAMPING = 1e-7
# The steps of a first-order method contain no distance to the optimum: it counts as converged when
# the gradient has fallen to this fraction of its first value.
_SMALL_GRADIENT = 1e-4

# Generator of (z, cost, done) from a start and a horizon, a pytree of numbers of samples.
Iterate = Callable[[Array, PyTree], Iterator[tuple[Array, Any, bool]]]


def run(iterate: Iterate, z: Array, horizons: list[PyTree], max_iterations: int, progress: bool):
    """Run at most so many iterations on each horizon in turn, with a progress bar.

    Returns z, cost and most samples of each iteration, and whether the last horizon was finished.
    """
    rows = []
    finished = False
    with progress_bar("identify", "it", None, progress) as update:
        for number, horizon in enumerate(horizons, 1):
            samples = max(jax.tree.leaves(horizon))
            steps = iterate(z, jax.tree.map(jnp.asarray, horizon))
            previous, idle = np.inf, 0
            for _ in range(max_iterations):
                z, cost, finished = next(steps)
                rows.append((z, cost, samples))
                gain = previous - float(cost)
                idle = 0 if gain > 0.0 else idle + 1
                text = f"{samples} samples, cost {float(cost):.6g}"
                update(1, text + (f", {idle} trials without gain" if idle else ""))
                # A rejected trial leaves the cost as it was: it is no small gain.
                small_gain = 0.0 < gain < _SMALL_GAIN * previous
                if finished or (small_gain and number < len(horizons)):
                    break
                previous = float(cost)
    path, costs, counts = zip(*rows, strict=True)
    return path, jnp.asarray(np.stack(costs)), jnp.asarray(counts), jnp.asarray(finished)


def iterations(residuals: Callable, linearize: Callable, method: Any) -> Iterate:
    """Iterations of a method; raises `ValueError` for anything that is no method.

    `residuals(z, horizon)` is a pytree, `linearize(z, horizon)` its numbers (m,), their Jacobian
    (m, p), and the pytree.
    """
    if method is None:
        method = _DEFAULT
    if isinstance(method, optx.AbstractGaussNewton):
        return _least_squares(linearize, method)
    if isinstance(method, optax.GradientTransformation):
        return _descent(residuals, method)
    raise ValueError(
        f"identify(method=) is {method!r}; it must be None, a Gauss-Newton solver of Optimistix, "
        "such as Dogleg, or an Optax optimiser, for example optax.adam(1e-2)."
    )


_FORWARD = {"options": {"jac": "fwd"}, "tags": frozenset()}


# Solvers of the Gauss-Newton family evaluate the function and its Jacobian at one point a step.
# These programs are compiled once for all fits of the same shapes and method: a tangent plane there
# in place of the model keeps the prediction out of them.
@eqx.filter_jit
def _init(solver, z, plane):
    shapes = jax.eval_shape(_tangent_plane, z, plane)[0]
    state = solver.init(_tangent_plane, z, plane, f_struct=shapes, aux_struct=None, **_FORWARD)
    # The first damping is a number in JAX's default precision, whatever that of z.
    return jax.tree.map(lambda x: x.astype(z.dtype) if eqx.is_inexact_array(x) else x, state)


@eqx.filter_jit
def _advance(solver, z, state, plane):
    z, state, _ = solver.step(_tangent_plane, z, plane, state=state, **_FORWARD)
    done, result = solver.terminate(_tangent_plane, z, plane, state=state, **_FORWARD)
    return z, state, state.f_info.as_min(), done & (result == optx.RESULTS.successful)


def _tangent_plane(z, plane):
    point, value, jacobian, scale = plane
    return scale * value + scale * jacobian @ (z - point), None


@jax.jit
def _scale(jacobian):
    longest = jnp.max(jnp.linalg.norm(jacobian, axis=0))
    return jnp.where(longest > 0.0, 1.0 / (_FIRST_DAMPING**0.5 * longest), 1.0)


def _least_squares(linearize, solver) -> Iterate:
    # The first damping of a solver is 1 and its tolerances are absolute numbers: on each horizon
    # the residuals are scaled so that neither depends on units.
    def iterate(z, horizon):
        value, jacobian, _ = linearize(z, horizon)
        scale = _scale(jacobian)
        plane = z, value, jacobian, scale
        state = _init(solver, z, plane)
        previous, idle = np.inf, 0
        while True:
            z, state, cost, done = _advance(solver, z, state, plane)
            idle = idle + 1 if previous - float(cost) <= _NO_GAIN * previous else 0
            previous = float(cost)
            yield z, np.asarray(cost) / np.asarray(scale) ** 2, bool(done) or idle >= _PATIENCE
            plane = state.y_eval, *linearize(state.y_eval, horizon)[:2], scale

    return iterate


def _descent(residuals, optimiser) -> Iterate:
    def half_square(z, horizon):
        return 0.5 * sum(jnp.sum(r**2) for r in jax.tree.leaves(residuals(z, horizon)))

    @eqx.filter_jit
    def advance(z, state, horizon):
        cost, slope = jax.value_and_grad(half_square)(z, horizon)
        updates, state = optimiser.update(slope, state, z)
        return z + updates, state, cost, jnp.linalg.norm(slope)

    def iterate(z, horizon):
        state = optimiser.init(z)
        first = None
        while True:
            following, state, cost, slope = advance(z, state, horizon)
            first = slope if first is None else first
            yield z, cost, bool(slope <= _SMALL_GRADIENT * first)
            z = following

    return iterate


# A search for `monte_carlo` ends when its next step is below this fraction of the standard errors.
# Above the damping `_LIGHT` a short step shows the damping, not convergence.
_SMALL_STEP, _LIGHT = 1e-3, 1e-2


def search(
    function: Callable[[Array], Array], start: Float[Array, " p"], degrees: int, max_iterations: int
) -> tuple[Array, Array, Array, Array]:
    """Levenberg-Marquardt as a pure function, for starts near the optimum and for batches.

    `function(z)` are residuals (m,) with `degrees` of freedom. Returns z, residuals and Jacobian
    there, and whether the next step would be far below the standard errors.
    """
    linearize = jax.jacfwd(lambda z: (function(z),) * 2, has_aux=True)
    # The solver's coordinates are y = (z - start) lengths: the columns of the Jacobian at the start
    # have length one in them, and damping does not depend on units.
    size = jnp.asarray(_FIRST_DAMPING**-0.5, start.dtype)

    def advance(carry):
        y, arrays, lengths, _, trials = carry
        state = eqx.combine(arrays, constants)
        jacobian, value = linearize(start + state.y_eval / lengths)
        columns = jnp.linalg.norm(jacobian, axis=0)
        first = jnp.where(columns > 0.0, columns, 1.0)
        lengths = jnp.where(trials == 0, first, lengths)
        plane = state.y_eval, value, jacobian / lengths[None, :], size
        y, state, *_ = _advance(_DEFAULT, y, state, plane)
        # The decrease that the next step promises, against the variance of the residuals.
        change = state.f_info.jac.mv(state.y_eval - y)
        variance = jnp.sum(state.f_info.residual**2) / degrees
        small = jnp.sum(change**2) <= _SMALL_STEP**2 * variance
        light = state.search_state.step_size * _LIGHT >= _FIRST_DAMPING
        return y, eqx.filter(state, eqx.is_array), lengths, small & light, trials + 1

    # The first trial is the start itself: the function is compiled once.
    y = jnp.zeros_like(start)
    jacobian, value = (jnp.zeros(x.shape, x.dtype) for x in jax.eval_shape(linearize, start))
    state = _init(_DEFAULT, y, (y, value, jacobian, size))
    arrays, constants = eqx.partition(state, eqx.is_array)
    carry = y, arrays, jnp.ones_like(start), jnp.asarray(False), jnp.asarray(0)
    y, arrays, lengths, done, _ = jax.lax.while_loop(
        lambda carry: ~carry[3] & (carry[4] <= max_iterations), advance, carry
    )
    optimum = eqx.combine(arrays, constants).f_info
    jacobian = optimum.jac.as_matrix() * lengths[None, :] / size
    return start + y / lengths, optimum.residual / size, jacobian, done
