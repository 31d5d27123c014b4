"""Coordinates around a state on the constraints, as many as the state has free directions."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.numerics import rules
from lie_jax.statics.linear import null_space
from lie_jax.systems.index1 import project_onto_constraints
from lie_jax.systems.system import AbstractSystem, State

# Gauss-Newton steps that bring a displaced state back onto the constraints.
_CLOSINGS = 4


class Rows(NamedTuple):
    """Numbers of independent constraints: those of positions, and of all that hold velocities."""

    positions: tuple[int, ...]
    velocities: tuple[int, ...]


class Tangents(NamedTuple):
    """Columns `positions` (nv, nq̂) and `velocities` (nv, nv̂) span the changes of q and v that
    constraints allow; `from_positions` (nq̂, nv) and `from_velocities` (nv̂, nv) are left inverses,
    which ignore changes along M⁻¹Bᵀ, those of a projection.

    Changes of q are increments with components of velocities. All are constants.
    """

    state: State
    positions: Array
    velocities: Array
    from_positions: Array
    from_velocities: Array

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of coordinates of positions and of velocities."""
        return self.positions.shape[1], self.velocities.shape[1]

    def ambient(self, y: Float[Array, " n"]) -> Float[Array, " changes"]:
        """Increment of q (nv,), then change of v (nv,), for coordinates y."""
        split = self.positions.shape[1]
        return jnp.concatenate([self.positions @ y[:split], self.velocities @ y[split:]])

    def coordinates(self, system: AbstractSystem, other: State) -> Float[Array, " n"]:
        """Coordinates of another state."""
        change, nv = difference(system, self.state, other), system.nv
        return jnp.concatenate(
            [self.from_positions @ change[:nv], self.from_velocities @ change[nv:]]
        )


def difference(system: AbstractSystem, state: State, other: State) -> Float[Array, " changes"]:
    """Increment (nv,) that leads from a state's q to another's, then the difference of v (nv,)."""
    space = system.space
    x = space.inverse_retract(state.q, other.q)
    increment = space.tangent_operator(jnp.zeros_like(x), x)
    return jnp.concatenate([increment, other.v - state.v])


def displace(
    system: AbstractSystem, t: Array, state: State, change: Float[Array, " changes"]
) -> State:
    """State after an increment of q and a change of v, back on the constraints at the time t, s."""
    q, v = system.space.flow(state.q, change[: system.nv]), state.v + change[system.nv :]
    if not system.nc:
        return State(q, v)
    return project_onto_constraints(system, t, State(q, v), _CLOSINGS)[0]


def tangents(system: AbstractSystem, t: Array, state: State, rows: Rows) -> Tangents:
    """Tangents of the constraints at a state and a time (s), with these independent rows."""
    system, t, state = rules.stop_gradient((system, t, state))
    if not system.nc:
        identity = jnp.eye(system.nv, dtype=state.q.dtype)
        return Tangents(state, *(identity,) * 4)
    jacobian, mass = system.constraint_jacobian(t, state.q), system.mass_matrix(state.q)
    parts = []
    for numbers in rows:
        columns = null_space(jacobian[np.asarray(numbers, int)])
        weighted = columns.T @ mass
        parts.append((columns, jnp.linalg.solve(weighted @ columns, weighted)))
    (positions, from_positions), (velocities, from_velocities) = parts
    made = Tangents(state, positions, velocities, from_positions, from_velocities)
    return rules.stop_gradient(made)
