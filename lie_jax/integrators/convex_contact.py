"""Contact by a convex problem in each step: large steps over stiff contacts and dry friction.

From q and v, with the mass matrix M and the forces f of everything but places of contact, both at
the start of a step of size h, the velocity v⁺ at its end is where

    1/2 (v⁺ - v*)ᵀ M (v⁺ - v*) + Σ l(J v⁺),    v* = v + h M⁻¹ f,    q⁺ = flow(q, h v⁺)

is least. Of each place normal and Jacobian J are those of the start, and -l' is h times the force:
the normal law's at the overlap δ - h wₙ and the rate -wₙ that w = J v⁺ leads to, a product of two
functions that fall with wₙ, and friction with a limit that is held, which falls with the slip. The
function is strictly convex, so that there is one v⁺ and Newton's method with a line search finds
it.

The limits of friction come from the same step solved before, in which they are those of the start:
friction acts from the step in which bodies meet, and ends with the one in which they part. With
limits of the start alone an impact shorter than a step would have no friction, and a body in the
air would be braked after it. With limits from a step without friction, bodies that slide would
keep normal forces to which friction adds nothing.

Sources: Castro, Permenter, Han, "An unconstrained convex formulation of compliant contact" (2022);
Castro, Han, Masterjohn, "Irrotational contact fields" (2023), for limits that are held.
"""

from functools import partial
from typing import NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.numerics import newton, small
from lie_jax.numerics.dense import DenseMatrix, product
from lie_jax.numerics.places import AbstractPlaces
from lie_jax.systems.system import Accelerations, State
from lie_jax.systems.touching import AbstractTouchingSystem

# Each Newton step lowers the function; after the second most stay in the region of quadratic
# convergence.
_ITERATIONS = 100
# A line search ends where the slope is this part of the first one, or after so many halvings: they
# approach a slip of 1e-5 m/s from speeds that change by 10 m/s.
_FLAT, _SEARCHES = 0.1, 40
# Of a residual, relative to its terms.
_ROUNDING = 32.0


class _ConvexProblem(NamedTuple):
    """Mass matrix, momentum M v* (nv,), places, size of the step (s) and limits of friction (N)."""

    mass: Array
    momentum: Array
    places: AbstractPlaces
    dt: Array
    limits: Array


class ConvexContact(AbstractIntegrator):
    """Convex problem in each step, for bodies and robots on the ground, in control and learning.

    Order 1. Steps need not resolve a contact: normal forces and friction are those of the end of
    the step, whatever the stiffness, the slip of friction and the step size. Bodies rebound only
    from contacts that steps resolve: take other methods for the speed after an impact. All other
    forces are explicit: a damper with the constant d needs h d/I < 2 with the inertia I of what it
    damps, a spring h ω < 2. Momentum is kept to rounding with velocities in inertial components,
    and with first order where components turn with a body.

    Each step is solved twice: the first solution gives the limits of friction for the second, see
    `lie_jax.integrators.convex_contact`. A coefficient that falls with the slip is that of the
    slip at the start of the step. Newton's method with an exact line search; derivatives of a step
    come from the implicit function theorem.

    Mechanisms without constraints: joint coordinates (`lie_jax.Minimal()`) without loops, or free
    bodies in coordinates that are not redundant. `lie_jax.simulate` raises `ValueError` for others,
    and for friction with a `spinning_radius` or `rolling_lever`.
    """

    history = newton.HISTORY

    @property
    def order(self) -> int:
        """Order of convergence."""
        return 1

    @override
    def check(self, system):
        refusal = (
            system.no_places()
            if isinstance(system, AbstractTouchingSystem)
            else "it is no mechanism of bodies: use lie_jax.RKMK() or lie_jax.GeneralizedAlpha()."
        )
        if refusal is not None:
            raise ValueError(f"ConvexContact cannot take the system: {refusal}")
        if system.nc:
            raise ValueError(
                f"ConvexContact cannot take a system with {system.nc} constraints: use joint "
                "coordinates, lie_jax.assemble(mechanism, lie_jax.Minimal()), where joints close "
                "no loops, or lie_jax.GeneralizedAlpha()."
            )

    @override
    def init(self, system, t, dt, state, u):
        return None

    @override
    def step(self, system, t, dt, state, carry, u):
        q, v = state.q, state.v
        # `check` refuses other systems.
        touching = cast(AbstractTouchingSystem, system)
        smooth, places = touching.without_places(), touching.places(t, q, v)
        mass = smooth.mass_matrix(q)
        momentum = small.matvec(mass, v) + dt * smooth.force(t, q, v, u)
        limits = places.limits(0.0, places.relative(v))
        problem = _ConvexProblem(mass, momentum, places, dt, limits)
        solution = _solve(v, problem)
        if places.rub:
            limits = places.limits(dt, places.relative(solution.y))
            solution = _join(solution, _solve(solution.y, problem._replace(limits=limits)))
        end = State(system.space.flow(q, dt * solution.y), solution.y)
        return Step(
            jax.tree.map(lambda x: jnp.where(solution.converged, x, jnp.nan), end),
            None,
            solution.iterations,
            solution.converged,
            solution.history,
            solution.worst,
        )

    @override
    def accelerations(self, system, t, state, carry, u):
        none = jnp.zeros(0, state.q.dtype)
        return Accelerations(system.acceleration(t, state.q, state.v, u), none)


