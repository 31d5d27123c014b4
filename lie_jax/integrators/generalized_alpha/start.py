"""How the generalized-α method starts with second order in multipliers and accelerations.

The method's auxiliary acceleration a belongs to the time t + (α_m - α_f) h, and its velocities
leave those of the motion by h² times a smooth function, whose part across the constraints follows
from the error of the increment. Started otherwise, multipliers oscillate by terms of first order.
Source: Arnold, Brüls and Cardona, "Error analysis of generalized-α Lie group time integration
methods for constrained mechanical systems" (2015).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.numerics import newton
from lie_jax.spaces import derivatives
from lie_jax.systems.index1 import smallest_change
from lie_jax.systems.system import SOLVED, AbstractSystem, State, accelerations_and_multipliers


class Carry(NamedTuple):
    """Accelerations v̇ (nv,) and multipliers (nc,); the distance of the method's auxiliary
    accelerations a from v̇ over the step size (nv,); what the next step adds to the velocity (nv,),
    zero after the first; the rate of change of accelerations and multipliers (nv + nc,) in the last
    step and the one expected in the next; and the inverse that modified Newton keeps, with the size
    (s) of the step it belongs to.

    With rates the next step may have another size: a belongs to the time t + (α_m - α_f) h.
    """

    acceleration: Array
    multipliers: Array
    auxiliary_rate: Array
    shift: Array
    rate: Array
    expected_rate: Array
    kept: newton.Inverse | None = None
    kept_for: Array | None = None


def begun(acceleration: Array, multipliers: Array, auxiliary_rate: Array) -> Carry:
    """Carry before the first step, without past changes."""
    unknown = jnp.zeros(acceleration.size + multipliers.size, acceleration.dtype)
    none = jnp.zeros_like(acceleration)
    return Carry(acceleration, multipliers, auxiliary_rate, none, unknown, unknown)


def optimal(
    system: AbstractSystem,
    rho: float | Array,
    index: int,
    t: Array,
    dt: Array,
    state: State,
    u: Array | None,
) -> Carry:
    """The start of second order, from the acceleration now and after a step of Taylor's series.

    The auxiliary acceleration is the initial one where accelerations change by more in a step than
    those of a motion that the step resolves.
    """
    space, q, v = system.space, state.q, state.v

    # Two evaluations in a loop compile as one. Reverse mode evaluates them again: to copy what it
    # would save to and from arrays takes more code.
    @functools.partial(
        jax.checkpoint,
        prevent_cse=False,
        policy=jax.checkpoint_policies.save_only_these_names(SOLVED),
    )
    def evaluate(now, _):
        t, q, v = now
        found = accelerations_and_multipliers(system, t, q, v, u)
        moved = dt * v + 0.5 * dt * dt * found.acceleration
        q = space.flow(q, moved)
        return (t + dt, q, v + dt * found.acceleration), found

    _, found = jax.lax.scan(evaluate, (t, q, v), length=2)
    v_dot, multipliers = (x[0] for x in found)
    change = found.acceleration[1] - v_dot
    # Where steps do not resolve the fastest motion, as with stiff controllers, the extrapolation
    # would kick the system.
    largest = jnp.max(jnp.abs(v_dot)) + jnp.max(jnp.abs(v)) / dt
    change = jnp.where(jnp.max(jnp.abs(change)) <= largest, change, 0.0)
    lag = (rho - 1.0) / (rho + 1.0)  # α_m - α_f
    start = begun(v_dot, multipliers, lag / dt * change)
    positions = system.nc - system.velocity_rows
    if not positions or index == 2:
        return start
    beta = 0.25 * (1.0 - lag) ** 2
    turned = dt * dt * space.turning(v, v_dot)
    error = turned / 6.0 + dt * (1.0 / 6.0 - 0.5 * lag - beta) * change
    rows = derivatives.derivative_along(space, lambda q: system.constraint(t, q), q, error)
    rows = jnp.concatenate([rows, jnp.zeros(system.velocity_rows, q.dtype)])
    return start._replace(shift=smallest_change(system, t, q, rows))
