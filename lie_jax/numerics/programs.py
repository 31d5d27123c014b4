"""Programs that are compiled with options where JAX traces nothing.

A program that JAX differentiates, or that is a part of another one, takes no options.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax

from lie_jax.numerics import jax_internals

# Optimised, a program that runs once takes longer to compile than it ever runs.
_UNOPTIMISED = {"xla_backend_optimization_level": 0}
# These releases call a library for sums over 4096 numbers and more. Such a call keeps a time loop
# from being one function: chains of 256 links took twice as long.
CALL_FOR_SUMS = ("0.11.", "0.12.")
_WITHOUT_LIBRARY = {"xla_cpu_experimental_ynn_fusion_type": ""}

Function = TypeVar("Function", bound=Callable)


def run_once(function: Callable) -> Callable:
    """`eqx.filter_jit(function)` for a program outside of the time loop."""
    return _with_options(function, _UNOPTIMISED)


def time_loop(function: Function) -> Function:
    """`eqx.filter_jit(function)` for a program that is a time loop."""
    known = jax.__version__.startswith(CALL_FOR_SUMS)
    # The call has the types of the function.
    program: Any = _with_options(function, _WITHOUT_LIBRARY) if known else eqx.filter_jit(function)
    return program


def _with_options(function: Callable, options: dict[str, Any]) -> Any:
    plain = eqx.filter_jit(function)
    arguments: Any = {"compiler_options": options}
    optional = eqx.filter_jit(function, **arguments)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return (optional if jax_internals.traces_nothing() else plain)(*args)

    return call
