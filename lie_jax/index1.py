"""Index-1 constraints: projection onto them, dependent ones, and multipliers of minimum norm."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax import checks
from lie_jax.numerics import rules
from lie_jax.numerics.block_matrix import unit
from lie_jax.system import AbstractSystem, Configuration, Multipliers, State, Time, Velocity


def smallest_change(
    system: AbstractSystem, t: Array, q: Configuration, rates: Multipliers
) -> Velocity:
    """The velocity x with B x = rates that has the least kinetic energy."""
    right = jnp.concatenate([jnp.zeros(system.nv, q.dtype), rates])
    return system.saddle(t, q).solve_constrained(right)[: system.nv]


class Projected(NamedTuple):
    """A `State` on the constraints, and the largest violation of the positions that is left."""

    state: State
    violation: Float[Array, ""]


def project_onto_constraints(
    system: AbstractSystem, t: Array, state: State, iterations: int
) -> Projected:
    """Gauss-Newton steps of positions along M⁻¹Bᵀ, then the smallest change of the velocity.

    Positions and velocity change least in the kinetic-energy norm. Positions move on the group;
    each iteration squares their error.
    """

    def correct(q, _):
        none = jnp.zeros(system.velocity_rows, q.dtype)
        x = smallest_change(system, t, q, jnp.concatenate([-system.constraint(t, q), none]))
        return system.space.flow(q, x), None

    q, _ = jax.lax.scan(correct, state.q, length=iterations)
    v = state.v + smallest_change(system, t, q, -system.constraint_rate(t, q, state.v))
    violation = jnp.max(jnp.abs(system.constraint(t, q)), initial=0.0)
    return Projected(State(q, v), violation)


_PROJECTION_ITERATIONS = 20


def project(system: AbstractSystem, state: State, t: Time = 0.0) -> State:
    """A state nearby that satisfies the position and velocity constraints, redundant ones too.

    Positions move along M⁻¹Bᵀ by twenty Gauss-Newton steps; the velocity then gets the smallest
    change in the kinetic-energy norm. `t` is the time in seconds. Returns a `State`;
    differentiable. Raises `ValueError` if the constraints do not hold after it, because they
    contradict each other or cannot be reached from there (not inside JAX transformations, where the
    result then violates them), and for anything else than a system and a state.
    """
    if not isinstance(system, AbstractSystem) or not isinstance(state, State):
        raise ValueError(
            "lie_jax.project takes a system and a State, and was given values of the types "
            f"{type(system).__name__} and {type(state).__name__}: pass both as lie_jax.assemble "
            "returns them."
        )
    if not system.nc:
        return state
    projected = _project(system, state, jnp.asarray(t, state.q.dtype))
    if not checks.traced(projected):
        violation = float(projected.violation)
        eps = float(jnp.finfo(state.q.dtype).eps)
        if not violation <= eps**0.5 * (1.0 + float(jnp.max(jnp.abs(state.q)))):
            raise ValueError(
                f"lie_jax.project leaves a violation of {violation:.3g}; the constraints "
                "must not contradict each other and be within reach: remove a joint, or start from "
                "poses that nearly fit."
            )
    return projected.state


@eqx.filter_jit
def _project(system: AbstractSystem, state: State, t: Array) -> Projected:
    return project_onto_constraints(system, t, state, _PROJECTION_ITERATIONS)


def redundant(
    system: AbstractSystem, t: Float[Array, ""], q: Float[Array, " nq"]
) -> Bool[Array, ""] | np.ndarray:
    """Whether the rows of the constraint Jacobian depend on each other at q.

    Inside JAX transformations, where the smallest multipliers are compiled in any case, many bodies
    without loops count as not redundant: these multipliers need full matrices, and only a joint
    that is singular by itself would ask for them.
    """
    if not system.nc or system.nc > system.nv:
        return np.full((), system.nc > system.nv)
    system, t, q = rules.held((system, t, q))
    if not checks.traced(system, t, q):
        return _has_dependent_rows(system, t, q)
    saddle = system.saddle(t, q)
    if not saddle.is_full:
        return np.zeros((), bool)
    return saddle.smallest_row() < _dependent(q.dtype)


@eqx.filter_jit
def _has_dependent_rows(system: AbstractSystem, t: Array, q: Array) -> Array:
    return system.saddle(t, q).smallest_row() < _dependent(q.dtype)


def _dependent(dtype) -> Any:
    """Singular values below this, relative to the largest, are zero."""
    return jnp.finfo(dtype).eps ** 0.5


def smallest_multipliers(
    system: AbstractSystem,
    t: Float[Array, ""],
    q: Float[Array, " nq"],
    multipliers: Float[Array, " nc"],
) -> Float[Array, " nc"]:
    """Multipliers λ of minimum 2-norm among those with the same reactions Bᵀλ."""
    # Scaled velocities change neither the solutions nor their norm.
    forces = unit(system.constraint_jacobian(t, q).T, 1)
    reactions = forces @ multipliers
    return jnp.linalg.pinv(forces, rtol=_dependent(q.dtype)) @ reactions
