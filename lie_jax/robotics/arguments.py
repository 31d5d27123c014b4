"""Arguments of functions of a system at an instant."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp

from lie_jax import checks
from lie_jax.multibody.arguments import check_system, input_vector
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import waits
from lie_jax.numerics.conversion import in_precision

P = ParamSpec("P")
T = TypeVar("T")

# Attributes of the system with the sizes of arguments.
_SIZES = {"q": "nq", "v": "nv", "acceleration": "nv", "inputs": "nu"}


def is_flexible(system: AbstractMultibodySystem) -> bool:
    """Whether bodies of a system deform: their interfaces are further frames."""
    return len(system.frame_slots) > len(system.names)


def of_an_instant(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function of a system take lists, integers and NumPy arrays too, refuse wrong sizes of
    `q`, `v`, `acceleration` and `inputs`, and say what compiles.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        system = bound.arguments["system"]
        check_system(f"{function.__qualname__}(system=)", system)
        given = {name: x for name, x in bound.arguments.items() if name in _SIZES and x is not None}
        arrays = (x for x in given.values() if isinstance(x, jax.Array))
        dtype = next((x.dtype for x in arrays if jnp.issubdtype(x.dtype, jnp.floating)), None)
        for name, value in given.items():
            where = f"{function.__qualname__}({name}=)"
            if name == "inputs":
                bound.arguments[name] = input_vector(where, value, system, dtype)
                continue
            checks.instant(where, value, getattr(system, _SIZES[name]))
            bound.arguments[name] = in_precision(value, dtype)
        return function(*bound.args, **bound.kwargs)

    return waits.announce(f"the {function.__name__.replace('_', ' ')}")(call)
