"""Failures of runs in words: what failed, where, and the fix."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.simulation.fastest import fastest
from lie_jax.simulation.policy import Policy
from lie_jax.simulation.trajectory import Result, Trajectory, items_by_name
from lie_jax.systems.system import AbstractSystem


def message(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    trajectory: Trajectory,
    dt: Array,
    steps: int,
    adaptive: bool,
    policy: Policy | None,
) -> str:
    """Failure of a run with steps of size dt (s), the place of it and the fix."""
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
                "middle of one, against which a stiffer law of contact may help, or passed through "
                "each other, or an angle changed by a quarter turn "
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
        case "times_not_increasing":
            what, where = "the times of save=, or t_end, do not increase", f"from {end} on"
            advice = "Sort them"
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
