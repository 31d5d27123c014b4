"""RATTLie: the constrained variational integrator on a group, and its symmetric compositions.

With p = M(q) v, the increment ξ = h Δ of a step and q₁ = flow(q₀, ξ), the discrete Lagrangian h/4
Δᵀ (M(q₀) + M(q₁)) Δ - h/2 (V(q₀) + V(q₁)) gives, with a residual r = M v̇ + Bᵀλ - f of the system,

    P(q₀, q₁, ξ) + h²/2 r(q₀, v̇ = -2 v₀/h, v = Δ, λ⁺) = 0,    Φ(q₁) = 0,
    M(q₁) h v₁ + h²/2 B(q₁)ᵀ λ⁻ = -P(q₁, q₀, -ξ) - h²/2 r(q₁, v̇ = 0, v = Δ, λ = 0),    Φ̇ = 0,

    P(q₀, q₁, ξ) = T₀ᵀ T(-x)⁻ᵀ (M(q₀) + M(q₁)) ξ / 2 + (ad(ξ)ᵀ M(q₀) ξ - Ṁ(q₀)[ξ] ξ) / 2

where x = T₀⁻¹ ξ are the local coordinates. The last part of P takes those terms out of the force f
that belong to the rate of p, not to the Lagrangian: what is left is the applied force and the
derivative of the kinetic energy along q. Forces that depend on velocities get Δ: they are those of
the discrete principle of Lagrange and d'Alembert.

With constant M and the exponential chart these are the equations of RATTLie, without constraints
the Störmer-Verlet method on the group; with M(q) on Rⁿ, RATTLE for that discrete Lagrangian.
Sources: Hante and Arnold, "RATTLie: a variational Lie group integration scheme for constrained
mechanical systems" (2021); Marsden and West, Acta Numerica 10 (2001).
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.integrators import iterations
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.numerics import newton
from lie_jax.numerics.matrices import AbstractMatrix
from lie_jax.systems.system import AbstractSystem, State, accelerations_and_multipliers


def _suzuki() -> np.ndarray:
    outer = 1.0 / (4.0 - 4.0 ** (1.0 / 3.0))
    return np.asarray([outer, outer, 1.0 - 4.0 * outer, outer, outer])


def _kahan_li() -> np.ndarray:
    first = [
        0.39216144400731413927925056,
        0.33259913678935943859974864,
        -0.70624617255763935980996482,
        0.08221359629355080023149045,
    ]
    return np.asarray([*first, 1.0 - 2.0 * sum(first), *first[::-1]])


# Parts of a step of the symmetric compositions. Sources: Suzuki (1990); Kahan and Li, "Composition
# constants for raising the orders of unconventional schemes for ordinary differential equations"
# (1997), s9odr6a.
COMPOSITIONS = {2: np.ones(1), 4: _suzuki(), 6: _kahan_li()}


class _StepParameters(NamedTuple):
    """System, start and end of a step, inputs, and configuration and velocity at its start."""

    system: AbstractSystem
    t: Array
    dt: Array
    u: Any
    q: Array
    v: Array


class RATTLie(AbstractIntegrator):
    """Constrained variational integrator on a group: symplectic, symmetric, without damping.

    Second order in positions, velocities and multipliers. Momenta that a symmetry of the system
    conserves are conserved to rounding, and the error of the energy of a conservative system stays
    bounded. Constraints of positions, and their time derivatives, hold to rounding; redundant ones
    are accepted, constraints of velocities alone are refused. Forces may depend on velocities
    (dampers, controllers). Without constraints it is the Störmer-Verlet method on the group. It is
    stable as long as steps resolve the fastest oscillation, h ω < 2, as an explicit method is.

    Full Newton iterations solve for the increment and the multipliers at the start of a step, a
    linear equation gives velocity and multipliers at the end. Derivatives come from the implicit
    function theorem. Saved accelerations and multipliers are those of the equations of motion at
    the state.

    **Arguments:** `composition`: 2, one step; 4 or 6, a step of this order composed of 5 steps
    (Suzuki) or 9 (Kahan and Li), of which some go backwards in time. Raises `ValueError` for
    another number. Sources: see `lie_jax.integrators.rattlie`.
    """

    history = newton.HISTORY
    # Velocities carry the rounding of positions over the step size.
    shortest = 1e-4
    composition: int = eqx.field(static=True, default=2)

    def __check_init__(self):
        checks.one_of("RATTLie(composition=)", self.composition, tuple(COMPOSITIONS))

    @property
    def order(self) -> int:
        """Order of convergence."""
        return self.composition

    @override
    def check(self, system):
        if system.velocity_rows:
            raise ValueError(
                f"RATTLie cannot take a system with {system.velocity_rows} constraints of "
                "velocities (rolling, gears), which follow from no position constraint: use "
                "lie_jax.GeneralizedAlpha() or an explicit method such as lie_jax.RKMK('rk4')."
            )

    @override
    def init(self, system, t, dt, state, u):
        # The carry is the acceleration from which the next iteration starts.
        return accelerations_and_multipliers(system, t, state.q, state.v, u).acceleration

    @override
    def step(self, system, t, dt, state, carry, u):
        parts = COMPOSITIONS[self.composition]
        if len(parts) == 1:
            return _step(system, t, dt, state, carry, u)

        def part(step, now):
            begin, share = now
            after = _step(system, t + begin * dt, share * dt, step.state, step.carry, u)
            # The record is that of the first part that fails.
            first = jax.tree.map(partial(jnp.where, step.converged), after[3:], step[3:])
            return Step(after.state, after.carry, step[2] + after[2], *first[:3]), None

        zero = jnp.zeros((), jnp.int32)
        none = jnp.full(self.history, newton.NONE, state.q.dtype)
        start = Step(state, carry, zero, jnp.ones((), bool), none, zero)
        begins = np.cumsum(parts) - parts
        times = jnp.asarray(np.stack([begins, parts], axis=1), state.q.dtype)
        return jax.lax.scan(part, start, times)[0]

    @override
    def accelerations(self, system, t, state, carry, u):
        return accelerations_and_multipliers(system, t, state.q, state.v, u)


def _step(
    system: AbstractSystem, t: Array, dt: Array, state: State, acceleration: Array, u: Any
) -> Step:
    problem, nv = _StepParameters(system, t, dt, u, state.q, state.v), system.nv
    increment = dt * state.v + 0.5 * dt * dt * acceleration
    guess = jax.lax.stop_gradient(jnp.concatenate([increment, jnp.zeros(system.nc, state.q.dtype)]))
    search = partial(newton.simplified, _CHEAP, _linearize, _converges)
    solution = newton.root(search, _residual, _linearize, guess, None, problem)
    end = _end(solution.y[:nv], problem)
    return Step(
        jax.tree.map(lambda x: jnp.where(solution.converged, x, jnp.nan), end),
        # The mean acceleration of the second half of the step.
        2.0 * (end.v - solution.y[:nv] / dt) / dt,
        solution.iterations,
        solution.converged,
        solution.history,
        solution.worst,
    )


def _inertia(problem: _StepParameters, q: Array, v: Array) -> Array:
    """M(q) v (nv,)."""
    return problem.system.algebra.momentum(problem.t, q, v, problem.u)


def _momentum(problem: _StepParameters, near: Array, far: Array, increment: Array) -> Array:
    """P (nv,) at the end `near` of a step that leads by this increment to the end `far`."""
    space, zero = problem.system.space, jnp.zeros_like(increment)
    momentum, change = jax.jvp(
        lambda q: _inertia(problem, q, increment), (near,), (space.lift(near, increment),)
    )
    mean = 0.5 * (momentum + _inertia(problem, far, increment))
    x = space.rate_at_zero(increment)

    def local(v):
        return space.tangent_operator(zero, space.tangent_operator_inv(-x, v))

    # Half of the commutator with a velocity, in all charts.
    def half_commutator(v):
        return space.turning(increment, v)

    pulled = jax.vjp(local, zero)[1](mean)[0]
    turned = jax.vjp(half_commutator, zero)[1](momentum)[0]
    return pulled + turned - 0.5 * change


def _start(y: Array, problem: _StepParameters) -> tuple[Array, Array, tuple]:
    """Increment, end, and arguments of the system's residual at the start, for the unknowns."""
    system, dt = problem.system, problem.dt
    increment, multipliers = y[: system.nv], (2.0 / (dt * dt)) * y[system.nv :]
    end = system.space.flow(problem.q, increment)
    at = problem.t, problem.q, increment / dt, (-2.0 / dt) * problem.v, multipliers, problem.u
    return increment, end, at


