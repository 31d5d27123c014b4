"""Simulation of a system by an integrator: the one public entry."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from lie_jax import checks, config
from lie_jax.callables import snapshots
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.integrators.step_size import Adaptive
from lie_jax.numerics import checkpointing, padding, rules, tracing, waits
from lie_jax.simulation import checks as preflight
from lie_jax.simulation import events as events_of_runs
from lie_jax.simulation import (
    fingerprints,
    fixed_steps,
    jax_guard,
    redundancy,
    schedules,
    sharding,
    stops,
)
from lie_jax.simulation import policy as policies
from lie_jax.simulation.events import Event
from lie_jax.simulation.fastest import fastest
from lie_jax.simulation.instability import warn_of_steps_beyond
from lie_jax.simulation.policy import Policy
from lie_jax.simulation.trajectory import (
    INSTANTS,
    Restart,
    Result,
    Trajectory,
    items_by_name,
    succeeded,
)
from lie_jax.systems import index1
from lie_jax.systems.system import AbstractSystem, State


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
    save_every: int = 1,
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
    - `save_every`: number of steps from one saved instant to the next.
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
      estimates, up to `t_end` or its last time. `dt` is then the first step size and `steps` the
      largest number of steps, rejected ones included; `inputs`, `policy`, `save_every` and
      `progress` are for steps of one size.
      Derivatives hold step sizes constant: those with respect to `dt`, `t0`, `t_end` and anything
      in `adaptive` are zero.
    - `events`: list of `lie_jax.Event`: what happens where functions of the motion cross zero.
      `max_events`: largest number of events; one more ends the run as `Result.too_many_events`.

    **Returns** a `Trajectory`, the initial state first, with `steps // save_every + 1` instants; in
    an adaptive run with an instant for each given time, or with `steps + 1` instants of which those
    beyond the end are NaN (`trajectory.stats.completed_steps` counts the others). Where an event
    stops a run, the last instant is that of the event, and those between are NaN.

    Raises `ValueError` for values that break these rules, for an initial state that has the wrong
    shape, is no configuration or violates the constraints, and for an integrator that cannot take
    the system.
    """
    system, integrator = snapshots.freeze((system, integrator))
    system, state, table = preflight.as_jax(system, state, inputs)
    preflight.check_start(system, integrator, state, dt)
    begin = schedules.start_time(state, t0, dt)
    number = schedules.number_of_steps(steps, begin, dt, t_end, adaptive)
    options = save_every, checkpoint, progress, adaptive, adjoint
    feedback = None
    if policy is not None:
        policy, feedback = policies.checked(policy, system, state, dt, table)
    preflight.check(
        *(system, integrator, state, dt, number, table, *options),
        **{"policy": policy, "feedback": feedback, "t0": begin},
    )
    origin = fingerprints.checksums(integrator=integrator, system=system, policy=policy)
    preflight.check_events(events, max_events, progress)
    config.warn_of_single_precision()
    jax_guard.warn_of_untested_jax()
    # Integers of Python are part of the program; a NumPy integer would be a value in it.
    number, save_every = int(number), int(save_every)
    checkpoint = None if checkpoint is None else int(checkpoint)
    start = state.state if isinstance(state, Restart) else state
    dt, begin = (jnp.asarray(x, start.q.dtype) for x in (dt, begin))
    blocks = checkpointing.blocks(adjoint, checkpoint, number)
    schedule = schedules.Schedule(number, save_every, blocks)
    # Of a restart, the time of its first step.
    origin_time = state.t0 if isinstance(state, Restart) else begin
    reached = redundant = None
    unchecked = (events or adaptive is not None) and not isinstance(state, Restart)
    if unchecked and not checks.any_traced(system, start, begin):
        preflight.check_violations(system, start, begin)
    watched = events_of_runs.checked(events, system, start)
    max_events = int(max_events)
    if adaptive is not None or watched:
        sizes = None
        if adaptive is not None:
            integrator = integrator.with_estimate(system)
            sizes = schedules.automatic(adaptive, begin, t_end)
        trajectory, reached = stops.trajectory(
            *(system, integrator, state, dt, table, schedule, watched, max_events),
            *(feedback, origin, origin_time, sizes),
        )
    else:
        trajectory, redundant = fixed_steps.trajectory(
            *(system, integrator, state, dt, table, schedule, progress, feedback, origin),
            origin_time,
        )
    if system.nc:
        if redundant is None:
            redundant = index1.redundant(system, begin, start.q)
        trajectory = redundancy.minimize_multipliers(system, redundant, trajectory)
    if reached is not None:
        trajectory = _marked(trajectory, reached)
    if adaptive is None:
        trajectory = fixed_steps.cut(trajectory, schedule)
    if not throw:
        return trajectory
    if checks.any_traced(trajectory.result):
        message = (
            "lie_jax.simulate failed inside a JAX transformation. Call it with throw=False and "
            "look at trajectory.result, which says why, and trajectory.stats.end_time."
        )
        return eqx.error_if(trajectory, ~succeeded(trajectory.result), message)
    # Numbers are known where JAX differentiates outside of a compiled function, too; NumPy compares
    # them without compiling.
    if jax.tree.map(np.asarray, trajectory.result) not in (Result.successful, Result.redundant):
        values = rules.stop_gradient(trajectory)
        message = _failure(
            *(system, integrator, values, rules.stop_gradient(dt), number),
            adaptive=adaptive is not None,
            policy=policy,
        )
        raise SimulationError(message, values)
    restart, stats = trajectory.restart, trajectory.stats
    if restart is not None and not checks.any_traced(restart, stats):
        warn_of_steps_beyond(restart.growth, restart.steps, stats.stability, dt)
    return trajectory


