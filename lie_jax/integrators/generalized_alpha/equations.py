"""The equations of one generalized-α step and the rules to stop.

The unknowns y = (Δ, μ) of a step are the correction Δ of the predicted increment and the
multipliers divided by β'. Together with dynamic equations divided by β' and velocity constraints
divided by γ' this is Bottasso's scaling: the condition of the Jacobian does not depend on the size
of the step. The residual's entries are those of Φ, and inertia times an increment of position or
angle.

Before the first step the same equations are those of accelerations and multipliers at one instant,
q and v fixed: y are these, B v̇ + d = 0 takes the place of the constraints (see `start`).

The stabilised form of index 2 has the unknowns y = (Δ, μ, η): the increment is corrected by -Nᵀη,
with the Jacobian N of positions at the start of the step, and the velocities obey Φ̇ = 0, too. Its
equations stand in the order dynamics, velocities, positions.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from lie_jax.integrators import iterations
from lie_jax.numerics.newton import Search
from lie_jax.spaces import derivatives
from lie_jax.systems.linearization import AbstractReactions
from lie_jax.systems.system import AbstractSystem


class Instant(NamedTuple):
    """Whether accelerations at one `instant` are asked for in place of a step; those across
    position constraints shall be `beyond` (nv,) those of a motion.
    """

    asked: Bool[Array, ""]
    beyond: Array


class StepParameters(NamedTuple):
    """Parameters of the equations of a step.

    System, time and inputs at the end of the step; q, where the retraction starts; the predicted
    increment and velocity; the factors β' and γ' of the method; in the stabilised form the
    `reactions` of position constraints at the start; `instant` is None where no accelerations at
    one are ever asked for.
    """

    system: AbstractSystem
    t: Array
    u: Any
    q: Array
    increment: Array
    velocity: Array
    beta: Array
    gamma: Array
    reactions: AbstractReactions | None
    instant: Instant | None = None


class End(NamedTuple):
    """Configuration, velocity, acceleration and multipliers at the end of a step."""

    q: Array
    v: Array
    acceleration: Array
    multipliers: Array


def reactions(system: AbstractSystem, t: Array, q: Array, index: int) -> AbstractReactions | None:
    """Reactions of position constraints at the start of a step of the stabilised form."""
    # Without position constraints both forms are one.
    if index == 3 or system.nc == system.velocity_rows:
        return None
    return system.algebra.position_reactions(t, q)


def guess(problem: StepParameters, end: Array) -> Array:
    """Unknowns of a step whose end has these accelerations and multipliers, (nv + nc,)."""
    y = end / problem.beta
    if problem.reactions is None:
        return y
    positions = problem.system.nc - problem.system.velocity_rows
    return jnp.concatenate([y, jnp.zeros(positions, y.dtype)])


def extrapolate_rate(rate: Array, before: Array, nv: int) -> Array:
    """Rate of change of accelerations and multipliers (nv + nc,) that is expected in a step, from
    those in the two steps before it.

    Extrapolation by a parabola, where the rates of the nv accelerations are smooth, else zero: a
    jump would be repeated.
    """
    bend = rate - before
    smooth = jnp.max(jnp.abs(bend[:nv])) <= 0.5 * jnp.max(jnp.abs(rate[:nv]))
    return jnp.where(smooth, rate + bend, 0.0)


def increment(y: Array, problem: StepParameters) -> Array:
    """Increment (nv,) of the step for these unknowns."""
    change = _correction(y, problem)
    if problem.instant is not None:
        change = jnp.where(problem.instant.asked, 0.0, change)
    return problem.increment + change


def _correction(y: Array, problem: StepParameters) -> Array:
    nv = problem.increment.shape[0]
    if problem.reactions is None:
        return y[:nv]
    return y[:nv] - problem.reactions.of(y[nv + problem.system.nc :])


def end(y: Array, problem: StepParameters) -> End:
    """The end of the step for these unknowns."""
    space, nv = problem.system.space, problem.system.nv
    correction, multipliers = y[:nv], y[nv : nv + problem.system.nc]
    # Without the barrier XLA repeats the exponential for each of its many uses.
    q = jax.lax.optimization_barrier(space.flow(problem.q, increment(y, problem)))
    return End(
        q,
        problem.velocity + problem.gamma * correction,
        problem.beta * correction,
        problem.beta * multipliers,
    )


def equations(problem: StepParameters, y: Array, end: End, dynamic: Array) -> Array:
    """Residual of the step from the system's residual at its end."""
    dynamic = dynamic / problem.beta
    if not problem.system.nc:
        return dynamic
    instant = problem.instant
    if instant is None:
        return jnp.concatenate([dynamic, _constraints(problem, end)])
    rows = jax.lax.cond(
        instant.asked,
        lambda: _of_accelerations(problem, instant.beyond, y, end),
        lambda: _constraints(problem, end),
    )
    return jnp.concatenate([dynamic, rows])


def _constraints(problem: StepParameters, end: End) -> Array:
    system, t = problem.system, problem.t
    parts = [system.constraint(t, end.q)]
    if problem.reactions is not None:
        parts.insert(0, system.constraint_rate(t, end.q, end.v) / problem.gamma)
    elif system.velocity_rows:
        parts.append(system.velocity_constraint(t, end.q, end.v) / problem.gamma)
    return jnp.concatenate(parts)


def _of_accelerations(problem: StepParameters, beyond: Array, y: Array, end: End) -> Array:
    """Constraints of accelerations at one instant, and of η, for which they are solvable."""
    system, at = problem.system, (problem.t, end.q, end.v)
    positions = system.nc - system.velocity_rows
    rows = system.constraint_rates(*at, end.acceleration - beyond)[1]
    if system.velocity_rows:
        of_velocities = system.constraint_rates(*at, end.acceleration)[1]
        rows = jnp.concatenate([rows[:positions], of_velocities[positions:]])
    if problem.reactions is None:
        return rows
    moved = derivatives.derivative_along(
        system.space, lambda q: system.constraint(problem.t, q), end.q, _correction(y, problem)
    )
    return jnp.concatenate([rows, moved])


def number_in_system(equation: Array, problem: StepParameters) -> Array:
    """Number of an equation of the step in the system's own order."""
    if problem.reactions is None:
        return equation
    last = problem.system.nv + problem.system.nc
    return jnp.where(equation >= last, equation - problem.system.nc, equation)


# Newton's method evaluates it at several places: a jitted function is traced once.
@eqx.filter_jit
def residual(y: Array, problem: StepParameters) -> Array:
    """Residual of the step, with as many entries as unknowns."""
    at = end(y, problem)
    return equations(problem, y, at, problem.system.residual(problem.t, *at, problem.u))


def converges(
    correction: Array, value: Array, y: Array, problem: StepParameters, power: float = 0.5
) -> Array:
    """Whether a correction by the exact Jacobian leaves an error at the level of rounding.

    It must be below eps^power relative to the increment. Accelerations at one instant, for which
    the equations are linear, are corrected once.
    """
    nv = problem.system.nv
    moved = jnp.max(jnp.abs(problem.increment + y[:nv]))
    settled = iterations.reaches_rounding(
        correction, value, nv, moved, iterations.scale(problem.q), power=power
    )
    if problem.instant is None:
        return settled
    corrected = jnp.any(y != correction) | jnp.all(correction == 0.0)
    return jnp.where(problem.instant.asked, corrected, settled)


def converges_linearly(correction: Array, search: Search, problem: StepParameters) -> Array:
    """Whether a search with a constant matrix has converged: its errors shrink by a factor only."""
    return converges(correction, search.value, search.root.y, problem, 0.75)
