"""Check of the memory of an instant of a run that a system recalls."""

from typing import Any

import jax
import jax.numpy as jnp

from lie_jax import checks
from lie_jax.numerics import jax_internals
from lie_jax.systems.system import AbstractSystem

_ROW = "jax.tree.map(lambda x: x[k], run.memory), of instant k"


def check(system: AbstractSystem, memory: Any) -> None:
    """Raise `ValueError` for a concrete memory that is not that of one instant of the system.

    The memory of all instants has another axis, which JAX would take for that of elements.
    """
    # Time loops of systems without memory recall nothing, again and again.
    in_loop = not jax.tree.leaves(memory) and not jax_internals.traces_nothing()
    if in_loop or checks.has_tracers(system, memory):
        return
    q, v = jnp.zeros(system.nq), jnp.zeros(system.nv)
    expected = jax.eval_shape(lambda q, v: system.memory_after(jnp.zeros(()), q, v), q, v)
    if jax.tree.structure(expected) != jax.tree.structure(memory):
        raise ValueError(
            "with_memory(memory=) is no memory of this system; it must be that of an instant of a "
            f"run with the same mechanism and formulation: give {_ROW}."
        )
    for shape, leaf in zip(jax.tree.leaves(expected), jax.tree.leaves(memory), strict=True):
        if shape.shape != jnp.shape(leaf):
            raise ValueError(
                f"with_memory(memory=) has an array of shape {jnp.shape(leaf)}; it must have shape "
                f"{shape.shape}, that of one instant: give {_ROW}, or map over all of them by "
                "jax.vmap."
            )