def _marked(trajectory: Trajectory, reached: Array) -> Trajectory:
    """Trajectory with NaN for what there is not: instants, events, a restart after a stop."""
    rows = {name: getattr(trajectory, name) for name in INSTANTS}
    trajectory = dataclasses.replace(trajectory, **padding.mark_unreached(rows, reached))
    events, restart = trajectory.events, trajectory.restart
    if events is not None:
        rows = {"t": events.t, "q": events.q, "v": events.v}
        events = dataclasses.replace(events, **padding.mark_unreached(rows, events.index >= 0))
    if restart is not None:
        state = padding.mark_unreached(restart.state, restart.steps >= 0)
        restart = dataclasses.replace(restart, state=state)
    return dataclasses.replace(trajectory, events=events, restart=restart)


def _failure(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    trajectory: Trajectory,
    dt: Array,
    steps: int,
    adaptive: bool,
    policy: Policy | None,
) -> str:
    """Failure of a run, the place of it and the fix."""
    stats = trajectory.stats
    completed, residual = int(stats.completed_steps), float(stats.residual)
    worst = int(stats.worst_equation)
    count = int(stats.newton_iterations[min(completed, steps - 1)])
    end = f"t = {float(stats.end_time):.6g} s"
    where = f"in step {completed + 1} of {steps}, from {end}"
    # Step sizes of an adaptive run are its own.
    size = f"dt (it is {float(dt):.6g} s)"
    shorter = f"Take a smaller {'dt_min' if adaptive else size}"
    advice = f"{shorter} or look at what drives the system there"
    match next(name for name, item in items_by_name(Result).items() if trajectory.result == item):
        case "newton_failed" if adaptive:
            what = "Newton's method, or the projection, failed even with the smallest step"
            advice = "Look at what drives the system there, or take a smaller dt_min"
        case "newton_failed" if not count:
            what = f"the projection left a violation of the constraints of {residual:.3g}"
        case "newton_failed":
            what = f"Newton's method left a residual of {residual:.3g} after {count} iterations"
            advice = _advice(system, integrator, trajectory, shorter)
        case "singular":
            what = "the coordinates reached a singularity of the formulation"
            advice = "Take a formulation without one, such as lie_jax.R3SO3()"
        case "minimum_step":
            what = (
                f"the estimated error is {residual:.3g} times the tolerance with the smallest step"
            )
            advice = "Take larger tolerances or a smaller dt_min, or look at what drives the system"
        case "step_bound":
            what, where = f"the bound of steps={steps} was reached before the end,", f"at {end}"
            advice = "Take more steps or larger tolerances"
        case "out_of_chart":
            what = f"{system.owner(worst)} turned further than its chart describes"
        case "departed":
            what = f"the motion left the range of the law of {system.validity.force_name(worst)}"
            advice = (
                "The ends of a spring passed through each other, two shapes overlap beyond the "
                "middle of one or passed through each other, or an angle changed by a quarter turn "
                f"more or less than its rate predicts. {advice}"
            )
        case "turned_over":
            joint = system.validity.joint_name(worst)
            what = f"{joint} turned over, half a turn from where it belongs,"
        case "no_configuration":
            what = (
                f"the start, q[0] of the trajectory, is no configuration of {system.owner(worst)}"
            )
            advice = "Give unit quaternions, for example those of lie_jax.assemble"
        case "off_constraints":
            what = f"the start violates the constraints, the most in {system.owner(worst)},"
            advice = "Start from lie_jax.project(system, state)"
        case "unstable" if policy and not float(stats.stability) > 1.0:
            what = "a mode of the system with its policy grew"
        case "unstable":
            what = "a mode grew beyond the limit of stability of the explicit method"
            advice = f"{shorter} or an implicit method, such as lie_jax.GeneralizedAlpha()"
            if float(stats.stability) > 1.0:
                advice += (
                    f"; steps were up to {float(stats.stability):.3g} times as large as the limit"
                )
        case "too_many_events":
            events: Any = trajectory.events
            count, most = int(jnp.sum(events.index >= 0)), len(events.t)
            what, where = f"more events happened than max_events={most}", f"by {end}"
            advice = "Take a larger max_events"
            if count < most:
                what = f"events[{int(events.index[count - 1])}] happened again at once"
                where, advice = f"at {end}", "Let its action turn the motion back"
            advice += (
                ", or, where events follow each other ever faster, end the run by an event or take "
                "a law of contact"
            )
        case "input_not_finite":
            u = np.asarray(jnp.nan if trajectory.inputs is None else trajectory.inputs[completed])
            what = f"the policy returned the inputs {u.tolist()}, which are not finite,"
            advice = "Look for a division by zero, a missing value or too large a gain in it"
        case "event_not_finite":
            what = "the function of an event became infinite or NaN"
            advice = "Make it finite on both sides of its zero"
        case "action_off_constraints":
            events: Any = trajectory.events
            index = int(events.index[jnp.sum(events.index >= 0) - 1])
            what = f"the action of events[{index}] left a state that violates the constraints"
            where = f"at {end}"
            advice = "Return a state that satisfies them, such as that of lie_jax.project"
        case "acceleration_not_finite":
            numbers = jnp.concatenate([trajectory.acceleration, trajectory.multipliers], axis=1)
            instant = jnp.nanargmin(jnp.abs(trajectory.t - stats.end_time))
            owner = system.owner(int(jnp.argmax(~jnp.isfinite(numbers[instant]))))
            what = f"accelerations or multipliers of {owner} are infinite or NaN,"
            what += " though q and v are not,"
            advice, where = "Look at the forces that act there at that time", f"at {end}"
        case _:
            what = "the state became infinite or NaN"
    if not adaptive and any(bool(trajectory.result == result) for result in _GROWTH):
        advice = _too_fast(system, integrator, trajectory, float(dt)) or (
            _gain(policy) + advice if policy else advice
        )
    advice = _singular_part(system, trajectory) or advice
    return (
        f"{what} {where}. {advice}: the trajectory before the failure is in the error's "
        "`trajectory`, and throw=False returns it."
    )


