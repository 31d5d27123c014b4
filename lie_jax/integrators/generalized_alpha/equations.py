"""The equations of one generalized-α step, their Jacobians and the rules to stop.

The unknowns y = (Δ, μ) of a step are the correction Δ of the predicted increment and the
multipliers divided by β'. Together with dynamic equations divided by β' and velocity constraints
divided by γ' this is Bottasso's scaling: the condition of the Jacobian does not depend on the size
of the step. The residual's entries are those of Φ, and inertia times an increment of position or
angle.

The stabilised form of index 2 has the unknowns y = (Δ, μ, η): the increment is corrected by -Bᵀη,
with B at the start of the step, and the velocities obey Φ̇ = 0, too. Its equations stand in the
order dynamics, velocities, positions.

What Newton's method evaluates at several places is a jitted function: it is traced and
differentiated once.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.numerics import dense
from lie_jax.numerics.block_matrix import BlockTree
from lie_jax.numerics.newton import Sizes
from lie_jax.system import AbstractSystem, Factors


class Problem(NamedTuple):
    """What the solution of a step depends on.

    The system at the end of the step, the start of the retraction, the predictor, the factors β'
    and γ' of the method, and the Jacobian of the position constraints at the start (positions, nv)
    in the stabilised form.
    """

    system: AbstractSystem
    t: Array
    u: Any
    q: Array
    increment: Array
    velocity: Array
    beta: Array
    gamma: Array
    normal: Array | None


class End(NamedTuple):
    """Configuration, velocity, acceleration and multipliers at the end of a step."""

    q: Array
    v: Array
    acceleration: Array
    multipliers: Array


def _positions(system: AbstractSystem) -> int:
    return system.nc - system.velocity_rows


def normal(system: AbstractSystem, t: Array, q: Array, index: int) -> Array | None:
    """Jacobian of the position constraints at the start of a step of the stabilised form."""
    if index == 3:
        return None
    return system.constraint_jacobian(t, q)[: _positions(system)]


def guess(problem: Problem, acceleration: Array, multipliers: Array) -> Array:
    """Unknowns of a step whose end has these accelerations and multipliers."""
    y = jnp.concatenate([acceleration, multipliers]) / problem.beta
    if problem.normal is None:
        return y
    return jnp.concatenate([y, jnp.zeros(problem.normal.shape[0], y.dtype)])


def _increment(y: Array, problem: Problem) -> Array:
    nv = problem.increment.shape[0]
    x = problem.increment + y[:nv]
    if problem.normal is None:
        return x
    return x - y[nv + problem.system.nc :] @ problem.normal


def _own(y: Array, problem: Problem) -> tuple[Array, Array]:
    nv = problem.increment.shape[0]
    return y[:nv], y[nv : nv + problem.system.nc]


def end(y: Array, problem: Problem) -> End:
    """The end of the step for these unknowns."""
    correction, multipliers = _own(y, problem)
    space = problem.system.space
    return End(
        space.flow(problem.q, _increment(y, problem)),
        problem.velocity + problem.gamma * correction,
        problem.beta * correction,
        problem.beta * multipliers,
    )


def _equations(problem: Problem, end: End) -> Array:
    system, t = problem.system, problem.t
    dynamic = system.residual(t, *end, problem.u) / problem.beta
    if not system.nc:
        return dynamic
    positions = system.constraint(t, end.q)
    if problem.normal is not None:
        rates = system.constraint_rate(t, end.q, end.v) / problem.gamma
        return jnp.concatenate([dynamic, rates, positions])
    if not system.velocity_rows:
        return jnp.concatenate([dynamic, positions])
    rates = system.velocity_constraint(t, end.q, end.v) / problem.gamma
    return jnp.concatenate([dynamic, positions, rates])


def numbered(equation: Array, problem: Problem) -> Array:
    """The number that a system has for an equation of the step."""
    if problem.normal is None:
        return equation
    last = problem.system.nv + problem.system.nc
    return jnp.where(equation >= last, equation - problem.system.nc, equation)


@eqx.filter_jit
def residual(y: Array, problem: Problem) -> Array:
    """Residual of the equations, as many as unknowns."""
    return _equations(problem, end(y, problem))


def _changes(direction: Array, y: Array, q: Array, problem: Problem, operator: bool) -> End:
    # How the end of the step changes along a direction of the unknowns.
    space = problem.system.space
    correction, multipliers = _own(direction, problem)
    moved = _increment(direction, problem._replace(increment=jnp.zeros_like(problem.increment)))
    if operator:
        x = space.rate_at_zero(_increment(y, problem))
        moved = space.tangent_operator(x, space.rate_at_zero(moved))
    return End(
        space.lift(q, moved),
        problem.gamma * correction,
        problem.beta * correction,
        problem.beta * multipliers,
    )


def _tree(y: Array, problem: Problem, at: End, operator: bool) -> BlockTree | None:
    # The Jacobian in blocks, if the system has them and position constraints are its equations.
    if problem.normal is not None or problem.system.velocity_rows:
        return None
    x = problem.system.space.rate_at_zero(_increment(y, problem)) if operator else None
    factors = Factors(1.0 / problem.beta, problem.gamma / problem.beta)
    tree = problem.system.step_tree(problem.t, *at, problem.u, x, factors)
    return None if tree is None else tree.regularized()


def _by_columns(y: Array, problem: Problem, operator: bool) -> tuple[Array, Array | BlockTree]:
    at = end(y, problem)
    tree = _tree(y, problem, at, operator)
    if tree is not None:
        return _equations(problem, at), tree
    if problem.normal is None and not problem.system.velocity_rows:
        return _by_own_columns(y, problem, at, operator)
    value, push = jax.linearize(lambda end: _equations(problem, end), at)

    def column(direction):
        return push(_changes(direction, y, at.q, problem, operator))

    jacobian = jax.vmap(column, out_axes=1)(jnp.eye(y.shape[0], dtype=y.dtype))
    return value, dense.regularized(jacobian, y.shape[0] - problem.system.nv)


def _by_own_columns(y: Array, problem: Problem, at: End, operator: bool) -> tuple[Array, Array]:
    # The other columns and rows are those of B, and zero.
    system, held = problem.system, (at.multipliers, problem.u)

    def dynamic(q, v, acceleration):
        return system.residual(problem.t, q, v, acceleration, *held) / problem.beta

    value, push = jax.linearize(dynamic, at.q, at.v, at.acceleration)
    moved = _moved(y, problem, operator)

    def column(direction, along):
        changes = system.space.lift(at.q, along), problem.gamma * direction
        return push(*changes, problem.beta * direction)

    basis = jnp.eye(system.nv, dtype=y.dtype)
    own = jax.vmap(column, in_axes=(0, 1), out_axes=1)(basis, moved)
    if not system.nc:
        return value, own
    b = system.constraint_jacobian(problem.t, at.q)
    none = jnp.zeros((system.nc, system.nc), y.dtype)
    jacobian = jnp.block([[own, b.T], [dense.product(b, moved), none]])
    value = jnp.concatenate([value, system.constraint(problem.t, at.q)])
    return value, dense.regularized(jacobian, system.nc)


def _assembled(y: Array, problem: Problem, operator: bool) -> tuple[Array, Array | BlockTree]:
    # [S3] (40), scaled.
    system, at = problem.system, end(y, problem)
    tree = _tree(y, problem, at, operator)
    if tree is not None:
        return _equations(problem, at), tree
    k, c = system.tangent_matrices(problem.t, *at, problem.u)
    return _equations(problem, at), _scaled(y, problem, at, k, c, operator)


def _scaled(y: Array, problem: Problem, at: End, k: Array, c: Array, operator: bool) -> Array:
    system, t = problem.system, problem.t
    b = system.constraint_jacobian(t, at.q)
    moved = _moved(y, problem, operator)
    n = system.nv
    own = moved[:, :n]
    ratio = problem.gamma / problem.beta
    top = [system.mass_matrix(at.q) + ratio * c + k @ own / problem.beta, b.T]
    positions = b[: _positions(system)] @ own
    if problem.normal is None and not system.velocity_rows:
        none = jnp.zeros((system.nc, system.nc), y.dtype)
        jacobian = jnp.block([[*top], [positions, none]])
        return dense.regularized(jacobian, system.nc)
    rates = _rate_rows(problem, at, moved)
    none = jnp.zeros((system.nc, system.nc), y.dtype)
    if problem.normal is None:
        rows = jnp.concatenate([positions, b[_positions(system) :] + rates])
        return dense.regularized(jnp.block([[*top], [rows, none]]), system.nc)
    by_eta = moved[:, n:]
    jacobian = jnp.block(
        [
            [*top, k @ by_eta / problem.beta],
            [b + rates[:, :n], none, rates[:, n:]],
            [positions, none[: by_eta.shape[1]], b[: by_eta.shape[1]] @ by_eta],
        ]
    )
    return dense.regularized(jacobian, y.shape[0] - n)


def _moved(y: Array, problem: Problem, operator: bool) -> Array:
    """Velocities (nv, nv or nv + positions) along which q moves with Δ, and with η if there is."""
    space = problem.system.space
    basis = jnp.eye(problem.system.nv, dtype=y.dtype)
    if problem.normal is not None:
        basis = jnp.concatenate([basis, -problem.normal])
    if not operator:
        return basis.T
    x = space.rate_at_zero(_increment(y, problem))
    return jax.vmap(lambda dx: space.tangent_operator(x, space.rate_at_zero(dx)), out_axes=1)(basis)


def _rate_rows(problem: Problem, at: End, moved: Array) -> Array:
    """Derivatives of the velocity equations by the configuration, divided by γ'."""
    system = problem.system

    def rates(q):
        if problem.normal is None:
            return system.velocity_constraint(problem.t, q, at.v)
        return system.constraint_rate(problem.t, q, at.v)

    def column(v):
        return jax.jvp(rates, (at.q,), (system.space.lift(at.q, v),))[1]

    return jax.vmap(column, in_axes=1, out_axes=1)(moved) / problem.gamma


