"""Parameters by kind, as one flat vector."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

import lie_jax

STEPS = 8
DT = 0.02
# What every model has: inputs of each step, the step size, and the number of a method: the spectral
# radius of generalized-α, Baumgarte's rate in 1/s.
COMMON: dict[str, dict[str, Any]] = {
    "inputs": {"u": [[0.3 * (-1) ** k + 0.05 * k, 0.2 - 0.06 * k] for k in range(STEPS)]},
    "dt": {"dt": DT},
    "method": {"number": 0.8},
}


class Wave(NamedTuple):
    """amplitude · sin(rate · t + phase)."""

    amplitude: Array
    rate: Array
    phase: Array

    def at(self, t: Array) -> Array:
        """Its value at a time (s)."""
        return self.amplitude * jnp.sin(self.rate * t + self.phase)


class Parameters(NamedTuple):
    """All numbers (n,), back to arrays by kind and name, and of which of the kinds each one is."""

    flat: Array
    unravel: Callable[[Array], dict[str, dict[str, Array]]]
    kinds: tuple[str, ...]
    kind_of: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """For each number, the largest of its kind: what it is moved by parts of."""
        largest = [np.max(np.abs(self.flat[self.kind_of == k])) for k in range(len(self.kinds))]
        return np.asarray(largest)[self.kind_of]


def parameters(stack_by_kind: dict[str, dict[str, Any]]) -> Parameters:
    """From numbers by kind and name, and those that every model has."""
    arrays = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float64),
        stack_by_kind | COMMON,
        is_leaf=lambda x: not _is_dict(x),
    )
    kinds = tuple(sorted(arrays))
    flat, unravel = ravel_pytree(arrays)
    numbered = {
        kind: jax.tree.map(lambda x, k=k: np.full(x.shape, float(k)), arrays[kind])
        for k, kind in enumerate(kinds)
    }
    return Parameters(flat, unravel, kinds, np.asarray(ravel_pytree(numbered)[0]).astype(int))


def _is_dict(x: Any) -> bool:
    return isinstance(x, dict)


class Model(NamedTuple):
    """Its parameters, and `build(p, formulation, constraints, driven)` for a system and its state.

    `p` are the parameters by kind and name; `driven` says that there are inputs to be read.
    """

    parameters: Parameters
    build: Callable[..., tuple[lie_jax.extend.AbstractSystem, lie_jax.State]]
