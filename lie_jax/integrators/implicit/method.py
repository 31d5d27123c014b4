"""Implicit Munthe-Kaas methods: Gauss-Legendre, Radau IIA and a diagonally implicit one."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.integrators.implicit import coupled, diagonal, estimate, stage
from lie_jax.integrators.implicit.tableaux import TABLEAUX, Tableau
from lie_jax.numerics import newton, rules
from lie_jax.systems.system import State, accelerations_and_multipliers


class Carry(NamedTuple):
    """Acceleration (nv,) and multipliers (nc,) of the last stage of the step before."""

    acceleration: Array
    multipliers: Array


class ImplicitRKMK(AbstractIntegrator):
    """Implicit Munthe-Kaas method of Gauss-Legendre, Radau IIA or diagonally implicit type.

    A Runge-Kutta method for the local coordinates of each step, whose rates are ẋ = T(x)⁻¹ v, and
    the velocities. Full Newton iterations; derivatives of a step come from the implicit function
    theorem.

    | tableau | order | with constraints: q and v, multipliers of stages | |
    |---|---|---|---|
    | `"gauss2"`, `"gauss4"`, `"gauss6"` | 2, 4, 6 | refused | symmetric, A-stable |
    | `"radau3"` | 3 | 3, 2 | L-stable, estimate of the error |
    | `"radau5"` | 5 | 5, 3 | L-stable, estimate of the error |
    | `"sdirk4"` | 4 | 2, 1 | L-stable, estimate of the error |

    The last three end at their last stage, where constraints of positions and velocities both hold
    to rounding, redundant ones too, in the form of index 2 of Gear, Gupta and Leimkuhler. They take
    automatic steps (`Adaptive`), and suit stiff forces: springs and bushings far stiffer than the
    motion, controllers with high gains. Multipliers of a trajectory follow from its positions and
    velocities, with their order. Stiffness reduces the order of `"sdirk4"` in the same way.

    Stages of `"radau3"`, `"radau5"` and Gauss are solved together, with a dense matrix of s (nv +
    nc + positions) unknowns for s stages: for some ten bodies. Those of `"sdirk4"` follow one after
    the other, each with the system's own matrix: the cost of trees and graphs of bodies is that of
    their blocks.

    **Arguments:** `tableau`: a name of the table; `jacobian`: `"autodiff"`, derivatives of the
    residual, `"analytic"`, the linearization of the system and the written-out derivative of
    dexp⁻¹ ([S4] (2.40), (2.51)), or `"auto"`, the cheaper: derivatives for one body. All give the
    same matrix. Raises `ValueError` for any other word.

    Source: Hairer and Wanner, "Solving Ordinary Differential Equations II" (1996), IV.5, IV.6,
    IV.8; Hairer, Lubich and Roche (1989) for the orders with constraints.
    """

    history = newton.HISTORY
    tableau: str = eqx.field(static=True, default="gauss4")
    jacobian: str = eqx.field(static=True, default="auto")

    def __check_init__(self):
        checks.one_of("ImplicitRKMK(tableau=)", self.tableau, tuple(TABLEAUX))
        checks.one_of("ImplicitRKMK(jacobian=)", self.jacobian, ("auto", "autodiff", "analytic"))

    @property
    def _method(self) -> Tableau:
        return TABLEAUX[self.tableau]

    @property
    def order(self) -> int:
        """Order of convergence without constraints."""
        return self._method.order

    @property
    @override
    def embedded_order(self):
        estimate = self._method.estimate
        return None if estimate is None else estimate.order

    @override
    def check(self, system):
        if system.nc and not self._method.stiffly_accurate:
            raise ValueError(
                f"ImplicitRKMK({self.tableau!r}) cannot take a system with {system.nc} "
                "constraints, which would hold at its stages and not at the end of a step; use "
                "lie_jax.ImplicitRKMK('radau5'), lie_jax.GeneralizedAlpha() or an explicit method "
                "such as lie_jax.RKMK('rk4'), or a formulation without constraints."
            )

    @override
    def init(self, system, t, dt, state, u):
        return Carry(*accelerations_and_multipliers(system, t, state.q, state.v, u))

    @override
    def step(self, system, t, dt, state, carry, u):
        method, space = self._method, system.space
        problem = stage.step_parameters(system, t, dt, u, state.q, state.v)
        solve = coupled.solve if method.diagonal is None else diagonal.solve
        stages, root = solve(self.tableau, self.jacobian, problem, *carry)
        weights = jnp.asarray(method.b, state.q.dtype)[:, None]
        x, dv = (dt * jnp.sum(weights * k, axis=0) for k in stages[:2])
        end = State(space.retract(state.q, x), state.v + dv)
        error = None
        if method.estimate is not None:
            # Sizes of steps are constants for derivatives.
            known = rules.stop_gradient((problem, *carry, stages, x))
            error = estimate.error(method.estimate, self.jacobian, *known)
        return Step(
            state=jax.tree.map(lambda x: jnp.where(root.converged, x, jnp.nan), end),
            carry=Carry(stages.accelerations[-1], stages.multipliers[-1]),
            newton_iterations=root.iterations,
            converged=root.converged,
            residuals=root.history,
            worst=root.worst,
            error=error,
        )

    @override
    def accelerations(self, system, t, state, carry, u):
        return accelerations_and_multipliers(system, t, state.q, state.v, u)