@eqx.filter_jit
def autodiff(y: Array, problem: Problem) -> tuple[Array, Array | BlockTree]:
    """Residual and Jacobian, by forward-mode derivatives of the residual along the lift, or in
    blocks along the joints if the system has them.
    """
    return _by_columns(y, problem, True)


@eqx.filter_jit
def analytic(y: Array, problem: Problem) -> tuple[Array, Array | BlockTree]:
    """The same from M, B, T and the system's tangent matrices. [S3] (40)"""
    return _assembled(y, problem, True)


def matrix(jacobian: str, operator: bool, y: Array, problem: Problem) -> Array | BlockTree:
    """The Jacobian by the one or the other way, with or without the tangent operator."""
    ways = {"autodiff": _by_columns, "analytic": _assembled}
    return ways[jacobian](y, problem, operator)[1]


def of_papers(operator: bool, y: Array, problem: Problem) -> Array:
    """The iteration matrix of [S3] (42), (43): no derivatives of M, Bᵀλ and given loads."""
    system, at = problem.system, end(y, problem)

    def force(q, v):
        return -system.internal_force(problem.t, q, v, problem.u)

    _, push = jax.linearize(force, at.q, at.v)
    basis = jnp.eye(system.nv, dtype=y.dtype)
    none = jnp.zeros_like(at.q), jnp.zeros_like(at.v)
    k = jax.vmap(lambda v: push(system.space.lift(at.q, v), none[1]), out_axes=1)(basis)
    c = jax.vmap(lambda v: push(none[0], v), out_axes=1)(basis)
    return _scaled(y, problem, at, k, c, operator)


