"""Least-squares solvers of Optimistix and optimisers of Optax as iterations, for `identify`.

These libraries take as long to import as all of lie_jax: this module is imported when a fit begins.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix as optx
from jax.flatten_util import ravel_pytree

# Relative tolerance of cost and coordinates, well below standard errors; the absolute one is for a
# coordinate or a cost that goes to zero.
_DEFAULT = optx.LevenbergMarquardt(rtol=1e-6, atol=1e-12)


def iterations(residuals: Callable, linearize: Callable, method: Any) -> Callable:
    """Iterations of a method: a function of z and a horizon that yields (z, cost, done).

    `residuals(z, horizon)` is a pytree, `linearize(z, horizon)` its Jacobian (m, p) and the pytree.
    Raises `ValueError` for anything that is no method.
    """
    if method is None:
        method = _DEFAULT
    if isinstance(method, optx.AbstractLeastSquaresSolver):
        return _least_squares(residuals, linearize, method)
    if isinstance(method, optax.GradientTransformation):
        return _descent(residuals, method)
    raise ValueError(
        f"identify(method=) is {method!r}; it must be None, an Optimistix least-squares solver or "
        "an Optax optimiser, for example optax.adam(1e-2)."
    )


# So many iterations in a row without a gain above rounding end a search as converged. Far from an
# optimum a solver needs rejected trials to find its damping, each of which multiplies it by four:
# after eighteen it has gone through steps of every size.
_NO_GAIN = 1e-10
_PATIENCE = 18
# Damping of the first step on each horizon, relative to the square of the longest column of the
# Jacobian: nearly a Gauss-Newton step, but what a short horizon hardly determines stays put.
_FIRST_DAMPING = 1e-7


_FORWARD = {"options": {"jac": "fwd"}, "tags": frozenset()}


# Compiled once for all fits of the same shapes and method: neither holds a prediction, where the
# model is a tangent plane.
@eqx.filter_jit
def _init(solver, model, z, args):
    shapes = jax.eval_shape(model, z, args)[0]
    return solver.init(model, z, args, f_struct=shapes, aux_struct=None, **_FORWARD)


@eqx.filter_jit
def _advance(solver, model, z, state, args):
    z, state, _ = solver.step(model, z, args, state=state, **_FORWARD)
    done, result = solver.terminate(model, z, args, state=state, **_FORWARD)
    return z, state, state.f_info.as_min(), done & (result == optx.RESULTS.successful)


def _tangent_plane(z, args):
    point, value, jacobian = args
    return value + jacobian @ (z - point), None


def _least_squares(residuals, linearize, solver):
    # The first damping of a solver is 1 and its tolerances are absolute numbers: on each horizon
    # the residuals are scaled so that neither depends on units. The number of samples and the scale
    # are traced arguments: one compilation serves all horizons.
    def function(z, args):
        horizon, scale = args
        return jax.tree.map(lambda r: r * scale, residuals(z, horizon)), None

    # Solvers of the Gauss-Newton family look at the function and its Jacobian at one point a step.
    # Given both, they need not compile the prediction and its derivatives a second time.
    looks_once = isinstance(solver, optx.AbstractGaussNewton)
    model = _tangent_plane if looks_once else function

    def iterate(z, horizon):
        jacobian, weighted = linearize(z, horizon)
        longest = jnp.max(jnp.linalg.norm(jacobian, axis=0))
        scale = jnp.where(longest > 0.0, 1.0 / (_FIRST_DAMPING**0.5 * longest), 1.0)

        def plane(point, jacobian, weighted):
            return point, scale * ravel_pytree(weighted)[0], scale * jacobian

        args = plane(z, jacobian, weighted) if looks_once else (horizon, scale)
        state = _init(solver, model, z, args)
        previous, idle = np.inf, 0
        while True:
            z, state, cost, done = _advance(solver, model, z, state, args)
            idle = idle + 1 if previous - float(cost) <= _NO_GAIN * previous else 0
            previous = float(cost)
            yield z, cost / scale**2, bool(done) or idle >= _PATIENCE
            if looks_once:
                args = plane(state.y_eval, *linearize(state.y_eval, horizon))

    return iterate


# The steps of a first-order method do not tell how far the optimum is; it is called converged when
# the gradient has fallen to this fraction of its first value.
_SMALL_GRADIENT = 1e-4


def _descent(residuals, optimiser):
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
