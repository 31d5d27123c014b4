"""The equations of one stage.

A stage has local coordinates x from the start of the step, and the velocity v = T(x) ẋ + Nᵀη, where
N are the reactions of the position constraints at the start. The auxiliary multipliers η, which
vanish with the error of the method, let positions and velocities obey their constraints both: the
form of index 2 of Gear, Gupta and Leimkuhler (1985). The equations are

    τ (M v̇ + Bᵀλ - f) = 0,    Φ̇ = 0 with velocity constraints,    Φ / τ = 0,

with a time τ of the size of the step: all have the units of momentum and velocity, and unknowns are
ẋ, τ λ and η.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.integrators import iterations
from lie_jax.systems.linearization import AbstractReactions
from lie_jax.systems.system import AbstractSystem


class StepParameters(NamedTuple):
    """Parameters of the equations of a step: system, time, size, inputs, configuration and velocity
    at its start, and the reactions of position constraints there, None without any.
    """

    system: AbstractSystem
    t: Array
    dt: Array
    u: Any
    q: Array
    v: Array
    reactions: AbstractReactions | None

    @property
    def rows(self) -> tuple[int, int, int]:
        """Numbers of equations of a stage: dynamic, rates of constraints, positions."""
        system = self.system
        return system.nv, system.nc, system.nc - system.velocity_rows


class Stages(NamedTuple):
    """Rates ẋ and accelerations (s, nv) of all stages, and multipliers (s, nc)."""

    rates: Array
    accelerations: Array
    multipliers: Array


def step_parameters(
    system: AbstractSystem, t: Array, dt: Array, u: Any, q: Array, v: Array
) -> StepParameters:
    """Parameters of a step."""
    has_positions = system.nc > system.velocity_rows
    return StepParameters(
        system, t, dt, u, q, v, system.algebra.position_reactions(t, q) if has_positions else None
    )


def velocity(problem: StepParameters, x: Array, rate: Array, corrections: Array) -> Array:
    """Velocity at local coordinates for their rate and the multipliers η."""
    v = problem.system.space.tangent_operator(x, rate)
    return v if problem.reactions is None else v + problem.reactions.of(corrections)


def equations(
    problem: StepParameters,
    t: Array,
    tau: Array,
    q: Array,
    v: Array,
    change: Array,
    multipliers: Array,
) -> tuple[Array, Array, Array]:
    """Dynamic equations, rates of constraints and positions of a stage at its time.

    `change` is the acceleration, `multipliers` are λ; both are not scaled.
    """
    system = problem.system
    dynamic = tau * system.residual(t, q, v, change, multipliers, problem.u)
    if not system.nc:
        none = jnp.zeros(0, dynamic.dtype)
        return dynamic, none, none
    return dynamic, system.constraint_rate(t, q, v), system.constraint(t, q) / tau


def converges(
    correction: Array, value: Array, y: Array, problem: StepParameters, dynamic: int
) -> Array:
    """Whether a correction by the exact Jacobian leaves an error at the level of rounding.

    Of y, corrections and values the first `dynamic` entries are rates and dynamic equations.
    """
    size = iterations.scale(problem.q) / problem.dt
    # Without constraints rates have rounding of their own, with them that of positions, too.
    rounding = 1.0 if problem.reactions is None else 1.0 + size
    moved = jnp.max(jnp.abs(y[:dynamic]))
    return iterations.reaches_rounding(correction, value, dynamic, moved, size, rounding)


def number_in_system(worst: Array, problem: StepParameters, stages: int) -> Array:
    """Number of an equation of all stages in the system's own order."""
    dynamic, rates, positions = problem.rows
    first = stages * dynamic
    second = first + stages * rates
    of_rates = dynamic + (worst - first) % max(rates, 1)
    of_positions = dynamic + (worst - second) % max(positions, 1)
    of_constraints = jnp.where(worst < second, of_rates, of_positions)
    return jnp.where(worst < first, worst % dynamic, of_constraints)
