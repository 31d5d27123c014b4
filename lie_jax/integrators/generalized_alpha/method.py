"""The Lie group generalized-α method for constrained and unconstrained systems."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.integrators.doubling import Doubled
from lie_jax.integrators.generalized_alpha import equations, matrix, start
from lie_jax.integrators.generalized_alpha.equations import StepParameters
from lie_jax.integrators.generalized_alpha.start import Carry
from lie_jax.numerics import kept_matrices, newton, pieces, rules
from lie_jax.systems.system import Accelerations, State

_OPTIONS = {
    "newton": ("auto", "full", "modified"),
    "jacobian": ("auto", "autodiff", "analytic"),
    "tangent_operator": (True, False),
    "index": (3, 2),
}


class GeneralizedAlpha(AbstractIntegrator):
    """Lie generalized-α method with Newton iterations, for constrained systems too.

    Second order in positions, velocities and multipliers, unconditionally stable for linear
    systems, with numerical damping of high frequencies. Constraints of positions, and of velocities
    that follow from none of these, hold to rounding. Derivatives of a step come from the implicit
    function theorem.

    Iterations start from accelerations and multipliers of a parabola through those of the last
    steps. They stop when a correction is below eps^(1/2) times the step's increment: quadratic
    convergence then leaves rounding errors. With a matrix that is not the exact Jacobian the bound
    has eps^(3/4).

    **Arguments:**

    - `rho_inf`: spectral radius at infinite frequency, between 0 (strongest damping) and 1 (none).
      Index 3 needs damping: with constraints, (1 - rho_inf) / dt should exceed the bodies' rates of
      rotation (rad/s), or multipliers grow without bound; index 2 does not.
    - `newton`: `"full"`, a new iteration matrix in each iteration, or `"modified"`, one that is
      kept over steps as long as it serves ([S3] 3.4). `"auto"` takes the second for beams and for
      bodies on four springs and more, in absolute coordinates without constraints and contacts, but
      not in batches: the solution is the same up to rounding.
    - `jacobian`: `"analytic"`, [S3] (40) from the system's own linearization, or `"autodiff"`,
      forward-mode derivatives of its residual along the lift: the same matrix. `"auto"` takes the
      cheaper, the second for one body. Bodies in absolute coordinates have a linearization of their
      own, in blocks along bodies and joints; for other systems the two options are one.
    - `tangent_operator`: whether the iteration matrix has the tangent operator T(Δq) in it; [S3]
      leaves it out, which costs iterations at large rotations in a step.
    - `index`: 3, position constraints alone, or 2, position constraints and their time derivatives
      (the stabilised form of Gear, Gupta and Leimkuhler), which automatic steps (`Adaptive`) need.

    Raises `ValueError` for other values. Source: [S3] Algorithm 5, (40); Arnold, Brüls and Cardona
    (2015) for the start that keeps multipliers of second order.
    """

    history = newton.HISTORY
    needs_past = True
    # Velocities of index 3 carry the rounding of positions over the step size.
    shortest = 1e-4
    rho_inf: float | Float[Array, ""] = 0.9
    newton: str = eqx.field(static=True, default="auto")
    jacobian: str = eqx.field(static=True, default="auto")
    tangent_operator: bool = eqx.field(static=True, default=True)
    index: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        checks.scalar("GeneralizedAlpha(rho_inf=)", self.rho_inf, "without unit")
        if not checks.has_tracers(self.rho_inf) and not 0.0 <= float(self.rho_inf) <= 1.0:
            raise ValueError(
                f"GeneralizedAlpha(rho_inf=) is {float(self.rho_inf)!r}; it must lie between 0 "
                "(strongest numerical damping) and 1 (none)."
            )
        for name, allowed in _OPTIONS.items():
            checks.one_of(f"GeneralizedAlpha({name}=)", getattr(self, name), allowed)

    @override
    def with_estimate(self, system):
        if self.index == 3 and system.nc > system.velocity_rows:
            raise ValueError(
                "simulate(adaptive=): GeneralizedAlpha(index=3) with constraints needs steps of "
                "one size: another size leaves an error of first order in multipliers; use "
                "lie_jax.GeneralizedAlpha(index=2)."
            )
        return Doubled(self, order=2)

    @override
    def init(self, system, t, dt, state, u):
        passes = self.passes(system)

        def complete(carry, _):
            return self.step(system, t, dt, state, carry, u).carry, None

        saved = jax.checkpoint_policies.save_only_these_names(newton.FOUND)
        complete = jax.checkpoint(complete, prevent_cse=False, policy=saved)
        carry = self.begin(system, t, dt, state, u, passes)
        carry = rules.with_tangents_of(carry, (self, system, t, dt, state, u))
        return self.ready(jax.lax.scan(complete, carry, length=passes)[0])

    @override
    def passes(self, system):
        return start.number_of_passes(system, self.index)

    @override
    def begin(self, system, t, dt, state, u, passes):
        none = jnp.zeros(system.nc, state.v.dtype)
        carry = start.initial_carry(jnp.zeros_like(state.v), none, jnp.zeros_like(state.v))
        return self._reserve_inverse(
            system, t, dt, state, u, carry._replace(passes=jnp.int32(passes))
        )

    @override
    def starting(self, carry):
        return None if carry.passes is None else carry.passes > 0

    @override
    def ready(self, carry):
        return carry._replace(passes=None)

    def _reserve_inverse(self, system, t, dt, state, u, carry):
        """Carry with room for the inverse that modified Newton keeps."""
        if not self._keeps_matrix(system):
            return carry
        problem, guess, *_ = self._parameters(system, t, dt, state, carry, u)
        there = jnp.zeros((), bool)
        kept = jax.eval_shape(lambda y: newton.inverted(self._matrix(y, problem), there), guess)
        none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), kept)
        return carry._replace(kept=none, kept_for=jnp.zeros_like(state.q, shape=()))

    def _parameters(self, system, t, dt, state, carry, u):
        """Parameters and first guess of a step, the known part of its auxiliary acceleration, and
        the share of the acceleration at the end in it.
        """
        rho = self._rho(state.q.dtype)
        alpha_m = (2.0 * rho - 1.0) / (rho + 1.0)
        alpha_f = rho / (rho + 1.0)
        gamma = 0.5 + alpha_f - alpha_m
        beta = 0.25 * (gamma + 0.5) ** 2
        last, v = carry.acceleration, state.v + carry.shift
        a = last + dt * carry.auxiliary_rate
        a_bar = (alpha_f * last - alpha_m * a) / (1.0 - alpha_m)
        problem = StepParameters(
            system=system,
            t=t + dt,
            u=u,
            q=state.q,
            increment=dt * v + dt * dt * ((0.5 - beta) * a + beta * a_bar),
            velocity=v + dt * ((1.0 - gamma) * a + gamma * a_bar),
            beta=(1.0 - alpha_m) / (dt * dt * beta * (1.0 - alpha_f)),
            gamma=gamma / (dt * beta),
            reactions=equations.reactions(system, t, state.q, self.index),
        )
        expected = jnp.concatenate([last, carry.multipliers]) + dt * carry.expected_rate
        guess = equations.guess(problem, expected)
        if carry.passes is not None:
            now = start.pass_of(carry.passes, self.passes(system))
            problem = start.parameters_of_pass(now, problem, t, dt, state, carry)
            guess = jnp.where(now.starting, 0.0, guess)
        return problem, guess, a_bar, (1.0 - alpha_f) / (1.0 - alpha_m)

    @override
    @pieces.cut_around
    def step(self, system, t, dt, state, carry, u):
        problem, guess, a_bar, share = self._parameters(system, t, dt, state, carry, u)
        linearize = partial(matrix.linearize, self.jacobian)
        search, guess = self._search(linearize, system), jax.lax.stop_gradient(guess)
        kept, size = carry.kept, None
        if kept is not None:
            # The matrix of a longer step makes corrections of stiff modes so small that they pass
            # for converged.
            size = jax.lax.stop_gradient(dt)
            kept = kept._replace(there=kept.there & (size == carry.kept_for))
        solution = newton.root(search, equations.residual, linearize, guess, kept, problem)
        end = equations.end(solution.y, problem)
        a = a_bar + share * end.acceleration
        q, v = (jnp.where(solution.converged, x, jnp.nan) for x in (end.q, end.v))
        changes = end.acceleration - carry.acceleration, end.multipliers - carry.multipliers
        rate = jax.lax.stop_gradient(jnp.concatenate(changes) / dt)
        after = Carry(
            acceleration=end.acceleration,
            multipliers=end.multipliers,
            auxiliary_rate=(a - end.acceleration) / dt,
            shift=jnp.zeros_like(end.v),
            rate=rate,
            expected_rate=equations.extrapolate_rate(rate, carry.rate, system.nv),
            kept=solution.kept,
            kept_for=size,
        )
        if carry.passes is not None:
            now, rho = start.pass_of(carry.passes, self.passes(system)), self._rho(state.q.dtype)
            after = start.carry_of_pass(now, end, rho, system, dt, state, carry, after)
        return Step(
            State(q, v),
            after,
            solution.iterations,
            solution.converged,
            solution.history,
            equations.number_in_system(solution.worst, problem),
        )

    def _rho(self, dtype):
        rho = self.rho_inf
        return rho if isinstance(rho, float | int) else jnp.asarray(rho, dtype)

    def _keeps_matrix(self, system):
        if self.newton != "auto":
            return self.newton == "modified"
        return system.algebra.slow_to_linearize

    def _search(self, linearize, system):
        if not self._keeps_matrix(system):
            return self._full(linearize)
        rule = newton.Equations(equations.residual, self._matrix, equations.converges_linearly)
        modified = partial(kept_matrices.modified, rule)
        if self.newton == "modified":
            return modified
        return partial(kept_matrices.unless_batched, modified, self._full(linearize))

    def _full(self, linearize):
        if self.tangent_operator:
            return partial(newton.full, linearize, equations.converges, cut=pieces.cut)
        linearize = partial(linearize, operator=False)
        # Errors shrink by a factor only.
        converges = partial(equations.converges, power=0.75)
        return partial(newton.full, linearize, converges, cut=pieces.cut)

    def _matrix(self, y, problem):
        return matrix.linearize(self.jacobian, y, problem, self.tangent_operator)[1]

    @override
    def accelerations(self, system, t, state, carry, u):
        return Accelerations(carry.acceleration, carry.multipliers)
