"""Explicit one-step methods on configuration spaces: Munthe-Kaas, Crouch-Grossman, commutator-free.

All integrate the velocities by the Runge-Kutta method of their coefficients, and differ in how they
move the configuration along the velocities of the stages.
"""

import abc

import equinox as eqx
import jax.numpy as jnp

from lie_jax import checks
from lie_jax.integrators import tableaux
from lie_jax.integrators.base import AbstractIntegrator, Step, refuse_constraints
from lie_jax.integrators.tableaux import (
    COMMUTATOR_FREE,
    CROUCH_GROSSMAN,
    Composition,
    Product,
    Tableau,
)
from lie_jax.system import Accelerations, State


class AbstractExplicit(AbstractIntegrator):
    """What the explicit methods have in common; they take systems without constraints."""

    def check(self, system):
        """Refuse constraints."""
        refuse_constraints(self, system)

    def init(self, system, t, state, u):
        """No carry."""
        return None

    def accelerations(self, system, t, state, carry, u):
        """From the equations of motion."""
        return Accelerations(
            system.acceleration(t, state.q, state.v, u), jnp.zeros(0, state.q.dtype)
        )


class RKMK(AbstractExplicit):
    """Munthe-Kaas method: a Runge-Kutta method in the local coordinates of each step.

    The local coordinates x of a step obey ẋ = T(x)⁻¹ v; velocities are integrated along with them.
    On Rⁿ it is the Runge-Kutta method itself. Of full order in every chart.

    **Arguments:** `tableau`: `"euler"`, `"heun"`, `"midpoint"`, `"rk3"`, `"rk4"`, `"ode23"`,
    `"dopri5"`, `"rk67"` (order 6, Butcher), `"rkf78"` (order 8, Fehlberg), or a `Tableau` of your
    own. Raises `ValueError` for any other word and for inconsistent coefficients. Source: [S1]
    (41), (42); [S3] Sect. 3.2.
    """

    tableau: str | Tableau = eqx.field(static=True, default="rk4")

    def __check_init__(self):
        tableaux.check("RKMK(tableau=)", self.tableau)

    @property
    def order(self) -> int:
        """Order of convergence."""
        return tableaux.of(self.tableau).order

    def step(self, system, t, dt, state, carry, u):
        """One step."""
        tableau, space = tableaux.of(self.tableau), system.space
        rates, accelerations = [], []
        for row, node in zip(tableau.a, tableau.c, strict=True):
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
        q = space.retract(state.q, dt * _weighted(tableau.b, rates))
        v = state.v + dt * _weighted(tableau.b, accelerations)
        return _explicit_step(q, v)


class RungeKutta(AbstractExplicit):
    """Classical Runge-Kutta method on the absolute coordinates, as if they were a vector space.

    The rates of the coordinates are those of `space.lift`. Right for formulations on Rⁿ; redundant
    coordinates leave their group by the error of the method.

    **Arguments:** `tableau`: as for `RKMK`, with the same errors.
    """

    tableau: str | Tableau = eqx.field(static=True, default="rk4")

    def __check_init__(self):
        tableaux.check("RungeKutta(tableau=)", self.tableau)

    @property
    def order(self) -> int:
        """Order of convergence."""
        return tableaux.of(self.tableau).order

    def step(self, system, t, dt, state, carry, u):
        """One step."""
        tableau = tableaux.of(self.tableau)
        rates, accelerations = [], []
        for row, node in zip(tableau.a, tableau.c, strict=True):
            q, v = state.q, state.v
            if any(row):
                q, v = q + dt * _weighted(row, rates), v + dt * _weighted(row, accelerations)
            rates.append(system.space.lift(q, v))
            accelerations.append(system.acceleration(t + float(node) * dt, q, v, u))
        q = state.q + dt * _weighted(tableau.b, rates)
        v = state.v + dt * _weighted(tableau.b, accelerations)
        return _explicit_step(q, v)


class AbstractComposition(AbstractExplicit):
    """Methods that move the configuration by products of exponentials of velocities."""

    order: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def coefficients(self) -> Composition:
        """The coefficients."""

    def check(self, system):
        """Refuse constraints, and charts that cost the method its order."""
        super().check(system)
        if self.order > 2 and not system.space.canonical:
            raise ValueError(
                f"{type(self).__name__}({self.order}) composes flows of constant velocity, which "
                "only the chart 'exp' gives: another one reduces the order to 2. Use chart='exp', "
                "or lie_jax.RKMK, which keeps its order in every chart."
            )

    def step(self, system, t, dt, state, carry, u):
        """One step."""
        method, space = self.coefficients, system.space
        configurations, velocities, accelerations = [], [], []

        def moved(product: Product):
            q = configurations[product.start] if product.start else state.q
            for row in product.exponents:
                q = space.retract(q, space.rate_at_zero(dt * _weighted(row, velocities)))
            return q

        for product, row, node in zip(method.stages, method.a, method.c, strict=True):
            q = moved(product)
            v = state.v + dt * _weighted(row, accelerations) if any(row) else state.v
            configurations.append(q)
            velocities.append(v)
            accelerations.append(system.acceleration(t + float(node) * dt, q, v, u))
        return _explicit_step(moved(method.end), state.v + dt * _weighted(method.b, accelerations))


class CrouchGrossman(AbstractComposition):
    """Crouch-Grossman method: one exponential for each stage and weight.

    **Arguments:** `order`: 2, 3 or 4. Raises `ValueError` for others. Source: [S1] (37), Table I;
    the coefficients of order 4 are refined.
    """

    order: int = eqx.field(static=True, default=4)

    def __check_init__(self):
        checks.one_of("CrouchGrossman(order=)", self.order, tuple(CROUCH_GROSSMAN))

    @property
    def coefficients(self) -> Composition:
        """The coefficients."""
        return CROUCH_GROSSMAN[self.order]


class CommutatorFree(AbstractComposition):
    """Commutator-free method: exponentials of sums of velocities, used again where they recur.

    **Arguments:** `order`: 2, 3 or 4. Raises `ValueError` for others. Source: [S1] (39), Table II.
    """

    order: int = eqx.field(static=True, default=4)

    def __check_init__(self):
        checks.one_of("CommutatorFree(order=)", self.order, tuple(COMMUTATOR_FREE))

    @property
    def coefficients(self) -> Composition:
        """The coefficients."""
        return COMMUTATOR_FREE[self.order]


def _explicit_step(q, v):
    none = jnp.zeros((), q.dtype)
    return Step(State(q, v), None, jnp.zeros((), jnp.int32), jnp.ones((), bool), none)


def _weighted(weights, values):
    terms = [float(w) * value for w, value in zip(weights, values, strict=False) if w]
    return sum(terms[1:], terms[0])
