"""All stages of a method together: one dense system of equations.

Unknowns are the rates ẋ of all stages, then their multipliers dt λ, then their η. The velocities of
the stages follow from the rates, and their accelerations from the velocities by a⁻¹.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.integrators.implicit import stage
from lie_jax.integrators.implicit.stage import Problem, Stages
from lie_jax.integrators.implicit.tableaux import TABLEAUX
from lie_jax.linearization import tangent_columns
from lie_jax.numerics import newton
from lie_jax.numerics.dense import DenseMatrix, product


def solve(
    tableau: str, jacobian: str, problem: Problem, acceleration: Array, multipliers: Array
) -> tuple[Stages, newton.Root]:
    """Stages of a step, from the acceleration and multipliers at its start, and the search."""
    c = TABLEAUX[tableau].c
    space, s = problem.system.space, len(c)
    nodes = problem.dt * jnp.asarray(c, problem.v.dtype)[:, None]
    velocities = problem.v[None] + nodes * acceleration[None]
    x = nodes * space.rate_at_zero(problem.v)[None]
    rates = jax.vmap(space.tangent_operator_inv)(x, velocities)
    unknowns = [rates, jnp.broadcast_to(problem.dt * multipliers, (s, multipliers.shape[0]))]
    unknowns.append(jnp.zeros((s, problem.rows[2]), problem.v.dtype))
    guess = jnp.concatenate([x.reshape(-1) for x in unknowns])
    linearize = partial(linearized, tableau, jacobian)
    search = partial(newton.full, linearize, partial(stage.converged, dynamic=s * problem.rows[0]))
    found = newton.root(search, partial(residual, tableau), linearize, guess, None, problem)
    rates, _, _, accelerations, multipliers = _stages(tableau, found.y, problem)
    worst = stage.numbered(found.worst, problem, s)
    return Stages(rates, accelerations, multipliers), found._replace(worst=worst)


def _stages(tableau: str, y: Array, problem: Problem) -> tuple[Array, ...]:
    """Rates, local coordinates, velocities, accelerations and multipliers of all stages."""
    a = TABLEAUX[tableau].a
    s = len(a)
    nv, nc, _ = problem.rows
    rates, multipliers, corrections = (
        x.reshape(s, -1) for x in jnp.split(y, (s * nv, s * (nv + nc)))
    )
    x = problem.dt * product(jnp.asarray(a, y.dtype), rates)
    v = jax.vmap(partial(stage.velocity, problem))(x, rates, corrections)
    inverse = jnp.asarray(np.linalg.inv(a), y.dtype)
    accelerations = product(inverse, v - problem.v[None]) / problem.dt
    return rates, x, v, accelerations, multipliers / problem.dt


def _times(tableau: str, problem: Problem) -> Array:
    return problem.t + problem.dt * jnp.asarray(TABLEAUX[tableau].c, problem.dt.dtype)


# Newton's method evaluates it at several places: a jitted function is traced once.
@eqx.filter_jit
def residual(tableau: str, y: Array, problem: Problem) -> Array:
    """Residual of all stages, with as many entries as unknowns: dynamic equations of all stages,
    then rates of constraints, then positions.
    """
    _, x, v, accelerations, multipliers = _stages(tableau, y, problem)

    def at(t, x, v, change, multipliers):
        q = problem.system.space.retract(problem.q, x)
        return stage.equations(problem, t, problem.dt, q, v, change, multipliers)

    parts = jax.vmap(at)(_times(tableau, problem), x, v, accelerations, multipliers)
    return jnp.concatenate([part.reshape(-1) for part in parts])


@eqx.filter_jit
def linearized(
    tableau: str, jacobian: str, y: Array, problem: Problem
) -> tuple[Array, DenseMatrix]:
    """Residual of all stages and its Jacobian."""
    if stage.by_derivatives(jacobian, problem.system):
        value, push = jax.linearize(lambda y: residual(tableau, y, problem), y)
        entries = jax.vmap(push, out_axes=1)(jnp.eye(y.shape[0], dtype=y.dtype))
    else:
        value, entries = residual(tableau, y, problem), _matrix(tableau, y, problem)
    rows = y.shape[0] - len(TABLEAUX[tableau].c) * problem.rows[0]
    return value, DenseMatrix(entries, rows).regularized()


def _matrix(tableau: str, y: Array, problem: Problem) -> Array:
    """The Jacobian from the linearizations of the system at the stages.

    A rate of stage j moves the coordinates of stage i by dt a_ij and its velocity by the change of
    T(x) along that, its own velocity by T(x), too; accelerations follow from velocities by a⁻¹.
    """
    a, dt, system = TABLEAUX[tableau].a, problem.dt, problem.system
    nv, nc, positions = problem.rows
    s, space = len(a), system.space
    identity = jnp.eye(nv, dtype=y.dtype)
    rates, x, v, accelerations, multipliers = _stages(tableau, y, problem)
    normals = jnp.zeros((0, nv), y.dtype) if problem.reactions is None else problem.reactions.rows

    def at(t, x, rate, v, change, multipliers):
        q = space.retract(problem.q, x)
        point = problem, t, q, v, change, multipliers
        dense = stage.linearization("analytic", *point).dense()
        none = jnp.zeros_like(identity)
        mass = dense.combined(none, 0.0, 0.0)
        damping = dense.combined(none, 0.0, 1.0) - mass
        operator = jax.vmap(partial(space.tangent_operator, x), out_axes=1)(identity)
        stiffness = dense.combined(operator, 1.0, 0.0) - mass
        moving = space.tangent_operator(x, rate)

        def turned(dx):
            # The derivative of T(x) ẋ along dx, from that of the inverse.
            change = space.tangent_operator_inv_derivative(x, dx, moving)
            return -space.tangent_operator(x, change)

        turning = jax.vmap(turned, out_axes=1)(identity)
        by_rates = dense.rate_columns(operator, 1.0)
        return mass, damping, stiffness, dense.constraints, by_rates, operator, turning

    parts = jax.vmap(at)(_times(tableau, problem), x, rates, v, accelerations, multipliers)
    mass, damping, stiffness, constraints, by_rates, operators, turnings = parts
    inverse = np.linalg.inv(a)
    zero = jnp.zeros

    # Changes of the velocity of stage i by the rates of stage j, then by η of stage j.
    def velocities(i, j):
        change = dt * a[i, j] * turnings[i]
        return change + operators[i] if i == j else change

    moved = [[velocities(i, j) for j in range(s)] for i in range(s)]
    accelerated = [
        [sum(float(inverse[i, k]) * moved[k][j] for k in range(s)) for j in range(s)]
        for i in range(s)
    ]
    rows = [[], [], []]
    for i in range(s):
        by_motion = product(mass[i], jnp.concatenate([*accelerated[i], normals.T], axis=1))
        by_velocity = jnp.concatenate([dt * damping[i], constraints[i]])
        by_velocity = product(by_velocity, jnp.concatenate([*moved[i], normals.T], axis=1))
        coordinates = [dt * a[i, j] for j in range(s)]
        by_position = jnp.concatenate(
            [dt * factor * stiffness[i] for factor in coordinates], axis=1
        )
        own = np.arange(s) == i
        dynamic = by_motion[:, : s * nv] + by_velocity[:nv, : s * nv] + by_position
        dynamic = [dynamic, *(constraints[i].T if at else zero((nv, nc), y.dtype) for at in own)]
        dynamic += [
            float(inverse[i, j]) * by_motion[:, s * nv :]
            + (by_velocity[:nv, s * nv :] if own[j] else 0.0)
            for j in range(s)
        ]
        rate = by_velocity[nv:, : s * nv] + jnp.concatenate(
            [factor * by_rates[i] for factor in coordinates], axis=1
        )
        rate = [rate, zero((nc, s * nc), y.dtype)]
        rate += [by_velocity[nv:, s * nv :] if at else zero((nc, positions), y.dtype) for at in own]
        position = product(constraints[i][:positions], operators[i])
        position = [float(a[i, j]) * position for j in range(s)]
        position.append(zero((positions, s * (nc + positions)), y.dtype))
        for parts, row in zip(rows, (dynamic, rate, position), strict=True):
            parts.append(jnp.concatenate(row, axis=1))
    return jnp.concatenate([part for parts in rows for part in parts])