# Results of motions that grew.
_GROWTH = (
    *(Result.unstable, Result.non_finite, Result.newton_failed),
    *(Result.departed, Result.turned_over, Result.out_of_chart),
)


def _gain(policy: Policy) -> str:
    """Sentence on a policy, whose gain may let a motion grow."""
    time = policy.sample_time
    # Without a sample time each step is a sample, and a smaller dt serves both.
    sample = "" if time is None else f" or sample_time (it is {time:.6g} s)"
    return (
        "Where a gain of the policy is too large for the time between its samples, motions grow: "
        f"take a smaller gain{sample}. "
    )


def _too_fast(
    system: AbstractSystem, integrator: AbstractIntegrator, trajectory: Trajectory, dt: float
) -> str | None:
    """Sentence on the mode of the system that is too fast for an explicit method."""
    found = fastest(system, integrator, dt, trajectory, int(trajectory.stats.completed_steps))
    if found is None:
        return None
    return (
        f"The fastest mode is {found.words}; the method is stable up to dt = {found.dt:.3g} s "
        f"(dt is {dt:.6g} s, {dt / found.dt:.3g} times as large). Take a smaller dt than that, or "
        "an implicit method, such as lie_jax.GeneralizedAlpha(), which has no such limit"
    )


def _singular_part(system: AbstractSystem, trajectory: Trajectory) -> str | None:
    """Sentence on a singular part of the equations at the last instant that was reached."""
    by_solution = Result.newton_failed, Result.acceleration_not_finite, Result.non_finite
    if not any(bool(trajectory.result == result) for result in by_solution):
        return None
    reached = np.flatnonzero(np.all(np.isfinite(np.asarray(trajectory.q)), axis=1))
    if not len(reached):
        return None
    return system.validity.singular(trajectory.t[reached[-1]], trajectory.q[reached[-1]])


# Number of residuals that a message lists, at the beginning and at the end.
_SHOWN = 4


def _advice(
    system: AbstractSystem, integrator: AbstractIntegrator, trajectory: Trajectory, shorter: str
) -> str:
    history = [f"{x:.2g}" for x in trajectory.stats.residual_history.tolist() if x == x]
    if len(history) > 2 * _SHOWN:
        history = [*history[:_SHOWN], "...", *history[-_SHOWN:]]
    worst = int(trajectory.stats.worst_equation)
    owner = f", the largest in {system.owner(worst)}" if worst >= 0 else ""
    modified = getattr(integrator, "newton", "full") == "modified"
    instead = " or newton='full'" if modified else ""
    start = " or start from lie_jax.project(system, state)" if system.nc else ""
    return (
        f"The residuals on the way were {', '.join(history)}{owner}. {shorter}{instead}{start}, "
        "and look at what drives the system there"
    )
