"""Where a run leaves its model: charts, laws of forces, accelerations that are not finite."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.numerics import rules
from lie_jax.simulation.trajectory import Result
from lie_jax.system import AbstractSystem, State


class Left(NamedTuple):
    """Whether a step stayed inside the model, why not, the number of the velocity, force or joint
    concerned, and what forces keep of the step's end.
    """

    inside: Bool[Array, ""]
    reason: Result
    worst: Int[Array, ""]
    memory: Any


def of_step(
    system: AbstractSystem,
    t: Float[Array, ""],
    dt: Float[Array, ""],
    before: State,
    after: State,
    over: Bool[Array, " joints"],
) -> Left:
    """What a step of size dt (s) to the time t (s) has left; the system recalls the step's start.

    A body turns by about the step size times its mean angular velocity. `over`: what `turned_over`
    was at the start of the run.
    """
    before, after, system = rules.held((before, after, system))
    left = []
    turn = system.space.turn(0.5 * dt * (before.v + after.v))
    if turn is not None:
        left.append((turn >= 1.0, Result.out_of_chart))
    memory = system.remember(t, after.q, after.v)
    if jax.tree.leaves(memory):
        left.append((system.departed(t, after.q, after.v), Result.departed))
    if len(over):
        left.append((turned_over(system, t, after.q) != over, Result.turned_over))
    inside, reason = jnp.ones((), bool), Result.successful
    worst = jnp.full((), -1, jnp.int32)
    for of_each, result in left:
        reason = Result.where(inside, result, reason)
        worst = jnp.where(inside, jnp.argmax(of_each).astype(jnp.int32), worst)
        inside = inside & ~jnp.any(of_each)
    return Left(inside, reason, worst, memory)


def turned_over(
    system: AbstractSystem, t: Float[Array, ""], q: Float[Array, " nq"]
) -> Bool[Array, " joints"]:
    """Which joints are on the other side of where their constraints hold."""
    return jax.lax.stop_gradient(system.sides(t, q)) < 0.0


def first_not_finite(
    acceleration: Float[Array, "n nv"], multipliers: Float[Array, "n nc"], reached: Array
) -> Int[Array, ""]:
    """The first instant that was reached (n,) whose accelerations or multipliers are not finite.

    n if there is none.
    """
    numbers = jax.lax.stop_gradient((acceleration, multipliers))
    fine = jnp.isfinite(sum(jnp.sum(x, axis=1) for x in numbers))
    bad = reached & ~fine
    return jnp.where(jnp.any(bad), jnp.argmax(bad), bad.shape[0]).astype(jnp.int32)