def _join(first: newton.Root, second: newton.Root) -> newton.Root:
    """The second solution, with the record of the first one if that failed."""
    kept = jax.tree.map(partial(jnp.where, first.converged), second[3:5], first[3:5])
    return newton.Root(
        second.y,
        first.iterations + second.iterations,
        first.converged & second.converged,
        *kept,
    )


def _solve(guess: Array, problem: _ConvexProblem) -> newton.Root:
    return newton.root(_least, _residual, _linearize, guess, None, problem)


def _inertial(v: Array, problem: _ConvexProblem) -> Array:
    """Derivative of the kinetic part of the function, M (v - v*)."""
    return small.matvec(problem.mass, v) - problem.momentum


# Jitted: both solutions of a step, and their derivatives, trace these once.
@eqx.filter_jit
def _residual(v: Array, problem: _ConvexProblem) -> Array:
    """Derivative (nv,) of the function, N s."""
    places, dt = problem.places, problem.dt
    forces = places.forces(dt, problem.limits, places.relative(v))
    return _inertial(v, problem) - dt * places.generalized_force(forces)


@eqx.filter_jit
def _linearize(v: Array, problem: _ConvexProblem) -> tuple[Array, DenseMatrix]:
    return _residual(v, problem), DenseMatrix(_hessian(v, problem))


@eqx.filter_jit
def _hessian(v: Array, problem: _ConvexProblem) -> Float[Array, "nv nv"]:
    """Second derivative of the function: mass matrix and stiffness of the places times h."""
    places, dt, nv = problem.places, problem.dt, v.shape[0]
    slopes = places.slopes(dt, problem.limits, places.relative(v))
    turned = jnp.sum(slopes[:, :, :, None] * places.jacobian[:, None], axis=2)
    columns = places.jacobian.reshape(-1, nv).T
    return problem.mass + dt * product(columns, turned.reshape(-1, nv))


def _at_rounding(
    v: Array, residual: Array, hessian: Array, problem: _ConvexProblem
) -> Bool[Array, ""]:
    """Whether a residual is at the level of rounding of its terms.

    Entries and terms are measured as square roots of energies, relative to those of the diagonal:
    what is solved with the whole matrix has the rounding of the largest of them in all entries.
    Friction counts with its limit: slips below rounding of its vₛ are at rest.
    """
    places, info = problem.places, jnp.finfo(v.dtype)
    forces = places.forces(problem.dt, problem.limits, places.relative(v))
    terms = jnp.sum(jnp.abs(hessian) * jnp.abs(v)[None], axis=1) + jnp.abs(problem.momentum)
    forces = jnp.abs(forces) + problem.limits[:, None]
    pulled = jnp.sum(jnp.abs(places.jacobian) * forces[:, :, None], axis=(0, 1))
    diagonal = jnp.sum(jnp.eye(v.shape[0], dtype=v.dtype) * hessian, axis=1)
    scale = 1.0 / jnp.sqrt(diagonal)
    size = jnp.max(scale * (terms + problem.dt * pulled))
    # Squares of the last term underflow, and the slopes of line searches with them.
    bound = jnp.maximum(_ROUNDING * info.eps * size, jnp.sqrt(info.tiny))
    return jnp.max(jnp.abs(scale * residual)) <= bound


