"""Stabilisation: an explicit method stays on the constraints of a system.

Explicit methods take constraints in index-1 form: accelerations and multipliers follow from the
equations of motion and the twice differentiated constraints. That alone lets positions drift.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.numerics.conversion import as_float
from lie_jax.systems.demands import Demand
from lie_jax.systems.index1 import project_onto_constraints
from lie_jax.systems.system import (
    AbstractSystem,
    Accelerations,
    State,
    accelerations_and_multipliers,
)


class AbstractStabilization(eqx.Module):
    """Accelerations within a step, and a correction of the state after the step.

    `corrections`: how often positions are corrected after a step, before velocities are once.
    """

    corrections: ClassVar[int] = 0

    def feedback(self, system: AbstractSystem, dtype: Any) -> tuple[Any, Any]:
        """Factors of the constraints' rates and positions in accelerations, as in `Demand`."""
        return 0.0, 0.0

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

    def succeeded(self, q: Array, violation: Float[Array, ""]) -> Bool[Array, ""]:
        """Success of the correction to q, for the violation of positions that is left there."""
        return jnp.ones((), bool)

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

    corrections = _ITERATIONS

    @override
    def accelerations(self, system, t, state, u):
        return accelerations_and_multipliers(system, t, state.q, state.v, u)

    @override
    def acceleration(self, system, t, state, u):
        # A system may override `acceleration` by a recursion without multipliers.
        return system.acceleration(t, state.q, state.v, u)

    @override
    def after_step(self, system, t, state):
        projected, violations = project_onto_constraints(system, t, state, _ITERATIONS)
        violation = jnp.max(violations, initial=0.0)
        return projected, self.succeeded(projected.q, violation), violation

    @override
    def succeeded(self, q, violation):
        scale = 1.0 + jnp.max(jnp.abs(q))
        bound = jnp.finfo(scale.dtype).eps ** 0.5 * scale
        # A violation that is NaN is no failure of the projection: the state is not finite.
        return ~(violation > bound)


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
    def feedback(self, system, dtype):
        rate, positions = self.rate.astype(dtype), system.nc - system.velocity_rows
        double = np.concatenate([np.full(positions, 2.0), np.ones(system.velocity_rows)])
        return rate * double.astype(dtype), rate * rate

    @override
    def accelerations(self, system, t, state, u):
        demand = Demand(1.0, *self.feedback(system, state.q.dtype))
        return accelerations_and_multipliers(system, t, state.q, state.v, u, demand)

    @override
    def after_step(self, system, t, state):
        return state, jnp.ones((), bool), jnp.zeros((), state.q.dtype)
