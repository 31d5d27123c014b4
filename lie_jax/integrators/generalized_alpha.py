"""The Lie group generalized-α method for constrained and unconstrained systems."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks, newton
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.system import AbstractSystem, Accelerations, State, accelerations_and_multipliers


class Carry(NamedTuple):
    """Accelerations v̇ (nv,), the method's auxiliary accelerations a (nv,), multipliers (nc,)."""

    acceleration: Array
    auxiliary: Array
    multipliers: Array


class _Problem(NamedTuple):
    # What the solution of one step depends on: the system at the end of the step, the start of the
    # retraction, the predictor and the two factors β', γ' of the method.
    system: AbstractSystem
    t: Array
    u: Any
    q: Array
    increment: Array
    velocity: Array
    beta: Array
    gamma: Array


class _End(NamedTuple):
    q: Array
    v: Array
    acceleration: Array
    multipliers: Array


class GeneralizedAlpha(AbstractIntegrator):
    """Lie generalized-α method of index 3 with full Newton iterations.

    Second order in positions and velocities, unconditionally stable for linear systems, with
    numerical damping of high frequencies set by `rho_inf`. Position constraints hold to rounding.
    The iteration matrix comes from forward-mode derivatives of the residual along the lift,
    derivatives of a step from the implicit function theorem. An iteration stops when its correction
    is below the square root of the machine epsilon relative to the step's increment: the quadratic
    convergence then leaves an error at the level of rounding.

    **Arguments:** `rho_inf`: spectral radius at infinite frequency, between 0 (strongest damping)
    and 1 (none). Raises `ValueError` for other values. Source: [S3] Algorithm 5, (40).
    """

    rho_inf: float | Float[Array, ""] = 0.9

    def __check_init__(self):
        checks.scalar("GeneralizedAlpha(rho_inf=)", self.rho_inf, "without unit")
        if not checks.traced(self.rho_inf) and not 0.0 <= float(self.rho_inf) <= 1.0:
            raise ValueError(
                f"GeneralizedAlpha(rho_inf=) is {float(self.rho_inf)!r}; it must lie between 0 "
                "(strongest numerical damping) and 1 (none)."
            )

    def check(self, system):
        """Every system will do."""

    def init(self, system, t, state, u):
        """Consistent accelerations and multipliers at the initial state."""
        start = accelerations_and_multipliers(system, t, state.q, state.v, u)
        return Carry(start.acceleration, start.acceleration, start.multipliers)

    def step(self, system, t, dt, state, carry, u):
        """One step."""
        rho = self.rho_inf
        alpha_m = (2.0 * rho - 1.0) / (rho + 1.0)
        alpha_f = rho / (rho + 1.0)
        gamma = 0.5 + alpha_f - alpha_m
        beta = 0.25 * (gamma + 0.5) ** 2
        last, a = carry.acceleration, carry.auxiliary
        a_bar = (alpha_f * last - alpha_m * a) / (1.0 - alpha_m)
        problem = _Problem(
            system=system,
            t=t + dt,
            u=u,
            q=state.q,
            increment=dt * state.v + dt * dt * ((0.5 - beta) * a + beta * a_bar),
            velocity=state.v + dt * ((1.0 - gamma) * a + gamma * a_bar),
            beta=(1.0 - alpha_m) / (dt * dt * beta * (1.0 - alpha_f)),
            gamma=gamma / (dt * beta),
        )
        guess = jnp.concatenate([last, carry.multipliers]) / problem.beta
        solution = newton.root(_residual, _linearize, _converged, guess, problem)
        end = _end(solution.y, problem)
        a = a_bar + (1.0 - alpha_f) / (1.0 - alpha_m) * end.acceleration

        def kept(x):
            return jnp.where(solution.converged, x, jnp.nan)

        return Step(
            State(kept(end.q), kept(end.v)),
            Carry(end.acceleration, a, end.multipliers),
            solution.iterations,
            solution.converged,
            solution.residual,
        )

    def accelerations(self, system, t, state, carry, u):
        """As the method found them."""
        return Accelerations(carry.acceleration, carry.multipliers)


# The unknowns y = (Δ, μ) of a step are the correction Δ of the predicted increment and the
# multipliers divided by β'. Together with dynamic equations divided by β' this is Bottasso's
# scaling: the condition of the Jacobian does not depend on the size of the step. The residual's
# entries are those of Φ, and inertia times an increment of position or angle.


def _end(y: Array, problem: _Problem) -> _End:
    nv = problem.increment.shape[0]
    correction = y[:nv]
    space = problem.system.space
    return _End(
        space.retract(problem.q, space.rate_at_zero(problem.increment + correction)),
        problem.velocity + problem.gamma * correction,
        problem.beta * correction,
        problem.beta * y[nv:],
    )


def _equations(problem: _Problem, end: _End) -> Array:
    dynamic = problem.system.residual(problem.t, *end, problem.u) / problem.beta
    if not problem.system.nc:
        return dynamic
    return jnp.concatenate([dynamic, problem.system.constraint(problem.t, end.q)])


def _residual(y: Array, problem: _Problem) -> Array:
    return _equations(problem, _end(y, problem))


def _linearize(y: Array, problem: _Problem) -> tuple[Array, Array]:
    space = problem.system.space
    nv = space.nv
    end = _end(y, problem)
    value, push = jax.linearize(lambda end: _equations(problem, end), end)
    x = space.rate_at_zero(problem.increment + y[:nv])

    def column(direction):
        dx = direction[:nv]
        tangent = space.lift(end.q, space.tangent_operator(x, space.rate_at_zero(dx)))
        return push(
            _End(tangent, problem.gamma * dx, problem.beta * dx, problem.beta * direction[nv:])
        )

    return value, jax.vmap(column, out_axes=1)(jnp.eye(y.shape[0], dtype=y.dtype))


def _converged(correction: Array, y: Array, problem: _Problem) -> Array:
    nv = problem.increment.shape[0]
    eps = jnp.finfo(y.dtype).eps
    size = jnp.max(jnp.abs(problem.increment + y[:nv]))
    # A body at rest moves by rounding errors of its coordinates only.
    rounding = 64.0 * eps * (1.0 + jnp.max(jnp.abs(problem.q)))
    return jnp.max(jnp.abs(correction[:nv])) <= eps**0.5 * size + rounding
