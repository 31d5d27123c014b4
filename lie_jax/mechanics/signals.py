"""Signals: parameters of elements that are constants or functions of the time."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax import checks
from lie_jax.numerics import jax_internals
from lie_jax.numerics.conversion import as_float
from lie_jax.user_functions import closures, snapshots


def as_signal(value: Any) -> Any:
    """Constant as an array, or function of the time in the form that elements hold."""
    # A plain function becomes static, so that jit and vmap take the element as it is. A module or a
    # `jax.tree_util.Partial` keeps its arrays as differentiable parameters.
    if isinstance(value, snapshots.Function):
        return value
    if isinstance(value, eqx.Module | jax.tree_util.Partial):
        # Elements are stacked array by array.
        return jax.tree.map(lambda x: as_float(x) if type(x) is float else x, value)
    return _function(value) if callable(value) else as_float(value)


def _function(function: Callable) -> Callable:
    time = jnp.asarray(0.0)
    try:
        program, form = jax.make_jaxpr(lambda t: function(t), return_shape=True)(time)
    except TypeError:  # `check_signal` knows the element's name, and meets the error again.
        return snapshots.watch(function)
    if not checks.has_tracers(program.consts):
        return snapshots.watch(function)

    # Values that are differentiated, batched or compiled around the function become parameters.
    def at(leaves, t):
        results = jax_internals.evaluate(program, leaves, t.astype(time.dtype))
        value = jax.tree.unflatten(jax.tree.structure(form), results)
        return jax.tree.map(lambda x: jnp.asarray(x, t.dtype), value)

    return jax.tree_util.Partial(at, program.consts)


def check_signal(where: str, value: Any, shape: tuple[int, ...], unit: str) -> None:
    """Raise unless the value, or its result as a function of the time, has this shape."""
    if callable(value):
        checks.function(where, value, "t")
        # A weakly typed time goes with parameters of either precision.
        with closures.refuse_numbers(where, value, "one argument, the time (s)"):
            value = jax.eval_shape(value, jnp.asarray(0.0))
        where = f"{where}(t)"
        if not hasattr(value, "shape"):
            raise ValueError(
                f"{where} is of type {type(value).__name__}; it must be one array of shape "
                f"{shape}, {unit}: return one, of several components by jnp.stack."
            )
    else:
        checks.finite(where, value)
    checks.shape(where, value, shape, unit)


def value_at(value: Any, t: Array) -> Any:
    """Value of a signal at a time (s)."""
    if not callable(value):
        return value
    result: Any = value(t)
    return result.astype(t.dtype) if jnp.issubdtype(result.dtype, jnp.integer) else result
