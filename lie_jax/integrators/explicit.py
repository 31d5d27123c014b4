"""Explicit one-step methods on configuration spaces: Munthe-Kaas, Crouch-Grossman, commutator-free.

All integrate the velocities by the Runge-Kutta method of their coefficients, and differ in how they
move the configuration along the velocities of the stages.
"""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.integrators import stability, tableaux
from lie_jax.integrators.base import AbstractIntegrator, Difference, Step
from lie_jax.integrators.stabilization import AbstractStabilization, Projection
from lie_jax.integrators.tableaux import (
    COMMUTATOR_FREE,
    CROUCH_GROSSMAN,
    Composition,
    Product,
    Tableau,
)
from lie_jax.spaces.base import AbstractSpace
from lie_jax.system import AbstractSystem, Accelerations, State

# Values of all stages, one after the other.
Values = list[Array] | Array


class AbstractExplicit(AbstractIntegrator):
    """Explicit method; a system with constraints is integrated in its index-1 form.

    `stabilization`, a keyword of every explicit method, keeps positions and velocities on the
    constraints: `Projection()` after each step, or `Baumgarte(rate)`. Raises `ValueError` for
    anything else.
    """

    stabilization: AbstractStabilization = eqx.field(default=Projection(), kw_only=True)

    def __check_init__(self):
        if not isinstance(self.stabilization, AbstractStabilization):
            raise ValueError(
                f"{type(self).__name__}(stabilization=) is {self.stabilization!r}; it must be "
                "lie_jax.Projection() or lie_jax.Baumgarte(rate)."
            )

    @override
    def init(self, system, t, dt, state, u):
        return None

    @override
    def accelerations(self, system, t, state, carry, u):
        if system.nc:
            return self.stabilization.accelerations(system, t, state, u)
        none = jnp.zeros(0, state.q.dtype)
        return Accelerations(_acceleration(self.stabilization, system, t, state, u), none)

    @override
    def step(self, system, t, dt, state, carry, u):
        def acceleration(node, q, v):
            return _acceleration(self.stabilization, system, t + node * dt, State(q, v), u)

        end, error, *stages = self.advance(system, dt, state, carry, acceleration)
        step = Step(end, error=error, stability=self._stability(dt, *stages))
        if not system.nc:
            return step if carry is None else step._replace(carry=stages[1][-1])
        end, converged, violation = self.stabilization.after_step(system, t + dt, end)
        end = jax.tree.map(lambda x: jnp.where(converged, x, jnp.nan), end)
        return step._replace(state=end, converged=converged, residuals=violation[None])

    def _stability(
        self, dt: Array, rates: Values, accelerations: Values
    ) -> stability.Estimate | None:
        method = self.method
        compared = stability.pair(method.c)
        if compared is None:
            return None
        first, second = (
            (dt * _weighted(method.a[i], rates), rates[i], accelerations[i]) for i in compared
        )
        x, v, a = (x - y for x, y in zip(first, second, strict=True))
        coefficients = method.a, method.b
        limits = (
            stability.limit(*coefficients),
            stability.smallest_growing(*coefficients),
            stability.region(*coefficients),
        )
        return stability.estimate(x, v, a, dt, limits)

    @property
    @abc.abstractmethod
    def method(self) -> Tableau | Composition:
        """Coefficients; rows a, weights b and nodes c are those of the velocities."""

    @abc.abstractmethod
    def advance(
        self,
        system: AbstractSystem,
        dt: Array,
        state: State,
        first: Array | None,
        acceleration: Callable,
    ) -> tuple[State, Difference | None, Values, Values]:
        """End without projection, its estimated error, rates of displacements and accelerations of
        the stages.

        `acceleration(node, q, v)` is that of the system at the time of a node, `first` that of the
        first stage if it is known.
        """


# Jitted: XLA traces and differentiates the functions once for all stages.
@eqx.filter_jit
def _acceleration(stabilization, system, t, state, u):
    if system.nc:
        return stabilization.acceleration(system, t, state, u)
    return system.acceleration(t, state.q, state.v, u)


@eqx.filter_jit
def _retracted(space, q, x, v):
    return space.retract(q, x), space.tangent_operator_inv(x, v)


@eqx.filter_jit
def _flowed(space, q, increment):
    return space.flow(q, increment)


