"""Limits of validity: convergence, finite numbers, charts, laws of forces, sides of joints."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.integrators.base import Step
from lie_jax.numerics import rules
from lie_jax.simulation.trajectory import Result
from lie_jax.systems.system import AbstractSystem, Accelerations, State


class Verdict(NamedTuple):
    """Validity of a step's end.

    `valid`: converged, finite and inside the model; `inside`: inside the model, where the state may
    be used; `reason` for a step that is not valid; `worst`: number of the equation, velocity, force
    or joint concerned, -1 if unknown; `memory`: what the forces keep of the end.
    """

    valid: Bool[Array, ""]
    inside: Bool[Array, ""]
    reason: Result
    worst: Int[Array, ""]
    memory: Any


def verdict(
    system: AbstractSystem,
    t: Float[Array, ""],
    dt: Float[Array, ""],
    before: State,
    step: Step,
    first_sides: Bool[Array, " joints"],
) -> Verdict:
    """Verdict on a step of size dt (s) to the time t (s); `system` recalls the step's start.

    `first_sides` are the `sides` at the start of the run. A body turns by about the step size times
    its mean angular velocity.
    """
    before, after, system = rules.stop_gradient((before, step.state, system))
    # The sum is finite only if every number is: one reduction instead of a test of each.
    finite = jnp.isfinite(jnp.sum(after.q) + jnp.sum(after.v))
    memory = system.memory_after(t, after.q, after.v)
    violations = []
    turn = system.space.turn(0.5 * dt * (before.v + after.v))
    if turn is not None:
        violations.append((turn >= 1.0, Result.out_of_chart))
    departed = system.validity.leaves_range(t, after.q, after.v)
    if len(departed):
        violations.append((departed, Result.departed))
    if len(first_sides):
        violations.append((sides(system, t, after.q) != first_sides, Result.turned_over))
    inside = system.validity.regular(after.q)
    reason = Result.singular
    worst = jnp.full((), -1, jnp.int32)
    # The first violation counts.
    for violated, result in violations:
        reason = Result.where(inside, result, reason)
        worst = jnp.where(inside, jnp.argmax(violated).astype(jnp.int32), worst)
        inside = inside & ~jnp.any(violated)
    usable = step.converged & finite
    reason = Result.where(finite, reason, Result.non_finite)
    reason = Result.where(step.converged, reason, Result.newton_failed)
    worst = jnp.where(usable & ~inside, worst, step.worst)
    return Verdict(usable & inside, inside, reason, worst, memory)


def start(
    system: AbstractSystem, t: Float[Array, ""], state: State
) -> tuple[Result, Int[Array, ""]]:
    """Result of a run from a start that a compiled function computes, and the number concerned.

    `successful` for a state from which a run may go; the rules are those that `simulate` checks
    outside of JAX transformations. Numbers are those of a `Verdict`.
    """
    system, state = rules.stop_gradient((system, state))
    q, v = state.q, state.v
    root = jnp.finfo(q.dtype).eps ** 0.5
    finite = jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(v))
    checked = [(~finite, Result.non_finite)]
    deviation = system.space.deviation(q)
    if deviation is not None:
        checked.append((deviation > root, Result.no_configuration))
    checked.append((~system.validity.regular(q), Result.singular))
    if system.nc:
        size = root * (1.0 + jnp.max(jnp.abs(q)) + jnp.max(jnp.abs(v)))
        none = jnp.zeros(system.nv, q.dtype)
        for errors in (system.constraint(t, q), system.constraint_rate(t, q, v)):
            off = jnp.abs(jnp.concatenate([none, errors])) > size
            checked.append((off, Result.off_constraints))
    turned = system.validity.branch_signs(t, q)
    if len(turned):
        checked.append((~(turned > 0.0), Result.turned_over))
    departed = system.validity.leaves_range(t, q, v)
    if len(departed):
        checked.append((departed, Result.departed))
    result, worst = Result.successful, jnp.full((), -1, jnp.int32)
    # The first violation counts.
    for violated, reason in reversed(checked):
        broken = jnp.any(violated)
        number = jnp.argmax(violated).astype(jnp.int32) if violated.ndim else -1
        result = Result.where(broken, reason, result)
        worst = jnp.where(broken, number, worst)
    return result, worst


def sides(
    system: AbstractSystem, t: Float[Array, ""], q: Float[Array, " nq"]
) -> Bool[Array, " joints"]:
    """Side of each joint at which its constraints hold: whether its number is negative."""
    return jax.lax.stop_gradient(system.validity.branch_signs(t, q)) < 0.0


def outcome(
    result: Result, accelerations: Accelerations, reached: Bool[Array, " n"]
) -> tuple[Result, Int[Array, ""]]:
    """Result of a run, and the number of the instant at which it fails after all, or n.

    A successful run fails at the first instant reached (n,) without finite accelerations and
    multipliers, (n, nv) and (n, nc).
    """
    numbers = jax.lax.stop_gradient(accelerations)
    finite = jnp.isfinite(sum(jnp.sum(x, axis=1) for x in numbers))
    bad = reached & ~finite & (result == Result.successful)
    instant = jnp.where(jnp.any(bad), jnp.argmax(bad), bad.shape[0]).astype(jnp.int32)
    return Result.where(jnp.any(bad), Result.acceleration_not_finite, result), instant
