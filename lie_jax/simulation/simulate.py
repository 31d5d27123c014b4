"""Simulation of a system by an integrator: the one public entry."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from lie_jax import checks, config
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.integrators.step_size import Adaptive
from lie_jax.numerics import checkpointing, padding, rules, tracing, waits
from lie_jax.simulation import checks as preflight
from lie_jax.simulation import events as events_of_runs
from lie_jax.simulation import (
    failures,
    fingerprints,
    fixed_steps,
    jax_guard,
    redundancy,
    saving,
    schedules,
    sharding,
    stops,
)
from lie_jax.simulation import policy as policies
from lie_jax.simulation.events import Event
from lie_jax.simulation.instability import warn_of_steps_beyond
from lie_jax.simulation.policy import Policy
from lie_jax.simulation.trajectory import (
    INSTANTS,
    Restart,
    Result,
    Trajectory,
    succeeded,
)
from lie_jax.systems import index1
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import libraries, snapshots


class SimulationError(RuntimeError):
    """Failure of a simulation; `trajectory` holds everything that was computed before."""

    def __init__(self, message: str, trajectory: Trajectory):
        super().__init__(message)
        self.trajectory = trajectory


@waits.announce("the run of {integrator}")
@tracing.rare_collections()
@sharding.automatic
def simulate(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: State | Restart,
    *,
    dt: ArrayLike,
    steps: int | None = None,
    t_end: ArrayLike | None = None,
    t0: ArrayLike | None = None,
    inputs: ArrayLike | Sequence[Any] | None = None,
    policy: Policy | Callable[..., Any] | None = None,
    save: int | ArrayLike | Sequence[Any] | Callable[..., Any] = 1,
    checkpoint: int | None = None,
    throw: bool = True,
    progress: bool = False,
    adaptive: Adaptive | None = None,
    adjoint: str = "stored",
    events: Sequence[Event] = (),
    max_events: int = 64,
) -> Trajectory:
    """Integrate a system over `steps` steps of size `dt`, from `t0` or from the end of a run.

    Pure: `jax.jit`, `jax.vmap`, `jax.grad` and `jax.jvp` go through it, with respect to anything in
    the system, the state, the inputs, the policy and `dt`.

    **Arguments:**

    - `system`: from `lie_jax.assemble`, or an `AbstractSystem` of your own.
    - `integrator`: for example `lie_jax.RKMK("rk4")` or `lie_jax.GeneralizedAlpha(rho_inf=0.9)`.
    - `state`: the initial `State`, or `trajectory.restart` of a run with this system, integrator
      and `dt`, which continues bit by bit (accelerations of its first row: but for rounding);
      `inputs` belong to the further steps. Another system or integrator is refused (functions are
      compared by name, parts that JAX traces are not).
    - `dt`: step size in s, positive. `steps`: number of steps; or `t_end`: time in s at which they
      end, a whole number of steps after the start, both known outside of JAX transformations.
    - `t0`: time in s at which the run starts, 0 without; a restart has its own.
    - `inputs`: (steps, nu), an array or lists, the input vector u of each step, constant over the
      step: inputs of motors, of loads with an `input`, and of your own forces and systems.
    - `policy`: instead, feedback: a function (t, q, v) -> u that is evaluated where each step
      begins, its u (nu,) constant over the step; a `lie_jax.Policy` has a sample time and a state
      of its own. `Trajectory.inputs` holds the inputs that were applied.
    - `save`: what the trajectory keeps. A number k: each k-th step, or each k-th accepted one and
      the end with `adaptive`. Times (n,) in s: these, of which the last one is the end of the run;
      steps of one size must end there. A function of (t, q, v): a pytree of arrays for each step,
      `Trajectory.saved`, in place of its state; rows of the trajectory are then the start and the
      end alone. A pair (k or times, function): its values at those instants.
    - `adjoint`, `checkpoint`: memory of reverse mode in a run of n steps. `"stored"` stores the
      state of every step; with `checkpoint=k`, n / k states and those of one block of k steps, and
      each step is recomputed once more. With `"recursive"` blocks lie within blocks, `checkpoint=k`
      of them side by side (at least 2, by default √n): some k log n / log k states, and each step
      is recomputed once for each level. Take `"stored"` as long as memory lasts, `"recursive"`
      beyond, and `jax.jacfwd` or `jax.jvp`, which store nothing, for derivatives by a few numbers.
    - `throw`: whether a failure (see `Result`) raises `SimulationError`, which names step and time
      and carries the trajectory; inside `jax.jit` or `jax.vmap` a plain `RuntimeError`. Without,
      and for each member of a batch, `Trajectory.result` holds the reason.
    - `progress`: show a progress bar; outside of JAX transformations only.
    - `adaptive`: an `Adaptive(...)` chooses the step sizes by the error that the integrator
      estimates, up to `t_end` or the last time of `save`. `dt` is then the first step size and
      `steps` the largest number of steps, rejected ones included. `inputs` have a row for each time
      of `save`, (n, nu), held up to it, or one for the whole run, (1, nu). `policy` and `progress`
      are for steps of one size. A restart has its own step size; `dt` is that of the first run.
      Derivatives hold step sizes constant: those with respect to `dt`, `t0`, `t_end`, the times of
      `save` and anything in `adaptive` are zero.
    - `events`: list of `lie_jax.Event`: what happens where functions of the motion cross zero.
      `max_events`: largest number of events; one more ends the run as `Result.too_many_events`.

    **Returns** a `Trajectory`, the initial state first, with `steps // k + 1` instants, or with an
    instant for each given time; without times an adaptive run has room for all steps, and instants
    beyond the end are NaN (`trajectory.stats.completed_steps` counts the steps up to it). Where an
    event stops a run, the last instant is that of the event, and those between are NaN.

    Raises `ValueError` for values that break these rules, for an initial state that has the wrong
    shape, is no configuration or violates the constraints, and for an integrator that cannot take
    the system.
    """
    system, integrator = snapshots.freeze((system, integrator))
    system, state, table = preflight.as_jax(system, state, inputs)
    preflight.check_start(system, integrator, state, dt)
    begin = schedules.start_time(state, t0, dt)
    start = state.state if isinstance(state, Restart) else state
    keeps = saving.parse(save, system, start)
    number = schedules.number_of_steps(steps, begin, dt, t_end, adaptive, keeps.times)
    options = keeps, checkpoint, progress, adaptive, adjoint
    feedback = None
    if policy is not None:
        policy, feedback = policies.prepare(policy, system, state, dt, table)
    preflight.check(
        *(system, integrator, state, dt, number, table, *options),
        **{"policy": policy, "feedback": feedback, "t0": begin},
    )
    origin = fingerprints.checksums(integrator=integrator, system=system, policy=policy)
    preflight.check_events(events, max_events, progress)
    config.warn_of_single_precision()
    jax_guard.warn_of_untested_jax()
    # Integers of Python are part of the program; a NumPy integer would be a value in it.
    number, every, picked = int(number), keeps.every, None
    checkpoint = None if checkpoint is None else int(checkpoint)
    if adaptive is None and keeps.times is not None:
        every, picked, _ = saving.rows_of_steps(keeps.times, begin, dt, number)
    dt, begin = (jnp.asarray(x, start.q.dtype) for x in (dt, begin))
    blocks = checkpointing.blocks(adjoint, checkpoint, number)
    schedule = schedules.Schedule(number, every, blocks, picked)
    # Of a restart, the time of its first step.
    origin_time = state.t0 if isinstance(state, Restart) else begin
    reached = redundant = None
    unchecked = (events or adaptive is not None) and not isinstance(state, Restart)
    if unchecked and not checks.has_tracers(system, start, begin):
        preflight.check_violations(system, start, begin)
    watched = events_of_runs.prepare(events, system, start)
    max_events = int(max_events)
    if adaptive is not None or watched:
        sizes = None
        if adaptive is not None:
            integrator = integrator.with_estimate(system)
            sizes = schedules.automatic(adaptive, begin, t_end, keeps.times)
        trajectory, reached = stops.trajectory(
            *(system, integrator, state, dt, table, schedule, watched, max_events),
            *(feedback, origin, origin_time, sizes, keeps.function),
        )
    else:
        trajectory, redundant = fixed_steps.trajectory(
            *(system, integrator, state, dt, table, schedule, progress, feedback, origin),
            *(origin_time, keeps.function),
        )
    if system.nc:
        if redundant is None:
            redundant = index1.redundant(system, begin, start.q)
        trajectory = redundancy.minimize_multipliers(system, redundant, trajectory)
    if reached is not None:
        trajectory = _mark_missing(trajectory, reached)
    if adaptive is None:
        trajectory = fixed_steps.cut(trajectory, schedule)
    if not throw:
        return trajectory
    if checks.has_tracers(trajectory.result):
        message = (
            "lie_jax.simulate failed inside a JAX transformation. Call it with throw=False and "
            "look at trajectory.result, which says why, and trajectory.stats.end_time."
        )
        return eqx.error_if(trajectory, ~succeeded(trajectory.result), message)
    # Numbers are known where JAX differentiates outside of a compiled function, too; NumPy compares
    # them without compiling.
    if jax.tree.map(np.asarray, trajectory.result) not in (Result.successful, Result.redundant):
        values = rules.stop_gradient(trajectory)
        message = failures.message(
            *(system, integrator, values, rules.stop_gradient(dt), number),
            adaptive=adaptive is not None,
            policy=policy,
        )
        raise SimulationError(message, values)
    restart, stats = trajectory.restart, trajectory.stats
    if restart is not None and not checks.has_tracers(restart, stats):
        warn_of_steps_beyond(restart.growth, restart.steps, stats.stability, dt)
        for sentence in system.validity.doubts(trajectory.q, trajectory.v):
            libraries.warn(sentence)
    return trajectory


def _mark_missing(trajectory: Trajectory, reached: stops.Reached) -> Trajectory:
    """Trajectory with NaN for what there is not: instants, events, a restart after a stop."""
    rows = {name: getattr(trajectory, name) for name in INSTANTS}
    marked = padding.mark_unreached(rows, reached.instants)
    events, restart, saved = trajectory.events, trajectory.restart, trajectory.saved
    if saved is not None and reached.saved is not None:
        saved = padding.mark_unreached(saved, reached.saved)
    if events is not None:
        rows = {"t": events.t, "q": events.q, "v": events.v}
        events = dataclasses.replace(events, **padding.mark_unreached(rows, events.index >= 0))
    if restart is not None:
        state = padding.mark_unreached(restart.state, restart.steps >= 0)
        # Not made anew: a constant of a compiled function is no array of JAX yet.
        restart = eqx.tree_at(lambda restart: restart.state, restart, state)
    others = {"events": events, "restart": restart, "saved": saved}
    return dataclasses.replace(trajectory, **marked, **others)
