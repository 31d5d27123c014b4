"""Explicit one-step methods on configuration spaces, and those in local coordinates.

All integrate the velocities by the Runge-Kutta method of their coefficients, and differ in how they
move the configuration along the velocities of the stages.
"""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array
from typing_extensions import override

from lie_jax.integrators import passes, stability, tableaux
from lie_jax.integrators.base import AbstractIntegrator, Difference, Step
from lie_jax.integrators.stabilization import AbstractStabilization, Projection
from lie_jax.integrators.tableaux import Composition, Number, Tableau
from lie_jax.numerics import native
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.system import AbstractSystem, Accelerations, State

# Values of all stages, one after the other.
Values = list[Array] | Array


class Stages(NamedTuple):
    """Rates of displacements and accelerations of all stages, and their configurations if the end
    of the step needs them.
    """

    rates: Values
    accelerations: Values
    configurations: Sequence[Array] = ()


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
    def init(self, system, t, dt, state, u) -> Any:
        return None

    @override
    def accelerations(self, system, t, state, carry, u):
        if isinstance(carry, passes.Carry):
            return carry.solution
        return self.first_accelerations(system, t, state, carry, u)

    @override
    def first_accelerations(self, system, t, state, carry, u):
        if system.nc:
            return self.stabilization.accelerations(system, t, state, u)
        none = jnp.zeros(0, state.q.dtype)
        return Accelerations(acceleration(self.stabilization, system, t, state, u), none)

    @override
    def step(self, system, t, dt, state, carry, u):
        stages = self.stages(system, t, dt, state, carry, u)
        finish = _finish_alone if system.slow_to_compile else _finish
        step = finish(self, system, t, dt, state, stages)
        return step if carry is None else step._replace(carry=stages.accelerations[-1])

    def stability(self, dt: Any, stages: Stages) -> stability.Estimate | None:
        """Estimate from the two stages at one time, None for a method that has none."""
        method = self.method
        compared = stability.pair(method.c)
        if compared is None:
            return None
        first, second = (
            (dt * weighted_sum(method.a[i], stages.rates), stages.rates[i], stages.accelerations[i])
            for i in compared
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
    def stages(
        self,
        system: AbstractSystem,
        t: Any,
        dt: Any,
        state: State,
        first: Array | None,
        u: Array | None,
    ) -> Stages:
        """Stages of a step; `first` is the acceleration of the first one if it is known."""

    @abc.abstractmethod
    def end(self, system: AbstractSystem, dt: Any, state: State, stages: Stages) -> State:
        """End of a step without projection."""

    def error(
        self, system: AbstractSystem, dt: Any, state: State, stages: Stages
    ) -> Difference | None:
        """Estimated error of a step without projection, None for a method without an estimate."""
        return None


def _finish(
    method: AbstractExplicit,
    system: AbstractSystem,
    t: Any,
    dt: Any,
    state: State,
    stages: Stages,
) -> Step:
    end, error = method.end(system, dt, state, stages), method.error(system, dt, state, stages)
    step = Step(end, error=error, stability=method.stability(dt, stages))
    if not system.nc:
        return step
    end, converged, violation = method.stabilization.after_step(system, t + dt, end)
    end = jax.tree.map(lambda x: jnp.where(converged, x, jnp.nan), end)
    return step._replace(state=end, converged=converged, residuals=violation[None])


_finish_alone = native.part(_finish)


# Jitted: XLA traces and differentiates the functions once for all stages.
@eqx.filter_jit
def acceleration(
    stabilization: AbstractStabilization,
    system: AbstractSystem,
    t: Any,
    state: State,
    u: Array | None,
) -> Array:
    """Accelerations (nv,), those under constraints included."""
    if system.nc:
        return stabilization.acceleration(system, t, state, u)
    return system.acceleration(t, state.q, state.v, u)


@eqx.filter_jit
def _retract_with_rate(space, q, x, v):
    return space.retract(q, x), space.tangent_operator_inv(x, v)


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
        if system.slow_to_compile:
            return passes.begin(system, state)
        if system.nc or u is not None or not self.method.first_same_as_last:
            return None
        return acceleration(self.stabilization, system, t, state, u)

    @abc.abstractmethod
    def move(self, space: AbstractSpace, q: Array, x: Array) -> Array:
        """Configuration at the coordinates x from q."""

    @abc.abstractmethod
    def displacement(self, space: AbstractSpace, q: Array, x: Array, change: Array) -> Array:
        """Velocity times time (nv,) that belongs to a small change of the coordinates x from q."""

    @abc.abstractmethod
    def move_with_rate(
        self, space: AbstractSpace, q: Array, x: Array | None, v: Array
    ) -> tuple[Array, Array]:
        """Configuration at the coordinates x from q, None for zero, and the rates there."""

    @override
    def step(self, system, t, dt, state, carry, u):
        if not system.slow_to_compile:
            return super().step(system, t, dt, state, carry, u)
        outcome = passes.run(self, system, t, dt, state, carry, u)
        stages = Stages(outcome.rates, outcome.accelerations)
        step = Step(
            outcome.end,
            carry=passes.Carry(outcome.solution, jnp.ones((), bool)),
            error=self.error(system, dt, state, stages),
            stability=self.stability(dt, stages),
        )
        if not system.nc:
            return step
        converged = self.stabilization.succeeded(outcome.end.q, outcome.violation)
        end = jax.tree.map(lambda x: jnp.where(converged, x, jnp.nan), outcome.end)
        return step._replace(state=end, converged=converged, residuals=outcome.violation[None])

    @override
    def stages(self, system, t, dt, state, first, u):
        rates, accelerations = [], []
        if first is not None:
            rates.append(self.move_with_rate(system.space, state.q, None, state.v)[1])
            accelerations.append(first)
        pairs = list(zip(self.method.a, self.method.c, strict=True))
        for row, node in pairs[len(rates) :]:
            x, v = None, state.v
            if any(row):
                x, v = dt * weighted_sum(row, rates), v + dt * weighted_sum(row, accelerations)
            q, rate = self.move_with_rate(system.space, state.q, x, v)
            at = t + float(node) * dt, State(q, v)
            accelerations.append(acceleration(self.stabilization, system, *at, u))
            rates.append(rate)
        return Stages(rates, accelerations)

    @override
    def end(self, system, dt, state, stages):
        tableau, space = self.method, system.space
        values = stages.rates, stages.accelerations
        x, v = (dt * weighted_sum(tableau.b, each) for each in values)
        return State(self.move(space, state.q, x), state.v + v)

    @override
    def error(self, system, dt, state, stages):
        tableau, values = self.method, (stages.rates, stages.accelerations)
        if tableau.embedded is None:
            return None
        weights = tuple(b - other for b, other in zip(tableau.embedded, tableau.b, strict=True))
        x = dt * weighted_sum(tableau.b, stages.rates)
        x_error, v_error = (dt * weighted_sum(weights, each) for each in values)
        return Difference(self.displacement(system.space, state.q, x, x_error), v_error)


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
    def move(self, space, q, x):
        return space.retract(q, x)

    @override
    def displacement(self, space, q, x, change):
        return space.tangent_operator(x, change)

    @override
    def move_with_rate(self, space, q, x, v):
        return (q, space.rate_at_zero(v)) if x is None else _retract_with_rate(space, q, x, v)


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
    def move(self, space, q, x):
        return q + x

    @override
    def displacement(self, space, q, x, change):
        difference = space.inverse_retract(q + x, q + x + change)
        # Local coordinates need not have the units of velocities; T(0) x has them.
        return space.tangent_operator(jnp.zeros_like(difference), difference)

    @override
    def move_with_rate(self, space, q, x, v):
        q = q if x is None else q + x
        return q, space.lift(q, v)


def weighted_sum(weights: tuple[Number, ...] | Array, values: Values) -> Array:
    """Sum of values of stages with their weights; a list of values may be a part of them."""
    if isinstance(values, list):
        terms = [float(w) * value for w, value in zip(weights, values, strict=False) if w]
        return sum(terms[1:], terms[0]) if terms else jnp.zeros_like(values[0])
    if not isinstance(weights, jax.Array):
        weights = jnp.asarray(tableaux.pad(weights, len(values)), values.dtype)
    return jnp.sum(weights[:, None] * values, axis=0)
