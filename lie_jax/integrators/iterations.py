"""Choices of Newton's iterations that implicit methods share: the matrix, and when to stop."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.systems.linearization import AbstractLinearization
from lie_jax.systems.system import AbstractSystem

# Up to so many velocities, those of one body, derivatives of the whole residual are cheaper.
_FEW_VELOCITIES = 7


def by_derivatives(jacobian: str, system: AbstractSystem) -> bool:
    """Whether matrices are derivatives of the whole residual: `"autodiff"`, `"auto"` if cheaper."""
    few = jacobian == "auto" and system.nv <= _FEW_VELOCITIES
    return jacobian == "autodiff" or few


def linearization(jacobian: str, system: AbstractSystem, *point: Any) -> AbstractLinearization:
    """Linearization at a point by derivatives of the residual, or by the system's closed forms.

    `point` has the arguments of `system.linearization`.
    """
    if by_derivatives(jacobian, system):
        return AbstractSystem.linearization(system, *point)
    return system.linearization(*point)


def scale(q: Float[Array, " nq"]) -> Float[Array, ""]:
    """Size of the numbers of a configuration, at least one."""
    return 1.0 + jnp.max(jnp.abs(q))


def reaches_rounding(
    correction: Float[Array, " n"],
    value: Float[Array, " n"],
    dynamic: int,
    moved: Float[Array, ""],
    size: Float[Array, ""],
    rounding: Float[Array, ""] | float | None = None,
    power: float = 0.5,
) -> Bool[Array, ""]:
    """Whether a search has reached rounding with a correction from a residual `value`.

    The first `dynamic` corrections must be below eps^power of what the step has `moved`, quadratic
    convergence leaves errors of rounding for 1/2; or below rounding of numbers of the size
    `rounding`, by default `size`, as those of a body at rest are. The other residuals, of
    constraints, must be below eps^(1/2) of `size`: constraints that contradict each other have
    corrections that vanish, too.
    """
    eps = jnp.finfo(value.dtype).eps
    rounding = size if rounding is None else rounding
    bound = eps**power * moved + 64.0 * eps * rounding
    small = jnp.max(jnp.abs(correction[:dynamic])) <= bound
    return small & (jnp.max(jnp.abs(value[dynamic:]), initial=0.0) <= eps**0.5 * size)