class _Newton(NamedTuple):
    """Root so far, with the residual and the matrix there; whether the search may go on."""

    root: newton.Root
    residual: Array
    hessian: Array
    finite: Array


def _least(guess: Array, kept: None, problem: _ConvexProblem) -> newton.Root:
    """Newton's method with a line search, from a guess, which may be the solution already."""

    def at(root: newton.Root) -> _Newton:
        residual, hessian = _residual(root.y, problem), _hessian(root.y, problem)
        size = jnp.max(jnp.abs(residual))
        root = root._replace(
            converged=_at_rounding(root.y, residual, hessian, problem),
            worst=jnp.argmax(jnp.abs(residual)).astype(jnp.int32),
            history=jax.lax.dynamic_update_index_in_dim(
                root.history, jnp.where(jnp.isnan(size), jnp.inf, size), root.iterations, 0
            ),
        )
        return _Newton(root, residual, hessian, jnp.isfinite(size))

    def iterate(now: _Newton) -> _Newton:
        direction = -DenseMatrix(now.hessian).solve_roughly(now.residual)
        y = now.root.y + _length(now.root.y, direction, now.residual, problem) * direction
        return at(now.root._replace(y=y, iterations=now.root.iterations + 1))

    start = at(newton.initial_root(guess))
    return jax.lax.while_loop(newton.loop_condition(_ITERATIONS), iterate, start).root


class _Bracket(NamedTuple):
    """Length s of a step, between a lower and an upper one; the size of the slope of the function
    there, and how often s was changed.
    """

    s: Array
    lower: Array
    upper: Array
    size: Array
    changes: Array


def _length(
    v: Array, direction: Array, residual: Array, problem: _ConvexProblem
) -> Float[Array, ""]:
    """Length of the step along a direction to where the function is least, 1 if that is near."""
    places, dt = problem.places, problem.dt
    start, along = places.relative(v), places.relative(direction)
    kinetic = small.dot(direction, _inertial(v, problem))
    growth = small.dot(direction, small.matvec(problem.mass, direction))

    def slope(s):
        forces = places.forces(dt, problem.limits, start + s * along)
        return kinetic + s * growth - dt * jnp.sum(along * forces)

    def noise() -> Array:
        inertial = jnp.abs(small.matvec(problem.mass, v)) + jnp.abs(problem.momentum)
        forces = jnp.abs(along * places.forces(dt, problem.limits, start))
        sizes = small.dot(jnp.abs(direction), inertial) + dt * jnp.sum(forces)
        return _ROUNDING * jnp.finfo(v.dtype).eps * sizes

    first = jnp.abs(small.dot(direction, residual))
    # Slopes at the level of rounding say nothing: the full step is taken.
    flat = jnp.maximum(_FLAT * first, noise())
    one = jnp.ones_like(first)
    # Slopes grow at least as those of the kinetic energy do, which bounds the length.
    ratio = jnp.where(growth > 0.0, first / jnp.where(growth > 0.0, growth, 1.0), 1.0)
    most = jnp.maximum(one, ratio)

    def search(now: _Bracket) -> _Bracket:
        value, rate = jax.jvp(slope, (now.s,), (one,))
        lower = jnp.where(value < 0.0, now.s, now.lower)
        upper = jnp.where(value < 0.0, now.upper, now.s)
        size = jnp.abs(value)
        newton_step = now.s - value / jnp.where(rate > 0.0, rate, 1.0)
        serves = (newton_step > lower) & (newton_step < upper) & (size <= 0.5 * now.size)
        s = jnp.where(serves, newton_step, 0.5 * (lower + upper))
        return _Bracket(jnp.where(size <= flat, now.s, s), lower, upper, size, now.changes + 1)

    def proceed(now: _Bracket) -> Array:
        return ~(now.size <= flat) & (now.changes < _SEARCHES)

    infinite = jnp.full_like(first, jnp.inf)
    begun = _Bracket(one, 0.0 * one, most, infinite, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(proceed, search, begun).s
