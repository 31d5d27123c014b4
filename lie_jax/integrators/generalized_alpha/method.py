"""The Lie group generalized-α method for constrained and unconstrained systems."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.integrators.generalized_alpha import equations, matrix
from lie_jax.integrators.generalized_alpha import start as alpha_start
from lie_jax.integrators.generalized_alpha.equations import Problem
from lie_jax.numerics import newton
from lie_jax.system import Accelerations, State


class Carry(NamedTuple):
    """Accelerations v̇ (nv,), the method's auxiliary accelerations a (nv,), multipliers (nc,), what
    the next step adds to the velocity (nv,), zero after the first, and the inverse that modified
    Newton keeps.
    """

    acceleration: Array
    auxiliary: Array
    multipliers: Array
    shift: Array
    kept: newton.Inverse | None


class GeneralizedAlpha(AbstractIntegrator):
    """Lie generalized-α method with Newton iterations, for constrained systems too.

    Second order in positions, velocities and multipliers, unconditionally stable for linear
    systems, with numerical damping of high frequencies set by `rho_inf`. Position constraints hold
    to rounding, velocity constraints that follow from no position constraint as well. Derivatives
    of a step come from the implicit function theorem, whatever the options.

    An iteration stops when its correction is below the square root of the machine epsilon relative
    to the step's increment: the quadratic convergence then leaves an error at the level of
    rounding. With a matrix that is not the exact Jacobian it stops at the power 3/4 of the epsilon.

    **Arguments:**

    - `rho_inf`: spectral radius at infinite frequency, between 0 (strongest damping) and 1 (none).
      Index 3 needs damping: with constraints, (1 - rho_inf) / dt should exceed the bodies' rates of
      rotation (rad/s), or multipliers grow without bound; index 2 does not.
    - `newton`: `"full"`, a new iteration matrix in each iteration, or `"modified"`, one that is
      kept over steps as long as it serves ([S3] 3.4).
    - `jacobian`: `"analytic"`, [S3] (40) from the system's own linearization, or `"autodiff"`,
      forward-mode derivatives of its residual along the lift. Both are the same matrix; `"auto"`
      takes the cheaper, the second for one body. Bodies in absolute coordinates have a
      linearization of their own, by bodies, joints and forces, in blocks along the joints if those
      close no loop; for other systems the two options are one.
    - `tangent_operator`: whether the iteration matrix has the tangent operator T(Δq) in it; [S3]
      leaves it out, which saves its evaluation and costs iterations at large rotations in a step.
    - `newton_rule`: `"default"`, or `"holzinger2024"`, the rule behind the tables of [S3]: unscaled
      residual, its 2-norm below 1e-8 of the first one or 1e-10, starts from v̇ = 0 and λ = 0, a
      matrix without derivatives of M, Bᵀλ and given loads (so that `jacobian` has no effect), and
      the exact initial acceleration as the first auxiliary one.
    - `index`: 3, position constraints alone, or 2, position constraints and their time derivatives
      (the stabilised form of Gear, Gupta and Leimkuhler).

    Raises `ValueError` for other values. Source: [S3] Algorithm 5, (40); Arnold, Brüls and Cardona
    (2015) for the start that keeps multipliers of second order.
    """

    rho_inf: float | Float[Array, ""] = 0.9
    newton: str = eqx.field(static=True, default="full")
    jacobian: str = eqx.field(static=True, default="auto")
    tangent_operator: bool = eqx.field(static=True, default=True)
    newton_rule: str = eqx.field(static=True, default="default")
    index: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        checks.scalar("GeneralizedAlpha(rho_inf=)", self.rho_inf, "without unit")
        if not checks.traced(self.rho_inf) and not 0.0 <= float(self.rho_inf) <= 1.0:
            raise ValueError(
                f"GeneralizedAlpha(rho_inf=) is {float(self.rho_inf)!r}; it must lie between 0 "
                "(strongest numerical damping) and 1 (none)."
            )
        checks.one_of("GeneralizedAlpha(newton=)", self.newton, ("full", "modified"))
        checks.one_of(
            "GeneralizedAlpha(jacobian=)", self.jacobian, ("auto", "autodiff", "analytic")
        )
        checks.one_of("GeneralizedAlpha(tangent_operator=)", self.tangent_operator, (True, False))
        checks.one_of(
            "GeneralizedAlpha(newton_rule=)", self.newton_rule, ("default", "holzinger2024")
        )
        checks.one_of("GeneralizedAlpha(index=)", self.index, (3, 2))

    @property
    def history(self):
        """As many as the longest search has iterations."""
        return newton.HISTORY

    def check(self, system):
        """Every system will do."""

    def init(self, system, t, dt, state, u):
        """Consistent accelerations and multipliers at the initial state."""
        if self.newton_rule == "holzinger2024":
            start = alpha_start.consistent(system, t, state, u)
        else:
            start = alpha_start.optimal(
                system, self._rho(state.q.dtype), self.index, t, dt, state, u
            )
        carry = Carry(
            start.accelerations.acceleration,
            start.auxiliary,
            start.accelerations.multipliers,
            start.shift,
            None,
        )
        if self.newton == "modified":
            inverse = self._no_inverse(system, t, dt, state, carry, u)
            carry = carry._replace(kept=newton.Inverse(inverse, jnp.zeros((), bool)))
        return carry

    def _no_inverse(self, system, t, dt, state, carry, u):
        problem = self._problem(system, t, dt, state, carry, u)[0]
        guess = equations.guess(problem, carry.acceleration, carry.multipliers)
        kept = jax.eval_shape(lambda y: self._matrix()(y, problem).inverse(), guess)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), kept)

    def _problem(self, system, t, dt, state, carry, u):
        """What a step solves, the part of its auxiliary acceleration that is known, and how much
        of the acceleration at the end comes to it.
        """
        rho = self._rho(state.q.dtype)
        alpha_m = (2.0 * rho - 1.0) / (rho + 1.0)
        alpha_f = rho / (rho + 1.0)
        gamma = 0.5 + alpha_f - alpha_m
        beta = 0.25 * (gamma + 0.5) ** 2
        last, a, v = carry.acceleration, carry.auxiliary, state.v + carry.shift
        a_bar = (alpha_f * last - alpha_m * a) / (1.0 - alpha_m)
        problem = Problem(
            system=system,
            t=t + dt,
            u=u,
            q=state.q,
            increment=dt * v + dt * dt * ((0.5 - beta) * a + beta * a_bar),
            velocity=v + dt * ((1.0 - gamma) * a + gamma * a_bar),
            beta=(1.0 - alpha_m) / (dt * dt * beta * (1.0 - alpha_f)),
            gamma=gamma / (dt * beta),
            normal=equations.normal(system, t, state.q, self.index),
        )
        return problem, a_bar, (1.0 - alpha_f) / (1.0 - alpha_m)

    def step(self, system, t, dt, state, carry, u):
        """One step."""
        problem, a_bar, share = self._problem(system, t, dt, state, carry, u)
        guess = equations.guess(problem, carry.acceleration, carry.multipliers)
        if self.newton_rule == "holzinger2024":
            guess = jnp.zeros_like(guess)
        solution = newton.root(
            self._search(),
            equations.residual,
            self._linearize(),
            jax.lax.stop_gradient(guess),
            carry.kept,
            problem,
        )
        end = equations.end(solution.y, problem)
        a = a_bar + share * end.acceleration

        def found(x):
            return jnp.where(solution.converged, x, jnp.nan)

        return Step(
            State(found(end.q), found(end.v)),
            Carry(end.acceleration, a, end.multipliers, jnp.zeros_like(end.v), solution.kept),
            solution.iterations,
            solution.converged,
            solution.history,
            equations.numbered(solution.worst, problem),
        )

    def _rho(self, dtype):
        rho = self.rho_inf
        return rho if isinstance(rho, float | int) else jnp.asarray(rho, dtype)

    def _linearize(self):
        return partial(matrix.linearized, self.jacobian)

    def _matrix(self):
        jacobian = "papers" if self.newton_rule == "holzinger2024" else self.jacobian
        return partial(matrix.iteration_matrix, jacobian, self.tangent_operator)

    def _search(self):
        modified = self.newton == "modified"
        if self.newton_rule == "holzinger2024":
            rule = equations.size_of_papers, equations.converged_of_papers
        elif modified or not self.tangent_operator:
            rule = equations.size, equations.converged_linearly
        else:
            return partial(newton.full, self._linearize(), equations.converged)
        search = newton.modified if modified else newton.chord
        return partial(search, newton.Equations(equations.residual, self._matrix(), *rule))

    def accelerations(self, system, t, state, carry, u):
        """As the method found them."""
        return Accelerations(carry.acceleration, carry.multipliers)
