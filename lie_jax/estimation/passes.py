"""The way through a recording, from sample to sample: its arguments, and the loop."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax import checks
from lie_jax.estimation import kalman, local
from lie_jax.estimation.kalman import Belief, Innovation, Slopes
from lie_jax.estimation.local import Point
from lie_jax.estimation.model import Model
from lie_jax.multibody import arguments
from lie_jax.numerics import conversion
from lie_jax.simulation.checks import check_violations
from lie_jax.systems.system import AbstractSystem
from lie_jax.user_functions import reader


class Recording(NamedTuple):
    """Samples (n, ny), NaN where missing, at t0 + k dt (s), and the inputs (n - 1, nu) of the steps
    between them, or None.
    """

    data: Float[Array, "n ny"]
    dt: Float[Array, ""]
    t0: Float[Array, ""]
    inputs: Float[Array, "steps nu"] | None


class Pass(NamedTuple):
    """What each instant leaves: belief after its sample, innovation, and derivatives (of the update
    and of the step that follows) where they are kept.
    """

    belief: Belief
    innovation: Innovation
    slopes: tuple[Slopes, Array] | None


class Arguments(NamedTuple):
    """Arguments of `filter` and `smooth`, whatever they are."""

    model: Any
    data: Any
    state: Any
    covariance: Any
    dt: Any
    t0: Any
    inputs: Any
    iterations: Any


def prepare(where: str, given: Arguments) -> tuple[Recording, Point, Array]:
    """Recording, first point and covariance as arrays; raises `ValueError` for wrong ones."""
    model, data, state, covariance, dt, t0, inputs, iterations = given
    if not isinstance(model, Model):
        raise ValueError(
            f"{where}(model=) is a {type(model).__name__}; it must be a "
            "lie_jax.estimation.Model(system, method, measure=, noise=, process=)."
        )
    system = model.system
    check_start(where, system, state, t0)
    dtype = state.q.dtype
    checks.real(f"{where}(data=)", data)
    samples = conversion.in_precision(data, dtype)
    if samples.ndim != 2 or 0 in samples.shape:
        raise ValueError(
            f"{where}(data=) has shape {samples.shape}; it must have shape (n, ny), a row for each "
            "instant and a column for each channel: for one channel give data[:, None]."
        )
    # Inside of a function that JAX traces, an array made of numbers has none.
    if not checks.has_tracers(data) and np.any(np.isinf(np.asarray(data))):
        row = int(np.argmax(np.any(np.isinf(np.asarray(data)), axis=1)))
        raise ValueError(
            f"{where}(data=) is infinite at sample {row}; numbers must be finite: give NaN for "
            "what is missing."
        )
    model.check_samples(where, samples.shape[1], dtype)
    checks.real(f"{where}(covariance=)", covariance)
    matrix = conversion.in_precision(covariance, dtype)
    units = "local coordinates, then velocities" + (", then biases" if model.biases else "")
    numbers = matrix if checks.has_tracers(covariance) else np.asarray(covariance)
    checks.definite_by_units(f"{where}(covariance=)", numbers, model.size, units, semi=True)
    checks.positive(f"{where}(dt=)", dt, "s")
    checks.positive_integer(f"{where}(iterations=)", iterations, "of each update")
    noisy = model.process.get("inputs")
    rows = held_inputs(
        f"{where}(inputs=)",
        system,
        inputs,
        samples.shape[0] - 1,
        dtype,
        None if noisy is None else noisy.size,
    )
    if noisy is not None and rows is not None and rows.shape[1] != noisy.size:
        raise ValueError(
            f"{where}(inputs=) holds {rows.shape[1]} inputs in each step, and "
            f"Model(process=)['inputs'] {noisy.size} densities; the two must match: give a "
            "density for each input, zero for those without noise."
        )
    dt, t0 = (jnp.asarray(x, dtype) for x in (dt, t0))
    checks.one_precision(
        [(f"{where}(model=)", model), (f"{where}(state=)", state), (f"{where}(data=)", samples)]
    )
    return Recording(samples, dt, t0, rows), Point(state, jnp.zeros(model.biases, dtype)), matrix


def check_start(where: str, system: AbstractSystem, state: Any, t0: Any) -> None:
    """Raise `ValueError` unless a state is one of the system, on its constraints at the time t0."""
    arguments.check_state(f"{where}(state=)", state)
    checks.instant(f"{where}(state=): q", state.q, system.nq)
    checks.instant(f"{where}(state=): v", state.v, system.nv)
    checks.finite(f"{where}(state=): q", state.q)
    checks.finite(f"{where}(state=): v", state.v)
    checks.scalar(f"{where}(t0=)", t0, "s")
    if not checks.has_tracers(system, state, t0):
        reason = system.space.invalid(np.asarray(state.q))
        if reason is not None:
            raise ValueError(f"{where}(state=): q is not a valid configuration: {reason}.")
        check_violations(system, state, t0)


def numbers(value: Any, dtype: Any) -> Any:
    """Real numbers in a precision, those of Python and NumPy as NumPy's: where JAX traces the
    function that makes an array of them, checks would not see its numbers.
    """
    if checks.has_tracers(value) or conversion.real_shape(value) is None:
        return value
    return np.asarray(value) if isinstance(value, jax.Array) else np.asarray(value).astype(dtype)


def held_inputs(
    where: str,
    system: AbstractSystem,
    inputs: Any,
    steps: int,
    dtype: Any,
    count: int | None = None,
) -> Array | None:
    """Inputs (steps, nu) of the steps between samples; zeros of `count` or system.nu if None.

    Raises `ValueError` for others, and for more of them than forces read.
    """
    nu = system.nu if count is None else count
    if inputs is None:
        return jnp.zeros((steps, nu), dtype) if nu else None
    if callable(inputs):
        raise ValueError(
            f"{where} is the function {reader.name_of(inputs)}; it must be an array: of a function "
            f"of the time make jax.vmap(u)(dt * jnp.arange({steps}))."
        )
    checks.real(where, inputs)
    rows = conversion.in_precision(inputs, dtype)
    if rows.ndim != 2 or rows.shape[0] != steps or rows.shape[1] < system.nu:
        raise ValueError(
            f"{where} has shape {rows.shape}; it must have shape ({steps}, {nu or 'nu'}): give a "
            "row for each step, one less than samples, and a column for each input."
        )
    checks.finite(where, inputs)
    arguments.check_surplus(f"{where} holds", rows.shape[1], system)
    return rows


@eqx.filter_jit
def run(
    model: Model,
    recording: Recording,
    start: Belief,
    iterations: int,
    kind: str,
    keep: bool,
) -> Pass:
    """Passes of all instants, a leading axis; `keep`: with derivatives, of the extended filter."""
    data, dt, t0, inputs = recording
    if model.system.nc:
        origin = jnp.zeros(model.size, data.dtype)
        point, along = local.move(model.system, t0, start.point, origin)
        start = Belief(point, along @ start.covariance @ along.T)

    def body(belief, row):
        k, sample, u = row
        t = t0 + k.astype(dt.dtype) * dt
        if kind == "ukf":
            after, innovation = kalman.update_by_points(model, t, belief, sample)
            return kalman.predict_by_points(model, t, dt, u, after), Pass(after, innovation, None)
        after, innovation, slopes = kalman.update(model, t, belief, sample, iterations)
        belief, transition = kalman.predict(model, t, dt, u, after)
        return belief, Pass(after, innovation, (slopes, transition) if keep else None)

    # Reverse mode keeps the beliefs alone, and computes derivatives of each step again.
    body = jax.checkpoint(body, prevent_cse=False)
    # The last step goes beyond the recording: without it, the update would be compiled twice.
    if inputs is not None:
        inputs = jnp.concatenate([inputs, jnp.zeros_like(inputs, shape=(1, inputs.shape[1]))])
    rows = jnp.arange(data.shape[0]), data, inputs
    return jax.lax.scan(body, start, rows)[1]


def check_finite(where: str, estimate: Any) -> None:
    """Raise `ValueError` for a concrete estimate, `t`, `q` and `v`, that is not finite."""
    if checks.has_tracers(estimate):
        return
    fine: Bool[np.ndarray, " n"] = np.all(
        np.isfinite(np.concatenate([estimate.q, estimate.v], axis=1)), axis=1
    )
    if not np.all(fine):
        k = int(np.argmin(fine))
        raise ValueError(
            f"{where}: the estimate is not finite from sample {k}, t = {float(estimate.t[k]):g} s, "
            "on; steps must succeed around every estimate: give a smaller dt with rows of NaN "
            "between samples, a covariance and densities of the right size, or a start that is "
            "nearer."
        )
