"""Explicit Runge-Kutta methods of Munthe-Kaas type."""

import equinox as eqx
import jax.numpy as jnp

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.integrators.tableaux import TABLEAUX
from lie_jax.system import Accelerations, State


class RKMK(AbstractIntegrator):
    """Munthe-Kaas method: a Runge-Kutta method in the local coordinates of each step.

    The local coordinates x of a step obey ẋ = T(x)⁻¹ v; velocities are integrated along with them.
    On Rⁿ it is the Runge-Kutta method itself. For systems without constraints.

    **Arguments:** `tableau`: `"euler"`, `"heun"`, `"midpoint"`, `"rk3"` or `"rk4"`. Raises
    `ValueError` for any other word. Source: [S1] (41), (42); [S3] Sect. 3.2.
    """

    tableau: str = eqx.field(static=True, default="rk4")

    def __check_init__(self):
        checks.one_of("RKMK(tableau=)", self.tableau, tuple(TABLEAUX))

    @property
    def order(self) -> int:
        """Order of convergence."""
        return TABLEAUX[self.tableau].order

    def check(self, system):
        """Refuse constraints."""
        if system.nc:
            raise ValueError(
                f"RKMK cannot take a system with {system.nc} constraints; use "
                "lie_jax.GeneralizedAlpha(), or a model of the same mechanism without joints."
            )

    def init(self, system, t, state, u):
        """No carry."""
        return None

    def step(self, system, t, dt, state, carry, u):
        """One step."""
        a, b, c, _ = TABLEAUX[self.tableau]
        space = system.space
        rates, accelerations = [], []
        for row, node in zip(a, c, strict=True):
            if any(row):
                x = dt * _weighted(row, rates)
                q = space.retract(state.q, x)
                v = state.v + dt * _weighted(row, accelerations)
                rate = space.tangent_operator_inv(x, v)
            else:
                q, v = state.q, state.v
                rate = space.rate_at_zero(v)
            rates.append(rate)
            accelerations.append(system.acceleration(t + float(node) * dt, q, v, u))
        q = space.retract(state.q, dt * _weighted(b, rates))
        v = state.v + dt * _weighted(b, accelerations)
        none = jnp.zeros((), q.dtype)
        return Step(State(q, v), None, jnp.zeros((), jnp.int32), jnp.ones((), bool), none)

    def accelerations(self, system, t, state, carry, u):
        """From the equations of motion."""
        return Accelerations(
            system.acceleration(t, state.q, state.v, u), jnp.zeros(0, state.q.dtype)
        )


def _weighted(weights, values):
    terms = [float(w) * value for w, value in zip(weights, values, strict=False) if w]
    return sum(terms[1:], terms[0])
