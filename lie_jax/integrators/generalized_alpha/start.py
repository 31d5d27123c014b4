"""How the generalized-α method starts with second order in multipliers and accelerations.

The method's auxiliary acceleration a belongs to the time t + (α_m - α_f) h, and its velocities
leave those of the motion by h² times a smooth function, whose part across the constraints follows
from the error of the increment. Started otherwise, multipliers oscillate by terms of first order.
Source: Arnold, Brüls and Cardona, "Error analysis of generalized-α Lie group time integration
methods for constrained mechanical systems" (2015).

The first carry takes two or three passes, each of them a step that stays where it is: for the
accelerations at the start, for those after a step of Taylor's series, and for those whose part
across the constraints is larger by the change of velocities. A time loop that begins with them
holds the equations, their matrix and their derivatives once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from lie_jax.integrators.generalized_alpha.equations import End, Instant, StepParameters
from lie_jax.numerics import newton
from lie_jax.systems.system import AbstractSystem, State

# Factor γ' of velocities that stay: zero but for quotients.
_NONE = 1e-30


class Carry(NamedTuple):
    """Accelerations v̇ (nv,) and multipliers (nc,); the distance of the method's auxiliary
    accelerations a from v̇ over the step size (nv,); what the next step adds to the velocity (nv,),
    zero after the first; the rate of change of accelerations and multipliers (nv + nc,) in the last
    step and the one expected in the next; the inverse that modified Newton keeps, with the size
    (s) of the step it belongs to; and the number of passes before the first step, None where they
    are behind.

    With rates the next step may have another size: a belongs to the time t + (α_m - α_f) h. Before
    the last pass `shift` is the error of the increment (nv,).
    """

    acceleration: Array
    multipliers: Array
    auxiliary_rate: Array
    shift: Array
    rate: Array
    expected_rate: Array
    kept: newton.Inverse | None = None
    kept_for: Array | None = None
    passes: Int[Array, ""] | None = None


def initial_carry(acceleration: Array, multipliers: Array, auxiliary_rate: Array) -> Carry:
    """Carry before the first step, without past changes."""
    unknown = jnp.zeros(acceleration.size + multipliers.size, acceleration.dtype)
    none = jnp.zeros_like(acceleration)
    return Carry(acceleration, multipliers, auxiliary_rate, none, unknown, unknown)


def number_of_passes(system: AbstractSystem, index: int) -> int:
    """Number of passes; position constraints of index 3 need the change of velocities."""
    return 3 if index == 3 and system.nc > system.velocity_rows else 2


class Pass(NamedTuple):
    """Whether a pass comes before the first step, and whether it is the second or the third one,
    None where there is no third.
    """

    starting: Bool[Array, ""]
    second: Bool[Array, ""]
    third: Bool[Array, ""] | None


def pass_of(passes: Int[Array, ""], most: int) -> Pass:
    """Pass that comes next, where so many `passes` are left of `most`; more repeat the first."""
    return Pass(passes > 0, passes == most - 1, passes == most - 2 if most > 2 else None)


def parameters_of_pass(
    now: Pass, problem: StepParameters, t: Array, dt: Array, state: State, carry: Carry
) -> StepParameters:
    """Parameters of a step, the `problem`, or of accelerations at the start or a step later."""

    def either(other, of_step):
        return jnp.where(now.starting, other, of_step)

    change = jnp.where(now.second, dt * carry.acceleration, 0.0)
    moved = jnp.where(now.second, dt * state.v, 0.0) + 0.5 * dt * change
    values = {
        "t": jnp.where(now.starting & ~now.second, t, problem.t),
        "increment": either(moved, problem.increment),
        "velocity": either(state.v + change, problem.velocity),
        "beta": either(1.0, problem.beta),
        "gamma": either(_NONE, problem.gamma),
        "instant": Instant(now.starting, carry.shift / dt),
    }
    # Without the barrier XLA repeats these for each of their many uses.
    return problem._replace(**jax.lax.optimization_barrier(values))


def carry_of_pass(
    now: Pass,
    end: End,
    rho: float | Array,
    system: AbstractSystem,
    dt: Array,
    state: State,
    carry: Carry,
    after: Carry,
) -> Carry:
    """Carry after a pass or a step; `after` is that of a step.

    The auxiliary acceleration is the initial one where accelerations change by more in a step than
    those of a motion that the step resolves.
    """
    assert carry.passes is not None
    v, v_dot, known = state.v, carry.acceleration, now.second
    change, shift = end.acceleration - v_dot, carry.shift
    # Where steps do not resolve the fastest motion, as with stiff controllers, the extrapolation
    # would kick the system.
    largest = jnp.max(jnp.abs(v_dot)) + jnp.max(jnp.abs(v)) / dt
    slow = jnp.where(jnp.max(jnp.abs(change)) <= largest, change, 0.0)
    lag = (rho - 1.0) / (rho + 1.0)  # α_m - α_f
    third = now.third
    if third is not None:
        beta = 0.25 * (1.0 - lag) ** 2

        def error():
            turned = dt * dt * system.space.turning(v, v_dot)
            return turned / 6.0 + dt * (1.0 / 6.0 - 0.5 * lag - beta) * slow

        shift = jax.lax.cond(now.second, error, lambda: jnp.where(third, dt * change, 0.0))
        known = known | third
    none = jnp.zeros_like(carry.rate)
    begun = after._replace(
        acceleration=jnp.where(known, v_dot, end.acceleration),
        multipliers=jnp.where(known, carry.multipliers, end.multipliers),
        auxiliary_rate=jnp.where(now.second, lag / dt * slow, carry.auxiliary_rate),
        shift=shift,
        rate=none,
        expected_rate=none,
        # The next matrix belongs to a step.
        kept_for=None if carry.kept_for is None else jnp.zeros_like(carry.kept_for),
    )
    chosen = jax.tree.map(lambda a, b: jnp.where(now.starting, a, b), begun, after)
    return chosen._replace(passes=jnp.maximum(carry.passes - 1, 0))
