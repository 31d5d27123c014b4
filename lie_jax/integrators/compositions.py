"""Explicit methods that compose flows: Crouch-Grossman and commutator-free."""

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.integrators.explicit import (
    AbstractExplicit,
    Stages,
    Values,
    acceleration,
    weighted_sum,
)
from lie_jax.integrators.tableaux import COMMUTATOR_FREE, CROUCH_GROSSMAN, Composition, Product
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.system import State


# Jitted: XLA traces and differentiates the function once for all stages.
@eqx.filter_jit
def _flow(space, q, increment):
    return space.flow(q, increment)


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
    def stages(self, system, t, dt, state, first, u):
        method = self.method
        rates: list[Array] = []
        accelerations: list[Array] = []
        configurations: list[Array] = []
        for product, row, node in zip(method.stages, method.a, method.c, strict=True):
            q, v = _move(system.space, dt, state.q, product, configurations, rates), state.v
            if any(row):
                v = v + dt * weighted_sum(row, accelerations)
            at = t + float(node) * dt, State(q, v)
            configurations.append(q)
            rates.append(v)
            accelerations.append(acceleration(self.stabilization, system, *at, u))
        return Stages(rates, accelerations, configurations)

    @override
    def end(self, system, dt, state, stages):
        last, configurations = self.method.end, stages.configurations
        q = _move(system.space, dt, state.q, last, configurations, stages.rates)
        return State(q, state.v + dt * weighted_sum(self.method.b, stages.accelerations))


def _move(
    space: AbstractSpace,
    dt: Any,
    q: Array,
    product: Product,
    configurations: Sequence[Array],
    rates: Values,
) -> Array:
    if product.start:
        q = configurations[product.start]
    for row in product.exponents:
        q = _flow(space, q, dt * weighted_sum(row, rates))
    return q


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