def _bound(problem: Problem, y: Array, power: float) -> Array:
    eps = jnp.finfo(y.dtype).eps
    moved = jnp.max(jnp.abs(problem.increment + y[: problem.system.nv]))
    # A body at rest moves by rounding errors of its coordinates only.
    return eps**power * moved + 64.0 * eps * (1.0 + jnp.max(jnp.abs(problem.q)))


def _held(value: Array, problem: Problem) -> Array:
    # Constraints that contradict each other have corrections that vanish, too.
    rows = jnp.abs(value[problem.system.nv :])
    size = 1.0 + jnp.max(jnp.abs(problem.q))
    return jnp.max(rows, initial=0.0) <= jnp.finfo(value.dtype).eps ** 0.5 * size


def converged(correction: Array, value: Array, y: Array, problem: Problem) -> Array:
    """Whether a correction by the exact Jacobian leaves an error at the level of rounding."""
    moved = jnp.max(jnp.abs(correction[: problem.system.nv]))
    return (moved <= _bound(problem, y, 0.5)) & _held(value, problem)


def converged_linearly(sizes: Sizes, y: Array, problem: Problem) -> Array:
    """The same of a correction by another matrix, which reduces errors by a factor only."""
    moved = jnp.max(jnp.abs(sizes.correction[: problem.system.nv]))
    return (moved <= _bound(problem, y, 0.75)) & _held(sizes.value, problem)


def size(value: Array, problem: Problem) -> Array:
    """The largest entry of a residual."""
    return jnp.max(jnp.abs(value))


# The tolerances behind the tables of [S3].
_RELATIVE, _ABSOLUTE = 1e-8, 1e-10


def size_of_papers(value: Array, problem: Problem) -> Array:
    """2-norm of the residual in N, N m and m together."""
    n = problem.system.nv
    return jnp.sqrt(jnp.sum((problem.beta * value[:n]) ** 2) + jnp.sum(value[n:] ** 2))


def converged_of_papers(sizes: Sizes, y: Array, problem: Problem) -> Array:
    """Residual below 1e-8 of the first one, or below 1e-10."""
    return (sizes.residual <= _RELATIVE * sizes.first) | (sizes.residual <= _ABSOLUTE)
