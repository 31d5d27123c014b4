"""Checks of systems, states and inputs that functions of a system are given."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax import checks
from lie_jax.numerics.conversion import in_precision
from lie_jax.systems.system import AbstractSystem, Inputs, State
from lie_jax.user_functions import reader


def check_system(where: str, value: Any) -> None:
    """Raise unless the value is a system."""
    if not isinstance(value, AbstractSystem):
        raise ValueError(
            f"{where} is a {type(value).__name__}; it must be a system. "
            "lie_jax.assemble(mechanism, formulation) returns the pair (system, state): unpack it."
        )


def check_state(where: str, value: Any) -> None:
    """Raise unless the value is a state."""
    if not isinstance(value, State):
        raise ValueError(
            f"{where} is a {type(value).__name__}; it must be a lie_jax.State(q, v), as "
            "lie_jax.assemble returns it; of a run take State(run.q[-1], run.v[-1])."
        )


def check_surplus(where: str, count: int, system: AbstractSystem) -> None:
    """Raise `ValueError` for more inputs than a mechanism reads; systems of one's own get all."""
    most = getattr(system, "most_inputs", None)
    if most is not None and count > most:
        raise ValueError(
            f"{where} {count} inputs, but the forces read {most or 'none'}: leave out those "
            f"that no force reads, or add a force or motor with input={count - 1}."
        )


def check_inputs(u: Inputs, system: AbstractSystem) -> None:
    """Raise `ValueError` unless u is None or one input vector of no more inputs than are read."""
    if u is None:
        return
    checks.real("the inputs u", u)
    if np.ndim(u) != 1:
        raise ValueError(
            f"the inputs u have shape {np.shape(u)}; they must have shape (nu,), those of one "
            "instant: give one row of them, or use jax.vmap."
        )
    check_surplus("the inputs u hold", len(u), system)


def instant(where: str, system: Any, state: Any, t: Any, inputs: Any) -> tuple[Array, Array | None]:
    """Time (s) and inputs (nu,) as arrays in the precision of the state.

    Raises `ValueError`, which begins with the name of the function, for anything but a system, a
    state with one configuration, a number and an input vector.
    """
    check_system(f"{where}(system=)", system)
    check_state(f"{where}(state=)", state)
    checks.instant(f"{where}(state=): q", state.q, system.nq)
    checks.scalar(f"{where}(t=)", t, "s")
    u = input_vector(f"{where}(inputs=)", inputs, system, state.q.dtype)
    return jnp.asarray(t, state.q.dtype), u


def arrays(where: str, system: AbstractSystem, count: int | None, **given: Any) -> list[Array]:
    """`q`, `v`, `acceleration` and `multipliers` as arrays in the precision of `q`.

    Raises `ValueError` for None and for other shapes than those of one instant, or of `count` of
    them.
    """
    sizes = {"q": system.nq, "v": system.nv, "acceleration": system.nv, "multipliers": system.nc}
    for name, value in given.items():
        size = sizes[name]
        shape = (size,) if count is None else (count, size)
        if value is None:
            of_run = f"run.{name}" if count else f"run.{name}[k]"
            raise ValueError(
                f"{where}({name}=) is None; it must have shape {shape}: give {of_run} of a run"
                f"{'.' if size else f', or jnp.zeros({shape}), for the system has none.'}"
            )
        if count is None:
            checks.instant(f"{where}({name}=)", value, size)
        else:
            checks.shape(f"{where}({name}=)", value, shape, "a row for each instant")
    dtype = getattr(given["q"], "dtype", None)
    return [in_precision(value, dtype) for value in given.values()]


def check_times(where: str, t: Any, count: int | None) -> None:
    """Raise `ValueError` unless t is one time (s), or has one for each of `count` instants."""
    if count is None:
        checks.scalar(where, t, "s")
    else:
        checks.shape(where, t, (count,), "the times of the rows of q, s")


def input_vector(
    where: str, inputs: Any, system: AbstractSystem, dtype: Any, rows: int | None = None
) -> Array | None:
    """Inputs u (nu,) as an array, or those (rows, nu) of so many instants; None without any.

    Raises `ValueError` for anything but an array or lists of that shape, for inputs that are
    missing, and for more of them than forces read.
    """
    nu = system.nu or "nu"
    shape = f"({nu},)" if rows is None else f"({rows}, {nu})"
    meaning = "one input vector" if rows is None else "an input vector for each instant"
    if inputs is None:
        if not system.nu:
            return None
        raise ValueError(
            f"{where} is missing, and the forces read {system.nu} inputs; it must have shape "
            f"{shape}, {meaning}: {'' if rows is None else 'give run.u of a run, or '}where all "
            f"are zero {'give ' if rows is None else ''}jnp.zeros({shape})."
        )
    if callable(inputs):
        raise ValueError(
            f"{where} is the function {reader.name_of(inputs)}; it must be an array {shape}, "
            f"{meaning}: call the function, and give what it returns."
        )
    u = in_precision(inputs, dtype)
    checks.finite(where, u)
    leading = () if rows is None else (rows,)
    if u.ndim != 1 + len(leading) or u.shape[:-1] != leading or u.shape[-1] < system.nu:
        raise ValueError(
            f"{where} has shape {u.shape}; it must have shape {shape}, {meaning}: "
            f"{_cure(u.shape, rows)}."
        )
    check_surplus(f"{where} holds", u.shape[-1], system)
    return u


def _cure(shape: tuple[int, ...], rows: int | None) -> str:
    """Advice for inputs of a shape that does not fit."""
    if rows is None:
        return "give one row of them" if len(shape) == 2 else "give a number for each input"
    if len(shape) != 2 or shape[0] == rows:
        return "give a row for each instant and a column for each input"
    return (
        "give run.u of a run, which has the inputs of the step that ended at each instant, not "
        "those of simulate(inputs=), which has a row for each step"
    )
