"""The one entry to simulation: a scan over steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from tqdm import tqdm

from lie_jax import calculus, checks, config
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.system import AbstractSystem, Accelerations, State
from lie_jax.trajectory import Result, Statistics, Trajectory


class SimulationError(RuntimeError):
    """A simulation failed; `trajectory` holds everything that was computed before."""

    def __init__(self, message: str, trajectory: Trajectory):
        super().__init__(message)
        self.trajectory = trajectory


class _Loop(NamedTuple):
    state: State
    carry: Any
    taken: Array
    completed: Array
    converged: Array
    residual: Array


class _Sample(NamedTuple):
    state: State
    accelerations: Accelerations


def simulate(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: State,
    *,
    dt: float | Float[Array, ""],
    steps: int,
    inputs: Float[Array, "steps nu"] | None = None,
    save_every: int = 1,
    checkpoint: int | None = None,
    throw: bool = True,
    progress: bool = False,
) -> Trajectory:
    """Integrate a system over `steps` steps of size `dt` from time 0.

    Pure: `jax.jit`, `jax.vmap`, `jax.grad` and `jax.jvp` go through it, with respect to anything in
    the system, the state, the inputs and `dt`.

    **Arguments:**

    - `system`: from `lie_jax.assemble`, or an `AbstractSystem` of your own.
    - `integrator`: for example `lie_jax.RKMK("rk4")` or `lie_jax.GeneralizedAlpha(rho_inf=0.9)`.
    - `state`: the initial `State`.
    - `dt`: step size in s, positive. `steps`: their number.
    - `inputs`: (steps, nu), the input vector u of each step, held over the step. It is handed to
      the forces; those of this library do not read it, a force or system of your own may.
    - `save_every`: every how many steps the trajectory keeps an instant.
    - `checkpoint`: for long reverse-mode runs. By default the backward pass keeps the state of
      every step and recomputes the rest; `checkpoint=k` keeps every k-th state only, for a second
      recomputation of each step.
    - `throw`: whether a failure (Newton's method without convergence, a non-finite state) raises
      `SimulationError`, which names the step and time and carries the trajectory. With
      `throw=False`, and for each member of a batch, `Trajectory.result` tells. Inside `jax.jit` or
      `jax.vmap` the error of `throw=True` is a plain `RuntimeError`.
    - `progress`: show a progress bar; outside of JAX transformations only.

    **Returns** a `Trajectory` with `steps // save_every + 1` instants, the initial state first.

    Raises `ValueError` for values that break the rules above, for an initial state of the wrong
    shape, one that is no configuration or that violates the constraints, and for an integrator that
    cannot take the system.
    """
    _check(system, integrator, state, dt, steps, inputs, save_every, checkpoint)
    config.warn_of_single_precision()
    dtype = state.q.dtype
    dt = jnp.asarray(dt, dtype)
    schedule = _Schedule(steps, save_every, checkpoint)
    first = _start(system, integrator, state, inputs)
    if progress and not checks.traced(first, dt, inputs):
        trajectory = _run_with_progress(system, integrator, first, dt, inputs, schedule)
    else:
        loop, samples, counts = _run(system, integrator, first, dt, inputs, schedule)
        trajectory = _trajectory(
            system, integrator, first, dt, inputs, schedule, loop, samples, counts
        )
    if not throw:
        return trajectory
    if checks.traced(trajectory):
        failed = trajectory.result != Result.successful
        message = (
            "lie_jax.simulate failed inside a JAX transformation: Newton's method did not converge "
            "or the state became non-finite. Call it with throw=False and look at "
            "trajectory.result and trajectory.stats.completed_steps."
        )
        return eqx.error_if(trajectory, failed, message)
    _raise_on_failure(trajectory, dt, steps)
    return trajectory


class _Schedule(NamedTuple):
    steps: int
    save_every: int
    checkpoint: int | None


@eqx.filter_jit
def _start(system, integrator, state, inputs) -> _Loop:
    carry = integrator.init(system, jnp.zeros((), state.q.dtype), state, _input(inputs, 0))
    zero = jnp.zeros((), jnp.int32)
    none = jnp.zeros((), state.q.dtype)
    return _Loop(state, carry, zero, zero, jnp.ones((), bool), none)


def _input(inputs: Array | None, index) -> Array | None:
    return None if inputs is None else jax.lax.dynamic_index_in_dim(inputs, index, keepdims=False)


def _step(system, integrator, dt, inputs, loop: _Loop) -> tuple[_Loop, Array]:
    t = loop.taken.astype(dt.dtype) * dt
    u = _input(inputs, loop.taken)
    step = integrator.step(system, t, dt, loop.state, loop.carry, u)
    # The sum is finite only if every number is: one reduction instead of a test of each.
    fine = step.converged & jnp.isfinite(jnp.sum(step.state.q) + jnp.sum(step.state.v))
    first_failure = ~step.converged & (loop.completed == loop.taken)
    return (
        _Loop(
            step.state,
            step.carry,
            loop.taken + 1,
            loop.completed + fine.astype(jnp.int32),
            loop.converged & ~first_failure,
            jnp.where(first_failure, jax.lax.stop_gradient(step.residual), loop.residual),
        ),
        step.newton_iterations,
    )


def _sample(system, integrator, dt, inputs, loop: _Loop) -> _Sample:
    t = loop.taken.astype(dt.dtype) * dt
    u = _input(inputs, jnp.maximum(loop.taken - 1, 0))
    return _Sample(loop.state, integrator.accelerations(system, t, loop.state, loop.carry, u))


def _scan(body: Callable, loop: _Loop, length: int, block: int | None = None):
    """Scan `body(loop)` that many times, in rematerialised blocks if asked for."""

    def once(carry, _):
        return body(carry)

    if block is None or block >= length:
        return jax.lax.scan(once, loop, length=length)
    full, rest = divmod(length, block)
    inner = jax.checkpoint(
        lambda carry, _: jax.lax.scan(once, carry, length=block), prevent_cse=False
    )
    loop, out = jax.lax.scan(inner, loop, length=full)
    out = jax.tree.map(lambda x: x.reshape(full * block, *x.shape[2:]), out)
    if rest:
        loop, tail = jax.lax.scan(once, loop, length=rest)
        out = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), out, tail)
    return loop, out


@eqx.filter_jit
def _run(system, integrator, loop, dt, inputs, schedule):
    """All saved instants after the first, and the Newton iterations of each step."""
    steps, save_every, checkpoint = schedule
    step = jax.checkpoint(
        lambda loop: _step(system, integrator, dt, inputs, loop), prevent_cse=False
    )

    def until_sample(loop):
        loop, counts = _scan(step, loop, save_every, checkpoint)
        return loop, (_sample(system, integrator, dt, inputs, loop), counts)

    block = None if checkpoint is None else max(1, checkpoint // save_every)
    saves, rest = divmod(steps, save_every)
    loop, (samples, counts) = _scan(until_sample, loop, saves, block)
    counts = counts.reshape(-1)
    if rest:
        loop, tail = _scan(step, loop, rest, checkpoint)
        counts = jnp.concatenate([counts, tail])
    return loop, samples, counts


# How many pieces a run with a progress bar is cut into.
_PROGRESS_UPDATES = 50


def _run_with_progress(system, integrator, first, dt, inputs, schedule) -> Trajectory:
    steps, save_every, checkpoint = schedule
    piece = max(1, -(-(steps // save_every) // _PROGRESS_UPDATES)) * save_every
    loop, parts = first, []
    with tqdm(total=steps, unit="step", desc="simulate") as bar:
        done = 0
        while done < steps:
            now = min(piece, steps - done)
            part = _run(
                system, integrator, loop, dt, inputs, _Schedule(now, save_every, checkpoint)
            )
            loop = jax.block_until_ready(part[0])
            parts.append(part[1:])
            done += now
            bar.update(now)
    samples, counts = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
    return _trajectory(system, integrator, first, dt, inputs, schedule, loop, samples, counts)


@eqx.filter_jit
def _trajectory(
    system, integrator, first, dt, inputs, schedule, loop, samples, counts
) -> Trajectory:
    samples = jax.tree.map(
        lambda start, rest: jnp.concatenate([start[None], rest]),
        _sample(system, integrator, dt, inputs, first),
        samples,
    )
    index = jnp.arange(schedule.steps // schedule.save_every + 1) * schedule.save_every
    result = Result.where(
        loop.completed == schedule.steps,
        Result.successful,
        Result.where(loop.converged, Result.non_finite, Result.newton_failed),
    )
    return Trajectory(
        t=index.astype(dt.dtype) * dt,
        q=samples.state.q,
        v=samples.state.v,
        acceleration=samples.accelerations.acceleration,
        multipliers=samples.accelerations.multipliers,
        stats=Statistics(counts, loop.completed, loop.residual),
        result=result,
    )


def _raise_on_failure(trajectory: Trajectory, dt: Array, steps: int) -> None:
    completed = int(trajectory.stats.completed_steps)
    if completed == steps:
        return
    where = f"in step {completed + 1} of {steps}, from t = {completed * float(dt):.6g} s"
    if bool(trajectory.result == Result.newton_failed):
        count = int(trajectory.stats.newton_iterations[completed])
        left = float(trajectory.stats.residual)
        reason = f"Newton's method left a residual of {left:.3g} after {count} iterations {where}"
    else:
        reason = f"the state became infinite or NaN {where}"
    raise SimulationError(
        f"{reason}. Take a smaller dt (it is {float(dt):.6g} s) or look at what drives the system "
        "there: the trajectory before the failure is in the error's `trajectory`, and throw=False "
        "returns it.",
        trajectory,
    )


def _check(system, integrator, state, dt, steps, inputs, save_every, checkpoint) -> None:
    if not isinstance(system, AbstractSystem):
        raise ValueError(
            f"simulate(system=) is a {type(system).__name__}; it must be a system. "
            "lie_jax.assemble returns the pair (system, state): unpack it."
        )
    if not isinstance(integrator, AbstractIntegrator):
        raise ValueError(
            f"simulate(integrator=) is {integrator!r}; it must be an integrator, for example "
            "lie_jax.RKMK('rk4') or lie_jax.GeneralizedAlpha()."
        )
    integrator.check(system)
    checks.shape("the initial state's q", state.q, (system.nq,), "the system's coordinates")
    checks.shape("the initial state's v", state.v, (system.nv,), "the system's velocities")
    for name, value in (("q", state.q), ("v", state.v)):
        checks.finite(f"the initial state's {name}", value)
    checks.positive("simulate(dt=)", dt, "s")
    checks.positive_integer("simulate(steps=)", steps, "the number of steps")
    checks.positive_integer("simulate(save_every=)", save_every, "steps between saved instants")
    if save_every > steps:
        raise ValueError(
            f"simulate(save_every=) is {save_every}, more than steps={steps}: no instant after the "
            "first would be saved; take at most the number of steps."
        )
    if checkpoint is not None:
        checks.positive_integer("simulate(checkpoint=)", checkpoint, "steps in a block")
    if inputs is not None and (np.ndim(inputs) != 2 or np.shape(inputs)[0] != steps):
        raise ValueError(
            f"simulate(inputs=) has shape {np.shape(inputs)}; it must have shape ({steps}, nu): "
            "one input vector for each step."
        )
    if inputs is not None:
        checks.finite("simulate(inputs=)", inputs)
    floats = (system, state, inputs)
    dtypes = {
        leaf.dtype
        for leaf in jax.tree.leaves(eqx.filter(floats, eqx.is_inexact_array))
        if not leaf.weak_type
    }
    if len(dtypes) > 1:
        raise ValueError(
            f"the system, the state and the inputs have the dtypes {sorted(map(str, dtypes))}; all "
            "must have one: cast them with jax.tree.map(lambda x: x.astype(dtype), ...)."
        )
    if not checks.traced(system, state):
        _check_consistency(system, state)


def _check_consistency(system: AbstractSystem, state: State) -> None:
    reason = system.space.invalid(np.asarray(state.q))
    if reason is not None:
        raise ValueError(f"the initial state's q is no configuration: {reason}.")
    if not system.nc:
        return
    violations = _violations(system, state)
    if checks.traced(violations):
        return
    position, velocity, spectrum, scale = (np.asarray(x) for x in violations)
    slack = np.sqrt(np.finfo(position.dtype).eps) * float(scale)
    for what, value, unit in (
        ("position", position, "constraint units, m for a spherical joint"),
        ("velocity", velocity, "m/s for a spherical joint"),
    ):
        worst = float(np.abs(value).max())
        if not worst <= slack:
            raise ValueError(
                f"the initial state violates the {what} constraints by {worst:.3g} ({unit}); at "
                f"most {slack:.1g} is allowed: correct it, or use "
                "lie_jax.project(system, state), a state nearby that satisfies them."
            )
    # Relative to the largest singular value; well above the rounding of an exact dependency.
    rank = int(np.sum(spectrum > 1e3 * np.finfo(spectrum.dtype).eps * spectrum.max()))
    if rank < system.nc:
        raise ValueError(
            f"the constraint Jacobian has {system.nc} rows but rank {rank}; the constraints must "
            "be independent: remove the redundant joints."
        )


@eqx.filter_jit
def _violations(system: AbstractSystem, state: State):
    t = jnp.zeros((), state.q.dtype)
    space = system.space
    position = system.constraint(t, state.q)
    velocity = calculus.time_derivative(space, system.constraint, t, state.q, state.v)
    spectrum = jnp.linalg.svd(system.constraint_jacobian(t, state.q), compute_uv=False)
    # Lengths and speeds that the constraints are made of, to judge the rounding in them.
    scale = 1.0 + jnp.max(jnp.abs(state.q)) + jnp.max(jnp.abs(state.v))
    return position, velocity, spectrum, scale
