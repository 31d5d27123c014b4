"""What is simulated and measured: the prediction of `identify` with or without process noise."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.estimation import model, passes
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.simulation.simulate import simulate
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import snapshots


class Experiment(eqx.Module):
    """A system, its start and how it is measured: what `predict` may return to `identify`.

    `identify` simulates it, and with `process=` filters the recording by it. It has as many samples
    as the recording, at t0, t0 + dt, ..., the first one that of `state`.

    **Arguments:**

    - `system`, `method`, `state`: as of `lie_jax.simulate`. Under process noise the method is one
      of those of a `Model`.
    - `measure(t, q, v)`: the sample that is expected at the time t (s), one array; under process
      noise (ny,). A function that reads what `predict` makes is for a `predict` without `jax.jit`.
    - `dt` (s): size of the steps, one between samples; `t0` (s): time of the first one.
    - `inputs` (n - 1, nu): held over each step, as of `simulate`; none: zeros.
    - `covariance`: of the error of `state`, as of `filter`, under process noise alone. None: the
      state is known, as when it is among the parameters, and biases that drift begin at zero.

    Raises `ValueError` for other arguments.
    """

    system: AbstractSystem
    method: AbstractIntegrator
    state: State
    measure: Callable
    dt: Float[Array, ""]
    t0: Float[Array, ""]
    inputs: Float[Array | np.ndarray, "steps nu"] | None
    covariance: Float[Array | np.ndarray, "x x"] | None

    def __init__(
        self,
        system: AbstractSystem,
        method: AbstractIntegrator,
        state: State,
        *,
        measure: Callable,
        dt: ArrayLike,
        t0: ArrayLike = 0.0,
        inputs: ArrayLike | Sequence[Any] | None = None,
        covariance: ArrayLike | Sequence[Any] | None = None,
    ):
        where = "Experiment"
        model.check_method(where, system, method)
        checks.function(f"{where}(measure=)", measure, "t", "q", "v")
        passes.check_start(where, system, state, t0)
        checks.positive(f"{where}(dt=)", dt, "s")
        dtype = state.q.dtype
        self.system, self.method, self.state = system, method, state
        self.measure = snapshots.watch(measure)
        self.dt, self.t0 = (jnp.asarray(x, dtype) for x in (dt, t0))
        self.inputs = None if inputs is None else _array(f"{where}(inputs=)", inputs, dtype)
        self.covariance = (
            None if covariance is None else _array(f"{where}(covariance=)", covariance, dtype)
        )

    def samples(self, count: int) -> Float[Array, "count ..."]:
        """So many expected samples, of a run without process noise; NaN from where a step fails.

        Raises `ValueError` for a `count` that is no number of samples, or that `inputs` do not fit.
        """
        checks.positive_integer("Experiment.samples(count=)", count, "the number of samples")
        if count < 2:
            raise ValueError(
                "Experiment.samples(count=) is 1; a run has a step between samples: give two or "
                "more samples."
            )
        steps, dtype = count - 1, self.state.q.dtype
        inputs = passes.held_inputs("Experiment(inputs=)", self.system, self.inputs, steps, dtype)
        run = simulate(
            self.system,
            self.method,
            self.state,
            dt=self.dt,
            steps=steps,
            t0=self.t0,
            inputs=inputs,
            throw=False,
        )
        return jax.vmap(self.expect)(run.t, run.q, run.v)

    def expect(self, t: Array, q: Array, v: Array) -> Array:
        """Expected sample of one instant; raises `ValueError` unless it is one array."""
        seen = self.measure(t, q, v)
        if not isinstance(seen, jax.Array):
            raise ValueError(
                f"Experiment(measure=) returns a {type(seen).__name__}; it must return one array: "
                "join several by jnp.concatenate."
            )
        return seen


def _array(name: str, value: Any, dtype: Any) -> Array | np.ndarray:
    checks.finite(name, value)
    return passes.numbers(value, dtype)
