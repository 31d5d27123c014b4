"""Derivatives of an optimum by the numbers of its problem, from the conditions that it meets."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from lie_jax.control import newton
from lie_jax.control.elimination import Bounds
from lie_jax.control.points import Derivatives, Point, Problem, derive
from lie_jax.numerics import rules

# Newton steps at the end of a search before its derivative.
_POLISHING = 4


def optimum_of(problem: Problem, at: Point, barrier: Array, converged: Bool[Array, ""]) -> Point:
    """The point, differentiated as the optimum of the problem, to any order.

    A Newton step at an optimum is zero for its own problem, and for one nearby the change of the
    optimum to first order. Derivatives where a search has not converged are NaN.
    """
    numbers, rest = eqx.partition(at, eqx.is_inexact_array)

    def change(values, parameters, tangents):
        numbers, barrier = values
        problem, rest, converged = parameters
        # Its change of the point is rounding, to which nothing is to be differentiated.
        near = _polish(*rules.stop_gradient((problem, eqx.combine(numbers, rest), barrier)))
        near = eqx.filter(near, eqx.is_inexact_array)
        exact = jax.tree.map(lambda x, y: x + jax.lax.stop_gradient(y - x), numbers, near)
        at = eqx.combine(exact, rest)
        known = derive(problem, at)
        sure = jnp.where(converged, 1.0, jnp.nan)

        def follow(problem):
            after = _newton(problem, at, known, barrier)
            return eqx.filter(after, eqx.is_inexact_array)

        moved = jax.tree.map(lambda x: x * sure, rules.derivative(follow, problem, tangents[0]))
        return moved, jnp.zeros_like(barrier)

    values, parameters = (numbers, barrier), (problem, rest, converged)
    numbers, _ = rules.value_with_rule(values, change, parameters)
    return eqx.combine(numbers, rest)


def _polish(problem: Problem, at: Point, barrier: Array) -> Point:
    """Point after some Newton steps with one barrier, at which products of distances from limits
    and multipliers equal it to rounding.

    A search ends where they are small. But the change of an input on its limit is that of the limit
    to as many digits only as the two factors agree in.
    """
    zero = jnp.zeros_like(barrier)
    units = tuple(jnp.zeros_like(part.lower) for part in problem.parts)

    def improve(_, numbers):
        here = eqx.combine(numbers, rest)
        derived = derive(problem, here)
        step = newton.step(problem, here, derived, units, barrier, zero)
        after = newton.go(problem, here, derived, step, step.bounds.primal, barrier)
        return eqx.filter(after, eqx.is_inexact_array)

    numbers, rest = eqx.partition(at, eqx.is_inexact_array)
    return eqx.combine(jax.lax.fori_loop(0, _POLISHING, improve, numbers), rest)


def _newton(problem: Problem, at: Point, known: Derivatives, barrier: Array) -> Point:
    """Point after a whole Newton step with the Hessians that are known."""
    parts = tuple(dataclasses.replace(part, curvature="nothing") for part in problem.parts)
    linear = derive(dataclasses.replace(problem, parts=parts), at)
    derived = jax.tree.map(
        lambda row, other: row._replace(hessian=other.hessian),
        linear, known, is_leaf=lambda x: hasattr(x, "hessian"),
    )  # fmt: skip
    zero = jnp.zeros_like(barrier)
    units = tuple(jnp.zeros_like(part.lower) for part in problem.parts)
    step = newton.step(problem, at, derived, units, barrier, zero)
    whole = jnp.ones_like(barrier)
    step = step._replace(bounds=Bounds(whole, whole, step.bounds.fall))
    return newton.go(problem, at, derived, step, whole, barrier)
