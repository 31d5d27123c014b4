"""Checks of the arguments of optimal control."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax import checks
from lie_jax.callables import snapshots
from lie_jax.control.problem import Problem
from lie_jax.integrators.explicit import AbstractExplicit, RungeKutta
from lie_jax.integrators.gauss import ImplicitRKMK
from lie_jax.simulation import checks as simulation


def checked_problem(
    name: str,
    system: Any,
    integrator: Any,
    state: Any,
    inputs: Any,
    dt: Any,
    costs: tuple[Any, Any, Any],
    limits: Any,
) -> Problem:
    """Problem of checked arguments; `costs` are running, final and end.

    Raises `ValueError` for an argument that breaks a rule.
    """
    checks.real(f"{name}(inputs=)", inputs)
    shape = tuple(np.shape(inputs))
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"{name}(inputs=) has shape {shape}; it must have shape (steps, nu), one input vector "
            "for each step: start from jnp.zeros((steps, nu)) for example."
        )
    nu = getattr(system, "nu", None)
    if nu and nu != shape[1]:
        raise ValueError(
            f"{name}(inputs=) has shape {shape}, and the system reads {nu} inputs; it must have "
            f"shape ({shape[0]}, {nu}): give a column for each input."
        )
    simulation.check(system, integrator, state, dt, shape[0], inputs)
    _check_classes(name, system, integrator)
    lower, upper = checked_limits(name, inputs, limits)
    dtype = state.q.dtype
    # `_check_costs` refuses values that are no functions.
    functions = [snapshots.watched(cost) if callable(cost) else cost for cost in costs]
    result = Problem(system, integrator, state, jnp.asarray(dt, dtype), lower, upper, *functions)
    _check_costs(name, result, shape[1])
    return snapshots.frozen(result)


def _check_classes(name: str, system: Any, integrator: Any) -> None:
    if system.nc:
        raise ValueError(
            f"{name} cannot take a system with {system.nc} constraints; use a formulation "
            "without them: lie_jax.Minimal() for a tree of bodies, lie_jax.R3SO3() for a free body."
        )
    if not isinstance(integrator, AbstractExplicit | ImplicitRKMK):
        raise ValueError(
            f"{name}(integrator=) is {type(integrator).__name__}, whose steps depend on more than "
            "the state they start from; use lie_jax.RKMK('rk4'), another explicit method, or "
            "lie_jax.ImplicitRKMK()."
        )
    if isinstance(integrator, RungeKutta) and system.nq != system.nv:
        raise ValueError(
            f"{name}(integrator=) is RungeKutta, which leaves the group when {system.nq} "
            f"coordinates belong to {system.nv} velocities; use lie_jax.RKMK('rk4')."
        )


def checked_limits(name: str, inputs: Any, limits: Any) -> tuple[Array, Array]:
    """Lower and upper limits (nu,); raises `ValueError` for wrong ones and a guess outside."""
    dtype, nu = inputs.dtype, inputs.shape[1]
    if limits is None:
        unlimited = jnp.full(nu, jnp.inf, dtype)
        return -unlimited, unlimited
    if not (isinstance(limits, tuple | list) and len(limits) == 2):
        raise ValueError(
            f"{name}(limits=) is {limits!r}; it must be a pair (lower, upper) of numbers or of "
            f"arrays ({nu},)."
        )
    for side, value in zip(("lower", "upper"), limits, strict=True):
        checks.real(f"{name}(limits=): {side}", value)
        if np.shape(value) not in ((), (nu,)):
            raise ValueError(
                f"{name}(limits=): {side} has shape {np.shape(value)}; it must be one number or "
                f"have shape ({nu},): one for each input."
            )
    lower, upper = (jnp.broadcast_to(jnp.asarray(x, dtype), (nu,)) for x in limits)
    if checks.traced(lower, upper):
        return lower, upper
    low, high = np.asarray(lower), np.asarray(upper)
    if not np.all(low < high):
        raise ValueError(
            f"{name}(limits=) are {low.tolist()} and {high.tolist()}; every lower limit must be "
            "below the upper one: look for a wrong sign, use -numpy.inf and numpy.inf for none."
        )
    if not checks.traced(inputs):
        table = np.asarray(inputs)
        outside = np.argwhere((table < low) | (table > high))
        if len(outside):
            step, i = outside[0].tolist()
            raise ValueError(
                f"{name}(inputs=) has {table[step, i]:.6g} for input {i} of step {step}, outside "
                f"its limits {low[i]:.6g} to {high[i]:.6g}; start within them: use jnp.clip."
            )
    return lower, upper


def _check_costs(name: str, problem: Problem, nu: int) -> None:
    state = problem.state
    dtype, u = state.q.dtype, jax.ShapeDtypeStruct((nu,), state.q.dtype)
    time = jax.ShapeDtypeStruct((), dtype)
    returned = {
        "running": (problem.running, (time, state.q, state.v, u)),
        "final": (problem.final, (state.q, state.v)),
        "end": (problem.end, (state.q, state.v)),
    }
    for option, (function, arguments) in returned.items():
        if function is None and option != "running":
            continue
        checks.function(f"{name}({option}=)", function)
        value: Any = jax.eval_shape(cast(Callable, function), *arguments)
        if not hasattr(value, "shape") or value.dtype != dtype:
            returns = f"dtype {value.dtype}" if hasattr(value, "shape") else type(value).__name__
            raise ValueError(
                f"{name}({option}=) returns {returns}; it must return an array of {dtype}, the "
                "precision of the state: compute it with jax.numpy from the arguments."
            )
        if option != "end" and value.shape != ():
            raise ValueError(
                f"{name}({option}=) returns shape {value.shape}; a cost is one number: use jnp.sum."
            )


def check_options(name: str, tolerance: Any, end_tolerance: Any, max_iterations: Any) -> None:
    """Raise `ValueError` for tolerances that are not positive and a wrong number of iterations."""
    checks.positive(f"{name}(tolerance=)", tolerance, "relative gradient")
    checks.positive(f"{name}(end_tolerance=)", end_tolerance, "size of the end values")
    checks.positive_integer(f"{name}(max_iterations=)", max_iterations, "steps of the search")
