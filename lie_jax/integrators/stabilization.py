"""Stabilisation: an explicit method stays on the constraints of a system.

Explicit methods take constraints in index-1 form: accelerations and multipliers follow from the
equations of motion and the twice differentiated constraints. That alone lets positions drift.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.index1 import project_onto_constraints
from lie_jax.numerics.conversion import as_float
from lie_jax.system import AbstractSystem, Accelerations, State, accelerations_and_multipliers


class AbstractStabilization(eqx.Module):
    """Accelerations within a step, and a correction of the state after the step."""

    @abc.abstractmethod
    def accelerations(
        self, system: AbstractSystem, t: Array, state: State, u: Array | None
    ) -> Accelerations:
        """Accelerations and multipliers at a state."""

    def acceleration(
        self, system: AbstractSystem, t: Array, state: State, u: Array | None
    ) -> Array:
        """Accelerations alone, for the stages of a step."""
        return self.accelerations(system, t, state, u).acceleration

    @abc.abstractmethod
    def after_step(
        self, system: AbstractSystem, t: Array, state: State
    ) -> tuple[State, Bool[Array, ""], Float[Array, ""]]:
        """Corrected state, success of the correction, and the violation that is left."""


# Each iteration squares an error that begins at the order of the method.
_ITERATIONS = 2


class Projection(AbstractStabilization):
    """Projection of positions and velocities onto the constraints after each step.

    By the smallest change in the kinetic-energy norm; positions move on the group. A step fails if
    the positions then still violate a constraint by more than the square root of rounding.
    """

    @override
    def accelerations(self, system, t, state, u):
        return accelerations_and_multipliers(system, t, state.q, state.v, u)

    @override
    def acceleration(self, system, t, state, u):
        # A system may override `acceleration` by a recursion without multipliers.
        return system.acceleration(t, state.q, state.v, u)

    @override
    def after_step(self, system, t, state):
        projected, violation = project_onto_constraints(system, t, state, _ITERATIONS)
        scale = 1.0 + jnp.max(jnp.abs(projected.q))
        bound = jnp.finfo(scale.dtype).eps ** 0.5 * scale
        # A violation that is NaN is no failure of the projection: the state is not finite.
        return projected, ~(violation > bound), violation


class Baumgarte(AbstractStabilization):
    """Stabilisation by feedback: Φ̈ + 2 γ Φ̇ + γ² Φ = 0, critically damped.

    **Arguments:** `rate`: γ, 1/s, not negative: a violation decays within some 1/γ, and the method
    must resolve this time (γ dt well below 1). With 0 the constraints hold in accelerations only,
    and positions drift. Raises `ValueError` for other values.
    """

    rate: Float[Array, "..."] = eqx.field(converter=as_float)

    def __check_init__(self):
        checks.shape("Baumgarte(rate=)", self.rate, (), "one number, 1/s")
        checks.non_negative("Baumgarte(rate=)", self.rate, "1/s")

    @override
    def accelerations(self, system, t, state, u):
        return accelerations_and_multipliers(
            system, t, state.q, state.v, u, self.rate.astype(state.q.dtype)
        )

    @override
    def after_step(self, system, t, state):
        return state, jnp.ones((), bool), jnp.zeros((), state.q.dtype)
