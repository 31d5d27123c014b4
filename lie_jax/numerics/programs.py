"""Programs that a call runs once, outside of its time loop."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx

from lie_jax.numerics import jax_internals

# Optimised, such a program takes longer to compile than it ever runs.
_UNOPTIMISED = {"xla_backend_optimization_level": 0}


def run_once(function: Callable) -> Callable:
    """`eqx.filter_jit(function)`, compiled without LLVM's optimisations where JAX traces nothing.

    A program that JAX differentiates, or that is a part of another one, takes no options.
    """
    optimised = eqx.filter_jit(function)
    options: Any = {"compiler_options": _UNOPTIMISED}
    unoptimised = eqx.filter_jit(function, **options)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return (unoptimised if jax_internals.traces_nothing() else optimised)(*args)

    return call
