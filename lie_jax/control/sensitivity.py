"""Derivatives of an optimum by the numbers of its problem, from the conditions that it meets."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from lie_jax.control import newton
from lie_jax.control.elimination import Bounds
from lie_jax.control.points import Derivatives, Point, Problem, derive
from lie_jax.control.search import Look
from lie_jax.numerics import rules

# Newton steps at the end of a search before its derivative.
_POLISHING = 4


def optimum_of(problem: Problem, look: Look, barrier: Array, converged: Bool[Array, ""]) -> Point:
    """The point that a search looked at last, differentiated as the optimum of the problem, to any
    order.

    A Newton step at an optimum is zero for its own problem, and for one nearby the change of the
    optimum to first order. Derivatives where a search has not converged are NaN.
    """
    numbers, rest = eqx.partition(look.at, eqx.is_inexact_array)

    def change(values, parameters, tangents):
        numbers, barrier = values
        problem, rest, known, converged = parameters
        # Its change of the point is rounding, to which nothing is to be differentiated.
        near = _polish(*rules.stop_gradient((problem, eqx.combine(numbers, rest), known, barrier)))
        near = eqx.filter(near, eqx.is_inexact_array)
        exact = jax.tree.map(lambda x, y: x + jax.lax.stop_gradient(y - x), numbers, near)
        at = eqx.combine(exact, rest)
        known = derive(problem, at)
        sure = jnp.where(converged, 1.0, jnp.nan)

        def follow(problem):
            after = _newton(problem, at, known, barrier, is_whole=True)
            return eqx.filter(after, eqx.is_inexact_array)

        moved = jax.tree.map(lambda x: x * sure, rules.derivative(follow, problem, tangents[0]))
        return moved, jnp.zeros_like(barrier)

    values, parameters = (numbers, barrier), (problem, rest, look.derived, converged)
    numbers, _ = rules.value_with_rule(values, change, parameters)
    return eqx.combine(numbers, rest)


def _polish(problem: Problem, at: Point, known: Derivatives, barrier: Array) -> Point:
    """Point after some Newton steps with one barrier, at which products of distances from limits
    and multipliers equal it to rounding.

    A search ends where they are small. But the change of an input on its limit is that of the limit
    to as many digits only as the two factors agree in. The Hessians of the end serve all steps,
    which come nearer by as many digits each as these have.
    """

    def improve(_, numbers):
        after = _newton(problem, eqx.combine(numbers, rest), known, barrier, is_whole=False)
        return eqx.filter(after, eqx.is_inexact_array)

    numbers, rest = eqx.partition(at, eqx.is_inexact_array)
    return eqx.combine(jax.lax.fori_loop(0, _POLISHING, improve, numbers), rest)


def _newton(
    problem: Problem, at: Point, known: Derivatives, barrier: Array, *, is_whole: bool
) -> Point:
    """Point after a Newton step with the Hessians that are known, a whole step or one within the
    limits.
    """
    parts = tuple(dataclasses.replace(part, curvature="nothing") for part in problem.parts)
    linear = derive(dataclasses.replace(problem, parts=parts), at)
    derived = jax.tree.map(
        lambda row, other: row._replace(hessian=other.hessian),
        linear, known, is_leaf=lambda x: hasattr(x, "hessian"),
    )  # fmt: skip
    zero = jnp.zeros_like(barrier)
    units = tuple(jnp.zeros_like(part.lower) for part in problem.parts)
    step = newton.step(problem, at, derived, units, barrier, zero)
    if is_whole:
        whole = jnp.ones_like(barrier)
        step = step._replace(bounds=Bounds(whole, whole, step.bounds.fall))
    return newton.go(problem, at, derived, step, step.bounds.primal, barrier)