def _equations(
    y: Array, problem: _StepParameters, end: Array, dynamic: Array, momentum: Array
) -> Array:
    system, dt = problem.system, problem.dt
    value = momentum + 0.5 * dt * dt * dynamic
    return jnp.concatenate([value, system.constraint(problem.t + dt, end)])


# Newton's method evaluates these at several places: a jitted function is traced once.
@eqx.filter_jit
def _residual(y: Array, problem: _StepParameters) -> Array:
    """Residual of a step; unknowns y are the increment (nv,) and h²/2 λ⁺ (nc,)."""
    increment, end, at = _start(y, problem)
    momentum = _momentum(problem, problem.q, end, increment)
    return _equations(y, problem, end, problem.system.residual(*at), momentum)


@eqx.filter_jit
def _linearize(y: Array, problem: _StepParameters) -> tuple[Array, AbstractMatrix]:
    """Residual of a step and its Jacobian."""
    system, space, dt = problem.system, problem.system.space, problem.dt
    increment, end, at = _start(y, problem)

    def momentum_of(increment):
        return _momentum(problem, problem.q, space.flow(problem.q, increment), increment)

    momentum, push = jax.linearize(momentum_of, increment)
    linear = iterations.linearization("auto", system, *at)
    value = _equations(y, problem, end, linear.residual, momentum)
    # Rows are those of the end, columns those of the start.
    closing = system.algebra.step_saddle(problem.t + dt, end, space.rate_at_zero(increment))
    # The matrix of the start has the mass already.
    matrix = linear.step_matrix(None, 0.0, 0.5 * dt)
    matrix = matrix.plus(lambda v: push(v) - _inertia(problem, problem.q, v)).with_rows(closing)
    return value, matrix.regularize()


