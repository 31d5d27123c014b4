"""Stochastic model of a recording: a system under random loads, and noisy samples of it."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.estimation.local import Point
from lie_jax.integrators import one_step
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.multibody import arguments
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import closures, snapshots

# Entries of `process`.
KINDS = ("inputs", "velocities", "drifts")
_DENSITY = (
    "a root spectral density, the standard deviation of the load's mean over one second: N√s for "
    "a force, N m √s for a torque"
)


class Model(eqx.Module):
    """A system under white noise, one-step method, and samples with independent Gaussian noise.

    **Arguments:**

    - `system`, `method`: as of `lie_jax.simulate`; methods whose steps need more of the past than
      the last state (`lie_jax.BDF`, `lie_jax.GeneralizedAlpha`) are refused.
    - `measure(t, q, v)`: the sample (ny,) that is expected at the time t (s). A pose is compared
      entry by entry.
    - `noise`: standard deviations of the samples: a number, or one for each channel (ny,).
    - `process`: white noise by its root spectral densities, a dict with one or more of these
      entries, each a number or one for each place. None: no process noise.
      `"inputs"` (nu,): added to the inputs of the system, such as those of a
      `lie_jax.JointMotor` at any joint or of a `lie_jax.Torque` on any body, and held over each
      step, where the standard deviation is density/√dt. The unit is that of the input times √s.
      `"velocities"` (nv,): generalised forces, one for each velocity (N√s, N m √s), as impulses of
      the standard deviation density·√dt, half before and half after each step; constraints react.
      `"drifts"` (ny,): rates of biases of the channels of a sample, which walk randomly, such as a
      gyro's; zero for a bias that stays or is none. The unit is that of the channel over √s.

    Noise of all kinds is independent from step to step, and agrees with white noise to the second
    order of dt. Numbers may be traced: densities and noise can be sought by `identify`. Raises
    `ValueError` for other arguments.
    """

    system: AbstractSystem
    method: AbstractIntegrator
    measure: Callable
    noise: Float[Array, "..."]
    process: dict[str, Float[Array, "..."]]

    def __init__(
        self,
        system: AbstractSystem,
        method: AbstractIntegrator,
        *,
        measure: Callable,
        noise: Any,
        process: Mapping[str, Any] | None = None,
    ):
        check_method("Model", system, method)
        one_step.check_method("Model(method=)", method)
        one_step.check_group("Model(method=)", method, system)
        checks.function("Model(measure=)", measure, "t", "q", "v")
        self.system, self.method = system, method
        self.measure = snapshots.watch(measure)
        self.noise = _deviations(noise)
        self.process = _densities(system, process)

    @property
    def loads(self) -> int:
        """Number of independent loads of a step, changes of biases included."""
        return sum(x.size for x in self.process.values())

    @property
    def biases(self) -> int:
        """Number of biases: of all channels or of none."""
        return self.process["drifts"].size if "drifts" in self.process else 0

    @property
    def size(self) -> int:
        """Number of local coordinates."""
        return 2 * self.system.nv + self.biases

    def step(
        self, t: Array, dt: Array, point: Point, u: Array | None, loads: Float[Array, " loads"]
    ) -> Point:
        """Point a step later, for loads with the standard deviation one; NaN where it fails."""
        system, root, (state, bias) = self.system, jnp.sqrt(dt), point
        loads, walks = small.split_at(loads, self.loads - self.biases)
        on_inputs = self.process.get("inputs")
        on_velocities = self.process.get("velocities")
        count = 0 if on_inputs is None else on_inputs.size
        if on_inputs is not None:
            held = on_inputs * loads[:count] / root
            u = held if u is None else u + held
        impulse = None if on_velocities is None else 0.5 * root * on_velocities * loads[count:]
        state = _kick(system, t, state, impulse)
        # The carry of a one-step method is at most a start value: each step makes a new one.
        carry = self.method.init(system, t, dt, state, u)
        step = self.method.step(system, t, dt, state, carry, u)
        after = jax.tree.map(lambda x: jnp.where(step.converged, x, jnp.nan), step.state)
        if self.biases:
            bias = bias + root * self.process["drifts"] * walks
        return Point(_kick(system, t + dt, after, impulse), bias)

    def sample(self, t: Array, point: Point) -> Float[Array, " ny"]:
        """Expected sample at a point."""
        state, bias = point
        expected = self.measure(t, state.q, state.v)
        return expected + bias if self.biases else expected

    def check_samples(self, where: str, channels: int, dtype: Any) -> None:
        """Raise `ValueError` unless `measure` returns samples of so many channels."""
        nq, nv = self.system.nq, self.system.nv
        t, q, v = (jax.ShapeDtypeStruct(shape, dtype) for shape in ((), (nq,), (nv,)))
        value = closures.shapes("Model(measure=)", self.measure, {"t": t, "q": q, "v": v})
        if not hasattr(value, "shape") or value.ndim != 1 or value.dtype != dtype:
            returns = f"{value.dtype}{list(value.shape)}" if hasattr(value, "shape") else value
            raise ValueError(
                f"Model(measure=) returns {returns}; it must return one array (ny,) of "
                f"{np.dtype(dtype)}, the precision of the state: join several by jnp.concatenate."
            )
        if value.shape != (channels,):
            raise ValueError(
                f"{where}(data=) has {channels} channels, and Model(measure=) returns "
                f"{value.shape[0]}; the two must match: give a row for each instant, with NaN for "
                "what is missing."
            )
        if self.biases not in (0, channels):
            raise ValueError(
                f"Model(process=)['drifts'] has shape ({self.biases},); it must have shape "
                f"({channels},), the channels of a sample: give a root density for each, zero for "
                "a bias that stays."
            )
        if self.noise.shape not in ((), (channels,)):
            raise ValueError(
                f"Model(noise=) has shape {self.noise.shape}; it must be one number or have shape "
                f"({channels},), the channels of a sample: give a number for each of them."
            )


def _kick(system: AbstractSystem, t: Array, state: State, impulse: Array | None) -> State:
    """State after a generalised impulse (nv,), to which the constraints react."""
    if impulse is None:
        return state
    saddle = system.algebra.saddle(t, state.q)
    if system.nc:
        right = jnp.concatenate([impulse, jnp.zeros(system.nc, impulse.dtype)])
        change = saddle.solve_constrained(right)[: system.nv]
    else:
        change = saddle.solve(impulse)
    return State(state.q, state.v + change)


def check_method(where: str, system: Any, method: Any) -> None:
    """Raise `ValueError` unless both are a system and a method that takes it."""
    arguments.check_system(f"{where}(system=)", system)
    if not isinstance(method, AbstractIntegrator):
        raise ValueError(
            f"{where}(method=) is {method!r}; it must be an integrator, such as "
            "lie_jax.RKMK('rk4'): the order of the arguments is system, method."
        )
    method.check(system)


def _deviations(noise: Any) -> Array:
    checks.real("Model(noise=)", noise)
    values = as_float(noise)
    if not checks.has_tracers(values) and not np.all(
        (np.asarray(values) > 0.0) & np.isfinite(np.asarray(values))
    ):
        raise ValueError(
            f"Model(noise=) is {np.asarray(values).tolist()}; standard deviations of samples must "
            "be positive and finite: of what is not measured at all make NaN in the data."
        )
    return values


def check_kinds(where: str, process: Any) -> None:
    """Raise `ValueError` unless process noise names known loads and has a density for each."""
    if process is None:
        return
    if not isinstance(process, Mapping) or not process or not set(process) <= set(KINDS):
        raise ValueError(
            f"{where} is {process!r}; it must be a dict with entries out of 'inputs', "
            f"'velocities' and 'drifts', each {_DENSITY}: give {{'velocities': 0.1}} for example, "
            "or None without process noise."
        )
    for kind, given in process.items():
        if given is None:
            raise ValueError(
                f"{where}[{kind!r}] is None; noise needs {_DENSITY}: give a number, or leave the "
                "entry out."
            )


def _densities(system: AbstractSystem, process: Any) -> dict[str, Array]:
    check_kinds("Model(process=)", process)
    given = {} if process is None else process
    return {kind: _density(system, kind, given[kind]) for kind in KINDS if kind in given}


def _density(system: AbstractSystem, kind: str, given: Any) -> Array:
    where = f"Model(process=)[{kind!r}]"
    checks.real(where, given)
    values = as_float(given)
    # The channels of samples are known with the data.
    sizes = {"inputs": system.nu, "velocities": system.nv, "drifts": 0}
    symbols = {"inputs": "nu", "velocities": "nv", "drifts": "ny"}
    words = {"inputs": "inputs that forces read", "drifts": "channels of a sample"}
    size, what = sizes[kind], words.get(kind, kind)
    if values.ndim == 0 and size:
        values = jnp.broadcast_to(values, (size,))
    # A system of one's own need not tell how many inputs it reads.
    free = kind == "inputs" and not size and not hasattr(system, "most_inputs")
    free |= kind == "drifts"
    if values.ndim != 1 or not values.size or (values.shape != (size,) and not free):
        shape = f"({symbols[kind]},)" if free else f"({size},)"
        raise ValueError(
            f"{where} has shape {values.shape}; it must be one number or have shape {shape}, the "
            f"{what}: give a root density for each, zero for what has no noise"
            + (", or add a force with input=0." if not size and not free else ".")
        )
    # Inside of a function that JAX traces, an array made of numbers has none.
    if not checks.has_tracers(given):
        numbers = np.asarray(given)
        if not np.all((numbers >= 0.0) & np.isfinite(numbers)):
            raise ValueError(
                f"{where} is {numbers.tolist()}; it must hold {_DENSITY}, finite and not negative."
            )
    return values
