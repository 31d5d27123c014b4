"""Searches for `identify`: iterations over growing horizons, and one as a pure function."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from tqdm import tqdm

# On all horizons but the last, a gain below this fraction of the cost ends the search: what is left
# to gain on a part of the recording does not help on the whole.
_SMALL_GAIN = 1e-2


def run(iterate: Callable, z: Array, horizons: list[PyTree], most: int, progress: bool):
    """Run at most so many iterations on each horizon in turn, with a progress bar and a record.

    A horizon is a pytree of numbers of samples. Returns z, whether the last horizon was finished,
    and costs, samples of the longest recording and z of each iteration.
    """
    costs, counts, path = [], [], []
    finished = False
    with tqdm(disable=not progress, unit="it", desc="identify") as bar:
        for number, horizon in enumerate(horizons, 1):
            samples = max(jax.tree.leaves(horizon))
            steps = iterate(z, jax.tree.map(jnp.asarray, horizon))
            previous, idle = np.inf, 0
            for _ in range(most):
                z, cost, finished = next(steps)
                costs.append(cost)
                counts.append(samples)
                path.append(z)
                gain = previous - float(cost)
                idle = 0 if gain > 0.0 else idle + 1
                told = f"{samples} samples, cost {float(cost):.6g}"
                bar.set_postfix_str(told + (f", {idle} trials without gain" if idle else ""))
                bar.update()
                # A rejected trial leaves the cost as it was and says nothing.
                small_gain = 0.0 < gain < _SMALL_GAIN * previous
                if finished or (small_gain and number < len(horizons)):
                    break
                previous = float(cost)
    return z, finished, (costs, counts, path)


# The damping of a search that starts near the optimum, relative to squared lengths of the columns:
# nearly a Gauss-Newton step. A trial that does not help multiplies it, one that does divides it.
_NEAR, _CHANGE = 1e-6, 10.0
# A search has ended when its next step is below this fraction of the standard errors. With more
# damping than `_LIGHT`, steps are short for another reason.
_SMALL_STEP, _LIGHT = 1e-3, 1e-2


class _Search(NamedTuple):
    z: Array
    cost: Array
    value: Array
    jacobian: Array
    step: Array
    damping: Array
    done: Array
    trials: Array


def search(
    function: Callable[[Array], Array], z: Float[Array, " p"], degrees: int, max_iterations: int
) -> tuple[Array, Array, Array, Array]:
    """Levenberg-Marquardt as a pure function, for starts near the optimum and for batches.

    `function(z)` are residuals (m,) with `degrees` of freedom. Returns z, residuals and Jacobian
    there, and whether the next step would be far below the standard errors.
    """

    def linearized(z):
        def twice(z):
            value = function(z)
            return value, value

        return jax.jacfwd(twice, has_aux=True)(z)

    def planned(jacobian, value, damping):
        scale = jnp.linalg.norm(jacobian, axis=0)
        scale = jnp.where(scale > 0.0, scale, 1.0)
        slope = (value @ jacobian) / scale
        gram = jacobian.T @ jacobian / (scale[:, None] * scale[None, :])
        damped = gram + damping * jnp.eye(len(scale), dtype=scale.dtype)
        step = -jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(damped), slope)
        # The decrease that the step promises, against the variance of the residuals.
        small = -(slope @ step) <= _SMALL_STEP**2 * (value @ value) / degrees
        return (step / scale).astype(z.dtype), small & (damping <= _LIGHT)

    def body(now):
        trial = now.z + now.step
        jacobian, value = linearized(trial)
        cost = value @ value
        better = cost <= now.cost
        z, cost, value, jacobian = (
            jnp.where(better, new, old)
            for new, old in zip((trial, cost, value, jacobian), now[:4], strict=True)
        )
        damping = now.damping * jnp.where(better, 1.0 / _CHANGE, _CHANGE)
        step, done = planned(jacobian, value, damping)
        return _Search(z, cost, value, jacobian, step, damping, done, now.trials + 1)

    # The first trial is the start itself: the function is compiled once.
    shapes = jax.eval_shape(linearized, z)
    jacobian, value = (jnp.zeros(x.shape, x.dtype) for x in shapes)
    damping = jnp.asarray(_NEAR, value.dtype)
    start = _Search(
        z, jnp.full_like(damping, jnp.inf), value, jacobian,
        jnp.zeros_like(z), damping, jnp.asarray(False), jnp.asarray(0),
    )  # fmt: skip
    end = jax.lax.while_loop(lambda now: ~now.done & (now.trials <= max_iterations), body, start)
    return end.z, end.value, end.jacobian, end.done
