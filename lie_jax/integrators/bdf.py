"""Backward differentiation formulas in local coordinates.

Polynomials in time through the last instants predict the configuration q̄ at the end of a step. In
the chart around q̄ the past configurations have local coordinates z_j, and the end has z₀. With the
weights a_j of the derivative at the end of the polynomial through the end and the last k instants,

    Σ a_j z_j = T(0)⁻¹ v,    Σ a_j v_j = v̇,    residual(q̄ z₀, v, v̇, λ) = 0.

The rate of z is T(z₀)⁻¹ v. As z₀ is the error of the prediction, of order k + 1, the difference is
smaller than the error of the formula. Velocities are then linear in z₀: the equations and the
iteration matrix are those of a generalized-α step. Weights follow from the actual times, so steps
may have any sizes. Constraints hold in the stabilised form of index 2.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.integrators import iterations
from lie_jax.integrators.base import AbstractIntegrator, Difference, Step
from lie_jax.integrators.explicit import RKMK
from lie_jax.integrators.generalized_alpha import equations, matrix
from lie_jax.integrators.generalized_alpha.equations import StepParameters
from lie_jax.numerics import newton
from lie_jax.systems.system import State, accelerations_and_multipliers

# Orders, and for each the largest ratio of an automatic step to the one before. Errors of the past
# do not grow where every step grows by less than 2.414, 1.618, 1.280 and 1.127 for orders 2 to 5. A
# random search among periodic grids found none with ratios up to the chosen ones on which they do.
_LARGEST_GROWTH = {1: 4.0, 2: 2.41, 3: 1.53, 4: 1.28, 5: 1.12}
# Squares of angles relative to the largest one of a chart, up to which `inverse_retract` is unique.
_REACH = 0.25


class _Carry(NamedTuple):
    """Past instants, newest first, and acceleration (nv,) and multipliers (nc,) of the newest.

    Configurations (k + 1, nq), velocities (k + 1, nv) and ages (k + 1,), times in s from each
    instant to the start of the next step. The first `known` of them belong to the motion.
    """

    q: Array
    v: Array
    age: Array
    known: Array
    acceleration: Array
    multipliers: Array


class BDF(AbstractIntegrator):
    """Backward differentiation formula of order 1 to 5 in local coordinates, for stiff systems.

    Positions and velocities have the order of the formula. So have the multipliers of a trajectory,
    which follow from them by the equations of motion. Constraints of positions and of velocities
    hold to rounding (the stabilised form of Gear, Gupta and Leimkuhler). Stiff modes that decay are
    damped in steps of any size, those that oscillate up to order 2; orders 3, 4 and 5 damp modes
    within 86°, 73° and 51° of the negative real axis.

    A run starts with the full order: an explicit method computes the instants that the first step
    needs, within that step. Where the motion is too stiff for an explicit method of the same step
    size, and where automatic steps start with a smaller one, the order grows from 1 with each step.
    Bodies that turn by half of the chart's largest angle (by π with the exponential) over `order`
    steps also lower the order.

    With `adaptive=` the errors of positions and velocities, not of multipliers, are estimated from
    the difference between prediction and end. Planned steps grow at most by factors of 2.41, 1.53,
    1.28, 1.12 for orders 2 to 5, whatever `max_increase` is.

    **Arguments:** `order`: 1 to 5. Raises `ValueError` for others. Source: Faltinsen, Marthinsen
    and Munthe-Kaas, "Multistep methods integrating ordinary differential equations on manifolds"
    (2001).
    """

    history = newton.HISTORY
    needs_past = True
    # The derivative at the end carries the rounding of positions over the step size.
    shortest = 1e-4
    order: int = eqx.field(static=True)

    def __check_init__(self):
        checks.one_of("BDF(order=)", self.order, tuple(_LARGEST_GROWTH))
        checks.positive_integer("BDF(order=)", self.order, "1 to 5")

    @property
    @override
    def embedded_order(self):
        return self.order

    @property
    @override
    def largest_growth(self):
        return _LARGEST_GROWTH[self.order]

    @override
    def init(self, system, t, dt, state, u):
        starter, size = RKMK("rk4"), dt / (2 * self.order)

        def move(now, number):
            state, resolved = now
            # After a failure no values grow, whose derivatives would not be finite.
            h = jnp.where(resolved, size, 0.0)
            step = starter.step(system, t + number * size, h, state, None, u)
            # The explicit method would have to be stable with steps of the size dt.
            assert step.stability is not None
            stable = step.stability.rate * (2 * self.order) ** 4 <= 1.0
            finite = jnp.isfinite(jnp.sum(step.state.q) + jnp.sum(step.state.v))
            resolved = resolved & step.converged & stable & finite
            state = _where(resolved, step.state, state)
            return (state, resolved), state

        start = state, jnp.ones((), bool)
        numbers = jnp.arange(self.order, dtype=t.dtype)
        (_, resolved), points = jax.lax.scan(move, start, numbers)
        q, v = (
            jnp.concatenate([first[None], others])[::-1]
            for first, others in ((state.q, points.q), (state.v, points.v))
        )
        at = accelerations_and_multipliers(system, t, state.q, state.v, u)
        age = -size * jnp.arange(self.order, -1, -1, dtype=t.dtype)
        carry = _Carry(q, v, age, jnp.full((), self.order + 1, jnp.int32), *at)
        return _where(resolved, carry, self._from_first_order(system, dt, state, carry))

    def _from_first_order(self, system, dt, state, carry) -> _Carry:
        """Carry with the present instant alone, and one before it on the tangent of the motion.

        The second one predicts the first step and its error; first order does not use it.
        """
        size, moved = self.order + 1, -dt * state.v
        before = State(system.space.flow(state.q, moved), state.v - dt * carry.acceleration)
        q, v = (
            jnp.stack([now, *[past] * (size - 1)])
            for now, past in ((state.q, before.q), (state.v, before.v))
        )
        age = dt * jnp.arange(size, dtype=dt.dtype)
        return carry._replace(q=q, v=v, age=age, known=jnp.full((), 2, jnp.int32))

    @override
    def step(self, system, t, dt, state, carry, u):
        # The instants of the start lie within a first step of the size that it was to have.
        spacing = carry.age[1] - carry.age[0]
        started_smaller = (carry.age[0] < 0.0) & (carry.age[0] + dt < spacing)
        # Place the tangent's instant one step back: a farther one underestimates the error by the
        # ratio of both distances.
        too_far = (carry.known == 2) & (spacing > dt)
        carry = _where(
            started_smaller | too_far, self._from_first_order(system, dt, state, carry), carry
        )
        space = system.space
        span = carry.age + dt
        turns = jax.vmap(lambda s: space.turn(s * state.v))(span[: self.order])
        reached = carry.known - 1
        if turns is not None:
            within = jnp.max(turns, axis=1) < _REACH
            reached = jnp.minimum(reached, jnp.sum(within, dtype=jnp.int32))
        order = jnp.maximum(reached, 1)
        weights = _extrapolation(span, order + 1)
        past = jax.vmap(lambda q: space.inverse_retract(carry.q[0], q))(carry.q)
        base = space.retract(carry.q[0], _combine(weights, past))
        expected = _combine(weights, carry.v)

        near = jax.vmap(lambda q: space.inverse_retract(base, q))(carry.q[: self.order])
        of_past, of_end = _slopes(span[: self.order], order)
        moved = space.tangent_operator(jnp.zeros_like(state.v), _combine(of_past, near))
        changed = _combine(of_past, carry.v[: self.order])
        # v = moved + a₀ ξ and v̇ = changed + a₀ v in the correction Δ = v̇ / a₀².
        problem = StepParameters(
            system=system,
            t=t + dt,
            u=u,
            q=base,
            increment=-(moved + changed / of_end) / of_end,
            velocity=-changed / of_end,
            beta=of_end * of_end,
            gamma=of_end,
            reactions=equations.reactions(system, t + dt, base, 2),
        )
        predicted = -problem.beta * problem.increment
        guess = equations.guess(problem, jnp.concatenate([predicted, carry.multipliers]))
        linearize = partial(matrix.linearize, "auto")
        search = partial(newton.full, linearize, _converges)
        guess = jax.lax.stop_gradient(guess)
        solution = newton.root(search, equations.residual, linearize, guess, None, problem)
        end = equations.end(solution.y, problem)
        converged = solution.converged & (reached > 0)
        q, v = (jnp.where(converged, x, jnp.nan) for x in (end.q, end.v))
        last = jnp.sum(jnp.where(_numbers(span) == order, span, 0.0))
        share = 1.0 / (of_end * last)
        increment = equations.increment(solution.y, problem)
        return Step(
            state=State(q, v),
            carry=_Carry(
                jnp.concatenate([q[None], carry.q[:-1]]),
                jnp.concatenate([v[None], carry.v[:-1]]),
                jnp.concatenate([jnp.zeros_like(span[:1]), span[:-1]]),
                jnp.minimum(carry.known + 1, self.order + 1),
                end.acceleration,
                end.multipliers,
            ),
            newton_iterations=solution.iterations,
            converged=converged,
            residuals=solution.history,
            worst=equations.number_in_system(solution.worst, problem),
            error=Difference(share * increment, share * (end.v - expected)),
        )

    @override
    def accelerations(self, system, t, state, carry, u):
        return accelerations_and_multipliers(system, t, state.q, state.v, u)


def _where(condition: Array, one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


def _numbers(span: Array) -> Array:
    return jnp.arange(span.shape[0], dtype=jnp.int32)


def _combine(weights: Array, values: Array) -> Array:
    return jnp.sum(weights[:, None] * values, axis=0)


def _extrapolation(span: Array, count: Array) -> Array:
    """Weights (n,) of the polynomial through `count` instants, at a time `span` (n,) s after them.

    The others count as instants in a remote past: their weights vanish to rounding.
    """
    number = _numbers(span)
    remote = jax.lax.stop_gradient(span[0]) / jnp.finfo(span.dtype).eps ** 2
    span = jnp.where(number < count, span, remote * (number + 1).astype(span.dtype))
    weights = jnp.ones_like(span)
    for j in range(span.shape[0]):
        apart = jnp.where(number == j, 1.0, span[j] - span)
        weights = weights * jnp.where(number == j, 1.0, span[j] / apart)
    return weights


def _slopes(span: Array, count: Array) -> tuple[Array, Array]:
    """Weights (n,) of past instants and of the end, 1/s, in the derivative at the end of the
    polynomial through the end and `count` instants, which lie `span` (n,) s before it.
    """
    inverse = jnp.where(_numbers(span) < count, 1.0 / span, 0.0)
    return -_extrapolation(span, count) * inverse, jnp.sum(inverse)


def _converges(correction: Array, value: Array, y: Array, problem: StepParameters) -> Array:
    """Whether a correction by the exact Jacobian leaves an error at the level of rounding.

    Increments count from the prediction: a correction is compared with the velocity over a step.
    """
    nv = problem.system.nv
    moved = jnp.max(jnp.abs(problem.velocity / problem.gamma + y[:nv]))
    return iterations.reaches_rounding(correction, value, nv, moved, iterations.scale(problem.q))
