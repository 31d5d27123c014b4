"""Causes for which a search for a periodic motion fails, and remedies."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.numerics import programs
from lie_jax.orbits.return_map import ReturnMap
from lie_jax.orbits.search import MOST_EVALUATIONS, Found
from lie_jax.simulation import failures
from lie_jax.simulation.trajectory import Trajectory, succeeded

# Change of forces, accelerations or constraints after a period, in parts of the largest one and in
# units of the square root of rounding, that makes a system one of another period.
_OTHER = 1e2
# Part of a free period: no other than a system without explicit time is the same after it.
_IRRATIONAL = 0.5 * (3.0 - 5.0**0.5)


@programs.run_once
def _changes(problem: ReturnMap, run: Trajectory, shifts: Array) -> Array:
    """Largest changes (shifts, nv + positions) along a motion by shifts of time (s): of equations
    of motion in parts of the largest force, and of position constraints or their rates.
    """
    system, positions = problem.system, problem.system.nc - problem.system.velocity_rows
    rows = run.t, run.q, run.v, run.acceleration, run.multipliers, run.memory
    # At the end an event may have changed the state.
    rows = jax.tree.map(lambda x: x[:-1], rows)

    def equations(shift: Array, part: Array) -> tuple[Array, Array]:
        def at(t, q, v, acceleration, multipliers, memory):
            recalling = system.with_memory(memory)
            moved = part * acceleration, part * multipliers
            left = recalling.residual(t + shift, q, v, *moved, None)
            rates = recalling.constraint_rate(t + shift, q, v)[:positions]
            return left, jnp.concatenate([recalling.constraint(t + shift, q), rates])

        return jax.vmap(at)(*rows)

    # The equations of the motion, those at other times, and forces alone, for their size.
    zero = jnp.zeros(1, shifts.dtype)
    times = jnp.concatenate([zero, shifts, zero])
    parts = jnp.ones_like(times).at[-1].set(0.0)
    forces, gaps = jax.lax.map(lambda x: equations(*x), (times, parts))
    # Rows that were not reached are NaN.
    largest = jnp.nanmax(jnp.abs(forces[-1]))
    force = jnp.nanmax(jnp.abs(forces[1:-1] - forces[:1]), axis=1)
    gap = jnp.nanmax(jnp.abs(gaps[1:-1] - gaps[:1]), axis=1, initial=0.0)
    gap = jnp.maximum(gap[:, :positions], gap[:, positions:])
    return jnp.concatenate([force / jnp.where(largest > 0.0, largest, 1.0), gap], axis=1)


def refuse_other_periods(problem: ReturnMap, run: Trajectory, period: Array) -> None:
    """Raise `ValueError` for forces or drivers that are not those of the start after a period."""
    if problem.symmetry is not None or not bool(jnp.isfinite(period)):
        return
    slack = _OTHER * float(jnp.finfo(period.dtype).eps) ** 0.5
    shifts = [1.0, _IRRATIONAL] if problem.free_period else [1.0]
    found = np.asarray(_changes(problem, run, jnp.asarray(shifts, period.dtype) * period))
    changes = np.nan_to_num(found.max(axis=0), nan=0.0)
    worst = int(np.argmax(changes))
    if changes[worst] <= slack:
        return
    owner = problem.system.owner(worst)
    if problem.free_period:
        raise ValueError(
            "periodic_orbit(free_period=) is True, but forces or drivers depend on time, the most "
            f"at {owner}: give the period of the drive as period=, or a multiple of it, and leave "
            "free_period out."
        )
    raise ValueError(
        f"periodic_orbit(period=): after {float(period):.9g} s forces or drivers are not what they "
        f"were, the most at {owner}, by {changes[worst]:.2g} of the largest: give the period of "
        "the drive to all its digits, or a multiple of it."
    )


def message(problem: ReturnMap, found: Found, run: Trajectory) -> str:
    """Sentences on what a search has left, and what to try."""
    begin = f"periodic_orbit: after {int(found.evaluations)} evaluations of the return map "
    if not bool(succeeded(run.result)):
        why = failures.message(
            *(problem.system, problem.integrator, run),
            *(found.point.period / problem.steps, problem.steps),
            adaptive=False,
            policy=None,
        )
        return f"{begin}a motion does not reach its end. {why}"
    if not bool(found.linear.image.complete):
        end = float(problem.t0 + found.point.period)
        return (
            f"{begin}the event of until= does not come before t = {end:.6g} s: take a longer "
            "period= with as many steps more, look at the direction of the event, or start nearer."
        )
    if bool(found.resting):
        return (
            f"{begin}the motion is at rest, where every period closes: start further from the "
            "equilibrium, or give a condition= that is not zero there, such as an amplitude."
        )
    residual, defect = float(found.residual), np.abs(np.asarray(found.linear.defect))
    worst, nv = int(np.nanargmax(defect)), problem.system.nv
    if worst >= 2 * nv:
        what = f"value {worst - 2 * nv} of condition= is {residual:.3g}"
    else:
        kind = "velocity" if worst >= nv else "position"
        what = (
            f"end and start differ by {residual:.3g} in the {kind} of "
            f"{problem.system.owner(worst % nv)}"
        )
    if bool(found.settled):
        return (
            f"{begin}{what}, and no small change of the start makes it smaller: there is no "
            "periodic motion near this one, or symmetry= or constraints do not fit it, or the "
            f"integrator loses what the system conserves. {_remedies(problem)}"
        )
    bound = int(found.evaluations) >= MOST_EVALUATIONS
    ended = "the number of them is used up" if bound else "shorter steps do not help"
    return f"{begin}{what}, and {ended}. {_remedies(problem)}"


def _remedies(problem: ReturnMap) -> str:
    advice = ["start nearer to the motion, such as from the end of a run that has settled"]
    if not problem.free_period and problem.until is None:
        advice.append("look for the period, too, by free_period=True, if nothing drives the system")
    if problem.free_period:
        advice.append("give another guess as period=")
    advice.append("take more steps, or a more accurate method")
    return f"What to try: {'; '.join(advice)}."