class AbstractTableauMethod(AbstractExplicit):
    """Runge-Kutta method of a Butcher tableau in coordinates x, with their rates ẋ(x, v)."""

    tableau: str | Tableau = eqx.field(static=True, default="rk4")

    def __check_init__(self):
        tableaux.check(f"{type(self).__name__}(tableau=)", self.tableau)

    @property
    def order(self) -> int:
        """Order of convergence."""
        return self.method.order

    @property
    @override
    def embedded_order(self):
        return self.method.lower_order

    @property
    @override
    def method(self) -> Tableau:
        given = self.tableau
        if not isinstance(given, str) and len(given.b) == 1:
            return tableaux.TABLEAUX["euler"]
        return tableaux.TABLEAUX[given] if isinstance(given, str) else given

    @override
    def init(self, system, t, dt, state, u):
        """Acceleration of the first stage if the last stage of each step is the first of the next.

        A projection moves the end of a step, and inputs change with the step.
        """
        if system.nc or u is not None or not self.method.first_same_as_last:
            return None
        return _acceleration(self.stabilization, system, t, state, u)

    @abc.abstractmethod
    def moved(self, space: AbstractSpace, q: Array, x: Array) -> Array:
        """Configuration at the coordinates x from q."""

    @abc.abstractmethod
    def displacement(self, space: AbstractSpace, q: Array, x: Array, change: Array) -> Array:
        """Velocity times time (nv,) that belongs to a small change of the coordinates x from q."""

    @abc.abstractmethod
    def moved_with_rate(
        self, space: AbstractSpace, q: Array, x: Array | None, v: Array
    ) -> tuple[Array, Array]:
        """Configuration at the coordinates x from q, None for zero, and the rates there."""

    @override
    def advance(self, system, dt, state, first, acceleration):
        tableau, space = self.method, system.space

        def stage(row, node, rates, accelerations):
            x, v = None, state.v
            if row is not None:
                x, v = dt * _weighted(row, rates), v + dt * _weighted(row, accelerations)
            q, rate = self.moved_with_rate(space, state.q, x, v)
            return rate, acceleration(node, q, v)

        _, rate = self.moved_with_rate(space, state.q, None, state.v)
        known = () if first is None else (rate, first)
        if system.slow_to_compile:
            rates, accelerations = _scanned(stage, tableau, known, (rate, state.v))
        else:
            rates, accelerations = _written_out(stage, tableau, known)
        x, v = (dt * _weighted(tableau.b, values) for values in (rates, accelerations))
        end = State(self.moved(space, state.q, x), state.v + v)
        if tableau.embedded is None:
            return end, None, rates, accelerations
        weights = tuple(b - other for b, other in zip(tableau.embedded, tableau.b, strict=True))
        x_error, v_error = (dt * _weighted(weights, values) for values in (rates, accelerations))
        x_error = self.displacement(space, state.q, x, x_error)
        return end, Difference(x_error, v_error), rates, accelerations


class RKMK(AbstractTableauMethod):
    """Munthe-Kaas method: a Runge-Kutta method in the local coordinates of each step.

    The local coordinates x of a step obey ẋ = T(x)⁻¹ v; velocities are integrated along with them.
    On Rⁿ it is the Runge-Kutta method itself. Of full order in every chart.

    **Arguments:**

    - `tableau`: `"euler"`, `"heun"`, `"midpoint"`, `"rk3"`, `"rk4"`, `"ode23"`, `"dopri5"`,
      `"rk67"` (order 6, Butcher), `"rkf78"` (order 8, Fehlberg), or a `Tableau` of your own.
    - `stabilization`: what keeps positions and velocities on constraints, `lie_jax.Projection()`
      after each step or `lie_jax.Baumgarte(rate)`.

    Raises `ValueError` for any other word, for inconsistent coefficients and for another
    stabilization. Source: [S1] (41), (42); [S3] Sect. 3.2.
    """

    @override
    def moved(self, space, q, x):
        return space.retract(q, x)

    @override
    def displacement(self, space, q, x, change):
        return space.tangent_operator(x, change)

    @override
    def moved_with_rate(self, space, q, x, v):
        return (q, space.rate_at_zero(v)) if x is None else _retracted(space, q, x, v)


class RungeKutta(AbstractTableauMethod):
    """Classical Runge-Kutta method on the absolute coordinates, as if they were a vector space.

    The rates of the coordinates are those of `space.lift`. Right for formulations on Rⁿ; redundant
    coordinates leave their group by the error of the method, unless a projection brings them back.

    **Arguments:**

    - `tableau`: `"euler"`, `"heun"`, `"midpoint"`, `"rk3"`, `"rk4"`, `"ode23"`, `"dopri5"`,
      `"rk67"` (order 6, Butcher), `"rkf78"` (order 8, Fehlberg), or a `Tableau` of your own.
    - `stabilization`: what keeps positions and velocities on constraints, `lie_jax.Projection()`
      after each step or `lie_jax.Baumgarte(rate)`.

    Raises `ValueError` for any other word, for inconsistent coefficients and for another
    stabilization.
    """

    @override
    def moved(self, space, q, x):
        return q + x

    @override
    def displacement(self, space, q, x, change):
        difference = space.inverse_retract(q + x, q + x + change)
        # Local coordinates need not have the units of velocities; T(0) x has them.
        return space.tangent_operator(jnp.zeros_like(difference), difference)

    @override
    def moved_with_rate(self, space, q, x, v):
        q = q if x is None else q + x
        return q, space.lift(q, v)