def _cheap_matrix(y: Array, problem: _StepParameters) -> AbstractMatrix:
    """Jacobian but for terms of second order in the increment, and of forces by velocities."""
    system, t = problem.system, problem.t
    increment, end, _ = _start(y, problem)
    x = system.space.rate_at_zero(increment)
    closing = system.algebra.step_saddle(t + problem.dt, end, x)
    return system.algebra.step_saddle(t, problem.q).with_rows(closing).regularize()


def _converges(correction: Array, value: Array, y: Array, problem: _StepParameters) -> Array:
    size, nv = iterations.scale(problem.q), problem.system.nv
    return iterations.reaches_rounding(correction, value, nv, _increment_size(y, problem), size)


def _converges_linearly(error: Array, search: newton.Search, problem: _StepParameters) -> Array:
    size, moved = iterations.scale(problem.q), _increment_size(search.root.y, problem)
    # The error is at the level of rounding, or no longer shrinks and comes from constraints.
    rounding = jnp.where(search.finite, 0.0, size)
    nv = problem.system.nv
    return iterations.reaches_rounding(error, search.value, nv, moved, size, rounding, power=1.0)


def _increment_size(correction: Array, problem: _StepParameters) -> Array:
    """Largest entry of the increment among unknowns or their corrections."""
    return jnp.max(jnp.abs(correction[: problem.system.nv]))


_CHEAP = newton.Equations(_residual, _cheap_matrix, _converges_linearly, _increment_size)


def _end(increment: Array, problem: _StepParameters) -> State:
    """State at the end of a step, whose velocities are those of its momenta and constraints."""
    system, dt, t = problem.system, problem.dt, problem.t + problem.dt
    end = system.space.flow(problem.q, increment)
    zero = jnp.zeros_like(increment)
    force = -system.residual(
        t, end, increment / dt, zero, jnp.zeros(system.nc, end.dtype), problem.u
    )
    momentum = (0.5 * dt) * force - _momentum(problem, end, problem.q, -increment) / dt
    saddle = system.algebra.saddle(t, end)
    if not system.nc:
        return State(end, saddle.solve(momentum))
    drift = system.constraint_rate(t, end, zero)
    solved = saddle.solve_constrained(jnp.concatenate([momentum, -drift]))
    return State(end, solved[: system.nv])
