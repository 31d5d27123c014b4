"""Explicit one-step methods on configuration spaces: Munthe-Kaas, Crouch-Grossman, commutator-free.

All integrate the velocities by the Runge-Kutta method of their coefficients, and differ in how they
move the configuration along the velocities of the stages.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax import checks
from lie_jax.integrators import stability, tableaux
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.integrators.stability import Stage
from lie_jax.integrators.stabilization import AbstractStabilization, Projection
from lie_jax.integrators.tableaux import (
    COMMUTATOR_FREE,
    CROUCH_GROSSMAN,
    Composition,
    Product,
    Tableau,
)
from lie_jax.system import AbstractSystem, Accelerations, State


class AbstractExplicit(AbstractIntegrator):
    """What the explicit methods have in common.

    Systems with constraints are taken in their index-1 form. `stabilization`, a keyword of all of
    them, says what keeps positions and velocities on the constraints: `Projection()` after each
    step, or `Baumgarte(rate)`. Raises `ValueError` for anything else.
    """

    stabilization: AbstractStabilization = eqx.field(default=Projection(), kw_only=True)

    def __check_init__(self):
        if not isinstance(self.stabilization, AbstractStabilization):
            raise ValueError(
                f"{type(self).__name__}(stabilization=) is {self.stabilization!r}; it must be "
                "lie_jax.Projection() or lie_jax.Baumgarte(rate)."
            )

    def check(self, system):
        """Every system will do."""

    def init(self, system, t, dt, state, u):
        """No carry."""
        return None

    def accelerations(self, system, t, state, carry, u):
        """From the equations of motion, and the constraints in index-1 form."""
        if system.nc:
            return self.stabilization.accelerations(system, t, state, u)
        none = jnp.zeros(0, state.q.dtype)
        return Accelerations(_acceleration(self.stabilization, system, t, state, u), none)

    def step(self, system, t, dt, state, carry, u):
        """One step."""

        def acceleration(node, q, v):
            return _acceleration(self.stabilization, system, t + float(node) * dt, State(q, v), u)

        end, embedded, stages = self.advance(system, dt, state, acceleration)
        step = Step(end, embedded=embedded, stability=self._stability(stages, dt))
        if not system.nc:
            return step
        end, converged, violation = self.stabilization.after_step(system, t + dt, end)
        end = jax.tree.map(lambda x: jnp.where(converged, x, jnp.nan), end)
        return step._replace(state=end, converged=converged, residuals=violation[None])

    def _stability(self, stages: list[Stage], dt: Array) -> Array | None:
        """Fourth power of step size times |λ| in parts of what the method damps."""
        a, b, nodes = self.weights
        compared = stability.pair(nodes)
        if compared is None:
            return None
        one, other = (stages[i] for i in compared)
        return stability.estimate(one, other, dt) / stability.limit(a, b) ** 4

    @property
    @abc.abstractmethod
    def weights(self) -> tuple[tuple, tuple, tuple]:
        """Rows a, weights b and nodes c of the Runge-Kutta method of the velocities."""

    @abc.abstractmethod
    def advance(
        self, system: AbstractSystem, dt: Array, state: State, acceleration: Callable
    ) -> tuple[State, State | None, list[Stage]]:
        """States of the method and of its embedded one, from `acceleration(node, q, v)`, and the
        stages.
        """


# What the stages share is jitted: it is traced and differentiated once for all of them.
@eqx.filter_jit
def _acceleration(stabilization, system, t, state, u):
    if system.nc:
        return stabilization.acceleration(system, t, state, u)
    return system.acceleration(t, state.q, state.v, u)


@eqx.filter_jit
def _moved(space, q, x, v):
    return space.retract(q, x), space.tangent_operator_inv(x, v)


@eqx.filter_jit
def _flowed(space, q, increment):
    return space.flow(q, increment)


class AbstractTableauMethod(AbstractExplicit):
    """Methods that are given by a Butcher tableau."""

    tableau: str | Tableau = eqx.field(static=True, default="rk4")

    def __check_init__(self):
        tableaux.check(f"{type(self).__name__}(tableau=)", self.tableau)

    @property
    def order(self) -> int:
        """Order of convergence."""
        return tableaux.of(self.tableau).order

    @property
    def embedded_order(self):
        """The lower order of the pair, None without an embedded method."""
        return tableaux.lower_order(self.tableau)

    @property
    def weights(self):
        """Those of the tableau."""
        tableau = tableaux.of(self.tableau)
        return tableau.a, tableau.b, tableau.c


class RKMK(AbstractTableauMethod):
    """Munthe-Kaas method: a Runge-Kutta method in the local coordinates of each step.

    The local coordinates x of a step obey ẋ = T(x)⁻¹ v; velocities are integrated along with them.
    On Rⁿ it is the Runge-Kutta method itself. Of full order in every chart.

    **Arguments:** `tableau`: `"euler"`, `"heun"`, `"midpoint"`, `"rk3"`, `"rk4"`, `"ode23"`,
    `"dopri5"`, `"rk67"` (order 6, Butcher), `"rkf78"` (order 8, Fehlberg), or a `Tableau` of your
    own. Raises `ValueError` for any other word and for inconsistent coefficients. Source: [S1]
    (41), (42); [S3] Sect. 3.2.
    """

    def advance(self, system, dt, state, acceleration):
        """One step without projection."""
        tableau, space = tableaux.of(self.tableau), system.space
        rates, accelerations, stages = [], [], []
        for row, node in zip(tableau.a, tableau.c, strict=True):
            if any(row):
                x = dt * _weighted(row, rates)
                v = state.v + dt * _weighted(row, accelerations)
                q, rate = _moved(space, state.q, x, v)
            else:
                x, q, v = jnp.zeros_like(state.v), state.q, state.v
                rate = space.rate_at_zero(v)
            rates.append(rate)
            accelerations.append(acceleration(node, q, v))
            stages.append(Stage(x, accelerations[-1]))

        def end(weights):
            q = space.retract(state.q, dt * _weighted(weights, rates))
            return State(q, state.v + dt * _weighted(weights, accelerations))

        embedded = end(tableau.embedded) if tableau.embedded else None
        return end(tableau.b), embedded, stages


class RungeKutta(AbstractTableauMethod):
    """Classical Runge-Kutta method on the absolute coordinates, as if they were a vector space.

    The rates of the coordinates are those of `space.lift`. Right for formulations on Rⁿ; redundant
    coordinates leave their group by the error of the method, unless a projection brings them back.

    **Arguments:** `tableau`: as for `RKMK`, with the same errors.
    """

    def advance(self, system, dt, state, acceleration):
        """One step without projection."""
        tableau = tableaux.of(self.tableau)
        rates, accelerations, stages = [], [], []
        for row, node in zip(tableau.a, tableau.c, strict=True):
            q, v = state.q, state.v
            if any(row):
                q, v = q + dt * _weighted(row, rates), v + dt * _weighted(row, accelerations)
            rates.append(system.space.lift(q, v))
            accelerations.append(acceleration(node, q, v))
            stages.append(Stage(q - state.q, accelerations[-1]))

        def end(weights):
            q = state.q + dt * _weighted(weights, rates)
            return State(q, state.v + dt * _weighted(weights, accelerations))

        embedded = end(tableau.embedded) if tableau.embedded else None
        return end(tableau.b), embedded, stages


class AbstractComposition(AbstractExplicit):
    """Methods that move the configuration by products of exponentials of velocities."""

    order: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def coefficients(self) -> Composition:
        """The coefficients."""

    @property
    def weights(self):
        """Those of the velocities."""
        return self.coefficients.a, self.coefficients.b, self.coefficients.c

    def check(self, system):
        """Refuse charts that cost the method its order."""
        if self.order > 2 and not system.space.canonical:
            raise ValueError(
                f"{type(self).__name__}({self.order}) composes flows of constant velocity, which "
                "only the chart 'exp' gives: another one reduces the order to 2. Use chart='exp', "
                "or lie_jax.RKMK, which keeps its order in every chart."
            )

    def advance(self, system, dt, state, acceleration):
        """One step without projection."""
        method, space = self.coefficients, system.space
        configurations, velocities, accelerations, stages = [], [], [], []

        def moved(product: Product):
            q = configurations[product.start] if product.start else state.q
            for row in product.exponents:
                q = _flowed(space, q, dt * _weighted(row, velocities))
            return q

        for product, row, node in zip(method.stages, method.a, method.c, strict=True):
            q = moved(product)
            v, x = state.v, jnp.zeros_like(state.v)
            if any(row):
                v, x = v + dt * _weighted(row, accelerations), dt * _weighted(row, velocities)
            configurations.append(q)
            velocities.append(v)
            accelerations.append(acceleration(node, q, v))
            stages.append(Stage(x, accelerations[-1]))
        end = State(moved(method.end), state.v + dt * _weighted(method.b, accelerations))
        return end, None, stages


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


def _weighted(weights, values):
    terms = [float(w) * value for w, value in zip(weights, values, strict=False) if w]
    return sum(terms[1:], terms[0])