class AbstractComposition(AbstractExplicit):
    """Method that moves the configuration by products of exponentials of velocities.

    `family`: coefficients by order.

    **Arguments:** `order`: 2, 3 or 4. Raises `ValueError` for others.
    """

    family: ClassVar[dict[int, Composition]]
    order: int = eqx.field(static=True, default=4)

    def __check_init__(self):
        checks.one_of(f"{type(self).__name__}(order=)", self.order, tuple(self.family))

    @property
    @override
    def method(self):
        return self.family[self.order]

    @override
    def check(self, system):
        if self.order > 2 and not system.space.canonical:
            raise ValueError(
                f"{type(self).__name__}({self.order}) composes flows of constant velocity, which "
                "only the chart 'exp' gives: another one reduces the order to 2. Use chart='exp', "
                "or lie_jax.RKMK, which keeps its order in every chart."
            )

    @override
    def advance(self, system, dt, state, first, acceleration):
        method, space = self.method, system.space
        configurations, velocities, accelerations = [], [], []

        def moved(product: Product):
            q = configurations[product.start] if product.start else state.q
            for row in product.exponents:
                q = _flowed(space, q, dt * _weighted(row, velocities))
            return q

        for product, row, node in zip(method.stages, method.a, method.c, strict=True):
            q = moved(product)
            v = state.v + dt * _weighted(row, accelerations) if any(row) else state.v
            configurations.append(q)
            velocities.append(v)
            accelerations.append(acceleration(float(node), q, v))
        end = State(moved(method.end), state.v + dt * _weighted(method.b, accelerations))
        return end, None, velocities, accelerations


class CrouchGrossman(AbstractComposition):
    """Crouch-Grossman method: one exponential for each stage and weight.

    **Arguments:**

    - `order`: 2, 3 or 4.
    - `stabilization`: what keeps positions and velocities on constraints, `lie_jax.Projection()`
      after each step or `lie_jax.Baumgarte(rate)`.

    Raises `ValueError` for others. Source: [S1] (37), Table I; the coefficients of order 4 are
    refined.
    """

    family = CROUCH_GROSSMAN


class CommutatorFree(AbstractComposition):
    """Commutator-free method: exponentials of sums of velocities, used again where they recur.

    **Arguments:**

    - `order`: 2, 3 or 4.
    - `stabilization`: what keeps positions and velocities on constraints, `lie_jax.Projection()`
      after each step or `lie_jax.Baumgarte(rate)`.

    Raises `ValueError` for others. Source: [S1] (39), Table II.
    """

    family = COMMUTATOR_FREE


# Rates and accelerations of all stages: `stage(row, node, rates, accelerations)` returns those of
# one from those before it; the row of the first one is None. `known` are those of the first stage,
# or nothing.
def _written_out(stage: Callable, tableau: Tableau, known: tuple[Array, ...]) -> tuple[list, list]:
    rates, accelerations = ([x] for x in known) if known else ([], [])
    for row, node in list(zip(tableau.a, tableau.c, strict=True))[len(rates) :]:
        rate, change = stage(row if any(row) else None, float(node), rates, accelerations)
        rates.append(rate)
        accelerations.append(change)
    return rates, accelerations


def _scanned(
    stage: Callable, tableau: Tableau, known: tuple[Array, ...], alike: tuple[Array, ...]
) -> tuple[Array, ...]:
    size, nodes = len(tableau.b), np.asarray(tableau.c, float)
    rows = np.stack([tableaux.padded(row, size) for row in tableau.a])

    def add(table, inputs):
        number, row, node = inputs
        pairs = zip(table, stage(row, node, *table), strict=True)
        return tuple(jax.lax.dynamic_update_index_in_dim(x, y, number, 0) for x, y in pairs), None

    tables = tuple(jnp.zeros((size, *x.shape), x.dtype) for x in alike)
    if known:
        tables = tuple(x.at[0].set(y) for x, y in zip(tables, known, strict=True))
    inputs = np.arange(size), *(x.astype(alike[1].dtype) for x in (rows, nodes))
    return jax.lax.scan(add, tables, jax.tree.map(lambda x: x[1 if known else 0 :], inputs))[0]


def _weighted(weights, values):
    if isinstance(values, list):
        terms = [float(w) * value for w, value in zip(weights, values, strict=False) if w]
        return sum(terms[1:], terms[0]) if terms else jnp.zeros_like(values[0])
    if isinstance(weights, tuple):
        weights = jnp.asarray(tableaux.padded(weights, len(values)), values.dtype)
    return jnp.sum(weights[:, None] * values, axis=0)
